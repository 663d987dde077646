//! How fast an edge log is read and parsed, on one core: `cargo run --release -p ingest --example parse_speed FILE…`
//!
//! Reading (unpacking, cutting into lines, hashing) and parsing are timed apart, as they run on threads of their own.
//! Prints, for each file, lines and megabytes a second of both, and how many lines came to what.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::hint::black_box;
use std::time::{Duration, Instant};

use ingest::edge::{Arena, Contents, FileParser, LineReader, ReadLimits, Settings, sniff};
use ingest::edge::{EdgeClass, Line};

fn main() -> Result<(), Box<dyn Error>> {
    for path in std::env::args().skip(1) {
        measure(&path).map_err(|error| format!("{path}: {error}"))?;
    }
    Ok(())
}

fn measure(path: &str) -> Result<(), Box<dyn Error>> {
    let mut reader = LineReader::new(Contents::of(File::open(path)?)?, ReadLimits::default())?;
    let head = reader.head()?.to_vec();
    let Some(sniffed) = sniff(&head, &Settings::default())? else {
        println!("{path}: empty");
        return Ok(());
    };
    println!("{path}: {}: {}", sniffed.format, sniffed.why);
    let mut parser = FileParser::new(sniffed.format, &head, Settings::default());
    let mut counts = BTreeMap::<&str, u64>::new();
    let (mut reading, mut parsing) = (Duration::ZERO, Duration::ZERO);
    let mut arena = Arena::new();
    loop {
        let started = Instant::now();
        let block = reader.next_block()?;
        reading += started.elapsed();
        let Some(block) = block else { break };
        let started = Instant::now();
        let job = parser.job(block);
        arena.reset();
        job.parse(&arena, |_, line| {
            *counts.entry(word(black_box(&line))).or_default() += 1;
        });
        parsing += started.elapsed();
    }
    let ending = reader.finish()?;
    for (name, took) in [("read", reading), ("parsed", parsing)] {
        let seconds = took.as_secs_f64().max(1e-9);
        let (lines, megabytes) = (ending.lines as f64 / seconds, ending.bytes as f64 / 1e6 / seconds);
        println!("  {name:>7}: {lines:>12.0} lines/s {megabytes:>8.0} MB/s {seconds:>8.3} s");
    }
    println!("  {counts:?}{}", ending.truncated.map_or_else(String::new, |why| format!(", {why}")));
    Ok(())
}

fn word(line: &Line<'_>) -> &'static str {
    match line {
        Line::Header => "header",
        Line::Ignored(why) => why.as_str(),
        Line::ParentHit { .. } => "parent_hit",
        Line::Reject(reject) => reject.reason,
        Line::Request(request) if request.class == EdgeClass::Edge => "edge",
        Line::Request(_) => "origin",
    }
}
