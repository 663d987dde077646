//! An operator's word: carried out whatever is killed, also for what comes in meanwhile, and changed.

use proptest::prelude::*;
use schemas::Source;

use super::begin::in_chunks;
use super::guard::{behind_nginx, made_here, misses, open_of, time_of};
use super::*;
use crate::settle::{Standing, Word, mismatched, words_under_way};

impl Bench {
    async fn under_way(&self) -> Vec<Word> {
        words_under_way(&self.lake.table(Table::Clicks).await.unwrap())
    }

    /// Takes in again what is queued.
    async fn again(&self, logs: &[String]) {
        for queued in unfinished(&self.lake).await.unwrap() {
            let text = logs.iter().find(|log| identity_of(log) == queued.sha256).unwrap();
            while self.import_with(text, ImportOptions::default()).await.is_err() {}
        }
    }
}

fn identity_of(log: &str) -> String {
    use sha2::Digest as _;
    sha2::Sha256::digest(log.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Killed between the word and the rows that it takes out: it is named, and whoever finds it goes on.
#[tokio::test]
async fn a_word_that_was_killed_is_named_and_ended() {
    for nth in 2..4 {
        let (bench, hour) = behind_nginx();
        bench.events(hour, 0..400, |number| made_here(hour, number)).await;
        bench.import(&misses(hour, 0..80)).await;
        assert_eq!(bench.import(&misses(hour, 80..400)).await.mismatched, open_of("nginx", hour, 320));
        // the word itself, the rows, and that it is done
        bench.store.arm("clicks/_delta_log", nth, Fault::Before);
        bench.importer.settle_hour("nginx", hour, Standing::Counted).await.unwrap_err();
        let doubled = bench.by_source(Source::Recovered).await;
        assert_eq!(doubled, if nth == 2 { 80 } else { 0 });
        let word = Word { provider: "nginx".into(), hour, word: Standing::Counted };
        assert_eq!(bench.under_way().await, [word]);
        // nobody else's passes end it by the way, and no line comes back by it
        bench.settler_behind_nginx().await.pass().await.unwrap();
        assert_eq!(bench.by_source(Source::Recovered).await, doubled);
        let Word { provider, hour, word } = bench.under_way().await.remove(0);
        let other = bench_on(&bench, ImportConfig { edge: behind("nginx"), ..ImportConfig::default() });
        assert_eq!(other.settles(&provider, hour, word).await.taken_out, doubled as u64);
        assert_eq!((bench.by_source(Source::Recovered).await, bench.under_way().await), (0, vec![]));
        assert_eq!(bench.count(Table::Clicks).await, 400);
    }
}

/// Rows of an import that isn't ended go with the others, and none come when it is taken up again.
#[tokio::test]
async fn a_word_is_carried_out_for_an_import_that_was_killed() {
    let (_, hour) = behind_nginx();
    let journals = Journals::open(UtcMicros(0), UtcMicros::now());
    let config = in_chunks(ImportConfig { edge: behind("nginx"), ..ImportConfig::default() });
    let bench = bench_with(journals, config);
    bench.events(hour, 0..400, |number| made_here(hour, number)).await;
    let hits = |from: u64| -> String {
        (from..from + 14_000).map(|n| line_at(n, time_of(hour, n % 400), "HIT", "k")).collect()
    };
    let log = [misses(hour, 0..40), hits(10_000), misses(hour, 40..60), hits(30_000)].concat();
    bench.killed_half_in(&log).await;
    assert_eq!(bench.by_source(Source::Recovered).await, 40);
    assert_eq!(bench.import(&misses(hour, 60..400)).await.mismatched, open_of("nginx", hour, 340));
    assert_eq!(bench.settles("nginx", hour, Standing::Counted).await.taken_out, 40);
    assert_eq!(bench.by_source(Source::Recovered).await, 0);
    let ended = bench.import(&log).await;
    assert_eq!((ended.added.recovered, ended.waiting, ended.already_counted), (0, 0, 60), "{ended:?}");
    assert_eq!((bench.by_source(Source::Recovered).await, bench.under_way().await), (0, vec![]));
}

#[tokio::test]
async fn a_word_can_be_changed() {
    let (bench, hour) = behind_nginx();
    bench.events(hour, 0..400, |number| made_here(hour, number)).await;
    let logs = [misses(hour, 0..80), misses(hour, 80..400)];
    let (first, second) = (bench.import(&logs[0]).await, bench.import(&logs[1]).await);
    // of another hour, and of another edge: neither is this word's matter
    bench.import(&misses(UtcMicros(hour.0 + schemas::time::HOUR), 7_000..7_010)).await;
    assert_eq!((first.added.recovered, second.waiting), (80, 320));
    for _ in 0..2 {
        let counted = bench.settles("nginx", hour, Standing::Counted).await;
        assert_eq!(counted.again.len(), 0);
        assert_eq!(bench.by_source(Source::Recovered).await, 10);
        let recovered = bench.settles("nginx", hour, Standing::Recovered).await;
        assert_eq!(recovered.was, Some(Standing::Counted));
        let again: Vec<_> = recovered.again.iter().map(|log| &log.summary.id).collect();
        assert_eq!(again, [&first.id, &second.id]);
        let whose = format!("nginx {hour}");
        for log in unfinished(&bench.lake).await.unwrap() {
            assert_eq!((log.summary.state, log.summary.again_for.as_ref()), (State::Queued, Some(&whose)));
        }
        let same = bench.settles("nginx", hour, Standing::Recovered).await;
        assert_eq!((same.was, same.again.len()), (None, 2), "whoever is to take them in may have been killed");
        bench.again(&logs).await;
        assert_eq!((bench.by_source(Source::Recovered).await, bench.count(Table::Clicks).await), (410, 810));
        assert!(bench.under_way().await.is_empty() && unfinished(&bench.lake).await.unwrap().is_empty());
        assert_eq!(bench.settles("nginx", hour, Standing::Recovered).await.again.len(), 0, "the same again");
    }
    let counted = bench.settles("nginx", hour, Standing::Counted).await;
    assert_eq!((counted.was, counted.taken_out), (Some(Standing::Recovered), 400));
}

/// A log that can't be read any more is named until it is delivered again.
#[tokio::test]
async fn what_a_changed_word_misses_is_given_up_until_it_comes() {
    let (bench, hour) = behind_nginx();
    bench.events(hour, 0..300, |number| made_here(hour, number)).await;
    let log = misses(hour, 0..300);
    let id = bench.import(&log).await.id;
    bench.settles("nginx", hour, Standing::Counted).await;
    bench.settles("nginx", hour, Standing::Recovered).await;
    bench.importer.give_up(&id, "it came through a pipe").await.unwrap();
    let failed = unfinished(&bench.lake).await.unwrap().remove(0).summary;
    let note = failed.note.unwrap_or_default();
    assert!(failed.state == State::Failed && note.contains(&format!("misses of nginx in the hour {hour}")), "{note}");
    assert_eq!(bench.settles("nginx", hour, Standing::Recovered).await.again.len(), 1);
    assert_eq!(bench.import(&log).await.added.recovered, 300);
    assert!(unfinished(&bench.lake).await.unwrap().is_empty());
}

/// Puts that a fault may hit, of all that a word writes.
const PUTS: [&str; 4] = ["clicks/_delta_log", "arrivals/_delta_log", "edge_files/_delta_log", "clicks/date"];

/// A word: whether lines are counted, the put that fails, and whether somebody goes on with it then.
type Said = (bool, Option<(usize, usize, bool)>, bool);

async fn whatever_is_said(files: &[(u64, u64)], words: &[Said]) -> Result<(), TestCaseError> {
    let (bench, hour) = behind_nginx();
    bench.events(hour, 0..600, |number| made_here(hour, number)).await;
    let logs: Vec<String> = files.iter().map(|(from, of)| misses(hour, *from..from + of)).collect();
    for log in &logs {
        bench.import(log).await;
    }
    let lines: std::collections::BTreeSet<u64> = files.iter().flat_map(|(from, of)| *from..from + of).collect();
    prop_assume!(!mismatched(&bench.lake).await.unwrap().is_empty());
    let mut last = Standing::Open;
    for (counted, fault, goes_on) in words {
        last = if *counted { Standing::Counted } else { Standing::Recovered };
        if let Some((put, nth, after)) = fault {
            bench.store.arm(PUTS[put % PUTS.len()], *nth, if *after { Fault::After } else { Fault::Before });
        }
        let done = bench.importer.settle_hour("nginx", hour, last).await;
        bench.store.disarm();
        prop_assert!(done.is_ok() || fault.is_some());
        if *goes_on {
            // as `process` does with what it finds
            for Word { provider, hour, word } in bench.under_way().await {
                bench.settles(&provider, hour, word).await;
            }
            bench.again(&logs).await;
        }
    }
    // the last word may have been lost before it was written
    bench.settles("nginx", hour, last).await;
    bench.again(&logs).await;
    let expected = if last == Standing::Recovered { lines.len() } else { 0 };
    prop_assert_eq!(bench.by_source(Source::Recovered).await, expected);
    prop_assert_eq!(
        (bench.count(Table::Arrivals).await, bench.count(Table::Clicks).await, bench.distinct_ids().await),
        (0, 600 + expected, 600 + expected)
    );
    prop_assert!(bench.under_way().await.is_empty() && unfinished(&bench.lake).await.unwrap().is_empty());
    for import in stored(&bench.lake, None).await.unwrap() {
        prop_assert!(import.summary.adds_up() && import.summary.waiting == 0, "{import:?}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    /// Whatever is said, killed wherever, and changed: the last word holds, and every line is counted by it.
    #[test]
    fn the_last_word_holds(
        files in proptest::collection::vec((0u64..300, 50u64..300), 1..4),
        words in proptest::collection::vec(
            (
                any::<bool>(),
                proptest::option::of((0usize..PUTS.len(), 1usize..6, any::<bool>())),
                any::<bool>(),
            ),
            1..5,
        ),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(whatever_is_said(&files, &words))?;
    }
}
