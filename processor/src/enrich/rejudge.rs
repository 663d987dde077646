//! Rows judged anew by the rules in force, from what they have kept of their requests.
//!
//! ```text
//! user_agent, method, class_reason ──► class, agent, class_reason, rules_version, device, browser, os
//! ```
//! Agent and method are columns. Of headers a row keeps nothing but the reason of the rule that they met
//! ([`Classifier::by_header`](crate::classify::Classifier::by_header)), and of its address the mark of a network: a row judged by one of whose rule there is no more
//! can't be judged anew, and stays as it is.

use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, AsArray as _, Int32Builder, RecordBatch, StringArray, StringBuilder};
use arrow::datatypes::Int32Type;
use arrow::error::ArrowError;
use schemas::Method;
use schemas::click::{AgentInfo, Verdict};

use super::enricher::Enricher;
use crate::classify::{Sign, parts};

/// What the reasons of headers' rules begin with.
const OF_HEADERS: &str = "header/";

/// The columns that tell how a row is to be judged.
pub(crate) const JUDGED_BY: [&str; 3] = ["user_agent", "method", "class_reason"];
/// The texts that follow from it, in the order of [`Rejudged`]; `rules_version` comes with them.
pub(crate) const TEXTS: [&str; 8] =
    ["class", "agent", "class_reason", "device", "browser", "browser_version", "os", "os_version"];
/// Which rules judged a row.
pub(crate) const VERSION: &str = "rules_version";

/// The columns of a batch that follow from judging its rows.
#[derive(Debug)]
pub(crate) struct Rejudged {
    /// By the names of [`TEXTS`].
    pub(crate) texts: [StringArray; 8],
    /// As column [`VERSION`].
    pub(crate) versions: arrow::array::Int32Array,
    /// Rows that can't be judged anew.
    pub(crate) left: u64,
}

impl Enricher {
    /// What the rules in force say of a row that is there, from what it has kept of its request: `user_agent` and `method`,
    /// and its `reason`, which is all that is left of headers. `None` for a row that can't be judged anew: headers judged
    /// it, by a rule that there is no more.
    pub fn rejudge(&self, user_agent: &str, method: Option<Method>, reason: &str) -> Option<(Verdict, Arc<AgentInfo>)> {
        let by_header = self.classifier().by_header(reason);
        let is_lost = by_header.is_none() && reason.starts_with(OF_HEADERS);
        let (_, mark) = parts(reason);
        (!is_lost).then(|| {
            let (verdict, info) = self.judged(user_agent, method, by_header, mark);
            (
                match Sign::of_reason(reason) {
                    Some(sign) => sign.on(verdict),
                    None => verdict,
                },
                info,
            )
        })
    }

    /// The rows of a batch judged anew, those that are `chosen`; the others as they are.
    ///
    /// # Errors
    /// When the batch lacks a column, or holds in one what no row of `clicks` does.
    pub(crate) fn rejudged(&self, rows: &RecordBatch, chosen: impl Fn(usize) -> bool) -> Result<Rejudged, ArrowError> {
        let [agents, methods, reasons] = columns(rows, JUDGED_BY)?;
        let before = columns(rows, TEXTS)?;
        let versions_before = versions(rows)?;
        let mut texts = [(); 8].map(|()| StringBuilder::with_capacity(rows.num_rows(), rows.num_rows() * 8));
        let mut versions = Int32Builder::with_capacity(rows.num_rows());
        let mut left = 0;
        for row in 0..rows.num_rows() {
            let anew = if chosen(row) {
                let method = value(methods, row).map(|word| word.parse::<Method>());
                let method = method.transpose().map_err(|_| unfit("method"))?;
                let anew = self.rejudge(
                    value(agents, row).unwrap_or_default(),
                    method,
                    value(reasons, row).unwrap_or_default(),
                );
                left += u64::from(anew.is_none());
                anew
            } else {
                None
            };
            match anew {
                Some((verdict, info)) => {
                    versions.append_value(verdict.rules_version);
                    for (text, value) in texts.iter_mut().zip(words(&verdict, &info)) {
                        text.append_option(value);
                    }
                }
                None => {
                    versions.append_value(versions_before.value(row));
                    for (text, column) in texts.iter_mut().zip(before) {
                        text.append_option(value(column, row));
                    }
                }
            }
        }
        Ok(Rejudged { texts: texts.map(|mut text| text.finish()), versions: versions.finish(), left })
    }

    /// The same rows, of which those that other rules judged are judged anew.
    ///
    /// # Errors
    /// As [`Enricher::rejudged`].
    pub(crate) fn up_to_date(&self, rows: RecordBatch) -> Result<RecordBatch, ArrowError> {
        let judged_by = versions(&rows)?;
        let (version, old) = (self.classifier().version(), |row: usize| judged_by.value(row));
        if judged_by.values().iter().all(|by| *by == version) {
            return Ok(rows);
        }
        self.rejudged(&rows, |row| old(row) != version)?.put_into(&rows)
    }
}

impl Rejudged {
    /// `rows` with these columns.
    ///
    /// # Errors
    /// When they aren't those that were judged.
    pub(crate) fn put_into(self, rows: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let (schema, mut columns) = (rows.schema(), rows.columns().to_vec());
        for (name, text) in TEXTS.iter().zip(self.texts) {
            columns[schema.index_of(name)?] = Arc::new(text) as ArrayRef;
        }
        columns[schema.index_of(VERSION)?] = Arc::new(self.versions);
        RecordBatch::try_new(schema, columns)
    }
}

/// A verdict and what its agent tells, in the order of [`TEXTS`].
fn words<'a>(verdict: &'a Verdict, info: &'a AgentInfo) -> [Option<&'a str>; 8] {
    [
        Some(verdict.class.as_str()),
        verdict.agent.as_deref(),
        Some(&verdict.reason),
        Some(info.device.as_str()),
        info.browser.as_deref(),
        info.browser_version.as_deref(),
        info.os.as_deref(),
        info.os_version.as_deref(),
    ]
}

fn unfit(column: &str) -> ArrowError {
    ArrowError::SchemaError(format!("column {column} is missing, of another type, or holds what it can't"))
}

/// Columns of texts, by their names.
pub(crate) fn columns<'a, const N: usize>(
    rows: &'a RecordBatch,
    names: [&str; N],
) -> Result<[&'a StringArray; N], ArrowError> {
    let mut found = Vec::with_capacity(N);
    for name in names {
        let column = rows.column_by_name(name).and_then(|column| column.as_string_opt::<i32>());
        found.push(column.ok_or_else(|| unfit(name))?);
    }
    found.try_into().map_err(|_| unfit("of a batch"))
}

/// Column [`VERSION`].
pub(crate) fn versions(rows: &RecordBatch) -> Result<&arrow::array::Int32Array, ArrowError> {
    let column = rows.column_by_name(VERSION).and_then(|column| column.as_primitive_opt::<Int32Type>());
    column.ok_or_else(|| unfit(VERSION))
}

/// A text, or none.
pub(crate) fn value(column: &StringArray, row: usize) -> Option<&str> {
    column.is_valid(row).then(|| column.value(row))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hot::testing::click;
    use crate::import::testing::enricher;
    use schemas::{Class, Click, ClickBuilder};

    const SLACK: &str = "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)";

    fn batch(rows: &[Click]) -> RecordBatch {
        let mut builder = ClickBuilder::new();
        rows.iter().for_each(|row| builder.push(row));
        builder.finish().unwrap()
    }

    fn judged_by(class: Class, reason: &str) -> Click {
        let row = click(1, 0);
        Click { verdict: Verdict { class, agent: None, reason: reason.into(), rules_version: 0 }, ..row }
    }

    #[test]
    fn a_row_is_judged_by_its_agent_and_method_and_what_headers_said() {
        let enricher = enricher();
        let of = |agent: &str, method, reason: &str| {
            let (verdict, info) = enricher.rejudge(agent, method, reason).unwrap();
            (verdict.class, verdict.reason.to_string(), info.device.as_str())
        };
        assert_eq!(of(SLACK, Some(Method::Get), "person").0, Class::Preview);
        assert_eq!(of("", None, "person").0, Class::Unknown);
        let firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:131.0) Gecko/20100101 Firefox/131.0";
        assert_eq!(of(firefox, Some(Method::Get), "shape/absurd"), (Class::Human, "person".to_owned(), "desktop"));
        assert_eq!(of(firefox, Some(Method::Get), "header/purpose").0, Class::Prefetch);
        assert_eq!(of(firefox, Some(Method::Head), "person").0, Class::Probe);
        assert!(enricher.rejudge(firefox, Some(Method::Get), "header/of-another-time").is_none());
        let scanner = (Class::Scanner, "network/mail".to_owned(), "desktop");
        assert_eq!(of(firefox, Some(Method::Get), "person+network/mail"), scanner);
        assert_eq!(of(firefox, Some(Method::Get), "network/mail"), scanner, "what its network said is kept");
        assert_eq!(of(SLACK, None, "network/mail").1, "preview/slack+network/mail");
        assert_eq!(of(firefox, None, "header/purpose+network/mail").1, "header/purpose+network/mail");
    }

    #[test]
    fn rows_that_are_not_chosen_or_can_not_be_judged_stay() {
        let slack = Click { user_agent: Some(SLACK.into()), ..judged_by(Class::Human, "person") };
        let lost = judged_by(Class::Prefetch, "header/of-another-time");
        let rows = batch(&[slack.clone(), slack, lost]);
        let anew = enricher().rejudged(&rows, |row| row != 1).unwrap();
        assert_eq!(anew.left, 1);
        let after = anew.put_into(&rows).unwrap();
        let [classes, agents] = columns(&after, ["class", "agent"]).unwrap();
        let all: Vec<_> = (0..3).map(|row| (classes.value(row), value(agents, row))).collect();
        assert_eq!(all, [("preview", Some("Slack")), ("human", None), ("prefetch", None)]);
        let version = enricher().classifier().version();
        assert_eq!(versions(&after).unwrap().values()[..], [version, 0, 0]);
    }

    #[test]
    fn only_what_other_rules_judged_is_brought_up_to_date() {
        let (old, mut new) = (judged_by(Class::Human, "person"), judged_by(Class::Human, "person"));
        new.verdict.rules_version = enricher().classifier().version();
        let rows = batch(&[old, new].map(|row| Click { user_agent: Some(SLACK.into()), ..row }));
        let after = enricher().up_to_date(rows).unwrap();
        let [classes] = columns(&after, ["class"]).unwrap();
        assert_eq!([classes.value(0), classes.value(1)], ["preview", "human"]);
        assert_eq!(enricher().up_to_date(after.clone()).unwrap(), after);
    }
}
