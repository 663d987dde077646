//! Bytes to chunks, in parallel and in order.
//!
//! ```text
//! reader thread: unpack, cut blocks ──jobs──► parser threads ──works──► in order again ──► chunks ──► landing
//!        ▲                                                                  │
//!        └────────────── one token a block, so that few are under way ◄─────┘
//! ```
//! A chunk is a number of whole blocks. Where blocks and chunks end follows from the file's unpacked bytes alone, so an
//! import that is taken up again cuts the same chunks. Every thread ends when the other end of its channel is gone.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::RecordBatch;
use ingest::edge::{Arena, Contents, Ending, FileParser, Job, LineReader};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};

use super::error::Failure;
use super::identity::Reader;
use super::made_ids::MadeIds;
use super::tally::{RejectedLine, Tally};
use super::worker::{Parsed, Unasked, Worker};
use crate::settle::Arrival;
use crate::settle::desk::Draft;

/// Whatever the number of its lines, a chunk ends with the block in which it reaches so many bytes.
const CHUNK_BYTES: u64 = 40 << 20;

/// Lines that come into the lake at once.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    /// From 0; of several that land as one, the first one's.
    pub(super) first: i64,
    /// The last one's.
    pub(super) number: i64,
    /// Columns of `clicks`.
    pub(super) rows: Vec<RecordBatch>,
    /// What the union needs to know of each row.
    pub(super) arrivals: Vec<Arrival>,
    /// Lines that aren't counted, and yet may have an event.
    pub(super) unasked: Vec<Unasked>,
    pub(super) tally: Tally,
    pub(super) rejects: Vec<RejectedLine>,
    /// Of events, lines that are no clicks, by number.
    pub(super) ignored: Vec<(u64, &'static str)>,
    /// Raw bytes read so far, for progress.
    pub(super) raw_bytes: u64,
    /// Set in the last chunk.
    pub(super) ending: Option<Ending>,
    /// The data files that its rows are in already; these then have few columns left.
    pub(super) draft: Option<Draft>,
}

/// A block on its way through.
struct Step<T> {
    number: u64,
    raw_bytes: u64,
    ends_chunk: bool,
    ending: Option<Ending>,
    body: T,
}

/// Workers that have parsed the last lines of a file: those of the next begin with what these know.
pub(super) type Retired = Arc<Mutex<Vec<Worker>>>;

type Done = Result<Step<Parsed>, Failure>;

/// Cuts blocks into chunks.
#[derive(Debug)]
struct Cutter {
    most_lines: u64,
    lines: u64,
    bytes: u64,
}

impl Cutter {
    fn new(most_lines: u64) -> Self {
        Self { most_lines, lines: 0, bytes: 0 }
    }

    /// Takes a block; says whether the chunk ends with it.
    fn ends_with(&mut self, lines: u64, bytes: u64) -> bool {
        self.lines += lines;
        self.bytes += bytes;
        let ends = self.lines >= self.most_lines || self.bytes >= CHUNK_BYTES;
        if ends {
            (self.lines, self.bytes) = (0, 0);
        }
        ends
    }
}

impl Chunk {
    /// Takes the next block in.
    pub(super) fn push(&mut self, parsed: Parsed) {
        let Parsed { rows, arrivals, unasked, prints, tally, rejects, ignored } = parsed;
        debug_assert!(prints.is_empty());
        self.tally.merge(&tally);
        self.rejects.extend(rejects);
        self.ignored.extend(ignored);
        self.arrivals.extend(arrivals);
        self.unasked.extend(unasked);
        if rows.num_rows() > 0 {
            self.rows.push(rows);
        }
    }
}

/// The chunks of a file.
#[derive(Debug)]
pub(super) struct Chunks {
    works: mpsc::Receiver<Done>,
    tokens: SyncSender<()>,
    early: BTreeMap<u64, Step<Parsed>>,
    next_block: u64,
    next_chunk: i64,
    ended: bool,
    /// What makes ids of lines that have none.
    made_ids: Option<MadeIds>,
}

impl<T> std::fmt::Debug for Step<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Step").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Chunks {
    /// Starts the threads. `made_ids` names for whom ids are made from lines, where they are.
    pub(super) fn start(
        lines: LineReader<Contents<Reader>>,
        parser: FileParser,
        workers: Vec<Worker>,
        retired: &Retired,
        made_ids: Option<Arc<str>>,
        chunk_lines: u64,
    ) -> Result<Self, Failure> {
        let cutter = Cutter::new(chunk_lines);
        let under_way = workers.len() * 2 + 2;
        let (tokens, free) = sync_channel(under_way);
        for _ in 0..under_way {
            // as many as fit
            let _ = tokens.try_send(());
        }
        let (jobs, waiting) = sync_channel(workers.len());
        let (done, works) = mpsc::channel(under_way);
        let waiting = Arc::new(Mutex::new(waiting));
        let runtime = Handle::current();
        let spawned = |name: &str, work: Box<dyn FnOnce() + Send>| {
            let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work);
            thread.map(drop).map_err(|e| Failure::BrokeOff(format!("no thread for {name}: {e}")))
        };
        for worker in workers {
            let (waiting, done, runtime) = (Arc::clone(&waiting), done.clone(), runtime.clone());
            let retired = Arc::clone(retired);
            let parse = move || {
                if let Some(worker) = parse_all(worker, &waiting, &done, &runtime) {
                    retired.lock().unwrap_or_else(PoisonError::into_inner).push(worker);
                }
            };
            spawned("import-parse", Box::new(parse))?;
        }
        spawned(
            "import-read",
            Box::new(move || {
                if let Err(failure) = read_all(lines, parser, cutter, &free, &jobs) {
                    // nobody listens any more: then nobody needs to know
                    let _ = done.blocking_send(Err(failure));
                }
            }),
        )?;
        let made_ids = made_ids.map(MadeIds::new);
        let early = BTreeMap::new();
        Ok(Self { works, tokens, early, next_block: 0, next_chunk: 0, ended: false, made_ids })
    }

    /// Gathers the chunks as there is room for them, on a task of its own; and says when the last line is parsed. When the
    /// chunks are no longer wanted, all ends.
    pub(super) fn collect(mut self) -> (mpsc::Receiver<Result<Chunk, Failure>>, watch::Receiver<bool>) {
        let (send, chunks) = mpsc::channel(1);
        let (over, ended) = watch::channel(false);
        tokio::spawn(async move {
            // room first: a chunk that waits for it takes as much memory as one that lands
            while let Ok(room) = send.reserve().await {
                let next = self.next().await;
                over.send_replace(self.ended);
                let Some(chunk) = next.transpose() else { break };
                let failed = chunk.is_err();
                room.send(chunk);
                if failed {
                    break;
                }
            }
        });
        (chunks, ended)
    }

    /// The next chunk; `None` after the last.
    async fn next(&mut self) -> Result<Option<Chunk>, Failure> {
        let mut chunk = Chunk { first: self.next_chunk, number: self.next_chunk, ..Chunk::default() };
        while !self.ended {
            let Step { raw_bytes, ends_chunk, ending, body, .. } = self.next_step().await?;
            let named = match &mut self.made_ids {
                Some(made_ids) => made_ids.give(body)?,
                None => body,
            };
            chunk.raw_bytes = raw_bytes;
            chunk.push(named);
            self.ended = ending.is_some();
            chunk.ending = ending;
            if ends_chunk || self.ended {
                self.next_chunk += 1;
                return Ok(Some(chunk));
            }
        }
        Ok(None)
    }

    /// The next block, in the file's order.
    async fn next_step(&mut self) -> Result<Step<Parsed>, Failure> {
        loop {
            if let Some(step) = self.early.remove(&self.next_block) {
                self.next_block += 1;
                // the reader may have ended already
                let _ = self.tokens.try_send(());
                return Ok(step);
            }
            match self.works.recv().await {
                Some(Ok(step)) => {
                    self.early.insert(step.number, step);
                }
                Some(Err(failure)) => return Err(failure),
                None => return Err(Failure::BrokeOff("a thread that parses has ended early".to_owned())),
            }
        }
    }
}

/// The reader's thread.
fn read_all(
    mut lines: LineReader<Contents<Reader>>,
    mut parser: FileParser,
    mut cutter: Cutter,
    free: &Receiver<()>,
    jobs: &SyncSender<Step<Job>>,
) -> Result<(), Failure> {
    let mut number = 0;
    let mut next = lines.next_block()?;
    while let Some(block) = next {
        if free.recv().is_err() {
            return Ok(());
        }
        // Looked for first, as the last block must be known to be the last.
        next = lines.next_block()?;
        let raw_bytes = lines.raw_bytes();
        let ends_chunk = cutter.ends_with(block.line_count(), block.bytes.len() as u64);
        let body = parser.job(block);
        let mut step = Step { number, raw_bytes, ends_chunk, ending: None, body };
        if next.is_none() {
            step.ending = Some(lines.finish().map_err(ingest::edge::ReadError::Io)?);
            let _ = jobs.send(step);
            return Ok(());
        }
        if jobs.send(step).is_err() {
            return Ok(());
        }
        number += 1;
    }
    Ok(())
}

/// A parser's thread. Gives the worker back after the last line.
fn parse_all(
    mut worker: Worker,
    waiting: &Mutex<Receiver<Step<Job>>>,
    done: &mpsc::Sender<Done>,
    runtime: &Handle,
) -> Option<Worker> {
    let mut arena = Arena::new();
    loop {
        let job = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Step { number, raw_bytes, ends_chunk, ending, body: job }) = job else { return Some(worker) };
        let parsed = runtime.block_on(worker.work(&job, &arena));
        arena.reset();
        let step = parsed.map(|body| Step { number, raw_bytes, ends_chunk, ending, body });
        let failed = step.is_err();
        if done.blocking_send(step).is_err() || failed {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_ends_with_the_block_that_fills_it() {
        let mut cutter = Cutter::new(100);
        assert!(!cutter.ends_with(99, 10));
        assert!(cutter.ends_with(1, 10));
        assert!(!cutter.ends_with(1, CHUNK_BYTES - 1), "and the next begins anew");
        assert!(cutter.ends_with(1, 1));
    }
}
