//! Rows of `clicks` read back from Arrow batches: the way from columns to [`Click`]s, as [`crate::ClickBuilder`] is the
//! other.

use std::str::FromStr;
use std::sync::Arc;

use arrow::array::{
    Array as _, ArrowPrimitiveType, AsArray as _, BinaryArray, PrimitiveArray, RecordBatch, StringArray,
};
use arrow::datatypes::{Float64Type, Int32Type, Int64Type, TimestampMicrosecondType};
use arrow::error::ArrowError;

use crate::class::{Class, Device, Source};
use crate::click::{AgentInfo, Click, Utm, Verdict};
use crate::ids::{ClickId, LinkId};
use crate::time::UtcMicros;

/// A batch with the columns of `clicks`, in whatever order and among others.
#[derive(Debug)]
pub struct ClickRows<'a> {
    batch: &'a RecordBatch,
    ids: &'a BinaryArray,
}

fn wrong(column: &str) -> ArrowError {
    ArrowError::SchemaError(format!("column {column} is missing, of another type, or holds what it can't"))
}

impl<'a> ClickRows<'a> {
    /// The rows of `batch`.
    ///
    /// # Errors
    /// When it has no column `click_id`; other columns are missed when a row is read.
    pub fn of(batch: &'a RecordBatch) -> Result<Self, ArrowError> {
        let ids = batch.column_by_name("click_id").and_then(|column| column.as_binary_opt::<i32>());
        Ok(Self { batch, ids: ids.ok_or_else(|| wrong("click_id"))? })
    }

    /// A row's id; `None` for what is not sixteen bytes long.
    pub fn id(&self, row: usize) -> Option<ClickId> {
        self.ids.value(row).try_into().ok().map(ClickId)
    }

    /// The texts of a row's link: workspace, domain, code.
    ///
    /// # Errors
    /// When one of these columns is missing, or null.
    pub fn link(&self, row: usize) -> Result<[&'a str; 3], ArrowError> {
        Ok([self.must("workspace", row)?, self.must("domain", row)?, self.must("code", row)?])
    }

    /// A row.
    ///
    /// # Errors
    /// When a column is missing, or holds what no row of `clicks` does.
    pub fn row(&self, row: usize) -> Result<Click, ArrowError> {
        Ok(Click {
            click_id: self.id(row).ok_or_else(|| wrong("click_id"))?,
            event_time: UtcMicros(self.some::<TimestampMicrosecondType>("event_time", row)?),
            ingest_time: UtcMicros(self.some::<TimestampMicrosecondType>("ingest_time", row)?),
            workspace: self.must("workspace", row)?.into(),
            link_id: self.word::<LinkId>("link_id", row)?,
            domain: self.must("domain", row)?.into(),
            code: self.must("code", row)?.into(),
            revision: self.number::<Int32Type>("revision", row)?,
            destination: self.shared("destination", row)?,
            source: self.word::<Source>("source", row)?.ok_or_else(|| wrong("source"))?,
            verdict: Verdict {
                class: self.word::<Class>("class", row)?.ok_or_else(|| wrong("class"))?,
                agent: self.shared("agent", row)?,
                reason: self.must("class_reason", row)?.into(),
                rules_version: self.some::<Int32Type>("rules_version", row)?,
            },
            method: self.word("method", row)?,
            status: self.some::<Int32Type>("status", row)?,
            country: self.shared("country", row)?,
            region: self.shared("region", row)?,
            city: self.shared("city", row)?,
            agent_info: Arc::new(AgentInfo {
                device: self.word::<Device>("device", row)?.ok_or_else(|| wrong("device"))?,
                browser: self.shared("browser", row)?,
                browser_version: self.shared("browser_version", row)?,
                os: self.shared("os", row)?,
                os_version: self.shared("os_version", row)?,
            }),
            import_id: self.shared("import_id", row)?,
            referrer: self.shared("referrer", row)?,
            utm: Utm {
                source: self.shared("utm_source", row)?,
                medium: self.shared("utm_medium", row)?,
                campaign: self.shared("utm_campaign", row)?,
                term: self.shared("utm_term", row)?,
                content: self.shared("utm_content", row)?,
            },
            language: self.shared("language", row)?,
            user_agent: self.shared("user_agent", row)?,
            client_net: self.shared("client_net", row)?,
            visitor: self.number::<Int64Type>("visitor", row)?,
            weight: self.some::<Float64Type>("weight", row)?,
            query: self.shared("query", row)?,
            private: self.truth("private", row)?,
        })
    }

    fn text(&self, name: &str, row: usize) -> Result<Option<&'a str>, ArrowError> {
        let column: Option<&StringArray> = self.batch.column_by_name(name).and_then(|column| column.as_string_opt());
        let column = column.ok_or_else(|| wrong(name))?;
        Ok(column.is_valid(row).then(|| column.value(row)))
    }

    fn must(&self, name: &str, row: usize) -> Result<&'a str, ArrowError> {
        self.text(name, row)?.ok_or_else(|| wrong(name))
    }

    fn shared(&self, name: &str, row: usize) -> Result<Option<Arc<str>>, ArrowError> {
        Ok(self.text(name, row)?.map(Arc::from))
    }

    fn word<T: FromStr>(&self, name: &str, row: usize) -> Result<Option<T>, ArrowError> {
        self.text(name, row)?.map(|word| word.parse().map_err(|_| wrong(name))).transpose()
    }

    /// Null is false.
    fn truth(&self, name: &str, row: usize) -> Result<bool, ArrowError> {
        let column = self.batch.column_by_name(name).and_then(|column| column.as_boolean_opt());
        let column = column.ok_or_else(|| wrong(name))?;
        Ok(column.is_valid(row) && column.value(row))
    }

    fn number<T: ArrowPrimitiveType>(&self, name: &str, row: usize) -> Result<Option<T::Native>, ArrowError> {
        let column: Option<&PrimitiveArray<T>> =
            self.batch.column_by_name(name).and_then(|column| column.as_primitive_opt());
        let column = column.ok_or_else(|| wrong(name))?;
        Ok(column.is_valid(row).then(|| column.value(row)))
    }

    fn some<T: ArrowPrimitiveType>(&self, name: &str, row: usize) -> Result<T::Native, ArrowError> {
        self.number::<T>(name, row)?.ok_or_else(|| wrong(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClickBuilder, Method};

    fn text(text: &str) -> Option<Arc<str>> {
        Some(text.into())
    }

    fn full() -> Click {
        Click {
            click_id: ClickId([3; 16]),
            event_time: UtcMicros(1),
            ingest_time: UtcMicros(2),
            workspace: "w".into(),
            link_id: Some(LinkId::new()),
            domain: "d".into(),
            code: "c".into(),
            revision: Some(4),
            destination: text("dest"),
            source: Source::Recovered,
            verdict: Verdict { class: Class::Preview, agent: text("Slack"), reason: "r".into(), rules_version: 7 },
            method: Some(Method::Head),
            status: 302,
            country: text("NL"),
            region: text("NH"),
            city: text("Amsterdam"),
            agent_info: Arc::new(AgentInfo {
                device: Device::Tv,
                browser: text("b"),
                browser_version: text("1"),
                os: text("o"),
                os_version: text("17"),
            }),
            import_id: text("i"),
            referrer: text("ref"),
            utm: Utm { source: text("s"), medium: text("m"), campaign: text("c"), term: text("t"), content: text("x") },
            language: text("nl"),
            user_agent: text("ua"),
            client_net: text("203.0.113.0/24"),
            visitor: Some(-1),
            weight: 2.5,
            query: text("ref=1"),
            private: true,
        }
    }

    fn bare() -> Click {
        let full = full();
        Click {
            link_id: None,
            revision: None,
            destination: None,
            verdict: Verdict { agent: None, ..full.verdict },
            method: None,
            country: None,
            region: None,
            city: None,
            agent_info: Arc::new(AgentInfo {
                device: Device::Unknown,
                browser: None,
                browser_version: None,
                os: None,
                os_version: None,
            }),
            import_id: None,
            referrer: None,
            utm: Utm::default(),
            language: None,
            user_agent: None,
            client_net: None,
            visitor: None,
            query: None,
            private: false,
            ..full
        }
    }

    #[test]
    fn rows_come_back_as_they_were_built() {
        let clicks = [full(), bare()];
        let mut builder = ClickBuilder::new();
        clicks.iter().for_each(|click| builder.push(click));
        let batch = builder.finish().unwrap();
        let rows = ClickRows::of(&batch).unwrap();
        for (row, click) in clicks.iter().enumerate() {
            assert_eq!(rows.row(row).unwrap(), *click);
            assert_eq!(rows.link(row).unwrap(), ["w", "d", "c"]);
        }
    }

    #[test]
    fn a_column_that_lacks_or_holds_what_it_can_not_is_named() {
        let mut builder = ClickBuilder::new();
        builder.push(&full());
        let batch = builder.finish().unwrap();
        let cut = batch.project(&[0, 1]).unwrap();
        let error = ClickRows::of(&cut).unwrap().row(0).unwrap_err().to_string();
        assert!(error.contains("ingest_time"), "{error}");
        assert!(ClickRows::of(&batch.project(&[1]).unwrap()).is_err());
        let at = batch.schema().index_of("device").unwrap();
        let mut columns = batch.columns().to_vec();
        columns[at] = Arc::new(StringArray::from(vec!["fridge"]));
        let batch = RecordBatch::try_new(batch.schema(), columns).unwrap();
        let error = ClickRows::of(&batch).unwrap().row(0).unwrap_err().to_string();
        assert!(error.contains("device"), "{error}");
    }
}
