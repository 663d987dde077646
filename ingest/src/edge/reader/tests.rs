use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use sha2::{Digest, Sha256};

use super::super::request::Reject;
use super::*;

/// Hands out its bytes in pieces of the given sizes, over and over.
struct Pieces<'a> {
    bytes: &'a [u8],
    sizes: Vec<usize>,
    next: usize,
}

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let size = self.sizes[self.next % self.sizes.len()].min(buffer.len()).min(self.bytes.len());
        self.next += 1;
        buffer[..size].copy_from_slice(&self.bytes[..size]);
        self.bytes = &self.bytes[size..];
        Ok(size)
    }
}

type SeenLine = (u64, Vec<u8>, Option<Reject>);
type Seen = Vec<SeenLine>;

fn read(reader: impl Read, limits: ReadLimits) -> (Seen, Vec<u64>, Ending) {
    let mut reader = LineReader::new(reader, limits).unwrap();
    let (mut seen, mut blocks) = (Vec::new(), Vec::new());
    while let Some(block) = reader.next_block().unwrap() {
        blocks.push(block.first_line);
        seen.extend(block.lines().map(|line| (line.number, line.bytes.to_vec(), line.fault)));
    }
    (seen, blocks, reader.finish().unwrap())
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap()
}

fn numbered(lines: &[&str]) -> Seen {
    lines.iter().zip(1..).map(|(line, number)| (number, line.as_bytes().to_vec(), None)).collect()
}

#[test]
fn lines_come_without_ends_and_marks() {
    for (file, lines) in [
        ("", &[][..]),
        ("\u{feff}", &[]),
        ("a", &["a"]),
        ("a\n", &["a"]),
        ("\u{feff}a\r\nb\r\n\r\nc\rd", &["a", "b", "", "c\rd"]),
        ("\0\0\n\n", &["\0\0", ""]),
    ] {
        let (seen, _, ending) = read(file.as_bytes(), ReadLimits::default());
        assert_eq!(seen, numbered(lines), "{file:?}");
        assert_eq!((ending.lines, ending.bytes), (lines.len() as u64, file.len() as u64));
    }
}

#[test]
fn packing_is_told_by_bytes_and_members_are_joined() {
    let (a, b) = (&b"one\ntw"[..], &b"o\nthree\n"[..]);
    for (file, packing) in [
        ([a, b].concat(), Packing::Plain),
        ([gzip(a), gzip(b)].concat(), Packing::Gzip),
        ([gzip(a), gzip(b""), gzip(b)].concat(), Packing::Gzip),
        ([zstd(a), zstd(b)].concat(), Packing::Zstd),
    ] {
        let (seen, _, ending) = read(&*file, ReadLimits::default());
        assert_eq!(seen, numbered(&["one", "two", "three"]), "{packing:?}");
        assert_eq!((ending.packing, ending.truncated), (packing, None));
        assert_eq!(ending.raw_bytes, file.len() as u64);
    }
}

/// A log that gzip can't make much smaller, so that a cut falls between lines.
fn long_log() -> Vec<u8> {
    let line = |number: u32| format!("{number} {:x?}\n", Sha256::digest(number.to_le_bytes()));
    (0..2_000).flat_map(|number| line(number).into_bytes()).collect()
}

#[test]
fn packed_data_that_ends_early_keeps_what_came_before() {
    let log = long_log();
    let whole: Seen = read(&*log, ReadLimits::default()).0;
    for packed in [gzip(&log), zstd(&log)] {
        for cut in [packed.len() - 1, packed.len() - 9, packed.len() / 2, 30] {
            let cut = &packed[..cut];
            let (mut seen, _, ending) = read(cut, ReadLimits::default());
            assert_eq!(ending.truncated.as_deref(), Some("the packed data ends in the middle"));
            assert_eq!(ending.raw_bytes, cut.len() as u64);
            if seen.last().is_some_and(|last| last.2.is_some()) {
                // Inside a line: it would be another line than the one that was written.
                assert_eq!(seen.pop().unwrap().2, Some(Reject::CUT_SHORT));
            }
            assert_eq!(seen, whole[..seen.len()]);
            // Zstandard comes in frames of blocks; gzip as it goes.
            if packed.starts_with(b"\x1f\x8b") && cut.len() > packed.len() / 3 {
                assert!(seen.len() > 900, "{} lines", seen.len());
            }
        }
    }
}

/// What comes of a file: its lines as far as they are whole, and the note, or why it is refused.
fn lines_of(file: &[u8]) -> Result<(Vec<Vec<u8>>, Option<String>), ReadError> {
    // small blocks: this is called often
    let mut reader = LineReader::new(file, ReadLimits { line: 400, block: 8_000, ..ReadLimits::default() })?;
    let mut lines = Vec::new();
    while let Some(block) = reader.next_block()? {
        lines.extend(block.lines().filter(|line| line.fault.is_none()).map(|line| line.bytes.to_vec()));
    }
    Ok((lines, reader.finish()?.truncated))
}

fn skim(file: &[u8]) -> Result<u64, ReadError> {
    LineReader::new(file, ReadLimits::default())?.skim()
}

#[test]
fn packed_data_that_is_damaged_is_refused_and_named() {
    let log = long_log();
    let (first, second) = log.split_at(log.len() / 2);
    let whole = [gzip(first), gzip(second)].concat();
    let begins = gzip(first).len();
    let end = whole.len();
    for (at, why) in [
        (begins + 2, "header"),
        (begins + 3_000, ""),
        (end - 6, "its checksum doesn't match"),
        (end - 1, "its size doesn't match"),
    ] {
        let mut damaged = whole.clone();
        damaged[at] ^= 0xe0;
        for error in [skim(&damaged).unwrap_err(), lines_of(&damaged).unwrap_err()] {
            let text = error.to_string();
            let ReadError::Corrupt { packing: Packing::Gzip, member: 2, at: noticed, .. } = error else {
                panic!("{text}")
            };
            assert!(text.contains(why) && text.starts_with("the gzip data is corrupt, noticed at byte"), "{text}");
            assert!((begins..=end).contains(&(noticed as usize)) && noticed + 1 >= at as u64, "{at} {text}");
        }
    }
    assert_eq!(skim(&whole).unwrap(), end as u64);
}

/// One flipped bit, at every place in turn: never a line that wasn't written.
#[test]
fn a_flipped_bit_invents_no_line() {
    let log: Vec<u8> = long_log().into_iter().take(3_000).collect();
    let lines: Vec<Vec<u8>> = lines_of(&log).unwrap().0;
    let repetitive = "GET /k 302\nGET /other 302\n".repeat(300).into_bytes();
    let others: Vec<Vec<u8>> = lines_of(&repetitive).unwrap().0;
    let mut checked = zstd::Encoder::new(Vec::new(), 1).unwrap();
    checked.include_checksum(true).unwrap();
    checked.write_all(&log).unwrap();
    let members = [gzip(&log[..1_000]), gzip(&log[1_000..])].concat();
    for (packed, lines) in
        [(gzip(&log), &lines), (members, &lines), (gzip(&repetitive), &others), (checked.finish().unwrap(), &lines)]
    {
        assert_eq!(&lines_of(&packed).unwrap(), &(lines.clone(), None));
        let (mut refused, mut kept) = (0, 0);
        // without the magic bytes it is no packed file at all, and no log either
        for bit in 4 * 8..packed.len() * 8 {
            let mut damaged = packed.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            match lines_of(&damaged) {
                Ok((seen, note)) => {
                    kept += 1;
                    assert!(lines.starts_with(&seen), "bit {bit} of {} invents lines: {note:?}", packed.len());
                    assert!(seen.len() == lines.len() || note.is_some(), "bit {bit} loses lines without a word");
                }
                Err(ReadError::Corrupt { .. }) => refused += 1,
                Err(other) => panic!("bit {bit}: {other}"),
            }
        }
        assert!(refused > 50 * kept || kept < 150, "{refused} refused, {kept} kept");
    }
}

#[test]
fn padding_is_fine_and_what_is_none_is_left_out() {
    let (a, b) = (gzip(b"a\nb\n"), zstd(b"a\nb\n"));
    let lines = vec![b"a".to_vec(), b"b".to_vec()];
    for packed in [a, b] {
        let padded = [&packed[..], &[0; 700]].concat();
        assert_eq!(lines_of(&padded).unwrap(), (lines.clone(), None));
        let twice = [&padded[..], &packed].concat();
        assert_eq!(lines_of(&twice).unwrap().0.len(), 4, "a member behind padding");
        for rest in [&b"garbage"[..], b"x", b"\0\0\0garbage"] {
            let (seen, note) = lines_of(&[&packed[..], rest].concat()).unwrap();
            assert_eq!(seen, lines);
            assert!(note.unwrap().contains(&format!("from byte {} on", packed.len())));
        }
    }
}

#[test]
fn a_reader_that_fails_is_no_broken_data() {
    struct Failing;
    impl Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::new(io::ErrorKind::UnexpectedEof, "cable out"))
        }
    }
    let packed = gzip(&long_log());
    let mut reader = LineReader::new(packed[..9_000].chain(Failing), ReadLimits::default()).unwrap();
    let error = reader.next_block().unwrap_err();
    assert_eq!(error.to_string(), "can't be read: cable out");
}

#[test]
fn limits_on_what_comes_out_are_errors() {
    let bomb = zstd(&vec![b'x'; 70 << 20]);
    let next = |limits| {
        let mut reader = LineReader::new(&*bomb, limits).unwrap();
        loop {
            match reader.next_block() {
                Ok(Some(_)) => {}
                Ok(None) => return None,
                Err(error) => return Some(error.to_string()),
            }
        }
    };
    let limits = ReadLimits::default();
    assert_eq!(next(limits).as_deref(), Some("unpacks to more than 500 times its size, the limit: no log does"));
    let limits = ReadLimits { unpacked: 1_000_000, ..limits };
    assert_eq!(next(limits).as_deref(), Some("unpacks to more than 1000000 bytes, the limit"));
    assert_eq!(next(ReadLimits { ratio: 1_000_000, ..ReadLimits::default() }), None);
}

#[test]
fn records_that_are_no_lines_are_numbered_and_bounded_as_lines_are() {
    let record = |number: usize| format!("{{\"n\":{number},\"x\":\"}}{{\"}}");
    let long = format!("{{\"long\":\"{}\"}}", "x".repeat(200));
    let records: Vec<String> =
        (0..400).map(|number| if number == 70 { long.clone() } else { record(number) }).collect();
    let expected: Vec<(u64, Option<Vec<u8>>)> =
        (1..).zip(&records).map(|(number, line)| (number, (*line != long).then(|| line.as_bytes().to_vec()))).collect();
    let limits = ReadLimits { line: 100, block: 500, ..ReadLimits::default() };
    for file in [
        records.concat(),
        format!("\u{feff}[{}]", records.join(" ,\r\n")),
        format!("{{\"records\":[{}],\"count\":400}}\n", records.join(",")),
        records.join("\n"),
    ] {
        for packed in [file.clone().into_bytes(), gzip(file.as_bytes()), zstd(file.as_bytes())] {
            let (seen, blocks, ending) = read(&*packed, limits);
            let short = |(number, line, fault): SeenLine| (number, fault.is_none().then_some(line));
            assert_eq!(seen.into_iter().map(short).collect::<Vec<_>>(), expected);
            assert_eq!((ending.lines, ending.bytes), (400, file.len() as u64));
            let sizes = vec![1, 7, 100];
            assert_eq!(read(Pieces { bytes: &packed, sizes, next: 0 }, limits).1, blocks, "blocks are the same");
        }
    }
}

#[test]
fn a_record_that_packed_data_ends_in_is_cut_short() {
    let file: String =
        (0..3_000).map(|number| format!("{{\"n\":\"{:x?}\"}}", Sha256::digest([number as u8]))).collect();
    let packed = gzip(file.as_bytes());
    let (seen, _, ending) = read(&packed[..packed.len() / 2], ReadLimits::default());
    assert!(ending.truncated.is_some() && seen.len() > 10);
    let (last, whole) = seen.split_last().unwrap();
    assert!(last.2 == Some(Reject::CUT_SHORT) || last.1.ends_with(b"}"), "{last:?}");
    assert!(whole.iter().all(|(_, line, fault)| fault.is_none() && line.ends_with(b"\"}")));
}

#[test]
fn other_packings_are_named() {
    for (magic, name) in [(&b"PK\x03\x04.."[..], "zip"), (b"BZh91AY", "bzip2"), (b"\xfd7zXZ\0\0", "xz")] {
        let error = LineReader::new(magic, ReadLimits::default()).unwrap_err().to_string();
        assert_eq!(error, format!("it is packed with {name}; only gzip and zstd are unpacked"));
    }
}

#[test]
fn a_long_line_is_skipped_without_being_held() {
    let limits = ReadLimits { line: 100, block: 400, ..ReadLimits::default() };
    let file = format!("before\n{}\nafter\n", "x".repeat(1_000_000));
    let mut reader = LineReader::new(file.as_bytes(), limits).unwrap();
    let mut seen = Vec::new();
    while let Some(block) = reader.next_block().unwrap() {
        assert!(block.bytes.len() <= 400 && reader.carry.len() <= 101);
        seen.extend(block.lines().map(|line| (line.number, line.bytes.len(), line.fault)));
    }
    assert_eq!(seen, [(1, 6, None), (2, 393, Some(Reject::TOO_LONG)), (3, 5, None)]);
}

/// What a file's lines are, told the simple way.
fn model(bytes: &[u8], limit: usize) -> Vec<(u64, Option<Vec<u8>>)> {
    let bytes = bytes.strip_prefix(BOM).unwrap_or(bytes);
    let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    if lines.last().is_some_and(|last| last.is_empty()) {
        lines.pop();
    }
    let strip = |line: &[u8]| line.strip_suffix(b"\r").unwrap_or(line).to_vec();
    let lines = lines.into_iter().map(strip).map(|line| (line.len() <= limit).then_some(line));
    (1..).zip(lines).collect()
}

proptest! {
    #[test]
    fn lines_are_those_of_the_model_however_they_are_read(
        bytes in prop::collection::vec(prop::sample::select(b"ab\n\n\r\xef\xbb\xbf\0".to_vec()), 0..400),
        runs in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..60), 0..4),
        sizes in prop::collection::vec(1_usize..50, 1..5),
        limit in 1_usize..20,
        packing in 0..3,
    ) {
        let mut bytes = bytes;
        for (at, length) in runs {
            let at = at.index(bytes.len() + 1);
            bytes.splice(at..at, std::iter::repeat_n(b'x', length));
        }
        let limits = ReadLimits { line: limit, block: limit * 4, ..ReadLimits::default() };
        let file = match packing {
            0 if bytes.len() < 4 || !bytes.starts_with(b"BZh") => bytes.clone(),
            1 => zstd(&bytes),
            _ => gzip(&bytes),
        };
        let (seen, blocks, ending) = read(Pieces { bytes: &file, sizes, next: 0 }, limits);
        let short = |(number, line, fault): &(u64, Vec<u8>, Option<Reject>)| (*number, fault.is_none().then(|| line.clone()));
        prop_assert_eq!(seen.iter().map(short).collect::<Vec<_>>(), model(&bytes, limit));
        prop_assert_eq!(ending.lines, seen.len() as u64);
        // Blocks are the same however the file is packed and read.
        prop_assert_eq!(blocks, read(&*bytes, limits).1);
    }
}
