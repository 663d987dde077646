//! What may have been meant by a word that isn't known: the nearest known one, if it is near at all.

use datafusion::common::utils::datafusion_strsim::normalized_levenshtein as likeness;

/// Words less alike than this (0: nothing in common, 1: the same) are proposed to nobody.
const NEAR: f64 = 0.6;
/// A longer word isn't compared: it is nobody's slip.
const LONGEST: usize = 64;

/// The known word that is so like `word`, in whatever case, that it may have been meant.
pub(crate) fn near<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > LONGEST {
        return None;
    }
    let lower = word.to_lowercase();
    let scored = known.map(|name| (likeness(&lower, &name.to_lowercase()), name));
    scored.filter(|(score, _)| *score >= NEAR).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, name)| name)
}

/// The end of a message: what may have been meant, if something may.
pub(crate) fn did_you_mean(near: Option<&str>) -> String {
    near.map(|name| format!("; did you mean {name}?")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_near_is_proposed() {
        let zones = || ["Europe/Berlin", "Europe/Dublin", "UTC"].into_iter();
        assert_eq!(near("Europe/Berln", zones()), Some("Europe/Berlin"));
        assert_eq!(near("europe/dublin", zones()), Some("Europe/Dublin"));
        assert_eq!(near("Mars", zones()), None);
        assert_eq!(near(&"Europe/Berlin".repeat(9), zones()), None);
        assert_eq!((did_you_mean(None), did_you_mean(Some("a"))), (String::new(), "; did you mean a?".to_owned()));
    }
}
