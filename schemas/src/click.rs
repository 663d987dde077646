//! A row of table `clicks` (interface §6), and the builder that turns rows into Arrow batches.

use std::sync::{Arc, LazyLock};

use arrow::array::{
    ArrayRef, BinaryBuilder, BooleanBuilder, Float64Builder, Int32Builder, Int64Builder, RecordBatch, StringBuilder,
    TimestampMicrosecondBuilder, new_null_array,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow::error::ArrowError;
use uuid::fmt::Hyphenated;

use crate::class::{Class, Device, Method, Source};
use crate::ids::{ClickId, LinkId};
use crate::time::UtcMicros;

/// What is known of a user agent, shared by all clicks of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentInfo {
    /// Sort of device.
    pub device: Device,
    /// Browser family, if known.
    pub browser: Option<Arc<str>>,
    /// Its version, `major.minor…` as far as known.
    pub browser_version: Option<Arc<str>>,
    /// Operating system, if known.
    pub os: Option<Arc<str>>,
    /// Its version.
    pub os_version: Option<Arc<str>>,
}

/// The judgement of who made a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What sort of client.
    pub class: Class,
    /// Platform or bot name; `None` for people.
    pub agent: Option<Arc<str>>,
    /// The rule that decided.
    pub reason: Arc<str>,
    /// Version of the rules.
    pub rules_version: i32,
}

/// Campaign parameters of a click.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Utm {
    /// `utm_source`
    pub source: Option<Arc<str>>,
    /// `utm_medium`
    pub medium: Option<Arc<str>>,
    /// `utm_campaign`
    pub campaign: Option<Arc<str>>,
    /// `utm_term`
    pub term: Option<Arc<str>>,
    /// `utm_content`
    pub content: Option<Arc<str>>,
}

/// One row of `clicks`. Texts that repeat are shared.
#[derive(Clone, Debug, PartialEq)]
pub struct Click {
    /// Identity of the request; unique in the table.
    pub click_id: ClickId,
    /// When the request was answered.
    pub event_time: UtcMicros,
    /// When the row was made.
    pub ingest_time: UtcMicros,
    /// The tenant.
    pub workspace: Arc<str>,
    /// The link; `None` for a code that the link store lacks.
    pub link_id: Option<LinkId>,
    /// Host name; empty when the log has none.
    pub domain: Arc<str>,
    /// The code.
    pub code: Arc<str>,
    /// The link's revision in force at `event_time`.
    pub revision: Option<i32>,
    /// Where it led.
    pub destination: Option<Arc<str>>,
    /// Where the record came from.
    pub source: Source,
    /// Who made the request.
    pub verdict: Verdict,
    /// `None` where the log has none.
    pub method: Option<Method>,
    /// The answer's status.
    pub status: i32,
    /// ISO 3166 alpha-2, upper case.
    pub country: Option<Arc<str>>,
    /// Region within the country.
    pub region: Option<Arc<str>>,
    /// City.
    pub city: Option<Arc<str>>,
    /// What the user agent says of browser, system and device.
    pub agent_info: Arc<AgentInfo>,
    /// The import that brought the row; `None` for the stream.
    pub import_id: Option<Arc<str>>,
    /// Host of the referrer.
    pub referrer: Option<Arc<str>>,
    /// Campaign parameters.
    pub utm: Utm,
    /// First language the client asks for.
    pub language: Option<Arc<str>>,
    /// User agent in full.
    pub user_agent: Option<Arc<str>>,
    /// Address cut to /24 or /48.
    pub client_net: Option<Arc<str>>,
    /// Visitor of that UTC day.
    pub visitor: Option<i64>,
    /// 1 / probability that this row was kept.
    pub weight: f64,
    /// The listed parameters of the click's query, as they were on the wire.
    pub query: Option<Arc<str>>,
    /// The client asked for privacy: visitor, network and city are left out, whoever tells them.
    pub private: bool,
}

/// A row whose texts are somebody else's: what goes straight into a batch needs no copies of its own.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "each field is that of `Click`")]
pub struct ClickRow<'a> {
    pub click_id: ClickId,
    pub event_time: UtcMicros,
    pub ingest_time: UtcMicros,
    pub workspace: &'a str,
    pub link_id: Option<LinkId>,
    pub domain: &'a str,
    pub code: &'a str,
    pub revision: Option<i32>,
    pub destination: Option<&'a str>,
    pub source: Source,
    pub verdict: &'a Verdict,
    pub method: Option<Method>,
    pub status: i32,
    pub country: Option<&'a str>,
    pub region: Option<&'a str>,
    pub city: Option<&'a str>,
    pub agent_info: &'a AgentInfo,
    pub import_id: Option<&'a str>,
    pub referrer: Option<&'a str>,
    /// In the order of [`Utm`].
    pub utm: [Option<&'a str>; 5],
    pub language: Option<&'a str>,
    pub user_agent: Option<&'a str>,
    pub client_net: Option<&'a str>,
    pub visitor: Option<i64>,
    pub weight: f64,
    pub query: Option<&'a str>,
    pub private: bool,
}

impl Utm {
    /// The parameters in their order.
    pub fn as_texts(&self) -> [Option<&str>; 5] {
        [&self.source, &self.medium, &self.campaign, &self.term, &self.content].map(|text| text.as_deref())
    }
}

impl Click {
    /// The same row with its texts borrowed.
    pub fn as_row(&self) -> ClickRow<'_> {
        ClickRow {
            click_id: self.click_id,
            event_time: self.event_time,
            ingest_time: self.ingest_time,
            workspace: &self.workspace,
            link_id: self.link_id,
            domain: &self.domain,
            code: &self.code,
            revision: self.revision,
            destination: self.destination.as_deref(),
            source: self.source,
            verdict: &self.verdict,
            method: self.method,
            status: self.status,
            country: self.country.as_deref(),
            region: self.region.as_deref(),
            city: self.city.as_deref(),
            agent_info: &self.agent_info,
            import_id: self.import_id.as_deref(),
            referrer: self.referrer.as_deref(),
            utm: self.utm.as_texts(),
            language: self.language.as_deref(),
            user_agent: self.user_agent.as_deref(),
            client_net: self.client_net.as_deref(),
            visitor: self.visitor,
            weight: self.weight,
            query: self.query.as_deref(),
            private: self.private,
        }
    }
}

/// Arrow's type of every instant in the lake.
pub fn timestamp() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

/// The columns that a data file of `clicks` holds: all but the partition column `date`.
pub static DATA_SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| Arc::new(Schema::new(data_fields())));

/// All columns of `clicks`, `date` last.
pub static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    let mut fields = data_fields();
    fields.push(Field::new("date", DataType::Date32, false));
    Arc::new(Schema::new(fields))
});

fn data_fields() -> Vec<Field> {
    let text = |name: &str, nullable| Field::new(name, DataType::Utf8, nullable);
    vec![
        Field::new("click_id", DataType::Binary, false),
        Field::new("event_time", timestamp(), false),
        Field::new("ingest_time", timestamp(), false),
        text("workspace", false),
        text("link_id", true),
        text("domain", false),
        text("code", false),
        Field::new("revision", DataType::Int32, true),
        text("destination", true),
        text("source", false),
        text("class", false),
        text("agent", true),
        text("class_reason", false),
        Field::new("rules_version", DataType::Int32, false),
        text("method", true),
        Field::new("status", DataType::Int32, false),
        text("country", true),
        text("region", true),
        text("city", true),
        text("device", false),
        text("browser", true),
        text("browser_version", true),
        text("os", true),
        text("os_version", true),
        text("import_id", true),
        text("referrer", true),
        text("utm_source", true),
        text("utm_medium", true),
        text("utm_campaign", true),
        text("utm_term", true),
        text("utm_content", true),
        text("language", true),
        text("user_agent", true),
        text("client_net", true),
        Field::new("visitor", DataType::Int64, true),
        Field::new("weight", DataType::Float64, false),
        // what came later; tables of before grow (the processor's lake)
        text("query", true),
        Field::new("private", DataType::Boolean, true),
    ]
}

/// How many text columns there are.
const TEXTS: usize = 29;

/// A text of unknown length is taken to be no longer than this when room is made for those that follow it.
const USUAL_TEXT_BYTES: usize = 64;

/// A text column. Most rows have no text in many of them, so those are only counted until there is one.
#[derive(Debug, Default)]
struct TextColumn {
    texts: Option<StringBuilder>,
    /// Rows without a text after the last that has one.
    nulls: usize,
    /// Rows to make room for with the first text.
    rows: usize,
    /// Bytes likewise; where that isn't known, the first text tells.
    bytes: Option<usize>,
}

impl TextColumn {
    fn push(&mut self, text: Option<&str>) {
        let Some(text) = text else {
            self.nulls += 1;
            return;
        };
        let texts = self.texts.get_or_insert_with(|| {
            let bytes = self.bytes.unwrap_or_else(|| self.rows * text.len().min(USUAL_TEXT_BYTES));
            StringBuilder::with_capacity(self.rows, bytes)
        });
        if self.nulls > 0 {
            texts.append_nulls(std::mem::take(&mut self.nulls));
        }
        texts.append_value(text);
    }

    /// The column; what comes next will have room for as much again.
    fn finish(&mut self) -> ArrayRef {
        let nulls = std::mem::take(&mut self.nulls);
        let Some(mut texts) = self.texts.take() else { return new_null_array(&DataType::Utf8, nulls) };
        texts.append_nulls(nulls);
        let (rows, bytes) = (arrow::array::ArrayBuilder::len(&texts), texts.values_slice().len());
        (self.rows, self.bytes) = (rows + rows / 16, Some(bytes + bytes / 16));
        Arc::new(texts.finish())
    }
}

/// Collects rows into a batch of [`DATA_SCHEMA`].
#[derive(Debug)]
pub struct ClickBuilder {
    click_id: BinaryBuilder,
    event_time: TimestampMicrosecondBuilder,
    ingest_time: TimestampMicrosecondBuilder,
    revision: Int32Builder,
    rules_version: Int32Builder,
    status: Int32Builder,
    visitor: Int64Builder,
    weight: Float64Builder,
    private: BooleanBuilder,
    /// The text columns, in the schema's order.
    texts: Vec<TextColumn>,
}

impl Default for ClickBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl ClickBuilder {
    /// An empty builder.
    pub fn new() -> Self {
        Self::with_capacity(0)
    }

    /// An empty builder with room for so many rows.
    pub fn with_capacity(rows: usize) -> Self {
        let column = |_| TextColumn { rows, ..TextColumn::default() };
        Self::with_room((0..TEXTS).map(column).collect(), rows)
    }

    /// An empty builder with these text columns, and room in the others for so many rows.
    fn with_room(texts: Vec<TextColumn>, rows: usize) -> Self {
        let instants = || TimestampMicrosecondBuilder::with_capacity(rows).with_timezone("UTC");
        Self {
            click_id: BinaryBuilder::with_capacity(rows, rows * size_of::<ClickId>()),
            event_time: instants(),
            ingest_time: instants(),
            revision: Int32Builder::with_capacity(rows),
            rules_version: Int32Builder::with_capacity(rows),
            status: Int32Builder::with_capacity(rows),
            visitor: Int64Builder::with_capacity(rows),
            weight: Float64Builder::with_capacity(rows),
            private: BooleanBuilder::with_capacity(rows),
            texts,
        }
    }

    /// Rows so far.
    pub fn len(&self) -> usize {
        arrow::array::ArrayBuilder::len(&self.weight)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a row.
    pub fn push(&mut self, click: &Click) {
        self.push_row(&click.as_row());
    }

    /// Adds a row whose texts are borrowed.
    pub fn push_row(&mut self, row: &ClickRow<'_>) {
        let mut link_id = [0; Hyphenated::LENGTH];
        let link_id = row.link_id.map(|id| &*id.0.hyphenated().encode_lower(&mut link_id));
        self.click_id.append_value(row.click_id.0);
        self.event_time.append_value(row.event_time.0);
        self.ingest_time.append_value(row.ingest_time.0);
        self.revision.append_option(row.revision);
        self.rules_version.append_value(row.verdict.rules_version);
        self.status.append_value(row.status);
        self.visitor.append_option(row.visitor);
        self.weight.append_value(row.weight);
        self.private.append_option(row.private.then_some(true));
        let info = row.agent_info;
        let [utm_source, utm_medium, utm_campaign, utm_term, utm_content] = row.utm;
        let texts: [Option<&str>; TEXTS] = [
            Some(row.workspace),
            link_id,
            Some(row.domain),
            Some(row.code),
            row.destination,
            Some(row.source.as_str()),
            Some(row.verdict.class.as_str()),
            row.verdict.agent.as_deref(),
            Some(&row.verdict.reason),
            row.method.map(Method::as_str),
            row.country,
            row.region,
            row.city,
            Some(info.device.as_str()),
            info.browser.as_deref(),
            info.browser_version.as_deref(),
            info.os.as_deref(),
            info.os_version.as_deref(),
            row.import_id,
            row.referrer,
            utm_source,
            utm_medium,
            utm_campaign,
            utm_term,
            utm_content,
            row.language,
            row.user_agent,
            row.client_net,
            row.query,
        ];
        for (column, text) in self.texts.iter_mut().zip(texts) {
            column.push(text);
        }
    }

    /// The rows as a batch; the builder is empty afterwards, with room for as many again.
    ///
    /// # Errors
    /// When a column doesn't fit the schema: a fault of this file.
    pub fn finish(&mut self) -> Result<RecordBatch, ArrowError> {
        let rows = self.take()?;
        let room = rows.num_rows() + rows.num_rows() / 16;
        *self = Self::with_room(std::mem::take(&mut self.texts), room);
        Ok(rows)
    }

    /// The rows as a batch, after which no more come.
    ///
    /// # Errors
    /// As [`Self::finish`].
    pub fn into_batch(mut self) -> Result<RecordBatch, ArrowError> {
        self.take()
    }

    fn take(&mut self) -> Result<RecordBatch, ArrowError> {
        let mut texts = self.texts.iter_mut();
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(DATA_SCHEMA.fields().len());
        for field in DATA_SCHEMA.fields() {
            columns.push(match field.name().as_str() {
                "click_id" => Arc::new(self.click_id.finish()),
                "event_time" => Arc::new(self.event_time.finish()),
                "ingest_time" => Arc::new(self.ingest_time.finish()),
                "revision" => Arc::new(self.revision.finish()),
                "rules_version" => Arc::new(self.rules_version.finish()),
                "status" => Arc::new(self.status.finish()),
                "visitor" => Arc::new(self.visitor.finish()),
                "weight" => Arc::new(self.weight.finish()),
                "private" => Arc::new(self.private.finish()),
                _ => match texts.next() {
                    Some(text) => text.finish(),
                    None => return Err(ArrowError::SchemaError(format!("no values for {}", field.name()))),
                },
            });
        }
        RecordBatch::try_new(Arc::clone(&DATA_SCHEMA), columns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Array, AsArray};

    #[test]
    fn texts_stand_in_their_rows_whatever_is_missing_around_them() {
        for room in [0, 3] {
            let mut column = TextColumn { rows: room, ..TextColumn::default() };
            for texts in [vec![None, Some("a"), None, None, Some("b"), None], vec![None, None], vec![Some("c")], vec![]]
            {
                texts.iter().for_each(|text| column.push(*text));
                let finished = column.finish();
                assert_eq!(finished.as_string::<i32>().iter().collect::<Vec<_>>(), texts);
            }
        }
    }

    #[test]
    fn a_row_comes_out_under_its_columns_names() {
        let text = |t: &str| Some(Arc::<str>::from(t));
        let click = Click {
            click_id: ClickId([3; 16]),
            event_time: UtcMicros(1),
            ingest_time: UtcMicros(2),
            workspace: "w".into(),
            link_id: None,
            domain: "d".into(),
            code: "c".into(),
            revision: None,
            destination: text("dest"),
            source: Source::Edge,
            verdict: Verdict { class: Class::Human, agent: None, reason: "r".into(), rules_version: 1 },
            method: None,
            status: 302,
            country: text("NL"),
            region: None,
            city: None,
            agent_info: Arc::new(AgentInfo {
                device: Device::Mobile,
                browser: text("Firefox"),
                browser_version: None,
                os: None,
                os_version: text("17"),
            }),
            import_id: text("i"),
            referrer: None,
            utm: Utm { content: text("uc"), ..Utm::default() },
            language: None,
            user_agent: text("ua"),
            client_net: text("203.0.113.0/24"),
            visitor: Some(-1),
            weight: 1.0,
            query: text("ref=1"),
            private: true,
        };
        let mut builder = ClickBuilder::new();
        builder.push(&click);
        assert_eq!(builder.len(), 1);
        let batch = builder.finish().unwrap();
        assert!(builder.is_empty());
        for (column, value) in [
            ("workspace", "w"),
            ("domain", "d"),
            ("code", "c"),
            ("destination", "dest"),
            ("source", "edge"),
            ("class", "human"),
            ("class_reason", "r"),
            ("country", "NL"),
            ("device", "mobile"),
            ("browser", "Firefox"),
            ("os_version", "17"),
            ("import_id", "i"),
            ("utm_content", "uc"),
            ("user_agent", "ua"),
            ("client_net", "203.0.113.0/24"),
            ("query", "ref=1"),
        ] {
            assert_eq!(batch.column_by_name(column).unwrap().as_string::<i32>().value(0), value, "{column}");
        }
        for column in ["link_id", "agent", "method", "region", "browser_version", "referrer", "language"] {
            assert!(batch.column_by_name(column).unwrap().is_null(0), "{column}");
        }
        assert!(batch.column_by_name("private").unwrap().as_boolean().value(0));
    }
}
