//! The port of an SPU: produce, offsets, streams.
//!
//! Requests of a connection are answered in their order, one after another, as by the real one; streams go on beside
//! them.

use std::collections::BTreeMap;
use std::io::Result;
use std::sync::Arc;

use fluvio_protocol::api::{Request, RequestHeader};
use fluvio_protocol::link::ErrorCode;
use fluvio_protocol::record::ReplicaKey;
use fluvio_protocol::types::SpuId;
use fluvio_spu_schema::fetch::FetchablePartitionResponse;
use fluvio_spu_schema::produce::DefaultProduceRequest;
use fluvio_spu_schema::server::consumer_offset::{
    DeleteConsumerOffsetResponse, FetchConsumerOffsetsRequest, FetchConsumerOffsetsResponse,
    UpdateConsumerOffsetRequest, UpdateConsumerOffsetResponse,
};
use fluvio_spu_schema::server::fetch_offset::{
    FetchOffsetPartitionResponse, FetchOffsetTopicResponse, FetchOffsetsRequest, FetchOffsetsResponse,
};
use fluvio_spu_schema::server::stream_fetch::{DefaultStreamFetchRequest, FileStreamFetchRequest, StreamFetchResponse};
use fluvio_spu_schema::server::update_offset::{OffsetUpdateStatus, UpdateOffsetsRequest, UpdateOffsetsResponse};
use fluvio_spu_schema::server::{SpuServerApiKey, SpuServerRequest};
use tokio::sync::{mpsc, watch};

use super::broker::Broker;
use super::produce::produce;
use super::stream::{Bytes, Stream};
use super::tls::Socket;
use super::wire::{Answers, Requests, Running, converse, versions};

/// A stream that has been opened on this connection.
struct Session {
    key: ReplicaKey,
    consumer: Option<String>,
    acknowledged: watch::Sender<Option<i64>>,
}

/// One connection.
struct Connection {
    broker: Arc<Broker>,
    spu: SpuId,
    answers: Answers,
    open: mpsc::Sender<Running>,
    sessions: BTreeMap<u32, Session>,
}

/// Serves a connection.
///
/// # Errors
/// When the client has left, or sent what is no request.
pub(super) async fn serve(broker: Arc<Broker>, spu: SpuId, socket: Socket) -> Result<()> {
    broker.counters.data_connections.add(1);
    converse(socket, |mut requests: Requests, answers, open| async move {
        let mut connection = Connection { broker, spu, answers, open, sessions: BTreeMap::new() };
        while let Some(request) = requests.next().await? {
            connection.broker.not_stalled().await;
            if !connection.handle(request).await? {
                break;
            }
        }
        Ok(())
    })
    .await
}

impl Connection {
    /// Whether the connection goes on.
    async fn handle(&mut self, request: SpuServerRequest) -> Result<bool> {
        use SpuServerRequest as Asked;
        match request {
            Asked::ApiVersionsRequest(asked) => self.answers.send(&asked.header, api_versions()?).await?,
            Asked::ProduceRequest(asked) => match produce(&self.broker, self.spu, asked.request).await {
                Some(answer) => self.answers.send(&asked.header, answer).await?,
                None => return Ok(false),
            },
            Asked::FetchOffsetsRequest(asked) => {
                self.answers.send(&asked.header, self.offsets(&asked.request)).await?;
            }
            Asked::FileStreamFetchRequest(asked) => self.stream(asked.header, asked.request).await?,
            Asked::UpdateOffsetsRequest(asked) => {
                self.answers.send(&asked.header, self.acknowledge(&asked.request)).await?;
            }
            Asked::UpdateConsumerOffsetRequest(asked) => {
                self.answers.send(&asked.header, self.store_offset(&asked.request)).await?;
            }
            Asked::FetchConsumerOffsetsRequest(asked) => {
                self.answers.send(&asked.header, self.stored_offsets(&asked.request)).await?;
            }
            Asked::DeleteConsumerOffsetRequest(asked) => {
                let error_code = ErrorCode::Other("the stand-in keeps consumers' offsets".to_owned());
                self.answers.send(&asked.header, DeleteConsumerOffsetResponse { error_code }).await?;
            }
            Asked::FileFetchRequest(_) | Asked::StartMirrorRequest(_) => return Ok(false),
        }
        Ok(true)
    }

    fn offsets(&self, request: &FetchOffsetsRequest) -> FetchOffsetsResponse {
        let of = |topic: &str, partition_index| match self.broker.store.partition(topic, partition_index) {
            Some(partition) if partition.is_led_by(self.spu) => {
                let (start_offset, last_stable_offset, _) = partition.extent();
                let error_code = ErrorCode::None;
                FetchOffsetPartitionResponse { error_code, partition_index, start_offset, last_stable_offset }
            }
            _ => {
                let error_code = ErrorCode::PartitionNotLeader;
                FetchOffsetPartitionResponse { error_code, partition_index, ..Default::default() }
            }
        };
        let topics = request.topics.iter().map(|topic| FetchOffsetTopicResponse {
            name: topic.name.clone(),
            partitions: topic.partitions.iter().map(|asked| of(&topic.name, asked.partition_index)).collect(),
        });
        FetchOffsetsResponse { topics: topics.collect() }
    }

    async fn stream(&mut self, header: RequestHeader, request: FileStreamFetchRequest) -> Result<()> {
        let partition = self.broker.store.partition(&request.topic, request.partition);
        let Some(partition) = partition.filter(|partition| partition.is_led_by(self.spu)) else {
            let partition = FetchablePartitionResponse::<Bytes> {
                partition_index: request.partition,
                error_code: ErrorCode::NotLeaderForPartition,
                ..Default::default()
            };
            return self
                .answers
                .send(&header, StreamFetchResponse { topic: request.topic, stream_id: 0, partition })
                .await;
        };
        self.broker.counters.streams.add(1);
        let id = self.sessions.len() as u32 + 1;
        let (acknowledged, receiver) = watch::channel(None);
        let key = partition.key.clone();
        self.sessions.insert(id, Session { key, consumer: request.consumer_id, acknowledged });
        let stream = Stream {
            header,
            id,
            spu: self.spu,
            partition,
            next: request.fetch_offset,
            max_bytes: usize::try_from(request.max_bytes).unwrap_or_default(),
            acknowledged: receiver,
        };
        let running = stream.run(Arc::clone(&self.broker), self.answers.clone());
        // it can't be closed: whoever receives ends with this connection
        let _closed = self.open.send(Box::pin(running)).await;
        Ok(())
    }

    fn acknowledge(&self, request: &UpdateOffsetsRequest) -> UpdateOffsetsResponse {
        let status = request.offsets.iter().map(|update| {
            let session = self.sessions.get(&update.session_id);
            let error = match session {
                Some(session) => {
                    session.acknowledged.send_replace(Some(update.offset));
                    ErrorCode::None
                }
                None => ErrorCode::FetchSessionNotFoud,
            };
            OffsetUpdateStatus { session_id: update.session_id, error }
        });
        UpdateOffsetsResponse { status: status.collect() }
    }

    fn store_offset(&self, request: &UpdateConsumerOffsetRequest) -> UpdateConsumerOffsetResponse {
        let stored = match self.sessions.get(&request.session_id) {
            Some(Session { key, consumer: Some(consumer), .. }) => {
                let stored = self.broker.store.store_offset(key, consumer, request.offset);
                stored.map_err(|error| ErrorCode::Other(format!("{error:#}")))
            }
            Some(_) => Err(ErrorCode::Other("stream without consumer id".to_owned())),
            None => Err(ErrorCode::FetchSessionNotFoud),
        };
        match stored {
            Ok(()) => UpdateConsumerOffsetResponse { offset: request.offset, error_code: ErrorCode::None },
            Err(error_code) => UpdateConsumerOffsetResponse { offset: 0, error_code },
        }
    }

    fn stored_offsets(&self, request: &FetchConsumerOffsetsRequest) -> FetchConsumerOffsetsResponse {
        let mut consumers = self.broker.store.stored_offsets();
        if let Some(wanted) = &request.filter_opts {
            consumers.retain(|stored| {
                wanted.replica_id.as_ref().is_none_or(|key| *key == stored.replica_id)
                    && wanted.consumer_id.as_ref().is_none_or(|consumer| *consumer == stored.consumer_id)
            });
        }
        FetchConsumerOffsetsResponse { error_code: ErrorCode::None, consumers }
    }
}

fn api_versions() -> Result<fluvio_spu_schema::ApiVersionsResponse> {
    versions(&[
        (
            SpuServerApiKey::Produce as i16,
            DefaultProduceRequest::MIN_API_VERSION,
            DefaultProduceRequest::MAX_API_VERSION,
        ),
        (
            SpuServerApiKey::FetchOffsets as i16,
            FetchOffsetsRequest::DEFAULT_API_VERSION,
            FetchOffsetsRequest::DEFAULT_API_VERSION,
        ),
        (SpuServerApiKey::StreamFetch as i16, 0, DefaultStreamFetchRequest::DEFAULT_API_VERSION),
        (SpuServerApiKey::UpdateOffsets as i16, 0, UpdateOffsetsRequest::DEFAULT_API_VERSION),
    ])
}
