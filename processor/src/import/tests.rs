//! Imports into tables in memory: repeated, resumed, beside a settler and another import, broken, refused.

mod ahead;
mod begin;
mod contents;
mod correct;
mod drafts;
mod events;
mod guard;
mod parties;
mod revert;
mod sampled;
mod union;
mod words;

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{AsArray as _, RecordBatch};
use ingest::edge::{Format, IdMode};
use object_store::memory::InMemory;
use schemas::tables::Table;
use schemas::time::{DAY, SECOND};
use schemas::{Analytics, UtcMicros};
use url::Url;

use super::testing::{Directory, Journals, Keys, enricher};
use super::*;
use crate::lake::testing::{Fault, FaultStore, Gate};
use crate::lake::{Lake, LakeOptions};
use crate::settle::{Edge, SettleConfig, Settler};

struct Bench {
    lake: Lake,
    store: FaultStore,
    journals: Arc<Journals>,
    importer: Importer,
}

fn bench() -> Bench {
    bench_with(Journals::default(), ImportConfig::default())
}

fn behind(provider: &str) -> Edge {
    Edge { provider: provider.to_owned(), ..Edge::default() }
}

fn bench_with(journals: Journals, config: ImportConfig) -> Bench {
    let store = FaultStore::new(Arc::new(InMemory::new()));
    bench_of(store, Arc::new(journals), config)
}

/// Another process on the same lake.
fn bench_on(other: &Bench, config: ImportConfig) -> Bench {
    bench_of(other.store.clone(), Arc::clone(&other.journals), config)
}

fn bench_of(store: FaultStore, journals: Arc<Journals>, config: ImportConfig) -> Bench {
    let directory = Directory::default()
        .with("w", "go.example.com", "k", &[(0, Analytics::Billed)])
        .with("v", "go.example.com", "off", &[(0, Analytics::Off)])
        .with("evil", "go.example.com", "ev", &[(0, Analytics::Billed)]);
    bench_in(store, journals, directory, config)
}

fn bench_in(store: FaultStore, journals: Arc<Journals>, directory: Directory, config: ImportConfig) -> Bench {
    let url = Url::parse("memory:///lake").unwrap();
    let lake = Lake::with_store(Arc::new(store.clone()), url, LakeOptions::default()).unwrap();
    let importer = Importer::new(
        lake.clone(),
        Arc::new(directory),
        Arc::new(Keys),
        Arc::clone(&journals) as _,
        enricher(),
        ImportConfig { threads: 2, ..config },
    );
    Bench { lake, store, journals, importer }
}

impl Bench {
    async fn import(&self, log: &str) -> Summary {
        self.import_with(log, ImportOptions::default()).await.unwrap()
    }

    async fn import_with(&self, log: &str, options: ImportOptions) -> Result<Summary, ImportError> {
        let input = Input::stream("test.log", std::io::Cursor::new(log.as_bytes().to_vec()));
        let summary = self.importer.import(input, options, |_| {}).await;
        assert!(summary.as_ref().map_or(true, Summary::adds_up), "{summary:?}");
        summary
    }

    async fn settler(&self) -> Settler {
        self.settler_of(SettleConfig::default()).await
    }

    async fn settler_of(&self, config: SettleConfig) -> Settler {
        Settler::new(&self.lake, Arc::clone(&self.journals) as _, enricher(), config).await.unwrap()
    }

    /// (request's code, source) of every row, sorted.
    async fn rows(&self, table: Table) -> Vec<(String, String)> {
        let mut found = Vec::new();
        for batch in self.batches(table, &["code", "source"]).await {
            let (codes, sources) = (batch.column(0).as_string::<i32>(), batch.column(1).as_string::<i32>());
            found.extend(codes.iter().zip(sources).map(|(c, s)| (c.unwrap().to_owned(), s.unwrap().to_owned())));
        }
        found.sort();
        found
    }

    async fn count(&self, table: Table) -> usize {
        self.batches(table, &[]).await.iter().map(RecordBatch::num_rows).sum()
    }

    async fn distinct_ids(&self) -> usize {
        let batches = self.batches(Table::Clicks, &["click_id"]).await;
        let ids: std::collections::BTreeSet<_> = batches.iter().flat_map(crate::settle::ids::click_ids).collect();
        ids.len()
    }

    /// Rows whose method is HEAD.
    async fn heads(&self) -> usize {
        let batches = self.batches(Table::Clicks, &["method"]).await;
        batches
            .iter()
            .flat_map(|batch| batch.column(0).as_string::<i32>().iter().flatten())
            .filter(|m| *m == "HEAD")
            .count()
    }

    async fn batches(&self, table: Table, columns: &[&str]) -> Vec<RecordBatch> {
        let handle = self.lake.table(table).await.unwrap();
        let mut batches = Vec::new();
        for file in handle.files() {
            batches.extend(handle.read(file, columns).await.unwrap());
        }
        batches
    }
}

/// A line of nginx JSON: `age` seconds ago.
fn line(id: u64, age: i64, cache: &str, code: &str) -> String {
    let time = UtcMicros(UtcMicros::now().0 - age * SECOND);
    line_at(id, time, cache, code)
}

fn line_at(id: u64, time: UtcMicros, cache: &str, code: &str) -> String {
    let msec = format!("{}.{:03}", time.0 / SECOND, time.0 % SECOND / 1_000);
    format!(
        "{{\"time_iso8601\":\"\",\"msec\":\"{msec}\",\"remote_addr\":\"203.0.113.{}\",\"host\":\"go.example.com\",\
         \"request_method\":\"GET\",\"request_uri\":\"/{code}\",\"status\":\"302\",\"http_referer\":\"\",\
         \"http_user_agent\":\"Mozilla/5.0 (X11; Linux x86_64; rv:120.0) Gecko/20100101 Firefox/120.0\",\
         \"upstream_cache_status\":\"{cache}\",\"request_id\":\"{id:032x}\",\"scheme\":\"https\"}}\n",
        id % 250,
    )
}

/// A long log: `lines` hits of one code, over some hours of a day long ago.
fn long_log(lines: u64) -> String {
    let start = 20_526 * DAY;
    (0..lines).map(|n| line_at(n, UtcMicros(start + n as i64 * SECOND / 10), "HIT", "k")).collect()
}

#[tokio::test]
async fn without_a_journal_all_that_is_old_enough_settles_at_once() {
    let bench = bench();
    let log = [
        line(1, 100, "HIT", "k"),
        line(2, 1_000, "MISS", "k"),
        line(3, 1_000, "HIT", "unknown"),
        line(3, 1_000, "HIT", "unknown"),
        line(4, 1_000, "HIT", "off"),
        line(5, 1_000, "HIT", "k").replace("302", "404"),
        line(6, 1_000, "HIT", "k").replace("GET", "POST"),
        line(7, 1_000, "HIT", "k").replace(&format!("{:032x}", 7), ""),
        "{broken\n".to_owned(),
        "\n".to_owned(),
    ]
    .concat();
    let summary = bench.import(&log).await;
    assert_eq!(summary.added, Added { edge: 2, recovered: 1, ..Added::default() });
    assert_eq!((summary.already_counted, summary.waiting), (1, 0));
    assert_eq!((summary.lines, summary.headers, summary.records), (10, 1, 9));
    let ignored = IgnoredLines { not_redirect: 1, method: 1, analytics_off: 1, ..IgnoredLines::default() };
    assert_eq!(summary.ignored, ignored);
    assert_eq!((summary.rejected["no_request_id"], summary.rejected["bad_json"]), (1, 1));
    assert_eq!(summary.format, "nginx-json");
    assert_eq!(summary.id.len(), 32);
    let row = |code: &str, source: &str| (code.to_owned(), source.to_owned());
    let expected = [row("k", "edge"), row("k", "recovered"), row("unknown", "edge")];
    assert_eq!(bench.rows(Table::Clicks).await, expected);
    assert_eq!(bench.count(Table::Rejects).await, 2);
    assert_eq!(bench.count(Table::EdgeFiles).await, 1);

    let again = bench.import(&log).await;
    assert_eq!((again.added, again.already_counted), (Added::default(), 4));
    assert_eq!((again.ignored, &again.rejected), (summary.ignored, &summary.rejected));
    assert_eq!(bench.rows(Table::Clicks).await, expected);
    assert_eq!(bench.count(Table::Rejects).await, 2);
    assert_eq!(bench.count(Table::EdgeFiles).await, 1);
}

#[tokio::test]
async fn what_must_wait_waits_in_arrivals_and_the_summary_follows() {
    let bench = bench();
    let log = [line(1, 10, "HIT", "k"), line(2, 100, "MISS", "k"), line(3, 100, "HIT", "k")].concat();
    let summary = bench.import(&log).await;
    assert_eq!((summary.added.edge, summary.waiting), (1, 2));
    assert_eq!(bench.count(Table::Arrivals).await, 2);
    let mut settler = bench.settler().await;
    settler.pass_at(UtcMicros::now().plus(Duration::from_secs(60))).await.unwrap();
    let again = bench.import(&log).await;
    assert_eq!((again.added.edge, again.already_counted, again.waiting), (0, 2, 1));
    settler.pass_at(UtcMicros::now().plus(Duration::from_secs(900))).await.unwrap();
    assert_eq!(bench.import(&log).await.waiting, 0);
    assert_eq!(bench.count(Table::Clicks).await, 3);
    assert_eq!(bench.count(Table::Arrivals).await, 0);
}

#[tokio::test]
async fn an_open_journal_makes_everything_wait_that_it_has_not_passed() {
    let now = UtcMicros::now();
    let bench = bench_with(
        Journals::open(now.minus(Duration::from_secs(9_000)), now.minus(Duration::from_secs(4_000))),
        ImportConfig::default(),
    );
    let log = [line(1, 3_990, "HIT", "k"), line(2, 5_000, "HIT", "k"), line(3, 4_500, "MISS", "k")].concat();
    let summary = bench.import(&log).await;
    assert_eq!((summary.added.edge, summary.waiting), (1, 2));
}

#[tokio::test]
async fn by_status_the_origins_lines_count_only_where_it_never_counted() {
    let log = [line(1, 1_000, "HIT", "k"), line(2, 1_000, "MISS", "k"), line(2, 1_000, "MISS", "k")].concat();
    // two identical lines are two requests, as nothing else tells them apart
    let log = log.replace(&format!("{:032x}", 1), "-").replace(&format!("{:032x}", 2), "-");
    let options = ImportOptions { id: IdMode::StatusOnly, ..ImportOptions::default() };
    let config =
        ImportConfig { edge: Edge { provider: "nginx".into(), ids: IdMode::StatusOnly }, ..ImportConfig::default() };

    let never = bench_with(Journals::default(), config.clone());
    let summary = never.import_with(&log, options.clone()).await.unwrap();
    assert_eq!(summary.added, Added { edge: 1, recovered: 2, ..Added::default() });
    assert_eq!(never.import_with(&log, options.clone()).await.unwrap().added, Added::default());
    let overlapping = format!("{}{log}", line(9, 2_000, "HIT", "k"));
    let summary = never.import_with(&overlapping, options.clone()).await.unwrap();
    assert_eq!((summary.added.edge, summary.already_counted), (1, 3), "the same lines in another file");

    let now = UtcMicros::now();
    // what holds for the edge in front holds for its logs, where nothing else is said of them
    for options in [options, ImportOptions::default()] {
        let counted = bench_with(Journals::open(now.minus(Duration::from_secs(9_000)), now), config.clone());
        let summary = counted.import_with(&log, options).await.unwrap();
        assert_eq!((summary.added, summary.already_counted), (Added { edge: 1, recovered: 0, ..Added::default() }, 2));
    }
}

#[tokio::test]
async fn a_parents_word_tells_a_miss_that_it_answered_from_one_that_reached_the_origin() {
    let now = UtcMicros::now();
    let fastly = |id: &str, state: &str, is_edge: bool| {
        let time = now.minus(Duration::from_secs(1_000));
        format!(
            "{{\"timestamp\":\"{time}\",\"client_ip\":\"203.0.113.9\",\"host\":\"go.example.com\",\"url\":\"/k\",\
             \"request_method\":\"GET\",\"response_state\":\"{state}\",\"response_status\":302,\
             \"fastly_is_edge\":{is_edge},\"request_id\":\"{id}\"}}\n"
        )
    };
    let config =
        ImportConfig { edge: Edge { provider: "fastly".into(), ids: IdMode::StatusOnly }, ..ImportConfig::default() };
    let counted = bench_with(Journals::open(now.minus(Duration::from_secs(9_000)), now), config.clone());
    let options = ImportOptions { id: IdMode::StatusOnly, ..ImportOptions::default() };
    let (viewer, shield) = (fastly("a", "MISS", true), fastly("a", "HIT", false));
    let others = [fastly("b", "MISS", false), fastly("b", "MISS", true), fastly("c", "MISS", true)].concat();
    let log = [shield.as_str(), &others, &viewer].concat();
    let summary = counted.import_with(&log, options.clone()).await.unwrap();
    assert_eq!((summary.added, summary.already_counted), (Added { edge: 1, recovered: 0, ..Added::default() }, 2));
    assert_eq!(summary.ignored.not_viewer, 2);

    // The same line is the same click, whether or not its parent's stands beside it.
    let never = bench_with(Journals::default(), config);
    assert_eq!(never.import_with(&log, options.clone()).await.unwrap().added.edge, 1);
    let alone = never.import_with(&viewer, options).await.unwrap();
    assert_eq!((alone.added, alone.already_counted), (Added::default(), 1));
}

#[tokio::test]
async fn a_tenant_adds_to_its_own_links_alone() {
    let bench = bench();
    let log = [line(1, 1_000, "HIT", "k"), line(2, 1_000, "HIT", "unknown"), line(3, 1_000, "HIT", "off")].concat();
    let tenant = |name: &str| ImportOptions { workspace: Some(name.into()), ..ImportOptions::default() };
    let summary = bench.import_with(&log, tenant("v")).await.unwrap();
    assert_eq!((summary.added.edge, summary.ignored.unknown_code, summary.ignored.analytics_off), (0, 2, 1));
    let summary = bench.import_with(&log, tenant("w")).await.unwrap();
    assert_eq!((summary.added.edge, summary.ignored.unknown_code), (1, 2), "the same bytes mean something else here");
}

#[tokio::test]
async fn a_dry_run_says_what_a_run_would_do_and_writes_nothing() {
    let bench = bench();
    let log = [line(1, 100_000, "HIT", "k"), line(1, 100_000, "HIT", "k"), line(2, 10, "HIT", "other")].concat();
    let dry = ImportOptions { dry_run: true, ..ImportOptions::default() };
    let summary = bench.import_with(&log, dry.clone()).await.unwrap();
    assert!(summary.dry_run);
    assert_eq!((summary.added.edge, summary.already_counted, summary.waiting), (1, 1, 1));
    assert_eq!(summary.days.as_ref().map(Vec::len), Some(2));
    let links = summary.links.unwrap();
    assert_eq!((links[0].of.as_str(), links[0].added, links[0].waiting), ("go.example.com/k", 1, 0));
    for table in Table::ALL {
        assert_eq!(bench.count(*table).await, 0, "{table}");
    }
    assert_eq!(bench.import(&log).await.added.edge, 1);
    assert_eq!(bench.import_with(&log, dry).await.unwrap().added.edge, 0);
}

#[tokio::test]
async fn an_import_is_shown_as_it_stands_now_and_told_of_where_numbers_were_final() {
    let bench = bench();
    bench.journals.set_final(UtcMicros::now().minus(Duration::from_secs(500)));
    let log = [line(1, 90, "HIT", "k"), line(2, 100, "MISS", "k"), line(3, 10, "HIT", "k")].concat();
    let fresh = bench.import(&log).await;
    assert_eq!(bench.count(Table::Restatements).await, 0);
    let old = [line(4, 1_000, "HIT", "k"), line(5, 2_000, "MISS", "k"), line(1, 90, "HIT", "k")].concat();
    let old = bench.import(&old).await;
    let told = bench.batches(Table::Restatements, &["why", "import_id", "workspace"]).await;
    let text = |column: usize| told[0].column(column).as_string::<i32>().value(0).to_owned();
    assert_eq!((told.len(), text(0), text(1), text(2)), (1, "backfill".into(), old.id.clone(), "w".into()));

    let shown = stored(&bench.lake, Some(&fresh.id)).await.unwrap().remove(0);
    assert_eq!((shown.summary.added.edge, shown.summary.waiting), (1, 2));
    let mut settler = bench.settler().await;
    settler.pass_at(UtcMicros::now().plus(Duration::from_secs(5_000))).await.unwrap();
    let all = stored(&bench.lake, None).await.unwrap();
    assert_eq!(all.iter().map(|import| &import.summary.id).collect::<Vec<_>>(), [&fresh.id, &old.id]);
    assert!(all.iter().all(|import| import.summary.adds_up() && import.summary.waiting == 0));
    assert_eq!(all[0].summary.added, Added { edge: 2, recovered: 1, ..Added::default() });
    assert_eq!(
        (all[1].summary.added, all[1].summary.already_counted),
        (Added { edge: 1, recovered: 1, ..Added::default() }, 1)
    );
    assert_eq!((all[0].provider.as_str(), all[0].location.as_ref()), ("nginx", None));
    assert!(stored(&bench.lake, Some("none")).await.unwrap().is_empty());
}

/// Killed at any write of any chunk, or with any answer lost, an import that is repeated ends with every line once.
#[tokio::test]
async fn killed_anywhere_a_repeat_goes_on() {
    let (lines, log) = (12_000, long_log(12_000));
    let chunks = ImportConfig { chunk_lines: 1, ..ImportConfig::default() };
    for (pattern, nth) in
        [("clicks/_delta_log", 1), ("clicks/_delta_log", 2), ("edge_files/_delta_log", 1), ("edge_files/_delta_log", 2)]
    {
        for fault in [Fault::Before, Fault::After] {
            let bench = bench_with(Journals::default(), chunks.clone());
            // the tables are made first: their making is no part of this
            for table in Table::ALL {
                bench.lake.table(*table).await.unwrap();
            }
            let gate = Gate::new();
            bench.store.arm(pattern, nth, fault.clone());
            bench.store.arm(pattern, nth + 1, Fault::Hold(gate.clone()));
            let importer = bench.importer.clone();
            let input = Input::stream("a", std::io::Cursor::new(log.clone().into_bytes()));
            let mut first = tokio::spawn(async move { importer.import(input, ImportOptions::default(), |_| {}).await });
            // it fails, or ends, or is stopped where it stands
            let over = tokio::select! {
                _ = &mut first => true,
                () = gate.reached() => false,
            };
            if !over {
                first.abort();
                bench.store.set_down(true);
                gate.open();
                drop(first.await);
                bench.store.set_down(false);
            }
            bench.store.disarm();
            let summary = bench.import(&log).await;
            assert_eq!(summary.records, lines);
            assert_eq!(bench.count(Table::Clicks).await as u64, lines, "{pattern} {nth} {fault:?}");
            assert_eq!(bench.distinct_ids().await as u64, lines);
            assert_eq!(summary.added.edge + summary.already_counted, lines);
            assert_eq!(bench.count(Table::EdgeFiles).await, 1);
            let again = bench.import(&log).await;
            assert_eq!((again.added.edge, again.already_counted), (0, lines));
        }
    }
}

#[tokio::test]
async fn the_same_file_twice_at_once_and_a_settler_beside() {
    let bench = bench();
    let log = [long_log(2_000), line(5_001, 100, "MISS", "k"), line(5_002, 70, "HIT", "k")].concat();
    let other = [long_log(1_000), line(5_003, 5, "HIT", "k")].concat();
    let mut settler = bench.settler().await;
    let settle = async {
        for _ in 0..20 {
            settler.pass_at(UtcMicros::now()).await.unwrap();
            tokio::task::yield_now().await;
        }
    };
    let (a, b, c, ()) = tokio::join!(bench.import(&log), bench.import(&log), bench.import(&other), settle);
    settler.pass_at(UtcMicros::now().plus(Duration::from_secs(2_000))).await.unwrap();
    assert_eq!(bench.count(Table::Arrivals).await, 0);
    assert_eq!(bench.count(Table::Clicks).await, 2_003);
    assert_eq!(bench.distinct_ids().await, 2_003);
    assert!([a, b, c].iter().all(Summary::adds_up));
}

#[tokio::test]
async fn what_can_not_be_an_import_is_refused_with_its_name() {
    let bench = bench();
    let refused = |log: &str, options: ImportOptions| {
        let log = log.to_owned();
        let bench = &bench;
        async move {
            let error = bench.import_with(&log, options).await.unwrap_err();
            assert!(error.is_refusal() && error.to_string().starts_with("test.log: "), "{error}");
            error
        }
    };
    let error = refused("a b c\nd e f\n", ImportOptions::default()).await;
    assert!(matches!(error, ImportError::Format { .. }), "{error}");
    let given = ImportOptions { format: Some(Format::CloudFrontV1), ..ImportOptions::default() };
    let error = refused(&line(1, 100, "HIT", "k"), given).await;
    assert!(matches!(error, ImportError::WrongFormat { .. }), "{error}");
    let without_id = "#Version: 1.0\n#Fields: date time c-ip cs-method cs-uri-stem sc-status x-edge-result-type\n\
                      2026-03-14\t09:26:53\t203.0.113.9\tGET\t/k\t302\tHit\n";
    let error = refused(without_id, ImportOptions::default()).await;
    assert!(error.to_string().contains("--id status-only"), "{error}");
    let by_status = ImportOptions { id: IdMode::StatusOnly, ..ImportOptions::default() };
    assert_eq!(bench.import_with(without_id, by_status).await.unwrap().added.edge, 1);
    let error = refused("PK\u{3}\u{4}xxxxxxxx", ImportOptions::default()).await;
    assert!(matches!(error, ImportError::Unreadable { .. }), "{error}");
    assert_eq!(bench.count(Table::EdgeFiles).await, 1);
}

#[tokio::test]
async fn an_empty_file_is_fine_and_a_cut_one_keeps_what_came_before() {
    let bench = bench();
    let empty = bench.import("").await;
    assert_eq!((empty.lines, empty.state), (0, State::Done));

    let mut packed = flate2_gzip(&[line(1, 1_000, "HIT", "k"), line(2, 1_000, "HIT", "k")].concat().repeat(50));
    packed.truncate(packed.len() - 40);
    let input = Input::stream("cut.gz", std::io::Cursor::new(packed));
    let summary = bench.importer.import(input, ImportOptions::default(), |_| {}).await.unwrap();
    assert!(summary.adds_up() && summary.added.edge == 2 && summary.state == State::Done, "{summary:?}");
    assert!(summary.note.as_ref().is_some_and(|note| note.contains("ends in the middle")), "{summary:?}");
}

fn flate2_gzip(text: &str) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(text.as_bytes()).unwrap();
    packer.finish().unwrap()
}

#[tokio::test]
async fn progress_is_told_and_ends_with_the_file() {
    let bench = bench();
    let log = long_log(1_000);
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let told = Arc::clone(&seen);
    let input = Input::stream("a", std::io::Cursor::new(log.clone().into_bytes()));
    bench.importer.import(input, ImportOptions::default(), move |p| told.lock().unwrap().push(p)).await.unwrap();
    let last = seen.lock().unwrap().last().copied().unwrap();
    assert_eq!(last, Progress { bytes: log.len() as u64, of: log.len() as u64, lines: 1_000 });
}

#[tokio::test]
async fn many_small_files_leave_few_behind() {
    let bench = bench();
    let start = 20_526 * DAY;
    for n in 0..120u64 {
        let log: String =
            (0..3).map(|m| line_at(10 * n + m, UtcMicros(start + n as i64 * SECOND), "HIT", "k")).collect();
        assert_eq!(bench.import(&log).await.added.edge, 3);
    }
    let clicks = bench.lake.table(Table::Clicks).await.unwrap();
    assert!(clicks.files().len() < 60, "{}", clicks.files().len());
    assert_eq!(bench.count(Table::Clicks).await, 360);
}

async fn import_bytes(bench: &Bench, bytes: Vec<u8>) -> Result<Summary, ImportError> {
    let input = Input::stream("test.log.gz", std::io::Cursor::new(bytes));
    bench.importer.import(input, ImportOptions::default(), |_| {}).await
}

#[tokio::test]
async fn nothing_of_a_damaged_file_lands() {
    let bench = bench();
    let packed = flate2_gzip(&long_log(500));
    for part in 1..24 {
        let mut damaged = packed.clone();
        let at = packed.len() * part / 24;
        // one bit may hit one of two equal ways to say the same
        damaged[at] ^= 0xff;
        let error = import_bytes(&bench, damaged).await.unwrap_err();
        assert!(matches!(error, ImportError::Unreadable { source: ingest::edge::ReadError::Corrupt { .. }, .. }));
        assert!(error.is_refusal() && error.to_string().contains("the gzip data is corrupt, noticed at byte"));
    }
    for table in Table::ALL {
        assert_eq!(bench.count(*table).await, 0, "{table}");
    }
    let mut padded = packed.clone();
    padded.resize(padded.len() + 512, 0);
    let summary = import_bytes(&bench, padded).await.unwrap();
    assert_eq!((summary.added.edge, summary.note), (500, None));
    let trailing = [&packed[..], b"and more"].concat();
    let summary = import_bytes(&bench, trailing).await.unwrap();
    assert_eq!((summary.added.edge, summary.already_counted), (0, 500));
    assert!(summary.note.is_some_and(|note| note.contains("left out")));
}

#[tokio::test]
async fn a_line_from_days_ahead_is_rejected_and_waits_for_nothing() {
    let bench = bench();
    let log = [line(1, 1_000, "HIT", "k"), line(2, -23 * 3_600, "HIT", "k"), line(3, -25 * 3_600, "HIT", "k")].concat();
    let summary = bench.import(&log).await;
    assert_eq!((summary.added.edge, summary.waiting), (1, 1), "a clock may be ahead by some hours");
    assert_eq!(summary.rejected["bad_timestamp"], 1);
    assert!(summary.last.is_some_and(|last| last < UtcMicros::now().plus(Duration::from_secs(24 * 3_600))));
    let odd = UtcMicros(-62_167_219_200 * SECOND);
    let summary =
        bench.import(&line(4, 1_000, "HIT", "k").replace("\"msec\":\"", &format!("\"msec\":\"{}", odd.0))).await;
    assert_eq!(summary.rejected["bad_timestamp"], 1);
}

#[tokio::test]
async fn a_line_without_a_host_is_of_the_first_domain() {
    let domains = vec!["go.example.com".to_owned(), "other.example.com".to_owned()];
    let bench = bench_with(Journals::default(), ImportConfig { domains, ..ImportConfig::default() });
    let log = [line(1, 1_000, "HIT", "unknown"), line(2, 1_000, "HIT", "k"), line(3, 1_000, "HIT", "x")].concat();
    let log = log.replace("\"host\":\"go.example.com\"", "\"host\":\"\"");
    assert_eq!(bench.import(&log).await.added.edge, 3);
    for batch in bench.batches(Table::Clicks, &["domain", "workspace", "code"]).await {
        for row in 0..batch.num_rows() {
            let text = |column: usize| batch.column(column).as_string::<i32>().value(row).to_owned();
            assert_eq!(text(0), "go.example.com");
            assert_eq!(text(1), if text(2) == "k" { "w" } else { "default" });
        }
    }
}

#[tokio::test]
async fn the_same_bytes_with_ids_of_another_kind_are_refused() {
    let of = |id: IdMode| ImportOptions { id, ..ImportOptions::default() };
    let log = [line(1, 1_000, "HIT", "k"), line(2, 1_000, "MISS", "k")].concat();
    for (first, second) in [
        (IdMode::StatusOnly, IdMode::Trusted),
        (IdMode::StatusOnly, IdMode::Auto),
        (IdMode::Trusted, IdMode::StatusOnly),
        (IdMode::Auto, IdMode::StatusOnly),
    ] {
        let bench = bench();
        bench.import_with(&log, of(first)).await.unwrap();
        for options in [
            of(second),
            ImportOptions { unknown_codes: UnknownCodes::Ignore, ..of(second) },
            ImportOptions { workspace: Some("w".into()), ..of(second) },
        ] {
            let error = bench.import_with(&log, options).await.unwrap_err();
            assert!(matches!(error, ImportError::OtherIds { .. }) && error.is_refusal(), "{error}");
            assert!(error.to_string().contains(&format!("with --id {first};")), "{error}");
        }
        assert_eq!(bench.count(Table::Clicks).await, 2);
        assert_eq!(bench.import_with(&log, of(first)).await.unwrap().already_counted, 2, "a repeat is one");
    }
    // ids of the same kind meet
    let bench = bench();
    bench.import_with(&log, of(IdMode::Auto)).await.unwrap();
    assert_eq!(bench.import_with(&log, of(IdMode::Trusted)).await.unwrap().already_counted, 2);
}

#[tokio::test]
async fn what_brought_nothing_in_one_way_may_come_in_the_other() {
    let bench = bench();
    let log = [line(1, 1_000, "HIT", "k"), line(2, 1_000, "MISS", "k")].concat();
    let log = log.replace(&format!("{:032x}", 1), "-").replace(&format!("{:032x}", 2), "-");
    let summary = bench.import(&log).await;
    assert_eq!(summary.rejected["no_request_id"], 2);
    let by_status = ImportOptions { id: IdMode::StatusOnly, ..ImportOptions::default() };
    assert_eq!(
        bench.import_with(&log, by_status).await.unwrap().added,
        Added { edge: 1, recovered: 1, ..Added::default() }
    );
}
