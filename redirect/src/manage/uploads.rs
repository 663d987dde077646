//! Uploads of edge logs (interface §3): a body streamed into staging, and a place in the queue.
//!
//! ```text
//! body ──parts──► UploadStore (the lake's storage)
//!   └──SHA-256──► identity ──► queue: new ──► 202    known ──► 202 with the first id, what was staged goes again
//! ```
//! A body is never held in memory as a whole. What was staged of one that breaks off is removed, whoever broke off.

use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, EXPECT, LOCATION, RETRY_AFTER};
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt as _;
use ingest::edge::{Format, IdMode};
use ingest::ports::PortError;
use ingest::queue::{QueuedLog, Stage, Terms, Way};
use schemas::{Principal, Scope, UtcMicros};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, timeout, timeout_at};

use super::Manage;
use super::auth::Caller;
use super::input::{Code, Params};
use super::links::workspace;
use super::problem::Problem;
use super::staged::Staged;
use crate::links::Enqueued;

/// A staged object's parts have this size: what an upload takes of memory.
const PART_BYTES: usize = 4 << 20;
/// A client may be silent for so long.
const IDLE: Duration = Duration::from_secs(30);
/// A part must come within this, however slowly; staging younger than this may still be in use.
const PART_WITHIN: Duration = Duration::from_secs(600);
/// What is read and thrown away of a body that is refused, so that its sender gets to read why.
const DRAINED_BYTES: u64 = 64 << 20;
const DRAIN_WITHIN: Duration = Duration::from_secs(5);
/// The longest name of a file, the longest of a source.
const MOST_NAME_BYTES: usize = 1_024;
const MOST_SOURCE_BYTES: usize = 256;
/// What is said to whoever sends what is there already.
const KNOWN: &str = "the same bytes came before, and are not read again: other options have no effect";
/// A workspace that stands for all of them.
const EVERY: &str = "*";

/// `POST /v1/edge-logs`
pub(super) async fn create(
    State(manage): State<Manage>,
    caller: Caller,
    params: Params,
    request: Request,
) -> Result<Response, Problem> {
    let principal = caller.with(Scope::Write)?;
    let (headers, mut body) = (request.headers().clone(), request.into_body());
    match accept(&manage, principal, params, &headers, &mut body).await {
        Ok(answer) => Ok(answer),
        Err(problem) => {
            if !headers.contains_key(EXPECT) {
                drain(body).await;
            }
            Err(problem)
        }
    }
}

/// `GET /v1/edge-logs/{id}`
pub(super) async fn get(
    State(manage): State<Manage>,
    caller: Caller,
    Code(id): Code,
    params: Params,
) -> Result<Json<Value>, Problem> {
    let principal = caller.with(Scope::Read)?;
    params.finish()?;
    let uploads = &manage.uploads;
    let sees = |log: &QueuedLog| principal.workspace.is_none() || principal.workspace == log.terms.workspace;
    let summary = match manage.store.queued_log(&id).await? {
        Some(log) if sees(&log) => Some(uploads.store.summary(&log).await.map_err(|error| unavailable(&error))?),
        // taken in by another way, or so long ago that the queue has forgotten it
        None => {
            let import = uploads.store.import(&id, principal.workspace.as_deref()).await;
            import.map_err(|error| unavailable(&error))?
        }
        _ => None,
    };
    let detail = format!("there is no edge log {id:?}");
    summary.map(Json).ok_or_else(|| Problem::new(StatusCode::NOT_FOUND, "no-such-log", "No such edge log", detail))
}

async fn accept(
    manage: &Manage,
    principal: &Principal,
    mut params: Params,
    headers: &HeaderMap,
    body: &mut Body,
) -> Result<Response, Problem> {
    let terms = terms(manage, principal, &mut params).await?;
    let name = params.text("name").unwrap_or_else(|| "upload".to_owned());
    check_text(&mut params, "name", &name, MOST_NAME_BYTES);
    params.finish()?;
    let most = manage.config.max_upload;
    let announced = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|bytes| bytes > most) {
        return Err(too_large(most));
    }
    let _place = manage.uploads.places.take(terms.workspace.as_deref().unwrap_or(EVERY))?;
    let mut staged = Staged::new(std::sync::Arc::clone(&manage.uploads.store));
    let (sha256, size) = receive(body, &mut staged, most).await?;
    enqueue(manage, terms, name, staged, &sha256, size).await
}

/// What the parameters say of how the log is to be taken in.
async fn terms(manage: &Manage, principal: &Principal, params: &mut Params) -> Result<Terms, Problem> {
    let named = params.text("workspace");
    let every = principal.workspace.is_none() && named.as_deref() == Some(EVERY);
    let workspace = if every {
        None
    } else {
        let named = workspace(manage, principal, named, None).await?;
        Some(named.unwrap_or_else(|| principal.acts_for().to_owned()))
    };
    let format = match params.text("format").as_deref() {
        None | Some("auto") => None,
        Some(word) => match word.parse::<Format>() {
            Ok(format) => Some(format),
            Err(error) => {
                params.wrong("format", &error.to_string());
                None
            }
        },
    };
    let id = match params.text("id").map(|word| word.parse::<IdMode>()) {
        None => IdMode::Auto,
        Some(Ok(id)) => id,
        Some(Err(message)) => {
            params.wrong("id", &message);
            IdMode::Auto
        }
    };
    let keep_unknown = match params.text("unknown_codes").as_deref() {
        None | Some("ignore") => false,
        Some("keep") if every => true,
        Some("keep") => {
            params.wrong("unknown_codes", "keep is for an operator's upload with workspace=*; expected ignore");
            false
        }
        Some(_) => {
            params.wrong("unknown_codes", "expected keep or ignore");
            false
        }
    };
    let source = params.text("source");
    if let Some(source) = &source {
        check_text(params, "source", source, MOST_SOURCE_BYTES);
    }
    Ok(Terms { workspace, format, id, keep_unknown, source })
}

fn check_text(params: &mut Params, field: &str, text: &str, most: usize) {
    if text.is_empty() || text.len() > most || text.chars().any(char::is_control) {
        params.wrong(field, &format!("must have 1 to {most} bytes and no control characters"));
    }
}

/// Streams the body into staging. Returns its hash and size.
async fn receive(body: &mut Body, staged: &mut Staged, most: u64) -> Result<([u8; 32], u64), Problem> {
    let (mut hash, mut size, mut buffer) = (Sha256::new(), 0u64, BytesMut::new());
    let mut part_until = Instant::now() + PART_WITHIN;
    while let Some(bytes) = next(body, part_until).await? {
        size += bytes.len() as u64;
        if size > most {
            return Err(too_large(most));
        }
        hash.update(&bytes);
        buffer.extend_from_slice(&bytes);
        while buffer.len() >= PART_BYTES {
            keep(staged, buffer.split_to(PART_BYTES).freeze()).await?;
            part_until = Instant::now() + PART_WITHIN;
        }
    }
    if size == 0 {
        let detail = "the body must be the log, plain, gzip or zstd";
        return Err(Problem::new(StatusCode::BAD_REQUEST, "empty-body", "Empty body", detail));
    }
    if !buffer.is_empty() {
        keep(staged, buffer.freeze()).await?;
    }
    Ok((hash.finalize().into(), size))
}

async fn next(body: &mut Body, until: Instant) -> Result<Option<Bytes>, Problem> {
    loop {
        let frame = match timeout_at(until, timeout(IDLE, body.frame())).await {
            Ok(Ok(frame)) => frame,
            Ok(Err(_)) | Err(_) => {
                let detail = "the body took too long to come";
                return Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "body-too-slow", "Body too slow", detail));
            }
        };
        match frame {
            None => return Ok(None),
            Some(Err(error)) => {
                let detail = format!("the body broke off: {error}");
                return Err(Problem::new(StatusCode::BAD_REQUEST, "broken-body", "Broken body", detail));
            }
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
        }
    }
}

async fn keep(staged: &mut Staged, part: Bytes) -> Result<(), Problem> {
    staged.keep(part).await.map_err(|error| unavailable(&error))
}

/// Queues what was staged, unless the same bytes are there already.
async fn enqueue(
    manage: &Manage,
    terms: Terms,
    name: String,
    mut staged: Staged,
    sha256: &[u8; 32],
    size: u64,
) -> Result<Response, Problem> {
    let uploads = &manage.uploads.store;
    let id = uploads.id_of(sha256, &terms);
    let known = manage.store.queued_log(&id).await?;
    let again = match known.map(|log| log.stage) {
        Some(Stage::Done) => uploads.may_come_again(&id).await.map_err(|error| unavailable(&error))?,
        _ => false,
    };
    let log = QueuedLog {
        id: id.clone(),
        way: Way::Upload,
        name,
        terms,
        object: staged.object().to_owned(),
        parts: staged.parts(),
        size,
        tag: sha256.iter().map(|byte| format!("{byte:02x}")).collect(),
        stage: Stage::Queued,
        tries: 0,
        summary: None,
        error: None,
        queued_at: UtcMicros::now(),
    };
    let mut note = None;
    let stage = match manage.store.enqueue(&log, again).await? {
        Enqueued::Known(stage) => {
            note = Some(KNOWN);
            stage
        }
        Enqueued::New => {
            staged.hand_over();
            Stage::Queued
        }
        Enqueued::Again { object, parts } => {
            staged.hand_over();
            if let Err(error) = uploads.remove(&object, parts).await {
                tracing::warn!(%error, object, "a staged log that is of no more use can't be removed now");
            }
            Stage::Queued
        }
    };
    let location = format!("/v1/edge-logs/{id}");
    let mut told = json!({"id": id, "state": stage.as_str()});
    if let Some(note) = note {
        told["note"] = note.into();
    }
    Ok((StatusCode::ACCEPTED, [(LOCATION, location)], Json(told)).into_response())
}

/// Reads on for a while: a client that sends without listening would else find its connection cut before the answer.
async fn drain(mut body: Body) {
    let reading = async {
        let mut left = DRAINED_BYTES;
        while let Some(Ok(frame)) = body.frame().await {
            left = left.saturating_sub(frame.data_ref().map_or(0, |data| data.len() as u64));
            if left == 0 {
                return;
            }
        }
    };
    // whoever sends more slowly, or without end, is cut off
    let _drained = timeout(DRAIN_WITHIN, reading).await;
}

fn too_large(most: u64) -> Problem {
    let detail = format!("an upload has at most {most} bytes; pack the log with gzip or zstd, or split it");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "body-too-large", "Body too large", detail)
}

fn unavailable(error: &PortError) -> Problem {
    tracing::error!(%error, "the lake failed an upload");
    let detail = "the lake's storage doesn't answer; try again";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", "Not available now", detail).with(RETRY_AFTER, "5")
}
