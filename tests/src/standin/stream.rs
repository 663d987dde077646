//! A stream of a partition's batches to one consumer.
//!
//! One answer is on its way at a time: the next begins where the consumer says it has come to. As in the real broker
//! an answer's bytes are cut at `max_bytes`, wherever that is, and a stream whose partition got another leader falls
//! silent: it neither ends nor fails.

use std::future::pending;
use std::io::{Error, ErrorKind, Result};
use std::sync::Arc;

use fluvio_protocol::api::RequestHeader;
use fluvio_protocol::bytes::{Buf, BufMut};
use fluvio_protocol::link::ErrorCode;
use fluvio_protocol::types::SpuId;
use fluvio_protocol::{Decoder, Encoder, Version};
use fluvio_spu_schema::fetch::FetchablePartitionResponse;
use fluvio_spu_schema::server::stream_fetch::StreamFetchResponse;
use tokio::sync::watch;

use super::broker::Broker;
use super::partition::{Chunk, Partition};
use super::wire::Answers;

/// What a consumer has asked for.
#[derive(Debug)]
pub(super) struct Stream {
    /// The request's.
    pub(super) header: RequestHeader,
    /// Its name in the consumer's further requests.
    pub(super) id: u32,
    /// The SPU that was asked.
    pub(super) spu: SpuId,
    /// What is read.
    pub(super) partition: Arc<Partition>,
    /// The next offset.
    pub(super) next: i64,
    /// The longest answer.
    pub(super) max_bytes: usize,
    /// The offset that the consumer says it has come to, once it has said so.
    pub(super) acknowledged: watch::Receiver<Option<i64>>,
}

impl Stream {
    /// Sends until the partition is deleted or an offset isn't there.
    ///
    /// # Errors
    /// When the consumer has left.
    pub(super) async fn run(mut self, broker: Arc<Broker>, answers: Answers) -> Result<()> {
        let mut now = self.partition.now.subscribe();
        loop {
            broker.not_stalled().await;
            let current = *now.borrow_and_update();
            if current.is_deleted {
                return self.fail(&answers, ErrorCode::TopicDeleted).await;
            }
            if current.leader != Some(self.spu) {
                pending::<()>().await;
            }
            let whole = broker.knobs.borrow().whole_batches;
            match self.partition.read(self.next, self.max_bytes, whole) {
                Err(code) => return self.fail(&answers, code).await,
                Ok(None) => tokio::select! {
                    changed = now.changed() => changed.map_err(gone)?,
                    changed = self.acknowledged.changed() => changed.map_err(gone)?,
                },
                Ok(Some(chunk)) => {
                    self.send(&broker, &answers, chunk).await?;
                    tokio::select! {
                        changed = self.acknowledged.changed() => changed.map_err(gone)?,
                        deleted = now.wait_for(|now| now.is_deleted) => drop(deleted.map_err(gone)?),
                    }
                }
            }
            if let Some(offset) = *self.acknowledged.borrow_and_update() {
                self.next = offset;
            }
        }
    }

    async fn send(&self, broker: &Broker, answers: &Answers, chunk: Chunk) -> Result<()> {
        broker.counters.chunks.add(1);
        broker.counters.cut_chunks.add(usize::from(chunk.is_cut));
        broker.counters.bytes_sent.add(chunk.bytes.len());
        let (start, end, _) = self.partition.extent();
        let partition = FetchablePartitionResponse {
            partition_index: self.partition.key.partition,
            high_watermark: end,
            log_start_offset: start,
            records: Bytes(chunk.bytes),
            ..Default::default()
        };
        self.answer(answers, partition).await
    }

    async fn fail(&self, answers: &Answers, error_code: ErrorCode) -> Result<()> {
        let partition_index = self.partition.key.partition;
        self.answer(answers, FetchablePartitionResponse { partition_index, error_code, ..Default::default() }).await
    }

    async fn answer(&self, answers: &Answers, partition: FetchablePartitionResponse<Bytes>) -> Result<()> {
        let topic = self.partition.key.topic.clone();
        answers.send(&self.header, StreamFetchResponse { topic, stream_id: self.id, partition }).await
    }
}

fn gone<E>(_: E) -> Error {
    Error::new(ErrorKind::NotConnected, "the connection has ended")
}

/// Batches as bytes, whole or not.
#[derive(Debug, Default)]
pub(super) struct Bytes(Vec<u8>);

impl Encoder for Bytes {
    fn write_size(&self, _: Version) -> usize {
        4 + self.0.len()
    }

    fn encode<T: BufMut>(&self, into: &mut T, version: Version) -> Result<()> {
        i32::try_from(self.0.len())
            .map_err(|_| Error::new(ErrorKind::InvalidData, "too long"))?
            .encode(into, version)?;
        into.put_slice(&self.0);
        Ok(())
    }
}

impl Decoder for Bytes {
    fn decode<T: Buf>(&mut self, from: &mut T, version: Version) -> Result<()> {
        let mut length = 0_i32;
        length.decode(from, version)?;
        let length = usize::try_from(length).ok().filter(|length| *length <= from.remaining());
        let length = length.ok_or_else(|| Error::new(ErrorKind::UnexpectedEof, "batches are missing"))?;
        self.0 = from.copy_to_bytes(length).to_vec();
        Ok(())
    }
}
