use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;
use schemas::batch;

use super::*;

const PARTITIONS: u32 = 3;

fn journal() -> JournalId {
    JournalId(Default::default())
}

fn click(offset: u64, bytes: usize) -> Record {
    let mut text = offset.to_le_bytes().to_vec();
    text.resize(bytes.max(8), 0);
    Record { offset, journal: journal(), body: Body::Click(Bytes::from(text)) }
}

fn mark(offset: u64) -> Record {
    Record { offset, journal: journal(), body: Body::Mark(UtcMicros(offset as i64)) }
}

fn positions(piece: &Piece) -> Vec<u64> {
    batch::decode(&piece.bytes).unwrap().clicks().map(|(at, _)| at).collect()
}

#[test]
fn a_mark_goes_into_every_partition_behind_what_it_covers() {
    let first = click(0, 20);
    let Body::Click(bytes) = &first.body else { panic!("a click") };
    // the next partition has been sent the mark already
    let mut starts = [0; PARTITIONS as usize];
    let ahead = (partition_for(bytes, PARTITIONS) + 1) % PARTITIONS;
    starts[ahead as usize] = 2;
    let mut cutter = Cutter::new(journal(), &starts);
    let mut out = Vec::new();
    cutter.take(&first, &mut out);
    cutter.flush(&mut out);
    assert_eq!(out.len(), 1, "only where there is a click");
    cutter.take(&mark(1), &mut out);
    let marks: Vec<_> = out[1..].iter().map(|piece| (piece.partition, piece.cover.to, piece.cover.mark)).collect();
    assert_eq!(marks.len(), 2, "one has it already: {marks:?}");
    assert!(marks.iter().all(|(partition, to, at)| *partition != ahead && *to == 2 && *at == Some(UtcMicros(1))));
    assert_eq!(cutter.next(), 2);
    out.clear();
    cutter.finish(2, true, &mut out);
    cutter.finish(2, true, &mut out);
    assert_eq!(out.iter().filter(|piece| piece.cover.ended && piece.cover.from == 2).count(), 6);
}

#[test]
fn what_the_lake_holds_by_now_is_neither_read_nor_said_to_be_gone() {
    let mut cutter = Cutter::new(journal(), &[5, 9, 2]);
    cutter.advance(&[8, 3, 8]);
    assert_eq!(cutter.next(), 8);
    let mut out = Vec::new();
    cutter.skip(8, &[UtcMicros(0); 3], UtcMicros(1), &mut out);
    assert_eq!(out, []);
    let mut one = Cutter::only(journal(), 3, 2, 4);
    one.advance(&[1, 1, 7]);
    assert_eq!(one.next(), 7);
}

#[test]
fn what_is_gone_is_said_where_it_is_lacked() {
    let mut cutter = Cutter::new(journal(), &[5, 9, 2]);
    let mut out = Vec::new();
    cutter.skip(7, &[UtcMicros(50), UtcMicros(90), UtcMicros(20)], UtcMicros(100), &mut out);
    let said: Vec<_> = out.iter().map(|piece| (piece.partition, piece.cover)).collect();
    let lost = |from, since| Cover {
        journal: journal(),
        from,
        to: 7,
        mark: Some(UtcMicros(100)),
        ended: false,
        lost: Some(UtcMicros(since)),
    };
    assert_eq!(said, [(0, lost(5, 50)), (2, lost(2, 20))]);
    assert_eq!(batch::decode(&out[0].bytes).unwrap().cover, lost(5, 50));
    assert_eq!(cutter.next(), 7);
}

proptest! {
    /// Whatever the journal holds, wherever partitions begin and whenever is flushed: the batches of each partition follow each
    /// other without a hole, none is bigger than it may be, and together they hold each click that was lacking once, in the
    /// partition of its id.
    #[test]
    fn batches_cover_the_journal(
        frames in proptest::collection::vec(prop_oneof![9 => (8usize..30_000).prop_map(Some), 1 => Just(None)], 1..80),
        starts in proptest::collection::vec(0u64..20, PARTITIONS as usize),
        flushes in proptest::collection::vec(any::<bool>(), 80),
        only in proptest::option::of(0..PARTITIONS),
    ) {
        let mut cutter = match only {
            Some(only) => Cutter::only(journal(), PARTITIONS as usize, only, starts[only as usize]),
            None => Cutter::new(journal(), &starts),
        };
        let begin = cutter.next();
        let (mut out, mut expected) = (Vec::new(), BTreeMap::new());
        let end = frames.len() as u64;
        for ((at, frame), flush) in (0..end).zip(&frames).zip(&flushes) {
            let record = frame.map_or_else(|| mark(at), |bytes| click(at, bytes));
            if let Body::Click(bytes) = &record.body {
                let partition = partition_for(bytes, PARTITIONS);
                if at >= starts[partition as usize] && only.is_none_or(|only| only == partition) {
                    expected.insert(at, partition);
                }
            }
            if at < begin {
                continue;
            }
            cutter.take(&record, &mut out);
            if *flush {
                cutter.flush(&mut out);
            }
        }
        cutter.finish(end.max(begin), false, &mut out);
        let mut reached = starts.clone();
        for piece in &out {
            let cover = batch::decode(&piece.bytes).unwrap().cover;
            prop_assert_eq!(cover, piece.cover);
            prop_assert_eq!(cover.from, reached[piece.partition as usize]);
            reached[piece.partition as usize] = cover.to;
            prop_assert!(piece.bytes.len() <= MAX_BATCH);
            for at in positions(piece) {
                prop_assert!(cover.from <= at && at < cover.to);
                prop_assert_eq!(expected.remove(&at), Some(piece.partition));
            }
        }
        prop_assert!(expected.is_empty(), "lacking: {:?}", expected);
        for (partition, reached) in (0..PARTITIONS).zip(reached) {
            if only.is_none_or(|only| only == partition) {
                prop_assert!(reached >= end.max(begin).max(starts[partition as usize]) || reached >= end);
            }
        }
    }
}
