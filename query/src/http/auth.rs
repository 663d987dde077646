//! Who is asking: a token in the request, or a browser that has logged in.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, header};
use schemas::Principal;

use super::problem::Problem;
use crate::service::QueryService;

/// The owner of the request's token. A browser's session counts for reading only, so that no other site can make a
/// browser ask for more than pages.
#[derive(Debug)]
pub(crate) struct Caller(pub(crate) Principal);

impl FromRequestParts<QueryService> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, service: &QueryService) -> Result<Self, Problem> {
        let token = match bearer(&parts.headers) {
            Some(token) => Some(token.to_owned()),
            None if parts.method == Method::GET => service.sessions().token(&parts.headers),
            None => None,
        };
        let Some(token) = token else { return Err(Problem::unauthorized()) };
        service.authenticate(&token).await?.map(Self).ok_or_else(Problem::unauthorized)
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim()).filter(|token| !token.is_empty())
}
