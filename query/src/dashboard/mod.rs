//! A first page at `/`: totals, a series, classes, top links, machines by name, how fresh it all is. Made on the server, no
//! script needed; a small one of our own keeps it fresh. Nothing from elsewhere is loaded, and everything shown is escaped.

mod chart;
mod html;
mod page;
mod same_site;
mod session;

use std::time::Instant;

use axum::Router;
use axum::extract::{Form, Query, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use schemas::{Principal, UtcMicros};
use serde::Deserialize;

pub(crate) use session::Sessions;

use crate::error::QueryError;
use crate::service::QueryService;
use page::{Range, Shown};
use same_site::SameSite;

/// Own files only, no inline script or style, no frames around the page.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The page's routes.
pub(crate) fn routes() -> Router<QueryService> {
    Router::new()
        .route("/", get(home))
        .route("/login", get(login_page).post(login))
        .route("/logout", post(logout))
        .route("/assets/style.css", get(async || asset("text/css", include_str!("assets/style.css"))))
        .route("/assets/refresh.js", get(async || asset("text/javascript", include_str!("assets/refresh.js"))))
}

fn asset(media_type: &'static str, text: &'static str) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, media_type), (header::CACHE_CONTROL, "max-age=3600")], text)
}

fn html(status: StatusCode, text: String) -> Response {
    let mut response = (status, text).into_response();
    for (name, value) in [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// The session's owner, asked for anew each time: a token that was taken back logs its browsers out.
async fn owner(service: &QueryService, headers: &HeaderMap) -> Result<Option<Principal>, QueryError> {
    match service.sessions().token(headers) {
        Some(token) => service.authenticate(&token).await,
        None => Ok(None),
    }
}

#[derive(Debug, Deserialize)]
struct HomeQuery {
    #[serde(default)]
    range: String,
}

async fn home(State(service): State<QueryService>, headers: HeaderMap, Query(query): Query<HomeQuery>) -> Response {
    let principal = match owner(&service, &headers).await {
        Ok(Some(principal)) => principal,
        Ok(None) => return Redirect::to("/login").into_response(),
        Err(error) => return failed(&error),
    };
    match shown(&service, &principal, Range::named(&query.range)).await {
        Ok(shown) => html(StatusCode::OK, page::home(&principal, &shown)),
        Err(error) => failed(&error),
    }
}

/// The page when there are no numbers; the browser stays logged in.
fn failed(error: &QueryError) -> Response {
    tracing::error!(%error, "the page could not be made");
    let mut response = html(StatusCode::SERVICE_UNAVAILABLE, page::failed(error));
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

async fn shown(service: &QueryService, principal: &Principal, range: Range) -> Result<Shown, QueryError> {
    let now = UtcMicros::now();
    Ok(Shown {
        series: service.report(principal, &range.series(now)).await?,
        links: service.report(principal, &range.links(now)).await?,
        machines: service.report(principal, &range.machines(now)).await?,
        range,
    })
}

#[derive(Debug, Deserialize)]
struct LoginQuery {
    key: Option<String>,
}

async fn login_page(
    State(service): State<QueryService>,
    Query(query): Query<LoginQuery>,
    method: Method,
    headers: HeaderMap,
) -> Response {
    let Some(key) = query.key.filter(|_| method != Method::HEAD) else {
        // a HEAD is a look at the link by a preview or scanner: it must not use the key up
        return html(StatusCode::OK, page::login(None));
    };
    match service.sessions().redeem(&key, Instant::now()) {
        Some(token) => begin(&service, &token, &headers),
        None => html(StatusCode::UNAUTHORIZED, page::login(Some("That link has been used, or is too old."))),
    }
}

#[derive(Debug, Deserialize)]
struct LoginForm {
    token: String,
}

async fn login(
    _: SameSite,
    State(service): State<QueryService>,
    headers: HeaderMap,
    Form(form): Form<LoginForm>,
) -> Response {
    let token = form.token.trim();
    match service.authenticate(token).await {
        Ok(Some(_)) => begin(&service, token, &headers),
        Err(error) => failed(&error),
        Ok(None) => html(StatusCode::UNAUTHORIZED, page::login(Some("That token is not known."))),
    }
}

/// Begins a session. The answer is a page of our own that moves on, and no redirect: a browser that comes from another
/// site would not send its new cookie along with one.
fn begin(service: &QueryService, token: &str, headers: &HeaderMap) -> Response {
    let mut response = html(StatusCode::OK, page::welcome());
    let cookie = service.sessions().begin(token, Instant::now(), encrypted(headers));
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

async fn logout(_: SameSite, State(service): State<QueryService>, headers: HeaderMap) -> Response {
    let cookie = service.sessions().end(&headers, encrypted(&headers));
    let mut response = Redirect::to("/login").into_response();
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

/// Whether the browser came over TLS, as far as a proxy in front says.
fn encrypted(headers: &HeaderMap) -> bool {
    headers.get("x-forwarded-proto").is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"https"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testlake::{TestLake, click, operator, text};
    use schemas::click::Verdict;
    use schemas::{Class, Click};

    #[tokio::test]
    async fn the_page_shows_people_classes_links_and_machines_by_name() {
        let now = UtcMicros(UtcMicros::now().0 - 60_000_000);
        let by = |number: u64, class: Class, agent: Option<&str>| {
            let verdict = Verdict { class, agent: agent.and_then(text), reason: "r".into(), rules_version: 1 };
            Click { verdict, ..click(number, now) }
        };
        let lake = TestLake::with(&[
            by(1, Class::Human, None),
            by(2, Class::Preview, Some("Slack")),
            by(3, Class::Preview, Some("WhatsApp")),
            by(4, Class::Preview, Some("WhatsApp")),
            by(5, Class::Probe, None),
        ]);
        let shown = shown(&lake.service(), &operator(), Range::named("24h")).await.unwrap();
        let page = page::home(&operator(), &shown);
        for (what, clicks) in [("human", 1), ("preview", 3), ("probe", 1), ("x", 1), ("WhatsApp", 2), ("Slack", 1)] {
            assert!(page.contains(&format!("<th>{what}</th><td>{clicks}</td>")), "{what}: {page}");
        }
        assert!(page.contains("<th>without a name</th><td>1</td>"), "{page}");
        assert!(page.contains("<b>5</b><span>redirects served</span>"), "{page}");
    }
}
