//! Lists as their operators publish them.
//!
//! * JSON: `{"prefixes":[{"ipv4Prefix":…},{"ipv6Prefix":…}]}` (Google, Bing, OpenAI and others), `ip_prefix` and
//!   `ipv6_prefix` (AWS), `addressPrefixes` (Azure's service tags), `ips` (Microsoft 365's endpoints), a bare array
//! * text: an address or prefix a line; what follows a blank, comma, semicolon or tab is left alone, so that the first
//!   column of a CSV file (geofeeds, RFC 8805) is read too. `#` begins a comment
//!
//! One that can't be read fails the whole list, with its place: half a list would be taken for all of it.

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net};
use serde_json::Value;

/// Keys of JSON that hold a prefix, or an array of them.
const KEYS: [&str; 6] = ["ipv4Prefix", "ipv6Prefix", "ip_prefix", "ipv6_prefix", "addressPrefixes", "ips"];

/// Why a list can't be read.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// Not JSON, although it begins like it.
    #[error("this is no JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// JSON of another form.
    #[error("there is no prefix in this JSON: expected a bare array, or objects with one of {}", KEYS.join(", "))]
    NoKey,
    /// A page rather than a list.
    #[error("this is a web page, not a list")]
    Page,
    /// A value of JSON that is no prefix.
    #[error("{0:?} is neither an address nor a prefix")]
    Value(String),
    /// A line that has none.
    #[error("line {line}: {text:?} is neither an address nor a prefix")]
    Line {
        /// From 1.
        line: usize,
        /// What stands there.
        text: String,
    },
}

/// The prefixes of a published list, in order, each once.
///
/// # Errors
/// When it is of no known form, or holds something that is no prefix.
pub fn prefixes(text: &str) -> Result<Vec<IpNet>, FormatError> {
    let text = text.trim_start_matches('\u{feff}').trim();
    let mut found = Vec::new();
    match text.as_bytes().first() {
        Some(b'<') => return Err(FormatError::Page),
        Some(b'{' | b'[') => {
            let value: Value = serde_json::from_str(text)?;
            match &value {
                Value::Array(items) if items.iter().all(Value::is_string) => take(&value, &mut found)?,
                _ => walk(&value, &mut found)?,
            }
            if found.is_empty() {
                return Err(FormatError::NoKey);
            }
        }
        _ => lines(text, &mut found)?,
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// Prefixes anywhere below a value.
fn walk(value: &Value, found: &mut Vec<IpNet>) -> Result<(), FormatError> {
    match value {
        Value::Array(items) => items.iter().try_for_each(|item| walk(item, found)),
        Value::Object(fields) => fields.iter().try_for_each(|(key, value)| match KEYS.contains(&key.as_str()) {
            true => take(value, found),
            false => walk(value, found),
        }),
        _ => Ok(()),
    }
}

/// A value that has to be a prefix, or an array of them.
fn take(value: &Value, found: &mut Vec<IpNet>) -> Result<(), FormatError> {
    match value {
        Value::Array(items) => items.iter().try_for_each(|item| take(item, found)),
        Value::String(text) => {
            found.push(prefix(text.trim()).ok_or_else(|| FormatError::Value(shown(text)))?);
            Ok(())
        }
        other => Err(FormatError::Value(shown(&other.to_string()))),
    }
}

fn lines(text: &str, found: &mut Vec<IpNet>) -> Result<(), FormatError> {
    let mut is_first = true;
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let first = line.split([',', ';', '\t', ' ']).next().unwrap_or_default().trim_matches('"');
        match prefix(first) {
            Some(net) => found.push(net),
            // names of columns
            None if is_first && line.contains(',') && !first.contains(['.', ':', '/']) => {}
            None => return Err(FormatError::Line { line: number + 1, text: shown(line) }),
        }
        is_first = false;
    }
    Ok(())
}

/// A prefix or an address; IPv4 in IPv6 form as IPv4.
fn prefix(text: &str) -> Option<IpNet> {
    let net = match text.parse::<IpNet>() {
        Ok(net) => net,
        Err(_) => IpNet::from(text.parse::<IpAddr>().ok()?),
    };
    let as_v4 = |net: IpNet| match (net.addr().to_canonical(), net.prefix_len().checked_sub(96)) {
        (IpAddr::V4(v4), Some(length)) if net.addr().is_ipv6() => Ipv4Net::new(v4, length).map_or(net, IpNet::from),
        _ => net,
    };
    Some(as_v4(net).trunc())
}

fn shown(text: &str) -> String {
    schemas::event::cut(text, 60).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<String> {
        prefixes(text).unwrap().iter().map(IpNet::to_string).collect()
    }

    #[test]
    fn lists_are_read_as_they_are_published() {
        for (text, expected) in [
            (
                r#"{"creationTime":"2026-01-01","prefixes":[{"ipv6Prefix":"2001:db8::/64"},{"ipv4Prefix":"192.0.2.0/27"}]}"#,
                &["192.0.2.0/27", "2001:db8::/64"][..],
            ),
            (
                r#"{"syncToken":"1","prefixes":[{"ip_prefix":"192.0.2.0/24","region":"x","service":"AMAZON"}],
                   "ipv6_prefixes":[{"ipv6_prefix":"2001:db8::/40","service":"EC2"}]}"#,
                &["192.0.2.0/24", "2001:db8::/40"],
            ),
            (
                r#"{"values":[{"properties":{"addressPrefixes":["192.0.2.0/24","2001:db8::/48"]}}]}"#,
                &["192.0.2.0/24", "2001:db8::/48"],
            ),
            (r#"[{"id":1,"ips":["192.0.2.0/24"],"urls":["a.test"]},{"id":2}]"#, &["192.0.2.0/24"]),
            (r#"["192.0.2.1","192.0.2.1/32"]"#, &["192.0.2.1/32"]),
            (
                "# ours\n192.0.2.7/24\n\n 198.51.100.1 # a probe\n2001:db8::1\n",
                &["192.0.2.0/24", "198.51.100.1/32", "2001:db8::1/128"],
            ),
            (
                "prefix,country\r\n192.0.2.0/24,NL,NL-UT,Utrecht,\r\n\"2001:db8::/32\",US\r\n",
                &["192.0.2.0/24", "2001:db8::/32"],
            ),
            ("\u{feff}::ffff:192.0.2.0/120;x", &["192.0.2.0/24"]),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_list_is_named() {
        for (text, fault) in [
            ("<!doctype html><html>", "a web page"),
            ("{\"prefixes\": [", "no JSON"),
            ("{\"hello\": 1}", "no prefix in this JSON"),
            ("[]", "no prefix in this JSON"),
            (r#"{"prefixes":[{"ipv4Prefix":"192.0.2.0/33"}]}"#, "\"192.0.2.0/33\" is neither"),
            (r#"{"prefixes":[{"ipv4Prefix":7}]}"#, "\"7\" is neither"),
            ("192.0.2.0/24\nprefix,country\n", "line 2: \"prefix,country\""),
            ("404 not found", "line 1: \"404 not found\""),
            ("192.0.2.0/24 x\n300.1.1.1", "line 2"),
        ] {
            let said = prefixes(text).unwrap_err().to_string();
            assert!(said.contains(fault), "{text}: {said}");
        }
        assert_eq!(read("# nothing\n"), [""; 0]);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_a_list_or_an_error(text in "[\\[\\]{}\":,.0-9a-f/\n #]{0,80}") {
            let _ = prefixes(&text);
        }
    }
}
