//! Tables as others see them: two handles, two processes, the library's own reader, and a store that fails.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::TimestampMicrosecondType;
use deltalake::DeltaTable;
use object_store::memory::InMemory;
use schemas::tables::Table;
use schemas::time::{DAY, HOUR, SECOND};
use schemas::{Click, ClickBuilder, UtcMicros};
use url::Url;

use super::testing::{Fault, FaultStore, Gate};
use super::*;

/// 2026-03-14T10:00:00Z
pub(super) const TEN: i64 = 20_526 * DAY + 10 * HOUR;

pub(super) fn click(id: u128, time: i64, code: &str) -> Click {
    Click { code: code.into(), ..crate::hot::testing::click(id, time) }
}

pub(super) fn rows(clicks: &[Click]) -> RecordBatch {
    let mut builder = ClickBuilder::new();
    clicks.iter().for_each(|click| builder.push(click));
    builder.finish().unwrap()
}

fn options() -> LakeOptions {
    LakeOptions { deadline: Duration::from_secs(10), ..LakeOptions::default() }
}

pub(super) fn memory() -> (Lake, FaultStore) {
    let store = FaultStore::new(Arc::new(InMemory::new()));
    (lake_in(&store), store)
}

fn lake_in(store: &FaultStore) -> Lake {
    Lake::with_store(Arc::new(store.clone()), Url::parse("memory:///lake").unwrap(), options()).unwrap()
}

fn txn(id: &str, version: i64) -> Vec<(String, i64)> {
    vec![(id.to_owned(), version)]
}

async fn append(handle: &mut TableHandle, clicks: &[Click], txns: Vec<(String, i64)>) -> i64 {
    let add = handle.write(&rows(clicks)).await.unwrap();
    handle.commit(Change { add, txns, ..Change::default() }).await.unwrap()
}

pub(super) async fn ids(handle: &TableHandle) -> Vec<u128> {
    let mut ids = Vec::new();
    for file in handle.files() {
        for batch in handle.read(file, &["click_id"]).await.unwrap() {
            let column = batch.column(0).as_binary::<i32>();
            ids.extend(column.iter().map(|id| u128::from_be_bytes(id.unwrap().try_into().unwrap())));
        }
    }
    ids.sort_unstable();
    ids
}

/// What crate `deltalake` makes of the same table must be what the handle shows.
pub(super) async fn same_as_the_library(handle: &TableHandle) {
    let log = handle.lake().log_store(handle.table()).unwrap();
    let mut table = DeltaTable::new(Arc::clone(&log));
    table.load().await.unwrap();
    assert_eq!(table.version(), Some(handle.version() as u64));
    let state = table.snapshot().unwrap();
    let mut theirs: Vec<(String, usize)> =
        state.log_data().iter().map(|file| (file.path().into_owned(), file.num_records().unwrap())).collect();
    let mut ours: Vec<(String, usize)> =
        handle.files().iter().map(|file| (file.path.clone(), file.rows as usize)).collect();
    theirs.sort();
    ours.sort();
    assert_eq!(ours, theirs);
    for (id, version) in handle.txns_with_prefix("") {
        assert_eq!(state.snapshot().transaction_version(log.as_ref(), id).await.unwrap(), Some(version), "{id}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_come_back_from_hour_files_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let lake = Lake::open(folder.path().to_str().unwrap(), options()).unwrap();
    let mut handle = lake.table(Table::Clicks).await.unwrap();
    assert_eq!(handle.version(), 0);
    let clicks = [
        click(1, TEN + 59 * 60 * SECOND + 999_999, "b"),
        click(2, TEN + 5, "b"),
        click(3, TEN + HOUR, "a"),
        click(4, TEN + 7, "a"),
        click(5, TEN + DAY, "a"),
    ];
    let version = append(&mut handle, &clicks, txn("stream/x", 9)).await;
    assert_eq!((version, handle.txn("stream/x"), handle.txn("stream/y")), (1, Some(9), None));

    let mut fresh = lake.table(Table::Clicks).await.unwrap();
    assert_eq!(fresh.files().len(), 3);
    let first = fresh.files_between(UtcMicros(TEN), UtcMicros(TEN)).next().is_none();
    assert!(first, "no row is at the hour's first microsecond, and the files say so");
    let file = Arc::clone(fresh.files_between(UtcMicros(TEN + 5), UtcMicros(TEN + 5)).next().unwrap());
    assert!(file.is_one_hour() && file.date == Some(20_526) && file.rows == 3);
    assert_eq!(file.max_time, Some(UtcMicros(TEN + 59 * 60 * SECOND + 999_999)));
    let batch = fresh.read(&file, &["code", "event_time"]).await.unwrap().remove(0);
    let codes: Vec<&str> = batch.column(0).as_string::<i32>().iter().map(Option::unwrap).collect();
    let times = batch.column(1).as_primitive::<TimestampMicrosecondType>();
    assert_eq!(codes, ["a", "b", "b"]);
    assert!(times.value(1) < times.value(2));
    assert_eq!(ids(&fresh).await, [1, 2, 3, 4, 5]);
    assert!(!fresh.refresh().await.unwrap());
    same_as_the_library(&fresh).await;
    let whole = fresh.read(&file, &[]).await.unwrap();
    assert_eq!(whole[0].schema().fields(), schemas::click::DATA_SCHEMA.fields());
    assert!(fresh.read(&file, &["none"]).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_table_can_be_made_written_and_read() {
    let (lake, _) = memory();
    for &table in Table::ALL {
        let handle = lake.table(table).await.unwrap();
        let again = lake.table(table).await.unwrap();
        assert_eq!((handle.version(), again.version()), (0, 0));
        same_as_the_library(&again).await;
        let none = RecordBatch::new_empty(table.schema());
        assert!(handle.write(&none).await.unwrap().is_empty(), "no rows, no files");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_that_make_a_table_at_once_one_finds_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().to_str().unwrap();
    let makers: Vec<Lake> = (0..8).map(|_| Lake::open(root, options()).unwrap()).collect();
    let made = futures::future::join_all(makers.iter().map(|lake| lake.table(Table::Clicks))).await;
    let mut handles: Vec<TableHandle> = made.into_iter().map(Result::unwrap).collect();
    append(&mut handles[0], &[click(1, TEN, "a")], vec![]).await;
    for handle in &mut handles {
        handle.refresh().await.unwrap();
        assert_eq!(ids(handle).await, [1]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn appends_of_several_land_side_by_side() {
    let (lake, _) = memory();
    lake.table(Table::Clicks).await.unwrap();
    let one = |n: u128| {
        let lake = lake.clone();
        async move {
            let mut handle = lake.table(Table::Clicks).await.unwrap();
            for k in 0..5 {
                append(&mut handle, &[click(n * 100 + k, TEN, "a")], txn(&format!("stream/{n}"), k as i64)).await;
            }
        }
    };
    futures::future::join_all((0..4).map(one)).await;
    let handle = lake.table(Table::Clicks).await.unwrap();
    assert_eq!(handle.version(), 20);
    assert_eq!(ids(&handle).await.len(), 20);
    assert_eq!(
        handle.txns_with_prefix("stream/").collect::<Vec<_>>(),
        [("stream/0", 4), ("stream/1", 4), ("stream/2", 4), ("stream/3", 4)]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_expected_is_compared_on_the_version_built_upon() {
    let (lake, _) = memory();
    let mut first = lake.table(Table::Clicks).await.unwrap();
    let mut second = lake.table(Table::Clicks).await.unwrap();
    append(&mut first, &[], txn("stream/x", 5)).await;
    // `second` has not seen it, and still is judged by it
    let expect = vec![("stream/x".to_owned(), None)];
    let moved = second.commit(Change { txns: txn("stream/x", 5), expect, ..Change::default() }).await;
    assert!(matches!(moved, Err(CommitError::Moved { stored: Some(5), expected: None, .. })), "{moved:?}");
    assert_eq!(second.txn("stream/x"), Some(5), "the handle shows what it was judged by");
    // the same transaction set by both since the caller looked is a conflict although nothing is expected
    append(&mut first, &[], txn("stream/x", 6)).await;
    let conflict = second.commit(Change { txns: txn("stream/x", 7), ..Change::default() }).await;
    assert!(matches!(conflict, Err(CommitError::Conflict { .. })), "{conflict:?}");
    second.commit(Change { txns: txn("stream/x", 7), ..Change::default() }).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_removed_once() {
    let (lake, _) = memory();
    let mut first = lake.table(Table::Clicks).await.unwrap();
    append(&mut first, &[click(1, TEN, "a"), click(2, TEN, "a")], vec![]).await;
    let mut second = first.clone();
    let remove = first.files().to_vec();
    for handle in [&mut first, &mut second] {
        let rows = handle.read(&remove[0], &[]).await.unwrap();
        let add = handle.write_spanning(&rows, Span::Day).await.unwrap();
        let done = handle.commit(Change { add, remove: remove.clone(), rewrite_only: true, ..Change::default() }).await;
        if handle.version() == 2 && done.is_ok() {
            continue;
        }
        assert!(matches!(done, Err(CommitError::Conflict { .. })), "{done:?}");
    }
    assert_eq!(ids(&lake.table(Table::Clicks).await.unwrap()).await, [1, 2]);
    same_as_the_library(&second).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_fails_is_told_from_one_whose_answer_is_lost() {
    let (lake, store) = memory();
    let mut handle = lake.table(Table::Clicks).await.unwrap();
    store.arm("clicks/_delta_log/", 1, Fault::Before);
    let add = handle.write(&rows(&[click(1, TEN, "a")])).await.unwrap();
    let change = Change { add, txns: txn("stream/x", 1), ..Change::default() };
    let failed = handle.commit(change.clone()).await;
    assert!(matches!(failed, Err(CommitError::Failed(_))), "{failed:?}");
    assert_eq!((handle.version(), handle.txn("stream/x")), (0, None));

    store.arm("clicks/_delta_log/", 1, Fault::After);
    assert_eq!(handle.commit(change).await.unwrap(), 1);
    assert!(store.is_spent());
    assert_eq!(handle.txn("stream/x"), Some(1));
    assert_eq!(ids(&lake.table(Table::Clicks).await.unwrap()).await, [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_was_paused_is_judged_behind_the_others() {
    let (lake, store) = memory();
    let gate = Gate::new();
    let mut slow = lake.table(Table::Clicks).await.unwrap();
    let mut fast = lake.table(Table::Clicks).await.unwrap();
    store.arm("clicks/_delta_log/", 1, Fault::Hold(gate.clone()));
    let paused = tokio::spawn(async move {
        let done = slow.commit(Change { txns: txn("stream/x", 1), ..Change::default() }).await;
        (slow, done)
    });
    gate.reached().await;
    append(&mut fast, &[click(1, TEN, "a")], txn("stream/x", 1)).await;
    append(&mut fast, &[click(2, TEN, "a")], vec![]).await;
    gate.open();
    let (slow, done) = paused.await.unwrap();
    // another's commit with the same transaction is not this one: it may hold other rows
    assert!(matches!(done, Err(CommitError::Conflict { .. })), "{done:?}");
    assert_eq!(slow.version(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_down_is_an_error_and_nothing_more() {
    let (lake, store) = memory();
    let mut handle = lake.table(Table::Clicks).await.unwrap();
    store.set_down(true);
    assert!(handle.refresh().await.is_err());
    assert!(handle.write(&rows(&[click(1, TEN, "a")])).await.is_err());
    assert!(matches!(handle.commit(Change::default()).await, Err(CommitError::Failed(_))));
    assert!(lake.table(Table::Clicks).await.is_err());
    store.set_down(false);
    assert_eq!(append(&mut handle, &[click(1, TEN, "a")], vec![]).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_log_entry_is_named() {
    use object_store::{ObjectStoreExt as _, path::Path};
    let (lake, store) = memory();
    let mut handle = lake.table(Table::Clicks).await.unwrap();
    let entry = Path::from("lake/clicks/_delta_log/00000000000000000001.json");
    store.put(&entry, "{\"txn\":{\"appId\":".into()).await.unwrap();
    let error = handle.refresh().await.unwrap_err().to_string();
    assert!(error.contains("00000000000000000001.json"), "{error}");
}

#[tokio::test]
async fn an_empty_log_entry_is_named_and_never_passed() {
    use object_store::{ObjectStoreExt as _, path::Path};
    for cut in ["", "\n", "\0\0\0\0"] {
        let (lake, store) = memory();
        let mut handle = lake.table(Table::Clicks).await.unwrap();
        append(&mut handle, &[click(1, TEN, "a")], vec![]).await;
        let mut other = handle.clone();
        append(&mut other, &[click(2, TEN, "a")], vec![]).await;
        store.put(&Path::from("lake/clicks/_delta_log/00000000000000000002.json"), cut.into()).await.unwrap();
        let refused = handle.commit(Change::default()).await.unwrap_err().to_string();
        let anew = lake.table(Table::Clicks).await.unwrap_err().to_string();
        for error in [refused, anew] {
            assert!(error.contains("00000000000000000002.json"), "{error}");
        }
    }
}

fn entry(root: &std::path::Path, version: u64) -> std::path::PathBuf {
    root.join(format!("clicks/_delta_log/{version:020}.json"))
}

/// A lake in a folder, with two commits: version 2.
async fn on_disk(root: &std::path::Path) -> (Lake, TableHandle) {
    let lake = Lake::open(root.to_str().unwrap(), options()).unwrap();
    let mut handle = lake.table(Table::Clicks).await.unwrap();
    for n in 1..=2 {
        append(&mut handle, &[click(n, TEN, "a")], txn("stream/x", n as i64)).await;
    }
    (lake, handle)
}

/// A process that dies while it writes leaves a part of a file, under its last name or a temporary one, with no entry.
#[tokio::test(flavor = "multi_thread")]
async fn a_half_written_file_is_no_part_of_the_table_and_goes_in_time() {
    let folder = tempfile::tempdir().unwrap();
    let (lake, mut handle) = on_disk(folder.path()).await;
    let table = folder.path().join("clicks");
    let whole = std::fs::read(table.join(&handle.files()[0].path)).unwrap();
    let day = table.join(&handle.files()[0].path).parent().unwrap().to_owned();
    let halves = [day.join("half.parquet"), day.join(".tmp-half"), table.join("_delta_log/.tmp-half")];
    for half in &halves {
        std::fs::write(half, &whole[..whole.len() / 2]).unwrap();
    }
    let fresh = lake.table(Table::Clicks).await.unwrap();
    assert_eq!(ids(&fresh).await, [1, 2]);
    same_as_the_library(&fresh).await;
    append(&mut handle, &[click(3, TEN, "a")], vec![]).await;

    assert_eq!(handle.maintain(UtcMicros::now()).await.unwrap().files, 0, "somebody may be at it");
    let later = UtcMicros::now().plus(handle.lake().options().keep + Duration::from_secs(60));
    let done = handle.maintain(later).await.unwrap();
    assert_eq!((done.files, done.log_entries), (2, 1), "{done:?}");
    assert!(halves.iter().all(|half| !half.exists()));
    assert_eq!(ids(&handle).await, [1, 2, 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lake_that_goes_away_takes_no_commit_until_it_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let (root, away) = (folder.path().join("lake"), folder.path().join("away"));
    let (lake, mut handle) = on_disk(&root).await;
    let ready = handle.write(&rows(&[click(3, TEN, "a")])).await.unwrap();
    let change = Change { add: ready, txns: txn("stream/x", 3), ..Change::default() };
    // gone, or an empty folder of the same name, as where a disk isn't mounted
    for empty in [false, true] {
        std::fs::rename(&root, &away).unwrap();
        if empty {
            std::fs::create_dir(&root).unwrap();
        }
        let refused = handle.commit(change.clone()).await.unwrap_err().to_string();
        assert!(refused.contains("00000000000000000002.json is missing"), "{refused}");
        assert!(matches!(handle.refresh().await, Err(LakeError::Gap { .. })));
        let unwritten = handle.write(&rows(&[click(9, TEN + 9 * DAY, "a")])).await;
        assert!(unwritten.is_err(), "{unwritten:?}");
        assert_eq!((handle.version(), root.exists()), (2, empty));
        if empty {
            std::fs::remove_dir(&root).unwrap(); // nothing is in it
        }
        std::fs::rename(&away, &root).unwrap();
    }
    // another table in its place
    std::fs::rename(&root, &away).unwrap();
    let other = Lake::open(root.to_str().unwrap(), options()).unwrap();
    other.table(Table::Clicks).await.unwrap();
    assert!(matches!(handle.commit(change.clone()).await, Err(CommitError::Failed(LakeError::Gap { .. }))));
    std::fs::remove_dir_all(&root).unwrap();
    std::fs::rename(&away, &root).unwrap();

    assert_eq!(handle.commit(change).await.unwrap(), 3);
    assert_eq!(ids(&lake.table(Table::Clicks).await.unwrap()).await, [1, 2, 3]);
    same_as_the_library(&handle).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gap_in_the_log_is_named_by_all_and_nobody_writes_into_it() {
    let folder = tempfile::tempdir().unwrap();
    let (lake, mut handle) = on_disk(folder.path()).await;
    let mut behind = handle.clone();
    for n in 3..=5 {
        append(&mut handle, &[click(n, TEN, "a")], vec![]).await;
    }
    for missing in 1..=4 {
        let kept = std::fs::read(entry(folder.path(), missing)).unwrap();
        std::fs::remove_file(entry(folder.path(), missing)).unwrap();
        let refused = handle.commit(Change::default()).await.unwrap_err().to_string();
        let anew = lake.table(Table::Clicks).await.unwrap_err().to_string();
        let read_on = behind.clone().refresh().await.unwrap_err().to_string();
        for error in [refused, anew, read_on] {
            let named = format!("{missing:020}.json is missing, although version 5 is there");
            assert!(error.contains(&named), "{error}");
        }
        assert!(!entry(folder.path(), 6).exists() && !entry(folder.path(), missing).exists());
        std::fs::write(entry(folder.path(), missing), kept).unwrap();
    }
    behind.refresh().await.unwrap();
    assert_eq!(append(&mut behind, &[click(6, TEN, "a")], vec![]).await, 6);
    assert_eq!(ids(&lake.table(Table::Clicks).await.unwrap()).await, [1, 2, 3, 4, 5, 6]);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_table_is_made_over_the_files_of_one_whose_log_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let (lake, _) = on_disk(folder.path()).await;
    std::fs::remove_dir_all(folder.path().join("clicks/_delta_log")).unwrap();
    let error = lake.table(Table::Clicks).await.unwrap_err();
    assert!(matches!(error, LakeError::Gap { .. }) && error.to_string().contains("log is gone"), "{error}");
    assert!(!entry(folder.path(), 0).exists());
}

/// Several that write, and one that checkpoints and cleans up all the while: nobody takes their doings for a gap.
#[tokio::test(flavor = "multi_thread")]
async fn writers_and_a_clean_up_beside_make_no_gap() {
    let folder = tempfile::tempdir().unwrap();
    let options = LakeOptions { checkpoint_every: 3, keep: Duration::ZERO, ..options() };
    let lake = Lake::open(folder.path().to_str().unwrap(), options).unwrap();
    let mut keeper = lake.table(Table::Clicks).await.unwrap();
    let write = |n: u128| {
        let lake = lake.clone();
        async move {
            let mut handle = lake.table(Table::Clicks).await.unwrap();
            for k in 0..20 {
                let add = handle.write(&rows(&[click(n * 100 + k, TEN, "a")])).await.unwrap();
                loop {
                    // a handle that was overtaken by a clean-up judges anew
                    match handle.commit(Change { add: add.clone(), ..Change::default() }).await {
                        Ok(_) => break,
                        Err(CommitError::Conflict { .. }) => {}
                        // one for which all is old takes even an entry that is just being written, under another name
                        Err(CommitError::Failed(LakeError::Delta { .. })) => {}
                        Err(other) => panic!("{other}"),
                    }
                }
                lake.table(Table::Clicks).await.unwrap();
            }
        }
    };
    let writers = futures::future::join_all((1..=3).map(|n| tokio::spawn(write(n))));
    let clean = async {
        for _ in 0..25 {
            // only the log: files that are about to be committed would be taken for old
            keeper.refresh().await.unwrap();
            keeper.maintain_log(UtcMicros::now().plus(Duration::from_secs(60))).await.unwrap();
        }
    };
    let (done, ()) = tokio::join!(writers, clean);
    done.into_iter().for_each(|writer| writer.unwrap());
    assert_eq!(ids(&lake.table(Table::Clicks).await.unwrap()).await.len(), 60);
}

#[test]
fn storage_that_is_not_built_in_is_named() {
    let error = Lake::open("s9://bucket/lake", options()).unwrap_err();
    assert!(matches!(&error, LakeError::Scheme { scheme, .. } if scheme == "s9"), "{error}");
    assert!(error.to_string().contains("file"));
    assert!(matches!(Lake::open("/proc/none/lake", options()), Err(LakeError::Root { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn news_of_clicks_are_told() {
    let (lake, _) = memory();
    let news = lake.clone().subscribe();
    let mut handle = lake.table(Table::Clicks).await.unwrap();
    lake.table(Table::Rejects).await.unwrap().commit(Change::default()).await.unwrap();
    assert!(!news.has_changed().unwrap());
    append(&mut handle, &[click(1, TEN, "a")], vec![]).await;
    assert_eq!(*news.borrow(), 1);
}

/// Checkpoints, clean-up and handles that slept through both.
#[tokio::test(flavor = "multi_thread")]
async fn transactions_and_files_survive_checkpoints_and_clean_up() {
    let folder = tempfile::tempdir().unwrap();
    let options = LakeOptions { checkpoint_every: 10, keep: Duration::ZERO, ..options() };
    let lake = Lake::open(folder.path().to_str().unwrap(), options).unwrap();
    let mut handle = lake.table(Table::Clicks).await.unwrap();
    let mut sleeper = handle.clone();
    let mut settler = lake.table(Table::Clicks).await.unwrap();
    let mut checkpoints = 0;
    for n in 0..60u32 {
        append(
            &mut handle,
            &[click(u128::from(n), TEN, "a")],
            vec![("stream/x".to_owned(), i64::from(n)), (format!("file/{n}"), 1)],
        )
        .await;
        if n % 7 == 6 {
            // merge what is there into one file, then clean up at a time when all of it counts as old
            settler.refresh().await.unwrap();
            let remove = settler.files().to_vec();
            let mut batches = Vec::new();
            for file in &remove {
                batches.extend(settler.read(file, &[]).await.unwrap());
            }
            let add = settler.write_spanning(&batches, Span::Day).await.unwrap();
            let change =
                Change { add, remove, rewrite_only: true, txns: txn("settler", i64::from(n)), ..Change::default() };
            settler.commit(change).await.unwrap();
            let later = UtcMicros::now().plus(Duration::from_secs(60));
            let done = settler.maintain(later).await.unwrap();
            checkpoints += u32::from(done.checkpoint.is_some());
            assert!(done.files >= 6, "{done:?}");
        }
    }
    assert!(checkpoints >= 4, "{checkpoints}");
    let log = std::fs::read_dir(folder.path().join("clicks/_delta_log")).unwrap().count();
    assert!(log < 40, "{log} files are left in the log");
    let fresh = lake.table(Table::Clicks).await.unwrap();
    assert_eq!(ids(&fresh).await, (0..60).collect::<Vec<u128>>());
    assert_eq!(fresh.txn("stream/x"), Some(59));
    assert_eq!(fresh.txns_with_prefix("file/").count(), 60);
    same_as_the_library(&fresh).await;

    // one that slept through it all sees the newest version, and its commit lands behind it
    sleeper.refresh().await.unwrap();
    assert_eq!((sleeper.version(), sleeper.txn("stream/x")), (fresh.version(), Some(59)));
    append(&mut sleeper, &[click(99, TEN, "a")], vec![]).await;
    handle.refresh().await.unwrap();
    assert_eq!(ids(&handle).await.len(), 61);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_made_before_a_clean_up_is_never_lost_in_its_gap() {
    let folder = tempfile::tempdir().unwrap();
    let options = LakeOptions { checkpoint_every: 1, keep: Duration::ZERO, ..options() };
    let lake = Lake::open(folder.path().to_str().unwrap(), options).unwrap();
    let mut handle = lake.table(Table::Clicks).await.unwrap();
    let mut old = handle.clone();
    for n in 0..5 {
        append(&mut handle, &[click(n, TEN, "a")], txn("stream/x", n as i64)).await;
        handle.maintain(UtcMicros::now().plus(Duration::from_secs(60))).await.unwrap();
    }
    // entry 1 is gone: a put there would be taken, and never be read
    assert!(!folder.path().join("clicks/_delta_log/00000000000000000001.json").exists());
    let lost = old.commit(Change { txns: txn("stream/x", 9), ..Change::default() }).await;
    assert!(matches!(lost, Err(CommitError::Conflict { .. })), "{lost:?}");
    old.commit(Change { txns: txn("stream/x", 9), ..Change::default() }).await.unwrap();
    assert_eq!(lake.table(Table::Clicks).await.unwrap().txn("stream/x"), Some(9));
}
