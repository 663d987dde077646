//! One frame of a segment: pure bytes, no I/O.
//!
//! ```text
//! checksum u32 │ length u32 │ kind u8 │ time i64 │ payload
//! ```
//! Numbers are little-endian. `length` counts the payload. The checksum (CRC-32) covers everything after itself
//! and, unwritten, the journal's identity and the frame's position: bytes of another journal or of another place,
//! as a power cut may leave them in a file's tail, are no frame.
//!
//! A click's payload is its event in wire format. A mark's payload is
//! `position u64 │ synced u64 │ flags u8`: its own position, so that a mark is also found behind damaged bytes;
//! the position up to which the journal was synced when the mark was made; 1 in `flags` for a journal's last frame.

use crc32fast::Hasher;
use schemas::{JournalId, UtcMicros};

/// Bytes before the payload.
pub(crate) const HEAD: usize = 17;
/// The longest payload; a click's event is a few kilobytes at most.
pub(crate) const MAX_PAYLOAD: usize = 1 << 20;
/// Bytes of a mark's payload.
const MARK_PAYLOAD: usize = 17;
/// Bytes of a mark's frame.
pub(crate) const MARK_BYTES: usize = HEAD + MARK_PAYLOAD;
/// What a mark's `length` and `kind` look like.
pub(crate) const MARK_PATTERN: [u8; 5] = [MARK_PAYLOAD as u8, 0, 0, 0, KIND_MARK];

const KIND_CLICK: u8 = 1;
const KIND_MARK: u8 = 2;
const FLAG_LAST: u8 = 1;

/// What a journal's checksums begin with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seed(u32);

impl Seed {
    /// The seed of one journal.
    pub(crate) fn of(id: JournalId) -> Self {
        Self(crc32fast::hash(id.0.as_bytes()))
    }

    fn checksum(self, position: u64, covered: &[u8]) -> u32 {
        let mut hasher = Hasher::new_with_initial(self.0);
        hasher.update(&position.to_le_bytes());
        hasher.update(covered);
        hasher.finalize()
    }
}

/// What a mark says beyond its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Frames below this position were synced when the mark was made.
    pub(crate) synced: u64,
    /// Whether the journal was sealed with this frame.
    pub(crate) last: bool,
}

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content<'a> {
    /// A click event in wire format.
    Click(&'a [u8]),
    /// A mark.
    Mark(Mark),
    /// A kind that a later release has brought; kept, but not to be read past.
    Newer(u8),
}

/// A frame whose checksum holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    /// Its place among all frames of the journal.
    pub(crate) position: u64,
    /// Taken inside the append.
    pub(crate) time: UtcMicros,
    /// What it holds.
    pub(crate) content: Content<'a>,
    /// Bytes it takes in the segment.
    pub(crate) bytes: usize,
}

/// What stands at the beginning of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parsed<'a> {
    /// A frame.
    Frame(Frame<'a>),
    /// The beginning of one; it takes this many bytes as far as is known.
    Short(usize),
    /// No frame of this journal and position.
    Bad,
}

/// Begins a frame in `buffer`, whose payload is then appended to it.
pub(crate) fn begin(buffer: &mut Vec<u8>) {
    buffer.clear();
    buffer.extend_from_slice(&[0; HEAD]);
}

/// Completes the click's frame that [`begin`] began and whose payload stands in `buffer`.
pub(crate) fn finish_click(buffer: &mut [u8], seed: Seed, position: u64, time: UtcMicros) {
    finish(buffer, seed, position, KIND_CLICK, time);
}

/// Makes a mark's whole frame in `buffer`.
pub(crate) fn encode_mark(buffer: &mut Vec<u8>, seed: Seed, position: u64, time: UtcMicros, mark: Mark) {
    begin(buffer);
    buffer.extend_from_slice(&position.to_le_bytes());
    buffer.extend_from_slice(&mark.synced.to_le_bytes());
    buffer.push(if mark.last { FLAG_LAST } else { 0 });
    finish(buffer, seed, position, KIND_MARK, time);
}

fn finish(buffer: &mut [u8], seed: Seed, position: u64, kind: u8, time: UtcMicros) {
    let length = (buffer.len() - HEAD) as u32;
    buffer[4..8].copy_from_slice(&length.to_le_bytes());
    buffer[8] = kind;
    buffer[9..17].copy_from_slice(&time.0.to_le_bytes());
    let checksum = seed.checksum(position, &buffer[4..]);
    buffer[..4].copy_from_slice(&checksum.to_le_bytes());
}

/// Reads the frame of `position` at the beginning of `bytes`.
pub(crate) fn parse(bytes: &[u8], seed: Seed, position: u64) -> Parsed<'_> {
    let Some(head) = bytes.first_chunk::<HEAD>() else { return Parsed::Short(HEAD) };
    let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
    if length > MAX_PAYLOAD {
        return Parsed::Bad;
    }
    let Some(whole) = bytes.get(..HEAD + length) else { return Parsed::Short(HEAD + length) };
    if seed.checksum(position, &whole[4..]) != u32::from_le_bytes([head[0], head[1], head[2], head[3]]) {
        return Parsed::Bad;
    }
    let payload = &whole[HEAD..];
    let content = match head[8] {
        KIND_CLICK => Content::Click(payload),
        KIND_MARK => match mark_of(payload) {
            Some((own, mark)) if own == position => Content::Mark(mark),
            _ => return Parsed::Bad,
        },
        kind => Content::Newer(kind),
    };
    Parsed::Frame(Frame { position, time: UtcMicros(number(&head[9..]) as i64), content, bytes: HEAD + length })
}

/// Reads a mark, and its time, at the beginning of `bytes`; its position isn't known.
pub(crate) fn parse_mark_anywhere(bytes: &[u8], seed: Seed) -> Option<(Mark, UtcMicros)> {
    let (own, _) = mark_of(bytes.get(HEAD..MARK_BYTES)?)?;
    match parse(bytes, seed, own) {
        Parsed::Frame(Frame { content: Content::Mark(mark), time, .. }) => Some((mark, time)),
        _ => None,
    }
}

/// A mark's payload: its own position, and what it says. A later release may append to it.
fn mark_of(payload: &[u8]) -> Option<(u64, Mark)> {
    let payload = payload.get(..MARK_PAYLOAD)?;
    Some((number(payload), Mark { synced: number(&payload[8..]), last: payload[16] & FLAG_LAST != 0 }))
}

/// The little-endian number in the first eight of `bytes`, which the caller has checked to be there.
fn number(bytes: &[u8]) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(&bytes[..8]);
    u64::from_le_bytes(eight)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use uuid::Uuid;

    fn seed() -> Seed {
        Seed::of(JournalId(Uuid::from_bytes([7; 16])))
    }

    fn click(position: u64, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        begin(&mut bytes);
        bytes.extend_from_slice(payload);
        finish_click(&mut bytes, seed(), position, UtcMicros(1_773_480_413_123_456));
        bytes
    }

    fn mark(position: u64, synced: u64, last: bool) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mark = Mark { synced, last };
        encode_mark(&mut bytes, seed(), position, UtcMicros(1_773_480_413_123_456), mark);
        bytes
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The bytes of release 1. They are in journals: this test may gain cases, never change one.
    #[test]
    fn golden_bytes_are_written_and_read() {
        let bytes = click(258, b"click");
        assert_eq!(hex(&bytes), "8066e54b050000000180530a96f84c0600636c69636b");
        let Parsed::Frame(frame) = parse(&bytes, seed(), 258) else { panic!("no frame") };
        assert_eq!((frame.content, frame.bytes), (Content::Click(b"click"), bytes.len()));
        assert_eq!(frame.time, UtcMicros(1_773_480_413_123_456));

        let bytes = mark(259, 257, true);
        assert_eq!(hex(&bytes), "3b2f3d12110000000280530a96f84c06000301000000000000010100000000000001");
        let Parsed::Frame(frame) = parse(&bytes, seed(), 259) else { panic!("no frame") };
        assert_eq!(frame.content, Content::Mark(Mark { synced: 257, last: true }));
        assert_eq!(bytes[4..9], MARK_PATTERN);
        assert_eq!(bytes.len(), MARK_BYTES);
    }

    #[test]
    fn bytes_of_another_place_or_journal_are_no_frame() {
        let bytes = click(5, b"x");
        assert_eq!(parse(&bytes, seed(), 6), Parsed::Bad);
        assert_eq!(parse(&bytes, Seed::of(JournalId(Uuid::nil())), 5), Parsed::Bad);
        assert_eq!(parse(&[0; 64], seed(), 0), Parsed::Bad);
    }

    #[test]
    fn a_frame_of_a_later_release_is_a_frame() {
        let mut bytes = click(5, b"x");
        finish(&mut bytes, seed(), 5, 9, UtcMicros(1));
        assert!(matches!(parse(&bytes, seed(), 5), Parsed::Frame(Frame { content: Content::Newer(9), .. })));
    }

    proptest! {
        #[test]
        fn a_flipped_bit_is_seen(payload in proptest::collection::vec(any::<u8>(), 0..50), bit in any::<prop::sample::Index>()) {
            let mut bytes = click(9, &payload);
            let bit = bit.index(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(!matches!(parse(&bytes, seed(), 9), Parsed::Frame(_)));
        }

        #[test]
        fn a_cut_frame_is_short(payload in proptest::collection::vec(any::<u8>(), 0..50), cut in any::<prop::sample::Index>()) {
            let bytes = click(9, &payload);
            let cut = cut.index(bytes.len());
            let needed = if cut < HEAD { HEAD } else { bytes.len() };
            prop_assert_eq!(parse(&bytes[..cut], seed(), 9), Parsed::Short(needed));
        }

        #[test]
        fn any_bytes_are_no_frame(bytes in proptest::collection::vec(any::<u8>(), 0..200), position in any::<u64>()) {
            prop_assert!(!matches!(parse(&bytes, seed(), position), Parsed::Frame(_)));
            prop_assert!(parse_mark_anywhere(&bytes, seed()).is_none());
        }

        #[test]
        fn a_mark_is_found_without_its_position(position in any::<u64>(), synced in any::<u64>()) {
            let bytes = mark(position, synced, false);
            let time = UtcMicros(1_773_480_413_123_456);
            prop_assert_eq!(parse_mark_anywhere(&bytes, seed()), Some((Mark { synced, last: false }, time)));
        }
    }
}
