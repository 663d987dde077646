//! Errors as `application/problem+json` (RFC 9457).

use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::error::{FieldError, QueryError};

/// When a try makes sense after something has not answered.
const AGAIN: Duration = Duration::from_secs(1);

/// An error as the client sees it. What is nobody's business outside is logged and left out.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    detail: String,
    errors: Vec<FieldError>,
    retry_after: Option<Duration>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into(), errors: Vec::new(), retry_after: None }
    }

    pub(crate) fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "there is nothing here")
    }

    pub(crate) fn method_not_allowed() -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "not with this method")
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "a valid token is needed: Authorization: Bearer …")
    }
}

impl From<QueryError> for Problem {
    fn from(error: QueryError) -> Self {
        let text = error.to_string();
        match error {
            QueryError::Invalid(errors) => Self { errors, ..Self::new(StatusCode::BAD_REQUEST, text) },
            QueryError::Statement(_) => {
                let errors = vec![FieldError::new("sql", text.clone())];
                Self { errors, ..Self::new(StatusCode::BAD_REQUEST, text) }
            }
            QueryError::Forbidden(_) => Self::new(StatusCode::FORBIDDEN, text),
            QueryError::Busy { retry_after } => {
                Self { retry_after: Some(retry_after), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, text) }
            }
            QueryError::Unavailable { .. } => {
                tracing::error!(error = text, "a query could not be answered");
                let detail = "what answers need beside the lake (the link store) doesn't answer; try again";
                Self { retry_after: Some(AGAIN), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, detail) }
            }
            QueryError::Deadline(_) | QueryError::Resources(_) => {
                let retry_after = Some(Duration::from_secs(5));
                Self { retry_after, ..Self::new(StatusCode::SERVICE_UNAVAILABLE, text) }
            }
            QueryError::TooLarge { .. } => Self::new(StatusCode::PAYLOAD_TOO_LARGE, text),
            QueryError::Location { .. } | QueryError::Stale(_) | QueryError::Lake { .. } => {
                tracing::error!(error = text, "a query failed");
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "the lake could not be read; the operator's log says why")
            }
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut body = json!({
            "type": "about:blank",
            "title": self.status.canonical_reason().unwrap_or("Error"),
            "status": self.status.as_u16(),
            "detail": self.detail,
        });
        if !self.errors.is_empty() {
            body["errors"] = json!(self.errors);
        }
        let mut response = (self.status, Value::to_string(&body)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(after) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(after.as_secs().max(1)));
        }
        response
    }
}
