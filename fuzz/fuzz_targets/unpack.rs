//! Packed bytes: damaged or cut, they end in an error or a note, and what was read is bounded.
#![no_main]

use highwater_fuzz::{Pieces, lines};
use ingest::edge::{LineReader, ReadLimits};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((piece, file)) = data.split_first() else { return };
    let limits = ReadLimits { line: 4_000, block: 64_000, unpacked: 4 << 20, ratio: 100 };
    let whole = lines(file, limits);
    let pieces = lines(Pieces { bytes: file, size: usize::from(*piece) + 1 }, limits);
    match (&whole, &pieces) {
        (Ok(whole), Ok(pieces)) => assert_eq!(whole, pieces),
        (Err(_), Err(_)) => {}
        _ => panic!("it depends on how the bytes come in: {whole:?}, {pieces:?}"),
    }
    let skimmed = LineReader::new(file, limits).and_then(LineReader::skim);
    assert_eq!(skimmed.is_ok(), whole.is_ok(), "a file is sound or it isn't");
});
