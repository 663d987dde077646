//! What CloudFront's formats share: its three words for how a request ended, and its encoding of values.

use super::arena::Arena;
use super::judge::Outcome;

/// How a request ended. `detailed` is empty in old layouts, `response` in the oldest.
///
/// The response type says what was sent to the client and wins over the result type, which becomes `Error` when the
/// client leaves in the middle. The detailed type alone knows of Origin Shield.
pub fn outcome(result: &[u8], response: &[u8], detailed: &[u8]) -> Outcome {
    if detailed == b"OriginShieldHit" {
        return Outcome::Edge;
    }
    if result == b"Error" && is_no_answer(detailed) {
        return Outcome::Aborted;
    }
    match if is_value(response) { response } else { result } {
        b"Hit" => Outcome::Edge,
        b"Error" => Outcome::Aborted,
        b"Redirect" | b"LimitExceeded" | b"CapacityExceeded" => Outcome::EdgeMade,
        b"FunctionGeneratedResponse" | b"LambdaGeneratedResponse" => Outcome::Function,
        other if other.starts_with(b"Function") || other.starts_with(b"Lambda") => Outcome::EdgeMade,
        // Miss, RefreshHit; what isn't known is left to the id.
        _ => Outcome::Origin,
    }
}

/// Details of an error that left no answer to count: the origin failed, or was never asked.
fn is_no_answer(detailed: &[u8]) -> bool {
    detailed == b"AbortedOrigin"
        || detailed == b"ClientHungUpRequest"
        || detailed == b"ClientGeoBlocked"
        || detailed.starts_with(b"Origin")
        || detailed.starts_with(b"InvalidRequest")
}

/// Whether a column holds something.
pub fn is_value(column: &[u8]) -> bool {
    !column.is_empty() && column != b"-"
}

/// A value as the client sent it: without the layer of percent-encoding that CloudFront puts on.
pub fn decoded<'a>(column: &'a [u8], arena: &'a Arena) -> &'a [u8] {
    if is_value(column) { arena.percent(column) } else { b"" }
}

/// A user agent. Old logs encode it twice, which shows in a `%20` and no blank after the first layer is gone.
pub fn user_agent<'a>(column: &'a [u8], arena: &'a Arena) -> &'a str {
    let once = decoded(column, arena);
    let twice = memchr::memchr(b' ', once).is_none() && memchr::memmem::find(once, b"%20").is_some();
    arena.text(if twice { arena.percent(once) } else { once })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_combination_has_its_outcome() {
        for (result, response, detailed, expected) in [
            ("Hit", "Hit", "Hit", Outcome::Edge),
            ("Miss", "Miss", "Miss", Outcome::Origin),
            ("RefreshHit", "RefreshHit", "RefreshHit", Outcome::Origin),
            ("Miss", "Miss", "OriginShieldHit", Outcome::Edge),
            ("Redirect", "Redirect", "Redirect", Outcome::EdgeMade),
            ("LimitExceeded", "LimitExceeded", "LimitExceeded", Outcome::EdgeMade),
            ("CapacityExceeded", "CapacityExceeded", "CapacityExceeded", Outcome::EdgeMade),
            ("Error", "Hit", "ClientCommError", Outcome::Edge),
            ("Error", "Miss", "ClientCommError", Outcome::Origin),
            ("Error", "Miss", "AbortedOrigin", Outcome::Aborted),
            ("Error", "Error", "OriginCommError", Outcome::Aborted),
            ("Error", "Error", "ClientHungUpRequest", Outcome::Aborted),
            ("Error", "Error", "-", Outcome::Aborted),
            ("FunctionGeneratedResponse", "FunctionGeneratedResponse", "", Outcome::Function),
            ("LambdaGeneratedResponse", "LambdaGeneratedResponse", "", Outcome::Function),
            ("LambdaExecutionError", "LambdaExecutionError", "", Outcome::EdgeMade),
            ("Hit", "-", "-", Outcome::Edge),
            ("Miss", "", "", Outcome::Origin),
            ("", "", "", Outcome::Origin),
            ("SomethingNew", "SomethingNew", "SomethingNew", Outcome::Origin),
        ] {
            let outcome = outcome(result.as_bytes(), response.as_bytes(), detailed.as_bytes());
            assert_eq!(outcome, expected, "{result} {response} {detailed}");
        }
    }

    #[test]
    fn agents_lose_a_second_layer_only_where_it_shows() {
        let arena = Arena::new();
        for (column, expected) in [
            ("Mozilla/5.0%2520(X11;%2520Linux%2520x86_64)", "Mozilla/5.0 (X11; Linux x86_64)"),
            ("cli%2520v1%20x", "cli%20v1 x"),
            ("Slackbot%201.0%20(+https://api.slack.com/robots)", "Slackbot 1.0 (+https://api.slack.com/robots)"),
            ("Mozilla/5.0 (X11)", "Mozilla/5.0 (X11)"),
            ("curl/8.5.0", "curl/8.5.0"),
            ("caf%E9", "caf\u{fffd}"),
            ("-", ""),
        ] {
            assert_eq!(user_agent(column.as_bytes(), &arena), expected);
        }
    }
}
