//! What a click's event needs of a request's headers, found in one pass. Pure.

use std::borrow::Cow;

use http::{HeaderMap, HeaderName, HeaderValue, header};
use schemas::event::PURPOSE_HEADERS;
use schemas::privacy::{Asked, asks};

/// The headers of one request that matter; of a repeated one the first.
#[derive(Debug, Default)]
pub(super) struct Fields<'a> {
    pub(super) user_agent: Option<&'a HeaderValue>,
    pub(super) referrer: Option<&'a HeaderValue>,
    pub(super) language: Option<&'a HeaderValue>,
    /// Whether the client asks for privacy.
    pub(super) asked: Asked,
    pub(super) host: Host<'a>,
    purpose: [Option<&'a HeaderValue>; PURPOSE_HEADERS.len()],
}

/// The `Host` header.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Host<'a> {
    #[default]
    Missing,
    One(&'a HeaderValue),
    Repeated,
}

impl<'a> Fields<'a> {
    /// Looks at every header once.
    pub(super) fn of(headers: &'a HeaderMap) -> Self {
        let mut fields = Self::default();
        for (name, value) in headers {
            fields.take(name, value);
        }
        fields
    }

    fn take(&mut self, name: &HeaderName, value: &'a HeaderValue) {
        let first = |slot: &mut Option<&'a HeaderValue>| {
            slot.get_or_insert(value);
        };
        match *name {
            header::HOST => {
                self.host = if self.host == Host::Missing { Host::One(value) } else { Host::Repeated };
            }
            header::USER_AGENT => first(&mut self.user_agent),
            header::REFERER => first(&mut self.referrer),
            header::ACCEPT_LANGUAGE => first(&mut self.language),
            _ => {
                let name = name.as_str();
                // all names that matter are of these lengths, and few others are
                match name.len() {
                    3 if name == "dnt" => self.asked.dnt |= asks(value.as_bytes()),
                    7 if name == "sec-gpc" => self.asked.gpc |= asks(value.as_bytes()),
                    5 | 7 | 9 | 11 | 13 | 20 => {
                        if let Some(at) = PURPOSE_HEADERS.iter().position(|(known, _)| *known == name) {
                            first(&mut self.purpose[at]);
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    /// Whether this is a fetch ahead of a click that may never come.
    pub(super) fn is_speculative(&self) -> bool {
        PURPOSE_HEADERS.iter().zip(&self.purpose).any(|((_, begins), value)| {
            let Some(value) = value.map(|value| value.as_bytes().trim_ascii_start()) else { return false };
            let begins_with =
                |word: &&str| value.get(..word.len()).is_some_and(|it| it.eq_ignore_ascii_case(word.as_bytes()));
            begins.iter().any(begins_with)
        })
    }

    /// The purpose headers as `name: value` lines; empty when there is none, as almost always.
    pub(super) fn purpose(&self) -> String {
        let mut lines = String::new();
        for ((name, _), value) in PURPOSE_HEADERS.iter().zip(&self.purpose) {
            if let Some(value) = value {
                if !lines.is_empty() {
                    lines.push('\n');
                }
                lines.extend([name, ": ", &text(Some(value))]);
            }
        }
        lines
    }
}

/// A header's text: empty when it is missing, bytes that are not UTF-8 replaced.
pub(super) fn text(value: Option<&HeaderValue>) -> Cow<'_, str> {
    value.map_or(Cow::Borrowed(""), |value| String::from_utf8_lossy(value.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        headers
    }

    #[test]
    fn fetches_ahead_of_a_click_are_told_from_clicks() {
        for (name, value, speculative) in [
            ("sec-purpose", "prefetch", true),
            ("sec-purpose", "prefetch;prerender", true),
            ("sec-purpose", "prefetch;anonymous-client-ip", true),
            ("Sec-Purpose", "Prefetch", true),
            ("purpose", "prefetch", true),
            ("purpose", " preview", true),
            ("x-moz", "prefetch", true),
            ("x-purpose", "preview", true),
            ("x-purpose", "instant", true),
            ("x-sec-purpose", "prefetch", true),
            ("sec-speculation-tags", "null", true),
            ("sec-speculation-tags", "\"my-rules\"", true),
            ("next-router-prefetch", "1", true),
            ("x-native-host", "OneOutlook/1.2023.927.100", true),
            ("next-router-prefetch", "0", false),
            ("x-native-host", "Other/1", false),
            ("x-sec-purpose", "", false),
            ("cache-control", "prefetch", false),
            ("sec-purpose", "", false),
            ("sec-purpose", "pre", false),
            ("purpose", "é", false),
            ("sec-fetch-dest", "prefetch", false),
        ] {
            let headers = headers(&[(Box::leak(name.to_lowercase().into_boxed_str()), value)]);
            assert_eq!(Fields::of(&headers).is_speculative(), speculative, "{name}: {value}");
        }
        assert!(!Fields::of(&HeaderMap::new()).is_speculative());
    }

    #[test]
    fn purposes_are_listed_as_lines_in_a_fixed_order() {
        let headers = headers(&[
            ("x-purpose", "preview"),
            ("user-agent", "UA"),
            ("sec-purpose", "prefetch"),
            ("sec-purpose", "second"),
        ]);
        assert_eq!(Fields::of(&headers).purpose(), "sec-purpose: prefetch\nx-purpose: preview");
        assert_eq!(Fields::default().purpose(), "");
    }

    #[test]
    fn texts_are_the_first_and_survive_bad_bytes() {
        let mut headers = headers(&[("user-agent", "one"), ("user-agent", "two"), ("referer", "r")]);
        headers.insert(header::ACCEPT_LANGUAGE, HeaderValue::from_bytes(b"d\xe9").unwrap());
        let fields = Fields::of(&headers);
        assert_eq!(text(fields.user_agent), "one");
        assert_eq!(text(fields.referrer), "r");
        assert_eq!(text(fields.language), "d\u{fffd}");
        assert_eq!(text(None), "");
    }

    #[test]
    fn who_asks_for_privacy_is_heard() {
        for (lines, gpc, dnt) in [
            (&[("sec-gpc", "1")][..], true, false),
            (&[("dnt", "1")], false, true),
            (&[("dnt", "0"), ("sec-gpc", "")], false, false),
            (&[("dnt", "0"), ("dnt", "1")], false, true),
            (&[("dnx", "1"), ("sec-gpx", "1")], false, false),
        ] {
            let asked = Fields::of(&headers(lines)).asked;
            assert_eq!((asked.gpc, asked.dnt), (gpc, dnt), "{lines:?}");
        }
    }

    #[test]
    fn a_second_host_is_noticed() {
        assert_eq!(Fields::of(&HeaderMap::new()).host, Host::Missing);
        let one = headers(&[("host", "a")]);
        assert!(matches!(Fields::of(&one).host, Host::One(value) if value == "a"));
        for second in ["a", "b"] {
            assert_eq!(Fields::of(&headers(&[("host", "a"), ("host", second)])).host, Host::Repeated);
        }
    }
}
