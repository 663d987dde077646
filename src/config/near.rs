//! What may have been meant by a name that isn't known: the nearest known one, if it is near at all.

use strsim::normalized_damerau_levenshtein as likeness;

/// Names less alike than this (0: nothing in common, 1: the same) are proposed to nobody.
const NEAR: f64 = 0.6;

/// The name that is so like `word` that it may have been meant, in any case; none when all are far from it.
pub(crate) fn near<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let lower = word.to_lowercase();
    best(known, |name| likeness(&lower, &name.to_lowercase()))
}

/// The dotted key that is so like `key` that it may have been meant. A right name in a wrong section is nearer than a wrong
/// name in the right one.
pub(super) fn near_key<'a>(key: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
    best(known, |path| likeness(key, path).max(likeness(&last(key), &last(path)) - 0.05))
}

/// The end of a message: what may have been meant, if something may.
pub(super) fn did_you_mean(near: Option<impl std::fmt::Display>) -> String {
    near.map(|name| format!("; did you mean {name}?")).unwrap_or_default()
}

fn best<'a>(known: impl Iterator<Item = &'a str>, score: impl Fn(&str) -> f64) -> Option<&'a str> {
    let scored = known.map(|name| (score(name), name)).filter(|(score, _)| *score >= NEAR);
    scored.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_near_is_proposed() {
        let keys = || ["edge_logs.poll", "edge.skew", "redirect.cache_ttl", "redirect.max_age"].into_iter();
        assert_eq!(near_key("edge.cache_ttl", keys()), Some("redirect.cache_ttl"));
        assert_eq!(near_key("redirect.maxage", keys()), Some("redirect.max_age"));
        assert_eq!(near_key("foo", keys()), None);
        assert_eq!(near("Cache_TTL", ["cache_ttl"].into_iter()), Some("cache_ttl"));
        assert_eq!(did_you_mean(near("foo", keys())), "");
        assert_eq!(did_you_mean(Some("a")), "; did you mean a?");
    }
}
