//! What stands in front of the listener and what it tells about a request: its id, where its client is. Pure.
//!
//! ```text
//! trusted peer ── id header ──► line key ──► ClickId::from_edge(provider, line key, code)
//!     ├─ header missing or malformed ──► unique id, marked no_edge_id
//! any other peer ──────────────────────► unique id
//! ```
//! The line key must be byte for byte what the edge's log line carries, so the readers of logs judge it by the same
//! rule. Another rule would count the clicks of old logs again.

use http::{HeaderMap, HeaderName, HeaderValue};
use ingest::edge::{IdForm, IdMode, well_formed_key};
use schemas::{Analytics, ClickId};

/// Why the section `edge` can't be as configured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EdgeError {
    /// No such provider.
    #[error("edge.provider ({given:?}) must be one of none, {}", names())]
    Provider {
        /// As configured.
        given: String,
    },
    /// No header can have this name.
    #[error("{key} ({given:?}) is not the name of a header")]
    Header {
        /// The key.
        key: &'static str,
        /// As configured.
        given: String,
    },
    /// Ids are to be trusted, but nothing says where they are.
    #[error(
        "edge.id is \"trusted\", but {provider} sends no request id that its logs carry too: configure one as a \
             header of its own and name it in edge.request_id_header"
    )]
    NoId {
        /// The provider.
        provider: &'static str,
    },
}

/// What is known of a provider: which of its headers carries what its logs carry too.
#[derive(Debug)]
struct Provider {
    name: &'static str,
    /// Header with the request id; empty when none is sent that the logs carry too.
    request_id: &'static str,
    /// Headers with the client's country, region and city; empty when the provider has none of its own. Which of them it
    /// sends is set up there.
    place: [&'static str; 3],
    /// Whether `auto` trusts the ids even when no header of one's own is configured.
    trusted: bool,
}

/// No header says where a client is.
const NOWHERE: [&str; 3] = [""; 3];

const PROVIDERS: &[Provider] = &[
    Provider {
        name: "cloudfront",
        request_id: "x-amz-cf-id",
        place: ["cloudfront-viewer-country", "cloudfront-viewer-country-region", "cloudfront-viewer-city"],
        trusted: true,
    },
    Provider {
        name: "cloudflare",
        request_id: "cf-ray",
        place: ["cf-ipcountry", "cf-region-code", "cf-ipcity"],
        trusted: true,
    },
    Provider { name: "fastly", request_id: "x-request-id", place: NOWHERE, trusted: true },
    Provider { name: "akamai", request_id: "", place: NOWHERE, trusted: false },
    Provider { name: "gcp", request_id: "", place: NOWHERE, trusted: false },
    Provider { name: "azure", request_id: "x-azure-ref", place: NOWHERE, trusted: false },
    Provider { name: "bunny", request_id: "cdn-requestid", place: ["cdn-requestcountrycode", "", ""], trusted: true },
    Provider { name: "nginx", request_id: "x-request-id", place: NOWHERE, trusted: true },
    Provider { name: "varnish", request_id: "x-request-id", place: NOWHERE, trusted: true },
    Provider { name: "caddy", request_id: "x-request-id", place: NOWHERE, trusted: true },
    Provider { name: "haproxy", request_id: "x-request-id", place: NOWHERE, trusted: true },
    Provider { name: "alb", request_id: "x-amzn-trace-id", place: NOWHERE, trusted: true },
];

/// The names that providers have in configuration, and in front of the ids in click ids.
pub fn providers() -> impl Iterator<Item = &'static str> {
    PROVIDERS.iter().map(|provider| provider.name)
}

fn names() -> String {
    providers().collect::<Vec<_>>().join(", ")
}

/// The edge, as configured and resolved.
#[derive(Clone, Debug)]
pub struct Edge {
    ids: Ids,
    place: PlaceHeaders,
}

/// The headers with a client's country, region and city, to be believed of trusted peers.
#[derive(Clone, Debug, Default)]
pub(super) struct PlaceHeaders {
    country: Option<HeaderName>,
    region: Option<HeaderName>,
    city: Option<HeaderName>,
}

/// What they say.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place<'a> {
    pub(super) country: Option<&'a HeaderValue>,
    pub(super) region: Option<&'a HeaderValue>,
    pub(super) city: Option<&'a HeaderValue>,
}

impl PlaceHeaders {
    /// The place of a request.
    pub(super) fn of<'a>(&self, headers: &'a HeaderMap) -> Place<'a> {
        let value = |name: &Option<HeaderName>| name.as_ref().and_then(|name| headers.get(name));
        Place { country: value(&self.country), region: value(&self.region), city: value(&self.city) }
    }
}

/// Headers of one's own; an empty name stands for the provider's.
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnHeaders<'a> {
    /// With the request's id.
    pub request_id: &'a str,
    /// With the client's country.
    pub country: &'a str,
    /// With its region.
    pub region: &'a str,
    /// With its city.
    pub city: &'a str,
}

#[derive(Clone, Debug)]
enum Ids {
    /// No edge: every id is made here.
    None,
    /// The edge's ids don't meet those of its logs.
    StatusOnly,
    /// A trusted peer's header names the request.
    Trusted { provider: &'static str, header: HeaderName, form: IdForm },
}

/// The identity given to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) click_id: ClickId,
    /// The provider whose id it is; empty when it was made here.
    pub(super) provider: &'static str,
    /// Set when a trusted peer's id was missing or malformed.
    pub(super) no_edge_id: bool,
}

impl Edge {
    /// No edge.
    pub fn none() -> Self {
        Self { ids: Ids::None, place: PlaceHeaders::default() }
    }

    /// The edge of section `edge`.
    ///
    /// # Errors
    /// When the provider is unknown, a name is no header's, or trusted ids have no header.
    pub fn new(provider: &str, id: IdMode, own: OwnHeaders<'_>) -> Result<Self, EdgeError> {
        let own_id = header("edge.request_id_header", own.request_id)?;
        let mut place = PlaceHeaders {
            country: header("edge.country_header", own.country)?,
            region: header("edge.region_header", own.region)?,
            city: header("edge.city_header", own.city)?,
        };
        if provider == "none" {
            return Ok(Self { ids: Ids::None, place });
        }
        let known = PROVIDERS.iter().find(|known| known.name == provider);
        let known = known.ok_or_else(|| EdgeError::Provider { given: provider.to_owned() })?;
        let trusted = match id {
            IdMode::Auto => known.trusted || own_id.is_some(),
            IdMode::Trusted => true,
            IdMode::StatusOnly => false,
        };
        for (own, name) in [&mut place.country, &mut place.region, &mut place.city].into_iter().zip(known.place) {
            *own = own.take().or_else(|| default_header(name));
        }
        if !trusted {
            return Ok(Self { ids: Ids::StatusOnly, place });
        }
        let header = own_id.or_else(|| default_header(known.request_id));
        let header = header.ok_or(EdgeError::NoId { provider: known.name })?;
        let form = IdForm::of_header(header.as_str());
        Ok(Self { ids: Ids::Trusted { provider: known.name, header, form }, place })
    }

    /// The identity of a request for `code`.
    pub(super) fn identify(&self, trusted_peer: bool, headers: &HeaderMap, code: &str) -> Identity {
        let made_here = |no_edge_id| Identity { click_id: ClickId::unique(), provider: "", no_edge_id };
        match &self.ids {
            Ids::Trusted { provider, header, form } if trusted_peer => match line_key(headers, header, *form) {
                Some(key) => {
                    Identity { click_id: ClickId::from_edge(provider, key, code), provider, no_edge_id: false }
                }
                None => made_here(true),
            },
            _ => made_here(false),
        }
    }

    /// Whether a redirect leaves an event. `off` never does; `internal` doesn't where the edge's logs alone are
    /// counted and this request came through the edge, so is in them.
    pub(super) fn leaves_event(&self, trusted_peer: bool, analytics: Analytics) -> bool {
        match analytics {
            Analytics::Billed => true,
            Analytics::Internal => !(trusted_peer && matches!(self.ids, Ids::StatusOnly)),
            Analytics::Off => false,
        }
    }

    /// The headers with the client's place.
    pub(super) fn place(&self) -> &PlaceHeaders {
        &self.place
    }
}

fn header(key: &'static str, given: &str) -> Result<Option<HeaderName>, EdgeError> {
    if given.is_empty() {
        return Ok(None);
    }
    given.parse().map(Some).map_err(|_| EdgeError::Header { key, given: given.to_owned() })
}

fn default_header(name: &'static str) -> Option<HeaderName> {
    (!name.is_empty()).then(|| HeaderName::from_static(name))
}

/// The line key of a request; `None` unless the header is there once and well-formed.
fn line_key<'a>(headers: &'a HeaderMap, header: &HeaderName, form: IdForm) -> Option<&'a [u8]> {
    let mut values = headers.get_all(header).iter();
    let value = values.next()?.as_bytes().trim_ascii();
    if values.next().is_some() {
        return None;
    }
    let key = form.part(value)?;
    well_formed_key(key).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NGINX_ID: &str = "0123456789abcdef0123456789abcdef";

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        lines.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    fn edge(provider: &str) -> Edge {
        Edge::new(provider, IdMode::Auto, OwnHeaders::default()).unwrap()
    }

    fn id_in(header: &str) -> OwnHeaders<'_> {
        OwnHeaders { request_id: header, ..OwnHeaders::default() }
    }

    fn from_edge(edge: &Edge, lines: &[(&'static str, &str)]) -> Identity {
        edge.identify(true, &headers(lines), "k")
    }

    #[test]
    fn the_providers_header_names_the_request() {
        for (provider, header, value, key) in [
            ("nginx", "x-request-id", NGINX_ID, NGINX_ID),
            ("cloudfront", "x-amz-cf-id", "a1-_w==", "a1-_w=="),
            ("cloudflare", "cf-ray", "8f1e2d3c4b5a6978-AMS", "8f1e2d3c4b5a6978"),
            ("cloudflare", "cf-ray", "8f1e2d3c4b5a6978", "8f1e2d3c4b5a6978"),
            ("fastly", "x-request-id", "abc", "abc"),
            ("bunny", "cdn-requestid", "abc", "abc"),
            ("alb", "x-amzn-trace-id", "Root=1-a-b", "1-a-b"),
            ("alb", "x-amzn-trace-id", "Self=1-c-d;Root=1-a-b", "1-c-d"),
            ("alb", "x-amzn-trace-id", "Root=1-a-b; Self=1-c-d", "1-c-d"),
        ] {
            let identity = from_edge(&edge(provider), &[(header, value)]);
            assert_eq!(identity.click_id, ClickId::from_edge(provider, key.as_bytes(), "k"), "{provider} {value}");
            assert_eq!((identity.provider, identity.no_edge_id), (provider, false));
        }
    }

    #[test]
    fn one_request_for_two_codes_is_two_clicks() {
        let headers = headers(&[("x-request-id", NGINX_ID)]);
        let edge = edge("nginx");
        assert_ne!(edge.identify(true, &headers, "a").click_id, edge.identify(true, &headers, "b").click_id);
    }

    #[test]
    fn a_missing_or_malformed_id_is_marked_and_unique() {
        let long = "x".repeat(300);
        let edge = edge("nginx");
        for lines in [
            &[][..],
            &[("x-request-id", "")],
            &[("x-request-id", "-")],
            &[("x-request-id", "a b")],
            &[("x-request-id", &long)],
            &[("x-request-id", "a"), ("x-request-id", "b")],
            &[("x-amz-cf-id", NGINX_ID)],
        ] {
            let (one, two) = (from_edge(&edge, lines), from_edge(&edge, lines));
            assert!(one.no_edge_id && one.provider.is_empty(), "{lines:?}");
            assert_ne!(one.click_id, two.click_id);
        }
        let mut odd = HeaderMap::new();
        odd.insert("x-request-id", HeaderValue::from_bytes(b"\xe9").unwrap());
        assert!(edge.identify(true, &odd, "k").no_edge_id);
        let ray = Edge::new("cloudflare", IdMode::Auto, OwnHeaders::default()).unwrap();
        assert!(from_edge(&ray, &[("cf-ray", "-AMS")]).no_edge_id);
        let trace = Edge::new("alb", IdMode::Auto, OwnHeaders::default()).unwrap();
        assert!(from_edge(&trace, &[("x-amzn-trace-id", "Parent=1")]).no_edge_id);
    }

    #[test]
    fn nobody_else_can_name_a_request() {
        let lines = [("x-request-id", NGINX_ID)];
        for (edge, trusted) in [(edge("nginx"), false), (edge("none"), true), (edge("azure"), true)] {
            let one = edge.identify(trusted, &headers(&lines), "k");
            assert_ne!(one.click_id, edge.identify(trusted, &headers(&lines), "k").click_id);
            assert_eq!((one.provider, one.no_edge_id), ("", false));
        }
    }

    #[test]
    fn a_header_of_ones_own_makes_auto_trust() {
        let own = Edge::new("akamai", IdMode::Auto, id_in("Akamai-GRN")).unwrap();
        let identity = from_edge(&own, &[("akamai-grn", "0.24f4.1773480413.1a2b")]);
        assert_eq!(identity.click_id, ClickId::from_edge("akamai", b"0.24f4.1773480413.1a2b", "k"));
        let turned_off = Edge::new("nginx", IdMode::StatusOnly, OwnHeaders::default()).unwrap();
        assert_eq!(from_edge(&turned_off, &[("x-request-id", NGINX_ID)]).provider, "");
    }

    #[test]
    fn what_leaves_an_event() {
        for (provider, trusted, billed, internal) in [
            ("none", true, true, true),
            ("nginx", true, true, true),
            ("nginx", false, true, true),
            ("azure", true, true, false),
            // not through the edge: no log has it
            ("azure", false, true, true),
        ] {
            let edge = edge(provider);
            assert_eq!(edge.leaves_event(trusted, Analytics::Billed), billed);
            assert_eq!(edge.leaves_event(trusted, Analytics::Internal), internal, "{provider} {trusted}");
            assert!(!edge.leaves_event(trusted, Analytics::Off));
        }
    }

    #[test]
    fn what_can_not_be_is_refused_by_name() {
        let refused =
            |provider, id, header: &'static str| Edge::new(provider, id, id_in(header)).unwrap_err().to_string();
        assert!(refused("acme", IdMode::Auto, "").contains("edge.provider (\"acme\") must be one of none, cloudfront"));
        assert!(refused("nginx", IdMode::Auto, "a b").contains("edge.request_id_header"));
        assert!(refused("gcp", IdMode::Trusted, "").contains("edge.request_id_header"));
        assert!(Edge::new("gcp", IdMode::Trusted, id_in("x-id")).is_ok());
    }

    #[test]
    fn places_come_from_the_providers_headers_or_ones_own() {
        let lines = [
            ("cf-ipcountry", "NL"),
            ("cf-region-code", "NH"),
            ("cf-ipcity", "Amsterdam"),
            ("cloudfront-viewer-country", "FR"),
            ("cloudfront-viewer-country-region", "IDF"),
            ("cloudfront-viewer-city", "Paris"),
            ("x-place", "own"),
        ];
        let headers = headers(&lines);
        let told = |edge: &Edge| {
            let place = edge.place().of(&headers);
            let text = |value: Option<&HeaderValue>| value.map_or("", |value| value.to_str().unwrap()).to_owned();
            [place.country, place.region, place.city].map(text)
        };
        assert_eq!(told(&edge("cloudflare")), ["NL", "NH", "Amsterdam"]);
        assert_eq!(told(&edge("cloudfront")), ["FR", "IDF", "Paris"]);
        assert_eq!(told(&edge("nginx")), ["", "", ""]);
        for (own, expected) in [
            (OwnHeaders { country: "X-Place", ..OwnHeaders::default() }, ["own", "NH", "Amsterdam"]),
            (OwnHeaders { region: "X-Place", ..OwnHeaders::default() }, ["NL", "own", "Amsterdam"]),
            (OwnHeaders { city: "X-Place", ..OwnHeaders::default() }, ["NL", "NH", "own"]),
        ] {
            assert_eq!(told(&Edge::new("cloudflare", IdMode::Auto, own).unwrap()), expected);
        }
        let own = OwnHeaders { country: "X-Place", ..OwnHeaders::default() };
        assert_eq!(told(&Edge::new("none", IdMode::Auto, own).unwrap()), ["own", "", ""]);
        let wrong = OwnHeaders { city: "a b", ..OwnHeaders::default() };
        assert!(Edge::new("none", IdMode::Auto, wrong).unwrap_err().to_string().contains("edge.city_header"));
    }
}
