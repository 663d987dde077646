//! Which request a line is about (design §4.1).
//!
//! *Trusted*: the provider's request id names it, at the origin as in the log, and a line without one is rejected.
//! *Status-only*: the id doesn't meet the origin's, or there is none; a line is then known by the hash of its
//! significant fields and its occurrence number among identical lines of its file, so that the same file, or an
//! overlapping one, adds nothing.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::str::FromStr;

use schemas::UtcMicros;
use schemas::privacy::Asked;
use schemas::time::SECOND;
use xxhash_rust::xxh3::Xxh3;

use super::format::Settings;
use super::request::{EdgeClass, EdgeRequest, Reject};

/// Longest request id that is believed, in bytes.
pub const MAX_KEY_BYTES: usize = 256;

/// What configuration or command line says of a provider's request ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IdMode {
    /// As is known of the provider.
    #[default]
    Auto,
    /// The id in the log is the id at the origin.
    Trusted,
    /// It isn't, or there is none.
    StatusOnly,
}

/// How a provider's requests are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ids {
    /// By the id in the log.
    Trusted,
    /// By the line itself.
    StatusOnly,
}

impl IdMode {
    /// The words that are accepted.
    pub const WORDS: [&'static str; 3] = ["auto", "trusted", "status-only"];

    /// How the lines of a log of `provider` are known. An id of one's own that its settings name is trusted, whatever is
    /// known of the provider's.
    pub fn resolve_for(self, provider: &str, settings: &Settings) -> Ids {
        match self {
            Self::Auto if provider == "akamai" && !settings.akamai_id_field.is_empty() => Ids::Trusted,
            _ => self.resolve(provider),
        }
    }

    /// How requests of `provider` are known.
    pub fn resolve(self, provider: &str) -> Ids {
        match (self, provider) {
            (Self::Trusted, _) => Ids::Trusted,
            (Self::StatusOnly, _) | (Self::Auto, "azure" | "gcp" | "akamai") => Ids::StatusOnly,
            (Self::Auto, _) => Ids::Trusted,
        }
    }
}

impl fmt::Display for IdMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Trusted => "trusted",
            Self::StatusOnly => "status-only",
        })
    }
}

impl FromStr for IdMode {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "auto" => Ok(Self::Auto),
            "trusted" => Ok(Self::Trusted),
            "status-only" => Ok(Self::StatusOnly),
            _ => Err(format!("{word:?} is not one of {}", Self::WORDS.join(", "))),
        }
    }
}

impl Ids {
    /// The key of a request whose id is trusted.
    ///
    /// # Errors
    /// [`Reject::NO_REQUEST_ID`] when ids are trusted and it has none. `Ok(None)` when ids aren't trusted: then
    /// [`made_key`] makes one.
    pub fn key<'a>(self, request: &EdgeRequest<'a>) -> Result<Option<&'a [u8]>, Reject> {
        match (self, request.line_key) {
            (Self::StatusOnly, _) => Ok(None),
            (Self::Trusted, Some(key)) => Ok(Some(key)),
            (Self::Trusted, None) => Err(Reject::NO_REQUEST_ID),
        }
    }
}

/// Whether `key` can be a request id: visible ASCII, not a lone hyphen, of bounded length.
pub fn well_formed_key(key: &[u8]) -> bool {
    !key.is_empty() && key != b"-" && key.len() <= MAX_KEY_BYTES && key.iter().all(u8::is_ascii_graphic)
}

/// Hash of what makes a line this line: 128 bits, stable for good, as ids made from it are stored.
pub fn fingerprint(request: &EdgeRequest<'_>) -> u128 {
    let mut hash = Xxh3::new();
    let mut part = |bytes: &[u8]| {
        hash.update(&(bytes.len() as u32).to_le_bytes());
        hash.update(bytes);
    };
    part(&request.time.0.to_le_bytes());
    // what is hashed can be tried out: of who asks for privacy the address isn't
    let address = request.address.filter(|_| request.asked == Asked::default());
    part(address.map(|address| address.to_string()).unwrap_or_default().as_bytes());
    part(request.method.map_or("", |method| method.as_str()).as_bytes());
    for text in [request.host, request.path, request.query, request.user_agent, request.referrer] {
        part(text.as_bytes());
    }
    part(&request.status.to_le_bytes());
    part(&[u8::from(request.class == EdgeClass::Edge)]);
    part(request.line_key.unwrap_or_default());
    hash.digest128()
}

/// The key of a line that is known by itself: from its [`fingerprint`] and its number among identical lines.
pub fn made_key(fingerprint: u128, occurrence: u32) -> [u8; 20] {
    let mut key = [0; 20];
    key[..16].copy_from_slice(&fingerprint.to_be_bytes());
    key[16..].copy_from_slice(&occurrence.to_be_bytes());
    key
}

/// Numbers identical lines of a file. Feed it every line in the file's order, also when work is resumed in the middle.
///
/// Identical lines have one time, so what is remembered is kept by minute of that time, and the oldest minute is
/// forgotten when there is too much: a line that comes back later than that is taken as a repeat of the first.
#[derive(Debug)]
pub struct Occurrences {
    minutes: BTreeMap<i64, HashMap<u64, u32>>,
    held: usize,
    most: usize,
}

impl Occurrences {
    /// Remembers at most about `most` lines (some 16 bytes each).
    pub fn new(most: usize) -> Self {
        Self { minutes: BTreeMap::new(), held: 0, most }
    }

    /// How many identical lines came before this one.
    pub fn number(&mut self, time: UtcMicros, fingerprint: u128) -> u32 {
        let minute = time.0.div_euclid(60 * SECOND);
        let seen = self.minutes.entry(minute).or_default().entry(fingerprint as u64).or_insert_with(|| {
            self.held += 1;
            0
        });
        let number = *seen;
        *seen += 1;
        while self.held > self.most && self.minutes.len() > 1 {
            let Some((_, forgotten)) = self.minutes.pop_first() else { break };
            self.held -= forgotten.len();
        }
        number
    }
}

impl Default for Occurrences {
    fn default() -> Self {
        Self::new(4_000_000)
    }
}

#[cfg(test)]
mod tests {
    use schemas::Method;

    use super::*;

    fn request() -> EdgeRequest<'static> {
        EdgeRequest {
            time: UtcMicros(1_773_480_413_000_000),
            class: EdgeClass::Edge,
            host: "go.example.com",
            path: "/k7Qp2",
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
            line_key: Some(b"abc"),
        }
    }

    #[test]
    fn auto_is_what_is_known_of_the_provider() {
        for (provider, ids) in [
            ("nginx", Ids::Trusted),
            ("cloudfront", Ids::Trusted),
            ("azure", Ids::StatusOnly),
            ("gcp", Ids::StatusOnly),
            ("akamai", Ids::StatusOnly),
        ] {
            assert_eq!(IdMode::Auto.resolve(provider), ids, "{provider}");
        }
        assert_eq!(IdMode::Trusted.resolve("azure"), Ids::Trusted);
        assert_eq!(IdMode::StatusOnly.resolve("nginx"), Ids::StatusOnly);
        for word in IdMode::WORDS {
            assert_eq!(word.parse::<IdMode>().unwrap().to_string(), word);
        }
        assert!("status_only".parse::<IdMode>().is_err());
    }

    #[test]
    fn a_missing_id_is_a_reject_only_where_ids_are_trusted() {
        let nameless = EdgeRequest { line_key: None, ..request() };
        assert_eq!(Ids::Trusted.key(&request()), Ok(Some(&b"abc"[..])));
        assert_eq!(Ids::Trusted.key(&nameless), Err(Reject::NO_REQUEST_ID));
        assert_eq!(Ids::StatusOnly.key(&nameless), Ok(None));
    }

    #[test]
    fn keys_are_bounded_visible_ascii() {
        for key in [&b"87edc48b25ee78e4"[..], b"HIvlii7g2pXiu8oYXg6Sw4Fs--b-JnQ==", b"CB00710C:8227_0A"] {
            assert!(well_formed_key(key));
        }
        for key in [&b""[..], b"-", b"a b", b"a\nb", b"caf\xe9", &[b'x'; MAX_KEY_BYTES + 1]] {
            assert!(!well_formed_key(key));
        }
    }

    #[test]
    fn each_significant_field_counts() {
        let base = fingerprint(&request());
        assert_eq!(fingerprint(&EdgeRequest { code: "other", country: "NL", language: "nl", ..request() }), base);
        for other in [
            EdgeRequest { time: UtcMicros(0), ..request() },
            EdgeRequest { address: None, ..request() },
            EdgeRequest { method: None, ..request() },
            EdgeRequest { host: "", ..request() },
            EdgeRequest { path: "/k", ..request() },
            EdgeRequest { query: "a", ..request() },
            EdgeRequest { user_agent: "", ..request() },
            EdgeRequest { referrer: "x", ..request() },
            EdgeRequest { status: 301, ..request() },
            EdgeRequest { class: EdgeClass::Origin, ..request() },
            EdgeRequest { line_key: None, ..request() },
        ] {
            assert_ne!(fingerprint(&other), base, "{other:?}");
        }
        assert_ne!(made_key(base, 0), made_key(base, 1));
    }

    #[test]
    fn identical_lines_are_numbered() {
        let mut seen = Occurrences::default();
        let time = UtcMicros(0);
        assert_eq!([7, 8, 7, 7, 8].map(|print| seen.number(time, print)), [0, 0, 1, 2, 1]);
    }

    #[test]
    fn memory_is_bounded_by_forgetting_the_oldest_minute() {
        let mut seen = Occurrences::new(10);
        for minute in 0..100 {
            for print in 0..5 {
                assert_eq!(seen.number(UtcMicros(minute * 60 * SECOND), print), 0);
                assert_eq!(seen.number(UtcMicros(minute * 60 * SECOND), print), 1);
            }
            assert!(seen.held <= 10 && seen.minutes.len() <= 2);
        }
    }
}
