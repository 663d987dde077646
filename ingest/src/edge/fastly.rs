//! Fastly real-time log streaming: a JSON object a line, bare or behind a syslog header.
//!
//! ```text
//! <134>2026-03-14T09:26:01Z cache-fra-1 shortlinks[411]: {"timestamp":"2026-03-14T09:26:01+0000","client_ip":"…","host":"…",
//!  "url":"/k7Qp2","request_method":"GET","response_state":"HIT","response_status":302,"fastly_is_edge":true,"request_id":"…"}
//! ```
//! A service logs what its format says. The keys are those of the control panel's default format and a `request_id`,
//! unless `edge_logs.fastly.fields` names others. With shielding a request has two lines, the shield's being told by
//! `fastly_is_edge` or the number of visits.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::address::address;
use super::arena::Arena;
use super::clock;
use super::field_names::FieldProblem;
use super::format::{Fit, Layout, Sample, Settings};
use super::identity::well_formed_key;
use super::json::Value;
use super::judge::{Entry, Found, Outcome};
use super::keyed::Keys;
use super::request::{EdgeClass, EdgeRequest, Reject, asked};
use super::target::{self, Verb};

const KEY: &str = "edge_logs.fastly.fields";

/// The places of values.
const TIME: usize = 0;
const URL: usize = 1;
const STATUS: usize = 2;
const METHOD: usize = 3;
const HOST: usize = 4;
const QUERY: usize = 5;
const ADDRESS: usize = 6;
const AGENT: usize = 7;
const REFERRER: usize = 8;
const COUNTRY: usize = 9;
const LANGUAGE: usize = 10;
const ID: usize = 11;
const STATE: usize = 12;
const IS_EDGE: usize = 13;
const VISITS: usize = 14;
const REGION: usize = 15;
const CITY: usize = 16;
const GPC: usize = 17;
const DNT: usize = 18;
const PLACES: usize = 19;

/// For each place: the key that a log has for it if nothing else is configured, our name, and other names for it.
const FIELDS: [(&str, &[&str]); PLACES] = [
    ("timestamp", &["time", "timestamp"]),
    ("url", &["url", "uri", "path"]),
    ("response_status", &["status", "response_status"]),
    ("request_method", &["method", "request_method"]),
    ("host", &["host", "domain"]),
    ("", &["query"]),
    ("client_ip", &["client_ip", "ip", "address"]),
    ("request_user_agent", &["user_agent", "request_user_agent", "ua"]),
    ("request_referer", &["referrer", "referer", "request_referer"]),
    ("geo_country", &["country", "geo_country"]),
    ("request_accept_language", &["language", "request_accept_language"]),
    ("request_id", &["request_id"]),
    ("response_state", &["state", "response_state", "cache"]),
    ("fastly_is_edge", &["is_edge", "fastly_is_edge"]),
    ("visits_this_service", &["visits", "visits_this_service"]),
    ("geo_region", &["region", "geo_region"]),
    ("geo_city", &["city", "geo_city"]),
    ("request_sec_gpc", &["sec_gpc", "request_sec_gpc"]),
    ("request_dnt", &["dnt", "request_dnt"]),
];

/// Which keys a log has, as configured.
fn keys(fields: &BTreeMap<String, String>) -> [String; PLACES] {
    let mut keys = FIELDS.map(|(key, _)| key.to_owned());
    for (name, key) in fields {
        if let Some(place) = FIELDS.iter().position(|(_, names)| names.contains(&name.as_str())) {
            keys[place].clone_from(key);
        }
    }
    keys
}

/// What is wrong with `edge_logs.fastly.fields`.
pub fn problems(fields: &BTreeMap<String, String>) -> Vec<FieldProblem> {
    let mut problems = Vec::new();
    let mut named = [false; PLACES];
    for name in fields.keys() {
        match FIELDS.iter().position(|(_, names)| names.contains(&name.as_str())) {
            None => {
                let known = FIELDS.iter().map(|(_, names)| names[0]).collect();
                problems.push(FieldProblem::Unknown { given: name.clone(), known });
            }
            Some(place) if named[place] => problems.push(FieldProblem::Twice { given: name.clone() }),
            Some(place) => named[place] = true,
        }
    }
    let keys = keys(fields);
    for (place, key) in keys.iter().enumerate() {
        if !key.is_empty() && keys[..place].contains(key) {
            problems.push(FieldProblem::Twice { given: key.clone() });
        }
    }
    for (place, what) in [(TIME, "a key for time"), (URL, "a key for url"), (STATUS, "a key for status")] {
        if keys[place].is_empty() {
            problems.push(FieldProblem::Missing { what });
        }
    }
    problems
}

#[derive(Debug)]
struct Fastly {
    keys: Keys,
    has_id: bool,
    /// Time, URL or status have keys of the operator's own, which another writer may use too.
    own_keys: bool,
}

impl Fastly {
    fn new(settings: &Settings) -> Self {
        let keys = keys(&settings.fastly);
        let own_keys = (TIME..=STATUS).any(|place| keys[place] != FIELDS[place].0);
        let places = keys.into_iter().enumerate().filter(|(_, key)| !key.is_empty());
        Self { keys: Keys::new(places.map(|(place, key)| (key, place))), has_id: true, own_keys }
    }

    /// Whether these are values of a line of ours. Where keys are common ones, one that only Fastly has must be there.
    fn is_ours(&self, values: &[Value<'_>; PLACES]) -> bool {
        (TIME..=STATUS).all(|place| values[place].is_present())
            && (!self.own_keys || (STATE..=VISITS).any(|place| values[place].is_present()))
    }
}

/// How many of the first lines are such objects.
pub fn recognise(sample: &Sample<'_>, settings: &Settings) -> Fit {
    let (arena, fastly) = (Arena::new(), Fastly::new(settings));
    let (mut matched, mut objects, mut problem) = (0, 0, None);
    for line in &sample.lines {
        match fastly.keys.values::<PLACES>(line, &arena) {
            Ok(values) => {
                objects += 1;
                matched += usize::from(fastly.is_ours(&values));
            }
            Err(error) => problem = problem.or(Some(error)),
        }
    }
    let of = sample.lines.len();
    let keys = keys(&settings.fastly);
    let [time, url, status, ..] = &keys;
    let whose = if settings.fastly.is_empty() { "Fastly's keys" } else { "the keys of edge_logs.fastly.fields" };
    let why = match problem {
        _ if matched > 0 => format!("{matched} of the first {of} lines are JSON objects with {whose}"),
        _ if objects > 0 && fastly.own_keys => {
            format!("JSON objects, but none with {time}, {url}, {status} and one of {}", keys[STATE..].join(", "))
        }
        _ if objects > 0 => {
            format!("JSON objects, but none with {time}, {url} and {status} ({KEY} can name other keys)")
        }
        Some(problem) => format!("no JSON object a line ({problem})"),
        None => "no lines".to_owned(),
    };
    Fit { matched, of, why }
}

/// Why another format is not to take a file: it is as configured for Fastly.
pub(super) fn takes(sample: &Sample<'_>, settings: &Settings) -> Option<Fit> {
    if settings.fastly.is_empty() {
        return None;
    }
    let fit = recognise(sample, settings);
    fit.fits().then(|| Fit { matched: 0, of: fit.of, why: format!("{}, which goes before", fit.why) })
}

/// Keys are read by name in every line; the first lines only tell whether there is an id among them.
pub fn layout(sample: &Sample<'_>, settings: &Settings) -> Arc<dyn Layout> {
    let (arena, fastly) = (Arena::new(), Fastly::new(settings));
    let objects = sample.lines.iter().filter_map(|line| fastly.keys.values::<PLACES>(line, &arena).ok());
    let with_id: Vec<bool> = objects.map(|values| values[ID].is_present()).collect();
    // With nothing to go by, an id is expected: then each line without one says so by itself.
    Arc::new(Fastly { has_id: with_id.is_empty() || with_id.contains(&true), ..fastly })
}

impl Layout for Fastly {
    fn parse<'a>(&self, line: &'a [u8], arena: &'a Arena, found: &mut dyn FnMut(Found<'a>)) {
        let values = self.keys.values::<PLACES>(line, arena).map_err(|_| Reject::BAD_JSON);
        found(values.and_then(|values| entry(&values, arena)).into());
    }

    fn has_id(&self) -> bool {
        self.has_id
    }
}

fn entry<'a>(values: &[Value<'a>; PLACES], arena: &'a Arena) -> Result<Entry<'a>, Reject> {
    let text = |place: usize| values[place].text(arena);
    let url = text(URL).as_bytes();
    let target = target::split(url);
    let verb = match values[METHOD].is_present() {
        true => Verb::read(text(METHOD).as_bytes()).ok_or(Reject::BAD_REQUEST)?,
        false => Verb::Unlogged,
    };
    let host = if text(HOST).is_empty() { arena.text(target::host(url)) } else { text(HOST) };
    let id = text(ID).as_bytes();
    let request = EdgeRequest {
        time: clock::any(text(TIME).as_bytes()).ok_or(Reject::BAD_TIMESTAMP)?,
        class: EdgeClass::Origin,
        host: arena.lower(host),
        path: arena.text(target.path),
        code: target::code(target.path, arena),
        query: if target.query.is_empty() { text(QUERY) } else { arena.text(target.query) },
        method: None,
        status: text(STATUS).parse().map_err(|_| Reject::BAD_STATUS)?,
        address: address(text(ADDRESS).as_bytes()),
        user_agent: text(AGENT),
        referrer: text(REFERRER),
        country: text(COUNTRY),
        region: text(REGION),
        city: text(CITY),
        asked: asked(text(GPC), text(DNT)),
        language: text(LANGUAGE),
        line_key: well_formed_key(id).then_some(id),
    };
    let is_shield =
        matches!(text(IS_EDGE), "false" | "0") || text(VISITS).parse::<u32>().is_ok_and(|visits| visits > 0);
    let outcome = match outcome(text(STATE)) {
        Outcome::Edge if is_shield => Outcome::ParentHit,
        _ if is_shield => Outcome::NotViewer,
        outcome => outcome,
    };
    Ok(Entry { request, verb, outcome })
}

/// How a request ended, by `fastly_info.state`: a first word, and what it came to behind hyphens.
fn outcome(state: &str) -> Outcome {
    let has = |word: &str| state.split('-').any(|part| part == word);
    match state.split('-').next().unwrap_or_default() {
        _ if has("SYNTH") || has("ERROR") || state == "NONE" => Outcome::EdgeMade,
        "HIT" if !has("REFRESH") => Outcome::Edge,
        // MISS, PASS, HITPASS; a revalidation; what isn't logged or known is left to the id.
        _ => Outcome::Origin,
    }
}

#[cfg(test)]
mod tests;
