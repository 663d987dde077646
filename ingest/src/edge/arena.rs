//! Where decoded texts of a block live: handed out as plain `&str`, freed all at once.

use std::fmt::{self, Write as _};

use bumpalo::Bump;

/// Memory for the decoded texts of one block of lines. Make one a thread, [`Arena::reset`] it between blocks.
#[derive(Debug, Default)]
pub struct Arena(Bump);

impl Arena {
    /// An empty arena.
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets every text, keeping the memory for the next block.
    pub fn reset(&mut self) {
        self.0.reset();
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.0.allocated_bytes()
    }

    /// A copy of `text`.
    pub fn keep(&self, text: &str) -> &str {
        self.0.alloc_str(text)
    }

    /// `value` as text.
    pub fn display(&self, value: &dyn fmt::Display) -> &str {
        let mut short = Short { bytes: [0; 64], held: 0 };
        match write!(short, "{value}") {
            Ok(()) => self.text_of(&short.bytes[..short.held]),
            Err(_) => self.keep(&value.to_string()),
        }
    }

    fn text_of(&self, bytes: &[u8]) -> &str {
        let bytes = self.0.alloc_slice_copy(bytes);
        self.text(bytes)
    }

    /// `bytes` as text: as they are when they are UTF-8, else with U+FFFD for each maximal bad part.
    pub fn text<'a>(&'a self, bytes: &'a [u8]) -> &'a str {
        match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(_) => self.0.alloc_str(&String::from_utf8_lossy(bytes)),
        }
    }

    /// `text` with ASCII letters in lower case.
    pub fn lower<'a>(&'a self, text: &'a str) -> &'a str {
        if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            let copy = self.0.alloc_str(text);
            copy.make_ascii_lowercase();
            copy
        } else {
            text
        }
    }

    /// One layer of percent-encoding removed. What is no escape stays as it is; `+` is a plus.
    pub fn percent<'a>(&'a self, bytes: &'a [u8]) -> &'a [u8] {
        self.unescape(bytes, b'%', |rest| Some((hex_pair(rest.get(..2)?)?, 2)))
    }

    /// C-style escapes removed: `\xHH`, `\"`, `\\`. Any other backslash stays.
    pub fn backslash<'a>(&'a self, bytes: &'a [u8]) -> &'a [u8] {
        self.unescape(bytes, b'\\', |rest| match rest {
            [b'x' | b'X', high, low, ..] => Some((hex_pair(&[*high, *low])?, 3)),
            [byte @ (b'"' | b'\\'), ..] => Some((*byte, 1)),
            _ => None,
        })
    }

    /// As [`Arena::backslash`], and `\n`, `\r`, `\t` too.
    pub fn c_string<'a>(&'a self, bytes: &'a [u8]) -> &'a [u8] {
        self.unescape(bytes, b'\\', |rest| match rest {
            [b'x' | b'X', high, low, ..] => Some((hex_pair(&[*high, *low])?, 3)),
            [byte @ (b'"' | b'\\'), ..] => Some((*byte, 1)),
            [b'n', ..] => Some((b'\n', 1)),
            [b'r', ..] => Some((b'\r', 1)),
            [b't', ..] => Some((b'\t', 1)),
            _ => None,
        })
    }

    /// nginx's escapes removed, for text and for JSON, which can't be taken for one another: `\xHH`, and `\"`, `\\`,
    /// `\/`, `\b`, `\f`, `\n`, `\r`, `\t`, `\u00HH`.
    pub fn nginx<'a>(&'a self, bytes: &'a [u8]) -> &'a [u8] {
        self.unescape(bytes, b'\\', |rest| match rest {
            [b'x', high, low, ..] => Some((hex_pair(&[*high, *low])?, 3)),
            [b'u', b'0', b'0', high, low, ..] => Some((hex_pair(&[*high, *low])?, 5)),
            [letter, ..] => {
                let byte = match letter {
                    b'"' | b'\\' | b'/' => *letter,
                    b'b' => 8,
                    b'f' => 12,
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    _ => return None,
                };
                Some((byte, 1))
            }
            [] => None,
        })
    }

    /// HAProxy's escapes removed: `#HH`.
    pub fn hash<'a>(&'a self, bytes: &'a [u8]) -> &'a [u8] {
        self.unescape(bytes, b'#', |rest| Some((hex_pair(rest.get(..2)?)?, 2)))
    }

    /// Form encoding removed: `%HH`, and `+` for a blank.
    pub fn form<'a>(&'a self, bytes: &'a [u8]) -> &'a [u8] {
        if memchr::memchr(b'+', bytes).is_none() {
            return self.percent(bytes);
        }
        let copy = self.0.alloc_slice_copy(bytes);
        copy.iter_mut().filter(|byte| **byte == b'+').for_each(|byte| *byte = b' ');
        self.percent(copy)
    }

    /// Replaces each `mark` by the byte that `decode` makes of what follows it, skipping as much of that as it says.
    fn unescape<'a>(&'a self, bytes: &'a [u8], mark: u8, decode: impl Fn(&[u8]) -> Option<(u8, usize)>) -> &'a [u8] {
        let Some(first) = memchr::memchr(mark, bytes) else { return bytes };
        // Decoding never makes it longer.
        let out = self.0.alloc_slice_fill_copy(bytes.len(), 0_u8);
        out[..first].copy_from_slice(&bytes[..first]);
        let mut written = first;
        let mut rest = &bytes[first..];
        while let [byte, after @ ..] = rest {
            rest = after;
            let mut byte = *byte;
            if byte == mark
                && let Some((decoded, skip)) = decode(rest)
            {
                byte = decoded;
                rest = rest.get(skip..).unwrap_or_default();
            }
            out[written] = byte;
            written += 1;
        }
        &out[..written]
    }
}

/// A text that is being written, and doesn't become long: no allocation.
struct Short {
    bytes: [u8; 64],
    held: usize,
}

impl fmt::Write for Short {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.held + text.len();
        self.bytes.get_mut(self.held..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.held = end;
        Ok(())
    }
}

/// What each byte is worth as a hexadecimal digit; 16 and more: it is none.
const DIGITS: [u8; 256] = {
    let mut worth = [u8::MAX; 256];
    let mut digit = 0;
    while digit < 16 {
        worth[b"0123456789abcdef"[digit] as usize] = digit as u8;
        worth[b"0123456789ABCDEF"[digit] as usize] = digit as u8;
        digit += 1;
    }
    worth
};

fn hex_pair(pair: &[u8]) -> Option<u8> {
    let [high, low] = *pair else { return None };
    let (high, low) = (DIGITS[usize::from(high)], DIGITS[usize::from(low)]);
    (high | low < 16).then_some(high << 4 | low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_layer_of_percent_encoding_goes() {
        let arena = Arena::new();
        for (raw, decoded) in [
            ("plain+plus", "plain+plus"),
            ("%25E5%25A5", "%E5%A5"),
            ("a%20b%2", "a b%2"),
            ("%zz%", "%zz%"),
            ("%%41", "%A"),
            ("%e5%A5%bd", "好"),
        ] {
            assert_eq!(arena.text(arena.percent(raw.as_bytes())), decoded);
        }
    }

    #[test]
    fn c_escapes_go_and_lone_backslashes_stay() {
        let arena = Arena::new();
        for (raw, decoded) in [
            (r"\x22a\x5C\xE5\xA5\xBD", "\"a\\好"),
            (r#"10\" tab"#, "10\" tab"),
            (r"\q\x2\", r"\q\x2\"),
            (r"\\x41", r"\x41"),
        ] {
            assert_eq!(arena.text(arena.backslash(raw.as_bytes())), decoded);
        }
    }

    #[test]
    fn values_are_written_out_however_long() {
        let arena = Arena::new();
        assert_eq!(arena.display(&-17), "-17");
        assert_eq!(arena.display(&format_args!("{:.6}", 1_773_480_413.5)), "1773480413.500000");
        assert_eq!(arena.display(&"x".repeat(65)), "x".repeat(65));
    }

    #[test]
    fn other_writers_escapes_go() {
        let arena = Arena::new();
        assert_eq!(arena.text(arena.c_string(br#"a\tb\n\r\"\\ \xE5\xA5\xBD \q"#)), "a\tb\n\r\"\\ 好 \\q");
        assert_eq!(
            arena.text(arena.nginx(br#"\x22a\" \\ \/ \u0001\b\f\n\r\t \q \u1"#)),
            "\"a\" \\ / \u{1}\u{8}\u{c}\n\r\t \\q \\u1"
        );
        assert_eq!(arena.text(arena.hash(b"odd #22agent#22 #7B1#7D #E5#A5#BD #zz #")), "odd \"agent\" {1} 好 #zz #");
        assert_eq!(arena.text(arena.form(b"Mozilla%2F5.0+%28a%2Bb%29")), "Mozilla/5.0 (a+b)");
        assert_eq!(arena.text(arena.form(b"a%20b")), "a b");
    }

    #[test]
    fn each_maximal_bad_part_becomes_one_replacement() {
        let arena = Arena::new();
        assert_eq!(arena.text(b"caf\xe9 \xe5\xa5 \xff\xff"), "caf\u{fffd} \u{fffd} \u{fffd}\u{fffd}");
    }

    #[test]
    fn hosts_become_lower_case_without_a_copy_when_they_are() {
        let arena = Arena::new();
        assert_eq!(arena.lower("Go.Example.COM"), "go.example.com");
        let text = "go.example.com";
        assert!(std::ptr::eq(arena.lower(text), text));
    }
}
