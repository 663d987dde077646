//! What the lake holds of journals, as last heard. Pure.

use std::collections::HashMap;

use schemas::JournalId;

use crate::ports::{Covered, Missing};

/// Rows of one generation, by journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rows(HashMap<JournalId, Vec<Covered>>);

impl Rows {
    pub(super) fn new(rows: Vec<Covered>) -> Self {
        let mut of: HashMap<JournalId, Vec<Covered>> = HashMap::new();
        for row in rows {
            of.entry(row.journal).or_default().push(row);
        }
        Self(of)
    }

    /// Whether the lake holds all of the journal, with its end.
    pub(super) fn has_ended(&self, journal: JournalId) -> bool {
        self.0.get(&journal).is_some_and(|rows| rows.iter().all(|row| row.ended))
    }

    /// The rows with something missing whose last asking hasn't been answered: `answered` holds, for a journal and partition,
    /// the last that was. The number alone tells nothing: each hole is asked for from 1 on.
    pub(super) fn asked(&self, answered: &HashMap<(JournalId, u32), Missing>) -> Vec<Covered> {
        let is_new = |row: &&Covered| {
            let of = (row.journal, row.partition);
            row.missing.is_some_and(|missing| missing.to > row.covered && answered.get(&of) != Some(&missing))
        };
        self.0.values().flatten().filter(is_new).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use schemas::UtcMicros;

    use super::*;

    #[test]
    fn an_asking_is_answered_once_and_an_end_is_one_in_all_partitions() {
        let journal = JournalId::new();
        let row = |partition, ended, asked: Option<u32>| Covered {
            journal,
            partition,
            covered: 5,
            through: UtcMicros(0),
            ended,
            missing: asked.map(|asked| Missing { to: 9, asked }),
        };
        let rows = Rows::new(vec![row(0, true, None), row(1, false, Some(1))]);
        assert!(!rows.has_ended(journal) && !rows.has_ended(JournalId::new()));
        let mut answered = HashMap::new();
        assert_eq!(rows.asked(&answered), [row(1, false, Some(1))]);
        answered.insert((journal, 1), Missing { to: 9, asked: 1 });
        assert_eq!(rows.asked(&answered), []);
        let later = Covered { covered: 20, missing: Some(Missing { to: 30, asked: 1 }), ..row(1, false, None) };
        assert_eq!(Rows::new(vec![later]).asked(&answered), [later], "another hole");
        let closed = Covered { covered: 9, ..row(1, false, Some(2)) };
        assert_eq!(Rows::new(vec![closed]).asked(&answered), [], "another owner has closed it");
        let rows = Rows::new(vec![row(0, true, None), row(1, true, Some(2))]);
        assert_eq!(rows.asked(&answered), [row(1, true, Some(2))]);
        assert!(rows.has_ended(journal));
    }
}
