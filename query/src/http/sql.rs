//! `POST /v1/sql`.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use futures::TryStreamExt;
use serde::Deserialize;

use super::accept::negotiate;
use super::{Caller, Problem};
use crate::error::QueryError;
use crate::service::QueryService;
use crate::sql::{Format, SqlAnswer};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Question {
    sql: String,
}

pub(super) async fn sql(
    State(service): State<QueryService>,
    caller: Caller,
    headers: HeaderMap,
    question: Result<Json<Question>, JsonRejection>,
) -> Result<Response, Problem> {
    let format = negotiate(&headers, Format::OFFERED)?;
    let Json(question) = question.map_err(|rejection| match rejection {
        JsonRejection::JsonDataError(wrong) => {
            QueryError::field("sql", format!("expected {{\"sql\": \"SELECT …\"}}: {}", wrong.body_text())).into()
        }
        other => Problem::new(other.status(), other.body_text()),
    })?;
    let body = match service.sql(&caller.0, &question.sql, format).await? {
        SqlAnswer::Whole(bytes) => Body::from(bytes),
        SqlAnswer::Stream(stream) => Body::from_stream(stream.inspect_err(|error| {
            tracing::warn!(%error, "an answer was cut off");
        })),
    };
    let headers = [(header::CONTENT_TYPE, format.media_type()), (header::CACHE_CONTROL, "no-store")];
    Ok((headers, body).into_response())
}
