//! How well the rules do on labelled agents (interface §1, `classify --tsv`).
//!
//! The set is tab-separated with a header line; its first columns are the agent and its category. Categories that begin
//! with `human` are people's. A machine counts as found when its class is any but `human`; a person as flagged likewise.

use std::collections::BTreeMap;
use std::io::{self, BufRead};

use schemas::Class;
use serde::Serialize;

use super::Classifier;

/// Why a labelled set can't be judged.
#[derive(Debug, thiserror::Error)]
pub enum EvaluateError {
    /// It can't be read, or isn't UTF-8.
    #[error("line {line}: {source}")]
    Read {
        /// From 1.
        line: usize,
        /// What failed.
        #[source]
        source: io::Error,
    },
    /// A line has no category.
    #[error("line {0}: expected an agent, a tab and a category")]
    NoCategory(usize),
}

/// People, and how many of them were taken for machines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HumanCount {
    /// Lines.
    pub total: u64,
    /// Of these, judged to be no person.
    pub flagged: u64,
}

/// Machines, and how many of them were known as such.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MachineCount {
    /// Lines.
    pub total: u64,
    /// Of these, judged to be no person.
    pub found: u64,
}

/// One category's row of the confusion table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CategoryCount {
    /// Lines.
    pub total: u64,
    /// Judged to be no person.
    pub found: u64,
    /// Judged to be people.
    pub missed: u64,
    /// Lines by the class they were given.
    pub classes: BTreeMap<&'static str, u64>,
}

/// A line on the wrong side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WrongLine {
    /// From 1, the header being the first.
    pub line: usize,
    /// The agent.
    pub user_agent: String,
    /// The label.
    pub category: String,
    /// The class it was given.
    pub class: Class,
    /// The rule that gave it.
    pub reason: String,
}

/// The result of judging a labelled set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Evaluation {
    /// All people.
    pub human: HumanCount,
    /// Of these, in the built-in browser of an app (`human_inapp`).
    pub inapp: HumanCount,
    /// All others.
    pub nonhuman: MachineCount,
    /// By label.
    pub by_category: BTreeMap<String, CategoryCount>,
    /// Shown on demand; no part of the JSON.
    #[serde(skip)]
    pub wrong: Vec<WrongLine>,
}

/// Judges every line of a labelled set by its agent alone.
///
/// # Errors
/// When a line can't be read or has no category.
pub fn evaluate(classifier: &Classifier, set: impl BufRead) -> Result<Evaluation, EvaluateError> {
    let mut result = Evaluation::default();
    for (number, line) in set.lines().enumerate() {
        let line = line.map_err(|source| EvaluateError::Read { line: number + 1, source })?;
        let line = line.strip_suffix('\r').unwrap_or(&line);
        if line.is_empty() || (number == 0 && line.starts_with("user_agent\t")) {
            continue;
        }
        let mut columns = line.split('\t');
        let (Some(user_agent), Some(category)) = (columns.next(), columns.next()) else {
            return Err(EvaluateError::NoCategory(number + 1));
        };
        result.add(classifier, number + 1, user_agent, category);
    }
    Ok(result)
}

impl Evaluation {
    fn add(&mut self, classifier: &Classifier, line: usize, user_agent: &str, category: &str) {
        let verdict = classifier.agent(user_agent);
        let person = category.starts_with("human");
        let flagged = verdict.class != Class::Human;
        if person {
            self.human.total += 1;
            self.human.flagged += u64::from(flagged);
            if category == "human_inapp" {
                self.inapp.total += 1;
                self.inapp.flagged += u64::from(flagged);
            }
        } else {
            self.nonhuman.total += 1;
            self.nonhuman.found += u64::from(flagged);
        }
        let row = self.by_category.entry(category.to_owned()).or_default();
        row.total += 1;
        row.found += u64::from(flagged);
        row.missed += u64::from(!flagged);
        *row.classes.entry(verdict.class.as_str()).or_default() += 1;
        if person == flagged {
            self.wrong.push(WrongLine {
                line,
                user_agent: user_agent.to_owned(),
                category: category.to_owned(),
                class: verdict.class,
                reason: verdict.reason.as_ref().to_owned(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_by_side_and_by_label() {
        let set = "user_agent\tcategory\tsource\n\
                   curl/8.5.0\tlibrary\tx\n\
                   Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36\tsearch\tx\n\
                   Mozilla/5.0 (Windows NT 10.0; rv:130.0) Gecko/20100101 Firefox/130.0\thuman_browser\n\
                   Wget/1.21\thuman_inapp\n";
        let result = evaluate(&Classifier::builtin().unwrap(), set.as_bytes()).unwrap();
        assert_eq!(result.human, HumanCount { total: 2, flagged: 1 });
        assert_eq!(result.inapp, HumanCount { total: 1, flagged: 1 });
        assert_eq!(result.nonhuman, MachineCount { total: 2, found: 1 });
        assert_eq!(result.wrong.iter().map(|wrong| wrong.line).collect::<Vec<_>>(), [3, 5]);
        let json = serde_json::to_value(&result).unwrap();
        assert_eq!(json["by_category"]["library"]["classes"]["library"], 1);
        assert_eq!(json["by_category"]["search"]["missed"], 1);
    }

    #[test]
    fn a_line_without_a_category_is_named() {
        let error = evaluate(&Classifier::builtin().unwrap(), "user_agent\tcategory\ncurl/8\n".as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), "line 2: expected an agent, a tab and a category");
    }
}
