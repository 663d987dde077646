//! The headers of a Caddy log: lists of values by name, of which few are read.
//!
//! Also `Cache-Status` (RFC 9211): whether a cache along the way says that it answered.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::json::Value;

/// The headers that are read, each as its first value.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Headers<'a> {
    pub(super) agent: Cow<'a, str>,
    pub(super) referrer: Cow<'a, str>,
    pub(super) language: Cow<'a, str>,
    pub(super) request_id: Cow<'a, str>,
    pub(super) gpc: Cow<'a, str>,
    pub(super) dnt: Cow<'a, str>,
    /// A cache along the way says that it answered.
    pub(super) is_hit: bool,
}

/// Whether a member of a `Cache-Status` has the parameter `hit`. What stands behind an unquoted key can't be believed:
/// some caches write URLs there, which may hold anything.
fn is_hit(status: &str) -> bool {
    let mut forwarded = false;
    for (separator, piece) in pieces(status) {
        if separator == b',' {
            forwarded = false;
            continue;
        }
        let (name, value) = piece.split_once('=').map_or((piece, ""), |(name, value)| (name.trim(), value.trim()));
        match name.trim() {
            "hit" if !forwarded && matches!(value, "" | "?1") => return true,
            "fwd" => forwarded = true,
            "key" | "detail" if !value.starts_with('"') => return false,
            _ => {}
        }
    }
    false
}

/// What stands between commas and semicolons outside of quotes, with the one before it; before the first, a comma.
fn pieces(text: &str) -> impl Iterator<Item = (u8, &str)> {
    let mut rest = Some((b',', text));
    std::iter::from_fn(move || {
        let (separator, text) = rest.take()?;
        let (mut quoted, mut escaped) = (false, false);
        let end = text.bytes().position(|byte| {
            let ends = !quoted && matches!(byte, b',' | b';');
            quoted ^= byte == b'"' && !escaped;
            escaped = quoted && byte == b'\\' && !escaped;
            ends
        });
        match end {
            Some(end) => {
                rest = Some((text.as_bytes()[end], &text[end + 1..]));
                Some((separator, &text[..end]))
            }
            None => Some((separator, text)),
        }
    })
}

impl<'de: 'a, 'a> Deserialize<'de> for Headers<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(HeadersVisitor)
    }
}

/// A header's name.
#[derive(Clone, Copy)]
enum Name {
    Agent,
    Referrer,
    Language,
    RequestId,
    Gpc,
    Dnt,
    CacheStatus,
    Other,
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_identifier(NameVisitor)
    }
}

struct NameVisitor;

impl Visitor<'_> for NameVisitor {
    type Value = Name;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a header's name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Name, E> {
        let known = [
            ("user-agent", Name::Agent),
            ("referer", Name::Referrer),
            ("accept-language", Name::Language),
            ("x-request-id", Name::RequestId),
            ("sec-gpc", Name::Gpc),
            ("dnt", Name::Dnt),
            ("cache-status", Name::CacheStatus),
        ];
        Ok(known.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map_or(Name::Other, |(_, name)| *name))
    }
}

struct HeadersVisitor;

impl<'de> Visitor<'de> for HeadersVisitor {
    type Value = Headers<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("headers by name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Headers<'de>, A::Error> {
        let mut headers = Headers::default();
        while let Some(name) = map.next_key::<Name>()? {
            let place = match name {
                Name::Agent => &mut headers.agent,
                Name::Referrer => &mut headers.referrer,
                Name::Language => &mut headers.language,
                Name::RequestId => &mut headers.request_id,
                Name::Gpc => &mut headers.gpc,
                Name::Dnt => &mut headers.dnt,
                Name::CacheStatus => {
                    let hit = &mut headers.is_hit;
                    map.next_value_seed(Each(|text: Cow<'de, str>| *hit |= is_hit(&text)))?;
                    continue;
                }
                Name::Other => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            map.next_value_seed(Each(|text: Cow<'de, str>| {
                if place.is_empty() {
                    *place = text;
                }
            }))?;
        }
        Ok(headers)
    }

    // Filters may put anything in the place of headers, or nothing.
    fn visit_unit<E>(self) -> Result<Headers<'de>, E> {
        Ok(Headers::default())
    }

    fn visit_str<E>(self, _: &str) -> Result<Headers<'de>, E> {
        Ok(Headers::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Headers<'de>, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Headers::default())
    }
}

/// Hands on each of a header's values: those of a list, or a bare one.
struct Each<F>(F);

impl<'de, F: FnMut(Cow<'de, str>)> DeserializeSeed<'de> for Each<F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, F: FnMut(Cow<'de, str>)> Visitor<'de> for Each<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a header's values")
    }

    fn visit_borrowed_str<E>(mut self, text: &'de str) -> Result<(), E> {
        self.0(Cow::Borrowed(text));
        Ok(())
    }

    fn visit_str<E>(mut self, text: &str) -> Result<(), E> {
        self.0(Cow::Owned(text.to_owned()));
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        while let Some(value) = list.next_element::<Value<'de>>()? {
            if let Value::Text(text) = value {
                self.0(text);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hit_is_what_a_cache_says_and_no_url() {
        for (status, expected) in [
            ("Souin; hit; ttl=7; key=GET-https-go.example.com-/k7Qp2", true),
            ("Souin; fwd=uri-miss; stored; key=GET-https-go.example.com-/k7Qp2", false),
            ("Souin; fwd=uri-miss; stored; key=GET-https-go.example.com-/k7Qp2?a;hit", false),
            ("Souin; ttl=7; key=/k, Other; hit", false),
            ("Souin;hit", true),
            ("Origin; fwd=miss, Edge; hit", true),
            ("Origin; hit, Edge; fwd=uri-miss", true),
            ("\"a; hit, b\"; fwd=stale", false),
            ("A; detail=\"x; \\\"hit\"; hit", true),
            ("A; hit=?0", false),
            ("A; hit=?1", true),
            ("A; fwd=stale; hit", false),
            ("hit", false),
            ("", false),
        ] {
            assert_eq!(is_hit(status), expected, "{status}");
        }
    }

    #[test]
    fn headers_are_read_in_every_shape() {
        let read =
            |json: &'static str| serde_json::from_str::<Headers<'static>>(json).map_err(|error| error.to_string());
        let full = read(
            r#"{"user-agent":["a","b"],"REFERER":"r","Accept-Language":[],"X-Request-Id":[null,"\u0069d"],"Cookie":{"a":1},"Cache-Status":["x","y; hit"]}"#,
        );
        let expected = Headers {
            agent: "a".into(),
            referrer: "r".into(),
            request_id: "id".into(),
            is_hit: true,
            ..Headers::default()
        };
        assert_eq!(full, Ok(expected));
        for nothing in ["null", "{}", "[]", "\"REDACTED\"", r#"{"User-Agent":null}"#] {
            assert_eq!(read(nothing), Ok(Headers::default()), "{nothing}");
        }
    }
}
