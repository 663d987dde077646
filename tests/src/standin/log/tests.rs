//! A partition's file over restarts, evictions and losses.

use fluvio_protocol::record::Record;
use proptest::prelude::*;

use super::*;

fn batch(values: &[&str]) -> Batch<RawRecords> {
    let mut batch = Batch::default();
    batch.add_records(&mut values.iter().map(|value| Record::new(*value)).collect());
    batch.try_into().unwrap()
}

fn offsets(log: &Log, from: i64, bytes: usize) -> Vec<(i64, i64)> {
    log.batches(from, bytes).places.iter().map(|place| (place.base, place.end)).collect()
}

#[test]
fn offsets_go_on_over_a_restart_and_an_eviction() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("0.log");
    let mut log = Log::open(&path).unwrap();
    assert_eq!(log.append(&mut batch(&["a", "b", "c"])).unwrap(), 0);
    assert_eq!(log.append(&mut batch(&["d"])).unwrap(), 3);
    assert_eq!(log.append(&mut batch(&["e", "f"])).unwrap(), 4);
    assert_eq!(offsets(&log, 2, usize::MAX), [(0, 3), (3, 4), (4, 6)]);
    assert_eq!(offsets(&log, 3, 1), [(3, 4)], "the batch that reaches the limit is the last");
    assert_eq!(log.evict(5).unwrap(), 4, "a batch goes as a whole or not at all");
    let mut log = Log::open(&path).unwrap();
    assert_eq!((log.start(), log.end()), (4, 6));
    assert_eq!(offsets(&log, 0, usize::MAX), [(4, 6)]);
    assert_eq!(log.evict(9).unwrap(), 6);
    let mut log = Log::open(&path).unwrap();
    assert_eq!((log.start(), log.end()), (6, 6), "an empty partition keeps its end");
    assert_eq!(log.append(&mut batch(&["g"])).unwrap(), 6);
}

/// What happens to a partition.
#[derive(Clone, Copy, Debug)]
enum Event {
    Append(usize),
    Evict(i64),
    Forget(i64),
    Reopen,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (1_usize..4).prop_map(Event::Append),
        1 => (0_i64..40).prop_map(Event::Evict),
        1 => (0_i64..6).prop_map(Event::Forget),
        1 => Just(Event::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn it_holds_what_a_list_of_batches_would(events in prop::collection::vec(event(), 0..40)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("0.log");
        let mut log = Log::open(&path).unwrap();
        let (mut model, mut start, mut end) = (Vec::new(), 0, 0);
        for event in events {
            match event {
                Event::Append(records) => {
                    prop_assert_eq!(log.append(&mut batch(&vec!["x"; records])).unwrap(), end);
                    model.push((end, end + records as i64));
                    end += records as i64;
                }
                Event::Evict(before) => {
                    model.retain(|(_, end)| *end > before);
                    start = model.first().map_or(end, |(base, _)| *base);
                    prop_assert_eq!(log.evict(before).unwrap(), start);
                }
                Event::Forget(records) => {
                    let wanted = end - records;
                    while end > wanted && let Some((base, _)) = model.pop() {
                        end = base;
                    }
                    log.forget(records).unwrap();
                }
                Event::Reopen => log = Log::open(&path).unwrap(),
            }
            prop_assert_eq!((log.start(), log.end()), (start, end));
            prop_assert_eq!(offsets(&log, 0, usize::MAX), model.clone());
        }
    }
}

#[test]
fn a_forgotten_tail_is_gone_for_good() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("0.log");
    let mut log = Log::open(&path).unwrap();
    log.append(&mut batch(&["a", "b"])).unwrap();
    log.append(&mut batch(&["c", "d"])).unwrap();
    log.append(&mut batch(&["e"])).unwrap();
    assert_eq!(log.forget(2).unwrap(), 3, "whole batches go");
    let mut log = Log::open(&path).unwrap();
    assert_eq!(log.end(), 2);
    assert_eq!(log.append(&mut batch(&["f"])).unwrap(), 2);
    let bytes = log.batches(2, usize::MAX).read().unwrap();
    assert_eq!(place(0, &bytes).unwrap(), Place { base: 2, end: 3, at: 0, length: bytes.len() });
    log.evict(2).unwrap();
    assert_eq!(log.forget(i64::MAX).unwrap(), 1);
    let log = Log::open(&path).unwrap();
    assert_eq!((log.start(), log.end()), (2, 2), "what was evicted before doesn't come back");
}
