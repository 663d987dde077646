//! A file's parser. Blocks go through it in order, which costs next to nothing; the jobs that come out may be
//! parsed on any thread, each with an arena of its own.

use std::sync::Arc;

use super::arena::Arena;
use super::block::{Block, RawLine};
use super::format::{Format, Layout, Sample, Settings};
use super::judge::judge;
use super::request::Line;

/// The parser of one file.
#[derive(Clone, Debug)]
pub struct FileParser {
    format: Format,
    settings: Arc<Settings>,
    layout: Arc<dyn Layout>,
    has_id: bool,
}

/// A block, with all that is needed to parse it.
#[derive(Clone, Debug)]
pub struct Job {
    block: Block,
    settings: Arc<Settings>,
    /// The layout from each position on; the first is 0.
    layouts: Vec<(usize, Arc<dyn Layout>)>,
}

impl FileParser {
    /// For a file of `format` that begins with `head`.
    pub fn new(format: Format, head: &[u8], settings: Settings) -> Self {
        let sample = Sample::of(head);
        let layout = format.layout(&sample, &settings);
        // Formats with headers don't know before the first one.
        let mut headers = sample.lines.iter().filter_map(|line| layout.after_header(line));
        let has_id = layout.has_id() || headers.any(|layout| layout.has_id());
        Self { format, settings: Arc::new(settings), has_id, layout }
    }

    /// The format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Whether the file's lines have a place for a request id. Where they don't, the file can only be taken with
    /// ids not trusted.
    pub fn layout_has_id(&self) -> bool {
        self.has_id
    }

    /// Takes the file's next block. Header lines in it hold for what comes after them.
    pub fn job(&mut self, block: Block) -> Job {
        let mut layouts = vec![(0, Arc::clone(&self.layout))];
        if let Some(mark) = self.layout.header_mark() {
            for start in header_starts(&block.bytes, mark) {
                let end = memchr::memchr(b'\n', &block.bytes[start..]).map_or(block.bytes.len(), |end| start + end);
                let line = &block.bytes[start..end];
                if let Some(layout) = self.layout.after_header(line.strip_suffix(b"\r").unwrap_or(line)) {
                    self.layout = Arc::clone(&layout);
                    layouts.push((end, layout));
                }
            }
        }
        Job { block, settings: Arc::clone(&self.settings), layouts }
    }
}

/// Where lines begin that begin with `mark`.
fn header_starts(bytes: &[u8], mark: u8) -> impl Iterator<Item = usize> {
    let first = (bytes.first() == Some(&mark)).then_some(0);
    let needle = [b'\n', mark];
    let others: Vec<usize> = memchr::memmem::find_iter(bytes, &needle).map(|end| end + 1).collect();
    first.into_iter().chain(others)
}

impl Job {
    /// The lines.
    pub fn block(&self) -> &Block {
        &self.block
    }

    /// Parses every line, in order. What is handed to `sink` lives as long as job and arena. A line that holds
    /// several records comes several times.
    pub fn parse<'a>(&'a self, arena: &'a Arena, mut sink: impl FnMut(RawLine<'a>, Line<'a>)) {
        let mut later = self.layouts[1..].iter().peekable();
        let mut layout = &self.layouts[0].1;
        for raw in self.block.lines() {
            while let Some((_, next)) = later.next_if(|(from, _)| *from <= raw.start) {
                layout = next;
            }
            if let Some(reject) = raw.fault {
                sink(raw, Line::Reject(reject));
            } else if raw.bytes.trim_ascii_start().is_empty()
                || (!raw.bytes.is_empty() && layout.header_mark() == Some(raw.bytes[0]))
            {
                sink(raw, Line::Header);
            } else {
                layout.parse(raw.bytes, arena, &mut |found| sink(raw, judge(found, &self.settings)));
            }
        }
    }
}
