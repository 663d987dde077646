//! What a link's fields may be. Pure; each check returns what is wrong in words for whoever typed it.

use schemas::event::MAX_TEXT_BYTES;
use schemas::link::MAX_CODE_BYTES;
use url::Url;

use super::domains::Domains;

/// The longest title, in characters.
const MAX_TITLE_CHARS: usize = 300;
/// The longest reason of a takedown, in characters.
const MAX_REASON_CHARS: usize = 500;
/// The longest tag, in characters.
const MAX_TAG_CHARS: usize = 64;
/// The most tags of one link.
const MAX_TAGS: usize = 50;
/// The longest name of a workspace, in bytes.
const MAX_WORKSPACE_BYTES: usize = 64;

/// A code: `[A-Za-z0-9_-]` and, beyond ASCII, whatever people can see.
pub(super) fn code(code: &str) -> Result<(), String> {
    if code.is_empty() {
        return Err("must not be empty".into());
    }
    if code.len() > MAX_CODE_BYTES {
        return Err(format!("has {} bytes; at most {MAX_CODE_BYTES} are allowed", code.len()));
    }
    match code.chars().find(|&c| !is_code_char(c)) {
        Some(c) => {
            Err(format!("holds {c:?}; letters, digits, '-', '_' and visible characters beyond ASCII are allowed"))
        }
        None => Ok(()),
    }
}

fn is_code_char(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_alphanumeric() || c == '-' || c == '_';
    }
    // Marks of direction and width zero would let two codes look the same. The joiners (U+200C, U+200D) stay: scripts
    // and emoji need them.
    let unseen = matches!(c, '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{ffff}' | '\u{ad}' | '\u{e000}'..='\u{f8ff}');
    !c.is_control() && !c.is_whitespace() && !unseen
}

/// A destination; returns it as it is stored: a URL in normal form, its host as A-label.
pub(super) fn destination(given: &str, domains: &Domains) -> Result<String, String> {
    if given.chars().any(char::is_control) {
        return Err("must not hold control characters".into());
    }
    let url = Url::parse(given).map_err(|error| match error {
        url::ParseError::RelativeUrlWithoutBase => "must be a whole URL, such as https://example.com/page".to_owned(),
        other => format!("is no URL: {other}"),
    })?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("must begin with http:// or https://, not {}:", url.scheme()));
    }
    if !url.username().is_empty() || url.password().is_some() || has_userinfo(given) {
        return Err("must not hold a user name or password".into());
    }
    if domains.owns(&url) {
        return Err("must not lead back to a domain of this service".into());
    }
    let stored = String::from(url);
    if stored.len() > MAX_TEXT_BYTES {
        return Err(format!("has {} bytes; at most {MAX_TEXT_BYTES} are allowed", stored.len()));
    }
    Ok(stored)
}

/// Whether the authority holds an `@`, also where the parser drops an empty user name.
fn has_userinfo(given: &str) -> bool {
    let after_scheme = given.split_once(':').map_or("", |(_, rest)| rest);
    let authority = after_scheme.trim_start_matches(['/', '\\']).split(['/', '\\', '?', '#']).next();
    authority.is_some_and(|authority| authority.contains('@'))
}

/// A title; returns it without white space around it, or nothing when nothing is left.
pub(super) fn title(given: &str) -> Result<Option<String>, String> {
    line(given, MAX_TITLE_CHARS).map(|title| Some(title).filter(|title| !title.is_empty()))
}

/// A reason of a takedown; visitors read it.
pub(super) fn reason(given: &str) -> Result<String, String> {
    match line(given, MAX_REASON_CHARS)? {
        reason if reason.is_empty() => Err("must say why the link is taken down".into()),
        reason => Ok(reason),
    }
}

/// Tags; returns them without repeats, in their order.
pub(super) fn tags(given: &[String]) -> Result<Vec<String>, String> {
    let mut tags: Vec<String> = Vec::new();
    for tag in given {
        let tag = line(tag, MAX_TAG_CHARS).map_err(|wrong| format!("{tag:?} {wrong}"))?;
        if tag.is_empty() {
            return Err("must not hold an empty tag".into());
        }
        if !tags.contains(&tag) {
            tags.push(tag);
        }
    }
    if tags.len() > MAX_TAGS { Err(format!("are {}; at most {MAX_TAGS} are allowed", tags.len())) } else { Ok(tags) }
}

/// The name of a workspace.
pub(super) fn workspace(name: &str) -> Result<(), String> {
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if name.is_empty() || name.len() > MAX_WORKSPACE_BYTES || !name.bytes().all(fits) {
        return Err(format!("must be 1 to {MAX_WORKSPACE_BYTES} letters, digits, '-', '_' or '.'"));
    }
    Ok(())
}

fn line(given: &str, max: usize) -> Result<String, String> {
    let line = given.trim();
    if line.chars().any(char::is_control) {
        return Err("must not hold control characters".into());
    }
    match line.chars().count() {
        chars if chars > max => Err(format!("has {chars} characters; at most {max} are allowed")),
        _ => Ok(line.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes() {
        let longest = "é".repeat(64);
        for good in ["a", "-", "_", "Az09", "é", "日本語", "👩\u{200d}🚀", "❤\u{fe0f}", longest.as_str()] {
            assert_eq!(code(good), Ok(()), "{good:?}");
        }
        let too_long = "a".repeat(129);
        for bad in [
            "",
            "a/b",
            "a b",
            "a.b",
            "a%20",
            "a\n",
            "a\0",
            "a\u{7f}",
            "a\u{85}",
            "a\u{2028}",
            "a\u{200b}",
            "\u{202e}a",
            "\u{feff}",
            "a\u{a0}",
            &too_long,
        ] {
            assert!(code(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn destinations() {
        let domains = Domains::new(&["sho.rt", "localhost:8080"]).unwrap();
        for (given, stored) in [
            ("https://example.com/a?b=c#d", "https://example.com/a?b=c#d"),
            ("HTTP://EXAMPLE.com", "http://example.com/"),
            ("https://bücher.example/straße", "https://xn--bcher-kva.example/stra%C3%9Fe"),
            ("https://example.com/@user", "https://example.com/@user"),
            ("https://example.com/?at=@", "https://example.com/?at=@"),
            (" https://example.com/ ", "https://example.com/"),
            ("http://localhost:3000/", "http://localhost:3000/"),
        ] {
            assert_eq!(destination(given, &domains).as_deref(), Ok(stored), "{given:?}");
        }
        let too_long = format!("https://example.com/{}", "x".repeat(2048));
        for (given, why) in [
            ("", "whole URL"),
            ("example.com/a", "whole URL"),
            ("/a", "whole URL"),
            ("javascript:alert(1)", "http://"),
            ("ftp://example.com/", "http://"),
            ("data:text/html,x", "http://"),
            ("https://", "no URL"),
            ("https://exa mple.com/", "no URL"),
            ("https://user@example.com/", "user name"),
            ("https://user:secret@example.com/", "user name"),
            ("https://@example.com/", "user name"),
            ("https:@example.com/", "user name"),
            ("https:\\\\u@example.com/", "user name"),
            ("https://example.com/\r\nSet-Cookie: a=b", "control"),
            ("https://example.com/\u{0}", "control"),
            ("https://example.com/\u{85}", "control"),
            ("https://sho.rt/abc", "this service"),
            ("https://SHO.RT./abc", "this service"),
            ("http://localhost:8080/abc", "this service"),
            (&too_long, "at most 2048"),
        ] {
            let wrong = destination(given, &domains).unwrap_err();
            assert!(wrong.contains(why), "{given:?}: {wrong}");
        }
    }

    #[test]
    fn titles_reasons_tags_and_names() {
        assert_eq!(title("  Spring sale "), Ok(Some("Spring sale".into())));
        assert_eq!(title("  "), Ok(None));
        assert!(title("a\nb").is_err());
        assert!(title(&"x".repeat(301)).is_err());
        assert_eq!(reason(" phishing "), Ok("phishing".into()));
        assert!(reason(" ").is_err());
        let given = |tags: &[&str]| tags.iter().map(|tag| (*tag).to_owned()).collect::<Vec<_>>();
        assert_eq!(tags(&given(&["b", " a", "b"])), Ok(given(&["b", "a"])));
        assert!(tags(&given(&[""])).is_err());
        assert!(tags(&given(&["a\tb"])).is_err());
        assert!(tags(&(0..51).map(|n| n.to_string()).collect::<Vec<_>>()).is_err());
        assert_eq!(workspace("acme-2.eu_x"), Ok(()));
        for bad in ["", "a b", "a/b", "é", &"x".repeat(65)] {
            assert!(workspace(bad).is_err(), "{bad:?}");
        }
    }
}
