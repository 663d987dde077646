//! Identities: of one request, of a link, of a journal.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use crate::time::UtcMicros;

/// The time in a UUIDv7 (RFC 9562 §5.7), to the millisecond; `None` for other bytes.
fn made_at(bytes: &[u8; 16]) -> Option<UtcMicros> {
    let is_one = bytes[6] >> 4 == 7 && bytes[8] >> 6 == 0b10;
    let millis = (u128::from_be_bytes(*bytes) >> 80) as i64;
    is_one.then_some(UtcMicros(millis * 1_000))
}

/// Identity of one request. Two records with one id are one click (design §4.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClickId(pub [u8; 16]);

impl ClickId {
    /// The id of a request that an edge has named: a 128-bit hash of (provider, line key, code).
    ///
    /// The domain is no part of it: some logs don't have one. Each part is hashed with its length, so
    /// that no two triples share their bytes.
    pub fn from_edge(provider: &str, line_key: &[u8], code: &str) -> Self {
        // in one piece as a rule: a hash of pieces has much to set up
        let mut piece = [0; 256];
        let mut length = 0;
        let mut hash: Option<Xxh3> = None;
        for part in [provider.as_bytes(), line_key, code.as_bytes()] {
            for bytes in [&(part.len() as u32).to_le_bytes()[..], part] {
                if hash.is_none() && length + bytes.len() <= piece.len() {
                    piece[length..length + bytes.len()].copy_from_slice(bytes);
                    length += bytes.len();
                    continue;
                }
                let begun = || {
                    let mut hash = Xxh3::new();
                    hash.update(&piece[..length]);
                    hash
                };
                hash.get_or_insert_with(begun).update(bytes);
            }
        }
        let hash = hash.map_or_else(|| xxh3_128(&piece[..length]), |hash| hash.digest128());
        Self(hash.to_be_bytes())
    }

    /// A fresh id (UUIDv7) for a request that no edge has named.
    pub fn unique() -> Self {
        Self(*Uuid::now_v7().as_bytes())
    }

    /// When an id of [`ClickId::unique`] was made, to the millisecond. An edge's may look like one, with any time.
    pub fn made_at(self) -> Option<UtcMicros> {
        made_at(&self.0)
    }

    /// The id as a number, for sets and hashing.
    pub fn as_u128(self) -> u128 {
        u128::from_be_bytes(self.0)
    }
}

impl From<u128> for ClickId {
    fn from(number: u128) -> Self {
        Self(number.to_be_bytes())
    }
}

impl fmt::Display for ClickId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.as_u128())
    }
}

impl fmt::Debug for ClickId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClickId({self})")
    }
}

/// The immutable identity of a link; people see `(domain, code)` instead.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LinkId(pub Uuid);

impl LinkId {
    /// A new identity, ordered by the time it was made.
    pub fn new() -> Self {
        Self(Uuid::now_v7())
    }

    /// When an identity of [`LinkId::new`] was made, to the millisecond: the link's creation.
    pub fn made_at(self) -> Option<UtcMicros> {
        made_at(self.0.as_bytes())
    }
}

impl Default for LinkId {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Display for LinkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for LinkId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

/// The identity of one journal: a redirect worker's durable log. A new one is a new generation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JournalId(pub Uuid);

impl JournalId {
    /// A new journal's identity.
    pub fn new() -> Self {
        Self(Uuid::now_v7())
    }
}

impl Default for JournalId {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Display for JournalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for JournalId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edge_id_depends_on_each_part_and_on_where_parts_end() {
        let id = ClickId::from_edge("nginx", b"abc", "k");
        assert_eq!(id, ClickId::from_edge("nginx", b"abc", "k"));
        assert_ne!(id, ClickId::from_edge("fastly", b"abc", "k"));
        assert_ne!(id, ClickId::from_edge("nginx", b"abd", "k"));
        assert_ne!(id, ClickId::from_edge("nginx", b"ab", "ck"));
    }

    #[test]
    fn parts_of_every_length_are_hashed_alike() {
        let long = "x".repeat(400);
        for key in (0..400).step_by(7) {
            for code in [0, 5, 90, 250] {
                let parts = ["cloudfront", &long[..key], &long[..code]];
                let all: Vec<u8> = parts
                    .iter()
                    .flat_map(|part| [&(part.len() as u32).to_le_bytes()[..], part.as_bytes()].concat())
                    .collect();
                let id = ClickId::from_edge(parts[0], parts[1].as_bytes(), parts[2]);
                assert_eq!(id.as_u128(), xxh3_128(&all), "{key} {code}");
            }
        }
    }

    #[test]
    fn an_id_made_here_tells_when() {
        let before = UtcMicros::now();
        let made = ClickId::unique().made_at().unwrap();
        assert!(made.0 > before.0 - 1_001 && made <= UtcMicros::now(), "{made}");
        assert_eq!(ClickId::from(0).made_at(), None);
    }

    #[test]
    fn the_edge_hash_never_changes_between_releases() {
        // Ids are stored for good: another value would count every click of an old log again.
        let id = ClickId::from_edge("nginx", b"0123456789abcdef0123456789abcdef", "k7Qp2");
        assert_eq!(id.to_string(), "6511647e608539b080ebec7770a72e6a");
    }
}
