//! Errors as clients see them: `application/problem+json` (RFC 9457).

use axum::response::{IntoResponse, Response};
use http::header::{self, HeaderName};
use http::{HeaderValue, StatusCode};
use serde::Serialize;

use crate::links::{FieldError, LinkError};

/// What went wrong with a request. Nothing of it says more than the caller may know.
#[derive(Debug)]
pub struct Problem {
    status: StatusCode,
    body: Box<Body>,
    header: Option<(HeaderName, HeaderValue)>,
}

#[derive(Debug, Serialize)]
struct Body {
    #[serde(rename = "type")]
    kind: String,
    title: &'static str,
    status: u16,
    detail: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<FieldError>,
}

impl Problem {
    /// A problem of a kind: `kind` is the end of its `type`, `title` the same in words, `detail` says what is wrong
    /// with this request.
    pub fn new(status: StatusCode, kind: &str, title: &'static str, detail: impl Into<String>) -> Self {
        let body = Body {
            kind: format!("urn:highwater:problem:{kind}"),
            title,
            status: status.as_u16(),
            detail: detail.into(),
            errors: Vec::new(),
        };
        Self { status, body: Box::new(body), header: None }
    }

    /// 400: fields of the input are wrong.
    pub fn invalid(errors: Vec<FieldError>) -> Self {
        let detail = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        let mut problem = Self::new(StatusCode::BAD_REQUEST, "invalid-input", "Invalid input", detail);
        problem.body.errors = errors;
        problem
    }

    /// 400: one field of the input is wrong.
    pub fn field(field: &str, message: impl Into<String>) -> Self {
        Self::invalid(vec![FieldError::new(field, message)])
    }

    /// 404: there is nothing under this path.
    pub fn no_such_path() -> Self {
        Self::new(StatusCode::NOT_FOUND, "not-found", "Not found", "there is nothing under this path")
    }

    /// 401: no token of ours came with the request.
    pub fn unauthorized(detail: &str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", "Not authorised", detail)
            .with(header::WWW_AUTHENTICATE, "Bearer realm=\"highwater\"")
    }

    /// 403: the token may not do this.
    pub fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", "Not allowed", detail)
    }

    /// 503: the link store doesn't answer; trying again may help.
    pub fn unavailable() -> Self {
        let detail = "the link store doesn't answer; try again";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", "Not available now", detail)
            .with(header::RETRY_AFTER, "1")
    }

    /// Adds to its detail what this caller may know beyond it.
    #[must_use]
    pub(super) fn saying(mut self, more: &str) -> Self {
        self.body.detail.push_str(more);
        self
    }

    /// Adds a response header.
    #[must_use]
    pub fn with(mut self, name: HeaderName, value: &'static str) -> Self {
        self.header = Some((name, HeaderValue::from_static(value)));
        self
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let json = serde_json::to_vec(&self.body).unwrap_or_default();
        let mut response = (self.status, json).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.extend(self.header);
        response
    }
}

impl From<LinkError> for Problem {
    fn from(error: LinkError) -> Self {
        let detail = error.to_string();
        match error {
            LinkError::Invalid(errors) => Self::invalid(errors),
            LinkError::NotFound { .. } => Self::new(StatusCode::NOT_FOUND, "no-such-link", "No such link", detail),
            LinkError::Taken { .. } => Self::new(StatusCode::CONFLICT, "code-taken", "Code taken", detail),
            LinkError::Deleted { .. } => Self::new(StatusCode::CONFLICT, "link-deleted", "Link deleted", detail),
            LinkError::DiskFull { .. } => {
                tracing::error!(error = %detail, "the link store has no room for a change");
                let detail = "the disk of the link store is full: nothing can be changed, except that links can be \
                              disabled and deleted, until there is room";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "disk-full", "Disk full", detail)
            }
            LinkError::Away { .. } => {
                tracing::error!(error = %detail, "the database of links is away");
                Self::unavailable()
            }
            LinkError::UnknownWorkspace(_) => Self::field("workspace", detail),
            // Details of the store are for its operator, not for a tenant.
            LinkError::WorkspaceExists(_)
            | LinkError::UnknownJournal(_)
            | LinkError::JournalOver { .. }
            | LinkError::GenerationOver { .. }
            | LinkError::Location { .. }
            | LinkError::Schema { .. }
            | LinkError::Database { .. }
            | LinkError::Random(_) => {
                tracing::error!(error = %detail, "the link store failed a request");
                Self::unavailable()
            }
        }
    }
}
