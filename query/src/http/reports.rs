//! `GET /v1/reports/clicks`.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Uri, header};
use axum::response::{IntoResponse, Response};

use super::accept::negotiate;
use super::{Caller, Problem};
use crate::error::QueryError;
use crate::reports::{Report, ReportRequest, to_batch};
use crate::service::QueryService;
use crate::sql::Format;
use crate::sql::encode::encode;

const OFFERED: &[Format] = &[Format::Json, Format::Csv, Format::Arrow, Format::Parquet];

pub(super) async fn clicks(
    State(service): State<QueryService>,
    caller: Caller,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let format = negotiate(&headers, OFFERED)?;
    let pairs = url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    let request = ReportRequest::from_pairs(pairs)?;
    let report = service.report(&caller.0, &request).await?;
    let mut response = match format {
        Format::Json => Json(&report).into_response(),
        format => table(&report, &request, format)?,
    };
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// Rows alone as the body; how fresh and how exact they are, and what is in no row, goes into headers as JSON.
fn table(report: &Report, request: &ReportRequest, format: Format) -> Result<Response, Problem> {
    let failed = |error: &dyn std::fmt::Display| Problem::from(QueryError::lake("writing a report", error));
    let batch = to_batch(report, request).map_err(|error| failed(&error))?;
    let body = encode(format, &batch).map_err(|error| failed(&error))?;
    let mut response = ([(header::CONTENT_TYPE, format.media_type())], body).into_response();
    let facts = [
        ("highwater-meta", serde_json::to_string(&report.meta)),
        ("highwater-totals", serde_json::to_string(&report.totals)),
        ("highwater-other", serde_json::to_string(&report.other)),
        ("highwater-unknown", serde_json::to_string(&report.unknown)),
    ];
    for (name, json) in facts {
        let json = json.map_err(|error| failed(&error))?;
        if let Ok(value) = HeaderValue::from_str(&ascii(&json)) {
            response.headers_mut().insert(name, value);
        }
    }
    Ok(response)
}

/// JSON that fits into a header: what isn't ASCII is written as its code.
fn ascii(json: &str) -> String {
    let mut units = [0; 2];
    json.chars().fold(String::with_capacity(json.len()), |mut out, character| {
        if character.is_ascii() {
            out.push(character);
        } else {
            out.extend(character.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
        }
        out
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn headers_hold_any_json() {
        let text = "\"é😀 \"";
        let ascii = super::ascii(text);
        assert!(ascii.is_ascii());
        assert_eq!(serde_json::from_str::<String>(&ascii).unwrap(), "é😀 ");
    }
}
