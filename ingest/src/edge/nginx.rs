//! What nginx's formats share.

use super::judge::Outcome;

/// The values of `$upstream_cache_status`.
pub const CACHE_TOKENS: [&str; 7] = ["HIT", "MISS", "EXPIRED", "STALE", "UPDATING", "REVALIDATED", "BYPASS"];

/// How a request ended, by `$upstream_cache_status` and, where it is logged, `$upstream_status`. `None` is a layout
/// without that column; an empty text or a hyphen is a line without a value.
pub fn outcome(cache: Option<&str>, upstream_status: Option<&str>) -> Outcome {
    let asked = upstream_status.is_some_and(|status| !status.is_empty() && status != "-");
    match cache {
        Some("HIT" | "STALE" | "UPDATING") => Outcome::Edge,
        // No cache took part: proxied past it, or answered by nginx itself.
        Some("" | "-") if !asked => Outcome::EdgeMade,
        _ => Outcome::Origin,
    }
}

/// Whether `text` is a `$request_id` or an id of the same make: 32 hex digits, perhaps with hyphens.
pub fn is_request_id(text: &[u8]) -> bool {
    hex_digits(text) == Some(32)
}

/// Whether `text` is what is left of a `$request_id`: hex digits, but not 32. Such a line would count its request a
/// second time. Anything else that is well-formed is taken for an id of the operator's own.
pub fn is_cut_id(text: &[u8]) -> bool {
    hex_digits(text).is_some_and(|digits| digits != 32)
}

/// How many hex digits there are; `None` when there is anything else but hyphens.
fn hex_digits(text: &[u8]) -> Option<usize> {
    let digits = text.iter().filter(|byte| byte.is_ascii_hexdigit()).count();
    let hyphens = text.iter().filter(|byte| **byte == b'-').count();
    (digits + hyphens == text.len()).then_some(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_token_has_its_outcome() {
        for (cache, upstream, expected) in [
            (Some("HIT"), None, Outcome::Edge),
            (Some("STALE"), None, Outcome::Edge),
            (Some("UPDATING"), None, Outcome::Edge),
            (Some("MISS"), Some("302"), Outcome::Origin),
            (Some("EXPIRED"), None, Outcome::Origin),
            (Some("REVALIDATED"), Some("304"), Outcome::Origin),
            (Some("BYPASS"), None, Outcome::Origin),
            (Some(""), Some("302"), Outcome::Origin),
            (Some(""), Some(""), Outcome::EdgeMade),
            (Some("-"), Some("-"), Outcome::EdgeMade),
            (Some("-"), None, Outcome::EdgeMade),
            (None, None, Outcome::Origin),
            (None, Some(""), Outcome::Origin),
            (Some("NEW_TOKEN"), None, Outcome::Origin),
        ] {
            assert_eq!(outcome(cache, upstream), expected, "{cache:?} {upstream:?}");
        }
    }

    #[test]
    fn a_cut_id_is_told_from_an_id_of_ones_own() {
        for (id, is_theirs) in [
            ("87edc48b25ee78e474b46ddef4d1cff6", true),
            ("0adc04f6-1220-4695-a750-bfbf91310fa4", true),
            ("req_0001", false),
            ("unix:/run/app/a-path-that-is-rather-long.sock", false),
        ] {
            assert!(!is_cut_id(id.as_bytes()), "{id}");
            assert_eq!(is_request_id(id.as_bytes()), is_theirs, "{id}");
        }
        for id in ["87edc48b25ee78e474b46ddef4d1cff", "0adc04f6-1220-", "8", ""] {
            assert!(is_cut_id(id.as_bytes()) && !is_request_id(id.as_bytes()), "{id}");
        }
    }
}
