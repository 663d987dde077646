//! Request lines and targets: what was asked for, and the code in it, read as the redirect reads it (interface §2).

use schemas::Method;

use super::arena::Arena;

/// The method of a request, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// GET or HEAD.
    Known(Method),
    /// Any other.
    Other,
    /// The log has no methods.
    Unlogged,
}

impl Verb {
    /// Reads a method; `None` when it can't be one.
    pub fn read(text: &[u8]) -> Option<Self> {
        match text {
            b"GET" => Some(Self::Known(Method::Get)),
            b"HEAD" => Some(Self::Known(Method::Head)),
            _ if text.is_empty() || text.len() > 32 => None,
            _ if text.iter().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte)) => {
                // A lone hyphen stands for a missing value.
                (text != b"-").then_some(Self::Other)
            }
            _ => None,
        }
    }
}

/// A target taken apart, as on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    /// The path, beginning with a slash wherever it is one.
    pub path: &'a [u8],
    /// The query without `?`; empty when there is none.
    pub query: &'a [u8],
}

/// Takes a target apart: scheme, authority and fragment are left out.
pub fn split(target: &[u8]) -> Target<'_> {
    let target = path_onwards(without_fragment(target));
    match memchr::memchr(b'?', target) {
        Some(mark) => Target { path: &target[..mark], query: &target[mark + 1..] },
        None => Target { path: target, query: b"" },
    }
}

/// The path with its first slash, where a log leaves that out; an absolute URL, and nothing at all, as they are.
pub fn rooted<'a>(path: &'a str, arena: &'a Arena) -> &'a str {
    match path {
        "" => "",
        rooted if rooted.starts_with('/') || absolute(rooted.as_bytes()).is_some() => rooted,
        bare => arena.display(&format_args!("/{bare}")),
    }
}

/// Takes a request line apart: the method up to the first blank, the protocol from the last one on. Blanks in
/// between belong to the target, and a line may lack its protocol.
pub fn request_line(line: &[u8]) -> Option<(Verb, Target<'_>)> {
    let blank = memchr::memchr(b' ', line)?;
    let verb = Verb::read(&line[..blank])?;
    let rest = &line[blank + 1..];
    let target = match memchr::memrchr(b' ', rest) {
        Some(last) if rest[last + 1..].starts_with(b"HTTP") => &rest[..last],
        _ => rest,
    };
    Some((verb, split(target)))
}

/// What the redirect looks up for a path: without the first and one last slash, percent-decoded. The same as
/// [`schemas::code::from_path`] where that finds a code; else a text that shows what was asked for.
pub fn code<'a>(path: &'a [u8], arena: &'a Arena) -> &'a str {
    let path = path.strip_prefix(b"/").unwrap_or(path);
    let path = path.strip_suffix(b"/").unwrap_or(path);
    arena.text(arena.percent(path))
}

/// `target` without `#…`: a server never looks at it.
pub fn without_fragment(target: &[u8]) -> &[u8] {
    memchr::memchr(b'#', target).map_or(target, |mark| &target[..mark])
}

/// The host of an absolute target; empty when it is none. Without user, brackets and a port that its scheme implies,
/// so that it is as a `Host` header would have it.
pub fn host(target: &[u8]) -> &[u8] {
    let Some((authority, _)) = absolute(target) else { return b"" };
    let authority = memchr::memrchr(b'@', authority).map_or(authority, |at| &authority[at + 1..]);
    let name = [&b":80"[..], b":443"].iter().find_map(|port| authority.strip_suffix(*port)).unwrap_or(authority);
    // An IPv6 address may end like a port; one with a port has brackets.
    let name = if name.contains(&b':') && !name.ends_with(b"]") { authority } else { name };
    name.strip_prefix(b"[").and_then(|inner| inner.strip_suffix(b"]")).unwrap_or(name)
}

/// An absolute target from its path on.
fn path_onwards(target: &[u8]) -> &[u8] {
    match absolute(target) {
        None => target,
        Some((_, rest)) if rest.first() == Some(&b'/') => rest,
        Some(_) => b"/",
    }
}

/// Authority and rest of a target that begins with a scheme.
fn absolute(target: &[u8]) -> Option<(&[u8], &[u8])> {
    if target.first() == Some(&b'/') {
        return None;
    }
    let colon = memchr::memmem::find(target, b"://")?;
    if !target[..colon].iter().all(u8::is_ascii_alphabetic) {
        return None;
    }
    let rest = &target[colon + 3..];
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#')).unwrap_or(rest.len());
    Some(rest.split_at(end))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn target(line: &str) -> Option<(Verb, String, String)> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        request_line(line.as_bytes()).map(|(verb, target)| (verb, text(target.path), text(target.query)))
    }

    #[test]
    fn request_lines_come_apart() {
        let get = Verb::Known(Method::Get);
        for (line, verb, path, query) in [
            ("GET /k7Qp2 HTTP/2.0", get, "/k7Qp2", ""),
            ("HEAD /k7Qp2?s=1 HTTP/1.1", Verb::Known(Method::Head), "/k7Qp2", "s=1"),
            ("GET /a b HTTP/1.1", get, "/a b", ""),
            ("GET /long", get, "/long", ""),
            ("GET /long HTTP", get, "/long", ""),
            ("GET http://go.example.com:80/k?a=/b HTTP/1.1", get, "/k", "a=/b"),
            ("GET http://go.example.com HTTP/1.1", get, "/", ""),
            ("GET /k?u=http://x/y#part HTTP/1.1", get, "/k", "u=http://x/y"),
            ("OPTIONS * HTTP/1.1", Verb::Other, "*", ""),
        ] {
            assert_eq!(target(line), Some((verb, path.to_owned(), query.to_owned())), "{line}");
        }
        for line in ["", "GET", "\u{16}\u{3}\u{1} x", "- /k HTTP/1.1", " /k"] {
            assert_eq!(target(line), None, "{line:?}");
        }
    }

    #[test]
    fn a_first_slash_that_is_left_out_is_put_back() {
        let arena = Arena::new();
        for (path, expected) in [
            ("hello", "/hello"),
            ("/hello", "/hello"),
            ("hello?u=http://x/y", "/hello?u=http://x/y"),
            ("https://go.example.com/hello", "https://go.example.com/hello"),
            ("", ""),
        ] {
            assert_eq!(rooted(path, &arena), expected);
        }
    }

    #[test]
    fn an_absolute_target_names_its_host() {
        for (target, expected) in [
            ("https://go.example.com/k7Qp2", "go.example.com"),
            ("https://go.example.com:443/k7Qp2", "go.example.com"),
            ("http://go.example.com:80", "go.example.com"),
            ("http://localhost:8080/k", "localhost:8080"),
            ("https://jo@go.example.com/k@x", "go.example.com"),
            ("https://[2001:db8::80]:443/k7Qp2", "2001:db8::80"),
            ("https://[2001:db8::80]/k7Qp2", "2001:db8::80"),
            ("https://[2001:db8::80]:8443/k7Qp2", "[2001:db8::80]:8443"),
            ("https://2001:db8::80/k", "2001:db8::80"),
            ("http://go.example.com?u=http://x.example/", "go.example.com"),
            ("/k?u=http://x.example/", ""),
            ("go.example.com/k", ""),
            ("a/b://c", ""),
        ] {
            assert_eq!(String::from_utf8_lossy(host(target.as_bytes())), expected, "{target}");
        }
    }

    #[test]
    fn what_is_no_code_is_shown_as_it_was_asked_for() {
        let arena = Arena::new();
        for (path, expected) in [
            ("/k7Qp2//", "k7Qp2/"),
            ("//k7Qp2", "/k7Qp2"),
            ("/a%2Cb+c", "a,b+c"),
            ("/a b", "a b"),
            ("/a/b", "a/b"),
            ("/", ""),
            ("/%ff", "\u{fffd}"),
            ("/%", "%"),
        ] {
            assert_eq!(code(path.as_bytes(), &arena), expected);
            assert_eq!(schemas::code::from_path(path), None);
        }
    }

    proptest! {
        #[test]
        fn codes_are_read_as_the_redirect_reads_them(path in "/([A-Za-z0-9_é好-]|%[0-9a-fA-F]{2}|%C3%A9|[/%.]){0,12}/?") {
            let arena = Arena::new();
            let code = code(path.as_bytes(), &arena);
            match schemas::code::from_path(&path) {
                Some(expected) => prop_assert_eq!(code, &*expected),
                None => prop_assert!(!schemas::code::is_code(code) || code.contains(char::REPLACEMENT_CHARACTER)),
            }
        }
    }
}
