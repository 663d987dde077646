//! Whose lines and events decide about whose; and what an operator's word takes out again.

use std::ops::Range;

use ingest::events::{Naming, Stand};
use schemas::Source;

use super::guard::{behind_nginx, made_here, misses, named, open_of, time_of};
use super::*;
use crate::settle::{Standing, mismatched};

fn as_tenant(workspace: &str) -> ImportOptions {
    ImportOptions { workspace: Some(workspace.to_owned()), ..ImportOptions::default() }
}

/// Lines of the tenant's own link that reached the origin.
fn evils(hour: UtcMicros, numbers: Range<u64>) -> String {
    numbers.map(|number| line_at(number, time_of(hour, number), "MISS", "ev")).collect()
}

/// Events of a link, as whoever answers its requests tells of them.
fn told(hour: UtcMicros, numbers: Range<u64>, code: &str) -> String {
    let event = |number| {
        let time = time_of(hour, number);
        let of = format!("\"domain\":\"go.example.com\",\"code\":\"{code}\"");
        format!("{{{of},\"time\":\"{time}\",\"request_id\":\"{:032x}\"}}\n", number + 1_000_000)
    };
    numbers.map(event).collect()
}

impl Bench {
    async fn uploads(&self, workspace: &str, log: &str) -> Summary {
        self.import_with(log, as_tenant(workspace)).await.unwrap()
    }

    async fn tells(&self, workspace: &str, events: &str) -> Summary {
        let events_of = Naming::new(Stand::Origin, "nginx").ok();
        let options = ImportOptions { events: events_of, ..as_tenant(workspace) };
        let summary = self.import_with(events, options).await.unwrap();
        assert_eq!(summary.added.origin, Some(summary.records));
        summary
    }

    /// Recovered rows of a code.
    async fn recovered(&self, code: &str) -> usize {
        self.rows(Table::Clicks).await.iter().filter(|(of, source)| of == code && source == "recovered").count()
    }
}

/// A tenant's lines neither release an hour of others nor keep it from being opened, whenever and however many come.
#[tokio::test]
async fn a_tenants_uploads_decide_about_its_own_lines_alone() {
    for numbers in [5_000..5_001, 5_000..6_000, 5_000..5_099] {
        for comes_first in [true, false] {
            let (bench, hour) = behind_nginx();
            bench.events(hour, 0..300, |number| named(number + 1_000_000)).await;
            if comes_first {
                assert_eq!(bench.uploads("evil", &evils(hour, numbers.clone())).await.waiting, 0);
            }
            let summary = bench.import(&misses(hour, 0..300)).await;
            assert_eq!((summary.added.recovered, summary.mismatched), (0, open_of("nginx", hour, 300)));
            if !comes_first {
                assert_eq!(bench.uploads("evil", &evils(hour, numbers.clone())).await.waiting, 0);
            }
            bench.settler_behind_nginx().await.pass().await.unwrap();
            assert_eq!(mismatched(&bench.lake).await.unwrap(), open_of("nginx", hour, 300));
            assert_eq!((bench.recovered("k").await, bench.recovered("ev").await), (0, numbers.clone().count()));
        }
    }
}

/// What a tenant tells of holds nobody else's lines, and neither do its clicks.
#[tokio::test]
async fn a_tenants_events_decide_about_its_own_lines_alone() {
    for tells_first in [true, false] {
        let (bench, hour) = behind_nginx();
        bench.events(hour, 200..1_000, named).await;
        if tells_first {
            bench.tells("evil", &told(hour, 0..300, "ev")).await;
        }
        let summary = bench.import(&[misses(hour, 0..1_000), evils(hour, 5_000..5_150)].concat()).await;
        assert_eq!(bench.recovered("k").await, 200, "lost in earnest");
        if tells_first {
            assert_eq!(summary.mismatched, open_of("nginx/evil", hour, 150), "its own lines, in the operator's log");
            assert_eq!(stored(&bench.lake, Some(&summary.id)).await.unwrap()[0].summary.mismatched, summary.mismatched);
        } else {
            assert!(summary.mismatched.is_empty());
            bench.tells("evil", &told(hour, 0..300, "ev")).await;
        }
        let late = bench.import(&misses(hour, 1_000..1_150)).await;
        assert_eq!(late.added.recovered, 150);
        assert_eq!(bench.recovered("ev").await, if tells_first { 0 } else { 150 });
    }
    // where no redirect of ours is at all
    let bench = bench();
    let hour = UtcMicros((UtcMicros::now().hour() - 3) * schemas::time::HOUR);
    bench.tells("evil", &told(hour, 0..300, "ev")).await;
    assert_eq!(bench.import(&misses(hour, 0..200)).await.added.recovered, 200);
}

/// The hours of the operator and of a tenant that has told before may open in one commit: each stays its own matter.
#[tokio::test]
async fn hours_that_open_together_stay_apart() {
    let (bench, hour) = behind_nginx();
    bench.events(hour, 0..300, |number| made_here(hour, number)).await;
    bench.tells("evil", &told(hour, 0..300, "ev")).await;
    let summary = bench.import(&[misses(hour, 0..250), evils(hour, 5_000..5_250)].concat()).await;
    let both = [open_of("nginx", hour, 250), open_of("nginx/evil", hour, 250)].concat();
    assert_eq!(summary.mismatched, both);
    bench.settler_behind_nginx().await.pass().await.unwrap();
    assert_eq!(mismatched(&bench.lake).await.unwrap(), both);
    bench.settles("nginx", hour, Standing::Recovered).await;
    assert_eq!((bench.recovered("k").await, bench.recovered("ev").await), (250, 0));
    bench.settles("nginx/evil", hour, Standing::Counted).await;
    assert_eq!((bench.recovered("ev").await, bench.count(Table::Arrivals).await), (0, 0));
}

/// One who begins to tell takes no lines out of an hour that stands open.
#[tokio::test]
async fn who_begins_to_tell_releases_nothing() {
    let (bench, hour) = behind_nginx();
    bench.events(hour, 0..300, |number| made_here(hour, number)).await;
    let log = [misses(hour, 0..300), evils(hour, 2_000..4_000)].concat();
    assert_eq!(bench.import(&log).await.mismatched, open_of("nginx", hour, 2_300));
    bench.tells("evil", &told(hour, 2_000..4_000, "ev")).await;
    bench.settler_behind_nginx().await.pass().await.unwrap();
    assert_eq!(mismatched(&bench.lake).await.unwrap(), open_of("nginx", hour, 2_300));
    assert_eq!(bench.by_source(Source::Recovered).await, 0);
}

/// What is left of an open hour would be below the bounds without this tenant's lines: neither an event of another time nor
/// one of the very hour takes them away.
#[tokio::test]
async fn no_event_releases_an_open_hour_for_others() {
    let long_ago = UtcMicros(schemas::time::DAY * 10_700);
    for of in [None, Some(long_ago)] {
        let (bench, hour) = behind_nginx();
        bench.events(hour, 0..40, |number| made_here(hour, number)).await;
        bench.events_of("evil", hour, 1_000..1_100, |number| made_here(hour, number)).await;
        let log = [misses(hour, 0..40), evils(hour, 1_000..1_100)].concat();
        assert_eq!(bench.import(&log).await.mismatched, open_of("nginx", hour, 140));
        bench.tells("evil", &told(of.unwrap_or(hour), 0..1, "ev")).await;
        bench.settler_behind_nginx().await.pass().await.unwrap();
        assert_eq!(mismatched(&bench.lake).await.unwrap(), open_of("nginx", hour, 140), "{of:?}");
        assert_eq!(bench.by_source(Source::Recovered).await, 0, "{of:?}");
    }
}

/// An event says nothing of other hours: lines there stay with the others'.
#[tokio::test]
async fn an_event_of_another_time_makes_no_party() {
    let (bench, hour) = behind_nginx();
    bench.tells("evil", &told(UtcMicros(schemas::time::DAY * 10_700), 0..1, "ev")).await;
    bench.events(hour, 0..40, |number| made_here(hour, number)).await;
    bench.events_of("evil", hour, 1_000..1_100, |number| made_here(hour, number)).await;
    let log = [misses(hour, 0..40), evils(hour, 1_000..1_100)].concat();
    assert_eq!(bench.import(&log).await.mismatched, open_of("nginx", hour, 140));
}

/// An operator's word holds for lines of whoever begins to tell afterwards, and not for whoever told before.
#[tokio::test]
async fn a_word_holds_for_parties_that_are_split_off_later() {
    for (word, tells_first) in
        [Standing::Counted, Standing::Recovered].map(|word| [(word, true), (word, false)]).concat()
    {
        let (bench, hour) = behind_nginx();
        bench.events(hour, 0..300, |number| made_here(hour, number)).await;
        // other ids than its lines have, so many that its own hour would be held
        let events = told(hour, 0..300, "ev");
        if tells_first {
            bench.tells("evil", &events).await;
        }
        bench.import(&misses(hour, 0..300)).await;
        bench.settles("nginx", hour, word).await;
        if !tells_first {
            bench.tells("evil", &events).await;
        }
        let late = bench.import(&evils(hour, 5_000..5_200)).await;
        let case = format!("{word:?} {tells_first}");
        if tells_first {
            assert_eq!(late.mismatched, open_of("nginx/evil", hour, 200), "{case}");
            bench.settles("nginx/evil", hour, Standing::Recovered).await;
            assert_eq!(bench.recovered("ev").await, 200);
            continue;
        }
        let (counted, recovered) = if word == Standing::Counted { (200, 0) } else { (0, 200) };
        assert_eq!((late.waiting, late.already_counted, late.added.recovered), (0, counted, recovered), "{case}");
        bench.settler_behind_nginx().await.pass().await.unwrap();
        assert!(mismatched(&bench.lake).await.unwrap().is_empty(), "{case}");
    }
}

#[tokio::test]
async fn a_tenants_uploads_are_judged_by_its_clicks_and_decided_by_name() {
    let (bench, hour) = behind_nginx();
    bench.events(hour, 0..300, |number| made_here(hour, number)).await;
    let log = misses(hour, 0..300);
    let uploaded = bench.uploads("w", &log).await;
    assert_eq!((uploaded.waiting, uploaded.mismatched), (300, open_of("nginx/w", hour, 300)));
    for other in ["nginx", "nginx/v"] {
        assert!(bench.importer.settle_hour(other, hour, Standing::Counted).await.is_err(), "{other}");
    }
    bench.settles("nginx/w", hour, Standing::Counted).await;
    assert!(mismatched(&bench.lake).await.unwrap().is_empty());
    // the operator's log has the same lines, and each word is one party's
    let again = bench.import(&[log, "\n".to_owned()].concat()).await;
    assert_eq!(again.mismatched, open_of("nginx", hour, 300));
    bench.settles("nginx", hour, Standing::Counted).await;
    assert_eq!((bench.count(Table::Arrivals).await, bench.count(Table::Clicks).await), (0, 300));
    let provider = stored(&bench.lake, Some(&uploaded.id)).await.unwrap().remove(0).provider;
    assert_eq!(provider, "nginx");
}

/// Once every line has found its event nothing is left to decide.
#[tokio::test]
async fn an_hour_whose_lines_have_all_found_their_events_is_closed() {
    let (bench, hour) = behind_nginx();
    bench.events(hour, 0..300, |number| made_here(hour, number)).await;
    assert_eq!(bench.import(&misses(hour, 0..300)).await.mismatched, open_of("nginx", hour, 300));
    let standing = async || {
        let clicks = bench.lake.table(Table::Clicks).await.unwrap();
        clicks.txns_with_prefix("mismatch/").map(|(_, stands)| stands).collect::<Vec<_>>()
    };
    let mut settler = bench.settler_behind_nginx().await;
    let now = UtcMicros::now();
    settler.pass_at(now).await.unwrap();
    assert_eq!(standing().await, [1], "something waits");
    bench.events(hour, 0..300, named).await;
    settler.pass_at(now.plus(Duration::from_secs(5))).await.unwrap();
    bench.settler_behind_nginx().await.pass().await.unwrap();
    assert_eq!((standing().await, bench.by_source(Source::Recovered).await), (vec![0], 0));
}

/// The first files of a mismatched hour have fewer lines than are held: once they are said to be counted, they are.
#[tokio::test]
async fn what_was_recovered_before_goes_when_its_hour_is_counted() {
    for fault in [None, Some(("clicks/_delta_log", 1)), Some(("clicks/_delta_log", 2)), Some(("clicks/date", 1))] {
        let (bench, hour) = behind_nginx();
        bench.journals.set_final(UtcMicros::now());
        bench.events(hour, 0..400, |number| made_here(hour, number)).await;
        let first = bench.import(&misses(hour, 0..40)).await;
        let second = bench.import(&misses(hour, 40..80)).await;
        bench.uploads("evil", &evils(hour, 5_000..5_050)).await;
        // of the next hour, and of no link of ours: neither is the word's matter
        bench.import(&misses(UtcMicros(hour.0 + schemas::time::HOUR), 7_000..7_010)).await;
        bench.import(&misses(hour, 8_000..8_010).replace("/k", "/unknown")).await;
        assert_eq!(bench.recovered("k").await, 90);
        assert_eq!(bench.import(&misses(hour, 80..400)).await.mismatched, open_of("nginx", hour, 320));

        if let Some((put, nth)) = fault {
            bench.store.arm(put, nth, Fault::Before);
        }
        while bench.importer.settle_hour("nginx", hour, Standing::Counted).await.is_err() {}
        let again = bench.settles("nginx", hour, Standing::Counted).await;
        assert_eq!(again.taken_out, 0, "{fault:?}");
        assert_eq!((bench.recovered("k").await, bench.recovered("ev").await), (10, 50), "{fault:?}");
        assert_eq!(bench.recovered("unknown").await, 10);
        assert_eq!(bench.by_source(Source::Origin).await, 400);
        for import in stored(&bench.lake, None).await.unwrap() {
            assert!(import.summary.adds_up() && import.summary.waiting == 0, "{import:?}");
            if [&first.id, &second.id].contains(&&import.summary.id) {
                assert_eq!((import.summary.added.recovered, import.summary.already_counted), (0, 40));
            }
        }
        assert_eq!(bench.import(&[misses(hour, 0..80), "\n".into()].concat()).await.already_counted, 80);
        let told = bench.batches(Table::Restatements, &["why", "workspace", "removed"]).await;
        let of = |batch: &RecordBatch, row: usize| {
            let text = |column: usize| batch.column(column).as_string::<i32>().value(row).to_owned();
            let removed = batch.column(2).as_primitive::<arrow::datatypes::Int64Type>().value(row);
            (text(0), text(1), removed)
        };
        let all = told.iter().flat_map(|batch| (0..batch.num_rows()).map(move |row| of(batch, row)));
        let removed: Vec<_> = all.filter(|(_, _, removed)| *removed > 0).collect();
        assert_eq!(removed.iter().map(|(_, _, removed)| removed).sum::<i64>(), 80, "{removed:?}");
        assert!(removed.iter().all(|(why, workspace, _)| why == "decision" && workspace == "w"), "{removed:?}");
    }
}
