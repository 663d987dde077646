//! Campaign parameters of a query string.

use std::borrow::Cow;
use std::sync::Arc;

use percent_encoding::percent_decode;
use schemas::click::Utm;
use schemas::event::cut;
use schemas::privacy::{UTM_NAMES as NAMES, UTM_PREFIX as PREFIX};

/// The longest value that is kept, in bytes.
const MAX_VALUE_BYTES: usize = 256;

/// The parameters of a query, without `?`, in the order of [`Utm`]: the first that has a value counts. `None` when
/// there is none at all.
pub(super) fn of_query(query: &str) -> Option<[Option<Cow<'_, str>>; 5]> {
    if query.len() < PREFIX.len() {
        return None;
    }
    let mut found: [Option<Cow<'_, str>>; 5] = [None, None, None, None, None];
    let mut any = false;
    for pair in query.split('&') {
        let Some(head) = pair.get(..PREFIX.len()) else { continue };
        if !head.eq_ignore_ascii_case(PREFIX) {
            continue;
        }
        let Some((name, value)) = pair[PREFIX.len()..].split_once('=') else { continue };
        let Some(place) = NAMES.iter().position(|known| known.eq_ignore_ascii_case(name)) else { continue };
        if found[place].is_none() {
            found[place] = decoded(value);
            any |= found[place].is_some();
        }
    }
    any.then_some(found)
}

/// The parameters of a link's destination.
pub(super) fn of_destination(destination: &str) -> Utm {
    let before_fragment = destination.split('#').next().unwrap_or_default();
    let Some((_, query)) = before_fragment.split_once('?') else { return Utm::default() };
    let Some(found) = of_query(query) else { return Utm::default() };
    let [source, medium, campaign, term, content] = found.map(|value| value.map(Arc::<str>::from));
    Utm { source, medium, campaign, term, content }
}

/// A value in plain text: form encoding undone, no control bytes, not too long; `None` when nothing is left.
fn decoded(value: &str) -> Option<Cow<'_, str>> {
    // three encoded bytes a byte at most: what is behind that can't be kept
    let value = cut(value, 3 * MAX_VALUE_BYTES + 3);
    let plain = if value.contains(['%', '+']) {
        let spaced = value.replace('+', " ");
        Cow::Owned(percent_decode(spaced.as_bytes()).decode_utf8_lossy().into_owned())
    } else {
        Cow::Borrowed(value)
    };
    let plain = if plain.chars().any(char::is_control) {
        Cow::Owned(plain.chars().filter(|c| !c.is_control()).collect())
    } else {
        plain
    };
    let kept = match plain {
        Cow::Borrowed(text) => Cow::Borrowed(cut(text.trim(), MAX_VALUE_BYTES)),
        Cow::Owned(text) => Cow::Owned(cut(text.trim(), MAX_VALUE_BYTES).to_owned()),
    };
    (!kept.is_empty()).then_some(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(query: &str) -> Vec<Option<String>> {
        of_query(query).map(|found| found.map(|value| value.map(Cow::into_owned)).to_vec()).unwrap_or_default()
    }

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn parameters_are_found_wherever_they_stand() {
        assert_eq!(
            of("x=1&utm_source=news&utm_medium=email&utm_campaign=spring&utm_term=t&utm_content=c&y"),
            [some("news"), some("email"), some("spring"), some("t"), some("c")]
        );
        assert_eq!(of("UTM_Source=A"), [some("A"), None, None, None, None]);
        assert_eq!(of("utm_source=&utm_source=b&utm_source=c")[0], some("b"), "the first with a value");
        for none in ["", "a=b", "utm_", "utm_source", "utm_source=", "utm_other=1", "xutm_source=1", "é=1"] {
            assert!(of(none).is_empty(), "{none}");
        }
    }

    #[test]
    fn values_are_decoded_and_bounded() {
        assert_eq!(of("utm_campaign=spring+sale%21")[2], some("spring sale!"));
        assert_eq!(of("utm_source=%E2%82%AC")[0], some("€"));
        assert_eq!(of("utm_source=a%2Bb")[0], some("a+b"));
        assert_eq!(of("utm_source=%ff")[0], some("\u{fffd}"));
        assert_eq!(of("utm_source=100%")[0], some("100%"));
        assert_eq!(of("utm_source=a%00%0Ab")[0], some("ab"));
        assert_eq!(of("utm_source=++"), Vec::<Option<String>>::new());
        let long = of(&format!("utm_source={}", "%E2%82%AC".repeat(400)));
        assert_eq!(long[0].as_ref().map(String::len), Some(255), "cut at a character");
    }

    #[test]
    fn a_destinations_fragment_is_no_query() {
        let utm = of_destination("https://example.com/p?utm_source=a&x#?utm_medium=b");
        assert_eq!((utm.source.as_deref(), utm.medium.as_deref()), (Some("a"), None));
        assert_eq!(of_destination("https://example.com/#?utm_source=a"), Utm::default());
    }

    proptest::proptest! {
        #[test]
        fn any_query_is_taken(query in "(utm_source=|&|%|[a-z%+=0-9é]){0,40}") {
            for value in of_query(&query).into_iter().flatten().flatten() {
                proptest::prop_assert!(!value.is_empty() && value.len() <= MAX_VALUE_BYTES);
            }
        }
    }
}
