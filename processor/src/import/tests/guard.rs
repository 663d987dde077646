//! Ids that meet, and ids that don't: what is recovered, what is held, and what an operator makes of it.

use std::collections::BTreeSet;

use proptest::prelude::*;
use schemas::{ClickBuilder, ClickId, Source};

use super::*;
use crate::hot::testing::click;
use crate::lake::{Change, Span};
use crate::settle::{DecideError, Mismatched, Standing, Waiting, mismatched};

const HOUR: i64 = schemas::time::HOUR;

/// A bench behind our own edge, and the begin of an hour some hours ago.
pub(super) fn behind_nginx() -> (Bench, UtcMicros) {
    let now = UtcMicros::now();
    let journals = Journals::open(now.minus(Duration::from_secs(9_000_000)), now);
    let config = ImportConfig { edge: behind("nginx"), ..ImportConfig::default() };
    (bench_with(journals, config), UtcMicros((now.hour() - 3) * HOUR))
}

pub(super) fn time_of(hour: UtcMicros, number: u64) -> UtcMicros {
    UtcMicros(hour.0 + number as i64 * SECOND / 4)
}

/// Lines of requests that reached the origin.
pub(super) fn misses(hour: UtcMicros, numbers: std::ops::Range<u64>) -> String {
    numbers.map(|number| line_at(number, time_of(hour, number), "MISS", "k")).collect()
}

/// The id that the edge's header gives to a request.
pub(super) fn named(number: u64) -> ClickId {
    ClickId::from_edge("nginx", format!("{number:032x}").as_bytes(), "k")
}

/// The id that a request without one is given when it is answered.
pub(super) fn made_here(hour: UtcMicros, number: u64) -> ClickId {
    let millis = (time_of(hour, number).0 / 1_000) as u128;
    ClickId::from(millis << 80 | 7 << 76 | 0b10 << 62 | u128::from(number))
}

impl Bench {
    /// Events of our own redirect, as the hot path brings them.
    pub(super) async fn events(&self, hour: UtcMicros, numbers: std::ops::Range<u64>, id: impl Fn(u64) -> ClickId) {
        self.events_of("w", hour, numbers, id).await;
    }

    /// The same of a workspace.
    pub(super) async fn events_of(
        &self,
        workspace: &str,
        hour: UtcMicros,
        numbers: std::ops::Range<u64>,
        id: impl Fn(u64) -> ClickId,
    ) {
        let mut rows = ClickBuilder::new();
        for number in numbers {
            let event = click(id(number).as_u128(), time_of(hour, number).0);
            rows.push(&schemas::Click { workspace: workspace.into(), ..event });
        }
        let mut clicks = self.lake.table(Table::Clicks).await.unwrap();
        let add = clicks.write_spanning(&[rows.finish().unwrap()], Span::Hour).await.unwrap();
        clicks.commit(Change { add, ..Change::default() }).await.unwrap();
    }

    /// Says what lines of an hour are.
    pub(super) async fn settles(&self, provider: &str, hour: UtcMicros, word: Standing) -> Decided {
        self.importer.settle_hour(provider, hour, word).await.unwrap()
    }

    pub(super) async fn settler_behind_nginx(&self) -> Settler {
        self.settler_of(SettleConfig { edge: behind("nginx"), ..SettleConfig::default() }).await
    }

    pub(super) async fn by_source(&self, source: Source) -> usize {
        self.rows(Table::Clicks).await.iter().filter(|(_, of)| of == source.as_str()).count()
    }
}

pub(super) fn open_of(provider: &str, hour: UtcMicros, waiting: u64) -> Vec<Mismatched> {
    vec![Mismatched { provider: provider.into(), hour, waiting }]
}

fn open(hour: UtcMicros, waiting: u64) -> Vec<Mismatched> {
    open_of("nginx", hour, waiting)
}

#[tokio::test]
async fn a_link_that_was_off_for_a_while_makes_no_hour_mismatched() {
    let now = UtcMicros::now();
    let hour = UtcMicros((now.hour() - 3) * HOUR);
    let at = |number| time_of(hour, number).0;
    let counted = [(0, Analytics::Internal), (at(800), Analytics::Off), (at(1_600), Analytics::Internal)];
    let directory = Directory::default().with("w", "go.example.com", "k", &counted);
    let journals = Journals::open(now.minus(Duration::from_secs(9_000_000)), now);
    let config = ImportConfig { edge: behind("nginx"), ..ImportConfig::default() };
    let bench = bench_in(FaultStore::new(Arc::new(InMemory::new())), Arc::new(journals), directory, config);
    // thirty seconds long the redirect goes by what the link was: events of what is off, none of what is on again
    for events in [0..920, 1_720..2_400] {
        bench.events(hour, events, named).await;
    }
    let log = misses(hour, 0..2_400);
    let summary = bench.import(&log).await;
    assert_eq!((summary.mismatched, summary.waiting), (Vec::new(), 0));
    assert_eq!((summary.added.recovered, summary.ignored.analytics_off), (120, 800));
    assert_eq!(bench.count(Table::Clicks).await, 920 + 680 + 120);
    assert_eq!(bench.import(&misses(hour, 0..2_401)).await.waiting, 0, "nor later");
}

#[tokio::test]
async fn an_edge_that_sends_no_id_has_no_miss_counted_twice() {
    for (word, rows) in [(Standing::Counted, 0), (Standing::Recovered, 310)] {
        let (bench, hour) = behind_nginx();
        bench.events(hour, 0..300, |number| made_here(hour, number)).await;
        let hits: String = (900..950).map(|number| line_at(number, time_of(hour, number), "HIT", "k")).collect();
        let log = [misses(hour, 0..300), hits].concat();
        let dry = ImportOptions { dry_run: true, ..ImportOptions::default() };
        assert_eq!(bench.import_with(&log, dry).await.unwrap().added.recovered, 0);
        let summary = bench.import(&log).await;
        assert_eq!(
            (summary.added, summary.waiting),
            (Added { edge: 50, recovered: 0, ..Added::default() }, 300),
            "{word:?}"
        );
        assert_eq!(summary.mismatched, open(hour, 300));
        assert_eq!(mismatched(&bench.lake).await.unwrap(), open(hour, 300));
        assert_eq!(stored(&bench.lake, None).await.unwrap()[0].summary.mismatched, open(hour, 300));
        let mut settler = bench.settler_behind_nginx().await;
        settler.pass().await.unwrap();
        // whatever it is configured for, a settler keeps to what stands
        bench.settler().await.pass().await.unwrap();
        assert_eq!(bench.count(Table::Clicks).await, 350);
        let again = bench.import(&log).await;
        assert_eq!((again.waiting, again.mismatched), (300, open(hour, 300)));

        let wrong = bench.importer.settle_hour("nginx", UtcMicros(hour.0 + HOUR), word).await.unwrap_err();
        assert!(matches!(wrong, DecideError::NotMismatched { .. }), "{wrong}");
        for _ in 0..2 {
            let decided = bench.settles("nginx", hour, word).await;
            assert_eq!((decided.was, decided.again.len()), (None, 0));
        }
        assert_eq!(bench.count(Table::Arrivals).await, 0);
        assert!(mismatched(&bench.lake).await.unwrap().is_empty());

        let late = bench.import(&misses(hour, 300..310)).await;
        assert_eq!((late.waiting, late.added.recovered + late.already_counted), (0, 10));
        assert_eq!(bench.by_source(Source::Recovered).await, rows, "{word:?}");
        let stands = stored(&bench.lake, Some(&summary.id)).await.unwrap().remove(0).summary;
        assert!(stands.adds_up() && stands.waiting == 0 && stands.mismatched.is_empty(), "{stands:?}");
    }
}

#[tokio::test]
async fn lost_events_are_recovered_where_ids_meet() {
    let (bench, hour) = behind_nginx();
    bench.events(hour, 120..6_000, named).await;
    let summary = bench.import(&misses(hour, 0..6_000)).await;
    assert_eq!((summary.added.recovered, summary.already_counted, summary.waiting), (120, 5_880, 0));
    assert!(summary.mismatched.is_empty());
}

#[tokio::test]
async fn few_are_recovered_whatever_ids_do() {
    let (bench, hour) = behind_nginx();
    bench.events(hour, 0..99, |number| made_here(hour, number)).await;
    assert_eq!(bench.import(&misses(hour, 0..99)).await.added.recovered, 99);
    bench.events(hour, 99..100, |number| made_here(hour, number)).await;
    let summary = bench.import(&misses(hour, 99..100)).await;
    assert_eq!((summary.added.recovered, summary.waiting), (0, 1), "the hundredth");
}

#[tokio::test]
async fn one_server_of_three_without_the_header_is_held() {
    let (bench, hour) = behind_nginx();
    let id = |number: u64| if number.is_multiple_of(3) { made_here(hour, number) } else { named(number) };
    bench.events(hour, 0..600, id).await;
    let summary = bench.import(&misses(hour, 0..600)).await;
    assert_eq!((summary.added.recovered, summary.already_counted, summary.waiting), (0, 400, 200));
    assert_eq!(summary.mismatched, open(hour, 200));
}

/// A part of the ids is another one at the origin, and the same lines come in several files.
#[tokio::test]
async fn other_ids_are_held_however_often_their_lines_come() {
    let (bench, hour) = behind_nginx();
    let id = |number: u64| if number.is_multiple_of(3) { named(number + 1_000_000) } else { named(number) };
    bench.events(hour, 0..1_200, id).await;
    assert_eq!(bench.import(&misses(hour, 0..600)).await.waiting, 200);
    let whole = bench.import(&misses(hour, 0..1_200)).await;
    assert_eq!((whole.already_counted, whole.waiting), (1_000, 200), "what waits already is not counted here");
    bench.import(&[misses(hour, 0..1_200), "\n".into()].concat()).await;
    assert_eq!(mismatched(&bench.lake).await.unwrap(), open(hour, 400));
    assert_eq!(bench.by_source(Source::Recovered).await, 0);
}

/// What looks like ids that don't meet while a part of the logs is missing was lost, as the other part shows.
#[tokio::test]
async fn the_rest_of_an_hours_lines_releases_it() {
    let (bench, hour) = behind_nginx();
    bench.events(hour, 0..1_000, named).await;
    let first = bench.import(&misses(hour, 850..1_150)).await;
    assert_eq!((first.already_counted, first.waiting), (150, 150));
    assert_eq!(first.mismatched, open(hour, 150));
    bench.import(&misses(hour, 0..850)).await;
    bench.settler_behind_nginx().await.pass().await.unwrap();
    assert!(mismatched(&bench.lake).await.unwrap().is_empty());
    let waiting = crate::settle::waiting(&bench.lake.table(Table::Arrivals).await.unwrap()).await.unwrap();
    assert_eq!((bench.by_source(Source::Recovered).await, waiting), (150, Waiting::default()));
}

/// As many lines as clicks or more, in whatever pieces: what is missing beside the clicks makes them no less doubles.
#[tokio::test]
async fn more_missing_lines_release_nothing() {
    let (bench, hour) = behind_nginx();
    bench.events(hour, 0..2_000, |number| made_here(hour, number)).await;
    assert_eq!(bench.import(&misses(hour, 0..2_001)).await.mismatched, open(hour, 2_001));
    let (bench, hour) = behind_nginx();
    bench.events(hour, 0..120, |number| made_here(hour, number)).await;
    assert_eq!(bench.import(&misses(hour, 0..150)).await.mismatched, open(hour, 150));

    let (bench, hour) = behind_nginx();
    bench.events(hour, 0..300, |number| named(number + 1_000_000)).await;
    assert_eq!(bench.import(&misses(hour, 0..300)).await.mismatched, open(hour, 300));
    let mut settler = bench.settler_behind_nginx().await;
    for (from, to) in [(300, 301), (301, 900), (900, 5_000)] {
        let more = bench.import(&misses(hour, from..to)).await;
        assert_eq!((more.added.recovered, more.waiting), (0, to - from));
        settler.pass().await.unwrap();
    }
    assert_eq!(mismatched(&bench.lake).await.unwrap(), open(hour, 5_000));
    assert_eq!(bench.by_source(Source::Recovered).await, 0);
}

/// Each event half a second before the hour's turn of its line: the counts of an hour are off by some.
#[tokio::test]
async fn events_of_the_hour_before_make_no_difference() {
    let (bench, hour) = behind_nginx();
    bench.events(UtcMicros(hour.0 - SECOND), 0..300, |number| named(number + 1_000_000)).await;
    let summary = bench.import(&misses(hour, 0..300)).await;
    assert_eq!((summary.added.recovered, summary.mismatched), (0, open(hour, 300)));
}

#[tokio::test]
async fn where_no_event_is_possible_nothing_is_held() {
    let hour = UtcMicros((UtcMicros::now().hour() - 3) * HOUR);
    for (journals, provider) in [
        (Journals::default(), "nginx"),
        (Journals::open(UtcMicros::now(), UtcMicros::now()), "nginx"),
        (Journals::open(UtcMicros::now(), UtcMicros::now()), "none"),
    ] {
        let bench = bench_with(journals, ImportConfig { edge: behind(provider), ..ImportConfig::default() });
        bench.events(hour, 0..200, |number| made_here(hour, number)).await;
        assert_eq!(bench.import(&misses(hour, 0..200)).await.added.recovered, 200, "{provider}");
        assert!(mismatched(&bench.lake).await.unwrap().is_empty());
    }
}

/// Our redirect counts under ids of its own, or of another edge: this edge's can't meet them.
#[tokio::test]
async fn lines_of_an_edge_that_the_redirect_is_not_told_of_are_held() {
    for provider in ["none", "fastly"] {
        let (_, hour) = behind_nginx();
        let journals = Journals::open(UtcMicros(0), UtcMicros::now());
        let bench = bench_with(journals, ImportConfig { edge: behind(provider), ..ImportConfig::default() });
        bench.events(hour, 0..300, |number| made_here(hour, number)).await;
        // what is no link of ours was never our redirect's, and neither was what another edge's ids name
        let foreign: String =
            (500..800).map(|number| line_at(number, time_of(hour, number), "MISS", "unknown")).collect();
        let summary = bench.import(&[misses(hour, 0..200), foreign].concat()).await;
        assert_eq!((summary.added.recovered, summary.waiting), (300, 200), "{provider}");
        assert_eq!(summary.mismatched, open(hour, 200), "{provider}");
        assert_eq!(bench.import(&misses(hour, 1_000..1_050)).await.waiting, 50, "{provider}: it stands");
    }
    let (_, hour) = behind_nginx();
    let journals = Journals::open(UtcMicros(0), UtcMicros::now());
    let bench = bench_with(journals, ImportConfig { edge: behind("fastly"), ..ImportConfig::default() });
    bench.events(hour, 0..200, named).await;
    assert_eq!(bench.import(&misses(hour, 300..500)).await.added.recovered, 200);
}

/// Whoever keeps redirects of their own has told of their events under other ids than the edge's log has.
#[tokio::test]
async fn events_made_elsewhere_that_meet_no_line_hold_the_lines() {
    let hour = UtcMicros((UtcMicros::now().hour() - 3) * HOUR);
    let told = |ids: &dyn Fn(u64) -> u64| -> String {
        (0..300)
            .map(|number| {
                let time = time_of(hour, number);
                format!("{{\"code\":\"unknown\",\"time\":\"{time}\",\"request_id\":\"{:032x}\"}}\n", ids(number))
            })
            .collect()
    };
    let lines: String = (0..300).map(|number| line_at(number, time_of(hour, number), "MISS", "unknown")).collect();
    let naming = ingest::events::Naming::new(ingest::events::Stand::Origin, "nginx").unwrap();
    let events = ImportOptions { events: Some(naming), ..ImportOptions::default() };
    let domains = vec!["go.example.com".to_owned()];

    let bench = bench_with(Journals::default(), ImportConfig { domains: domains.clone(), ..ImportConfig::default() });
    bench.import_with(&told(&|number| number + 10_000), events.clone()).await.unwrap();
    let summary = bench.import(&lines).await;
    assert_eq!((summary.added.recovered, summary.waiting), (0, 300));
    assert_eq!(summary.mismatched, open_of("nginx/default", hour, 300), "whose events they are");

    // some lost, the rest meets
    let bench = bench_with(Journals::default(), ImportConfig { domains, ..ImportConfig::default() });
    bench.import_with(&told(&|number| number + 120), events).await.unwrap();
    let summary = bench.import(&[lines, misses(hour, 300..420).replace("/k", "/unknown")].concat()).await;
    assert_eq!((summary.added.recovered, summary.already_counted, summary.waiting), (120, 300, 0));
}

/// While some lines may still find their event, none of the others is recovered too early.
#[tokio::test]
async fn lines_that_come_due_one_after_the_other_are_judged_together() {
    let now = UtcMicros::now();
    let (bench, hour) = behind_nginx();
    let wait = SettleConfig::default().waits.recover_after;
    // the log ends in the middle of what is due
    bench.journals.set(now.minus(Duration::from_secs(9_000_000)), time_of(hour, 50).plus(wait));
    bench.events(hour, 0..200, |number| made_here(hour, number)).await;
    let summary = bench.import(&misses(hour, 0..200)).await;
    assert_eq!((summary.added.recovered, summary.waiting), (0, 200));
    assert!(summary.mismatched.is_empty(), "not known yet");
    bench.journals.set(now.minus(Duration::from_secs(9_000_000)), time_of(hour, 101).plus(wait));
    bench.settler_behind_nginx().await.pass().await.unwrap();
    assert_eq!(mismatched(&bench.lake).await.unwrap(), open(hour, 200));
    assert_eq!(bench.by_source(Source::Recovered).await, 0);
}

/// A mismatched import that is taken back leaves nothing to decide.
#[tokio::test]
async fn an_hour_of_which_nothing_waits_any_more_is_closed() {
    let (bench, hour) = behind_nginx();
    bench.events(hour, 0..200, |number| made_here(hour, number)).await;
    let summary = bench.import(&misses(hour, 0..200)).await;
    assert_eq!(mismatched(&bench.lake).await.unwrap(), open(hour, 200));
    let reverted = bench.importer.revert(&summary.id).await.unwrap();
    assert_eq!((reverted.removed, reverted.removed_waiting), (0, 200));
    assert!(mismatched(&bench.lake).await.unwrap().is_empty());
    let wrong = bench.importer.settle_hour("nginx", hour, Standing::Counted).await.unwrap_err();
    assert!(matches!(wrong, DecideError::NotMismatched { .. }), "{wrong}");
    assert_eq!(bench.import(&misses(hour, 0..200)).await.waiting, 200);
}

/// Puts that a fault may hit.
const PUTS: [&str; 5] =
    ["clicks/_delta_log", "arrivals/_delta_log", "edge_files/_delta_log", "clicks/date", "arrivals/"];

/// Files of an hour whose ids don't meet, whatever they have in common and whichever write fails: nothing is recovered
/// before an operator says so, and then exactly what the word says.
async fn whatever_does_not_meet(
    files: &[(u64, u64)],
    (named_otherwise, counted): (bool, bool),
    fault: Option<(usize, usize, bool)>,
) -> Result<(), TestCaseError> {
    let (bench, hour) = behind_nginx();
    let lines: BTreeSet<u64> = files.iter().flat_map(|(from, of)| *from..from + of).collect();
    let id = |number: u64| if named_otherwise { named(number + 1_000_000) } else { made_here(hour, number) };
    bench.events(hour, 0..600, id).await;
    if let Some((put, nth, after)) = fault {
        bench.store.arm(PUTS[put % PUTS.len()], nth, if after { Fault::After } else { Fault::Before });
    }
    for (from, of) in files {
        let log = misses(hour, *from..from + of);
        // one that fails is repeated
        while bench.import_with(&log, ImportOptions::default()).await.is_err() {}
        prop_assert_eq!(bench.by_source(Source::Recovered).await, 0);
    }
    let mut settler = bench.settler_behind_nginx().await;
    while settler.pass().await.is_err() {}
    prop_assert_eq!(bench.by_source(Source::Recovered).await, 0);
    prop_assert_eq!(mismatched(&bench.lake).await.unwrap().len(), 1);
    let word = if counted { Standing::Counted } else { Standing::Recovered };
    while bench.importer.settle_hour("nginx", hour, word).await.is_err() {}
    prop_assert_eq!(bench.by_source(Source::Recovered).await, if counted { 0 } else { lines.len() });
    prop_assert_eq!(
        (bench.count(Table::Arrivals).await, bench.distinct_ids().await),
        (0, bench.count(Table::Clicks).await)
    );
    for import in stored(&bench.lake, None).await.unwrap() {
        prop_assert!(import.summary.adds_up() && import.summary.waiting == 0, "{import:?}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn what_does_not_meet_is_never_recovered_by_itself(
        files in proptest::collection::vec((0u64..300, 100u64..300), 1..4),
        word in (any::<bool>(), any::<bool>()),
        fault in proptest::option::of((0usize..PUTS.len(), 1usize..4, any::<bool>())),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(whatever_does_not_meet(&files, word, fault))?;
    }
}
