//! The API called as over HTTP, without a socket.

mod allowed;
mod events;
mod uploads;
mod wrong;

use async_trait::async_trait;
use axum::body::Body;
use http::{Request, Response, header};
use http_body_util::BodyExt;
use ingest::ports::{EventPost, EventsTaken, IntakeError, PortError};
use schemas::{Scope, UtcMicros};
use serde_json::{Value, json};
use tower::ServiceExt;

use super::*;
use crate::links::testing;

const DESTINATION: &str = "https://example.com/page";

/// Takes in all that is posted but what says what is wrong with it, and tells in what it was told for whom it was.
#[derive(Debug)]
struct Taking;

#[async_trait]
impl EventIntake for Taking {
    async fn take_in(&self, post: EventPost) -> Result<EventsTaken, IntakeError> {
        match &post.body[..] {
            b"cut" => Err(IntakeError::Unreadable("it ends in the middle".into())),
            b"much" => Err(IntakeError::TooMuch("the body has too many lines".into())),
            b"down" => Err(IntakeError::Failed(PortError { doing: "committing", source: "a secret".into() })),
            body => {
                let told = format!("{} {} {}", post.workspace, post.naming.stand(), post.naming.provider());
                let rejected = vec![(3, if told == "default origin nginx" { "unknown_code" } else { "bad_json" })];
                Ok(EventsTaken { accepted: body.len() as u64, duplicates: told.len() as u64, rejected })
            }
        }
    }
}

/// The API on a store of its own, and a token of each kind.
struct Api {
    _dir: tempfile::TempDir,
    store: LinkStore,
    uploads: Arc<uploads::InMemory>,
    router: Router,
    read: String,
    write: String,
    acme: String,
    operator: String,
}

struct Answer {
    status: u16,
    headers: http::HeaderMap,
    body: Value,
}

impl Answer {
    async fn of(response: Response<Body>) -> Self {
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let body = if bytes.is_empty() { Value::Null } else { serde_json::from_slice(&bytes).unwrap() };
        Self { status: parts.status.as_u16(), headers: parts.headers, body }
    }

    fn header(&self, name: header::HeaderName) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The fields at fault, once it is sure that this is a proper problem of this status.
    fn problem(&self, status: u16) -> Vec<&str> {
        assert_eq!(self.status, status, "{}", self.body);
        assert_eq!(self.header(header::CONTENT_TYPE), "application/problem+json");
        assert_eq!(self.body["status"], status);
        for member in ["type", "title", "detail"] {
            assert!(self.body[member].as_str().is_some_and(|text| !text.is_empty()), "{member} in {}", self.body);
        }
        let errors = self.body["errors"].as_array().map(Vec::as_slice).unwrap_or_default();
        assert!(errors.iter().all(|error| error["message"].is_string()));
        errors.iter().map(|error| error["field"].as_str().unwrap()).collect()
    }
}

impl Api {
    async fn new() -> Self {
        let (dir, store) = testing::store().await;
        let now = UtcMicros::now();
        store.add_workspace("acme", now).await.unwrap();
        let token = async |workspace, scope| store.add_token(workspace, scope, now).await.unwrap().reveal().to_owned();
        let uploads = Arc::new(uploads::InMemory::default());
        let config = ManageConfig { max_upload: 16 << 20, max_uploads: 2, ..ManageConfig::default() };
        Self {
            _dir: dir,
            router: router(store.clone(), Arc::clone(&uploads) as _, Arc::new(Taking), config),
            uploads,
            read: token("default", Scope::Read).await,
            write: token("default", Scope::Write).await,
            acme: token("acme", Scope::Admin).await,
            operator: store.add_operator_token(now).await.unwrap().reveal().to_owned(),
            store,
        }
    }

    async fn send(&self, request: http::request::Builder, body: impl Into<Body>) -> Answer {
        let request = request.body(body.into()).unwrap();
        Answer::of(self.router.clone().oneshot(request).await.unwrap()).await
    }

    async fn call(&self, token: &str, method: &str, uri: &str, body: Value) -> Answer {
        let request = Request::builder().method(method).uri(uri).header("authorization", format!("Bearer {token}"));
        match body {
            Value::Null => self.send(request, Body::empty()).await,
            body => self.send(request.header("content-type", "application/json"), body.to_string()).await,
        }
    }

    async fn get(&self, token: &str, uri: &str) -> Answer {
        self.call(token, "GET", uri, Value::Null).await
    }

    async fn add(&self, token: &str, code: &str) -> Answer {
        self.call(token, "POST", "/v1/links", json!({"destination": DESTINATION, "code": code})).await
    }
}
