//! What is not to be known of people: who asks for privacy, and which parts of a query are kept. Pure.
//!
//! A client asks by `Sec-GPC: 1` (Global Privacy Control) or `DNT: 1`. Its clicks are counted like any other, without
//! visitor, network and city. Of a query the campaign parameters are kept for everyone, and those that are listed.

use std::borrow::Cow;

/// The campaign parameters without what they begin with, in the order of [`Utm`](crate::click::Utm).
pub const UTM_NAMES: [&str; 5] = ["source", "medium", "campaign", "term", "content"];
/// What campaign parameters begin with.
pub const UTM_PREFIX: &str = "utm_";

/// The longest list of listed parameters that a row keeps, in bytes; what doesn't fit is left out, whole.
const MAX_KEPT_BYTES: usize = 1_024;

/// What a client asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// By `Sec-GPC: 1`.
    pub gpc: bool,
    /// By `DNT: 1`.
    pub dnt: bool,
    /// As whoever tells of the click has found out.
    pub outright: bool,
}

/// What is honoured, and kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Privacy {
    /// `Sec-GPC: 1` is honoured.
    pub gpc: bool,
    /// `DNT: 1` is honoured.
    pub dnt: bool,
    /// The query parameters that are kept beside those of campaigns, as they are written in a query.
    pub query: Vec<String>,
}

impl Default for Privacy {
    fn default() -> Self {
        Self { gpc: true, dnt: true, query: Vec::new() }
    }
}

/// Whether the value of such a header asks.
pub fn asks(value: &[u8]) -> bool {
    value.trim_ascii() == b"1"
}

impl Privacy {
    /// Whether a client's request is private.
    pub fn is_private(&self, asked: Asked) -> bool {
        asked.outright || (asked.gpc && self.gpc) || (asked.dnt && self.dnt)
    }

    /// Of a query, without `?`, the pairs that may be kept at all: those of campaigns and the listed ones.
    pub fn kept<'a>(&self, query: &'a str) -> Cow<'a, str> {
        pairs(query, usize::MAX, |name| is_utm(name) || self.is_listed(name))
    }

    /// Of a query the listed pairs; `None` when there is none.
    pub fn listed<'a>(&self, query: &'a str) -> Option<Cow<'a, str>> {
        // as a rule nothing is listed
        if self.query.is_empty() || query.is_empty() {
            return None;
        }
        Some(pairs(query, MAX_KEPT_BYTES, |name| self.is_listed(name))).filter(|kept| !kept.is_empty())
    }

    fn is_listed(&self, name: &str) -> bool {
        self.query.iter().any(|listed| listed == name)
    }
}

fn is_utm(name: &str) -> bool {
    let start = name.get(..UTM_PREFIX.len()).filter(|start| start.eq_ignore_ascii_case(UTM_PREFIX));
    start.is_some_and(|start| UTM_NAMES.iter().any(|known| known.eq_ignore_ascii_case(&name[start.len()..])))
}

/// The pairs of a query whose names are wanted, as long as they fit.
fn pairs(query: &str, most: usize, wanted: impl Fn(&str) -> bool) -> Cow<'_, str> {
    let is_wanted = |pair: &str| wanted(pair.split_once('=').map_or(pair, |(name, _)| name));
    if query.len() <= most && query.split('&').all(is_wanted) {
        return Cow::Borrowed(query);
    }
    let mut kept = String::new();
    for pair in query.split('&').filter(|pair| is_wanted(pair)) {
        if kept.len() + usize::from(!kept.is_empty()) + pair.len() > most {
            continue;
        }
        if !kept.is_empty() {
            kept.push('&');
        }
        kept.push_str(pair);
    }
    Cow::Owned(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(names: &[&str]) -> Privacy {
        Privacy { query: names.iter().map(|name| (*name).to_owned()).collect(), ..Privacy::default() }
    }

    #[test]
    fn who_asks_is_heard_as_configured() {
        let (gpc, dnt) = (Asked { gpc: true, ..Asked::default() }, Asked { dnt: true, ..Asked::default() });
        let outright = Asked { outright: true, ..Asked::default() };
        for (honours_gpc, honours_dnt) in [(true, true), (true, false), (false, true), (false, false)] {
            let privacy = Privacy { gpc: honours_gpc, dnt: honours_dnt, query: Vec::new() };
            assert_eq!(privacy.is_private(gpc), honours_gpc);
            assert_eq!(privacy.is_private(dnt), honours_dnt);
            assert!(privacy.is_private(outright) && !privacy.is_private(Asked::default()));
        }
        for (value, asks_so) in [("1", true), (" 1 ", true), ("0", false), ("", false), ("11", false), ("true", false)]
        {
            assert_eq!(asks(value.as_bytes()), asks_so, "{value}");
        }
    }

    #[test]
    fn of_a_query_only_what_may_be_is_kept() {
        let query = "email=a%40b.c&utm_source=x&ref=1&UTM_Medium=y&utm_id=7&ref=2&token&=&";
        assert_eq!(listing(&[]).kept(query), "utm_source=x&UTM_Medium=y");
        assert_eq!(listing(&["ref"]).kept(query), "utm_source=x&ref=1&UTM_Medium=y&ref=2");
        assert_eq!(listing(&["ref"]).listed(query).as_deref(), Some("ref=1&ref=2"));
        assert_eq!(listing(&["token", "Ref"]).listed(query).as_deref(), Some("token"), "names as they are written");
        assert_eq!(listing(&["other"]).listed(query), None);
        assert_eq!(listing(&[]).listed(query), None);
        let whole = "utm_source=x&ref=1";
        assert!(matches!(listing(&["ref"]).kept(whole), Cow::Borrowed(kept) if kept == whole));
        assert_eq!(listing(&[]).kept(""), "");
        assert_eq!(listing(&[]).kept("secret"), "");
    }

    #[test]
    fn what_is_kept_is_bounded_and_pairs_stay_whole() {
        let query = format!("a={}&a=1&a={}&a=2", "x".repeat(2_000), "y".repeat(MAX_KEPT_BYTES - 8));
        assert_eq!(listing(&["a"]).listed(&query).unwrap(), format!("a=1&a={}", "y".repeat(MAX_KEPT_BYTES - 8)));
    }

    proptest::proptest! {
        #[test]
        fn nothing_else_is_kept(query in "(utm_source|ref|&|=|é|%){0,30}") {
            for pair in listing(&["ref"]).kept(&query).split('&').filter(|pair| !pair.is_empty()) {
                let name = pair.split('=').next().unwrap();
                proptest::prop_assert!(name == "ref" || name == "utm_source", "{} of {}", pair, query);
            }
        }
    }
}
