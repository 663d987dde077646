//! `[edge_logs]`, and what it says of formats, checked by those who know: names of fields, nginx's `log_format`, a zone.

use ingest::edge::field_names::{FieldProblem, cloudfront_realtime_problems};
use ingest::edge::nginx_directive::Directive;
use ingest::edge::{akamai, fastly, haproxy};
use serde::{Deserialize, Serialize};

use super::near::{did_you_mean, near};
use super::{Size, Span, seconds};

/// `[edge_logs]`
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct EdgeLogs {
    /// Folders and prefixes to watch.
    pub(crate) watch: Vec<String>,
    /// How often.
    pub(crate) poll: Span,
    /// The largest upload.
    pub(crate) max_upload: Size,
    /// Uploads of one workspace at once.
    pub(crate) max_uploads: usize,
    /// The longest line.
    pub(crate) max_line: Size,
    /// The most bytes that a log may unpack to.
    pub(crate) max_unpacked: Size,
    /// The most bytes that it may unpack to for each of its own.
    pub(crate) max_ratio: u64,
    /// How long an upload's bytes are kept once it has been taken in.
    pub(crate) keep_staged: Span,
    /// CloudFront real-time logs.
    pub(crate) cloudfront_realtime: FieldList,
    /// nginx logs.
    pub(crate) nginx: NginxLogs,
    /// Fastly logs.
    pub(crate) fastly: FieldMap,
    /// Akamai logs.
    pub(crate) akamai: AkamaiLogs,
    /// HAProxy logs.
    pub(crate) haproxy: HaproxyLogs,
}

/// A list of field names, in order.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct FieldList {
    /// The names.
    pub(crate) fields: Vec<String>,
}

/// Field names of ours by those of a log.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct FieldMap {
    /// Our name to theirs.
    pub(crate) fields: std::collections::BTreeMap<String, String>,
}

/// Akamai's streams.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AkamaiLogs {
    /// The names of a structured stream's fields, in order.
    pub(crate) fields: Vec<String>,
    /// The field that holds the id which the origin sees too; empty: none does.
    pub(crate) id_field: String,
}

/// HAProxy's logs.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct HaproxyLogs {
    /// The zone of the clock that its dates are of.
    pub(crate) timezone: String,
    /// The captured request headers, in order; empty: user-agent, referer.
    pub(crate) captures: Vec<String>,
}

/// nginx's log format.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct NginxLogs {
    /// The text of `log_format`.
    pub(crate) log_format: String,
}

impl Default for EdgeLogs {
    fn default() -> Self {
        Self {
            watch: Vec::new(),
            poll: seconds(10),
            max_upload: Size(1 << 30),
            max_uploads: 4,
            max_line: Size(64 << 10),
            max_unpacked: Size(1 << 40),
            max_ratio: 500,
            keep_staged: seconds(7 * 24 * 3600),
            cloudfront_realtime: FieldList::default(),
            nginx: NginxLogs::default(),
            fastly: FieldMap::default(),
            akamai: AkamaiLogs::default(),
            haproxy: HaproxyLogs::default(),
        }
    }
}

impl Default for HaproxyLogs {
    fn default() -> Self {
        Self { timezone: "UTC".into(), captures: Vec::new() }
    }
}

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
        let meant = did_you_mean(near(zone, haproxy::zones()));
        wrong.push(format!("edge_logs.haproxy.timezone ({zone:?}) is no zone's IANA name{meant}"));
    }
    wrong
}

fn line(key: &str, problem: FieldProblem) -> String {
    match problem {
        FieldProblem::Unknown { given, known } => {
            let meant = match near(&given, known.iter().copied()) {
                Some(meant) => did_you_mean(Some(meant)),
                None => format!("; known are {}", known.join(", ")),
            };
            format!("{key}: {given:?} is not a known name{meant}")
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
        let far =
            broken(|logs| logs.cloudfront_realtime.fields = list("timestamp sc-status cs-uri-stem zone")).join("");
        assert!(far.contains("\"zone\" is not a known name; known are timestamp, c-ip, ") && far.contains("c-country"));
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
