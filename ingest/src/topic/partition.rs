//! A partition of the topic as a partition of the stream.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use schemas::JournalId;
use schemas::batch::{self, BatchError};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::task::AbortOnDropHandle;

use super::cluster::Cluster;
use super::health::TopicHealth;
use super::pull::{Pulled, Puller, Stopped};
use crate::ports::Generation;
use crate::stream::{Body, Partition, Record, StreamError, TopicPart};

const WAY_OUT: &str = "the topic was made anew, or its broker has lost records; \
                       `highwater stream renew` begins another generation of it, and journals send what the lake lacks";
/// Batches read ahead.
const AHEAD: usize = 2;

/// One reader of a partition of the topic.
///
/// When another generation of the topic has begun, `read` returns no records at once, and `is_sealed` is true from then on.
#[derive(Debug)]
pub struct TopicPartition {
    name: String,
    part: TopicPart,
    cluster: Cluster,
    health: TopicHealth,
    present: watch::Receiver<Option<Arc<Generation>>>,
    pulling: Option<Pulling>,
    /// What has come and hasn't been asked for yet.
    ready: VecDeque<Record>,
    /// The offset that is to be asked for next, if what is ready is to be of use.
    asked: u64,
    /// Where the partition ends, as last heard.
    end: watch::Sender<u64>,
    /// Asks for it while no task reads.
    asking: Option<AbortOnDropHandle<()>>,
    /// Whether the last reading has failed.
    is_ill: bool,
    is_over: bool,
}

/// The task that reads, from some offset on.
#[derive(Debug)]
struct Pulling {
    incoming: mpsc::Receiver<Pulled>,
    /// Changes when it has heard from the broker.
    heard: watch::Receiver<u64>,
    task: JoinHandle<Stopped>,
}

impl Drop for Pulling {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl TopicPartition {
    pub(super) fn new(
        cluster: Cluster,
        health: TopicHealth,
        part: TopicPart,
        present: watch::Receiver<Option<Arc<Generation>>>,
    ) -> Self {
        let name = part.generation.partition(part.number);
        let (pulling, ready, end, asking) = (None, VecDeque::new(), watch::Sender::default(), None);
        Self {
            name,
            part,
            cluster,
            health,
            present,
            pulling,
            ready,
            asked: 0,
            end,
            asking,
            is_ill: false,
            is_over: false,
        }
    }

    /// What is ready from `from` on.
    fn take(&mut self, from: u64, max_bytes: usize) -> Result<Vec<Record>, StreamError> {
        let (mut records, mut bytes) = (Vec::new(), 0);
        while bytes < max_bytes.max(1)
            && let Some(next) = self.ready.pop_front_if(|next| !is_newer(next))
        {
            if let (true, Body::Batch(_, content) | Body::Unreadable(_, content)) = (next.offset >= from, &next.body) {
                bytes += content.len();
                records.push(next);
            }
        }
        match self.ready.front().map(|next| next.offset) {
            Some(offset) if records.is_empty() => Err(self.failed(io::Error::other(format!(
                "the record at offset {offset} was written by a newer release: install that here too"
            )))),
            _ => Ok(records),
        }
    }

    fn is_well(&mut self) {
        self.is_ill = false;
        self.health.well(&self.name);
    }

    fn failed(&mut self, source: io::Error) -> StreamError {
        self.is_ill = true;
        self.health.ill(&self.name, &format!("partition {}: {source}", self.name));
        StreamError::Io { partition: self.name.clone(), source }
    }

    fn start(&mut self, from: u64) {
        let (out, incoming) = mpsc::channel(AHEAD);
        let heard = self.end.subscribe();
        let puller = Puller::new(self.cluster.clone(), self.part.number, from, out, self.end.clone());
        self.pulling = Some(Pulling { incoming, heard, task: tokio::spawn(puller.run()) });
    }

    /// Asks where the partition ends, unless that is being done: it is known when the answer has come.
    fn ask_for_end(&mut self) {
        if self.asking.as_ref().is_some_and(|asking| !asking.is_finished()) {
            return;
        }
        let (cluster, number, end) = (self.cluster.clone(), self.part.number, self.end.clone());
        self.asking = Some(AbortOnDropHandle::new(tokio::spawn(async move {
            match cluster.end(number).await {
                Ok(found) => drop(end.send_replace(found)),
                // whoever reads on will say so
                Err(failure) => tracing::debug!(partition = number, %failure, "it isn't known how far it goes"),
            }
        })));
    }

    /// Why the task has ended.
    async fn stopped(&mut self, from: u64) -> StreamError {
        let stopped = match &mut self.pulling {
            Some(pulling) => (&mut pulling.task).await,
            None => Ok(Stopped::Unwanted),
        };
        self.pulling = None;
        match stopped {
            Ok(Stopped::BeyondEnd { end }) => {
                let partition = self.name.clone();
                let beyond = StreamError::BeyondEnd { partition, end, stored: from, way_out: WAY_OUT };
                self.is_ill = true;
                self.health.ill(&self.name, &beyond);
                beyond
            }
            Ok(Stopped::Failed(failure)) => self.failed(io::Error::other(failure)),
            Ok(Stopped::Unwanted) => self.failed(io::ErrorKind::BrokenPipe.into()),
            Err(panic) => self.failed(io::Error::other(panic)),
        }
    }
}

/// What isn't read here any more is nothing to be ill of.
impl Drop for TopicPartition {
    fn drop(&mut self) {
        self.health.well(&self.name);
    }
}

#[async_trait]
impl Partition for TopicPartition {
    fn name(&self) -> &str {
        &self.name
    }

    fn part(&self) -> Option<&TopicPart> {
        Some(&self.part)
    }

    async fn read(&mut self, from: u64, max_bytes: usize) -> Result<Vec<Record>, StreamError> {
        if from != self.asked {
            self.ready.clear();
            self.pulling = None;
            self.asked = from;
        }
        loop {
            if self.present.borrow().as_ref().is_some_and(|present| *present != self.part.generation) {
                self.is_over = true;
                self.health.well(&self.name);
                return Ok(Vec::new());
            }
            let records = self.take(from, max_bytes)?;
            if let Some(last) = records.last() {
                self.asked = last.offset + 1;
                self.is_well();
                return Ok(records);
            }
            if self.pulling.is_none() {
                self.start(from);
            }
            let Some(pulling) = &mut self.pulling else { continue };
            let pulled = tokio::select! {
                pulled = pulling.incoming.recv() => pulled,
                Ok(()) = pulling.heard.changed(), if self.is_ill => {
                    // whoever reads hears that it is well again, though nothing comes
                    self.is_well();
                    return Ok(Vec::new());
                }
                () = another(&mut self.present) => continue,
            };
            match pulled {
                Some(pulled) => self.ready.extend(pulled.records.into_iter().map(|(at, bytes)| record(at, bytes))),
                None => return Err(self.stopped(from).await),
            }
        }
    }

    async fn end(&mut self) -> Result<u64, StreamError> {
        // who waits for room doesn't read on when the connection is lost meanwhile
        if self.pulling.as_ref().is_some_and(|pulling| pulling.task.is_finished()) {
            self.ask_for_end();
        }
        Ok(*self.end.borrow())
    }

    fn is_sealed(&self) -> bool {
        self.is_over
    }
}

/// Waits until another generation may have begun: for ever when nobody looks for one any more, as at a shutdown, in which
/// records that are there are read on.
async fn another(present: &mut watch::Receiver<Option<Arc<Generation>>>) {
    if present.changed().await.is_err() {
        std::future::pending().await
    }
}

/// What is written in words of a record that a newer release has written.
const NEWER: &str = "newer_version";

/// Whether a newer release has written the record: its clicks are none that could be refused.
fn is_newer(record: &Record) -> bool {
    matches!(record.body, Body::Unreadable(NEWER, _))
}

/// A record as the hot path takes it. What is no batch is one that can't be read, and stops nothing.
fn record(offset: u64, bytes: Bytes) -> Record {
    match batch::decode(&bytes) {
        Ok(found) => Record { offset, journal: found.cover.journal, body: Body::Batch(found.cover, bytes) },
        Err(error) => {
            let reason = match error {
                BatchError::NewerVersion(_) => NEWER,
                BatchError::Corrupt(_) => "corrupt",
            };
            Record { offset, journal: JournalId(uuid::Uuid::nil()), body: Body::Unreadable(reason, bytes) }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::config::{Compression, Tls, TopicConfig};
    use super::*;

    fn partition(present: watch::Receiver<Option<Arc<Generation>>>) -> TopicPartition {
        let config = TopicConfig {
            endpoint: String::new(),
            topic: "clicks".into(),
            partitions: 1,
            replication: 1,
            retention: Duration::from_secs(100),
            partition_bytes: 1 << 30,
            compression: Compression::Lz4,
            tls: Tls::Off,
            local_addresses: false,
        };
        let part = TopicPart { generation: generation("one"), number: 0 };
        TopicPartition::new(Cluster { config: Arc::new(config) }, TopicHealth::default(), part, present)
    }

    fn generation(id: &str) -> Arc<Generation> {
        Arc::new(Generation { topic: "clicks".into(), id: id.into(), partitions: 1 })
    }

    /// What a broker is about to send, in place of a connection.
    fn pulling(partition: &mut TopicPartition) -> mpsc::Sender<Pulled> {
        let (out, incoming) = mpsc::channel(AHEAD);
        let heard = partition.end.subscribe();
        partition.pulling = Some(Pulling { incoming, heard, task: tokio::spawn(std::future::pending()) });
        out
    }

    #[tokio::test]
    async fn records_are_read_on_when_nobody_looks_for_generations_any_more() {
        let (present, follow) = watch::channel(Some(generation("one")));
        let mut partition = partition(follow);
        let broker = pulling(&mut partition);
        drop(present);
        let send = async {
            // not before the reading waits for it
            tokio::task::yield_now().await;
            broker.send(Pulled { records: vec![(0, Bytes::new())] }).await.unwrap();
        };
        let (read, ()) = tokio::join!(tokio::time::timeout(Duration::from_secs(30), partition.read(0, 1)), send);
        assert_eq!(read.expect("nothing is read").unwrap().len(), 1);
    }

    #[tokio::test]
    async fn another_generation_ends_the_reading() {
        let (present, follow) = watch::channel(Some(generation("one")));
        let mut partition = partition(follow);
        let _broker = pulling(&mut partition);
        let renew = async {
            tokio::task::yield_now().await;
            present.send_replace(Some(generation("two")));
        };
        let (read, ()) = tokio::join!(partition.read(0, 1), renew);
        assert!(read.unwrap().is_empty() && partition.is_sealed());
    }
}
