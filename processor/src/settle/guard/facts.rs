//! What `clicks` and `arrivals` say of an hour: its events, rows and waiting lines. Files never change, so each of `clicks`
//! is read once, and no more of it kept than some numbers.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use arrow::array::{Array as _, AsArray as _, RecordBatch, StringArray};
use arrow::datatypes::{Float64Type, TimestampMicrosecondType};
use schemas::time::HOUR;
use schemas::{ClickId, LinkId, Source, UtcMicros};

use crate::lake::{LakeError, TableHandle};
use crate::settle::ids::click_ids;
use crate::settle::sampled::links_of;
use crate::settle::waiting::corrects;

/// An id made at the origin has its time in it; it is taken for one if that is so near the event's.
const MADE_NEAR: Duration = Duration::from_secs(60);

/// Rows recovered from the lines of an import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Recovered {
    /// All of them.
    pub(super) rows: u64,
    /// Those of links of ours.
    pub(super) linked: u64,
}

/// What one hour's rows of a workspace in `clicks` say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rows {
    /// Events that an edge's id names.
    pub(super) named: u64,
    /// Events that were given an id at the origin.
    pub(super) nameless: u64,
    /// Events made elsewhere, by import.
    pub(super) told: HashMap<String, u64>,
    /// Rows recovered from lines, by import.
    pub(super) recovered: HashMap<String, Recovered>,
}

/// What one hour's rows say, by workspace.
pub(super) type HourRows = BTreeMap<String, Rows>;

/// Rows of `clicks` by hour, of files that have been asked for.
#[derive(Debug, Default)]
pub(super) struct ClickFacts(HashMap<String, BTreeMap<i64, HourRows>>);

impl ClickFacts {
    /// What the snapshot says of an hour.
    pub(super) async fn of(&mut self, clicks: &TableHandle, hour: i64) -> Result<HourRows, LakeError> {
        let live: HashSet<&str> = clicks.files().iter().map(|file| file.path.as_str()).collect();
        self.0.retain(|path, _| live.contains(path.as_str()));
        let mut all = HourRows::default();
        for file in clicks.files_between(UtcMicros(hour * HOUR), UtcMicros((hour + 1) * HOUR - 1)) {
            if !self.0.contains_key(&file.path) {
                let columns = ["click_id", "event_time", "source", "import_id", "link_id", "workspace", "weight"];
                let batches = clicks.read(file, &columns).await?;
                let mut hours = BTreeMap::new();
                batches.iter().for_each(|batch| take_in(batch, &mut hours));
                self.0.insert(file.path.clone(), hours);
            }
            let hours = self.0.get(&file.path);
            for (workspace, rows) in hours.and_then(|hours| hours.get(&hour)).into_iter().flatten() {
                all.entry(workspace.clone()).or_default().add(rows);
            }
        }
        Ok(all)
    }
}

impl Rows {
    fn add(&mut self, more: &Self) {
        self.named += more.named;
        self.nameless += more.nameless;
        for (import, told) in &more.told {
            *self.told.entry(import.clone()).or_default() += told;
        }
        for (import, recovered) in &more.recovered {
            let of = self.recovered.entry(import.clone()).or_default();
            of.rows += recovered.rows;
            of.linked += recovered.linked;
        }
    }
}

fn take_in(batch: &RecordBatch, hours: &mut BTreeMap<i64, HourRows>) {
    let text = |name: &str| batch.column_by_name(name).and_then(|column| column.as_string_opt::<i32>());
    let times = times(batch, "event_time");
    let weights = batch.column_by_name("weight").and_then(|column| column.as_primitive_opt::<Float64Type>());
    let (Some(sources), Some(imports), Some(links), Some(workspaces), Some(times)) =
        (text("source"), text("import_id"), text("link_id"), text("workspace"), times)
    else {
        return;
    };
    for (row, id) in click_ids(batch).enumerate() {
        let time = UtcMicros(times.value(row));
        let hour = hours.entry(time.hour()).or_default();
        let workspace = workspaces.value(row);
        if !hour.contains_key(workspace) {
            hour.insert(workspace.to_owned(), Rows::default());
        }
        let Some(of) = hour.get_mut(workspace) else { continue };
        // one that stands for others says nothing of how many lines have met their event
        let counts = u64::from(weights.is_none_or(|weights| weights.value(row) <= 1.0));
        match sources.value(row).parse() {
            Ok(Source::Origin) if imports.is_valid(row) => {
                *of.told.entry(imports.value(row).to_owned()).or_default() += counts;
            }
            Ok(Source::Origin) if is_made_here(id, time) => of.nameless += counts,
            Ok(Source::Origin) => of.named += counts,
            Ok(Source::Recovered) => {
                let of = of.recovered.entry(text_or_none(imports, row)).or_default();
                of.rows += counts;
                of.linked += if links.is_valid(row) { counts } else { 0 };
            }
            _ => {}
        }
    }
}

fn is_made_here(id: ClickId, time: UtcMicros) -> bool {
    id.made_at().is_some_and(|made| made.minus(MADE_NEAR) <= time && time <= made.plus(MADE_NEAR))
}

fn times<'a>(batch: &'a RecordBatch, name: &str) -> Option<&'a arrow::array::PrimitiveArray<TimestampMicrosecondType>> {
    batch.column_by_name(name)?.as_primitive_opt()
}

/// An origin-class line in `arrivals`.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) id: ClickId,
    pub(super) time: UtcMicros,
    pub(super) import: String,
    pub(super) arrived: UtcMicros,
    /// Whether it is of a link of ours.
    pub(super) is_linked: bool,
    /// Whose link it is of.
    pub(super) workspace: String,
    /// Whether that one has uploaded it.
    pub(super) is_uploaded: bool,
    /// The link, if its clicks may be sampled.
    pub(super) sampled_link: Option<LinkId>,
}

/// Whether a line that is `brought` so is of this provider, and whether a tenant has uploaded it.
fn is_of(brought: &str, provider: &str) -> (bool, bool) {
    match brought.strip_prefix(provider) {
        Some("") => (true, false),
        Some(rest) => (rest.starts_with('/'), true),
        None => (false, false),
    }
}

/// The origin-class lines of a provider that wait, of these hours, whoever brought them.
pub(super) async fn waiting(
    arrivals: &TableHandle,
    provider: &str,
    hours: &BTreeSet<i64>,
) -> Result<Vec<Waiting>, LakeError> {
    let mut found = Vec::new();
    let meets = |from: Option<UtcMicros>, to: Option<UtcMicros>| {
        let (from, to) = (from.map_or(i64::MIN, UtcMicros::hour), to.map_or(i64::MAX, UtcMicros::hour));
        hours.range(from..=to).next().is_some()
    };
    for file in arrivals.files().iter().filter(|file| meets(file.min_time, file.max_time)) {
        let columns = [
            "click_id",
            "event_time",
            "source",
            "import_id",
            "link_id",
            "provider",
            "arrived_at",
            "corrects",
            "workspace",
            "weight",
        ];
        for batch in arrivals.read(file, &columns).await? {
            let text = |name: &str| batch.column_by_name(name).and_then(|column| column.as_string_opt::<i32>());
            let (Some(sources), Some(imports), Some(links), Some(brought), Some(workspaces)) =
                (text("source"), text("import_id"), text("link_id"), text("provider"), text("workspace"))
            else {
                continue;
            };
            let (Some(at), Some(arrived)) = (times(&batch, "event_time"), times(&batch, "arrived_at")) else {
                continue;
            };
            let sampled_links = links_of(std::slice::from_ref(&batch));
            for (row, id) in click_ids(&batch).enumerate() {
                let (time, sampled_link) = (UtcMicros(at.value(row)), sampled_links[row]);
                let (is_of, is_uploaded) = is_of(brought.value(row), provider);
                let is_origin = sources.value(row) == Source::Recovered.as_str();
                if is_of && is_origin && hours.contains(&time.hour()) && !corrects(&batch, row) {
                    let (import, arrived) = (text_or_none(imports, row), UtcMicros(arrived.value(row)));
                    let (is_linked, workspace) = (links.is_valid(row), workspaces.value(row).to_owned());
                    found.push(Waiting { id, time, import, arrived, is_linked, workspace, is_uploaded, sampled_link });
                }
            }
        }
    }
    Ok(found)
}

fn text_or_none(texts: &StringArray, row: usize) -> String {
    if texts.is_valid(row) { texts.value(row).to_owned() } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_providers_lines_are_known_by_how_they_were_brought() {
        assert_eq!(is_of("nginx", "nginx"), (true, false));
        assert_eq!(is_of("nginx/acme", "nginx"), (true, true));
        assert!(!is_of("nginx-2", "nginx").0 && !is_of("other", "nginx").0);
    }

    #[test]
    fn ids_made_at_the_origin_are_told_from_an_edges() {
        let now = UtcMicros::now();
        assert!(is_made_here(ClickId::unique(), now));
        assert!(!is_made_here(ClickId::unique(), now.plus(Duration::from_secs(3_600))));
        let named = (0..100_000u64).filter(|n| is_made_here(ClickId::from_edge("nginx", &n.to_le_bytes(), "k"), now));
        assert_eq!(named.count(), 0);
    }
}
