//! Names of fields as configurations give them, and what can be wrong with them.

/// What is wrong with configured names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldProblem {
    /// A name that isn't known.
    Unknown {
        /// As configured.
        given: String,
        /// The names that are.
        known: Vec<&'static str>,
    },
    /// What no click can do without isn't among them.
    Missing {
        /// What, in words, with the name that would do.
        what: &'static str,
    },
    /// Two of them stand for one thing, or name one key.
    Twice {
        /// The one that comes later.
        given: String,
    },
}

/// Stands for a column that isn't to be read.
pub const NOT_READ: &str = "-";

/// What is wrong with a list of columns in order. An empty list is none: nothing is configured.
pub fn list_problems(
    given: &[String],
    known: &'static [&'static str],
    needed: &[(&'static str, &'static str)],
) -> Vec<FieldProblem> {
    let mut problems = Vec::new();
    for (place, name) in given.iter().enumerate() {
        if name == NOT_READ {
            continue;
        }
        if !known.contains(&name.as_str()) {
            problems.push(FieldProblem::Unknown { given: name.clone(), known: known.to_vec() });
        } else if given[..place].contains(name) {
            problems.push(FieldProblem::Twice { given: name.clone() });
        }
    }
    if !given.is_empty() {
        let missing = needed.iter().filter(|(name, _)| !given.iter().any(|given| given == name));
        problems.extend(missing.map(|(_, what)| FieldProblem::Missing { what }));
    }
    problems
}

/// What is wrong with the field list of a CloudFront real-time log configuration.
pub fn cloudfront_realtime_problems(given: &[String]) -> Vec<FieldProblem> {
    let needed = [
        ("timestamp", "when it was (timestamp)"),
        ("cs-uri-stem", "what was asked for (cs-uri-stem)"),
        ("sc-status", "what was answered (sc-status)"),
    ];
    list_problems(given, CLOUDFRONT_REALTIME, &needed)
}

/// The fields that a real-time log configuration of CloudFront can have.
const CLOUDFRONT_REALTIME: &[&str] = &[
    "timestamp",
    "c-ip",
    "s-ip",
    "time-to-first-byte",
    "sc-status",
    "sc-bytes",
    "cs-method",
    "cs-protocol",
    "cs-host",
    "cs-uri-stem",
    "cs-bytes",
    "x-edge-location",
    "x-edge-request-id",
    "x-host-header",
    "time-taken",
    "cs-protocol-version",
    "c-ip-version",
    "cs-user-agent",
    "cs-referer",
    "cs-cookie",
    "cs-uri-query",
    "x-edge-response-result-type",
    "x-forwarded-for",
    "ssl-protocol",
    "ssl-cipher",
    "x-edge-result-type",
    "fle-encrypted-fields",
    "fle-status",
    "sc-content-type",
    "sc-content-len",
    "sc-range-start",
    "sc-range-end",
    "c-port",
    "x-edge-detailed-result-type",
    "c-country",
    "cs-accept-encoding",
    "cs-accept",
    "cache-behavior-path-pattern",
    "cs-headers",
    "cs-header-names",
    "cs-headers-count",
    "primary-distribution-id",
    "primary-distribution-dns-name",
    "distribution-tenant-id",
    "connection-id",
    "origin-fbl",
    "origin-lbl",
    "asn",
    "r-host",
    "sr-reason",
    "x-edge-mqcs",
    "cmcd-encoded-bitrate",
    "cmcd-buffer-length",
    "cmcd-buffer-starvation",
    "cmcd-content-id",
    "cmcd-object-duration",
    "cmcd-deadline",
    "cmcd-measured-throughput",
    "cmcd-next-object-request",
    "cmcd-next-range-request",
    "cmcd-object-type",
    "cmcd-playback-rate",
    "cmcd-requested-maximum-throughput",
    "cmcd-streaming-format",
    "cmcd-session-id",
    "cmcd-stream-type",
    "cmcd-startup",
    "cmcd-top-bitrate",
    "cmcd-version",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_missing_and_repeated_names_are_told() {
        let problems = |names: &str| {
            let given: Vec<String> = names.split_whitespace().map(str::to_owned).collect();
            let problems = cloudfront_realtime_problems(&given);
            let word = |problem: FieldProblem| match problem {
                FieldProblem::Unknown { given, known } => format!("unknown {given} of {}", known.len()),
                FieldProblem::Missing { what } => format!("missing {what}"),
                FieldProblem::Twice { given } => format!("twice {given}"),
            };
            problems.into_iter().map(word).collect::<Vec<_>>()
        };
        assert_eq!(problems(""), Vec::<String>::new());
        assert_eq!(problems("timestamp - c-ip - cs-uri-stem sc-status"), Vec::<String>::new());
        assert_eq!(problems("timestamp c-ipp cs-uri-stem sc-status"), ["unknown c-ipp of 69"]);
        assert_eq!(
            problems("c-ip c-ip sc-status"),
            ["twice c-ip", "missing when it was (timestamp)", "missing what was asked for (cs-uri-stem)"]
        );
    }
}
