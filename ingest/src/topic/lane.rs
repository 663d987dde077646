//! The way into one partition: batches in order, each kept until the broker has acknowledged it.
//!
//! While one request is under way the next gathers what comes, so a batch waits for nothing when there is little and many
//! go together when there is much. When anything is in doubt (an error, a refusal, no answer in time) the connection is
//! dropped, its leader asked for anew after a pause, and the same batches are sent again with the same ids: what arrives
//! twice is told by them.

use std::collections::VecDeque;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use fluvio_protocol::link::ErrorCode;
use fluvio_protocol::record::{Batch, RawRecords, Record, RecordSet};
use fluvio_spu_schema::Isolation;
use fluvio_spu_schema::produce::{DefaultPartitionRequest, DefaultProduceRequest, DefaultTopicRequest};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::backoff::{Backoff, chance};
use super::cluster::Cluster;
use super::error::TopicError;
use super::health::TopicHealth;
use super::session::{ANSWER_WITHIN, Session};

/// The most bytes of one request before they are compressed: far below what a broker takes at once (2 MiB) and what a
/// consumer is answered at once.
const REQUEST_BYTES: usize = 512 << 10;

/// A batch on its way, with its part of the room.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) bytes: Bytes,
    /// Given back with it.
    pub(super) _room: OwnedSemaphorePermit,
}

/// The way into one partition.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) cluster: Cluster,
    pub(super) partition: u32,
    pub(super) incoming: mpsc::Receiver<Outgoing>,
    pub(super) health: TopicHealth,
}

impl Lane {
    /// Sends what comes until nobody can send any more and all is acknowledged.
    pub(super) async fn run(mut self) {
        let name = format!("partition {}", self.partition);
        let (mut waiting, mut session, mut backoff) = (VecDeque::new(), None, Backoff::default());
        while self.gather(&mut waiting).await {
            match self.put(&mut session, &waiting).await {
                Ok(()) => {
                    // their room is free again
                    waiting.clear();
                    backoff.over();
                    if self.health.well(&name) {
                        tracing::info!(partition = self.partition, "the topic takes clicks again");
                    }
                }
                Err(failure) => {
                    session = None;
                    let pause = backoff.pause(chance());
                    if self.health.ill(&name, &failure) {
                        tracing::warn!(partition = self.partition, %failure, ?pause, "the topic takes no clicks now: journals keep them");
                    }
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }

    /// Waits for something to send, and adds what is there already, as much as goes into a request.
    async fn gather(&mut self, waiting: &mut VecDeque<Outgoing>) -> bool {
        if waiting.is_empty() {
            match self.incoming.recv().await {
                Some(first) => waiting.push_back(first),
                None => return false,
            }
        }
        let mut bytes: usize = waiting.iter().map(|one| one.bytes.len()).sum();
        while bytes < REQUEST_BYTES
            && let Ok(next) = self.incoming.try_recv()
        {
            bytes += next.bytes.len();
            waiting.push_back(next);
        }
        true
    }

    /// Has the broker store what is waiting, in order.
    async fn put(&self, session: &mut Option<Session>, waiting: &VecDeque<Outgoing>) -> Result<(), TopicError> {
        const DOING: &str = "sending clicks";
        let session = match session {
            Some(open) => open,
            None => session.insert(self.cluster.leader(self.partition).await?),
        };
        let strange = |session: &Session, why: String| TopicError::Strange {
            doing: DOING,
            address: session.address().to_owned(),
            why,
        };
        let batch = self.batch(waiting).map_err(|error| strange(session, error))?;
        let partition =
            DefaultPartitionRequest { partition_index: self.partition, records: RecordSet { batches: vec![batch] } };
        let topic = self.cluster.config.topic.clone();
        let topics =
            vec![DefaultTopicRequest { name: topic.clone(), partitions: vec![partition], ..Default::default() }];
        // acknowledged when all copies that are in sync have it
        let isolation = Isolation::ReadCommitted;
        let request = DefaultProduceRequest { isolation, timeout: ANSWER_WITHIN, topics, ..Default::default() };
        let answer = session.ask(DOING, request).await?;
        match answer.find_partition_response(&topic, self.partition).map(|found| found.error_code.clone()) {
            Some(ErrorCode::None) => Ok(()),
            Some(code) => Err(TopicError::Refused { doing: DOING, address: session.address().to_owned(), code }),
            None => Err(strange(session, "the answer is of another partition".to_owned())),
        }
    }

    fn batch(&self, waiting: &VecDeque<Outgoing>) -> Result<Batch<RawRecords>, String> {
        let records: Vec<Record> = waiting.iter().map(|one| Record::new(one.bytes.to_vec())).collect();
        let mut batch = Batch::from(records);
        self.cluster.config.compression.mark(&mut batch);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64);
        let header = batch.get_mut_header();
        (header.first_timestamp, header.max_time_stamp) = (now, now);
        batch.try_into().map_err(|error| format!("batches can't be compressed: {error}"))
    }
}
