//! Akamai DataStream 2: a JSON object a line, or columns between blanks in the order that `edge_logs.akamai.fields` gives.
//!
//! ```text
//! {"version":"2","reqId":"3f2fcdbd","reqTimeSec":"1773480413.123","cliIP":"…","statusCode":"302","reqHost":"…","reqMethod":"GET",
//!  "reqPath":"/k7Qp2","UA":"Mozilla/5.0%20(X11)","edgeIP":"192.0.2.200","cacheStatus":"1","cacheable":"1"}
//! ```
//! Missing fields are left out of JSON, and are hyphens in columns. Agent and referrer are percent-encoded, by some
//! streams as forms are. `reqId` is short and comes again, so a line's key is that, the edge's address and the second,
//! unless `edge_logs.akamai.id_field` names a field that holds an id of one's own.

use std::sync::Arc;

use schemas::UtcMicros;
use schemas::privacy::Asked;
use schemas::time::SECOND;

use super::address::address;
use super::akamai::decoded;
use super::arena::Arena;
use super::clock;
use super::format::{Fit, Layout, Sample, Settings};
use super::identity::well_formed_key;
use super::judge::{Entry, Found, Outcome};
use super::keyed::Keys;
use super::request::{EdgeClass, EdgeRequest, Reject};
use super::target::{self, Verb};

const KEY: &str = "edge_logs.akamai.fields";

/// The fields that are read; the place in this list is the place of a field's value.
const READ: [&str; PLACES] = [
    "reqTimeSec",
    "statusCode",
    "reqPath",
    "reqMethod",
    "reqHost",
    "queryStr",
    "cliIP",
    "UA",
    "referer",
    "country",
    "accLang",
    "reqId",
    "edgeIP",
    "cacheStatus",
    "cacheable",
    "breadcrumbs",
    "isMidgress",
    "state",
    "city",
];
const PLACES: usize = 19;
/// Behind those, the place of the id of one's own.
const OWN_ID: usize = PLACES;
const ALL: usize = PLACES + 1;

/// The places of values.
const TIME: usize = 0;
const STATUS: usize = 1;
const PATH: usize = 2;
const ID: usize = 11;
const EDGE: usize = 12;
const STATE: usize = 17;
const CITY: usize = 18;

#[derive(Debug)]
struct AkamaiDs2 {
    keys: Keys,
    /// Of a structured stream: each column's place; `None` where it isn't read.
    columns: Vec<Option<usize>>,
    /// The place of the id of one's own.
    own_id: Option<usize>,
    has_id: bool,
}

/// A record's values; empty where there are none.
type Values<'a> = [&'a str; ALL];

impl AkamaiDs2 {
    fn new(settings: &Settings) -> Self {
        let own = settings.akamai_id_field.as_str();
        let place = |name: &str| {
            let read = READ.iter().position(|known| *known == name);
            read.or((name == own).then_some(OWN_ID))
        };
        let names = READ.iter().copied().chain([own]).filter(|name| !name.is_empty());
        let keys = names.filter_map(|name| place(name).map(|place| (name, place)));
        Self {
            keys: Keys::new(keys),
            columns: settings.akamai.iter().map(|name| place(name)).collect(),
            own_id: (!own.is_empty()).then(|| place(own)).flatten(),
            has_id: true,
        }
    }

    fn id_place(&self) -> usize {
        self.own_id.unwrap_or(ID)
    }

    fn values<'a>(&self, line: &'a [u8], arena: &'a Arena) -> Result<Values<'a>, Reject> {
        if line.first() != Some(&b'{') && !self.columns.is_empty() {
            return self.split(line, arena);
        }
        let read = self.keys.values::<ALL>(line, arena).map_err(|_| Reject::BAD_JSON)?;
        Ok(read.map(|value| value.text(arena)))
    }

    /// The columns of a structured line.
    fn split<'a>(&self, line: &'a [u8], arena: &'a Arena) -> Result<Values<'a>, Reject> {
        let separator = if memchr::memchr(b'\t', line).is_some() { b'\t' } else { b' ' };
        let mut values = [""; ALL];
        let mut columns = self.columns.iter();
        let mut start = 0;
        for end in memchr::memchr_iter(separator, line).chain([line.len()]) {
            let place = columns.next().ok_or(Reject::TOO_MANY_COLUMNS)?;
            let column = &line[start..end];
            if let Some(place) = place.filter(|_| column != b"-") {
                values[place] = arena.text(column);
            }
            start = end + 1;
        }
        if columns.next().is_some() { Err(Reject::CUT_SHORT) } else { Ok(values) }
    }

    fn entry<'a>(&self, line: &'a [u8], arena: &'a Arena) -> Result<Entry<'a>, Reject> {
        let values = self.values(line, arena)?;
        let [time, status, path, method, host, query, ip, agent, referrer, country, language, ..] = values;
        let time = clock::epoch(time.as_bytes()).ok_or(Reject::BAD_TIMESTAMP)?;
        let target = target::split(target::rooted(path, arena).as_bytes());
        let verb = match method {
            "" => Verb::Unlogged,
            method => Verb::read(method.as_bytes()).ok_or(Reject::BAD_REQUEST)?,
        };
        let request = EdgeRequest {
            time,
            class: EdgeClass::Origin,
            host: arena.lower(host),
            path: arena.text(target.path),
            code: target::code(target.path, arena),
            query: if query.is_empty() { arena.text(target.query) } else { query },
            method: None,
            status: status.parse().map_err(|_| Reject::BAD_STATUS)?,
            address: address(ip.as_bytes()),
            user_agent: decoded(agent, arena),
            referrer: decoded(referrer, arena),
            country,
            region: decoded(values[STATE], arena),
            city: decoded(values[CITY], arena),
            asked: Asked::default(),
            language: decoded(language, arena),
            line_key: self.line_key(&values, time, arena),
        };
        Ok(Entry { request, verb, outcome: outcome(&values, arena) })
    }

    fn line_key<'a>(&self, values: &Values<'a>, time: UtcMicros, arena: &'a Arena) -> Option<&'a [u8]> {
        let id = Some(values[self.id_place()].as_bytes()).filter(|id| well_formed_key(id))?;
        if self.own_id.is_some() {
            return Some(id);
        }
        let (id, edge, second) = (values[ID], values[EDGE], time.0.div_euclid(SECOND));
        let key = arena.display(&format_args!("{id}/{edge}/{second}")).as_bytes();
        well_formed_key(key).then_some(key)
    }
}

/// How many of the first lines are such records.
pub fn recognise(sample: &Sample<'_>, settings: &Settings) -> Fit {
    let (arena, akamai) = (Arena::new(), AkamaiDs2::new(settings));
    let of = sample.lines.len();
    let is_ours = |line: &&[u8]| akamai.values(line, &arena).is_ok_and(|values| looks_right(&values));
    let matched = sample.lines.iter().filter(|line| is_ours(line)).count();
    let json = sample.lines.iter().map(|line| akamai.keys.values::<ALL>(line, &arena));
    let problem = json.clone().find_map(Result::err);
    let why = match problem {
        _ if matched > 0 => format!("{matched} of the first {of} lines are DataStream's records"),
        _ if json.clone().any(|object| object.is_ok()) => {
            let objects = json.flatten().map(|values| values.map(|value| value.text(&arena)));
            format!("JSON objects, but {}", lacking(objects))
        }
        Some(_) if !akamai.columns.is_empty() => {
            format!("neither JSON objects nor the {} columns of {KEY}", akamai.columns.len())
        }
        Some(problem) => format!("no JSON object a line ({problem}), and {KEY} names no columns"),
        None => "no lines".to_owned(),
    };
    Fit { matched, of, why }
}

/// Names alone would do for JSON; columns are told by what they hold. Akamai's own samples write paths without their
/// first slash.
fn looks_right(values: &Values<'_>) -> bool {
    is_time(values[TIME]) && is_status(values[STATUS]) && !values[PATH].is_empty()
}

fn is_time(value: &str) -> bool {
    clock::epoch(value.as_bytes()).is_some()
}

fn is_status(value: &str) -> bool {
    value.parse::<u16>().is_ok()
}

/// What objects lack, or hold in a way that can't be read, to be DataStream's records.
fn lacking<'a>(objects: impl Iterator<Item = Values<'a>>) -> String {
    let objects: Vec<Values<'_>> = objects.collect();
    let fits = |place: usize, value: &str| match place {
        TIME => is_time(value),
        STATUS => is_status(value),
        _ => !value.is_empty(),
    };
    let (missing, unfit): (Vec<_>, Vec<_>) = [TIME, STATUS, PATH]
        .into_iter()
        .filter(|place| !objects.iter().any(|values| fits(*place, values[*place])))
        .partition(|place| objects.iter().all(|values| values[*place].is_empty()));
    let names = |places: &[usize]| places.iter().map(|place| READ[*place]).collect::<Vec<_>>().join(", ");
    match (missing.as_slice(), unfit.as_slice()) {
        ([], []) => "none with reqTimeSec, statusCode and reqPath".to_owned(),
        (missing, []) => format!("without {}", names(missing)),
        ([], unfit) => format!("their {} can't be read", names(unfit)),
        (missing, unfit) => format!("without {}, and their {} can't be read", names(missing), names(unfit)),
    }
}

/// Keys are read by name in every line; the first lines only tell whether there is an id among them.
pub fn layout(sample: &Sample<'_>, settings: &Settings) -> Arc<dyn Layout> {
    let (arena, akamai) = (Arena::new(), AkamaiDs2::new(settings));
    let place = akamai.id_place();
    let records = sample.lines.iter().filter_map(|line| akamai.values(line, &arena).ok());
    let with_id: Vec<bool> = records.map(|values| !values[place].is_empty()).collect();
    // With nothing to go by, an id is expected: then each line without one says so by itself.
    Arc::new(AkamaiDs2 { has_id: with_id.is_empty() || with_id.contains(&true), ..akamai })
}

impl Layout for AkamaiDs2 {
    fn parse<'a>(&self, line: &'a [u8], arena: &'a Arena, found: &mut dyn FnMut(Found<'a>)) {
        found(self.entry(line, arena).into());
    }

    fn has_id(&self) -> bool {
        self.has_id
    }
}

/// How a request ended. A miss at the edge may have been answered by its parent: then the last server along the way,
/// in the breadcrumbs, is that and not the origin.
fn outcome(values: &Values<'_>, arena: &Arena) -> Outcome {
    let [cache, cacheable, breadcrumbs, midgress] = [values[13], values[14], values[15], values[16]];
    let crumbs = arena.percent(breadcrumbs.as_bytes());
    let servers = crumbs.split(|byte| *byte == b'[').skip(1);
    let kinds = servers.filter_map(|server| {
        let mut parts = server.split(|byte| matches!(byte, b',' | b']'));
        parts.find_map(|part| part.trim_ascii().strip_prefix(b"c="))
    });
    match cache {
        _ if matches!(midgress, "1" | "2" | "true") => Outcome::NotViewer,
        _ if cacheable == "0" => Outcome::Origin,
        "1" => Outcome::Edge,
        "0" if kinds.clone().last() == Some(b"c") && !kinds.clone().any(|kind| kind == b"o") => Outcome::Edge,
        // A miss; numbers that aren't documented are left to the id.
        _ => Outcome::Origin,
    }
}

#[cfg(test)]
mod tests;
