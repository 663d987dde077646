//! Records that are no lines: what comes of them doesn't depend on how the bytes come in, and none gets lost.
#![no_main]

use highwater_fuzz::{Pieces, lines};
use ingest::edge::ReadLimits;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((piece, file)) = data.split_first() else { return };
    let limits = ReadLimits { line: 400, block: 2_000, ..ReadLimits::default() };
    // Packed files are another target's.
    let whole = lines(file, limits);
    let pieces = lines(Pieces { bytes: file, size: usize::from(*piece) + 1 }, limits);
    assert_eq!(whole.is_ok(), pieces.is_ok());
    let (Ok(whole), Ok(pieces)) = (whole, pieces) else { return };
    assert_eq!(whole, pieces);
    let bytes: usize = whole.iter().map(|(_, line)| line.len()).sum();
    assert!(file.starts_with(b"\x1f\x8b") || file.starts_with(b"\x28\xb5") || bytes <= file.len() * 2);
});
