//! The combined log format, as several servers write it: a line up to the agent, and what stands behind it.
//!
//! ```text
//! address - user [time] "request" status bytes "referrer" "agent" …columns of the operator's own…
//! ```
//! What the columns behind the agent are is told by a file's first lines: a [`Survey`] counts, column by column, what
//! its values look like. The same survey tells nginx from Varnish, so that no file is taken for both.

use std::net::IpAddr;

use schemas::UtcMicros;

use super::address::address;
use super::clock;
use super::format::Sample;
use super::nginx;
use super::request::Reject;

/// Columns looked at behind the agent.
const TAIL: usize = 12;

/// The values of `%{Varnish:handling}x`.
pub(super) const HANDLING: [&str; 8] = ["hit", "streaming-hit", "miss", "hitmiss", "hitpass", "pass", "pipe", "synth"];

/// A line taken apart, values still escaped.
pub(super) struct Parts<'a> {
    pub(super) address: Option<IpAddr>,
    pub(super) time: UtcMicros,
    pub(super) request: &'a [u8],
    pub(super) status: u16,
    pub(super) referrer: &'a [u8],
    pub(super) agent: &'a [u8],
    /// What stands behind the agent.
    pub(super) tail: &'a [u8],
}

/// What a value behind the agent may look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A word of `$upstream_cache_status`.
    NginxCache,
    /// A word of `%{Varnish:handling}x`.
    Handling,
    /// 32 hex digits.
    RequestId,
    /// Nothing.
    Hyphen,
    /// A word of `%{Varnish:side}x`.
    Side,
    /// Something between quotes.
    Quoted,
}

/// What the first lines of a file say of its layout.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// Lines that are combined.
    pub(super) lines: usize,
    /// Of those, request lines that hold a whole URL.
    pub(super) whole_urls: usize,
    /// Of those, lines with two bare columns or more behind the agent.
    words: usize,
    counts: [[usize; TAIL]; 6],
}

impl Survey {
    pub(super) fn of(sample: &Sample<'_>) -> Self {
        let mut survey = Self::default();
        for parts in sample.lines.iter().filter_map(|line| parts(line).ok()) {
            survey.take(&parts);
        }
        survey
    }

    fn take(&mut self, parts: &Parts<'_>) {
        self.lines += 1;
        self.whole_urls += usize::from(memchr::memmem::find(parts.request, b" http").is_some());
        let mut count = 0;
        for (place, (value, is_quoted)) in columns(parts.tail).take(TAIL).enumerate() {
            let is_one_of = |words: &[&str]| words.iter().any(|word| word.as_bytes() == value);
            for (kind, is) in [
                (Kind::NginxCache, is_one_of(&nginx::CACHE_TOKENS)),
                (Kind::Handling, is_one_of(&HANDLING)),
                (Kind::RequestId, nginx::is_request_id(value)),
                (Kind::Hyphen, value == b"-"),
                (Kind::Side, matches!(value, b"c" | b"b")),
                (Kind::Quoted, is_quoted && value.len() > 1),
            ] {
                self.counts[kind as usize][place] += usize::from(is);
            }
            count += 1;
        }
        self.words += usize::from(count >= 2 && !parts.tail.contains(&b'"'));
    }

    /// Whether the lines are Varnish's: it writes whole URLs, and has words of its own.
    pub(super) fn is_varnish(&self) -> bool {
        let has_its_words = self.most(Kind::Handling).is_some() && self.most(Kind::NginxCache).is_none();
        self.whole_urls * 2 > self.lines || has_its_words
    }

    /// How often the values of a column look so.
    pub(super) fn count(&self, kind: Kind, place: usize) -> usize {
        self.counts[kind as usize].get(place).copied().unwrap_or_default()
    }

    /// The column whose values look so most often, the first of several; `None` when none do.
    pub(super) fn most(&self, kind: Kind) -> Option<usize> {
        let counts = self.counts[kind as usize];
        (0..TAIL).rev().max_by_key(|place| counts[*place]).filter(|place| counts[*place] > 0)
    }

    /// Whether values in any column behind this one look so.
    pub(super) fn any_after(&self, kind: Kind, place: usize) -> bool {
        self.counts[kind as usize][place + 1..].iter().any(|count| *count > 0)
    }

    /// Whether most lines have two bare columns or more, or there is none to tell.
    pub(super) fn mostly_two_words(&self) -> bool {
        self.words * 2 >= self.lines
    }
}

/// Takes a line apart up to the agent.
pub(super) fn parts(line: &[u8]) -> Result<Parts<'_>, Reject> {
    // The user may hold blanks and brackets but no quote: the first one opens the request.
    let quote = memchr::memchr(b'"', line).ok_or(Reject::BAD_LINE)?;
    let before = line[..quote].strip_suffix(b"] ").ok_or(Reject::BAD_LINE)?;
    let bracket = before.len().checked_sub(27).filter(|at| before[*at] == b'[').ok_or(Reject::BAD_TIMESTAMP)?;
    let time = clock::common_log(&before[bracket + 1..]).ok_or(Reject::BAD_TIMESTAMP)?;
    let blank = memchr::memchr(b' ', before).ok_or(Reject::BAD_LINE)?;
    let (request, rest) = quoted(&line[quote..])?;
    let rest = rest.strip_prefix(b" ").ok_or(Reject::CUT_SHORT)?;
    let (status, rest) = word(rest)?;
    let (_bytes, rest) = word(rest)?;
    let (referrer, rest) = quoted(rest)?;
    let (agent, tail) = quoted(rest.strip_prefix(b" ").ok_or(Reject::CUT_SHORT)?)?;
    let status = match status {
        // there was no answer
        b"-" => 0,
        _ => std::str::from_utf8(status).ok().and_then(|status| status.parse().ok()).ok_or(Reject::BAD_STATUS)?,
    };
    Ok(Parts { address: address(&before[..blank]), time, request, status, referrer, agent, tail })
}

/// A quoted value, still escaped, and what follows its closing quote. A backslash takes the next byte with it.
pub(super) fn quoted(text: &[u8]) -> Result<(&[u8], &[u8]), Reject> {
    let inner = match text {
        [b'"', inner @ ..] => inner,
        [] => return Err(Reject::CUT_SHORT),
        _ => return Err(Reject::BAD_LINE),
    };
    let mut from = 0;
    loop {
        let at = from + memchr::memchr2(b'"', b'\\', inner.get(from..).unwrap_or_default()).ok_or(Reject::CUT_SHORT)?;
        if inner[at] == b'"' {
            return Ok((&inner[..at], &inner[at + 1..]));
        }
        from = at + 2;
    }
}

/// A bare value and what follows its blank.
pub(super) fn word(text: &[u8]) -> Result<(&[u8], &[u8]), Reject> {
    let blank = memchr::memchr(b' ', text).ok_or(Reject::CUT_SHORT)?;
    Ok((&text[..blank], &text[blank + 1..]))
}

/// The columns behind the agent.
pub(super) fn tail(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    columns(text).map(|(value, _)| value)
}

/// The columns behind the agent, and whether each is quoted. One whose closing quote is cut off is none.
fn columns(text: &[u8]) -> impl Iterator<Item = (&[u8], bool)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_ascii_start();
        let is_quoted = rest.first() == Some(&b'"');
        let (value, after) = match is_quoted {
            _ if rest.is_empty() => return None,
            true => quoted(rest).ok()?,
            false => word(rest).unwrap_or((rest, b"")),
        };
        rest = after;
        Some((value, is_quoted))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: &str = r#"203.0.113.10 - - [14/Mar/2026:09:26:53 +0000] "GET /k HTTP/1.1" 302 - "-" "a""#;

    fn survey(tails: &[&str]) -> Survey {
        let file: String = tails.iter().map(|tail| format!("{START}{tail}\n")).collect();
        Survey::of(&Sample::of(file.as_bytes()))
    }

    #[test]
    fn columns_are_told_by_what_they_mostly_hold() {
        let id = "2ceb65d3ed0c5af6e38ef489d8072a59";
        let seen = survey(&[&format!(" hit 3 \"{id}\""), &format!(" miss 7 \"{id}\" c"), " - - \"-\" hit"]);
        assert_eq!((seen.most(Kind::Handling), seen.most(Kind::RequestId)), (Some(0), Some(2)));
        assert_eq!((seen.most(Kind::NginxCache), seen.most(Kind::Side)), (None, Some(3)));
        assert_eq!((seen.count(Kind::Hyphen, 1), seen.count(Kind::Hyphen, TAIL)), (1, 0));
        assert!(seen.any_after(Kind::Hyphen, 1) && !seen.any_after(Kind::Hyphen, 2));
    }

    #[test]
    fn varnish_is_told_by_whole_urls_or_its_words() {
        assert!(survey(&[" hit 3"]).is_varnish());
        assert!(!survey(&[" HIT x"]).is_varnish());
        assert!(!survey(&[""]).is_varnish());
        assert!(!survey(&[" MISS hit"]).is_varnish(), "some column of nginx may hold any word");
        let whole = START.replace("/k ", "http://go.example.com/k ");
        assert!(Survey::of(&Sample::of(whole.as_bytes())).is_varnish());
    }
}
