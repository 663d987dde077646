//! Random doings of several processes on one table, against what must come out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use object_store::memory::InMemory;
use proptest::prelude::*;
use schemas::UtcMicros;
use schemas::tables::Table;
use url::Url;

use super::testing::{Fault, FaultStore};
use super::tests::{TEN, click, ids, rows, same_as_the_library};
use super::{Change, CommitError, Lake, LakeOptions, Span, TableHandle};

const HANDLES: usize = 3;

#[derive(Clone, Debug)]
enum Doing {
    /// A process appends a row, fenced by its own count as it knows it.
    Append(usize),
    /// A process merges all the files it knows.
    Merge(usize),
    /// A process looks at the newest version.
    Refresh(usize),
    /// A process starts anew.
    Restart(usize),
    /// Checkpoint and clean-up, at a time when all is old.
    Maintain(usize),
    /// The next log entry fails, before or after it is written.
    Fail(bool),
}

fn doings() -> impl Strategy<Value = Vec<Doing>> {
    let one = prop_oneof![
        6 => (0..HANDLES).prop_map(Doing::Append),
        2 => (0..HANDLES).prop_map(Doing::Merge),
        1 => (0..HANDLES).prop_map(Doing::Refresh),
        1 => (0..HANDLES).prop_map(Doing::Restart),
        2 => (0..HANDLES).prop_map(Doing::Maintain),
        2 => any::<bool>().prop_map(Doing::Fail),
    ];
    proptest::collection::vec(one, 1..50)
}

/// What the table must hold.
#[derive(Default)]
struct Model {
    ids: BTreeSet<u128>,
    txns: BTreeMap<String, i64>,
    next: u128,
}

struct World {
    lake: Lake,
    store: FaultStore,
    handles: Vec<TableHandle>,
    model: Model,
}

impl World {
    async fn new() -> Self {
        let store = FaultStore::new(Arc::new(InMemory::new()));
        let options = LakeOptions { checkpoint_every: 4, keep: Duration::ZERO, ..LakeOptions::default() };
        let root = Url::parse("memory:///lake").unwrap();
        let lake = Lake::with_store(Arc::new(store.clone()), root, options).unwrap();
        let mut handles = Vec::new();
        for _ in 0..HANDLES {
            handles.push(lake.table(Table::Clicks).await.unwrap());
        }
        Self { lake, store, handles, model: Model::default() }
    }

    async fn go(&mut self, doing: Doing) {
        match doing {
            Doing::Append(n) => self.append(n).await,
            Doing::Merge(n) => self.merge(n).await,
            Doing::Refresh(n) => drop(self.handles[n].refresh().await.unwrap()),
            Doing::Restart(n) => self.handles[n] = self.lake.table(Table::Clicks).await.unwrap(),
            Doing::Maintain(n) => {
                let later = UtcMicros::now().plus(Duration::from_secs(60));
                self.handles[n].maintain(later).await.unwrap();
            }
            Doing::Fail(after) => {
                self.store.arm(".json", 1, if after { Fault::After } else { Fault::Before });
            }
        }
    }

    async fn append(&mut self, n: usize) {
        let id = self.model.next;
        self.model.next += 1;
        let handle = &mut self.handles[n];
        // two of the three share a transaction: only one of them may go on from any value of it
        let app_id = format!("stream/{}", n / 2);
        let stored = handle.txn(&app_id);
        let wanted = stored.unwrap_or(0) + 1;
        let change = Change {
            add: handle.write(&rows(&[click(id, TEN, "a")])).await.unwrap(),
            txns: vec![(app_id.clone(), wanted)],
            expect: vec![(app_id.clone(), stored)],
            ..Change::default()
        };
        match handle.commit(change).await {
            Ok(_) => {
                assert_eq!(self.model.txns.get(&app_id).copied(), stored, "only from the value that stood");
                self.model.txns.insert(app_id, wanted);
                self.model.ids.insert(id);
            }
            Err(CommitError::Failed(_) | CommitError::Conflict { .. }) => {}
            Err(CommitError::Moved { stored: now, .. }) => assert_eq!(now, self.model.txns.get(&app_id).copied()),
            Err(other) => panic!("{other}"),
        }
    }

    async fn merge(&mut self, n: usize) {
        let handle = &mut self.handles[n];
        let remove = handle.files().to_vec();
        let mut batches = Vec::new();
        for file in &remove {
            match handle.read(file, &[]).await {
                Ok(read) => batches.extend(read),
                Err(_) => return, // cleaned up meanwhile: this process slept longer than files are kept
            }
        }
        let add = handle.write_spanning(&batches, Span::Day).await.unwrap();
        match handle.commit(Change { add, remove, rewrite_only: true, ..Change::default() }).await {
            Ok(_) | Err(CommitError::Failed(_) | CommitError::Conflict { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }

    async fn check(&mut self) {
        let fresh = self.lake.table(Table::Clicks).await.unwrap();
        assert_eq!(ids(&fresh).await, self.model.ids.iter().copied().collect::<Vec<u128>>());
        let txns: BTreeMap<String, i64> = fresh.txns_with_prefix("").map(|(id, v)| (id.to_owned(), v)).collect();
        assert_eq!(txns, self.model.txns);
        same_as_the_library(&fresh).await;
        for handle in &mut self.handles {
            handle.refresh().await.unwrap();
            assert_eq!(handle.version(), fresh.version());
            assert_eq!(ids(handle).await, ids(&fresh).await);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    /// Whatever several processes do to a table, and whichever log entry fails: what was acknowledged is there, nothing
    /// else is, and the library reads the same.
    #[test]
    fn a_table_holds_what_was_acknowledged(doings in doings()) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let mut world = World::new().await;
            for doing in doings {
                world.go(doing).await;
            }
            world.check().await;
        });
    }
}
