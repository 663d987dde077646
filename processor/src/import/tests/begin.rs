//! Imports of more than one chunk, killed or taken back before they ended.

use super::*;

const CHUNKS: u64 = 4;

fn bench_of_chunks() -> Bench {
    bench_with(Journals::default(), in_chunks(ImportConfig::default()))
}

/// With a chunk a block.
pub(super) fn in_chunks(config: ImportConfig) -> ImportConfig {
    ImportConfig { chunk_lines: 1, ..config }
}

fn log() -> String {
    long_log(3_000 * CHUNKS)
}

impl Bench {
    /// Brings a log as far as the first chunk, and stands still before the second.
    async fn half_in(&self, log: &str) -> (Gate, tokio::task::JoinHandle<Result<Summary, ImportError>>) {
        for table in Table::ALL {
            self.lake.table(*table).await.unwrap();
        }
        let gate = Gate::new();
        self.store.arm("clicks/_delta_log", 2, Fault::Hold(gate.clone()));
        let importer = self.importer.clone();
        let input = Input::stream("half.log", std::io::Cursor::new(log.as_bytes().to_vec()));
        let under_way = tokio::spawn(async move { importer.import(input, ImportOptions::default(), |_| {}).await });
        gate.reached().await;
        (gate, under_way)
    }

    /// Brings the first chunk of a log and is killed then.
    pub(super) async fn killed_half_in(&self, log: &str) {
        let (gate, under_way) = self.half_in(log).await;
        under_way.abort();
        self.store.set_down(true);
        gate.open();
        drop(under_way.await);
        // the thread it was on ends with the first request that fails
        while Arc::strong_count(&self.importer.shared) > 1 {
            tokio::task::yield_now().await;
        }
        self.store.set_down(false);
    }

    async fn only(&self) -> Stored {
        let mut all = stored(&self.lake, None).await.unwrap();
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }
}

#[tokio::test]
async fn a_killed_import_is_named_and_a_repeat_ends_it() {
    let (bench, log) = (bench_of_chunks(), log());
    bench.killed_half_in(&log).await;
    let rows = bench.count(Table::Clicks).await as u64;
    assert!(rows > 0 && rows < 3_000 * CHUNKS, "{rows}");
    let left = unfinished(&bench.lake).await.unwrap();
    assert_eq!(left.len(), 1);
    assert_eq!(
        (left[0].summary.state, left[0].is_begun, left[0].summary.name.as_str()),
        (State::Running, true, "half.log")
    );
    let shown = bench.only().await.summary;
    assert!(shown.adds_up() && shown.added.edge == rows, "{shown:?}");
    assert!(
        shown.note.as_ref().is_some_and(|note| note.contains(&format!("edge-logs revert {}", shown.id))),
        "{shown:?}"
    );

    let ended = bench.import(&log).await;
    assert_eq!((&ended.id, ended.added.edge), (&shown.id, 3_000 * CHUNKS));
    let now = bench.only().await;
    assert_eq!((now.summary.state, now.is_begun, now.summary.note), (State::Done, false, None));
    assert!(unfinished(&bench.lake).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_killed_import_can_be_taken_back() {
    let (bench, log) = (bench_of_chunks(), log());
    let others = line(70_000, 5_000, "HIT", "k");
    bench.import(&others).await;
    bench.killed_half_in(&log).await;
    let rows = bench.count(Table::Clicks).await as u64 - 1;
    let id = unfinished(&bench.lake).await.unwrap().remove(0).summary.id;
    // killed once more, on its way back: its chunk is set back, then its rows would go
    bench.store.arm("clicks/_delta_log", 2, Fault::Before);
    bench.importer.revert(&id).await.unwrap_err();
    assert_eq!(unfinished(&bench.lake).await.unwrap().remove(0).summary.state, State::Reverting);
    let reverted = bench.importer.revert(&id).await.unwrap();
    assert_eq!((reverted.removed, reverted.import.summary.state), (rows, State::Reverted));
    assert_eq!(bench.count(Table::Clicks).await, 1);
    assert!(unfinished(&bench.lake).await.unwrap().is_empty());
    assert!(bench.importer.revert(&id).await.unwrap().was_gone);
    // half in once more, what was taken back is named again
    bench.killed_half_in(&log).await;
    assert_eq!(unfinished(&bench.lake).await.unwrap().remove(0).summary.id, id);
    assert_eq!(bench.import(&log).await.added.edge, 3_000 * CHUNKS);
}

/// Whoever takes back what somebody brings right now is not overruled.
#[tokio::test]
async fn an_import_that_is_taken_back_meanwhile_ends() {
    let (bench, log) = (bench_of_chunks(), log());
    let (gate, under_way) = bench.half_in(&log).await;
    let id = unfinished(&bench.lake).await.unwrap().remove(0).summary.id;
    bench.importer.revert(&id).await.unwrap();
    gate.open();
    let error = under_way.await.unwrap().unwrap_err();
    assert!(matches!(&error, ImportError::TakenBack { id: of, .. } if *of == id) && error.is_refusal(), "{error}");
    assert_eq!((bench.count(Table::Clicks).await, bench.only().await.summary.state), (0, State::Reverted));
    assert_eq!(bench.import(&log).await.added.edge, 3_000 * CHUNKS);
}

/// The same lines under other ids are refused as long as some of them are there.
#[tokio::test]
async fn half_of_a_log_is_not_brought_otherwise() {
    let (bench, log) = (bench_of_chunks(), log());
    bench.killed_half_in(&log).await;
    let by_status = ImportOptions { id: IdMode::StatusOnly, ..ImportOptions::default() };
    let error = bench.import_with(&log, by_status).await.unwrap_err();
    assert!(matches!(error, ImportError::OtherIds { .. }), "{error}");
}

#[tokio::test]
async fn a_log_that_comes_as_a_whole_costs_no_commit_more() {
    let bench = bench_of_chunks();
    let version = async || bench.lake.table(Table::EdgeFiles).await.unwrap().version();
    let before = version().await;
    bench.import(&line(1, 5_000, "HIT", "k")).await;
    assert_eq!(version().await, before + 1);
    bench.import(&log()).await;
    assert_eq!(version().await, before + 3, "named, and told of");
}
