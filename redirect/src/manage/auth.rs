//! Who is asking: a bearer token on every request, whatever its path.

use axum::extract::{FromRequestParts, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{AUTHORIZATION, CACHE_CONTROL, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use schemas::{Principal, Scope};

use super::problem::Problem;
use crate::links::LinkStore;

/// The caller, once its token has been checked.
#[derive(Clone, Debug)]
pub(super) struct Caller(Principal);

impl Caller {
    /// Who that is, if the token's scope is at least `scope`.
    pub(super) fn with(&self, scope: Scope) -> Result<&Principal, Problem> {
        if self.0.scope >= scope {
            return Ok(&self.0);
        }
        let detail = format!("this needs a token of scope {scope}; this one has {}", self.0.scope);
        Err(Problem::forbidden(detail).with(WWW_AUTHENTICATE, "Bearer error=\"insufficient_scope\""))
    }
}

/// Lets requests with a token of ours through, and keeps every answer out of caches.
pub(super) async fn authenticate(State(store): State<LinkStore>, mut request: Request, next: Next) -> Response {
    let mut response = match principal(&store, request.headers()).await {
        Ok(principal) => {
            request.extensions_mut().insert(Caller(principal));
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    };
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

async fn principal(store: &LinkStore, headers: &HeaderMap) -> Result<Principal, Problem> {
    let mut given = headers.get_all(AUTHORIZATION).iter();
    let (Some(header), None) = (given.next(), given.next()) else {
        return Err(Problem::unauthorized("send one header \"Authorization: Bearer\" with a token"));
    };
    let token = header.to_str().ok().and_then(|header| header.split_once(' '));
    let Some((_, token)) = token.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")) else {
        return Err(Problem::unauthorized("the header Authorization must be \"Bearer\" and a token"));
    };
    store.authenticate(token.trim()).await?.ok_or_else(|| Problem::unauthorized("the token is not known"))
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        parts.extensions.get::<Self>().cloned().ok_or_else(|| Problem::unauthorized("a token is needed"))
    }
}
