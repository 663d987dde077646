//! Reading one partition from an absolute offset on, over a connection of its own.
//!
//! The broker sends a stretch, waits for the word that it has come, and sends the next. Every offset is checked to follow
//! the one before it. A stretch may be cut in the middle of a batch; a batch that isn't whole, and a hole between two, make
//! the partition be read again from the first offset that is missing, over a new connection. What is still missing then
//! is skipped: which clicks that were is known by the coverage of journals, and they are asked for again.
//!
//! Silence is looked into: every few seconds the broker is asked where the partition ends. No answer, or an end that is
//! further and nothing that comes, and the connection is given up. It is asked for too while nobody takes what has come.

use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use fluvio_protocol::api::{Request, ResponseMessage};
use fluvio_protocol::link::ErrorCode;
use fluvio_protocol::record::{Batch, RawRecords, ReplicaKey};
use fluvio_spu_schema::Isolation;
use fluvio_spu_schema::server::fetch_offset::FetchOffsetsRequest;
use fluvio_spu_schema::server::stream_fetch::{DefaultStreamFetchRequest, DefaultStreamFetchResponse};
use fluvio_spu_schema::server::update_offset::{OffsetUpdate, UpdateOffsetsRequest};
use futures::StreamExt as _;
use tokio::sync::{mpsc, watch};

use super::cluster::{Cluster, Extent};
use super::error::TopicError;
use super::session::{ANSWER_WITHIN, Session};

/// What a broker may send at once, at first: several requests of ours. Doubled for a batch that is bigger.
const STRETCH_BYTES: i32 = 2 << 20;
/// The most that is asked for at once.
const MOST_BYTES: i32 = 32 << 20;
/// How long it may be silent before it is looked into.
const SILENCE: Duration = Duration::from_secs(4);
/// How often the same offset is looked for before it is skipped.
const TRIES: u32 = 2;
/// How often it is asked where the partition ends while what has come is taken slowly, or not at all.
const END_AGAIN: Duration = Duration::from_secs(1);

const STREAM: i32 = 1;
const UPDATE: i32 = 2;
const OFFSETS: i32 = 3;

/// Records of a partition, each with its offset, in order.
#[derive(Debug)]
pub(super) struct Pulled {
    pub(super) records: Vec<(u64, Bytes)>,
}

/// Why a partition isn't read on.
#[derive(Debug)]
pub(super) enum Stopped {
    /// It ends before what is to be read.
    BeyondEnd {
        /// Where it ends.
        end: u64,
    },
    /// The cluster isn't well.
    Failed(TopicError),
    /// Nobody takes records any more.
    Unwanted,
}

/// Reads one partition.
#[derive(Debug)]
pub(super) struct Puller {
    pub(super) cluster: Cluster,
    pub(super) partition: u32,
    /// The next offset to hand out.
    pub(super) next: u64,
    pub(super) out: mpsc::Sender<Pulled>,
    /// Where the partition ends, as last heard.
    pub(super) end: watch::Sender<u64>,
    /// When that was.
    heard: Instant,
    stretch: i32,
    /// How often the offset has been missed.
    missed: (u64, u32),
}

/// Why a connection is given up.
enum Over {
    /// Something is missing at `next`, or what has come there isn't whole.
    Again,
    Stopped(Stopped),
}

impl From<TopicError> for Over {
    fn from(failure: TopicError) -> Self {
        Self::Stopped(Stopped::Failed(failure))
    }
}

impl Puller {
    pub(super) fn new(
        cluster: Cluster,
        partition: u32,
        next: u64,
        out: mpsc::Sender<Pulled>,
        end: watch::Sender<u64>,
    ) -> Self {
        let heard = Instant::now();
        Self { cluster, partition, next, out, end, heard, stretch: STRETCH_BYTES, missed: (u64::MAX, 0) }
    }

    /// Reads on until it can't. One that has brought something and loses its connection goes on over another.
    pub(super) async fn run(mut self) -> Stopped {
        loop {
            let before = self.next;
            match self.session().await {
                Over::Again => {}
                Over::Stopped(Stopped::Failed(failure)) if self.next > before => {
                    tracing::info!(partition = self.partition, %failure, next = self.next, "connecting again");
                }
                Over::Stopped(stopped) => return stopped,
            }
        }
    }

    /// Reads over one connection.
    async fn session(&mut self) -> Over {
        let opened = async {
            let mut session = self.cluster.leader(self.partition).await?;
            let extent = self.cluster.extent(&mut session, self.partition).await?;
            Ok::<_, TopicError>((session, extent))
        };
        let (mut session, extent) = match opened.await {
            Ok(opened) => opened,
            Err(failure) => return failure.into(),
        };
        if let Some(over) = self.begin(extent) {
            return over;
        }
        match self.stream(&mut session).await {
            Err(over) => over,
            Ok(never) => match never {},
        }
    }

    /// Compares with where the partition begins and ends.
    fn begin(&mut self, extent: Extent) -> Option<Over> {
        if self.next > extent.end {
            return Some(Over::Stopped(Stopped::BeyondEnd { end: extent.end }));
        }
        // heard of as well: it can be read
        self.end.send_replace(extent.end);
        if self.next < extent.begin {
            let (from, to) = (self.next, extent.begin);
            tracing::error!(
                partition = self.partition,
                from,
                to,
                "the broker has deleted records that weren't read yet"
            );
            self.next = extent.begin;
        }
        None
    }

    async fn stream(&mut self, session: &mut Session) -> Result<std::convert::Infallible, Over> {
        let version = session.version_of::<DefaultStreamFetchRequest>();
        // what can't be built in the client's release is nothing that this one can ask for
        let request = DefaultStreamFetchRequest::builder()
            .topic(self.cluster.config.topic.clone())
            .partition(self.partition)
            .fetch_offset(self.next as i64)
            .max_bytes(self.stretch)
            .isolation(Isolation::ReadCommitted)
            .build()
            .map_err(|error| strange(session, &error))?;
        send(session, request, STREAM).await?;
        let mut is_looking = false;
        loop {
            let limit = if is_looking { ANSWER_WITHIN } else { SILENCE };
            let Ok(frame) = tokio::time::timeout(limit, frame(session)).await else {
                if is_looking {
                    return Err(deadline(session).into());
                }
                let offsets = FetchOffsetsRequest::new(self.cluster.config.topic.clone(), self.partition);
                send(session, offsets, OFFSETS).await?;
                is_looking = true;
                continue;
            };
            let mut frame = frame?;
            match frame.as_ref().get(..4).map(|mut number| number.get_i32()) {
                Some(STREAM) => {
                    is_looking = false;
                    let answer = ResponseMessage::<DefaultStreamFetchResponse>::decode_from(&mut frame, version)
                        .map_err(|error| strange(session, &error))?
                        .response;
                    self.take(session, answer).await?;
                }
                Some(OFFSETS) => {
                    is_looking = false;
                    if self.has_more(session, &mut frame)? {
                        return Err(deadline(session).into());
                    }
                }
                _ => {}
            }
        }
    }

    /// Takes a stretch, hands it out, and tells the broker that it has come.
    async fn take(&mut self, session: &mut Session, answer: DefaultStreamFetchResponse) -> Result<(), Over> {
        let partition = answer.partition;
        match partition.error_code {
            ErrorCode::None => {}
            // told anew when it is opened again
            ErrorCode::OffsetEvicted { .. } | ErrorCode::OffsetOutOfRange => return Err(Over::Again),
            code => {
                let address = session.address().to_owned();
                return Err(TopicError::Refused { doing: "reading the topic", address, code }.into());
            }
        }
        let end = partition.high_watermark.max(0).unsigned_abs();
        self.heard = Instant::now();
        self.end.send_if_modified(|known| std::mem::replace(known, (*known).max(end)) < end);
        if partition.records.batches.is_empty() {
            return Ok(());
        }
        for batch in partition.records.batches {
            self.take_batch(session, batch).await?;
        }
        let offsets = vec![OffsetUpdate { offset: self.next as i64, session_id: answer.stream_id }];
        Ok(send(session, UpdateOffsetsRequest { offsets }, UPDATE).await?)
    }

    async fn take_batch(&mut self, session: &mut Session, batch: Batch<RawRecords>) -> Result<(), Over> {
        let base = batch.base_offset.max(0).unsigned_abs();
        let behind = base + batch.records_len() as u64;
        if behind <= self.next {
            return Ok(());
        }
        if base > self.next {
            if self.looks_again() {
                return Err(Over::Again);
            }
            let (from, to) = (self.next, base);
            tracing::error!(partition = self.partition, from, to, "the topic lacks records: skipping them");
            self.next = base;
        }
        let records = match batch.memory_records() {
            Ok(records) if base + records.len() as u64 == behind => records,
            // cut, or damaged
            _ => {
                self.stretch = (self.stretch * 2).min(MOST_BYTES);
                if self.looks_again() {
                    return Err(Over::Again);
                }
                let (from, to) = (self.next, behind);
                tracing::error!(
                    partition = self.partition,
                    from,
                    to,
                    "records of the topic can't be read: skipping them"
                );
                self.next = behind;
                return Ok(());
            }
        };
        let records = (base..).zip(records).filter(|(offset, _)| *offset >= self.next);
        let records =
            records.map(|(offset, record)| (offset, Bytes::copy_from_slice(record.value().as_ref()))).collect();
        self.hand_out(session, Pulled { records }).await?;
        // not before: what breaks off while nobody takes them has them sent again
        self.next = behind;
        Ok(())
    }

    /// Hands records out as soon as they are wanted. When that takes long the broker is asked where the partition ends: what
    /// isn't read grows all the same, and is to be known.
    async fn hand_out(&mut self, session: &mut Session, pulled: Pulled) -> Result<(), Over> {
        loop {
            let until = self.heard + END_AGAIN;
            if let Ok(room) = tokio::time::timeout_at(until.into(), self.out.reserve()).await {
                room.map_err(|_| Over::Stopped(Stopped::Unwanted))?.send(pulled);
                return Ok(());
            }
            self.ask_for_end(session).await?;
        }
    }

    /// Asks where the partition ends, while the broker waits for the word that the last stretch has come.
    async fn ask_for_end(&mut self, session: &mut Session) -> Result<(), Over> {
        let offsets = FetchOffsetsRequest::new(self.cluster.config.topic.clone(), self.partition);
        send(session, offsets, OFFSETS).await?;
        loop {
            let answer = tokio::time::timeout(ANSWER_WITHIN, frame(session)).await;
            let mut frame = answer.map_err(|_| deadline(session))??;
            match frame.as_ref().get(..4).map(|mut number| number.get_i32()) {
                Some(OFFSETS) => {
                    self.has_more(session, &mut frame)?;
                    return Ok(());
                }
                // it has gone on without that word: what it has sent is asked for once more
                Some(STREAM) => return Err(Over::Again),
                _ => {}
            }
        }
    }

    /// Whether what is missing at `next` is to be looked for once more.
    fn looks_again(&mut self) -> bool {
        let (at, times) = self.missed;
        self.missed = (self.next, if at == self.next { times + 1 } else { 1 });
        self.missed.1 <= TRIES
    }

    /// Whether the partition goes on behind what has come, though nothing comes. A broker that doesn't lead it any more can't
    /// tell: whoever does is asked over a new connection.
    fn has_more(&mut self, session: &Session, frame: &mut impl Buf) -> Result<bool, Over> {
        let version = session.version_of::<FetchOffsetsRequest>();
        let answer = ResponseMessage::<<FetchOffsetsRequest as Request>::Response>::decode_from(frame, version)
            .map_err(|error| strange(session, &error))?
            .response;
        let replica = ReplicaKey::new(&self.cluster.config.topic, self.partition);
        let end = match Extent::of(answer, &replica, session) {
            Ok(extent) => extent.end,
            Err(failure) => {
                tracing::info!(partition = self.partition, %failure, next = self.next, "connecting again");
                return Err(Over::Again);
            }
        };
        self.end.send_replace(end);
        self.heard = Instant::now();
        Ok(end != self.next)
    }
}

/// Sends a question whose answer comes as a frame.
async fn send<R: Request>(session: &mut Session, request: R, number: i32) -> Result<(), TopicError> {
    const DOING: &str = "reading the topic";
    let message = session.message(request, number);
    let sent = tokio::time::timeout(ANSWER_WITHIN, session.socket().get_mut_sink().send_request(&message)).await;
    match sent {
        Ok(Ok(())) => Ok(()),
        Ok(Err(source)) => Err(session.failed(DOING, source)),
        Err(_) => Err(deadline(session)),
    }
}

/// The next frame: the number of the question, and its answer.
async fn frame(session: &mut Session) -> Result<Bytes, TopicError> {
    match session.socket().get_mut_stream().get_mut_tcp_stream().next().await {
        Some(Ok(frame)) => Ok(frame.freeze()),
        Some(Err(error)) => Err(strange(session, &error)),
        None => Err(strange(session, &"the broker has closed the connection")),
    }
}

fn deadline(session: &Session) -> TopicError {
    TopicError::Deadline { doing: "reading the topic", address: session.address().to_owned(), limit: ANSWER_WITHIN }
}

fn strange(session: &Session, why: &dyn std::fmt::Display) -> TopicError {
    TopicError::Strange { doing: "reading the topic", address: session.address().to_owned(), why: why.to_string() }
}
