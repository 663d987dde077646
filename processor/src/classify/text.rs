//! Parts of an agent's text: the comment that names a device, addresses, names of products.

use std::ops::Range;
use std::sync::Arc;

/// The longest name taken from an agent, in bytes.
const MAX_NAME_BYTES: usize = 40;
/// Ends of host names that are taken for a site's name when they stand bare, as in `(example.com; 3 subscribers)`.
const SITE_ENDS: [&str; 24] = [
    "com", "net", "org", "io", "co", "de", "fr", "ru", "me", "ai", "info", "eu", "nl", "cz", "pl", "jp", "uk", "biz",
    "it", "es", "ch", "dev", "app", "us",
];
/// Beginnings of application ids, which are host names turned round: `com.example.app`.
const ID_BEGINS: [&str; 5] = ["com.", "org.", "net.", "de.", "io."];

/// Whether it is Internet Explorer: its users' toolbars and providers wrote much into its comment.
pub(super) fn is_explorer(agent: &str) -> bool {
    agent.contains("MSIE ")
}

/// No letter at all, or a byte that no header may hold. A version number alone is not absurd: there are
/// browsers of any number.
pub(super) fn is_absurd(agent: &str) -> bool {
    !agent.bytes().any(|byte| byte.is_ascii_alphabetic()) || agent.bytes().any(|byte| byte < 0x20 || byte == 0x7f)
}

/// The range of the comment that names an Android device; empty when there is none.
pub(super) fn device_comment(agent: &str) -> Range<usize> {
    let Some(open) = agent.find('(') else { return 0..0 };
    let mut depth = 0usize;
    let mut end = agent.len();
    for (place, byte) in agent.bytes().enumerate().skip(open) {
        match byte {
            b'(' => depth += 1,
            b')' if depth == 1 => {
                end = place;
                break;
            }
            b')' => depth -= 1,
            _ => {}
        }
    }
    let comment = &agent[open..end];
    let device = comment.contains("Android") || comment.contains(" Build/");
    // a robot that says so names itself there
    if device && !comment.starts_with("(compatible") { open..end } else { 0..0 }
}

/// A mailbox: a name, an `@`, a host name that ends in letters.
pub(super) fn mailbox(agent: &str, device: &Range<usize>) -> bool {
    let bytes = agent.as_bytes();
    memchr_all(b'@', bytes).any(|at| {
        if device.contains(&at) || at == 0 || !bytes[at - 1].is_ascii_alphanumeric() {
            return false;
        }
        let host: &[u8] =
            bytes[at + 1..].split(|b| !(b.is_ascii_alphanumeric() || b"-.".contains(b))).next().unwrap_or_default();
        let host = host.strip_suffix(b".").unwrap_or(host);
        let mut labels = host.rsplit(|b| *b == b'.');
        let end = labels.next().unwrap_or_default();
        end.len() >= 2
            && end.iter().all(u8::is_ascii_alphabetic)
            && labels.next().is_some_and(|label| !label.is_empty())
    })
}

/// A host name that stands bare.
pub(super) fn bare_site(agent: &str, device: &Range<usize>) -> bool {
    let mut place = 0;
    agent.split(|c: char| !(c.is_ascii_alphanumeric() || "-._".contains(c))).any(|word| {
        let start = place;
        place += word.len() + 1;
        let word = word.trim_end_matches('.');
        let Some((name, end)) = word.rsplit_once('.') else { return false };
        let before = agent.as_bytes().get(start.wrapping_sub(1)).copied();
        // a version follows a product's name, a folder or file follows a path
        before != Some(b'/')
            && !device.contains(&start)
            && name.bytes().any(|b| b.is_ascii_alphabetic())
            && SITE_ENDS.iter().any(|known| end.eq_ignore_ascii_case(known))
            && !ID_BEGINS
                .iter()
                .any(|begin| word.get(..begin.len()).is_some_and(|head| head.eq_ignore_ascii_case(begin)))
    })
}

fn memchr_all(needle: u8, haystack: &[u8]) -> impl Iterator<Item = usize> + '_ {
    haystack.iter().enumerate().filter(move |(_, byte)| **byte == needle).map(|(place, _)| place)
}

/// The product that an agent begins with, as `curl` of `curl/8.5.0`.
pub(super) fn first_product(agent: &str) -> Option<Arc<str>> {
    let end = agent.find(['/', '(', ';', ',']).unwrap_or(agent.len());
    clean_name(&agent[..end])
}

/// What follows the word `compatible` in a comment.
pub(super) fn compatible(agent: &str) -> Option<&str> {
    let at = agent.to_ascii_lowercase().find("compatible;")?;
    Some(head_of(&agent[at + "compatible;".len()..]))
}

/// What follows the word `compatible` unless it is the first of the agent's first comment.
pub(super) fn named_later(agent: &str) -> Option<&str> {
    let at = agent.to_ascii_lowercase().rfind("compatible;")?;
    let first = agent.find('(')? + 1;
    (at > first).then(|| head_of(&agent[at + "compatible;".len()..]))
}

/// What follows the engine's name in its comment, `(KHTML, like Gecko)`.
pub(super) fn in_engine_comment(agent: &str) -> Option<&str> {
    let comment = agent.split_once("(KHTML, like Gecko")?.1;
    let comment = &comment[..comment.find(')').unwrap_or(comment.len())];
    let rest = comment.trim_start_matches([' ', ',', ';']);
    // a word that goes on, as in `like Gecko/20100101`, is still the engine's
    (rest.len() < comment.len() && !rest.is_empty()).then(|| head_of(rest))
}

fn head_of(text: &str) -> &str {
    let text = text.trim_start_matches(['(', ' ', '+', '-']);
    &text[..text.find(['/', '(', ';', ',', ')']).unwrap_or(text.len())]
}

/// The product that a `compatible` comment names, or else the last product of the agent.
pub(super) fn named_in_comment(agent: &str) -> Option<Arc<str>> {
    if let Some(name) = compatible(agent) {
        return clean_name(name);
    }
    let begin = agent.rfind(") ").map(|at| at + 2).or_else(|| agent.find(' ').map(|at| at + 1))?;
    clean_name(head_of(&agent[begin..]))
}

/// The name whose end was found.
pub(super) fn name_around(agent: &str, start: usize, end: usize) -> Option<Arc<str>> {
    let part = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    let bytes = agent.as_bytes();
    let before = bytes[..start].iter().rev().take_while(|byte| part(byte)).count();
    let after = bytes[end..].iter().take_while(|byte| part(byte)).count();
    clean_name(&agent[start - before..end + after])
}

/// A name as shown: no blanks around, not too long, with a letter in it.
pub(super) fn clean_name(name: &str) -> Option<Arc<str>> {
    let name =
        schemas::event::cut(name.trim_matches(|c: char| c.is_whitespace() || "-_.\"'".contains(c)), MAX_NAME_BYTES);
    let named = name.bytes().filter(u8::is_ascii_alphabetic).count() >= 2;
    let address = name.starts_with("http") && name.contains(':');
    (named && !address).then(|| name.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_DEVICE: Range<usize> = 0..0;

    #[test]
    fn an_android_device_is_named_by_its_comment() {
        let agent = "Mozilla/5.0 (Linux; Android 8.0.0; CUBOT (P20)) AppleWebKit/537.36";
        assert_eq!(&agent[device_comment(agent)], "(Linux; Android 8.0.0; CUBOT (P20)");
        assert_eq!(device_comment("Mozilla/5.0 (Windows NT 10.0; foobot)"), NO_DEVICE);
        assert_eq!(device_comment("curl/8"), NO_DEVICE);
    }

    #[test]
    fn mailboxes_are_told_from_other_uses_of_the_sign() {
        for (agent, is) in [
            ("x; admin@example.org)", true),
            ("x support@sub.example.co.uk", true),
            ("(Ecosia android@101.0.4951.41)", false),
            ("en_IR@calendar=gregorian", false),
            ("Net M@nager V3.02", false),
            ("@example.org", false),
        ] {
            assert_eq!(mailbox(agent, &NO_DEVICE), is, "{agent}");
        }
    }

    #[test]
    fn bare_sites_are_told_from_versions_and_application_ids() {
        for (agent, is) in [
            ("Mozilla/5.0 (example.com; 3 subscribers)", true),
            ("Mozilla/5.0 (X11) example.io/policy", true),
            ("Foo/2.example.com", false),
            ("com.example.de/2.1", false),
            ("node.js/16.1", false),
            ("Mozilla/5.0 (Linux) 10.0.co", false),
        ] {
            assert_eq!(bare_site(agent, &NO_DEVICE), is, "{agent}");
        }
    }

    #[test]
    fn absurd_is_what_has_no_letter_not_what_has_odd_numbers() {
        assert!(is_absurd("0"));
        assert!(is_absurd("\u{1}Mozilla"));
        assert!(!is_absurd("Mozilla/99.0"));
    }

    #[test]
    fn names_are_taken_from_where_they_stand() {
        assert_eq!(first_product("curl/8.5.0").as_deref(), Some("curl"));
        assert_eq!(first_product("1/2"), None);
        assert_eq!(named_in_comment("Mozilla/5.0 (compatible; Foo/1.0)").as_deref(), Some("Foo"));
        assert_eq!(named_in_comment("Mozilla/5.0 (X11) Bar/2").as_deref(), Some("Bar"));
        assert_eq!(name_around("a my-bot/2", 5, 8).as_deref(), Some("my-bot"));
        assert_eq!(named_later("Mozilla/5.0 (X11) Chrome/9 (compatible; Foo/1)"), Some("Foo"));
        assert_eq!(named_later("Mozilla/5.0 (compatible; Foo/1)"), None);
        assert_eq!(in_engine_comment("x (KHTML, like Gecko; Foo) y"), Some("Foo"));
        assert_eq!(in_engine_comment("x (KHTML, like Gecko) y"), None);
        assert_eq!(in_engine_comment("x (KHTML, like Gecko/413) y"), None);
    }
}
