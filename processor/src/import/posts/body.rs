//! The lines of a body, within bounds: whoever posts is not the operator.

use std::collections::HashSet;
use std::io::Cursor;
use std::sync::Arc;

use ingest::edge::{Arena, FileParser, LineReader, ReadError, ReadLimits};
use ingest::events::EventLines;
use ingest::ports::{EventPost, IntakeError};

use super::super::error::Failure;
use super::super::made_ids::MadeIds;
use super::super::options::ImportOptions;
use super::super::pipeline::Chunk;
use super::EventDesk;

/// Lines of a body, at most: the answer may have to name each.
pub const MOST_LINES: u64 = 100_000;
/// Unpacked bytes of a body, at most.
pub const MOST_UNPACKED: u64 = 32 << 20;
/// Hours in which the events of a body may lie, at most: each may become a file.
pub const MOST_HOURS: usize = 1_000;

impl EventDesk {
    /// The lines of a body, as one chunk.
    pub(super) async fn parse(&self, post: EventPost, import_id: &str) -> Result<Chunk, IntakeError> {
        let EventPost { workspace, naming, body } = post;
        let limits = ReadLimits { unpacked: MOST_UNPACKED, ..ReadLimits::default() };
        let mut lines = LineReader::new(Cursor::new(body), limits).map_err(Failure::Read)?;
        let mut parser = FileParser::of(Arc::new(EventLines::of(naming.provider())));
        let mut made_ids = MadeIds::new(Arc::clone(naming.by_line()));
        let reading = self.shared.reading_of_events(naming.clone());
        let options = ImportOptions { events: Some(naming), workspace: Some(workspace), ..ImportOptions::default() };
        let rules = self.shared.rules(reading, import_id);
        let mut worker = self.shared.worker(&rules, &options);
        let (mut chunk, mut arena) = (Chunk::default(), Arena::new());
        while let Some(block) = lines.next_block().map_err(Failure::Read)? {
            if chunk.tally.lines + block.line_count() > MOST_LINES {
                return Err(IntakeError::TooMuch(format!("the body has more than {MOST_LINES} lines")));
            }
            let parsed = worker.work(&parser.job(block), &arena).await?;
            chunk.push(made_ids.give(parsed)?);
            arena.reset();
        }
        let ending = lines.finish().map_err(|e| Failure::Read(ReadError::Io(e)))?;
        if let Some(truncated) = ending.truncated {
            return Err(IntakeError::Unreadable(truncated));
        }
        let hours: HashSet<i64> = chunk.arrivals.iter().map(|arrival| arrival.time.hour()).collect();
        if hours.len() > MOST_HOURS {
            return Err(IntakeError::TooMuch(format!("the events lie in more than {MOST_HOURS} hours")));
        }
        Ok(chunk)
    }
}
