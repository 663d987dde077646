//! The port of the controller: topics are made, removed and listed, and clients are told of changes.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io::{Error, Result};
use std::sync::Arc;
use std::time::Duration;

use fluvio_protocol::api::{Request, RequestHeader};
use fluvio_protocol::link::ErrorCode;
use fluvio_protocol::{Decoder, Encoder};
use fluvio_sc_schema::message::Message;
use fluvio_sc_schema::objects::{
    CreateRequest, DeleteRequest, ListRequest, ListResponse, Metadata, MetadataUpdate, ObjectApiCreateRequest,
    ObjectApiDeleteRequest, ObjectApiListRequest, ObjectApiListResponse, ObjectApiWatchRequest, ObjectApiWatchResponse,
    WatchRequest, WatchResponse,
};
use fluvio_sc_schema::partition::PartitionSpec;
use fluvio_sc_schema::spu::SpuSpec;
use fluvio_sc_schema::store::KeyFilter;
use fluvio_sc_schema::topic::TopicSpec;
use fluvio_sc_schema::{AdminPublicApiKey, AdminPublicDecodedRequest, AdminSpec, Status, TryEncodableFrom};
use tokio::sync::mpsc;

use super::broker::Broker;
use super::metadata;
use super::tls::Socket;
use super::wire::{Answers, Requests, Running, converse, versions};

/// How long whoever makes a topic waits for SPUs that its partitions can be placed on, as at the real controller.
const PLACED_WITHIN: Duration = Duration::from_secs(90);

/// Serves a connection.
///
/// # Errors
/// When the client has left, or sent what is no request that is answered.
pub(super) async fn serve(broker: Arc<Broker>, socket: Socket) -> Result<()> {
    broker.counters.controller_connections.add(1);
    converse(socket, |mut requests: Requests, answers, open| async move {
        while let Some(request) = requests.next().await? {
            handle(&broker, &answers, &open, request).await?;
        }
        Ok(())
    })
    .await
}

async fn handle(
    broker: &Arc<Broker>,
    answers: &Answers,
    open: &mpsc::Sender<Running>,
    request: AdminPublicDecodedRequest,
) -> Result<()> {
    use AdminPublicDecodedRequest as Asked;
    match request {
        Asked::ApiVersionsRequest(asked) => answers.send(&asked.header, api_versions()?).await,
        Asked::CreateRequest(asked) => answers.send(&asked.header, create(broker, &asked.request).await).await,
        Asked::DeleteRequest(asked) => answers.send(&asked.header, delete(broker, &asked.request)).await,
        Asked::ListRequest(asked) => {
            let list = list(broker, &asked.request, asked.header.api_version()).map_err(Error::other)?;
            answers.send(&asked.header, list).await
        }
        Asked::WatchRequest(asked) => {
            let running = watch(broker, answers, &asked.header, &asked.request).map_err(Error::other)?;
            // it can't be closed: whoever receives ends with this connection
            let _closed = open.send(running).await;
            Ok(())
        }
        Asked::MirroringRequest(_) | Asked::UpdateRequest(_) => Err(Error::other("the stand-in can't do that")),
    }
}

/// Makes a topic, and answers when its partitions have been placed, or won't be.
async fn create(broker: &Broker, request: &ObjectApiCreateRequest) -> Status {
    let topic: anyhow::Result<Option<CreateRequest<TopicSpec>>> = request.downcast();
    let Ok(Some(topic)) = topic else {
        return Status::new(String::new(), ErrorCode::InvalidCreateRequest, None);
    };
    let (common, spec) = topic.parts();
    if let Err((code, message)) = broker.create(&common.name, &spec, common.dry_run) {
        return Status::new(common.name, code, Some(message));
    }
    if broker.store.topic(&common.name).is_none_or(|topic| !topic.partitions.is_empty()) {
        return Status::new_ok(common.name);
    }
    tokio::time::sleep(PLACED_WITHIN).await;
    let message = format!("only 0 out of {} provisioned", spec.partitions());
    Status::new(common.name, ErrorCode::TopicNotProvisioned, Some(message))
}

fn delete(broker: &Broker, request: &ObjectApiDeleteRequest) -> Status {
    let topic: anyhow::Result<Option<DeleteRequest<TopicSpec>>> = request.downcast();
    let Ok(Some(topic)) = topic else {
        return Status::new(String::new(), ErrorCode::InvalidDeleteRequest, None);
    };
    let is_forced = topic.is_force();
    let name = topic.key();
    if broker.store.topic(&name).is_some_and(|topic| topic.spec.is_system()) && !is_forced {
        let code = ErrorCode::SystemSpecDeletionAttempt { kind: "topic".to_owned(), name: name.clone() };
        return Status::new(name, code, None);
    }
    match broker.store.delete(&name) {
        Ok(true) => Status::new_ok(name),
        Ok(false) => Status::new(name, ErrorCode::TopicNotFound, Some("not found".to_owned())),
        Err(error) => Status::new(name, ErrorCode::TopicError, Some(format!("{error:#}"))),
    }
}

fn list(broker: &Broker, request: &ObjectApiListRequest, version: i16) -> anyhow::Result<ObjectApiListResponse> {
    if let Some(wanted) = request.downcast()? as Option<ListRequest<TopicSpec>> {
        let mut topics = metadata::topics(broker);
        topics.retain(|topic| wanted.name_filters.filter(&topic.name) && topic.spec.is_system() == wanted.system);
        ObjectApiListResponse::try_encode_from(ListResponse::new(topics), version)
    } else if let Some(wanted) = request.downcast()? as Option<ListRequest<PartitionSpec>> {
        let mut partitions = metadata::partitions(broker);
        partitions.retain(|one| wanted.name_filters.filter(&one.name) && one.spec.system == wanted.system);
        ObjectApiListResponse::try_encode_from(ListResponse::new(partitions), version)
    } else if let Some(wanted) = request.downcast()? as Option<ListRequest<SpuSpec>> {
        let mut spus = metadata::spus(broker);
        spus.retain(|spu| wanted.name_filters.filter(&spu.name));
        ObjectApiListResponse::try_encode_from(ListResponse::new(spus), version)
    } else {
        anyhow::bail!("the stand-in lists topics, partitions and SPUs")
    }
}

fn watch(
    broker: &Arc<Broker>,
    answers: &Answers,
    header: &RequestHeader,
    request: &ObjectApiWatchRequest,
) -> anyhow::Result<Running> {
    let (broker, answers, header) = (Arc::clone(broker), answers.clone(), header.clone());
    Ok(if (request.downcast()? as Option<WatchRequest<TopicSpec>>).is_some() {
        Box::pin(tell(broker, answers, header, metadata::topics))
    } else if (request.downcast()? as Option<WatchRequest<PartitionSpec>>).is_some() {
        Box::pin(tell(broker, answers, header, metadata::partitions))
    } else if (request.downcast()? as Option<WatchRequest<SpuSpec>>).is_some() {
        Box::pin(tell(broker, answers, header, metadata::spus))
    } else {
        anyhow::bail!("the stand-in has topics, partitions and SPUs to watch")
    })
}

/// Tells all objects of a kind, and then what has changed whenever something has.
async fn tell<S>(
    broker: Arc<Broker>,
    answers: Answers,
    header: RequestHeader,
    all: fn(&Broker) -> Vec<Metadata<S>>,
) -> Result<()>
where
    S: AdminSpec + Send + Sync + 'static,
    S::Status: Encoder + Decoder + Debug + Send + Sync,
{
    let mut changed = broker.store.epoch.subscribe();
    let mut told: Option<BTreeMap<String, Metadata<S>>> = None;
    loop {
        let epoch = *changed.borrow_and_update();
        let objects = all(&broker);
        let known = objects.iter().map(|object| (object.name.clone(), object.clone())).collect();
        let update = match told.replace(known) {
            None => MetadataUpdate::with_all(epoch, objects),
            Some(before) => {
                let is_there = |name: &String| objects.iter().any(|object| object.name == *name);
                let gone = before.into_iter().filter(|(name, _)| !is_there(name)).map(|(_, object)| object);
                let mut changes: Vec<_> = gone.map(Message::delete).collect();
                changes.extend(objects.into_iter().map(Message::update));
                MetadataUpdate::with_changes(epoch, changes)
            }
        };
        let answer = ObjectApiWatchResponse::try_encode_from(WatchResponse::new(update), header.api_version());
        answers.send(&header, answer.map_err(Error::other)?).await?;
        changed.changed().await.map_err(Error::other)?;
    }
}

fn api_versions() -> Result<fluvio_spu_schema::ApiVersionsResponse> {
    fn range<R: Request>(key: AdminPublicApiKey) -> (i16, i16, i16) {
        (key as i16, R::MIN_API_VERSION, R::MAX_API_VERSION)
    }
    versions(&[
        range::<ObjectApiCreateRequest>(AdminPublicApiKey::Create),
        range::<ObjectApiDeleteRequest>(AdminPublicApiKey::Delete),
        range::<ObjectApiListRequest>(AdminPublicApiKey::List),
        range::<ObjectApiWatchRequest>(AdminPublicApiKey::Watch),
    ])
}
