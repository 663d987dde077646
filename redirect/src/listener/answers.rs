//! The answers, made as far as possible beforehand: a redirect is a copy of a template with its `Location` put in.

use bytes::Bytes;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, REFERRER_POLICY, RETRY_AFTER,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use http_body_util::Full;
use schemas::Analytics;

use super::found::Active;
use super::metrics::Answered;
use super::pages;
use super::policy::{NO_STORE, Ttls, missing, redirect};

/// An answer.
pub(super) type Answer = Response<Full<Bytes>>;

const X_ROBOTS_TAG: HeaderName = HeaderName::from_static("x-robots-tag");
/// Destinations learn which site a visitor came from, as without a short link in between, but no more.
const REFERRERS: HeaderValue = HeaderValue::from_static("strict-origin-when-cross-origin");
/// Seconds after which asking again may help when the link store failed.
const RETRY: HeaderValue = HeaderValue::from_static("1");

/// Templates of all answers.
#[derive(Debug)]
pub(super) struct Answers {
    billed: HeaderMap,
    storable: HeaderMap,
    speculative: HeaderMap,
    /// Of pages that may be kept for a moment.
    short_lived: HeaderMap,
    /// Of pages that may not.
    not_stored: HeaderMap,
    missing: Bytes,
    deleted: Bytes,
}

impl Answers {
    /// Templates for these times to live.
    pub(super) fn new(ttls: &Ttls) -> Self {
        Self {
            billed: redirect_headers(&redirect(Analytics::Billed, false, ttls)),
            storable: redirect_headers(&redirect(Analytics::Internal, false, ttls)),
            speculative: redirect_headers(&redirect(Analytics::Internal, true, ttls)),
            short_lived: page_headers(&missing(ttls)),
            not_stored: page_headers(NO_STORE),
            missing: pages::missing(),
            deleted: pages::deleted(),
        }
    }

    /// The redirect of a link; `speculative` when it is fetched ahead of a click.
    pub(super) fn redirect(&self, link: &Active, speculative: bool) -> Answer {
        let template = match link.target.analytics {
            _ if speculative => &self.speculative,
            Analytics::Billed => &self.billed,
            Analytics::Internal | Analytics::Off => &self.storable,
        };
        let mut headers = template.clone();
        headers.insert(LOCATION, link.location.clone());
        answer(StatusCode::FOUND, headers, Bytes::new())
    }

    /// The page of a link that was taken down.
    pub(super) fn disabled(&self, page: Bytes) -> Answer {
        answer(StatusCode::GONE, self.not_stored.clone(), page)
    }

    /// Any answer that follows from its kind alone.
    pub(super) fn other(&self, kind: Answered) -> Answer {
        match kind {
            Answered::Deleted => answer(StatusCode::GONE, self.short_lived.clone(), self.deleted.clone()),
            Answered::Method => {
                let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, "A link answers GET and HEAD only.\n");
                answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
                answer
            }
            Answered::BadRequest => text(StatusCode::BAD_REQUEST, "The request needs exactly one Host header.\n"),
            Answered::Forbidden => text(StatusCode::FORBIDDEN, "This host answers its edge only.\n"),
            Answered::Unavailable => {
                let mut answer = text(StatusCode::SERVICE_UNAVAILABLE, "Links can't be looked up right now.\n");
                answer.headers_mut().insert(RETRY_AFTER, RETRY);
                answer
            }
            // the first two are never asked for here
            Answered::Redirect | Answered::Disabled | Answered::NotFound => {
                answer(StatusCode::NOT_FOUND, self.short_lived.clone(), self.missing.clone())
            }
        }
    }
}

fn redirect_headers(cache_control: &str) -> HeaderMap {
    let mut headers = headers(cache_control);
    headers.insert(REFERRER_POLICY, REFERRERS);
    // room that is there from the beginning need not be made for each answer
    headers.insert(LOCATION, HeaderValue::from_static("/"));
    headers
}

fn page_headers(cache_control: &str) -> HeaderMap {
    let mut headers = headers(cache_control);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(pages::CONTENT_POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers
}

fn headers(cache_control: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let cache_control = HeaderValue::from_str(cache_control).unwrap_or(HeaderValue::from_static(NO_STORE));
    headers.insert(CACHE_CONTROL, cache_control);
    headers.insert(X_ROBOTS_TAG, HeaderValue::from_static("noindex"));
    headers
}

fn text(status: StatusCode, body: &'static str) -> Answer {
    let mut headers = headers(NO_STORE);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    answer(status, headers, Bytes::from_static(body.as_bytes()))
}

fn answer(status: StatusCode, headers: HeaderMap, body: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() = status;
    *answer.headers_mut() = headers;
    answer
}
