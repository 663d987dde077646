//! Codes: what may be one, and which one a request's path names. The redirect and the readers of edge logs
//! share this rule, since the code is part of a click's identity.

use std::borrow::Cow;

use crate::link::MAX_CODE_BYTES;

/// Whether `code` can be one: 1 to [`MAX_CODE_BYTES`] bytes of `[A-Za-z0-9_-]` or of UTF-8 beyond ASCII.
pub fn is_code(code: &str) -> bool {
    (1..=MAX_CODE_BYTES).contains(&code.len()) && code.bytes().all(is_code_byte)
}

/// The code that a path names: what follows the first slash, percent-decoded, with one trailing slash ignored.
/// `path` is without its query. `None` when no link can have such a path.
pub fn from_path(path: &str) -> Option<Cow<'_, str>> {
    let path = path.strip_prefix('/')?;
    let path = path.strip_suffix('/').unwrap_or(path);
    let code = if path.contains('%') { Cow::Owned(decode(path)?) } else { Cow::Borrowed(path) };
    is_code(&code).then_some(code)
}

fn is_code_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-' || !byte.is_ascii()
}

/// `None` for a broken escape, and for bytes that are not UTF-8.
fn decode(path: &str) -> Option<String> {
    if path.len() > 3 * MAX_CODE_BYTES {
        return None;
    }
    let mut decoded = Vec::with_capacity(path.len());
    let mut bytes = path.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(if byte == b'%' { hex(bytes.next()?)? << 4 | hex(bytes.next()?)? } else { byte });
    }
    String::from_utf8(decoded).ok()
}

fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_path_names_one_code_or_none() {
        for (path, code) in [
            ("/k7Qp2", Some("k7Qp2")),
            ("/k7Qp2/", Some("k7Qp2")),
            ("/a-b_C", Some("a-b_C")),
            ("/K", Some("K")),
            ("/%6b7Qp2", Some("k7Qp2")),
            ("/%C3%A9t%c3%a9", Some("été")),
            ("/été", Some("été")),
            ("/%F0%9F%8E%89", Some("🎉")),
            ("", None),
            ("/", None),
            ("//", None),
            ("//k", None),
            ("/k//", None),
            ("/a/b", None),
            ("/a%2Fb", None),
            ("/a%2F", None),
            ("/favicon.ico", None),
            ("/a%20b", None),
            ("/a+b", None),
            ("/%00", None),
            ("/%", None),
            ("/%4", None),
            ("/%zz", None),
            ("/%+1", None),
            ("/%C3", None),
            ("/%C3%28", None),
            ("/%25", None),
            ("/%ED%A0%80", None),
            ("k", None),
            ("*", None),
        ] {
            assert_eq!(from_path(path).as_deref(), code, "{path}");
        }
    }

    #[test]
    fn the_longest_code_is_counted_in_bytes() {
        let longest = "é".repeat(MAX_CODE_BYTES / 2);
        let escaped: String = longest.bytes().map(|byte| format!("%{byte:02X}")).collect();
        assert_eq!(from_path(&format!("/{escaped}/")).as_deref(), Some(longest.as_str()));
        assert_eq!(from_path(&format!("/{escaped}a")), None);
        assert_eq!(from_path(&format!("/{}", "a".repeat(MAX_CODE_BYTES + 1))), None);
    }

    proptest! {
        #[test]
        fn any_path_is_a_code_or_none(path in "\\PC{0,40}|(/[%0-9a-fG]{0,20})") {
            if let Some(code) = from_path(&path) {
                prop_assert!(is_code(&code));
            }
        }

        #[test]
        fn every_code_is_found_by_its_escaped_path(code in "[A-Za-z0-9_é東-]{1,30}") {
            let escaped: String = code.bytes().map(|byte| format!("%{byte:02x}")).collect();
            let path = format!("/{escaped}");
            let found = from_path(&path);
            prop_assert_eq!(found.as_deref(), Some(code.as_str()));
        }
    }
}
