//! Whether a request that changes who is logged in comes from our own pages.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::Response;

use super::{html, page};

/// A request that no page of another site has made: else that could log a browser in as someone of its choice.
#[derive(Debug)]
pub(super) struct SameSite;

impl<S: Sync> FromRequestParts<S> for SameSite {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Response> {
        match is_ours(&parts.headers, &parts.uri) {
            true => Ok(Self),
            false => Err(html(StatusCode::FORBIDDEN, page::login(Some("Another site sent this. Log in here.")))),
        }
    }
}

/// Browsers say where a form comes from; whoever says nothing is no browser.
fn is_ours(headers: &HeaderMap, uri: &Uri) -> bool {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let same_origin = match text(header::ORIGIN) {
        None => true,
        Some(origin) => {
            let host = text(header::HOST).or_else(|| uri.authority().map(|authority| authority.as_str()));
            let from = origin.split_once("://").map(|(_, authority)| authority);
            from.zip(host).is_some_and(|(from, host)| !host.is_empty() && from.eq_ignore_ascii_case(host))
        }
    };
    let site = headers.get("sec-fetch-site").map(|value| value.as_bytes());
    same_origin && matches!(site, None | Some(b"same-origin" | b"none"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_pages_and_what_is_no_page_are_ours() {
        let ours = |given: &[(&'static str, &str)]| {
            let pairs = given.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
            is_ours(&pairs.collect(), &Uri::from_static("/login"))
        };
        let host = ("host", "stats.example:8081");
        for given in [
            &[host][..],
            &[],
            &[host, ("origin", "http://stats.example:8081")],
            &[host, ("origin", "https://STATS.example:8081"), ("sec-fetch-site", "same-origin")],
            &[host, ("sec-fetch-site", "none")],
        ] {
            assert!(ours(given), "{given:?}");
        }
        for given in [
            &[host, ("origin", "https://evil.example")][..],
            &[host, ("origin", "http://stats.example")],
            &[host, ("origin", "http://stats.example:8081.evil.example")],
            &[host, ("origin", "null")],
            &[host, ("origin", "")],
            &[("origin", "http://stats.example:8081")],
            &[("host", ""), ("origin", "http://")],
            &[host, ("origin", "http://stats.example:8081"), ("sec-fetch-site", "cross-site")],
            &[host, ("sec-fetch-site", "same-site")],
        ] {
            assert!(!ours(given), "{given:?}");
        }
    }
}
