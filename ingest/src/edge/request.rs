//! What a line of an edge log comes to.

use std::net::IpAddr;

use schemas::privacy::{Asked, asks};
use schemas::{Method, UtcMicros};

/// Who answered a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EdgeClass {
    /// The edge, from its cache: the origin never saw it.
    Edge,
    /// The origin was asked. Also where the log doesn't say: then the request id decides.
    Origin,
}

/// One request as an edge logged it. Texts are empty where the log has none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EdgeRequest<'a> {
    /// When, as the log says; whether that is the start or the end of the answer depends on the provider.
    pub time: UtcMicros,
    /// Who answered.
    pub class: EdgeClass,
    /// The host that the client asked for, lower case.
    pub host: &'a str,
    /// The path as it was on the wire, with its percent-encoding.
    pub path: &'a str,
    /// What the redirect would have looked up: the path without its first and one last slash, decoded. Not
    /// necessarily a possible code: see [`schemas::code::is_code`].
    pub code: &'a str,
    /// The query as it was on the wire, without `?`.
    pub query: &'a str,
    /// `None` where the log has no method.
    pub method: Option<Method>,
    /// The answer's status; 0 when there was none.
    pub status: u16,
    /// The client: no port, no zone, IPv4 in IPv6 as IPv4. `None` when the log hides it or it can't be read.
    pub address: Option<IpAddr>,
    /// `User-Agent`.
    pub user_agent: &'a str,
    /// `Referer` in full.
    pub referrer: &'a str,
    /// Country as the edge says, as it wrote it.
    pub country: &'a str,
    /// Region within the country, likewise.
    pub region: &'a str,
    /// City, likewise.
    pub city: &'a str,
    /// Whether the client asks for privacy, as far as the log has its headers.
    pub asked: Asked,
    /// `Accept-Language`.
    pub language: &'a str,
    /// What names this request at this provider (design §4.1); `None` when missing or malformed.
    pub line_key: Option<&'a [u8]>,
}

/// What a client asks by the headers that a log has, `Sec-GPC` and `DNT`; empty where it has none.
pub(super) fn asked(gpc: &str, dnt: &str) -> Asked {
    Asked { gpc: asks(gpc.as_bytes()), dnt: asks(dnt.as_bytes()), outright: false }
}

/// Why a well-formed line is no click.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Ignored {
    /// The answer was none of the statuses that links answer with.
    NotRedirect,
    /// Neither GET nor HEAD.
    Method,
    /// A redirect that the edge made by itself, such as http to https; the client comes again.
    EdgeRedirect,
    /// The client left before there was an answer.
    Aborted,
    /// Not a client's request: shield, subrequest, background refresh.
    NotViewer,
}

impl Ignored {
    /// Every reason.
    pub const ALL: [Self; 5] = [Self::NotRedirect, Self::Method, Self::EdgeRedirect, Self::Aborted, Self::NotViewer];

    /// The summary's key (interface §5).
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotRedirect => "not_redirect",
            Self::Method => "method",
            Self::EdgeRedirect => "edge_redirect",
            Self::Aborted => "aborted",
            Self::NotViewer => "not_viewer",
        }
    }
}

/// Why a line can't be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reject {
    /// The summary's key (interface §5).
    pub reason: &'static str,
}

impl Reject {
    /// No time, or none that exists.
    pub const BAD_TIMESTAMP: Self = Self { reason: "bad_timestamp" };
    /// No request id, or a malformed one, although requests are known by it.
    pub const NO_REQUEST_ID: Self = Self { reason: "no_request_id" };
    /// Not JSON, or not the object that the format is made of.
    pub const BAD_JSON: Self = Self { reason: "bad_json" };
    /// Longer than the limit.
    pub const TOO_LONG: Self = Self { reason: "too_long" };
    /// Ends before the layout does.
    pub const CUT_SHORT: Self = Self { reason: "cut_short" };
    /// More columns than the layout announces.
    pub const TOO_MANY_COLUMNS: Self = Self { reason: "too_many_columns" };
    /// A row before any line that names its columns.
    pub const NO_HEADER: Self = Self { reason: "no_header" };
    /// No method, no path, or no HTTP request at all.
    pub const BAD_REQUEST: Self = Self { reason: "bad_request" };
    /// No status, or none that is a number.
    pub const BAD_STATUS: Self = Self { reason: "bad_status" };
    /// A record of another log that is written to the same place.
    pub const NOT_ACCESS: Self = Self { reason: "not_access" };
    /// Not this layout.
    pub const BAD_LINE: Self = Self { reason: "bad_line" };
}

/// What a line, or one record of a line that holds several, comes to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Line<'a> {
    /// Names of columns, a comment, or blank: no record.
    Header,
    /// A request for what may be a link, answered by a redirect.
    Request(EdgeRequest<'a>),
    /// A request that is no click.
    Ignored(Ignored),
    /// Not a client's request, so to be counted as [`Ignored::NotViewer`]; but it says that a cache behind the edge
    /// answered a request that the edge itself logs as a miss.
    ParentHit {
        /// The key of that request.
        key: &'a [u8],
    },
    /// Can't be read.
    Reject(Reject),
}
