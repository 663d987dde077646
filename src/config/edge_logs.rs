//! What `[edge_logs]` says of formats, checked by those who know: names of fields, nginx's `log_format`, a zone.

use ingest::edge::field_names::{FieldProblem, cloudfront_realtime_problems};
use ingest::edge::nginx_directive::Directive;
use ingest::edge::{akamai, fastly, haproxy};

use super::EdgeLogs;
use super::load::nearest;

/// What is wrong, one line each; empty when nothing is.
pub(super) fn problems(logs: &EdgeLogs) -> Vec<String> {
    let mut wrong = Vec::new();
    for (key, problems) in [
        ("edge_logs.cloudfront_realtime.fields", cloudfront_realtime_problems(&logs.cloudfront_realtime.fields)),
        ("edge_logs.akamai.fields", akamai::problems(&logs.akamai.fields)),
        ("edge_logs.akamai.id_field", akamai::id_problem(&logs.akamai.id_field).into_iter().collect()),
        ("edge_logs.fastly.fields", fastly::problems(&logs.fastly.fields)),
        ("edge_logs.haproxy.captures", haproxy::problems(&logs.haproxy.captures)),
    ] {
        wrong.extend(problems.into_iter().map(|problem| line(key, problem)));
    }
    if !logs.nginx.log_format.is_empty()
        && let Err(error) = Directive::parse(&logs.nginx.log_format)
    {
        wrong.push(format!("edge_logs.nginx.log_format: {error}"));
    }
    let zone = logs.haproxy.timezone.as_str();
    if !haproxy::zones().any(|known| known == zone) {
        let near = nearest(zone, haproxy::zones());
        wrong.push(format!("edge_logs.haproxy.timezone ({zone:?}) is no zone's IANA name; did you mean {near}?"));
    }
    wrong
}

fn line(key: &str, problem: FieldProblem) -> String {
    match problem {
        FieldProblem::Unknown { given, known } => {
            let near = nearest(&given, known.into_iter());
            format!("{key}: {given:?} is not a known name; did you mean {near}?")
        }
        FieldProblem::Missing { what } => format!("{key} lacks {what}"),
        FieldProblem::Twice { given } => format!("{key}: {given:?} comes twice"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(change: impl FnOnce(&mut EdgeLogs)) -> Vec<String> {
        let mut logs = EdgeLogs::default();
        change(&mut logs);
        problems(&logs)
    }

    fn list(names: &str) -> Vec<String> {
        names.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn what_is_right_is_taken() {
        assert_eq!(broken(|_| ()), Vec::<String>::new());
        let configured = broken(|logs| {
            logs.cloudfront_realtime.fields = list("timestamp c-ip sc-status cs-uri-stem x-edge-request-id");
            logs.akamai.fields = list("version - reqTimeSec statusCode reqPath customField");
            logs.akamai.id_field = "customField".into();
            logs.fastly.fields.insert("time".into(), "ts".into());
            logs.nginx.log_format = r#"escape=json '{"t":"$msec","r":"$request","s":"$status"}'"#.into();
            logs.haproxy.timezone = "Europe/Berlin".into();
            logs.haproxy.captures = list("host user-agent -");
        });
        assert_eq!(configured, Vec::<String>::new());
    }

    #[test]
    fn each_problem_names_its_key_and_the_nearest_name() {
        assert_eq!(
            broken(|logs| logs.cloudfront_realtime.fields = list("timestamp sc-status cs-uri-stm")),
            [
                "edge_logs.cloudfront_realtime.fields: \"cs-uri-stm\" is not a known name; did you mean cs-uri-stem?",
                "edge_logs.cloudfront_realtime.fields lacks what was asked for (cs-uri-stem)"
            ]
        );
        assert_eq!(
            broken(|logs| logs.akamai.fields = list("reqTimeSec reqTimeSec statusCode reqPath")),
            ["edge_logs.akamai.fields: \"reqTimeSec\" comes twice"]
        );
        assert_eq!(
            broken(|logs| logs.akamai.id_field = "customfield".into()),
            ["edge_logs.akamai.id_field: \"customfield\" is not a known name; did you mean customField?"]
        );
        assert_eq!(
            broken(|logs| drop(logs.fastly.fields.insert("user-agent".into(), "ua".into()))),
            ["edge_logs.fastly.fields: \"user-agent\" is not a known name; did you mean user_agent?"]
        );
        assert_eq!(
            broken(|logs| logs.haproxy.captures = list("referrer")),
            ["edge_logs.haproxy.captures: \"referrer\" is not a known name; did you mean referer?"]
        );
        assert_eq!(
            broken(|logs| logs.nginx.log_format = "$remote_addr $request".into()),
            ["edge_logs.nginx.log_format: it lacks a time ($msec, $time_iso8601 or $time_local), and $status"]
        );
        assert_eq!(
            broken(|logs| logs.haproxy.timezone = "Europe/Berlni".into()),
            ["edge_logs.haproxy.timezone (\"Europe/Berlni\") is no zone's IANA name; did you mean Europe/Berlin?"]
        );
    }
}
