use async_trait::async_trait;
use datafusion::prelude::SessionContext;
use schemas::{Click, ClickBuilder, Method};

use super::*;
use crate::ports::AnsweredError;
use crate::testlake::{TestLake, at, click};

/// Ids that were answered.
#[derive(Debug)]
struct Ids(Vec<ClickId>);

#[async_trait]
impl Answered for Ids {
    fn most(&self) -> u64 {
        self.0.len() as u64
    }

    async fn piece(&self, piece: u64, pieces: u64) -> Result<HashSet<ClickId>, AnsweredError> {
        let is_of = |id: &ClickId| id.as_u128() % u128::from(pieces) == u128::from(piece);
        Ok(self.0.iter().copied().filter(is_of).collect())
    }
}

fn ids<const N: usize>(ids: [ClickId; N]) -> Arc<dyn Answered> {
    Arc::new(Ids(ids.into()))
}

fn lake() -> TestLake {
    let clicks: Vec<Click> = (0..5).map(|n| click(n, at("2026-03-14T12:00:00.5Z"))).collect();
    TestLake::with(&clicks)
}

#[tokio::test]
async fn a_recount_looks_for_every_click_that_was_answered() {
    let (lake, skew) = (lake(), Duration::from_secs(600));
    let id = |number| click(number, at("2026-03-20T12:00:00Z")).click_id;
    let clean = lake.service().verify(skew, ids([id(0), id(4)])).await.unwrap();
    assert!(clean.ok && (clean.answered, clean.missing) == (2, 0), "{clean:?}");
    let report = lake.service().verify(skew, ids([id(3), id(9)])).await.unwrap();
    assert_eq!((report.ok, report.answered, report.missing), (false, 2, 1));
    assert_eq!(report.missing_ids, [id(9).to_string()]);
}

#[tokio::test]
async fn a_recount_finds_what_is_wrong() {
    let lake = lake();
    let skew = Duration::from_secs(600);
    lake.add_shed(&[click(6, at("2026-03-20T12:00:00Z"))], 0.5);
    let clean = lake.service().verify(skew, ids([])).await.unwrap();
    assert!(clean.ok && clean.rows == 5 && clean.by_class["human"] == 5, "{clean:?}");
    lake.add(&[
        click(50, at("2026-03-20T12:00:00Z")),
        click(50, at("2026-03-20T12:10:00Z")),
        click(50, at("2026-03-20T12:20:01Z")),
        Click { weight: 0.5, ..click(100, at("2026-03-20T12:00:00Z")) },
        Click { method: Some(Method::Head), ..click(101, at("2026-03-20T12:00:00Z")) },
    ]);
    lake.add_shed(&[click(7, at("2026-03-20T12:00:00Z"))], 1.0);
    let report = lake.service().verify(skew, ids([])).await.unwrap();
    assert!(!report.ok);
    assert_eq!((report.rows, report.duplicates, report.reused_ids), (10, 1, 1));
    assert_eq!(report.duplicate_ids, ["00000000000000320000000000000032"]);
    let broken: Vec<(&str, u64)> = report.broken.iter().map(|(rule, rows)| (rule.as_str(), *rows)).collect();
    assert_eq!(broken, [("hour_rate_is_none", 1), ("human_head", 1), ("weight_below_one", 1)]);
    assert_eq!(Class::ALL.len(), 12, "the rule on classes knows them all");
}

/// However many pieces and passes that takes, each id is looked at once.
#[tokio::test]
async fn what_does_not_fit_into_memory_at_once_is_compared_in_pieces() {
    let time = at("2026-03-14T12:00:00Z");
    let id = |number| click(number, time).click_id;
    let mut rows = ClickBuilder::new();
    (0..40).chain([7, 21]).for_each(|number| rows.push(&click(number, time)));
    let clicks = SessionContext::new().read_batch(rows.into_batch().unwrap()).unwrap();
    let (recount, answered) = (Recount { clicks, apart: 1 }, Ids((20..50).map(id).collect()));
    let mut lacking: Vec<String> = (40..50).map(|number| id(number).to_string()).collect();
    lacking.sort_unstable();
    for at_a_time in [1, 3, 7, 10, 11, 30, 1_000] {
        let mut found = recount.all(42, &answered, at_a_time).await.unwrap();
        found.missing_ids.sort_unstable();
        assert_eq!((found.duplicates, found.answered, found.missing), (2, 30, 10), "{at_a_time} at a time");
        assert_eq!(found.missing_ids, lacking);
    }
}
