//! Caddy's access log: a JSON object a line, the request inside of it, headers as lists.
//!
//! ```text
//! {"level":"info","ts":1773480413.1234567,"logger":"http.log.access.log0","msg":"handled request","request":{"remote_ip":"…",
//!  "client_ip":"…","method":"GET","host":"go.example.com","uri":"/k7Qp2","headers":{"User-Agent":["…"]}},"status":302,
//!  "resp_headers":{"Cache-Status":["Souin; hit; ttl=7"]},"request_id":"2ba96288-…"}
//! ```
//! Caddy has no cache of its own: a request was answered at the edge only where a module's `Cache-Status` says so. The
//! id is a field that the operator appends, else the client's `X-Request-Id`. Other messages share the file.

use std::borrow::Cow;
use std::sync::Arc;

use schemas::UtcMicros;
use serde::Deserialize;

use super::address::address;
use super::arena::Arena;
use super::caddy_headers::Headers;
use super::clock;
use super::format::{Fit, Layout, Sample, Settings};
use super::identity::well_formed_key;
use super::json::{self, Value};
use super::judge::{Entry, Found, Outcome};
use super::request::{EdgeClass, EdgeRequest, Reject, asked};
use super::target::{self, Verb};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Object<'a> {
    #[serde(borrow)]
    ts: Value<'a>,
    #[serde(borrow)]
    logger: Value<'a>,
    #[serde(borrow)]
    msg: Value<'a>,
    #[serde(borrow)]
    request: Option<Request<'a>>,
    #[serde(borrow)]
    status: Value<'a>,
    #[serde(borrow)]
    resp_headers: Headers<'a>,
    #[serde(borrow)]
    request_id: Value<'a>,
    #[serde(borrow)]
    uuid: Value<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Request<'a> {
    #[serde(borrow)]
    client_ip: Value<'a>,
    #[serde(borrow)]
    remote_ip: Value<'a>,
    #[serde(borrow)]
    remote_addr: Value<'a>,
    #[serde(borrow)]
    method: Value<'a>,
    #[serde(borrow)]
    host: Value<'a>,
    #[serde(borrow)]
    uri: Value<'a>,
    #[serde(borrow)]
    headers: Headers<'a>,
}

impl Object<'_> {
    /// Whether this is of the access log: not another logger's word on the same request.
    fn is_access(&self, arena: &Arena) -> bool {
        let of = |value: &Value<'_>, test: fn(&str) -> bool| match value {
            Value::Text(text) => test(text),
            _ => false,
        };
        let named = self.logger.is_some() || self.msg.is_some();
        let is_access = of(&self.logger, |name| name.starts_with("http.log.access"))
            || of(&self.msg, |message| message == "handled request");
        let has_uri = self.request.as_ref().is_some_and(|request| !request.uri.text(arena).is_empty());
        has_uri && (is_access || (!named && self.status.is_present()))
    }
}

/// Where a log has its request ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Id {
    Nowhere,
    Field,
    Header,
}

/// How many of the first lines are of an access log.
pub fn recognise(sample: &Sample<'_>, _settings: &Settings) -> Fit {
    let arena = Arena::new();
    let (mut matched, mut objects, mut others, mut problem) = (0, 0, 0, None);
    for line in &sample.lines {
        match json::parse::<Object<'_>>(line, &arena) {
            Ok(object) => {
                let is_access = object.ts.is_present() && object.is_access(&arena);
                objects += 1;
                matched += usize::from(is_access);
                others += usize::from(!is_access && object.ts.is_present() && object.logger.is_present());
            }
            Err(error) => problem = problem.or(Some(error)),
        }
    }
    let of = sample.lines.len();
    let why = match problem {
        _ if matched > 0 => {
            format!("{matched} of the first {of} lines are Caddy's access log, {others} are other messages of it")
        }
        _ if objects > 0 => "JSON objects, but none with Caddy's ts and a request with its uri".to_owned(),
        Some(problem) => format!("no JSON object a line ({problem})"),
        None => "no lines".to_owned(),
    };
    // Other loggers may well have more to say than the access log.
    Fit { matched: if matched > 0 { matched + others } else { 0 }, of, why }
}

/// The first lines tell where the ids are.
pub fn layout(sample: &Sample<'_>, _settings: &Settings) -> Arc<dyn Layout> {
    let arena = Arena::new();
    let objects = || {
        let objects = sample.lines.iter().filter_map(|line| json::parse::<Object<'_>>(line, &arena).ok());
        objects.filter(|object| object.is_access(&arena))
    };
    let has_field = objects().any(|object| object.request_id.is_present() || object.uuid.is_present());
    let header = |object: &Object<'_>| object.request.as_ref().is_some_and(|read| !read.headers.request_id.is_empty());
    let id = match objects().next() {
        // With nothing to go by, an id is expected: then each line without one says so by itself.
        None => Id::Field,
        Some(_) if has_field => Id::Field,
        Some(_) if objects().any(|object| header(&object)) => Id::Header,
        Some(_) => Id::Nowhere,
    };
    Arc::new(Caddy { id })
}

#[derive(Debug)]
struct Caddy {
    id: Id,
}

impl Layout for Caddy {
    fn parse<'a>(&self, line: &'a [u8], arena: &'a Arena, found: &mut dyn FnMut(Found<'a>)) {
        found(json::object(line, arena).and_then(|object| self.entry(object, arena)).into());
    }

    fn has_id(&self) -> bool {
        self.id != Id::Nowhere
    }
}

impl Caddy {
    fn entry<'a>(&self, object: Object<'a>, arena: &'a Arena) -> Result<Entry<'a>, Reject> {
        if !object.is_access(arena) {
            return Err(Reject::NOT_ACCESS);
        }
        let Some(read) = object.request else { return Err(Reject::NOT_ACCESS) };
        let text = |value: &Value<'a>| value.text(arena);
        let id = match self.id {
            Id::Header => kept(read.headers.request_id, arena),
            _ => text(&object.request_id.or(object.uuid)),
        };
        let target = target::split(text(&read.uri).as_bytes());
        let request = EdgeRequest {
            time: instant(text(&object.ts)).ok_or(Reject::BAD_TIMESTAMP)?,
            class: EdgeClass::Origin,
            host: arena.lower(text(&read.host)),
            path: arena.text(target.path),
            code: target::code(target.path, arena),
            query: arena.text(target.query),
            method: None,
            status: text(&object.status).parse().map_err(|_| Reject::BAD_STATUS)?,
            address: address(text(&read.client_ip.or(read.remote_ip).or(read.remote_addr)).as_bytes()),
            user_agent: kept(read.headers.agent, arena),
            referrer: kept(read.headers.referrer, arena),
            country: "",
            region: "",
            city: "",
            asked: asked(&read.headers.gpc, &read.headers.dnt),
            language: kept(read.headers.language, arena),
            line_key: well_formed_key(id.as_bytes()).then_some(id.as_bytes()),
        };
        let verb = Verb::read(text(&read.method).as_bytes()).ok_or(Reject::BAD_REQUEST)?;
        let outcome = if object.resp_headers.is_hit { Outcome::Edge } else { Outcome::Origin };
        Ok(Entry { request, verb, outcome })
    }
}

/// All that `time_format` can be set to, but formats of one's own: since 1970, ISO 8601, RFC 3339, a wall clock, or the
/// common log format's.
fn instant(text: &str) -> Option<UtcMicros> {
    clock::any(text.as_bytes()).or_else(|| clock::wall(text.as_bytes()))
}

fn kept<'a>(text: Cow<'a, str>, arena: &'a Arena) -> &'a str {
    match text {
        Cow::Borrowed(text) => text,
        Cow::Owned(text) => arena.keep(&text),
    }
}

#[cfg(test)]
mod tests;
