//! The bytes of a click event: version 1.
//!
//! ```text
//! version u8 │ analytics u8 │ head length u16 │ click id 16 │ link id 16 │ event time i64 │ visitor i64 │ agent hash u64 │ signals u8
//! then fields: tag u8 │ length u16 │ bytes, in any order
//! ```
//! Numbers are little-endian, ids are in their own byte order. The fixed-size head lets shedding and
//! sketches do without the rest: with the agent's hash, the signals tell its class. Heads of the first release end before the
//! signals, which are unknown then. A reader skips forward: what the head holds beyond its own knowledge, and
//! fields whose tag it doesn't know. A writer of a later version may add both; it raises `version` only when
//! old readers must not read on.

use std::net::{IpAddr, Ipv6Addr};

use uuid::Uuid;

use crate::class::Method;
use crate::event::{ClickEvent, MAX_TEXT_BYTES, cut};
use crate::ids::{ClickId, LinkId};
use crate::link::Analytics;
use crate::time::UtcMicros;
use crate::visitor::{as_v6_octets, canonical};

/// The version this code writes, and the newest that it reads.
pub const VERSION: u8 = 1;
/// Bytes of the fixed-size head as it is written, with its first four.
pub const HEAD_BYTES: usize = 61;
/// Bytes of the shortest head: the first release's, without signals.
const LEAST_HEAD_BYTES: usize = 60;

/// Set in the head's analytics byte when the event has no visitor.
const NO_VISITOR: u8 = 0x80;

/// Set in the head's signals when the method is `HEAD`.
const IS_HEAD: u8 = 1;
/// Set in the head's signals when there are purpose headers.
const HAS_PURPOSE: u8 = 2;

/// Why bytes are not an event. Such a record goes to table `rejects`; it never stops a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// Written by a newer release, which must be installed to read it.
    #[error("wire version {0} is newer than {VERSION}")]
    NewerVersion(u8),
    /// Cut, or not an event.
    #[error("event is cut or corrupt at byte {0}")]
    Corrupt(usize),
    /// A field that every event has is missing.
    #[error("event lacks its {0}")]
    Missing(&'static str),
}

/// What shedding and sketches need of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Identity of the request.
    pub click_id: ClickId,
    /// The link that answered.
    pub link_id: LinkId,
    /// When.
    pub event_time: UtcMicros,
    /// The link's promise.
    pub analytics: Analytics,
    /// Visitor hash, if any.
    pub visitor: Option<i64>,
    /// Hash of the user agent.
    pub agent_hash: u64,
    /// What else tells the class; `None` in events of the first release.
    pub signals: Option<Signals>,
}

/// What of a request tells its class, beside its agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signals {
    /// The method is `HEAD`.
    pub is_head: bool,
    /// There are purpose headers: what they say stands in the event's fields alone.
    pub has_purpose: bool,
}

impl Signals {
    fn of(event: &ClickEvent<'_>) -> Self {
        Self { is_head: matches!(event.method, Method::Head), has_purpose: !event.purpose.is_empty() }
    }

    fn to_byte(self) -> u8 {
        (if self.is_head { IS_HEAD } else { 0 }) | (if self.has_purpose { HAS_PURPOSE } else { 0 })
    }

    fn from_byte(byte: u8) -> Self {
        Self { is_head: byte & IS_HEAD != 0, has_purpose: byte & HAS_PURPOSE != 0 }
    }
}

mod tag {
    pub(super) const WORKSPACE: u8 = 1;
    pub(super) const DOMAIN: u8 = 2;
    pub(super) const CODE: u8 = 3;
    pub(super) const REVISION: u8 = 4;
    pub(super) const DESTINATION: u8 = 5;
    pub(super) const METHOD: u8 = 6;
    pub(super) const STATUS: u8 = 7;
    pub(super) const ADDRESS: u8 = 8;
    pub(super) const NO_EDGE_ID: u8 = 9;
    pub(super) const USER_AGENT: u8 = 10;
    pub(super) const REFERRER: u8 = 11;
    pub(super) const LANGUAGE: u8 = 12;
    pub(super) const QUERY: u8 = 13;
    pub(super) const COUNTRY: u8 = 14;
    pub(super) const PURPOSE: u8 = 15;
    pub(super) const PROVIDER: u8 = 16;
    pub(super) const REGION: u8 = 17;
    pub(super) const CITY: u8 = 18;
    pub(super) const PRIVATE: u8 = 19;
}

/// Appends the bytes of `event` to `out`. Texts are cut at [`MAX_TEXT_BYTES`].
pub fn encode(event: &ClickEvent<'_>, out: &mut Vec<u8>) {
    let analytics = match event.analytics {
        Analytics::Billed => 0u8,
        Analytics::Internal => 1,
        Analytics::Off => 2,
    };
    out.push(VERSION);
    out.push(analytics | if event.visitor.is_none() { NO_VISITOR } else { 0 });
    out.extend_from_slice(&(HEAD_BYTES as u16).to_le_bytes());
    out.extend_from_slice(&event.click_id.0);
    out.extend_from_slice(event.link_id.0.as_bytes());
    out.extend_from_slice(&event.event_time.0.to_le_bytes());
    out.extend_from_slice(&event.visitor.unwrap_or(0).to_le_bytes());
    out.extend_from_slice(&event.agent_hash.to_le_bytes());
    out.push(Signals::of(event).to_byte());

    let mut field = |tag: u8, bytes: &[u8]| {
        out.push(tag);
        out.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
        out.extend_from_slice(bytes);
    };
    field(tag::REVISION, &event.revision.to_le_bytes());
    field(tag::STATUS, &event.status.to_le_bytes());
    field(tag::METHOD, &[matches!(event.method, Method::Head) as u8]);
    if let Some(address) = event.address {
        field(tag::ADDRESS, &as_v6_octets(address));
    }
    if event.no_edge_id {
        field(tag::NO_EDGE_ID, &[]);
    }
    if event.private {
        field(tag::PRIVATE, &[]);
    }
    for (tag, text) in [
        (tag::WORKSPACE, event.workspace),
        (tag::DOMAIN, event.domain),
        (tag::CODE, event.code),
        (tag::DESTINATION, event.destination),
        (tag::USER_AGENT, event.user_agent),
        (tag::REFERRER, event.referrer),
        (tag::LANGUAGE, event.language),
        (tag::QUERY, event.query),
        (tag::COUNTRY, event.country),
        (tag::PURPOSE, event.purpose),
        (tag::PROVIDER, event.provider),
        (tag::REGION, event.region),
        (tag::CITY, event.city),
    ] {
        if !text.is_empty() {
            field(tag, cut(text, MAX_TEXT_BYTES).as_bytes());
        }
    }
}

/// Reads the fixed-size head alone.
///
/// # Errors
/// When the bytes are cut, or of a newer version.
pub fn decode_head(bytes: &[u8]) -> Result<Head, WireError> {
    let (&version, _) = bytes.split_first().ok_or(WireError::Corrupt(0))?;
    if version > VERSION {
        return Err(WireError::NewerVersion(version));
    }
    if version == 0 || bytes.len() < LEAST_HEAD_BYTES {
        return Err(WireError::Corrupt(bytes.len().min(LEAST_HEAD_BYTES)));
    }
    let length = head_length(bytes);
    let signals = bytes.get(LEAST_HEAD_BYTES).filter(|_| length > LEAST_HEAD_BYTES);
    if length > LEAST_HEAD_BYTES && signals.is_none() {
        return Err(WireError::Corrupt(LEAST_HEAD_BYTES));
    }
    let analytics = match bytes[1] & !NO_VISITOR {
        0 => Analytics::Billed,
        1 => Analytics::Internal,
        2 => Analytics::Off,
        _ => return Err(WireError::Corrupt(1)),
    };
    let visitor = i64::from_le_bytes(array(bytes, 44));
    Ok(Head {
        click_id: ClickId(array(bytes, 4)),
        link_id: LinkId(Uuid::from_bytes(array(bytes, 20))),
        event_time: UtcMicros(i64::from_le_bytes(array(bytes, 36))),
        analytics,
        visitor: (bytes[1] & NO_VISITOR == 0).then_some(visitor),
        agent_hash: u64::from_le_bytes(array(bytes, 52)),
        signals: signals.map(|byte| Signals::from_byte(*byte)),
    })
}

/// Reads the client's address alone: a few fields from the front, so that a click can be judged by its head and this.
pub fn decode_address(bytes: &[u8]) -> Option<IpAddr> {
    let mut at = bytes.get(2..4).map(|length| usize::from(u16::from_le_bytes(array(length, 0))))?.max(LEAST_HEAD_BYTES);
    loop {
        let field = bytes.get(at..at + 3)?;
        let length = usize::from(u16::from_le_bytes([field[1], field[2]]));
        if field[0] == tag::ADDRESS {
            return address(bytes.get(at + 3..at + 3 + length)?);
        }
        at += 3 + length;
    }
}

fn address(octets: &[u8]) -> Option<IpAddr> {
    let octets: [u8; 16] = octets.try_into().ok()?;
    Some(canonical(IpAddr::V6(Ipv6Addr::from(octets))))
}

/// Where the head ends and the fields begin, as the head says; the caller has checked that the shortest head is there.
fn head_length(bytes: &[u8]) -> usize {
    usize::from(u16::from_le_bytes(array(bytes, 2))).max(LEAST_HEAD_BYTES)
}

/// Reads a whole event; its texts borrow from `bytes`. Text that is not UTF-8 reads as empty.
///
/// # Errors
/// When the bytes are cut, of a newer version, or lack what every event has.
pub fn decode(bytes: &[u8]) -> Result<ClickEvent<'_>, WireError> {
    let head = decode_head(bytes)?;
    let mut event = ClickEvent {
        click_id: head.click_id,
        link_id: head.link_id,
        event_time: head.event_time,
        analytics: head.analytics,
        visitor: head.visitor,
        agent_hash: head.agent_hash,
        workspace: "",
        domain: "",
        code: "",
        revision: 0,
        destination: "",
        method: Method::Get,
        status: 0,
        address: None,
        no_edge_id: false,
        private: false,
        user_agent: "",
        referrer: "",
        language: "",
        query: "",
        country: "",
        region: "",
        city: "",
        purpose: "",
        provider: "",
    };
    let mut at = head_length(bytes);
    while at < bytes.len() {
        let head = bytes.get(at..at + 3).ok_or(WireError::Corrupt(at))?;
        let length = usize::from(u16::from_le_bytes([head[1], head[2]]));
        let value = bytes.get(at + 3..at + 3 + length).ok_or(WireError::Corrupt(at))?;
        set(&mut event, head[0], value).ok_or(WireError::Corrupt(at))?;
        at += 3 + length;
    }
    if at > bytes.len() {
        return Err(WireError::Corrupt(bytes.len()));
    }
    if event.code.is_empty() {
        return Err(WireError::Missing("code"));
    }
    if event.workspace.is_empty() {
        return Err(WireError::Missing("workspace"));
    }
    Ok(event)
}

fn set<'a>(event: &mut ClickEvent<'a>, tag: u8, value: &'a [u8]) -> Option<()> {
    let text = || std::str::from_utf8(value).unwrap_or_default();
    match tag {
        tag::WORKSPACE => event.workspace = text(),
        tag::DOMAIN => event.domain = text(),
        tag::CODE => event.code = text(),
        tag::REVISION => event.revision = i32::from_le_bytes(value.try_into().ok()?),
        tag::DESTINATION => event.destination = text(),
        tag::METHOD => event.method = if value == [1] { Method::Head } else { Method::Get },
        tag::STATUS => event.status = u16::from_le_bytes(value.try_into().ok()?),
        tag::ADDRESS => event.address = Some(address(value)?),
        tag::NO_EDGE_ID => event.no_edge_id = true,
        tag::PRIVATE => event.private = true,
        tag::USER_AGENT => event.user_agent = text(),
        tag::REFERRER => event.referrer = text(),
        tag::LANGUAGE => event.language = text(),
        tag::QUERY => event.query = text(),
        tag::COUNTRY => event.country = text(),
        tag::PURPOSE => event.purpose = text(),
        tag::PROVIDER => event.provider = text(),
        tag::REGION => event.region = text(),
        tag::CITY => event.city = text(),
        _ => {}
    }
    Some(())
}

/// `N` bytes at `at`, which the caller has checked to be there.
fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> ClickEvent<'static> {
        ClickEvent {
            click_id: ClickId([7; 16]),
            link_id: LinkId(Uuid::from_bytes([9; 16])),
            event_time: UtcMicros(1_773_480_413_123_456),
            analytics: Analytics::Internal,
            visitor: Some(-5),
            agent_hash: 42,
            workspace: "default",
            domain: "go.example.com",
            code: "k7Qp2",
            revision: 3,
            destination: "https://example.com/",
            method: Method::Head,
            status: 302,
            address: Some("203.0.113.7".parse().unwrap()),
            no_edge_id: true,
            private: false,
            user_agent: "UA",
            referrer: "https://t.co/",
            language: "de",
            query: "utm_source=x",
            country: "NL",
            region: "",
            city: "",
            purpose: "sec-purpose: prefetch",
            provider: "nginx",
        }
    }

    /// The bytes of release 1, whose head has no signals. They are in journals and topics, as those of each later release:
    /// these tests may gain cases, never change one.
    const FIRST: &str = include_str!("../golden/click-v1.hex");
    const WITH_SIGNALS: &str = include_str!("../golden/click-v1-signals.hex");
    const WITH_PLACE: &str = include_str!("../golden/click-v1-place.hex");
    const PRIVATE: &str = include_str!("../golden/click-v1-private.hex");

    fn golden(hex: &str) -> Vec<u8> {
        let pairs = hex.trim().as_bytes().chunks(2);
        pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
    }

    #[test]
    fn golden_bytes_are_written_and_read() {
        let mut bytes = Vec::new();
        encode(&sample(), &mut bytes);
        assert_eq!(bytes, golden(WITH_SIGNALS));
        for (hex, signals) in [(FIRST, None), (WITH_SIGNALS, Some(Signals { is_head: true, has_purpose: true }))] {
            let golden = golden(hex);
            assert_eq!(decode(&golden).unwrap(), sample());
            let ClickEvent { click_id, link_id, event_time, analytics, visitor, agent_hash, .. } = sample();
            let head = Head { click_id, link_id, event_time, analytics, visitor, agent_hash, signals };
            assert_eq!(decode_head(&golden).unwrap(), head);
        }
    }

    #[test]
    fn golden_bytes_of_places_and_private_clicks_are_written_and_read() {
        let placed = ClickEvent { region: "NH", city: "Amsterdam", ..sample() };
        let private = ClickEvent { private: true, visitor: None, ..sample() };
        for (event, hex) in [(placed, WITH_PLACE), (private, PRIVATE)] {
            let mut bytes = Vec::new();
            encode(&event, &mut bytes);
            assert_eq!(bytes, golden(hex));
            assert_eq!(decode(&bytes).unwrap(), event);
        }
    }

    #[test]
    fn an_address_is_read_without_the_rest() {
        for text in [Some("203.0.113.7"), Some("2001:db8::7"), None] {
            let event = ClickEvent { address: text.map(|text| text.parse().unwrap()), ..sample() };
            let mut bytes = Vec::new();
            encode(&event, &mut bytes);
            assert_eq!(decode_address(&bytes), event.address);
        }
        assert_eq!(decode_address(&golden(FIRST)), sample().address);
        assert_eq!(decode_address(&[]), None);
    }

    #[test]
    fn each_signal_is_of_its_own() {
        for (method, purpose) in [(Method::Get, ""), (Method::Get, "x-moz: prefetch"), (Method::Head, "")] {
            let event = ClickEvent { method, purpose, ..sample() };
            let mut bytes = Vec::new();
            encode(&event, &mut bytes);
            let said = Signals { is_head: method == Method::Head, has_purpose: !purpose.is_empty() };
            assert_eq!(decode_head(&bytes).unwrap().signals, Some(said));
        }
    }

    #[test]
    fn a_head_that_is_cut_before_its_signals_is_corrupt() {
        let mut bytes = Vec::new();
        encode(&sample(), &mut bytes);
        assert_eq!(decode_head(&bytes[..60]), Err(WireError::Corrupt(60)));
        assert!(decode_head(&bytes[..61]).is_ok());
    }

    #[test]
    fn a_reader_skips_what_it_does_not_know() {
        let mut bytes = Vec::new();
        encode(&sample(), &mut bytes);
        bytes.extend_from_slice(&[200, 2, 0, 1, 2]); // a field of a later release
        bytes.splice(HEAD_BYTES..HEAD_BYTES, [1, 2, 3, 4]); // and a longer head
        bytes[2..4].copy_from_slice(&(HEAD_BYTES as u16 + 4).to_le_bytes());
        assert_eq!(decode(&bytes).unwrap(), sample());
        bytes[0] = VERSION + 1;
        assert_eq!(decode(&bytes), Err(WireError::NewerVersion(VERSION + 1)));
    }

    #[test]
    fn a_head_that_claims_more_than_there_is_is_corrupt() {
        let mut bytes = Vec::new();
        encode(&sample(), &mut bytes);
        bytes[2..4].copy_from_slice(&u16::MAX.to_le_bytes());
        assert!(matches!(decode(&bytes), Err(WireError::Corrupt(_))));
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_event_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = decode(&bytes);
            let _ = decode_address(&bytes);
        }

        #[test]
        fn a_cut_event_is_never_another_event(cut in 0usize..200) {
            let mut bytes = Vec::new();
            encode(&sample(), &mut bytes);
            let cut = cut.min(bytes.len() - 1);
            if let Ok(event) = decode(&bytes[..cut]) {
                // cut between two fields: allowed only because frames carry a length and a checksum
                prop_assert_eq!(event.click_id, sample().click_id);
            }
        }

        #[test]
        fn texts_come_back(agent in ".{0,80}", query in "[a-z=&%]{0,80}", code in "[A-Za-z0-9_-]{1,20}") {
            let event = ClickEvent { user_agent: &agent, query: &query, code: &code, visitor: None, ..sample() };
            let mut bytes = Vec::new();
            encode(&event, &mut bytes);
            prop_assert_eq!(decode(&bytes).unwrap(), event);
        }
    }
}
