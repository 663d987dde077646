//! Language and country of a client, as far as the request says.

use super::short::Short;

/// ISO 3166-1 alpha-2, and Kosovo's XK, which edges and geography databases use.
const COUNTRIES: &str = "ADAEAFAGAIALAMAOAQARASATAUAWAXAZBABBBDBEBFBGBHBIBJBLBMBNBOBQBRBSBTBVBWBYBZCACCCDCFCGCHCICKCLCM\
CNCOCRCUCVCWCXCYCZDEDJDKDMDODZECEEEGEHERESETFIFJFKFMFOFRGAGBGDGEGFGGGHGIGLGMGNGPGQGRGSGTGUGWGYHKHMHNHRHTHUIDIEILIMINIO\
IQIRISITJEJMJOJPKEKGKHKIKMKNKPKRKWKYKZLALBLCLILKLRLSLTLULVLYMAMCMDMEMFMGMHMKMLMMMNMOMPMQMRMSMTMUMVMWMXMYMZNANCNENFNGNI\
NLNONPNRNUNZOMPAPEPFPGPHPKPLPMPNPRPSPTPWPYQARERORSRURWSASBSCSDSESGSHSISJSKSLSMSNSOSRSSSTSVSXSYSZTCTDTFTGTHTJTKTLTMTNTO\
TRTTTVTWTZUAUGUMUSUYUZVAVCVEVGVIVNVUWFWSXKYEYTZAZMZW";

/// A country's code in upper case; `None` for what is none, such as an edge's `XX` (unknown) and `T1` (Tor).
pub(super) fn country(text: &str) -> Option<Short> {
    let &[a, b] = text.trim().as_bytes() else { return None };
    let code = [a.to_ascii_uppercase(), b.to_ascii_uppercase()];
    let known = COUNTRIES.as_bytes().chunks_exact(2).any(|country| country == code);
    let mut short = Short::EMPTY;
    code.into_iter().for_each(|byte| short.push(byte));
    known.then_some(short)
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
