//! Cross-checks of a file's lines with the events of our own (design §4.1): what is odd about them, told when it is more
//! than one record in ten thousand.
//!
//! What is noted while the file comes in is kept with its stored summary, whether it is told or not; what the settler
//! finds out later about lines that waited is counted in transactions of `arrivals`. So a summary says the same whenever
//! it is asked for, as far as the lake is the same.

use serde::{Deserialize, Serialize};

use super::summary::Summary;
use crate::lake::TableHandle;
use crate::settle::Remark;
use crate::settle::leave::remark_txn;

/// A check is told when it concerns more than one record of so many.
const ONE_IN: u64 = 10_000;

/// What is odd about the lines of a file, by number of lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Checks {
    /// They reached the origin, which must have had events of them, and has none.
    pub lost: u64,
    /// The edge says that it answered them, yet the origin has their events.
    pub surprise: u64,
    /// Their id is that of another network's, agent's or tenant's request.
    pub reused_id: u64,
}

/// What is noted of a file while it comes in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Noted {
    /// Lines of requests that reached the origin and can't have left an event of our own there.
    pub eventless: u64,
    /// As [`Checks::surprise`].
    pub surprise: u64,
    /// As [`Checks::reused_id`].
    pub reused_id: u64,
    /// Lines taken as counted before by their cache status alone.
    pub by_status: u64,
    /// Lines of codes that no link has, for all that kept.
    pub unlinked: u64,
}

impl Noted {
    pub(super) fn remark(&mut self, remark: Remark) {
        *match remark {
            Remark::Surprise => &mut self.surprise,
            Remark::ReusedId => &mut self.reused_id,
        } += 1;
    }

    /// With what the settler has found out about lines that waited.
    fn with_later(self, arrivals: &TableHandle, import_id: &str) -> Self {
        let later = |remark| arrivals.txn(&remark_txn(remark, import_id)).unwrap_or(0).unsigned_abs();
        Self {
            surprise: self.surprise + later(Remark::Surprise),
            reused_id: self.reused_id + later(Remark::ReusedId),
            ..self
        }
    }
}

impl Summary {
    /// Looks what is odd about the lines, as far as `arrivals` and the rows that were recovered say, and takes in what
    /// is worth telling. Returns all of it.
    pub(crate) fn check(&mut self, arrivals: &TableHandle) -> Checks {
        let noted = self.noted.with_later(arrivals, &self.id);
        let checks = Checks {
            // a line without an event that could have had one has become a row, and was lost but for it
            lost: self.added.recovered.saturating_sub(noted.eventless),
            surprise: noted.surprise,
            reused_id: noted.reused_id,
        };
        let many = |lines: u64| lines.saturating_mul(ONE_IN) > self.records;
        self.checks = [checks.lost, checks.surprise, checks.reused_id].into_iter().any(many).then_some(checks);
        checks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lake::{Change, Lake, LakeOptions};
    use object_store::memory::InMemory;
    use schemas::tables::Table;

    #[tokio::test]
    async fn what_is_odd_is_told_from_one_record_in_ten_thousand_on() {
        let url = url::Url::parse("memory:///lake").unwrap();
        let store = std::sync::Arc::new(InMemory::new());
        let lake = Lake::with_store(store, url, LakeOptions::default()).unwrap();
        let mut arrivals = lake.table(Table::Arrivals).await.unwrap();
        let mut summary = Summary::new("i".into(), "n".into(), "f".into(), false);
        summary.records = 20_000;
        (summary.added.recovered, summary.noted.eventless) = (12, 10);
        assert_eq!(summary.check(&arrivals), Checks { lost: 2, ..Checks::default() });
        assert_eq!(summary.checks, None, "exactly one in ten thousand");
        let txns = vec![("surprise/i".to_owned(), 3), ("reused_id/another".to_owned(), 99)];
        arrivals.commit(Change { txns, ..Change::default() }).await.unwrap();
        summary.noted.remark(Remark::ReusedId);
        let told = Checks { lost: 2, surprise: 3, reused_id: 1 };
        assert_eq!(summary.check(&arrivals), told);
        assert_eq!(summary.checks, Some(told));
        summary.added.recovered = 0;
        summary.records = 100_000;
        assert_eq!((summary.check(&arrivals).lost, summary.checks), (0, None));
    }
}
