//! Bodies, bounded in size and in time.

use std::time::Duration;

use axum::body::{Body, Bytes};
use http::StatusCode;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Body as _;

use super::problem::Problem;

/// Reads a body of at most `limit` bytes within `deadline`.
///
/// # Errors
/// 413, 408, or 400 when it breaks off.
pub(super) async fn read(body: Body, limit: usize, deadline: Duration) -> Result<Bytes, Problem> {
    let too_large_by = || too_large(format!("the body may have at most {limit} bytes"));
    // said before it is sent, where the sender says how long it is
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large_by());
    }
    match tokio::time::timeout(deadline, Limited::new(body, limit).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large_by()),
        Ok(Err(error)) => {
            let detail = format!("the body broke off: {error}");
            Err(Problem::new(StatusCode::BAD_REQUEST, "bad-body", "Bad body", detail))
        }
        Err(_) => {
            let detail = "the body took too long to come";
            Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "body-too-slow", "Body too slow", detail))
        }
    }
}

/// 413
pub(super) fn too_large(detail: String) -> Problem {
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "body-too-large", "Body too large", detail)
}
