//! Answering a report: pins a snapshot, asks the plan's questions of it, puts the answer together.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::RecordBatch;
use datafusion::prelude::DataFrame;
use schemas::sketch::STANDARD_ERROR;
use schemas::tables::Table;
use schemas::{Principal, UtcMicros};
use serde_json::{Value, json};

use super::answer::{Meta, NOTE, NOTHING, Part, Report, Row, Totals, local_text};
use super::buckets::{self, MAX_BUCKETS, TooMany};
use super::estimate::{CONFIDENCE, Estimate};
use super::period::Span;
use super::plan;
use super::request::{Classes, ReportRequest};
use super::sampled::{Part as Scope, Sampled, Visitors};
use super::shape::{self, Sums};
use super::touched::Touched;
use crate::engine::Engine;
use crate::error::QueryError;
use crate::failure::classify;
use crate::ports::StatusSource;
use crate::tables::TableSnapshot;

/// Answers `request` as far as `principal` may see. `not_before`: the snapshot is looked at after that.
pub(crate) async fn report(
    engine: Arc<Engine>,
    status: Arc<dyn StatusSource>,
    principal: Principal,
    request: ReportRequest,
    not_before: Option<Instant>,
) -> Result<Report, QueryError> {
    let now = UtcMicros::now();
    let snapshot = engine.tables.snapshot(Table::Clicks, not_before).await?;
    let session = engine.session();
    let clicks = session.read_table(engine.tables.provider(&snapshot, &principal)).map_err(|e| classify(&e))?;
    let rows = plan::in_scope(clicks, &request).map_err(|error| classify(&error))?;
    let extent = match request.period.needs_extent() {
        true => extent(rows.clone()).await?,
        false => None,
    };
    let span = request
        .period
        .resolve(request.timezone, now, request.interval, extent)
        .map_err(|error| QueryError::Invalid(vec![error]))?;
    let ends = ends(&request, span)?;
    let rows = plan::in_span(rows, span).map_err(|error| classify(&error))?;
    let chosen = plan::of_chosen_classes(rows.clone(), &request).map_err(|error| classify(&error))?;

    let by_class = collect(plan::by_class(rows));
    let totals = collect(plan::totals(chosen.clone(), request.group_by));
    let data = async {
        match (&ends, request.group_by) {
            (Some(ends), _) => collect(plan::series(chosen.clone(), ends)).await,
            (None, Some(dimension)) => collect(plan::groups(chosen.clone(), dimension, request.limit)).await,
            (None, None) => Ok(Vec::new()),
        }
    };
    // said before the commits that this snapshot holds: whoever looks after it finds it
    let said_since = Some(not_before.unwrap_or(snapshot.seen).max(snapshot.seen));
    let touched = Touched { engine: &engine, session: &session, principal: &principal, span };
    let gaps = touched.gaps(not_before);
    let restated = touched.restated(said_since);
    // one after the other: each uses all threads, and their footers are then in the cache
    let (by_class, totals, data) = (by_class.await?, totals.await?, data.await?);
    let (gaps, restated, changing) = (gaps.await?, restated.await?, touched.changing(&*status).await?);
    let whole = |from: &UtcMicros| !request.period.needs_extent() && span.start >= *from;
    let (restated_at, kept_from) = (restated.at, restated.kept_from.filter(|from| !whole(from)));
    let groups = if request.group_by.is_some() { shape::values(&data)? } else { Vec::new() };
    let sampled = touched.sampled(&request, ends.as_ref(), chosen, &groups, (now, said_since)).await?;

    let private = read_private(&totals)?;
    let (totals, unknown) = read_totals(&totals, request.group_by.is_some())?;
    let heaviest = totals.heaviest.max(sampled.heaviest(&Scope::Whole));
    let (data, [other, unknown]) = match (&ends, request.group_by) {
        (Some(ends), _) => (shape::series(&data, ends, request.timezone, &sampled)?, [Part::default(); 2]),
        (None, Some(_)) => {
            let (rows, shown) = shape::groups(&data, heaviest, &sampled)?;
            let parts = [totals.estimate.minus(shown).minus(unknown), unknown];
            (rows, parts.map(|part| Part::of(part, heaviest)))
        }
        (None, None) => Default::default(),
    };
    let visitors = how_visitors_are_counted((&totals, private), &sampled, &data);
    let counts = totals.counts(heaviest, sampled.visitors(&Scope::Whole));
    let by_class = read_classes(&by_class)?;
    let remark = (request.names_links() && by_class.is_empty()).then_some(NOTHING);
    Ok(Report {
        data,
        totals: Totals { counts, by_class },
        other,
        unknown,
        meta: Meta { gaps, restated_at, kept_from, changing, visitors, remark, ..meta(&snapshot, heaviest) },
        query: echo(&request, span),
    })
}

pub(super) async fn collect(frame: datafusion::error::Result<DataFrame>) -> Result<Vec<RecordBatch>, QueryError> {
    let frame = frame.map_err(|error| classify(&error))?;
    frame.collect().await.map_err(|error| classify(&error))
}

async fn extent(rows: DataFrame) -> Result<Option<(UtcMicros, UtcMicros)>, QueryError> {
    for batch in collect(plan::extent(rows)).await? {
        let (first, last) = (shape::integers(&batch, "first")?, shape::integers(&batch, "last")?);
        if let (Some(Some(first)), Some(Some(last))) = (first.first(), last.first()) {
            return Ok(Some((UtcMicros(*first), UtcMicros(*last))));
        }
    }
    Ok(None)
}

fn ends(request: &ReportRequest, span: Span) -> Result<Option<Arc<[i64]>>, QueryError> {
    let Some(interval) = request.interval else { return Ok(None) };
    if span.start >= span.end {
        return Ok(Some(Arc::from([span.start.0])));
    }
    match buckets::ends(request.timezone, interval, span.start, span.end) {
        Ok(ends) => Ok(Some(ends.into())),
        Err(TooMany) => {
            let message = format!("more than {MAX_BUCKETS} buckets; ask for a shorter time or a wider interval");
            Err(QueryError::field("interval", message))
        }
    }
}

/// The totals, and of a grouping also what has no value to group by.
fn read_totals(batches: &[RecordBatch], grouped: bool) -> Result<(Sums, Estimate), QueryError> {
    let Some(batch) = batches.iter().find(|batch| batch.num_rows() > 0) else { return Ok(Default::default()) };
    let sums = shape::sums(batch)?.first().copied().unwrap_or_default();
    let unknown = if grouped { shape::estimates(batch, plan::UNKNOWN)? } else { Vec::new() };
    Ok((sums, unknown.first().copied().unwrap_or_default()))
}

/// How many clicks are of clients that asked not to be known.
fn read_private(batches: &[RecordBatch]) -> Result<f64, QueryError> {
    let Some(batch) = batches.iter().find(|batch| batch.num_rows() > 0) else { return Ok(0.0) };
    Ok(shape::floats(batch, plan::PRIVATE)?.into_iter().sum())
}

fn read_classes(batches: &[RecordBatch]) -> Result<BTreeMap<String, u64>, QueryError> {
    let mut classes = BTreeMap::new();
    for batch in batches {
        let weights = shape::floats(batch, "weight")?;
        classes
            .extend(shape::texts(batch, "class")?.into_iter().zip(weights.iter().map(|weight| weight.round() as u64)));
    }
    Ok(classes)
}

fn meta(snapshot: &TableSnapshot, heaviest: f64) -> Meta {
    Meta {
        as_of: snapshot.as_of,
        complete_through: snapshot.freshness.complete_through,
        final_through: snapshot.freshness.final_through,
        sampled: heaviest > 1.0,
        lowest_rate: 1.0 / heaviest.max(1.0),
        confidence: CONFIDENCE,
        visitors: String::new(),
        restated_at: None,
        kept_from: None,
        gaps: Vec::new(),
        changing: Vec::new(),
        remark: None,
        note: NOTE,
    }
}

fn how_visitors_are_counted((totals, private): (&Sums, f64), sampled: &Sampled, data: &[Row]) -> String {
    // a line was sampled in its own second, and its event has said since that it was another one
    let is_weighed = |row: &Row| row.counts().visitors.is_none() && row.counts().clicks_low < row.counts().clicks_high;
    let mut said = match (sampled.visitors(&Scope::Whole), sampled.why_unknown()) {
        (_, Some(why)) => format!("not counted: {why}"),
        (Visitors::Estimated { .. }, _) => format!(
            "estimated with a standard error of {:.1} %, by sketches of what was sampled away; counted once a UTC day",
            STANDARD_ERROR * 100.0
        ),
        _ if totals.heaviest > 1.0 => "not counted: sampled rows can't tell how many visitors there were".to_owned(),
        _ => "exact, counted once a UTC day".to_owned(),
    };
    match sampled.why_rows_unknown() {
        Some(why) => said.extend(["; ", &why]),
        None if said.starts_with("not counted") => {}
        None if data.iter().any(is_weighed) => {
            said.push_str("; not known where the time of sampled clicks was corrected")
        }
        None => {}
    }
    let (nameless, private) = ((totals.estimate.weight - totals.known).round(), private.round());
    if nameless >= 1.0 {
        said.push_str(&format!("; {nameless} clicks have no known visitor"));
        if private >= 1.0 {
            said.push_str(&format!(", {private} of them because the client asked not to be known"));
        }
    }
    said
}

/// The request as understood: absolute times, defaults filled in.
fn echo(request: &ReportRequest, span: Span) -> BTreeMap<String, Value> {
    let mut echo = BTreeMap::new();
    let mut put = |name: &str, value: Value| echo.insert(name.to_owned(), value);
    put("start", json!(local_text(request.timezone, span.start)));
    put("end", json!(local_text(request.timezone, span.end)));
    put("timezone", json!(request.timezone.name()));
    put(
        "class",
        match &request.class {
            Classes::All => json!(["all"]),
            Classes::Some(classes) => json!(classes),
        },
    );
    for (name, values) in [("code", &request.code), ("domain", &request.domain)] {
        if !values.is_empty() {
            put(name, json!(values));
        }
    }
    if !request.link_id.is_empty() {
        put("link_id", json!(request.link_id));
    }
    if let Some(preset) = request.period.preset {
        put("interval_preset", json!(preset.to_string()));
    }
    if let Some(interval) = request.interval {
        put("interval", json!(interval));
    }
    if let Some(dimension) = request.group_by {
        put("group_by", json!(dimension.name()));
        put("limit", json!(request.limit));
    }
    for (prefix, filters) in [("", &request.only), ("not_", &request.not)] {
        for (dimension, values) in filters {
            put(&format!("{prefix}{}", dimension.name()), json!(values));
        }
    }
    echo
}
