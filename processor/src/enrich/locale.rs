//! Language and country of a client, as far as the request says.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;
use schemas::event::cut;

use super::short::Short;

/// The longest name of a place that is kept, in bytes.
const MAX_NAME_BYTES: usize = 128;
/// What edges and logs write where they don't know a place.
const UNKNOWN: [&str; 7] = ["-", "?", "xx", "zz", "n/a", "null", "unknown"];

/// ISO 3166-1 alpha-2, and Kosovo's XK, which edges and geography databases use.
const COUNTRIES: &str = "ADAEAFAGAIALAMAOAQARASATAUAWAXAZBABBBDBEBFBGBHBIBJBLBMBNBOBQBRBSBTBVBWBYBZCACCCDCFCGCHCICKCLCM\
CNCOCRCUCVCWCXCYCZDEDJDKDMDODZECEEEGEHERESETFIFJFKFMFOFRGAGBGDGEGFGGGHGIGLGMGNGPGQGRGSGTGUGWGYHKHMHNHRHTHUIDIEILIMINIO\
IQIRISITJEJMJOJPKEKGKHKIKMKNKPKRKWKYKZLALBLCLILKLRLSLTLULVLYMAMCMDMEMFMGMHMKMLMMMNMOMPMQMRMSMTMUMVMWMXMYMZNANCNENFNGNI\
NLNONPNRNUNZOMPAPEPFPGPHPKPLPMPNPRPSPTPWPYQARERORSRURWSASBSCSDSESGSHSISJSKSLSMSNSOSRSSSTSVSXSYSZTCTDTFTGTHTJTKTLTMTNTO\
TRTTTVTWTZUAUGUMUSUYUZVAVCVEVGVIVNVUWFWSXKYEYTZAZMZW";

/// [`COUNTRIES`] by their first letters: a bit for each second letter.
const KNOWN: [u32; 26] = {
    let (countries, mut known, mut at) = (COUNTRIES.as_bytes(), [0; 26], 0);
    while at < countries.len() {
        known[letter(countries[at])] |= 1 << letter(countries[at + 1]);
        at += 2;
    }
    known
};

/// The number of a letter of either case; anything below 32 for what is none.
const fn letter(byte: u8) -> usize {
    (byte.to_ascii_uppercase().wrapping_sub(b'A') & 31) as usize
}

/// A country's code in upper case; `None` for what is none, such as an edge's `XX` (unknown) and `T1` (Tor).
pub(crate) fn country(text: &str) -> Option<Short> {
    let &[a, b] = text.trim().as_bytes() else { return None };
    let code = [a.to_ascii_uppercase(), b.to_ascii_uppercase()];
    let known = code.iter().all(u8::is_ascii_uppercase) && KNOWN[letter(a)] >> letter(b) & 1 == 1;
    let mut short = Short::EMPTY;
    code.into_iter().for_each(|byte| short.push(byte));
    known.then_some(short)
}

/// A region within `country`, by its code or name. Of a code with its country's in front (`NL-NH` of ISO 3166-2, `USCA`
/// of Unicode) only the region's own part is left, so that all who tell a code tell the same.
pub(crate) fn region<'a>(text: &'a str, country: &str) -> Option<Cow<'a, str>> {
    let name = name(text)?;
    let own = name.get(..country.len()).filter(|start| !country.is_empty() && start.eq_ignore_ascii_case(country));
    let rest = own.map(|start| &name[start.len()..]);
    // a region's own code has three letters at most
    let is_code = |code: &str| {
        (2..=3).contains(&code.len()) && code.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit())
    };
    let from = match rest {
        Some(rest) if rest.starts_with('-') && rest.len() > 1 => country.len() + 1,
        Some(rest) if is_code(rest) => country.len(),
        _ => return Some(name),
    };
    Some(match name {
        Cow::Borrowed(text) => Cow::Borrowed(&text[from..]),
        Cow::Owned(text) => Cow::Owned(text[from..].to_owned()),
    })
}

/// The name of a city.
pub(crate) fn city(text: &str) -> Option<Cow<'_, str>> {
    name(text)
}

/// A place's name in plain text: percent-encoding undone, as edges put it into headers; `None` where it says that the
/// place isn't known.
fn name(text: &str) -> Option<Cow<'_, str>> {
    let text = cut(text.trim(), 3 * MAX_NAME_BYTES + 3);
    let plain = if text.contains('%') { percent_decode_str(text).decode_utf8_lossy() } else { Cow::Borrowed(text) };
    let plain = match plain.chars().any(char::is_control) {
        true => Cow::Owned(plain.chars().filter(|c| !c.is_control()).collect::<String>()),
        false => plain,
    };
    let kept = match plain {
        Cow::Borrowed(text) => Cow::Borrowed(cut(text.trim(), MAX_NAME_BYTES)),
        Cow::Owned(text) => Cow::Owned(cut(text.trim(), MAX_NAME_BYTES).to_owned()),
    };
    (!kept.is_empty() && !UNKNOWN.iter().any(|word| kept.eq_ignore_ascii_case(word))).then_some(kept)
}

/// The first language that a client asks for, as `ll`, `ll-RR` or `ll-Ssss-RR`: BCP 47 without variants and extensions,
/// in its usual case. The order counts, not the weights: browsers send them in order.
pub(super) fn language(accept: &str) -> Option<Short> {
    accept.split(',').find_map(|range| tag(range.split(';').next().unwrap_or_default().trim()))
}

fn tag(text: &str) -> Option<Short> {
    let mut parts = text.split(['-', '_']);
    let language = parts.next().filter(|part| (2..=3).contains(&part.len()) && all_letters(part))?;
    let mut short = Short::EMPTY;
    language.bytes().for_each(|byte| short.push(byte.to_ascii_lowercase()));
    let mut next = parts.next();
    if let Some(script) = next.filter(|part| part.len() == 4 && all_letters(part)) {
        short.push(b'-');
        let (first, rest) = script.as_bytes().split_at(1);
        first.iter().for_each(|byte| short.push(byte.to_ascii_uppercase()));
        rest.iter().for_each(|byte| short.push(byte.to_ascii_lowercase()));
        next = parts.next();
    }
    if let Some(region) = next.filter(|part| is_region(part)) {
        short.push(b'-');
        region.bytes().for_each(|byte| short.push(byte.to_ascii_uppercase()));
    }
    Some(short)
}

fn is_region(part: &str) -> bool {
    (part.len() == 2 && all_letters(part)) || (part.len() == 3 && part.bytes().all(|b| b.is_ascii_digit()))
}

fn all_letters(part: &str) -> bool {
    part.bytes().all(|b| b.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn countries_are_codes_that_exist() {
        for (text, expected) in [
            ("NL", Some("NL")),
            ("de", Some("DE")),
            (" us ", Some("US")),
            ("XK", Some("XK")),
            ("XX", None),
            ("T1", None),
            ("ZZ", None),
            ("-", None),
            ("", None),
            ("NLD", None),
            ("é", None),
        ] {
            assert_eq!(country(text).as_deref(), expected, "{text}");
        }
        assert_eq!(COUNTRIES.len(), 2 * 250);
        let codes: Vec<&[u8]> = COUNTRIES.as_bytes().chunks_exact(2).collect();
        assert!(codes.is_sorted() && codes.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn regions_are_told_alike_whoever_tells_them() {
        for (text, of, expected) in [
            ("NH", "NL", Some("NH")),
            ("NL-NH", "NL", Some("NH")),
            ("nl-NH", "NL", Some("NH")),
            ("USCA", "US", Some("CA")),
            ("COR", "CO", Some("COR")),
            ("CO-COR", "CO", Some("COR")),
            ("US-", "US", Some("US-")),
            ("North Holland", "NL", Some("North Holland")),
            ("Bern", "BE", Some("Bern")),
            ("GB-ENG", "", Some("GB-ENG")),
            ("%C3%8Ele-de-France", "FR", Some("Île-de-France")),
            ("é", "NL", Some("é")),
            ("-", "NL", None),
            ("", "NL", None),
        ] {
            assert_eq!(region(text, of).as_deref(), expected, "{text} of {of}");
        }
    }

    #[test]
    fn cities_are_plain_bounded_text_or_none() {
        for (text, expected) in [
            ("Amsterdam", Some("Amsterdam")),
            (" S%C3%A3o Paulo ", Some("São Paulo")),
            ("100%", Some("100%")),
            ("a%00%0Ab", Some("ab")),
            ("?", None),
            ("Unknown", None),
            ("%20", None),
        ] {
            assert_eq!(city(text).as_deref(), expected, "{text}");
        }
        assert_eq!(city(&"é".repeat(500)).map(|city| city.len()), Some(MAX_NAME_BYTES));
    }

    #[test]
    fn the_first_language_in_its_usual_case() {
        for (accept, expected) in [
            ("en-US,en;q=0.9", Some("en-US")),
            ("de", Some("de")),
            ("PT-br;q=0.8, en", Some("pt-BR")),
            ("zh-hant-TW", Some("zh-Hant-TW")),
            ("zh-Hans", Some("zh-Hans")),
            ("es-419", Some("es-419")),
            ("en_GB", Some("en-GB")),
            ("fil-PH", Some("fil-PH")),
            ("de-DE-1996", Some("de-DE")),
            ("sl-rozaj", Some("sl")),
            ("*, fr;q=0.5", Some("fr")),
            ("*", None),
            ("", None),
            ("-", None),
            ("x", None),
            ("i-klingon", None),
            ("e\u{301}n", None),
        ] {
            assert_eq!(language(accept).as_deref(), expected, "{accept}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_header_gives_a_tag_or_none(accept in "\\PC{0,40}") {
            if let Some(tag) = language(&accept) {
                proptest::prop_assert!(tag.is_ascii() && (2..="lll-Ssss-rrr".len()).contains(&tag.len()));
            }
        }
    }
}
