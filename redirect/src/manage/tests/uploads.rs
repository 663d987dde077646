//! Uploads: what is kept of them, and what of those that are refused or break off.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use axum::body::Body;
use bytes::Bytes;
use futures::StreamExt as _;
use ingest::ports::PortError;
use ingest::queue::{QueuedLog, Stage, Terms, UploadStore, Way};
use sha2::{Digest as _, Sha256};

use super::*;

/// Staging in memory, and a lake that has taken nothing in.
#[derive(Debug, Default)]
pub(super) struct InMemory {
    parts: Mutex<BTreeMap<(String, u32), Bytes>>,
    reverted: AtomicBool,
    broken: AtomicBool,
}

impl InMemory {
    fn objects(&self) -> Vec<usize> {
        let mut sizes = BTreeMap::<String, usize>::new();
        for ((object, _), bytes) in self.parts.lock().unwrap().iter() {
            *sizes.entry(object.clone()).or_default() += bytes.len();
        }
        sizes.into_values().collect()
    }

    /// Waits until what broke off is removed.
    async fn settled(&self, objects: &[usize]) {
        for _ in 0..1_000 {
            if self.objects() == objects {
                return;
            }
            tokio::task::yield_now().await;
        }
        assert_eq!(self.objects(), objects);
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[async_trait]
impl UploadStore for InMemory {
    async fn keep(&self, object: &str, part: u32, bytes: Bytes) -> Result<(), PortError> {
        if self.broken.load(Ordering::Relaxed) {
            return Err(PortError { doing: "staging", source: "the disk is full".into() });
        }
        self.parts.lock().unwrap().insert((object.to_owned(), part), bytes);
        Ok(())
    }
    async fn remove(&self, object: &str, parts: u32) -> Result<(), PortError> {
        self.parts.lock().unwrap().retain(|(name, part), _| name != object || *part >= parts);
        Ok(())
    }
    fn id_of(&self, sha256: &[u8; 32], terms: &Terms) -> String {
        let workspace = terms.workspace.clone().unwrap_or_default();
        hex(&Sha256::digest([&sha256[..], workspace.as_bytes()].concat()))[..32].to_owned()
    }
    async fn may_come_again(&self, _: &str) -> Result<bool, PortError> {
        Ok(self.reverted.load(Ordering::Relaxed))
    }
    async fn summary(&self, log: &QueuedLog) -> Result<Value, PortError> {
        Ok(
            json!({"id": log.id, "state": log.stage.as_str(), "name": log.name, "format": log.terms.format.map(|f| f.to_string())}),
        )
    }
    async fn import(&self, id: &str, workspace: Option<&str>) -> Result<Option<Value>, PortError> {
        let is_theirs = match id {
            "backfilled" => workspace.is_none(),
            "forgotten" => workspace.is_none_or(|workspace| workspace == "acme"),
            _ => false,
        };
        Ok(is_theirs.then(|| json!({"id": id})))
    }
}

async fn upload(api: &Api, token: &str, query: &str, body: impl Into<Body>) -> Answer {
    let uri = format!("/v1/edge-logs{query}");
    let request = Request::builder().method("POST").uri(uri).header("authorization", format!("Bearer {token}"));
    api.send(request, body).await
}

async fn queued(api: &Api, answer: &Answer) -> QueuedLog {
    api.store.queued_log(answer.body["id"].as_str().unwrap()).await.unwrap().unwrap()
}

#[tokio::test]
async fn an_upload_is_staged_whole_and_queued() {
    let api = Api::new().await;
    let body = vec![7u8; 9 << 20];
    let answer = upload(&api, &api.write, "?format=nginx-json&name=a.log&source=cdn&id=trusted", body.clone()).await;
    assert_eq!((answer.status, &answer.body["state"]), (202, &json!("queued")), "{}", answer.body);
    let log = queued(&api, &answer).await;
    assert_eq!(answer.header(header::LOCATION), format!("/v1/edge-logs/{}", log.id));
    assert_eq!((log.way, log.name.as_str(), log.size, log.parts), (Way::Upload, "a.log", 9 << 20, 3));
    assert_eq!(log.tag, hex(&Sha256::digest(&body)));
    assert_eq!(log.terms.workspace.as_deref(), Some("default"));
    assert_eq!((log.terms.source.as_deref(), log.terms.keep_unknown), (Some("cdn"), false));
    let parts = api.uploads.parts.lock().unwrap().clone();
    assert_eq!(parts.into_values().collect::<Vec<_>>().concat(), body);

    let shown = api.get(&api.read, &format!("/v1/edge-logs/{}", log.id)).await;
    assert_eq!((shown.status, &shown.body["format"]), (200, &json!("nginx-json")));
}

#[tokio::test]
async fn the_same_bytes_again_are_the_first_upload_and_are_stored_once() {
    let api = Api::new().await;
    let first = upload(&api, &api.write, "?name=a", "log").await;
    let again = upload(&api, &api.write, "?name=b", "log").await;
    let (ids, states) = ([&again.body["id"], &first.body["id"]], [&again.body["state"], &first.body["state"]]);
    assert_eq!((again.status, ids[0], states[0]), (202, ids[1], states[1]));
    api.uploads.settled(&[3]).await;
    let others = upload(&api, &api.acme, "", "log").await;
    assert_ne!(others.body["id"], first.body["id"], "another workspace's import is another");
    assert_eq!(api.uploads.objects(), [3, 3]);

    // of one that is done nothing more is wanted, unless it was taken back
    let id = first.body["id"].as_str().unwrap();
    api.store.claim_log(Way::Upload, "me", UtcMicros::now(), Duration::ZERO).await.unwrap().unwrap();
    api.store.finish_log(id, "me", Ok("{}"), UtcMicros::now()).await.unwrap();
    let done = upload(&api, &api.write, "", "log").await;
    assert_eq!((done.status, &done.body["state"]), (202, &json!("done")));
    assert!(done.body["note"].as_str().is_some_and(|note| note.contains("not read again")), "{}", done.body);
    api.uploads.reverted.store(true, Ordering::Relaxed);
    let wanted = upload(&api, &api.write, "", "log").await;
    assert_eq!((wanted.status, &wanted.body["state"]), (202, &json!("queued")));
    assert!(wanted.body.get("note").is_none(), "{}", wanted.body);
    api.uploads.settled(&[3, 3]).await;
    assert_eq!(queued(&api, &wanted).await.stage, Stage::Queued);
}

#[tokio::test]
async fn a_tenant_sees_its_own_and_an_operator_all() {
    let api = Api::new().await;
    let mine = upload(&api, &api.write, "", "log").await;
    let path = format!("/v1/edge-logs/{}", mine.body["id"].as_str().unwrap());
    assert_eq!(api.get(&api.acme, &path).await.problem(404), Vec::<&str>::new());
    assert_eq!(api.get(&api.acme, "/v1/edge-logs/backfilled").await.status, 404);
    assert_eq!(api.get(&api.operator, &path).await.status, 200);
    assert_eq!(api.get(&api.operator, "/v1/edge-logs/backfilled").await.status, 200);
    assert_eq!(api.get(&api.operator, "/v1/edge-logs/nothing").await.status, 404);
    assert_eq!(api.get(&api.read, &path).await.status, 200);
    // of an upload that the queue has forgotten the lake tells
    let told = [&api.acme, &api.operator, &api.read].map(|token| api.get(token, "/v1/edge-logs/forgotten"));
    let told = futures::future::join_all(told).await;
    assert_eq!(told.iter().map(|answer| answer.status).collect::<Vec<_>>(), [200, 200, 404]);

    let every = upload(&api, &api.operator, "?workspace=*&unknown_codes=keep", "log").await;
    let log = queued(&api, &every).await;
    assert_eq!((log.terms.workspace, log.terms.keep_unknown), (None, true));
    let acted = queued(&api, &upload(&api, &api.operator, "", "log").await).await;
    assert_eq!(acted.terms.workspace.as_deref(), Some("default"));
    let named = queued(&api, &upload(&api, &api.operator, "?workspace=acme", "log").await).await;
    assert_eq!(named.terms.workspace.as_deref(), Some("acme"));
}

#[tokio::test]
async fn what_is_wrong_is_named_and_leaves_nothing() {
    let api = Api::new().await;
    for (query, field) in [
        ("?format=papyrus", "format"),
        ("?id=maybe", "id"),
        ("?unknown_codes=keep", "unknown_codes"),
        ("?name=", "name"),
        ("?source=%00", "source"),
        ("?nmae=x", "nmae"),
        ("?workspace=nobodys", "workspace"),
    ] {
        let answer = upload(&api, &api.operator, query, "log").await;
        assert_eq!(answer.problem(400), [field], "{query}");
    }
    assert!(upload(&api, &api.write, "?format=papyrus", "x").await.body.to_string().contains("nginx-json"));
    upload(&api, &api.write, "?workspace=*", "log").await.problem(403);
    upload(&api, &api.read, "", "log").await.problem(403);
    upload(&api, "hw_none", "", "log").await.problem(401);
    upload(&api, &api.write, "", "").await.problem(400);
    upload(&api, &api.write, "", vec![0; (16 << 20) + 1]).await.problem(413);
    let chunks = futures::stream::iter((0..20).map(|_| Ok::<_, std::io::Error>(Bytes::from(vec![0; 1 << 20]))));
    upload(&api, &api.write, "", Body::from_stream(chunks)).await.problem(413);
    api.uploads.settled(&[]).await;
    assert_eq!(api.store.queued_logs().await.unwrap(), 0);
}

#[tokio::test]
async fn an_upload_that_breaks_off_leaves_nothing() {
    let api = Api::new().await;
    let parts = [Ok(Bytes::from(vec![0; 5 << 20])), Err(std::io::Error::other("gone"))];
    upload(&api, &api.write, "", Body::from_stream(futures::stream::iter(parts))).await.problem(400);
    api.uploads.settled(&[]).await;

    // the client goes away: whoever serves it drops the request
    let begun = futures::stream::iter([Ok::<_, std::io::Error>(Bytes::from(vec![0; 5 << 20]))]);
    let body = Body::from_stream(begun.chain(futures::stream::pending()));
    let left = tokio::time::timeout(Duration::from_millis(200), upload(&api, &api.write, "", body)).await;
    assert!(left.is_err());
    api.uploads.settled(&[]).await;

    api.uploads.broken.store(true, Ordering::Relaxed);
    upload(&api, &api.write, "", "log").await.problem(503);
    api.uploads.settled(&[]).await;
}

#[tokio::test]
async fn a_workspace_has_so_many_uploads_at_once() {
    let api = Arc::new(Api::new().await);
    let (asked, mut bodies) = tokio::sync::mpsc::unbounded_channel();
    let mut under_way = tokio::task::JoinSet::new();
    for _ in 0..2 {
        let (api, asked) = (Arc::clone(&api), asked.clone());
        let silent = futures::stream::once(async move {
            asked.send(()).unwrap();
            std::future::pending::<Result<Bytes, std::io::Error>>().await
        });
        under_way.spawn(async move { upload(&api, &api.write, "", Body::from_stream(silent)).await.status });
    }
    // whose body is asked for has its place
    for _ in 0..2 {
        bodies.recv().await.unwrap();
    }
    let refused = upload(&api, &api.write, "", "log").await;
    refused.problem(429);
    assert_eq!(refused.header(header::RETRY_AFTER), "5");
    assert_eq!(upload(&api, &api.acme, "", "log").await.status, 202, "another workspace has its own");
    under_way.shutdown().await;
    assert_eq!(upload(&api, &api.write, "", "log").await.status, 202);
}
