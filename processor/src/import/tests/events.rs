//! Events made elsewhere: as files and posted, alone and with the logs of the edge that they came through.

use std::collections::BTreeMap;

use bytes::Bytes;
use ingest::events::{Naming, Stand};
use ingest::ports::{EventIntake as _, EventPost, EventsTaken, IntakeError};
use proptest::prelude::*;

use super::*;

/// A bench where `provider` is in front of our own redirect, and a code without a host is of the one domain.
fn bench_behind(provider: &str, journals: Journals) -> Bench {
    bench_with(journals, config(provider))
}

fn config(provider: &str) -> ImportConfig {
    let domains = vec!["go.example.com".to_owned()];
    ImportConfig { edge: behind(provider), domains, ..ImportConfig::default() }
}

pub(super) fn bench() -> Bench {
    bench_behind("none", Journals::default())
}

fn naming(stand: Stand, provider: &str) -> Naming {
    Naming::new(stand, provider).unwrap()
}

fn as_events(stand: Stand, provider: &str) -> ImportOptions {
    ImportOptions { events: Some(naming(stand, provider)), ..ImportOptions::default() }
}

fn ago(seconds: i64) -> UtcMicros {
    UtcMicros(UtcMicros::now().0 - seconds * SECOND)
}

/// An event; without a request id if `id` is none.
fn event_at(id: Option<u64>, time: UtcMicros, code: &str) -> String {
    let id = id.map(|id| format!(",\"request_id\":\"{id:032x}\"")).unwrap_or_default();
    format!("{{\"code\":\"{code}\",\"time\":\"{time}\"{id},\"method\":\"GET\",\"ip\":\"203.0.113.7\"}}\n")
}

pub(super) fn as_origin(provider: &str) -> ImportOptions {
    as_events(Stand::Origin, provider)
}

/// An event of so many seconds ago.
pub(super) fn told_at(age: i64) -> String {
    event_at(Some(9), ago(age), "k")
}

async fn post(desk: &EventDesk, workspace: &str, naming: Naming, body: &[u8]) -> Result<EventsTaken, IntakeError> {
    let body = Bytes::copy_from_slice(body);
    desk.take_in(EventPost { workspace: workspace.into(), naming, body }).await
}

#[tokio::test]
async fn another_products_export_comes_in_once_and_its_bad_lines_are_kept() {
    let bench = bench();
    let time = ago(3_600);
    let file = [
        event_at(Some(1), time, "k"),
        event_at(Some(1), time, "k"),
        event_at(None, time, "k"),
        event_at(None, time, "k"),
        event_at(None, time, "elsewhere"),
        event_at(None, time, "off"),
        event_at(None, time, "k").replace("GET", "DELETE"),
        event_at(None, time, "k").replace("time", "when"),
        event_at(None, time, "k").replace("code", "link"),
        "{broken\n".to_owned(),
        "\n".to_owned(),
    ]
    .concat();
    let options = as_events(Stand::Import, "other");
    let summary = bench.import_with(&file, options.clone()).await.unwrap();
    assert_eq!((summary.format.as_str(), summary.lines, summary.headers), ("events", 11, 1));
    assert_eq!((summary.added.import, summary.added.total(), summary.already_counted), (Some(4), 4, 1));
    assert_eq!((summary.ignored.analytics_off, summary.ignored.method), (1, 1));
    let rejected = |reason: &str| summary.rejected[reason];
    assert_eq!((rejected("bad_timestamp"), rejected("no_code"), rejected("bad_json")), (1, 1, 1));
    assert_eq!(bench.count(Table::Rejects).await, 3);
    let of = |code: &str, n: usize| vec![(code.to_owned(), "import".to_owned()); n];
    assert_eq!(bench.rows(Table::Clicks).await, [of("elsewhere", 1), of("k", 3)].concat());

    let again = bench.import_with(&file, options.clone()).await.unwrap();
    assert_eq!((again.added.import, again.already_counted), (Some(0), 5));
    // the same lines in another file, written in another way
    let other = file.replace("{\"code\":\"k\",", "{ \"extra\":1, \"code\":\"k\", ");
    let again = bench.import_with(&other, options.clone()).await.unwrap();
    assert_eq!((again.added.import, again.already_counted), (Some(0), 5));
    let error = bench.import_with(&file, as_events(Stand::Origin, "nginx")).await.unwrap_err();
    assert!(matches!(&error, ImportError::OtherEvents { provider, .. } if provider == "other"), "{error}");
    let error = bench.import_with("a,b\nc,d\n", options).await.unwrap_err();
    assert!(matches!(error, ImportError::NoEvents { looked_at: 2, .. }), "{error}");
    assert_eq!(bench.distinct_ids().await, 4);
}

#[tokio::test]
async fn events_of_the_origin_are_counted_at_once_unless_a_journal_may_bring_the_same() {
    let file = [event_at(Some(1), ago(10), "k"), event_at(Some(2), ago(1_000), "k")].concat();
    let now = UtcMicros::now();
    let journals = || Journals::open(now.minus(Duration::from_secs(9_000)), now);
    let elsewhere = bench_behind("none", journals());
    let summary = elsewhere.import_with(&file, as_events(Stand::Origin, "nginx")).await.unwrap();
    assert_eq!((summary.added.origin, summary.waiting), (Some(2), 0));
    let clicks = elsewhere.lake.table(Table::Clicks).await.unwrap();
    assert_eq!(clicks.txns_with_prefix("settled/").count(), 0, "no journal's event is late for it");

    let ours = bench_behind("nginx", journals());
    let summary = ours.import_with(&file, as_events(Stand::Origin, "nginx")).await.unwrap();
    assert_eq!((summary.added.origin, summary.waiting), (Some(1), 1));
}

#[tokio::test]
async fn where_ids_do_not_meet_the_origins_lines_are_counted_from_its_first_event_on() {
    let bench = bench();
    let log = [line(1, 1_500, "HIT", "k"), line(2, 1_500, "MISS", "k"), line(3, 9_000, "MISS", "k")].concat();
    let by_status = ImportOptions { id: IdMode::StatusOnly, ..ImportOptions::default() };
    bench.import_with(&event_at(None, ago(3_000), "k"), as_events(Stand::Import, "nginx")).await.unwrap();
    let summary = bench.import_with(&line(4, 1_500, "MISS", "k"), by_status.clone()).await.unwrap();
    assert_eq!(summary.added.recovered, 1, "another product's clicks say nothing of the origin");

    bench.import_with(&event_at(Some(9), ago(2_500), "k"), as_events(Stand::Origin, "nginx")).await.unwrap();
    // another process knows, too
    let summary = bench_on(&bench, config("none")).import_with(&log, by_status).await.unwrap();
    assert_eq!((summary.added.edge, summary.added.recovered, summary.already_counted), (1, 1, 1));
}

/// Lines of another time than any event's are taken as if nobody had told of anything.
#[tokio::test]
async fn an_event_of_long_ago_says_nothing_of_now() {
    let bench = bench();
    let by_status = ImportOptions { id: IdMode::StatusOnly, ..ImportOptions::default() };
    let log = [line(1, 2_000, "MISS", "k"), line(2, 5_000, "MISS", "k")].concat();
    for day in [1, 400] {
        let events = event_at(Some(9), ago(day * 24 * 3_600 + 5_000), "k");
        let id = bench.import_with(&events, as_events(Stand::Origin, "nginx")).await.unwrap().id;
        let dry = ImportOptions { dry_run: true, ..by_status.clone() };
        let summary = bench.import_with(&log, dry).await.unwrap();
        assert_eq!(summary.already_counted, if day == 1 { 2 } else { 0 }, "it tells on for two days");
        bench.importer.revert(&id).await.unwrap();
    }
    let clicks = bench.lake.table(Table::Clicks).await.unwrap();
    let marks: Vec<_> = clicks.txns_with_prefix("elsewhere/").collect();
    assert_eq!(marks, [("elsewhere/nginx/w/0", 0)]);
}

/// What events have told is told no longer once they are taken back, wherever that is killed; logs by status that came in
/// meanwhile are taken in again.
#[tokio::test]
async fn events_taken_back_have_told_of_nothing() {
    let by_status = ImportOptions { id: IdMode::StatusOnly, ..ImportOptions::default() };
    let puts = ["clicks/_delta_log", "arrivals/_delta_log", "edge_files/_delta_log", "clicks/date"];
    let faults = puts.into_iter().flat_map(|put| (1..5).map(move |nth| Some((put, nth))));
    for fault in std::iter::once(None).chain(faults) {
        let bench = bench();
        let import = async |id: u64, hours: i64| {
            let events = event_at(Some(id), ago(hours * 3_600), "k");
            bench.import_with(&events, as_events(Stand::Origin, "nginx")).await.unwrap().id
        };
        let (first, second) = (import(8, 30).await, import(9, 10).await);
        let log = [line(1, 29 * 3_600, "MISS", "k"), line(2, 9 * 3_600, "MISS", "k")].concat();
        let before = bench.import_with(&log, by_status.clone()).await.unwrap();
        assert_eq!((before.added.recovered, before.already_counted), (0, 2));
        // the log's lines are told of by one of them still
        let again = bench.importer.revert(&second).await.unwrap().again;
        assert_eq!(again.iter().map(|log| &log.summary.id).collect::<Vec<_>>(), [&before.id]);
        let between = bench.import_with(&log, by_status.clone()).await.unwrap();
        assert_eq!((between.added.recovered, between.already_counted), (0, 2));

        if let Some((put, nth)) = fault {
            bench.store.arm(put, nth, Fault::Before);
            // whatever it comes to: it is killed there, and whoever finds it goes on
            let _first = bench.importer.revert(&first).await;
            bench.store.disarm();
            let left = unfinished(&bench.lake).await.unwrap();
            let is_named = left.iter().any(|import| import.summary.id == first);
            let state = stored(&bench.lake, Some(&first)).await.unwrap()[0].summary.state;
            let rows = bench.count(Table::Clicks).await;
            assert!(is_named || state == State::Reverted || rows == 1, "{fault:?}: {state:?}, {rows} rows");
        }
        bench.importer.revert(&first).await.unwrap();
        let log_again = bench.import_with(&log, by_status.clone()).await.unwrap();
        assert_eq!((log_again.added.recovered, log_again.already_counted), (2, 0), "{fault:?}");
        let other = bench_on(&bench, config("none"));
        let other = other.import_with(&line(3, 9 * 3_600, "MISS", "k"), by_status.clone()).await.unwrap();
        assert_eq!(other.added.recovered, 1, "{fault:?}: another process");
        assert!(unfinished(&bench.lake).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_post_says_what_became_of_each_line_and_again_adds_nothing() {
    let bench = bench();
    let desk = EventDesk::new(&bench.importer);
    let lines = [
        event_at(Some(1), ago(1_000), "k"),
        "\n".to_owned(),
        event_at(Some(1), ago(1_000), "k"),
        event_at(None, ago(1_000), "off"),
        event_at(None, ago(1_000), "nobodys"),
        "[]\n".to_owned(),
        event_at(None, ago(1_000), "k").replace("GET", "PUT"),
        event_at(None, ago(1_000), "k").trim_end().to_owned(),
    ];
    let body = lines.concat().into_bytes();
    let nginx = || naming(Stand::Origin, "nginx");
    let rejected = vec![(4, "unknown_code"), (5, "unknown_code"), (6, "bad_json"), (7, "method")];
    let taken = post(&desk, "w", nginx(), &body).await.unwrap();
    assert_eq!(taken, EventsTaken { accepted: 2, duplicates: 1, rejected: rejected.clone() });
    for body in [body.clone(), flate2_gzip(&lines.concat())] {
        let taken = post(&desk, "w", nginx(), &body).await.unwrap();
        assert_eq!(taken, EventsTaken { accepted: 0, duplicates: 3, rejected: rejected.clone() });
    }
    let taken = post(&desk, "v", nginx(), lines[3].as_bytes()).await.unwrap();
    assert_eq!(taken.rejected, [(1, "analytics_off")]);
    assert_eq!(bench.count(Table::Clicks).await, 2);

    let imports = stored(&bench.lake, None).await.unwrap();
    assert_eq!(imports.len(), 2, "one a workspace and day");
    let ours = imports.iter().find(|import| import.workspace == "w").unwrap();
    assert_eq!((ours.summary.added.origin, ours.summary.records), (Some(2), 2));
    assert!(ours.summary.adds_up() && ours.summary.format == "events");
}

#[tokio::test]
async fn an_event_that_waits_is_a_duplicate_when_it_is_posted_again() {
    let now = UtcMicros::now();
    let bench = bench_behind("nginx", Journals::open(now.minus(Duration::from_secs(9_000)), now));
    let desk = EventDesk::new(&bench.importer);
    let nginx = || naming(Stand::Origin, "nginx");
    // the line of the same request waits, too, and is no event
    assert_eq!(bench.import(&line(1, 5, "MISS", "k")).await.waiting, 1);
    let body =
        [event_at(Some(1), ago(5), "k"), event_at(Some(2), ago(5), "k"), event_at(Some(2), ago(5), "k")].concat();
    let taken = post(&desk, "w", nginx(), body.as_bytes()).await.unwrap();
    assert_eq!((taken.accepted, taken.duplicates), (2, 1));
    let taken = post(&desk, "w", nginx(), body.as_bytes()).await.unwrap();
    assert_eq!((taken.accepted, taken.duplicates), (0, 3));
    assert_eq!(bench.count(Table::Arrivals).await, 3);
    bench.journals.set(UtcMicros(0), now.plus(Duration::from_secs(100)));
    let mut settler = bench.settler().await;
    settler.pass_at(now.plus(Duration::from_secs(100))).await.unwrap();
    let origin = ("k".to_owned(), "origin".to_owned());
    assert_eq!(bench.rows(Table::Clicks).await, [origin.clone(), origin]);
    let taken = post(&desk, "w", nginx(), body.as_bytes()).await.unwrap();
    assert_eq!((taken.accepted, taken.duplicates), (0, 3));
}

#[tokio::test]
async fn events_can_be_taken_back_and_come_again() {
    let bench = bench();
    let desk = EventDesk::new(&bench.importer);
    let body: String = (0..3).map(|id| event_at(Some(id), ago(1_000), "k")).collect();
    let file: String = (5..9).map(|id| event_at(Some(id), ago(1_000), "k")).collect();
    let nginx = || naming(Stand::Origin, "nginx");
    for _ in 0..2 {
        assert_eq!(post(&desk, "w", nginx(), body.as_bytes()).await.unwrap().accepted, 3);
        let summary = bench.import_with(&file, as_events(Stand::Origin, "nginx")).await.unwrap();
        assert_eq!(summary.added.origin, Some(4));
        for import in stored(&bench.lake, None).await.unwrap() {
            assert!(import.summary.adds_up(), "{import:?}");
            let reverted = bench.importer.revert(&import.summary.id).await.unwrap();
            assert_eq!(Some(reverted.removed), import.summary.added.origin);
        }
        assert_eq!(bench.count(Table::Clicks).await, 0);
    }
}

/// Nobody can bring what was posted again: a log whose rows it has met doesn't take it along.
#[tokio::test]
async fn a_log_that_is_taken_back_leaves_events_that_have_met_its_rows() {
    let bench = bench();
    let desk = EventDesk::new(&bench.importer);
    for settled_first in [true, false] {
        let code = |id: u64| id + if settled_first { 0 } else { 100 };
        let log: String = (0..10).map(|id| line_at(code(id), ago(5_000), "HIT", "k")).collect();
        let events: String = (0..10).map(|id| event_at(Some(code(id)), ago(5_000), "k")).collect();
        let before = bench.count(Table::Clicks).await;
        let id = bench.import(&log).await.id;
        let taken = post(&desk, "w", naming(Stand::Origin, "nginx"), events.as_bytes()).await.unwrap();
        assert_eq!((taken.accepted, taken.duplicates), (0, 10));
        if settled_first {
            assert_eq!(bench.importer.correct().await.unwrap().corrected, 10);
        }
        let reverted = bench.importer.revert(&id).await.unwrap();
        assert_eq!(reverted.removed, if settled_first { 0 } else { 10 });
        bench.settler().await.pass().await.unwrap();
        assert_eq!(bench.count(Table::Clicks).await, before + 10);
        let posts = stored(&bench.lake, None).await.unwrap();
        let posts = posts.iter().find(|import| import.sha256.is_empty()).map(|import| import.summary.added.origin);
        assert_eq!(posts, Some(Some(before as u64 + 10)));
    }
}

#[tokio::test]
async fn posts_that_are_taken_back_say_so_until_more_are_posted() {
    let bench = bench();
    let desk = EventDesk::new(&bench.importer);
    let posted = async |ids: std::ops::Range<u64>| {
        let events: String = ids.map(|id| event_at(Some(id), ago(5_000), "k")).collect();
        post(&desk, "w", naming(Stand::Origin, "nginx"), events.as_bytes()).await.unwrap();
    };
    let only = async || stored(&bench.lake, None).await.unwrap().remove(0);
    posted(0..3).await;
    let import = only().await;
    assert_eq!((import.summary.state, import.provider.as_str()), (State::Done, "nginx"));
    let id = import.summary.id;
    for was_gone in [false, true] {
        let reverted = bench.importer.revert(&id).await.unwrap();
        assert_eq!((reverted.was_gone, reverted.import.summary.state), (was_gone, State::Reverted));
        let now = only().await;
        assert_eq!(
            (now.summary.state, now.summary.ignored.reverted, now.imported_at),
            (State::Reverted, 3, import.imported_at)
        );
        assert!(now.summary.adds_up(), "{now:?}");
        assert!(now.summary.note.is_some_and(|note| note.starts_with("taken back at 20")));
        assert!(unfinished(&bench.lake).await.unwrap().is_empty());
    }
    posted(2..4).await;
    let now = only().await.summary;
    assert_eq!((now.state, now.added.origin, now.ignored.reverted), (State::Done, Some(2), 0), "the same day's go on");
    assert_eq!(bench.importer.revert(&id).await.unwrap().removed, 2);
    assert_eq!((only().await.summary.state, bench.count(Table::Clicks).await), (State::Reverted, 0));
}

#[tokio::test]
async fn a_body_that_is_too_much_or_cut_is_refused_whole() {
    let bench = bench();
    let desk = EventDesk::new(&bench.importer);
    let refused = async |body: &[u8]| {
        let error = post(&desk, "w", naming(Stand::Origin, "nginx"), body).await.unwrap_err();
        assert_eq!(bench.count(Table::Clicks).await + bench.count(Table::EdgeFiles).await, 0, "{error}");
        error
    };
    let event = event_at(None, ago(1_000), "k");
    let mut cut = flate2_gzip(&event.repeat(500));
    cut.truncate(cut.len() - 9);
    let error = refused(&cut).await;
    assert!(matches!(&error, IntakeError::Unreadable(_)) && error.to_string().contains("in the middle"), "{error}");
    let error = refused("x\n".repeat(100_001).as_bytes()).await;
    assert!(error.to_string().starts_with("the body has more than 100000 lines; send it in parts"), "{error}");
    let error = refused(&flate2_gzip(&" ".repeat(33 << 20))).await;
    assert!(matches!(&error, IntakeError::TooMuch(why) if why.contains("unpacks to more than")), "{error}");
    let hours: String = (0..1_001).map(|hour| event_at(None, ago(3_600 * hour + 100), "k")).collect();
    let error = refused(hours.as_bytes()).await;
    assert!(matches!(&error, IntakeError::TooMuch(why) if why.contains("1000 hours")), "{error}");
    assert_eq!(post(&desk, "w", naming(Stand::Origin, "nginx"), b"").await.unwrap(), EventsTaken::default());
}

#[tokio::test]
async fn a_post_whose_answer_is_lost_or_whose_commit_fails_can_be_sent_again() {
    for fault in [Fault::Before, Fault::After] {
        let bench = bench();
        let desk = EventDesk::new(&bench.importer);
        let nginx = || naming(Stand::Origin, "nginx");
        post(&desk, "w", nginx(), event_at(Some(1), ago(1_000), "k").as_bytes()).await.unwrap();
        let body: String = (0..50).map(|id| event_at(Some(id), ago(1_000 - id as i64), "k")).collect();
        bench.store.arm("clicks/_delta_log", 1, fault);
        let _first = post(&desk, "w", nginx(), body.as_bytes()).await;
        post(&desk, "w", nginx(), body.as_bytes()).await.unwrap();
        assert_eq!((bench.count(Table::Clicks).await, bench.distinct_ids().await), (50, 50));
    }
}

#[tokio::test]
async fn a_sparse_export_of_years_makes_a_file_a_day_and_no_more() {
    let bench = bench();
    let start = 20_000 * DAY;
    let file: String = (0..2_400i64).map(|n| event_at(None, UtcMicros(start + n * 3_600 * SECOND), "k")).collect();
    let summary = bench.import_with(&file, as_events(Stand::Import, "other")).await.unwrap();
    assert_eq!(summary.added.import, Some(2_400));
    assert_eq!(bench.lake.table(Table::Clicks).await.unwrap().files().len(), 100);
    // what is near now stays apart by the hour
    let recent: String = (0..100i64).map(|n| event_at(None, ago(100 + n * 1_200), "k")).collect();
    bench.import_with(&recent, as_events(Stand::Import, "other")).await.unwrap();
    let clicks = bench.lake.table(Table::Clicks).await.unwrap();
    assert!(clicks.files().iter().skip(100).all(|file| file.is_one_hour()));
    assert_eq!(bench.count(Table::Clicks).await, 2_500);
}

/// Something that tells of a request, as a test makes it up.
#[derive(Clone, Debug)]
enum Tells {
    Line { cache: &'static str, code: &'static str },
    Event { code: &'static str },
    Nameless { code: &'static str },
}

fn tells() -> impl Strategy<Value = (u64, Tells)> {
    let code = || proptest::sample::select(&["k", "k", "x", "off"][..]);
    let what = prop_oneof![
        (proptest::sample::select(&["HIT", "MISS"][..]), code()).prop_map(|(cache, code)| Tells::Line { cache, code }),
        code().prop_map(|code| Tells::Event { code }),
        code().prop_map(|code| Tells::Nameless { code }),
    ];
    (0u64..16, what)
}

/// Where a part comes from.
#[derive(Clone, Copy, Debug)]
enum Way {
    File,
    Post,
}

async fn the_union(parts: Vec<(Vec<(u64, Tells)>, Way)>, open: bool, ours: bool) -> Result<(), TestCaseError> {
    let now = UtcMicros::now();
    let journals = if open {
        Journals::open(now.minus(Duration::from_secs(9_000_000)), now.minus(Duration::from_secs(300)))
    } else {
        Journals::default()
    };
    let provider = if ours { "nginx" } else { "none" };
    let bench = bench_behind(provider, journals);
    let desk = EventDesk::new(&bench.importer);
    // one time for all that tells of a request
    let at = |id: u64| UtcMicros(now.0 - [5, 100, 500, 2_000, 90_000, 4_000_000][id as usize % 6] * SECOND - id as i64);
    let nginx = || naming(Stand::Origin, "nginx");
    let mut named = BTreeMap::new();
    let mut nameless: BTreeMap<(u64, &str), usize> = BTreeMap::new();
    let mut texts = Vec::new();
    for (part, way) in &parts {
        let (mut log, mut events) = (String::new(), String::new());
        let mut here: BTreeMap<(u64, &str), usize> = BTreeMap::new();
        for (id, what) in part {
            match what {
                Tells::Line { cache, code } => log.push_str(&line_at(*id, at(*id), cache, code)),
                Tells::Event { code } => events.push_str(&event_at(Some(*id), at(*id), code)),
                Tells::Nameless { code } => events.push_str(&event_at(None, at(*id), code)),
            }
            // a tenant's posts are of its own links alone
            let counts = |code: &str| code != "off" && (code == "k" || matches!(way, Way::File));
            match what {
                Tells::Line { code, .. } if *code != "off" => drop(named.insert((*id, *code), ())),
                Tells::Event { code } if counts(code) => drop(named.insert((*id, *code), ())),
                Tells::Nameless { code } if counts(code) => *here.entry((*id, *code)).or_default() += 1,
                _ => {}
            }
        }
        for (key, n) in here {
            let most = nameless.entry(key).or_default();
            *most = n.max(*most);
        }
        texts.push((log, events, *way));
    }
    let expected = named.len() + nameless.values().sum::<usize>();
    for round in 0..2 {
        for (log, events, way) in &texts {
            if !log.is_empty() {
                let summary = bench.import(log).await;
                prop_assert!(round == 0 || summary.added.total() == 0, "{summary:?}");
            }
            match way {
                _ if events.is_empty() => {}
                Way::File => {
                    let summary = bench.import_with(events, as_events(Stand::Origin, "nginx")).await.unwrap();
                    prop_assert!(round == 0 || summary.added.total() == 0, "{summary:?}");
                }
                Way::Post => {
                    let taken = post(&desk, "w", nginx(), events.as_bytes()).await.unwrap();
                    let told = taken.accepted + taken.duplicates + taken.rejected.len() as u64;
                    prop_assert_eq!(told, events.lines().count() as u64);
                    prop_assert!(round == 0 || taken.accepted == 0, "{taken:?}");
                }
            }
            prop_assert!(bench.distinct_ids().await <= expected);
        }
        bench.journals.set(UtcMicros(0), now.plus(Duration::from_secs(5_000)));
        bench.settler().await.pass_at(now.plus(Duration::from_secs(5_000))).await.unwrap();
        prop_assert_eq!(bench.count(Table::Clicks).await, expected);
        prop_assert_eq!(bench.distinct_ids().await, expected);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever tells of a request, in whatever order and however often: it is one click.
    #[test]
    fn events_and_lines_come_to_the_union(
        parts in proptest::collection::vec(
            (proptest::collection::vec(tells(), 1..20), proptest::sample::select(&[Way::File, Way::Post][..])),
            1..5,
        ),
        open: bool,
        ours: bool,
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(the_union(parts, open, ours))?;
    }
}
