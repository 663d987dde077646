//! Events made elsewhere (interface §3): `POST /v1/events`.
//!
//! A body is read whole, within bounds, and handed to the pipeline; the answer comes when what it accepts is durable. So
//! whoever gets no answer sends the body again, and nothing counts twice.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Request, State};
use http::header::{CONTENT_ENCODING, RETRY_AFTER};
use http::{HeaderMap, StatusCode};
use ingest::events::{NO_PROVIDER, Naming, Stand};
use ingest::ports::{EventPost, IntakeError};
use schemas::Scope;
use serde::Serialize;

use super::Manage;
use super::auth::Caller;
use super::body;
use super::input::Params;
use super::links::workspace;
use super::problem::Problem;
use crate::listener::providers;

/// How long the pipeline may take.
const TAKEN_IN_WITHIN: Duration = Duration::from_secs(60);

/// What became of a body's lines.
#[derive(Debug, Serialize)]
pub(super) struct Answer {
    accepted: u64,
    duplicates: u64,
    rejected: Vec<Rejected>,
}

#[derive(Debug, Serialize)]
struct Rejected {
    line: u64,
    reason: &'static str,
}

/// `POST /v1/events`
pub(super) async fn post(
    State(manage): State<Manage>,
    caller: Caller,
    mut params: Params,
    request: Request,
) -> Result<Json<Answer>, Problem> {
    let principal = caller.with(Scope::Write)?;
    let stand = params.word::<Stand>("as").unwrap_or_default();
    let naming = naming_of(stand, params.text("provider").as_deref(), &manage.config.edge_provider);
    let naming = naming.map_err(|why| params.wrong("provider", &why)).ok();
    let workspace = workspace(&manage, principal, params.text("workspace"), None).await?;
    params.finish()?;
    let Some(naming) = naming else { return Err(Problem::field("provider", "is none that is known")) };
    let workspace = workspace.unwrap_or_else(|| principal.acts_for().to_owned());
    check_encoding(request.headers())?;
    let place = manage.event_places.take(&workspace)?;
    let body = body::read(request.into_body(), manage.config.max_events, manage.config.events_deadline).await?;
    let events = Arc::clone(&manage.events);
    // on its own, and with its place, so that a client who leaves doesn't make room for another one's work
    let work = tokio::spawn(async move {
        let taken = events.take_in(EventPost { workspace, naming, body }).await;
        drop(place);
        taken
    });
    match tokio::time::timeout(TAKEN_IN_WITHIN, work).await {
        Ok(Ok(Ok(taken))) => {
            let rejected = taken.rejected.into_iter().map(|(line, reason)| Rejected { line, reason }).collect();
            Ok(Json(Answer { accepted: taken.accepted, duplicates: taken.duplicates, rejected }))
        }
        Ok(Ok(Err(error))) => Err(problem(error)),
        Ok(Err(error)) => {
            tracing::error!(%error, "taking posted events in broke off");
            Err(again())
        }
        Err(_) => Err(again()),
    }
}

/// How events are known that stand for `stand`: the provider named with them, else the configured edge; of another
/// product's events any name will do.
///
/// # Errors
/// In words, what is wrong with the provider named.
pub fn naming_of(stand: Stand, named: Option<&str>, edge_provider: &str) -> Result<Naming, String> {
    let provider = match (stand, named) {
        (_, Some(named)) => named,
        (Stand::Origin, None) => edge_provider,
        (Stand::Import, None) => NO_PROVIDER,
    };
    if stand == Stand::Origin && provider != NO_PROVIDER && !providers().any(|known| known == provider) {
        let known: Vec<&str> = providers().collect();
        let known = known.join(", ");
        let other = "for clicks that another product has counted (as=import, or --as import) any name will do";
        return Err(format!("({provider:?}) must be one of {NO_PROVIDER}, {known}; {other}"));
    }
    Naming::new(stand, provider).map_err(|error| error.to_string())
}

/// How the body is packed is told by its first bytes; only what can't be unpacked here is refused by its name.
fn check_encoding(headers: &HeaderMap) -> Result<(), Problem> {
    let Some(encoding) = headers.get(CONTENT_ENCODING) else { return Ok(()) };
    let known = ["identity", "gzip", "x-gzip", "zstd"];
    if encoding.to_str().is_ok_and(|given| known.iter().any(|known| given.trim().eq_ignore_ascii_case(known))) {
        return Ok(());
    }
    let detail = "the body can be sent plain, or with \"Content-Encoding: gzip\" or \"zstd\"";
    Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unknown-encoding", "Unsupported encoding", detail))
}

fn problem(error: IntakeError) -> Problem {
    let detail = error.to_string();
    match error {
        IntakeError::Unreadable(_) => Problem::new(StatusCode::BAD_REQUEST, "bad-body", "Bad body", detail),
        IntakeError::TooMuch(_) => body::too_large(detail),
        IntakeError::Failed(error) => {
            tracing::error!(%error, "posted events can't be taken in");
            again()
        }
    }
}

fn again() -> Problem {
    let detail = "the lake doesn't answer; send the body again: what of it was taken in nevertheless won't count twice";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", "Not available now", detail).with(RETRY_AFTER, "1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_is_the_one_named_or_the_edge_in_front() {
        let name = |stand, named, edge| naming_of(stand, named, edge).map(|naming| naming.provider().to_string());
        assert_eq!(name(Stand::Origin, None, "nginx").unwrap(), "nginx");
        assert_eq!(name(Stand::Origin, Some("fastly"), "nginx").unwrap(), "fastly");
        assert_eq!(name(Stand::Origin, None, "none").unwrap(), "none");
        assert_eq!(name(Stand::Import, None, "nginx").unwrap(), "none");
        assert_eq!(name(Stand::Import, Some("bit.ly"), "nginx").unwrap(), "bit.ly");
        let error = name(Stand::Origin, Some("bit.ly"), "nginx").unwrap_err();
        assert!(
            error.contains("(\"bit.ly\") must be one of none, cloudfront") && error.contains("as=import"),
            "{error}"
        );
        assert!(name(Stand::Import, Some("a b"), "none").unwrap_err().contains("can't be a provider's name"));
    }
}
