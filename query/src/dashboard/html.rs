//! Text that is safe inside HTML.

/// `text` with the characters escaped that mean something in elements and quoted attributes.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            character => out.push(character),
        }
    }
    out
}

/// A number with thin spaces between its thousands.
pub(crate) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push('\u{2009}');
        }
        out.push(digit);
    }
    out
}

/// What is between two numbers, if they aren't one.
pub(crate) fn range(low: u64, high: u64) -> Option<String> {
    (low < high).then(|| format!("{}\u{2009}–\u{2009}{}", number(low), number(high)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_text_is_markup() {
        assert_eq!(escape("<a href='x' title=\"&\">"), "&lt;a href=&#39;x&#39; title=&quot;&amp;&quot;&gt;");
    }

    #[test]
    fn one_number_is_no_range() {
        assert_eq!(range(5, 5), None);
        assert_eq!(range(5, 1_000).unwrap(), "5\u{2009}–\u{2009}1\u{2009}000");
    }

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!(number(7), "7");
        assert_eq!(number(1_234_567), "1\u{2009}234\u{2009}567");
    }
}
