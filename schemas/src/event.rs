//! A click as the redirect saw it, before anything is made of it.

use std::net::IpAddr;

use xxhash_rust::xxh3::xxh3_64;

use crate::class::Method;
use crate::ids::{ClickId, LinkId};
use crate::link::Analytics;
use crate::time::UtcMicros;

/// The longest text field of an event, in bytes; what is longer is cut at a character.
pub const MAX_TEXT_BYTES: usize = 2_048;

/// What the value of a header that announces a fetch begins with when the fetch is one ahead of a click.
const AHEAD: &[&str] = &["prefetch", "prerender", "preview", "instant"];

/// The headers by which browsers and apps announce that they fetch ahead of a click, in the order in which an event lists
/// them, and what their values begin with then: in any case, and anything where it says nothing.
pub const PURPOSE_HEADERS: [(&str, &[&str]); 8] = [
    ("sec-purpose", AHEAD),
    ("purpose", AHEAD),
    ("x-moz", AHEAD),
    ("x-purpose", AHEAD),
    ("x-sec-purpose", AHEAD),
    // names the rule that made Chromium speculate, or null
    ("sec-speculation-tags", &[""]),
    ("next-router-prefetch", &["1"]),
    // the new Outlook opens links on its reader's device before it shows them
    ("x-native-host", &["OneOutlook/"]),
];

/// One answered request, borrowing its texts from the request or from the journal's bytes.
///
/// The first six fields are the fixed-size part of the wire record (design §4.3).
#[derive(Clone, Debug, PartialEq)]
pub struct ClickEvent<'a> {
    /// Identity of the request.
    pub click_id: ClickId,
    /// The link that answered.
    pub link_id: LinkId,
    /// Taken inside the journal's append; never goes back within a journal.
    pub event_time: UtcMicros,
    /// The link's promise at that time.
    pub analytics: Analytics,
    /// Hash of address and agent under the day's key; `None` when the client asked not to be known.
    pub visitor: Option<i64>,
    /// [`agent_hash`] of the user agent.
    pub agent_hash: u64,
    /// The tenant.
    pub workspace: &'a str,
    /// Host name of the link.
    pub domain: &'a str,
    /// Code of the link.
    pub code: &'a str,
    /// The revision in force.
    pub revision: i32,
    /// Where the visitor was sent.
    pub destination: &'a str,
    /// GET or HEAD.
    pub method: Method,
    /// The answer's status.
    pub status: u16,
    /// The client, as far as trusted peers say.
    pub address: Option<IpAddr>,
    /// Set when a trusted peer's request id was missing or malformed.
    pub no_edge_id: bool,
    /// The client asked for privacy: no visitor, network or city of it is to be kept.
    pub private: bool,
    /// `User-Agent`; empty when missing.
    pub user_agent: &'a str,
    /// `Referer` in full; empty when missing.
    pub referrer: &'a str,
    /// `Accept-Language`; empty when missing.
    pub language: &'a str,
    /// What is kept of the request's query, without `?`; empty when nothing.
    pub query: &'a str,
    /// Country as the edge's header says; empty when it doesn't.
    pub country: &'a str,
    /// Region within the country as the edge's header says; empty when it doesn't.
    pub region: &'a str,
    /// City as the edge's header says; empty when it doesn't.
    pub city: &'a str,
    /// Headers of [`PURPOSE_HEADERS`] as `name: value` lines; empty when none.
    pub purpose: &'a str,
    /// The edge provider whose request id made `click_id`; empty when it was made here.
    pub provider: &'a str,
}

/// A stable hash of a user agent, to look up what was made of it before.
pub fn agent_hash(user_agent: &str) -> u64 {
    xxh3_64(user_agent.as_bytes())
}

/// `text` cut to at most `max` bytes, at a character's border.
pub fn cut(text: &str, max: usize) -> &str {
    if text.len() <= max {
        return text;
    }
    let mut end = max;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
