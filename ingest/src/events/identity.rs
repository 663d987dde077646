//! How an event made elsewhere is known.
//!
//! ```text
//! the origin's own, by an edge's request id ──► hash(provider, request id, code)                  as the redirect's events
//! any other request id                      ──► hash("import:" provider, request id, domain/code)  meets no other
//! no request id                             ──► hash("events:" provider, fields and occurrence number, code)
//! ```
//! No provider's name holds a colon, so what is named in the last two ways meets no line of an edge's log. The domain is
//! the link's own: two workspaces may have one code, and number their requests alike.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use schemas::privacy::Asked;
use schemas::{ClickId, Source};
use xxhash_rust::xxh3::Xxh3;

use crate::edge::EdgeRequest;

/// What imported events stand for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Stand {
    /// The origin's own events, of requests that came through an edge whose logs may tell of them too.
    #[default]
    Origin,
    /// Clicks that another product has counted.
    Import,
}

impl Stand {
    /// The source of the rows.
    pub fn source(self) -> Source {
        match self {
            Self::Origin => Source::Origin,
            Self::Import => Source::Import,
        }
    }
}

impl fmt::Display for Stand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.source().as_str())
    }
}

/// A word that says nothing of what events stand for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is not one of origin, import")]
pub struct UnknownStand {
    /// What was given.
    pub given: String,
}

impl FromStr for Stand {
    type Err = UnknownStand;

    fn from_str(word: &str) -> Result<Self, UnknownStand> {
        match word {
            "origin" => Ok(Self::Origin),
            "import" => Ok(Self::Import),
            _ => Err(UnknownStand { given: word.to_owned() }),
        }
    }
}

/// Longest name of a provider, in bytes.
const MAX_PROVIDER_BYTES: usize = 64;

/// A name that no provider can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} can't be a provider's name: 1 to {MAX_PROVIDER_BYTES} of a-z, 0-9, `.`, `_` and `-`")]
pub struct BadProvider {
    /// What was given.
    pub given: String,
}

/// How the events of one import are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Naming {
    stand: Stand,
    provider: Arc<str>,
    /// Of request ids that no edge has given.
    by_request: Option<Arc<str>>,
    by_line: Arc<str>,
}

/// The provider where there is no edge.
pub const NO_PROVIDER: &str = "none";

impl Naming {
    /// Of events that stand for `stand`; `provider` is the edge that they came through, or the product that counted
    /// them.
    ///
    /// # Errors
    /// When no provider can have this name.
    pub fn new(stand: Stand, provider: &str) -> Result<Self, BadProvider> {
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
        if !(1..=MAX_PROVIDER_BYTES).contains(&provider.len()) || !provider.bytes().all(allowed) {
            return Err(BadProvider { given: provider.to_owned() });
        }
        let is_edges = stand == Stand::Origin && provider != NO_PROVIDER;
        let by_request = (!is_edges).then(|| format!("{stand}:{provider}").into());
        let by_line = format!("events:{provider}").into();
        Ok(Self { stand, provider: provider.into(), by_request, by_line })
    }

    /// What the events stand for.
    pub fn stand(&self) -> Stand {
        self.stand
    }

    /// The edge, or the product.
    pub fn provider(&self) -> &Arc<str> {
        &self.provider
    }

    /// The id of an event with a request id; `domain` and `code` are the link's own.
    pub fn by_request(&self, key: &[u8], domain: &str, code: &str) -> ClickId {
        match &self.by_request {
            None => ClickId::from_edge(&self.provider, key, code),
            Some(named) => ClickId::from_edge(named, key, &format!("{domain}/{code}")),
        }
    }

    /// The name under which ids are made of lines that have none.
    pub fn by_line(&self) -> &Arc<str> {
        &self.by_line
    }
}

/// Hash of all that an event says: 128 bits, stable for good, as ids made from it are stored. It is the same however
/// the line was written: whatever the order of its keys and the spelling of its time. `domain` is the link's own.
pub fn fingerprint(event: &EdgeRequest<'_>, domain: &str) -> u128 {
    let mut hash = Xxh3::new();
    let mut part = |bytes: &[u8]| {
        hash.update(&(bytes.len() as u32).to_le_bytes());
        hash.update(bytes);
    };
    part(&event.time.0.to_le_bytes());
    // what is hashed can be tried out: of who asks for privacy the address isn't
    let address = event.address.filter(|_| event.asked == Asked::default());
    part(address.map(|address| address.to_string()).unwrap_or_default().as_bytes());
    part(event.method.map_or("", |method| method.as_str()).as_bytes());
    for text in [domain, event.code, event.query, event.user_agent, event.referrer, event.country, event.language] {
        part(text.as_bytes());
    }
    // later additions: where they aren't there, ids are as they were before
    for (name, text) in [("region", event.region), ("city", event.city)] {
        if !text.is_empty() {
            part(name.as_bytes());
            part(text.as_bytes());
        }
    }
    hash.digest128()
}

#[cfg(test)]
mod tests {
    use schemas::{Method, UtcMicros};

    use super::*;
    use crate::edge::EdgeClass;

    fn event() -> EdgeRequest<'static> {
        EdgeRequest {
            time: UtcMicros(1_773_480_413_000_000),
            class: EdgeClass::Origin,
            host: "go.example.com",
            path: "",
            code: "k7Qp2",
            query: "",
            method: Some(Method::Get),
            status: 302,
            address: Some([203, 0, 113, 9].into()),
            user_agent: "Mozilla/5.0",
            referrer: "",
            country: "",
            region: "",
            city: "",
            asked: Asked::default(),
            language: "",
            line_key: None,
        }
    }

    #[test]
    fn an_event_of_the_origin_has_the_redirects_id_and_no_other_has() {
        let redirects = ClickId::from_edge("nginx", b"abc", "k");
        let origin = Naming::new(Stand::Origin, "nginx").unwrap();
        assert_eq!(origin.by_request(b"abc", "go.example.com", "k"), redirects);
        let import = Naming::new(Stand::Import, "nginx").unwrap();
        let no_edge = Naming::new(Stand::Origin, NO_PROVIDER).unwrap();
        let mut ids = vec![redirects];
        for naming in [&import, &no_edge] {
            ids.extend(["a", "b"].map(|domain| naming.by_request(b"abc", domain, "k")));
        }
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 5, "two domains may number their requests alike");
        assert_eq!((&**origin.by_line(), &**import.by_line()), ("events:nginx", "events:nginx"));
        assert_eq!((&**import.provider(), import.stand()), ("nginx", Stand::Import));
    }

    #[test]
    fn names_that_could_meet_others_are_refused() {
        for name in ["", "import:nginx", "NGINX", "a b", "é", &"x".repeat(65)] {
            let error = Naming::new(Stand::Import, name).unwrap_err().to_string();
            assert!(error.contains("can't be a provider's name"), "{error}");
        }
        assert!(Naming::new(Stand::Import, "bit.ly_2-old").is_ok());
    }

    #[test]
    fn words_go_there_and_back() {
        for stand in [Stand::Origin, Stand::Import] {
            assert_eq!(stand.to_string().parse(), Ok(stand));
        }
        assert_eq!("edge".parse::<Stand>().unwrap_err().to_string(), "\"edge\" is not one of origin, import");
    }

    #[test]
    fn each_field_counts() {
        let fingerprint = |event: &EdgeRequest<'_>| fingerprint(event, "go.example.com");
        let base = fingerprint(&event());
        assert_ne!(super::fingerprint(&event(), "a.example.com"), base);
        for other in [
            EdgeRequest { time: UtcMicros(0), ..event() },
            EdgeRequest { address: None, ..event() },
            EdgeRequest { method: None, ..event() },
            EdgeRequest { code: "k", ..event() },
            EdgeRequest { query: "a", ..event() },
            EdgeRequest { user_agent: "", ..event() },
            EdgeRequest { referrer: "x", ..event() },
            EdgeRequest { country: "NL", ..event() },
            EdgeRequest { language: "nl", ..event() },
            EdgeRequest { region: "NH", ..event() },
            EdgeRequest { city: "NH", ..event() },
        ] {
            assert_ne!(fingerprint(&other), base, "{other:?}");
        }
        let private = Asked { outright: true, ..Asked::default() };
        let of = |address| fingerprint(&EdgeRequest { asked: private, address, ..event() });
        assert_eq!(of(event().address), of(None));
        for same in [EdgeRequest { status: 301, ..event() }, EdgeRequest { host: "", ..event() }] {
            assert_eq!(fingerprint(&same), base, "neither what is not read nor how the domain was found");
        }
    }
}
