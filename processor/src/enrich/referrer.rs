//! A referrer's host: lower case, no port, no path. Apps keep their own form, `android-app://com.example.app`.

use std::borrow::Cow;

/// The longest host name there can be.
const MAX_HOST_BYTES: usize = 253;
/// How pages do, as a rule.
const WEB: [&str; 2] = ["https://", "http://"];
/// How apps name themselves as referrers.
const APPS: [&str; 2] = ["android-app://", "ios-app://"];

/// The host of a referrer, or the app it names; `None` when there is none or it can't be one.
pub(super) fn host(referrer: &str) -> Option<Cow<'_, str>> {
    let referrer = referrer.trim();
    if referrer.is_empty() || referrer == "-" {
        return None;
    }
    let rest = match WEB.into_iter().find_map(|scheme| strip_prefix_ignoring_case(referrer, scheme)) {
        Some(rest) => rest,
        None => match APPS.into_iter().find_map(|scheme| Some((scheme, strip_prefix_ignoring_case(referrer, scheme)?)))
        {
            Some((scheme, rest)) => return app(scheme, rest),
            None if referrer.contains("://") => return None,
            // some logs hold the bare host
            None if referrer.contains('.') && !referrer.contains(char::is_whitespace) => referrer,
            None => return None,
        },
    };
    let end = rest.bytes().position(|byte| matches!(byte, b'/' | b'?' | b'#' | b'\\'));
    let authority = &rest[..end.unwrap_or(rest.len())];
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let host = without_port(host);
    normal(host.strip_suffix('.').unwrap_or(host))
}

/// A host name without its port.
pub(crate) fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port))
            if port.bytes().all(|b| b.is_ascii_digit()) && (!name.contains(':') || name.ends_with(']')) =>
        {
            name
        }
        _ => host,
    }
}

fn app<'a>(scheme: &str, rest: &'a str) -> Option<Cow<'a, str>> {
    let name = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let fits = !name.is_empty()
        && name.len() <= MAX_HOST_BYTES
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
    fits.then(|| format!("{scheme}{name}").into())
}

/// A host in the form that it is reported in.
fn normal(host: &str) -> Option<Cow<'_, str>> {
    if host.is_empty() || host.len() > MAX_HOST_BYTES {
        return None;
    }
    if !host.is_ascii() {
        // browsers send international names in their ASCII form
        return match url::Host::parse(host) {
            Ok(url::Host::Domain(name)) => Some(name.into()),
            _ => None,
        };
    }
    let v6 = host.starts_with('[') && host.ends_with(']');
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b) || (v6 && b"[:]".contains(&b));
    if !host.bytes().all(fits) {
        return None;
    }
    Some(if host.bytes().any(|b| b.is_ascii_uppercase()) { host.to_ascii_lowercase().into() } else { host.into() })
}

fn strip_prefix_ignoring_case<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let head = text.get(..prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then(|| &text[prefix.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_come_out_alike_whatever_is_around_them() {
        for (referrer, expected) in [
            ("https://news.example.com/a?b#c", Some("news.example.com")),
            ("HTTPS://News.Example.COM", Some("news.example.com")),
            ("http://example.com:8080/", Some("example.com")),
            ("https://user:pass@example.com/", Some("example.com")),
            ("https://example.com./x", Some("example.com")),
            ("https://example.com?x=http://other.test/", Some("example.com")),
            ("https://[2001:db8::1]:8443/x", Some("[2001:db8::1]")),
            ("https://203.0.113.7/", Some("203.0.113.7")),
            ("https://bücher.example/", Some("xn--bcher-kva.example")),
            ("android-app://com.Slack", Some("android-app://com.Slack")),
            ("Android-App://com.google.android.gm/https/x", Some("android-app://com.google.android.gm")),
            ("ios-app://310633997/whatsapp", Some("ios-app://310633997")),
            ("l.example.com", Some("l.example.com")),
            ("", None),
            ("-", None),
            ("about:blank", None),
            ("https://", None),
            ("https://a b.example/", None),
            ("https://<script>/", None),
            ("javascript://example.com/", None),
            ("x/https://example.com/", None),
            ("www.example.com/a/b.c", Some("www.example.com")),
            ("android-app://", None),
            ("android-app://a b", None),
            ("direct", None),
        ] {
            assert_eq!(host(referrer).as_deref(), expected, "{referrer}");
        }
        assert_eq!(host(&format!("https://{}.example/", "a".repeat(300))), None);
    }

    #[test]
    fn ports_go_and_nothing_else() {
        for (host, expected) in
            [("a.b:80", "a.b"), ("a.b", "a.b"), ("localhost:8080", "localhost"), ("[::1]:80", "[::1]"), ("::1", "::1")]
        {
            assert_eq!(without_port(host), expected);
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_a_host_or_none(text in "\\PC{0,60}") {
            if let Some(host) = host(&text) {
                proptest::prop_assert!(!host.is_empty() && host.len() <= MAX_HOST_BYTES + 14);
            }
        }
    }
}
