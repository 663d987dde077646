//! The pages that visitors see instead of a destination. None of them names or links it.

use bytes::Bytes;

/// A page that loads nothing from anywhere.
pub(super) const CONTENT_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'";

/// The page of a link that was taken down.
pub(super) fn disabled(reason: &str) -> Bytes {
    let why = if reason.is_empty() { String::new() } else { format!("<p>Reason: {}</p>", Escaped(reason)) };
    page("This link has been taken down", &format!("<p>It no longer leads anywhere.</p>{why}"))
}

/// The page of a deleted link.
pub(super) fn deleted() -> Bytes {
    page("This link has been deleted", "<p>It no longer leads anywhere, and its address won't be used again.</p>")
}

/// The page of an unknown code.
pub(super) fn missing() -> Bytes {
    page("There is no such link", "<p>Check the address: upper and lower case matter, and the host name does too.</p>")
}

fn page(title: &str, body: &str) -> Bytes {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><meta name=\"robots\" content=\"noindex\">\
         <title>{title}</title><style>body{{font:1.1rem/1.5 system-ui,sans-serif;max-width:34rem;margin:20vh auto;\
         padding:0 1rem}}</style></head><body><h1>{title}</h1>{body}</body></html>\n"
    )
    .into()
}

/// Text as HTML shows it.
struct Escaped<'a>(&'a str);

impl std::fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        use std::fmt::Write;
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn html(page: Bytes) -> String {
        String::from_utf8(page.to_vec()).unwrap()
    }

    #[test]
    fn a_reason_is_text_and_nothing_else() {
        let page = html(disabled("<script>alert('x')</script> & \"more\""));
        assert!(page.contains("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; &amp; &quot;more&quot;"), "{page}");
        assert!(!page.contains("<script"));
    }

    #[test]
    fn no_page_links_anywhere() {
        for page in [disabled("phishing"), disabled(""), deleted(), missing()] {
            let page = html(page);
            assert!(!page.contains("href") && !page.contains("http"), "{page}");
        }
        assert!(html(disabled("phishing")).contains("Reason: phishing"));
        assert!(!html(disabled("")).contains("Reason"));
    }
}
