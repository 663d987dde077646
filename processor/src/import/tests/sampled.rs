//! Lines of an `internal` link around seconds in which its clicks were sampled.

use std::collections::BTreeMap;

use arrow::datatypes::Float64Type;
use schemas::sampling::is_kept;
use schemas::{ClickId, LinkId};

use super::*;
use crate::sample::{Rate, RateBook, second_of};

/// Link `own` of workspace `w`, which is sampled.
struct Sampled {
    bench: Bench,
    link: LinkId,
}

fn id(n: u64) -> ClickId {
    ClickId::from_edge("nginx", format!("{n:032x}").as_bytes(), "own")
}

impl Sampled {
    /// With a rate of a half recorded for the second of `time`.
    async fn new(journals: Journals, time: UtcMicros) -> Self {
        Self::of(&[(0, Analytics::Internal)], journals, time).await
    }

    /// The same where the link has these revisions.
    async fn of(revisions: &[(i64, Analytics)], journals: Journals, time: UtcMicros) -> Self {
        let directory = Directory::default().with("w", "go.example.com", "own", revisions);
        let link = directory.link_id("go.example.com", "own");
        let bench = bench_in(
            FaultStore::new(Arc::new(InMemory::new())),
            Arc::new(journals),
            directory,
            ImportConfig::default(),
        );
        let mut book = RateBook::new(bench.lake.clone(), Duration::from_secs(5), Duration::from_secs(60));
        let second = second_of(time);
        let rate = Rate { workspace: "w".into(), link, second, by: "p".into(), rate: 0.5 };
        book.record(&[rate]).await.unwrap();
        Self { bench, link }
    }

    async fn weights(&self) -> BTreeMap<ClickId, f64> {
        let batches = self.bench.batches(Table::Clicks, &["click_id", "weight"]).await;
        let weights = batches.iter().flat_map(|batch| batch.column(1).as_primitive::<Float64Type>().values().to_vec());
        batches.iter().flat_map(crate::settle::ids::click_ids).zip(weights).collect()
    }

    /// Lines of forty requests at a time, some that the edge answered.
    fn log(time: UtcMicros, from: u64) -> String {
        (from..from + 40).map(|n| line_at(n, time, if n % 2 == 0 { "HIT" } else { "MISS" }, "own")).collect()
    }

    /// How many of those fail the rate.
    fn away(from: u64) -> u64 {
        (from..from + 40).filter(|n| !is_kept(id(*n), 0.5)).count() as u64
    }

    /// Those of some requests that are rows stand for two each, and the others fail the rate.
    async fn assert_sampled(&self, from: u64) {
        let weights = self.weights().await;
        for n in from..from + 40 {
            let expected = is_kept(id(n), 0.5).then_some(2.0);
            assert_eq!(weights.get(&id(n)).copied(), expected, "{n}");
        }
    }
}

#[tokio::test]
async fn lines_are_sampled_away_or_weighed_and_the_summary_says_so() {
    let time = UtcMicros(UtcMicros::now().0 - 4_000 * SECOND);
    let sampled = Sampled::new(Journals::default(), time).await;
    let far = time.plus(Duration::from_secs(200));
    let log = [Sampled::log(time, 0), Sampled::log(far, 100)].concat();
    let dry = ImportOptions { dry_run: true, ..ImportOptions::default() };
    let planned = sampled.bench.import_with(&log, dry).await.unwrap();
    let summary = sampled.bench.import(&log).await;
    assert_eq!((summary.added, summary.ignored), (planned.added, planned.ignored));
    assert_eq!((summary.ignored.sampled, summary.already_counted), (Sampled::away(0), 0));
    assert_eq!(summary.added.total(), 80 - Sampled::away(0));
    sampled.assert_sampled(0).await;
    assert!((100..140).all(|n| is_kept(id(n), 1.0)) && sampled.weights().await.values().any(|weight| *weight == 1.0));
    // once more, as it is and as a part of another file: nothing comes back
    let before = sampled.weights().await;
    let again = sampled.bench.import(&log).await;
    assert_eq!((again.ignored.sampled, again.added.total()), (Sampled::away(0), 0));
    let other = sampled.bench.import(&format!("{log}\n")).await;
    assert_eq!((other.ignored.sampled, other.added.total()), (Sampled::away(0), 0));
    assert_eq!(sampled.weights().await, before);
    let stored = stored(&sampled.bench.lake, Some(&summary.id)).await.unwrap();
    assert_eq!(stored[0].summary.ignored.sampled, Sampled::away(0));
    assert!(stored[0].summary.adds_up());
}

#[tokio::test]
async fn what_has_waited_is_sampled_when_it_is_settled() {
    let now = UtcMicros::now();
    let time = now.minus(Duration::from_secs(3_000));
    let journals = Journals::open(now.minus(Duration::from_secs(9_000)), time);
    let sampled = Sampled::new(journals, time).await;
    let summary = sampled.bench.import(&Sampled::log(time, 0)).await;
    assert_eq!((summary.waiting, summary.ignored.sampled), (40, 0));
    sampled.bench.journals.set(now.minus(Duration::from_secs(9_000)), now);
    let settled = sampled.bench.settler().await.pass().await.unwrap();
    assert_eq!((settled.sampled, settled.added), (Sampled::away(0), 40 - Sampled::away(0)));
    sampled.assert_sampled(0).await;
    let stored = stored(&sampled.bench.lake, Some(&summary.id)).await.unwrap();
    assert_eq!(stored[0].summary.ignored.sampled, Sampled::away(0));
    assert!(stored[0].summary.adds_up() && stored[0].summary.waiting == 0);
}

#[tokio::test]
async fn a_reverted_import_that_is_brought_again_is_counted_anew() {
    let time = UtcMicros(UtcMicros::now().0 - 4_000 * SECOND);
    let sampled = Sampled::new(Journals::default(), time).await;
    let log = Sampled::log(time, 0);
    let summary = sampled.bench.import(&log).await;
    sampled.bench.importer.revert(&summary.id).await.unwrap();
    assert!(sampled.weights().await.is_empty());
    let again = sampled.bench.import(&log).await;
    assert_eq!((again.ignored.sampled, again.added.total()), (Sampled::away(0), 40 - Sampled::away(0)));
    sampled.assert_sampled(0).await;
    // what was recorded for lines reaches other lines of its second alone, and events as far as any two records
    let mut book = RateBook::new(sampled.bench.lake.clone(), Duration::from_secs(5), Duration::from_secs(60));
    let lowest = book.lowest(&[(sampled.link, second_of(time))].into()).await.unwrap();
    assert_eq!(lowest.of_line(sampled.link, time), 0.5);
}

#[tokio::test]
async fn lines_of_before_redirects_have_heard_of_a_change_go_by_the_rates() {
    let time = UtcMicros(UtcMicros::now().0 - 4_000 * SECOND);
    let billed_for = |seconds: i64| [(0, Analytics::Internal), (time.0 - seconds * SECOND, Analytics::Billed)];
    let dry = ImportOptions { dry_run: true, ..ImportOptions::default() };
    // thirty seconds until every redirect has heard, and sixty-five between two records of a request
    for (seconds, away) in [(2, Sampled::away(0)), (94, Sampled::away(0)), (96, 0)] {
        let sampled = Sampled::of(&billed_for(seconds), Journals::default(), time).await;
        let planned = sampled.bench.import_with(&Sampled::log(time, 0), dry.clone()).await.unwrap();
        let summary = sampled.bench.import(&Sampled::log(time, 0)).await;
        assert_eq!((summary.ignored.sampled, summary.added.total()), (away, 40 - away), "{seconds}");
        assert_eq!((planned.ignored, planned.added), (summary.ignored, summary.added));
        match away {
            0 => assert!(sampled.weights().await.values().all(|weight| *weight == 1.0)),
            _ => sampled.assert_sampled(0).await,
        }
    }
}

/// Reports look for what was sampled away by the second of its own time.
#[tokio::test]
async fn what_lines_are_sampled_at_is_recorded_for_their_own_second() {
    let time = UtcMicros(UtcMicros::now().0 - 4_000 * SECOND);
    let sampled = Sampled::new(Journals::default(), time).await;
    let later = time.plus(Duration::from_secs(40));
    let mut book = RateBook::new(sampled.bench.lake.clone(), Duration::from_secs(5), Duration::from_secs(60));
    let asked = [(sampled.link, second_of(later))].into();
    assert!(!book.lowest(&asked).await.unwrap().has(sampled.link, second_of(later)));
    let summary = sampled.bench.import(&Sampled::log(later, 0)).await;
    assert_eq!(summary.ignored.sampled, Sampled::away(0));
    assert!(book.lowest(&asked).await.unwrap().has(sampled.link, second_of(later)));
}
