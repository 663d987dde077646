//! Which ids the lake holds around some instants, and what their rows say.
//!
//! Only files whose time span meets the wanted one are read, only their column `click_id`, and each once: its ids
//! are kept by path, sorted, within a budget of bytes, the least recently used going first. Files never change
//! under a path, so nothing kept can be stale; a file that is gone is simply not asked for again. Whoever commits
//! a file of its own leaves its ids here, so that an import of many chunks does not read back what it wrote.
//! What the rows of a file say is read when ids of that file have been found, and kept beside them: where nothing is
//! known already it costs nothing.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Array, AsArray, RecordBatch};
use futures::TryStreamExt as _;
use schemas::{ClickId, UtcMicros};

use crate::enrich::Facts;
use crate::enrich::facts::{COLUMNS, FactColumns};
use crate::lake::{DataFile, LakeError, TableHandle};

/// Hashes ids by their last half, which is random, whoever made them.
#[derive(Default, Debug, Clone, Copy)]
pub struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        if let Some(last) = bytes.last_chunk::<8>() {
            // multiplied, as a set takes an entry's tag from the first bits, where some ids are all alike
            self.0 = u64::from_be_bytes(*last).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
    }

    fn write_usize(&mut self, _length: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A set of click ids.
pub type IdSet = HashSet<ClickId, BuildHasherDefault<IdHasher>>;

/// Something by click id.
pub type IdMap<V> = HashMap<ClickId, V, BuildHasherDefault<IdHasher>>;

/// Ids that were looked for, by the file that holds their rows.
pub type Found = Vec<(Arc<DataFile>, Vec<ClickId>)>;

/// The instants of some records, as one span per hour: far fewer files are near them than near the whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spans(BTreeMap<i64, (UtcMicros, UtcMicros)>);

impl Spans {
    /// Takes in one instant.
    pub fn add(&mut self, time: UtcMicros) {
        let span = self.0.entry(time.hour()).or_insert((time, time));
        *span = (span.0.min(time), span.1.max(time));
    }

    /// Whether something between `min` and `max` (unknown ends are open) may be within `skew` of one of them.
    pub fn near(&self, min: Option<UtcMicros>, max: Option<UtcMicros>, skew: Duration) -> bool {
        self.0.values().any(|(first, last)| {
            min.is_none_or(|min| min <= last.plus(skew)) && max.is_none_or(|max| max >= first.minus(skew))
        })
    }
}

impl FromIterator<UtcMicros> for Spans {
    fn from_iter<I: IntoIterator<Item = UtcMicros>>(times: I) -> Self {
        let mut spans = Self::default();
        times.into_iter().for_each(|time| spans.add(time));
        spans
    }
}

/// Ids in order, and what their rows say if that was asked for.
type Rows = (Arc<[u128]>, Option<Arc<[Facts]>>);

#[derive(Debug)]
struct Kept {
    ids: Arc<[u128]>,
    /// What the rows of these ids say, in the same order, once somebody has asked.
    facts: Option<Arc<[Facts]>>,
    last_use: u64,
}

impl Kept {
    fn bytes(&self) -> usize {
        self.ids.len() * ID_BYTES + self.facts.as_ref().map_or(0, |facts| size_of_val::<[Facts]>(facts))
    }
}

/// The ids of files of `clicks`, kept by path.
#[derive(Debug)]
pub struct IdIndex {
    max_skew: Duration,
    budget: usize,
    used: usize,
    uses: u64,
    kept: HashMap<String, Kept>,
}

const ID_BYTES: usize = size_of::<u128>();

impl IdIndex {
    /// An empty index that keeps at most `budget` bytes of ids. Two records of one id are at most `max_skew` apart.
    pub fn new(max_skew: Duration, budget: usize) -> Self {
        Self { max_skew, budget, used: 0, uses: 0, kept: HashMap::new() }
    }

    /// Those of `ids` that the snapshot of `clicks` holds in files near `spans`.
    ///
    /// # Errors
    /// When a file can't be read.
    pub async fn find(
        &mut self,
        clicks: &TableHandle,
        spans: &Spans,
        ids: impl Iterator<Item = ClickId>,
    ) -> Result<Found, LakeError> {
        let mut wanted: Vec<u128> = ids.map(ClickId::as_u128).collect();
        wanted.sort_unstable();
        let mut holders = Found::new();
        for file in clicks.files() {
            if !spans.near(file.min_time, file.max_time, self.max_skew) {
                continue;
            }
            let ids = match self.lookup(&file.path) {
                Some(kept) => kept.0,
                None => {
                    let ids = sorted_ids(&clicks.read(file, &["click_id"]).await?);
                    self.keep(&file.path, Arc::clone(&ids), None);
                    ids
                }
            };
            let mut found = Vec::new();
            common(&wanted, &ids, |id| found.push(ClickId::from(id)));
            if !found.is_empty() {
                holders.push((Arc::clone(file), found));
            }
        }
        Ok(holders)
    }

    /// What the rows say that were found.
    ///
    /// # Errors
    /// When a file can't be read.
    pub async fn facts(&mut self, clicks: &TableHandle, found: &Found) -> Result<IdMap<Facts>, LakeError> {
        let mut said = IdMap::default();
        for (file, wanted) in found {
            let (ids, facts) = match self.lookup(&file.path) {
                Some((ids, Some(facts))) => (ids, facts),
                _ => {
                    let (ids, facts) = read_facts(clicks, file).await?;
                    self.keep(&file.path, Arc::clone(&ids), Some(Arc::clone(&facts)));
                    (ids, facts)
                }
            };
            let of = |id: &ClickId| Some((*id, facts[ids.binary_search(&id.as_u128()).ok()?]));
            said.extend(wanted.iter().filter_map(of));
        }
        Ok(said)
    }

    /// Keeps the ids of a file that the caller has just committed; ids of its sister files may be among them.
    pub fn insert(&mut self, path: &str, ids: impl Iterator<Item = ClickId>) {
        let mut ids: Vec<u128> = ids.map(ClickId::as_u128).collect();
        ids.sort_unstable();
        self.keep(path, ids.into(), None);
    }

    fn lookup(&mut self, path: &str) -> Option<Rows> {
        self.uses += 1;
        let kept = self.kept.get_mut(path)?;
        kept.last_use = self.uses;
        Some((Arc::clone(&kept.ids), kept.facts.clone()))
    }

    fn keep(&mut self, path: &str, ids: Arc<[u128]>, facts: Option<Arc<[Facts]>>) {
        self.uses += 1;
        let kept = Kept { ids, facts, last_use: self.uses };
        let bytes = kept.bytes();
        if bytes > self.budget {
            return;
        }
        self.used -= self.kept.remove(path).map_or(0, |before| before.bytes());
        while self.used + bytes > self.budget {
            let Some(oldest) = self.kept.iter().min_by_key(|(_, kept)| kept.last_use).map(|(path, _)| path.clone())
            else {
                break;
            };
            self.used -= self.kept.remove(&oldest).map_or(0, |kept| kept.bytes());
        }
        self.used += bytes;
        self.kept.insert(path.to_owned(), kept);
    }
}

/// The ids of a file and what its rows say, both in the order of the ids; batch by batch, as the texts of a whole file
/// take far more memory.
async fn read_facts(clicks: &TableHandle, file: &DataFile) -> Result<(Arc<[u128]>, Arc<[Facts]>), LakeError> {
    let mut rows: Vec<(u128, Facts)> = Vec::with_capacity(file.rows as usize);
    let mut columns = vec!["click_id"];
    columns.extend(COLUMNS);
    let mut batches = clicks.batches(file, &columns).await?;
    while let Some(batch) = batches.try_next().await? {
        let Some(facts) = FactColumns::of(&batch) else { continue };
        rows.extend(click_ids(&batch).enumerate().map(|(row, id)| (id.as_u128(), facts.row(row))));
    }
    rows.sort_unstable_by_key(|(id, _)| *id);
    Ok((rows.iter().map(|(id, _)| *id).collect(), rows.iter().map(|(_, facts)| *facts).collect()))
}

fn sorted_ids(batches: &[RecordBatch]) -> Arc<[u128]> {
    let mut ids = Vec::with_capacity(batches.iter().map(RecordBatch::num_rows).sum());
    for batch in batches {
        ids.extend(click_ids(batch).map(ClickId::as_u128));
    }
    ids.sort_unstable();
    ids.into()
}

/// The ids of a batch that has column `click_id`; what is not sixteen bytes long is left out.
pub(crate) fn click_ids(batch: &RecordBatch) -> impl Iterator<Item = ClickId> {
    let column = batch.column_by_name("click_id").and_then(|column| column.as_binary_opt::<i32>());
    (0..column.map_or(0, Array::len))
        .filter_map(move |row| column.and_then(|ids| ids.value(row).try_into().ok().map(ClickId)))
}

/// Calls `found` with every number that is in both sorted lists.
pub(crate) fn common<'a>(mut small: &'a [u128], mut large: &'a [u128], mut found: impl FnMut(u128)) {
    if small.len() > large.len() {
        std::mem::swap(&mut small, &mut large);
    }
    for &id in small {
        // leap ahead in steps that double, then search within the last leap
        let mut step = 1;
        while step < large.len() && large[step] < id {
            step *= 2;
        }
        let from = step / 2;
        let to = (step + 1).min(large.len());
        let at = from + large[from..to].partition_point(|other| *other < id);
        large = &large[at..];
        match large.first() {
            Some(other) if *other == id => found(id),
            Some(_) => {}
            None => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use schemas::time::{HOUR, SECOND};

    const SKEW: Duration = Duration::from_secs(600);

    #[test]
    fn spans_reach_across_midnight_and_not_into_the_gap() {
        let midnight = UtcMicros(24 * HOUR);
        let spans: Spans = [midnight.plus(Duration::from_secs(30)), UtcMicros(72 * HOUR)].into_iter().collect();
        let file = |from: i64, to: i64| spans.near(Some(UtcMicros(from)), Some(UtcMicros(to)), SKEW);
        assert!(file(23 * HOUR, 24 * HOUR - 1), "the last minutes of the day before");
        assert!(!file(23 * HOUR, 24 * HOUR - 570 * SECOND - 1));
        assert!(file(23 * HOUR, 24 * HOUR - 570 * SECOND));
        assert!(!file(30 * HOUR, 60 * HOUR), "between the two");
        assert!(spans.near(None, None, SKEW), "a file without statistics may hold anything");
    }

    #[test]
    fn the_budget_is_kept_and_the_least_used_goes_first() {
        let mut index = IdIndex::new(SKEW, 3 * 10 * ID_BYTES);
        let ids = |from: u128| (from..from + 10).map(ClickId::from);
        for (path, from) in [("a", 0), ("b", 100), ("c", 200)] {
            index.insert(path, ids(from));
        }
        assert!(index.lookup("a").is_some());
        index.insert("d", ids(300));
        assert!(index.lookup("b").is_none(), "the one not used longest");
        assert!(index.lookup("a").is_some() && index.lookup("c").is_some() && index.lookup("d").is_some());
        index.insert("a", ids(0));
        assert_eq!(index.used, 3 * 10 * ID_BYTES, "a path twice is counted once");
        index.insert("large", (0..31).map(ClickId::from));
        assert!(index.lookup("large").is_none() && index.lookup("d").is_some());
    }

    proptest! {
        #[test]
        fn what_is_common_is_found(
            a in proptest::collection::btree_set(0u128..200, 0..60),
            b in proptest::collection::btree_set(0u128..200, 0..120),
        ) {
            let both: Vec<u128> = a.intersection(&b).copied().collect();
            let (a, b): (Vec<u128>, Vec<u128>) = (a.into_iter().collect(), b.into_iter().collect());
            let mut found = Vec::new();
            common(&a, &b, |id| found.push(id));
            prop_assert_eq!(found, both);
        }
    }
}
