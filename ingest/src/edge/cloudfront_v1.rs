//! CloudFront standard logs, legacy: W3C extended, tab-separated, columns named by a `#Fields:` line. Names decide,
//! never places: there have been layouts of 12 to 33 columns, and joined files change theirs in the middle.
//!
//! Values carry one layer of percent-encoding by CloudFront over what the client sent: gone once, it is the wire's
//! path; gone twice, the code.

use std::sync::Arc;

use super::address::address;
use super::arena::Arena;
use super::clock;
use super::cloudfront::{decoded, is_value, outcome, user_agent};
use super::format::{Fit, Layout, Sample, Settings};
use super::identity::well_formed_key;
use super::judge::{Entry, Found};
use super::request::{EdgeClass, EdgeRequest, Reject};
use super::target::{self, Verb};

const FIELDS: &[u8] = b"#Fields:";

/// The columns that are read, each with its name. The place in this list is the column's slot.
const NAMES: [&str; 14] = [
    "date",
    "time",
    "c-ip",
    "cs-method",
    "cs-uri-stem",
    "sc-status",
    "cs(Referer)",
    "cs(User-Agent)",
    "cs-uri-query",
    "x-edge-result-type",
    "x-edge-request-id",
    "x-host-header",
    "x-edge-response-result-type",
    "x-edge-detailed-result-type",
];
const SLOTS: usize = NAMES.len() + 1;
/// Where columns go that aren't read.
const REST: u8 = NAMES.len() as u8;

/// Columns without which a row says nothing.
const NEEDED: [usize; 4] = [0, 1, 4, 5];

/// What a `#Fields:` line makes of rows.
#[derive(Debug, Clone)]
struct CloudFrontV1 {
    /// The slot of each column; empty before the first `#Fields:` line, or when that lacks what is needed.
    slots: Vec<u8>,
    has: [bool; SLOTS],
}

/// How many of the first lines are headers, or rows of the columns that they name.
pub fn recognise(sample: &Sample<'_>) -> Fit {
    let arena = Arena::new();
    let (mut layout, mut named, mut matched) = (CloudFrontV1::none(), 0, 0);
    for line in &sample.lines {
        if line.starts_with(b"#") {
            if let Some(fields) = CloudFrontV1::of_header(line) {
                named = named.max(fields.slots.len());
                layout = fields;
            }
            matched += usize::from(named > 0);
        } else {
            matched += usize::from(layout.entry(line, &arena).is_ok());
        }
    }
    let of = sample.lines.len();
    let why = match named {
        0 if sample.lines.iter().any(|line| line.starts_with(FIELDS)) => {
            "its #Fields line lacks date, time, cs-uri-stem or sc-status".to_owned()
        }
        0 => "no #Fields line".to_owned(),
        _ => {
            format!("a #Fields line names {named} columns of CloudFront, and {matched} of the first {of} lines fit it")
        }
    };
    Fit { matched, of, why }
}

/// Rows are read by the `#Fields:` line before them.
pub fn layout(_sample: &Sample<'_>, _settings: &Settings) -> Arc<dyn Layout> {
    Arc::new(CloudFrontV1::none())
}

impl Layout for CloudFrontV1 {
    fn parse<'a>(&self, line: &'a [u8], arena: &'a Arena, found: &mut dyn FnMut(Found<'a>)) {
        found(self.entry(line, arena).into());
    }

    fn has_id(&self) -> bool {
        self.has[10]
    }

    fn header_mark(&self) -> Option<u8> {
        Some(b'#')
    }

    fn after_header(&self, line: &[u8]) -> Option<Arc<dyn Layout>> {
        line.starts_with(FIELDS).then(|| {
            let layout = Self::of_header(line).unwrap_or_else(Self::none);
            Arc::new(layout) as Arc<dyn Layout>
        })
    }
}

impl CloudFrontV1 {
    fn none() -> Self {
        Self { slots: Vec::new(), has: [false; SLOTS] }
    }

    /// `None` when the line names no columns, or lacks one that is needed.
    fn of_header(line: &[u8]) -> Option<Self> {
        let names = line.strip_prefix(FIELDS)?;
        let mut layout = Self::none();
        for name in names.split(u8::is_ascii_whitespace).filter(|name| !name.is_empty()) {
            let slot = NAMES.iter().position(|known| known.as_bytes().eq_ignore_ascii_case(name));
            // A name that comes twice counts where it comes first.
            let slot = slot.filter(|slot| !layout.has[*slot]).unwrap_or(REST as usize);
            layout.has[slot] = true;
            layout.slots.push(slot as u8);
        }
        NEEDED.iter().all(|slot| layout.has[*slot]).then_some(layout)
    }

    fn columns<'a>(&self, line: &'a [u8]) -> Result<[&'a [u8]; SLOTS], Reject> {
        if self.slots.is_empty() {
            return Err(Reject::NO_HEADER);
        }
        let mut columns: [&[u8]; SLOTS] = [b""; SLOTS];
        let mut slots = self.slots.iter();
        let mut start = 0;
        for end in memchr::memchr_iter(b'\t', line).chain([line.len()]) {
            let Some(slot) = slots.next() else { return Err(Reject::TOO_MANY_COLUMNS) };
            columns[usize::from(*slot)] = &line[start..end];
            start = end + 1;
        }
        if slots.next().is_some() { Err(Reject::CUT_SHORT) } else { Ok(columns) }
    }

    fn entry<'a>(&self, line: &'a [u8], arena: &'a Arena) -> Result<Entry<'a>, Reject> {
        let [date, time, ip, method, stem, status, referrer, agent, query, result, id, host, response, detailed, _rest] =
            self.columns(line)?;
        let path = target::without_fragment(decoded(stem, arena));
        let verb = if self.has[3] { Verb::read(method).ok_or(Reject::BAD_REQUEST)? } else { Verb::Unlogged };
        let request = EdgeRequest {
            time: clock::date_and_time(date, time).ok_or(Reject::BAD_TIMESTAMP)?,
            class: EdgeClass::Origin,
            host: arena.lower(arena.text(decoded(host, arena))),
            path: arena.text(path),
            code: target::code(path, arena),
            query: arena.text(decoded(query, arena)),
            method: None,
            status: status_code(status)?,
            address: address(ip),
            user_agent: user_agent(agent, arena),
            referrer: arena.text(decoded(referrer, arena)),
            country: "",
            language: "",
            line_key: well_formed_key(id).then_some(id),
        };
        Ok(Entry { request, verb, outcome: outcome(result, response, detailed) })
    }
}

/// `000` and a hyphen: the client left before there was a status.
fn status_code(column: &[u8]) -> Result<u16, Reject> {
    if !is_value(column) {
        return Ok(0);
    }
    std::str::from_utf8(column).ok().and_then(|text| text.parse().ok()).ok_or(Reject::BAD_STATUS)
}
