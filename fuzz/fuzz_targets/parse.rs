//! Lines of every format: no bytes make a parser panic, and whatever comes of them is bounded by them.
//! The first byte chooses the format, unless `HIGHWATER_FUZZ_FORMAT` names one: so each can be given its own time.
#![no_main]

use std::sync::LazyLock;

use bytes::Bytes;
use highwater_fuzz::{check, settings};
use ingest::edge::block::Tail;
use ingest::edge::{Arena, Block, FileParser, Format};
use libfuzzer_sys::fuzz_target;

/// The one format to try, if one is named.
static ONLY: LazyLock<Option<Format>> =
    LazyLock::new(|| std::env::var("HIGHWATER_FUZZ_FORMAT").ok().map(|name| name.parse().expect("a format's name")));

fuzz_target!(|data: &[u8]| {
    let Some((choice, lines)) = data.split_first() else { return };
    let format = ONLY.unwrap_or_else(|| Format::ALL[usize::from(*choice) % Format::ALL.len()]);
    let tail = if lines.ends_with(b"\n") || lines.is_empty() { Tail::Whole } else { Tail::Unterminated };
    let block = Block::new(Bytes::copy_from_slice(lines), 1, tail, 64 << 10);
    let mut parser = FileParser::new(format, lines, settings());
    let job = parser.job(block);
    let arena = Arena::new();
    let mut number = 0;
    job.parse(&arena, |raw, line| {
        assert!(raw.number >= number, "lines come in order");
        number = raw.number;
        check(raw.bytes, &line);
    });
});
