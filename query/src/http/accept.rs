//! Which format a client wants.

use axum::http::{HeaderMap, StatusCode, header};

use super::problem::Problem;
use crate::sql::Format;

/// The offered format that `Accept` likes best; of equals the one offered first.
///
/// # Errors
/// 406 when it likes none.
pub(crate) fn negotiate(headers: &HeaderMap, offered: &[Format]) -> Result<Format, Problem> {
    let wanted: Vec<(&str, f32)> = headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(range)
        .collect();
    let liking = |format: Format| if wanted.is_empty() { 1.0 } else { liking(&wanted, format.media_type()) };
    let mut best: Option<(Format, f32)> = None;
    for &format in offered {
        let quality = liking(format);
        if quality > best.map_or(0.0, |(_, best)| best) {
            best = Some((format, quality));
        }
    }
    best.map(|(format, _)| format).ok_or_else(|| {
        let types: Vec<&str> = offered.iter().map(|format| format.media_type()).collect();
        Problem::new(StatusCode::NOT_ACCEPTABLE, format!("offered are {}", types.join(", ")))
    })
}

/// A media range and its quality.
fn range(text: &str) -> (&str, f32) {
    let mut parts = text.split(';').map(str::trim);
    let range = parts.next().unwrap_or_default();
    let quality = parts.find_map(|part| part.strip_prefix("q=")).map_or(1.0, |q| q.parse().unwrap_or(0.0));
    (range, quality)
}

/// The quality of the most specific range that matches.
fn liking(wanted: &[(&str, f32)], media_type: &str) -> f32 {
    let group = media_type.split('/').next().unwrap_or_default();
    let rank = |range: &str| match range {
        range if range.eq_ignore_ascii_case(media_type) => Some(2),
        "*/*" => Some(0),
        range => range.strip_suffix("/*").filter(|wanted| wanted.eq_ignore_ascii_case(group)).map(|_| 1),
    };
    let matching = wanted.iter().filter_map(|(range, quality)| Some((rank(range)?, *quality)));
    matching.max_by_key(|(rank, _)| *rank).map_or(0.0, |(_, quality)| quality)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(accept: &str) -> Option<Format> {
        let mut headers = HeaderMap::new();
        if !accept.is_empty() {
            headers.insert(header::ACCEPT, accept.parse().unwrap());
        }
        negotiate(&headers, Format::OFFERED).ok()
    }

    #[test]
    fn the_best_liked_is_chosen() {
        for (accept, format) in [
            ("", Some(Format::Json)),
            ("*/*", Some(Format::Json)),
            ("text/html, application/json;q=0.9, */*;q=0.1", Some(Format::Json)),
            ("text/csv", Some(Format::Csv)),
            ("TEXT/CSV; charset=utf-8", Some(Format::Csv)),
            ("text/*", Some(Format::Csv)),
            ("application/json;q=0.2, text/csv;q=0.4", Some(Format::Csv)),
            ("application/json;q=0, */*;q=0.1", Some(Format::NdJson)),
            ("application/vnd.apache.parquet", Some(Format::Parquet)),
            ("image/png", None),
            ("application/json;q=0", None),
        ] {
            assert_eq!(chosen(accept), format, "{accept}");
        }
    }
}
