//! The task of one partition: read, decode, enrich, hand over. It holds nothing that a kill could lose.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arrow::compute::concat_batches;
use arrow::error::ArrowError;
use ingest::stream::{Partition, Record, StreamError};
use schemas::UtcMicros;
use schemas::click::DATA_SCHEMA;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use super::decode::{Batch, Enrich, apart, behind, decode, refuse_whole, weigh};
use super::nag::{Nag, Tell};
use super::shed::Shedder;

/// What is read at once, at most.
const READ_BYTES: usize = 1 << 20;
/// What is read at once takes no more than so small a part of the budget: else the next read had to wait until all that is
/// kept of the last one has landed, however much of it was sampled away.
const SHARE: usize = 8;
/// The pause after a read that failed.
const PAUSE: Duration = Duration::from_secs(1);
/// The pause after a read that brought nothing, which a partition waits out by itself as a rule.
const NOTHING: Duration = Duration::from_millis(20);
/// How long the search for a partition's end may take.
const END_DEADLINE: Duration = Duration::from_secs(5);
/// What is read of a partition after a cancellation, at most, as weighed: what has just come, as a rule. A backlog is left to
/// whoever reads the partition next, and waits for it.
const READ_ON_BYTES: usize = 16 << 20;
/// How long a read may wait then.
const READ_ON_WAIT: Duration = Duration::from_secs(1);
/// How often a partition's end is looked for while there is no room for what has been read.
const END_AGAIN: Duration = Duration::from_secs(1);
/// Bytes of one permit of the budget.
pub(super) const PERMIT_BYTES: usize = 1_024;

/// Where the committer wants a partition to be read from. A new number makes what was read before void.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seat {
    pub(super) number: u64,
    pub(super) from: u64,
}

/// What a reader tells the committer.
#[derive(Debug)]
pub(super) struct Message {
    /// Which partition.
    pub(super) slot: usize,
    /// The seat that it was read under.
    pub(super) seat: u64,
    pub(super) news: News,
}

/// The news themselves.
#[derive(Debug)]
pub(super) enum News {
    /// Records, their part of the budget, and the partition's end as far as known.
    Batch(Batch, OwnedSemaphorePermit, u64),
    /// The partition's end, while there is no room for what has been read, or as nothing comes after a failure that is over.
    End(u64),
    /// There is no record after this position, and there never will be.
    Sealed(u64),
    /// The partition can't be read on now; it is tried again.
    Failing(String),
    /// Shutting down: nothing more is handed over.
    Drained,
}

/// A partition's reader.
#[derive(Debug)]
pub(super) struct Reader {
    pub(super) slot: usize,
    pub(super) partition: Box<dyn Partition>,
    pub(super) enrich: Arc<dyn Enrich>,
    /// Its rates outlive a batch whose decoding panics.
    pub(super) shedder: Arc<Mutex<Shedder>>,
    pub(super) out: mpsc::Sender<Message>,
    pub(super) seats: watch::Receiver<Seat>,
    /// Bytes that may be on their way to the lake, in permits.
    pub(super) budget: Arc<Semaphore>,
    pub(super) budget_permits: u32,
    pub(super) cancel: CancellationToken,
}

/// How far is read after a cancellation.
#[derive(Clone, Copy, Debug)]
struct Until {
    /// Where the partition ended when that came.
    end: u64,
    /// How much more may be read.
    bytes: usize,
}

impl Until {
    fn is_reached(self, next: u64) -> bool {
        next >= self.end || self.bytes == 0
    }
}

/// What to do next.
enum Step {
    Records(Vec<Record>),
    Seat,
    Drain,
    /// Shutting down, and what is said to be there doesn't come.
    Waited,
    Failed(StreamError),
}

impl Reader {
    /// Reads until the committer wants no more of the partition, or until a little more is handed over after a cancellation. Returns
    /// the number of its slot.
    pub(super) async fn run(self) -> usize {
        let (slot, mut seats) = (self.slot, self.seats.clone());
        let gone = async { while seats.changed().await.is_ok() {} };
        tokio::select! {
            biased;
            () = gone => {}
            () = self.read() => {}
        }
        slot
    }

    async fn read(mut self) {
        let mut seat = *self.seats.borrow_and_update();
        let mut next = seat.from;
        let mut until: Option<Until> = None;
        let mut is_done = false;
        let (mut nag, mut is_failing) = (Nag::default(), false);
        loop {
            if until.is_some_and(|until| is_done || until.is_reached(next)) {
                self.tell(seat, News::Drained).await;
                return;
            }
            match self.step(next, is_done, until.is_some()).await {
                Step::Seat => {
                    seat = *self.seats.borrow_and_update();
                    next = seat.from;
                    is_done = false;
                }
                Step::Drain => {
                    until = Some(Until { end: self.end().await.unwrap_or(next), bytes: READ_ON_BYTES });
                }
                Step::Waited => until = Some(Until { end: next, bytes: 0 }),
                Step::Records(records) if records.is_empty() => {
                    is_done = self.partition.is_sealed();
                    if is_done {
                        self.tell(seat, News::Sealed(next)).await;
                        continue;
                    }
                    // what is idle may never tell otherwise that it can be read again
                    if std::mem::take(&mut is_failing) {
                        let end = self.end().await.unwrap_or(next);
                        self.tell(seat, News::End(end)).await;
                    }
                    tokio::time::sleep(NOTHING).await;
                }
                Step::Records(records) => {
                    let to = behind(next, &records);
                    if let Some(until) = &mut until {
                        until.bytes = until.bytes.saturating_sub(weigh(&records));
                    }
                    if !self.hand_over(seat, next, records).await {
                        return;
                    }
                    next = to;
                    nag.over();
                    is_failing = false;
                }
                Step::Failed(failure) => {
                    match nag.tell(Instant::now()) {
                        Some(Tell::New) => warn!(partition = self.partition.name(), %failure, "can't read on"),
                        Some(Tell::Still) => error!(partition = self.partition.name(), %failure, "still can't read on"),
                        None => {}
                    }
                    is_failing = true;
                    self.tell(seat, News::Failing(failure.to_string())).await;
                    if until.is_some() {
                        self.tell(seat, News::Drained).await;
                        return;
                    }
                    self.pause().await;
                }
            }
        }
    }

    async fn step(&mut self, next: u64, is_done: bool, is_draining: bool) -> Step {
        let bytes = at_once(self.budget_permits as usize * PERMIT_BYTES);
        tokio::select! {
            biased;
            Ok(()) = self.seats.changed() => Step::Seat,
            () = self.cancel.cancelled(), if !is_draining => Step::Drain,
            read = self.partition.read(next, bytes), if !is_done => match read {
                Ok(records) => Step::Records(records),
                Err(failure) => Step::Failed(failure),
            },
            () = tokio::time::sleep(READ_ON_WAIT), if is_draining => Step::Waited,
        }
    }

    async fn pause(&mut self) {
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            () = self.cancel.cancelled() => {}
        }
    }

    async fn end(&mut self) -> Option<u64> {
        tokio::time::timeout(END_DEADLINE, self.partition.end()).await.ok()?.ok()
    }

    /// Waits for room, decodes where blocking is allowed, and hands over. `false` when nobody takes it any more.
    async fn hand_over(&mut self, seat: Seat, from: u64, records: Vec<Record>) -> bool {
        let read_at = Instant::now();
        let permits = (weigh(&records) / PERMIT_BYTES + 1).min(self.budget_permits as usize) as u32;
        let Some(mut permit) = self.room(seat, permits).await else { return false };
        let to = behind(from, &records);
        let by = By { enrich: Arc::clone(&self.enrich), shedder: Arc::clone(&self.shedder), read_at };
        let batch = by.decode_apart(from, records).await;
        // what was sampled away leaves its room to others
        let left = (batch.bytes / PERMIT_BYTES + 1).min(permits as usize);
        drop(permit.split(permits as usize - left));
        let end = self.end().await.unwrap_or(to).max(to);
        self.tell(seat, News::Batch(batch, permit, end)).await
    }

    /// Waits for room. Meanwhile the partition's end is told, else a backlog would seem to be as small as it was. `None` when
    /// nobody takes it any more.
    async fn room(&mut self, seat: Seat, permits: u32) -> Option<OwnedSemaphorePermit> {
        let room = Arc::clone(&self.budget).acquire_many_owned(permits);
        tokio::pin!(room);
        loop {
            let end = async {
                tokio::time::sleep(END_AGAIN).await;
                self.end().await
            };
            tokio::select! {
                biased;
                permit = &mut room => return permit.ok(),
                end = end => if let Some(end) = end {
                    // who is too busy to hear of it will be told again
                    let _told = self.out.try_send(Message { slot: self.slot, seat: seat.number, news: News::End(end) });
                },
            }
        }
    }

    async fn tell(&mut self, seat: Seat, news: News) -> bool {
        self.out.send(Message { slot: self.slot, seat: seat.number, news }).await.is_ok()
    }
}

/// What is read at once, of a budget of so many bytes.
fn at_once(budget: usize) -> usize {
    (budget / SHARE).clamp(1, READ_BYTES)
}

/// What records are decoded with.
#[derive(Clone, Debug)]
struct By {
    enrich: Arc<dyn Enrich>,
    shedder: Arc<Mutex<Shedder>>,
    read_at: Instant,
}

impl By {
    fn decode(&self, from: u64, records: &[Record]) -> Result<Batch, ArrowError> {
        let mut shedder = self.shedder.lock().unwrap_or_else(PoisonError::into_inner);
        decode(from, records, self.enrich.as_ref(), &mut shedder, (UtcMicros::now(), self.read_at))
    }

    /// Decodes on a thread of its own. A record that makes the decoding panic becomes one that can't be read.
    async fn decode_apart(&self, from: u64, records: Vec<Record>) -> Batch {
        let records = Arc::new(records);
        let (by, shared) = (self.clone(), Arc::clone(&records));
        let decoded = tokio::task::spawn_blocking(move || by.decode(from, &shared));
        match decoded.await {
            Ok(Ok(batch)) => return batch,
            Ok(Err(failure)) => error!(%failure, from, "rows can't be built; trying the records one by one"),
            Err(panic) => error!(%panic, from, "decoding panicked; trying the records one by one"),
        }
        self.one_by_one(from, &records).await
    }

    async fn one_by_one(&self, from: u64, records: &[Record]) -> Batch {
        let mut whole = Batch::new(from, from, &[], self.read_at);
        for record in apart(records) {
            let (by, one) = (self.clone(), record.clone());
            let decoded = tokio::task::spawn_blocking(move || by.decode(one.offset, std::slice::from_ref(&one)));
            match decoded.await {
                Ok(Ok(batch)) => whole.append(batch),
                Ok(Err(_)) | Err(_) => whole.refused.push(refuse_whole(&record, "panic")),
            }
        }
        if let Ok(rows) = concat_batches(&DATA_SCHEMA, &whole.rows) {
            whole.rows = vec![rows];
        }
        whole.to = behind(from, records);
        whole.bytes = weigh(records);
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hot::testing::{Log, Plain};

    #[tokio::test]
    async fn where_a_partition_ends_is_told_while_there_is_no_room_for_what_was_read() {
        let log = Log::new();
        log.click(1, 1);
        let ((seats, of), (out, mut news)) = (watch::channel(Seat { number: 0, from: 0 }), mpsc::channel(4));
        let budget = Arc::new(Semaphore::new(1));
        let room = Arc::clone(&budget).acquire_owned().await.unwrap();
        let reader = Reader {
            slot: 0,
            partition: log.partition(),
            enrich: Arc::new(Plain),
            shedder: Arc::new(Mutex::new(Shedder::new(Arc::default()))),
            out,
            seats: of,
            budget,
            budget_permits: 1,
            cancel: CancellationToken::new(),
        };
        let reading = tokio::spawn(reader.run());
        let mut told = async || match news.recv().await.map(|message| message.news) {
            Some(News::End(end)) => (end, false),
            Some(News::Batch(batch, _, end)) => (end, batch.to == 1),
            other => panic!("{other:?}"),
        };
        assert_eq!(told().await, (1, false));
        let end = log.click(2, 1);
        assert_eq!(told().await, (end, false), "more has come");
        drop(room);
        assert_eq!(told().await, (end, true));
        drop(seats);
        reading.await.unwrap();
    }

    /// Fails once, and then nothing comes, ever.
    #[derive(Debug)]
    struct Idle {
        has_failed: bool,
    }

    #[async_trait::async_trait]
    impl Partition for Idle {
        fn name(&self) -> &str {
            "idle"
        }

        async fn read(&mut self, _: u64, _: usize) -> Result<Vec<Record>, StreamError> {
            if std::mem::replace(&mut self.has_failed, true) {
                return Ok(Vec::new());
            }
            Err(StreamError::Io { partition: "idle".into(), source: std::io::ErrorKind::ConnectionRefused.into() })
        }

        async fn end(&mut self) -> Result<u64, StreamError> {
            Ok(0)
        }

        fn is_sealed(&self) -> bool {
            false
        }
    }

    #[tokio::test]
    async fn an_idle_partition_that_can_be_read_again_is_told() {
        let ((_seats, of), (out, mut news)) = (watch::channel(Seat { number: 0, from: 0 }), mpsc::channel(4));
        let reader = Reader {
            slot: 0,
            partition: Box::new(Idle { has_failed: false }),
            enrich: Arc::new(Plain),
            shedder: Arc::new(Mutex::new(Shedder::new(Arc::default()))),
            out,
            seats: of,
            budget: Arc::new(Semaphore::new(1)),
            budget_permits: 1,
            cancel: CancellationToken::new(),
        };
        let reading = tokio::spawn(reader.run());
        let mut next = async || news.recv().await.map(|message| message.news);
        assert!(matches!(next().await, Some(News::Failing(_))));
        assert!(matches!(next().await, Some(News::End(0))), "it is well again");
        reading.abort();
    }

    #[test]
    fn a_shutdown_reads_to_the_end_or_so_much() {
        let until = |end, bytes| Until { end, bytes };
        assert!(until(5, 1).is_reached(5) && !until(5, 1).is_reached(4));
        assert!(until(5, 0).is_reached(0));
    }

    #[test]
    fn a_read_leaves_room_for_others() {
        assert_eq!(at_once(96 << 20), READ_BYTES);
        assert_eq!(at_once(512 << 10), 64 << 10);
        assert_eq!(at_once(0), 1, "one record at least");
    }
}
