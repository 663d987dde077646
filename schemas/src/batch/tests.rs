use proptest::prelude::*;

use super::*;

/// The bytes of release 1. They are in topics: this test may gain cases, never change one.
const GOLDEN: &str = include_str!("../../golden/batch-v1.hex");

fn cover(from: u64, to: u64) -> Cover {
    let journal = JournalId(Uuid::from_bytes([9; 16]));
    Cover { journal, from, to, mark: Some(UtcMicros(1_773_480_413_123_456)), ended: true, lost: Some(UtcMicros(5)) }
}

fn sample() -> Vec<u8> {
    let mut writer = BatchWriter::new(1_000);
    assert!(writer.push(1_001, b"one") && writer.push(1_007, b""));
    assert_eq!((writer.size(), writer.clicks()), (HEAD_BYTES + 2 * CLICK_HEAD_BYTES + 3, 2));
    writer.finish(cover(1_000, 1_010))
}

fn signed(mut bytes: Vec<u8>) -> Vec<u8> {
    let sum = checksum(&bytes);
    bytes[4..8].copy_from_slice(&sum.to_le_bytes());
    bytes
}

#[test]
fn golden_bytes_are_written_and_read() {
    let pairs = GOLDEN.trim().as_bytes().chunks(2);
    let golden: Vec<u8> =
        pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect();
    assert_eq!(sample(), golden);
    let batch = decode(&golden).unwrap();
    assert_eq!((batch.cover, batch.len(), batch.is_empty()), (cover(1_000, 1_010), 2, false));
    assert_eq!(batch.clicks().collect::<Vec<_>>(), [(1_001, &b"one"[..]), (1_007, &b""[..])]);
}

#[test]
fn a_reader_skips_what_it_does_not_know() {
    let mut bytes = sample();
    bytes.extend_from_slice(b"what stands behind");
    bytes.splice(HEAD_BYTES..HEAD_BYTES, [1, 2, 3, 4]);
    bytes[2..4].copy_from_slice(&(HEAD_BYTES as u16 + 4).to_le_bytes());
    bytes[1] |= 0x80;
    let later = signed(bytes);
    let batch = decode(&later).unwrap();
    assert_eq!((batch.cover, batch.clicks().count()), (cover(1_000, 1_010), 2));
    let mut newer = later.clone();
    newer[0] = VERSION + 1;
    assert_eq!(decode(&newer).unwrap_err(), BatchError::NewerVersion(VERSION + 1));
}

#[test]
fn what_can_not_be_is_refused() {
    assert_eq!(decode(&[]).unwrap_err(), BatchError::Corrupt(0));
    let with = |at: usize, bytes: &[u8]| {
        let mut changed = sample();
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        decode(&signed(changed)).unwrap_err()
    };
    assert_eq!(with(32, &999u64.to_le_bytes()), BatchError::Corrupt(24), "it ends before it begins");
    assert_eq!(with(2, &u16::MAX.to_le_bytes()), BatchError::Corrupt(2));
    assert!(matches!(with(56, &3u32.to_le_bytes()), BatchError::Corrupt(_)), "a click more than there is");
    assert!(matches!(with(HEAD_BYTES + 4, &u32::MAX.to_le_bytes()), BatchError::Corrupt(_)));
}

#[test]
fn a_click_far_from_the_begin_stands_in_another_batch() {
    let mut writer = BatchWriter::new(5);
    assert!(writer.push(5 + u64::from(u32::MAX), b"x") && !writer.push(6 + u64::from(u32::MAX), b"y"));
    assert_eq!(writer.clicks(), 1);
}

/// Changing what an id belongs to would let two judge it: these may gain cases, never change.
#[test]
fn ids_stay_with_their_partition() {
    let ids = [0u128, 1, 0x0199_0000_0000_7000_8000_0000_0000_0000, u128::MAX];
    assert_eq!(ids.map(|id| partition_of(ClickId::from(id), 4)), [0, 2, 0, 0]);
    assert_eq!(ids.map(|id| partition_of(ClickId::from(id), 1)), [0; 4]);
}

#[test]
fn fresh_ids_and_hashes_spread_evenly() {
    for base in [0x0199_0000_0000_7000_8000_0000_0000_0000u128, 0] {
        let mut counts = [0u32; 7];
        for n in 0..70_000u128 {
            let id =
                if base == 0 { ClickId::from_edge("nginx", &n.to_le_bytes(), "a") } else { ClickId::from(base + n) };
            counts[partition_of(id, 7) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (9_000..11_000).contains(count)), "{counts:?}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_a_batch_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&bytes);
        if bytes.len() > HEAD_BYTES {
            let mut bytes = bytes;
            bytes[0] = VERSION;
            let _ = decode(&signed(bytes));
        }
    }

    #[test]
    fn a_changed_or_cut_batch_is_refused(at in 0usize..1_000, by in 1u8..=255, cut in any::<bool>()) {
        let mut bytes = sample();
        let at = at % bytes.len();
        if cut {
            bytes.truncate(at);
        } else {
            bytes[at] ^= by;
        }
        prop_assert!(decode(&bytes).is_err());
    }

    #[test]
    fn batches_come_back(
        from in 0u64..u64::MAX / 2,
        clicks in proptest::collection::vec((1u64..1_000, proptest::collection::vec(any::<u8>(), 0..60)), 0..40),
        mark in proptest::option::of(any::<i64>()),
        ended in any::<bool>(),
        lost in proptest::option::of(any::<i64>()),
    ) {
        let (mut at, mut writer, mut expected) = (from, BatchWriter::new(from), Vec::new());
        for (ahead, bytes) in &clicks {
            at += ahead;
            prop_assert!(writer.push(at, bytes));
            expected.push((at, bytes.as_slice()));
        }
        let journal = JournalId::new();
        let cover = Cover { journal, from, to: at + 1, mark: mark.map(UtcMicros), ended, lost: lost.map(UtcMicros) };
        let bytes = writer.finish(cover);
        let batch = decode(&bytes).unwrap();
        prop_assert_eq!(batch.cover, cover);
        prop_assert_eq!(batch.clicks().collect::<Vec<_>>(), expected);
    }
}
