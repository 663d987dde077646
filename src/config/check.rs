//! Rules that values must keep with one another.

use std::time::Duration;

use super::{Backend, Config, Partitions, Span, classify, edge_logs, places, privacy, stream};

/// The least lag that can be promised.
const LEAST_LAG: Duration = Duration::from_secs(2);

/// The shortest silence that a journal may be given up for: one of which all is well is heard of less than every ten seconds
/// when nobody clicks.
const LEAST_SILENCE: Duration = Duration::from_secs(60);

/// The providers whose logs and headers are known.
const PROVIDERS: &[&str] = &[
    "none",
    "cloudfront",
    "cloudflare",
    "fastly",
    "akamai",
    "gcp",
    "azure",
    "bunny",
    "nginx",
    "varnish",
    "caddy",
    "haproxy",
    "alb",
];

/// What is wrong, one line each; empty when nothing is.
pub(crate) fn problems(config: &Config) -> Vec<String> {
    let mut wrong = Vec::new();
    cache_rules(config, &mut wrong);
    edge_rules(config, &mut wrong);
    names(config, &mut wrong);
    listeners(config, &mut wrong);
    wrong.extend(edge_logs::problems(&config.edge_logs));
    wrong.extend(privacy::problems(&config.privacy));
    if config.stream.backend == Backend::Fluvio {
        wrong.extend(stream::problems(&config.stream.fluvio));
    }
    wrong.extend(classify::problems(config));
    wrong.extend(config.behaviour.problems());
    sharing(config, &mut wrong);
    log_rules(config, &mut wrong);
    lag_rules(config, &mut wrong);
    if config.journal.retire_after.0 < LEAST_SILENCE {
        wrong.push(format!(
            "journal.retire_after ({}) must be at least {}: journals of redirects that are well would be given up",
            config.journal.retire_after,
            Span(LEAST_SILENCE)
        ));
    }
    wrong.extend(places::problems(config));
    if config.journal.reserve >= config.journal.max_bytes {
        wrong.push(format!(
            "journal.reserve ({}) must be less than journal.max_bytes ({})",
            config.journal.reserve, config.journal.max_bytes
        ));
    }
    if config.journal.sync.0 < Duration::from_millis(1) || config.journal.sync.0 > Duration::from_secs(1) {
        wrong.push(format!("journal.sync ({}) must be from 1ms to 1s", config.journal.sync));
    }
    wrong
}

/// A takedown must be in force everywhere within its limit (interface §2.1).
fn cache_rules(config: &Config, wrong: &mut Vec<String>) {
    let redirect = &config.redirect;
    let sum = redirect.s_maxage.0 + redirect.cache_ttl.0 + redirect.max_age.0;
    if sum > redirect.takedown_limit.0 {
        wrong.push(format!(
            "redirect.s_maxage ({}) + redirect.cache_ttl ({}) + redirect.max_age ({}) must not exceed \
             redirect.takedown_limit ({})",
            redirect.s_maxage, redirect.cache_ttl, redirect.max_age, redirect.takedown_limit
        ));
    }
    for (key, span) in [("s_maxage", redirect.s_maxage), ("max_age", redirect.max_age)] {
        if span.0.subsec_nanos() != 0 {
            wrong.push(format!("redirect.{key} ({span}) must be whole seconds: a cache header has no fractions"));
        }
    }
}

fn edge_rules(config: &Config, wrong: &mut Vec<String>) {
    let edge = &config.edge;
    if !PROVIDERS.contains(&edge.provider.as_str()) {
        wrong.push(format!("edge.provider ({:?}) must be one of {}", edge.provider, PROVIDERS.join(", ")));
    }
    let id_field = &config.edge_logs.akamai.id_field;
    if edge.provider == "akamai" && !id_field.is_empty() && edge.request_id_header.is_empty() {
        wrong.push(format!(
            "edge_logs.akamai.id_field ({id_field:?}) needs edge.request_id_header: the header in which the origin gets the \
             same id, without which a miss would count twice"
        ));
    }
    if edge.skew.0 + edge.repeat.0 > edge.max_skew.0 {
        wrong.push(format!(
            "edge.skew ({}) + edge.repeat ({}) must not exceed edge.max_skew ({})",
            edge.skew, edge.repeat, edge.max_skew
        ));
    }
    if edge.recover_after.0 < edge.skew.0 + edge.repeat.0 {
        wrong.push(format!(
            "edge.recover_after ({}) must not be less than edge.skew + edge.repeat ({} + {})",
            edge.recover_after, edge.skew, edge.repeat
        ));
    }
}

fn log_rules(config: &Config, wrong: &mut Vec<String>) {
    let logs = &config.edge_logs;
    for prefix in &logs.watch {
        if let Err(why) = crate::logs::check_prefix(prefix) {
            wrong.push(format!("edge_logs.watch: {why}"));
        }
    }
    let twice = logs.watch.iter().enumerate().find(|(n, prefix)| logs.watch[..*n].contains(prefix));
    if let Some((_, prefix)) = twice {
        wrong.push(format!("edge_logs.watch names {prefix:?} twice"));
    }
    if logs.poll.0 < Duration::from_millis(100) || logs.poll.0 > Duration::from_secs(24 * 3600) {
        wrong.push(format!("edge_logs.poll ({}) must be from 100ms to 24h", logs.poll));
    }
    if logs.max_uploads == 0 {
        wrong.push("edge_logs.max_uploads (0) must be at least 1".to_owned());
    }
    if logs.max_upload.0 == 0 {
        wrong.push("edge_logs.max_upload (0B) must be at least 1B".to_owned());
    }
    // a block of lines, by which a broken-off import goes on, holds four of them
    if !(1 << 10..=512 << 10).contains(&logs.max_line.0) {
        wrong.push(format!("edge_logs.max_line ({}) must be from 1KiB to 512KiB", logs.max_line));
    }
    if logs.max_unpacked.0 == 0 {
        wrong.push("edge_logs.max_unpacked (0B) must be at least 1B".to_owned());
    }
    if logs.max_ratio == 0 {
        wrong.push("edge_logs.max_ratio (0) must be at least 1".to_owned());
    }
}

fn names(config: &Config, wrong: &mut Vec<String>) {
    if config.redirect.domains.is_empty() {
        wrong.push("redirect.domains must name at least one host".to_owned());
    }
    for domain in &config.redirect.domains {
        let host_like = !domain.is_empty()
            && domain.len() <= 253
            && domain.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.:[]".contains(&b));
        if !host_like {
            wrong.push(format!("redirect.domains: {domain:?} is not a host name, with or without a port"));
        }
    }
}

/// Listeners of one process each need an address of their own.
fn listeners(config: &Config, wrong: &mut Vec<String>) {
    let all = [
        ("redirect.listen", config.redirect.listen),
        ("manage.listen", config.manage.listen),
        ("query.listen", config.query.listen),
        ("ops.listen", config.ops.listen),
    ];
    for (at, (key, address)) in all.iter().enumerate() {
        for (other, _) in all[..at].iter().filter(|(_, taken)| taken == address && taken.port() != 0) {
            wrong.push(format!("{key} ({address}) is the same address as {other}"));
        }
    }
}

/// Which partitions a process reads, and how long its word holds.
fn sharing(config: &Config, wrong: &mut Vec<String>) {
    let process = &config.process;
    if config.stream.backend != Backend::Fluvio && process.partitions != Partitions::Shared {
        wrong.push(format!(
            "process.partitions ({}) needs stream.backend = \"fluvio\": where the journals are the stream, one process reads all",
            process.partitions
        ));
    }
    let count = config.stream.fluvio.partitions;
    if config.stream.backend == Backend::Fluvio && process.partitions.are_beyond(count) {
        wrong.push(format!(
            "process.partitions ({}) goes beyond the topic's partitions: stream.fluvio.partitions is {count}, so they are 0 to {}",
            process.partitions,
            count.saturating_sub(1)
        ));
    }
    if !(Duration::from_secs(3)..=Duration::from_secs(300)).contains(&process.lease.0) {
        wrong.push(format!("process.lease ({}) must be from 3s to 5m", process.lease));
    }
}

/// A lag that can be kept.
fn lag_rules(config: &Config, wrong: &mut Vec<String>) {
    let process = &config.process;
    if process.lag_limit.0 < LEAST_LAG {
        wrong.push(format!(
            "process.lag_limit ({}) must be at least {}: commits take their time, and links would be sampled for that alone",
            process.lag_limit,
            Span(LEAST_LAG)
        ));
    } else if process.lag_limit.0 < 5 * process.commit_after.0 {
        wrong.push(format!(
            "process.lag_limit ({}) must be at least five times process.commit_after ({}): what only waits for its commit \
             would be taken for a backlog",
            process.lag_limit, process.commit_after
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Size, Span};

    fn broken(change: impl FnOnce(&mut Config)) -> String {
        let mut config = Config::default();
        change(&mut config);
        problems(&config).join("\n")
    }

    #[test]
    fn a_journal_isn_t_given_up_for_a_short_silence() {
        let after = |seconds| broken(|c| c.journal.retire_after = Span(Duration::from_secs(seconds)));
        assert!(after(0).contains("journal.retire_after") && !after(59).is_empty());
        assert_eq!(after(60), "");
    }

    #[test]
    fn the_default_is_right() {
        assert_eq!(problems(&Config::default()), Vec::<String>::new());
    }

    #[test]
    fn each_rule_names_its_keys() {
        let span = |seconds| Span(Duration::from_secs(seconds));
        assert!(broken(|c| c.redirect.s_maxage = span(26)).contains("redirect.takedown_limit"));
        assert!(broken(|c| c.redirect.s_maxage = Span(Duration::from_millis(1500))).contains("whole seconds"));
        assert!(broken(|c| c.edge.repeat = span(600)).contains("edge.max_skew"));
        assert!(broken(|c| c.edge.recover_after = span(1)).contains("edge.recover_after"));
        assert!(broken(|c| c.edge.provider = "acme".into()).contains("edge.provider"));
        let akamai = |c: &mut Config| {
            c.edge.provider = "akamai".into();
            c.edge_logs.akamai.id_field = "customField".into();
        };
        assert!(broken(akamai).contains("needs edge.request_id_header"));
        let with_header = |c: &mut Config| {
            akamai(c);
            c.edge.request_id_header = "akamai-grn".into();
        };
        assert_eq!(broken(with_header), "");
        assert!(broken(|c| c.redirect.domains.clear()).contains("redirect.domains"));
        assert!(broken(|c| c.redirect.domains = vec!["a b".into()]).contains("redirect.domains"));
        assert!(broken(|c| c.query.listen = c.manage.listen).contains("the same address as manage.listen"));
        assert!(broken(|c| c.process.lag_limit = span(1)).contains("process.lag_limit (1s) must be at least 2s"));
        assert_eq!(broken(|c| c.process.lag_limit = span(2)), "");
        assert!(
            broken(|c| (c.process.lag_limit, c.process.commit_after) = (span(4), span(1)))
                .contains("commit_after (1s)")
        );
        assert!(broken(|c| c.journal.reserve = c.journal.max_bytes).contains("journal.reserve"));
        assert!(broken(|c| c.edge_logs.watch = vec!["ftp://x/y".into()]).contains("s3://"));
        assert!(broken(|c| c.edge_logs.watch = vec!["./a".into(), "./a".into()]).contains("twice"));
        assert!(broken(|c| c.edge_logs.poll = span(0)).contains("edge_logs.poll"));
        assert!(broken(|c| c.edge_logs.max_uploads = 0).contains("edge_logs.max_uploads"));
        assert!(broken(|c| c.edge_logs.max_line = Size(1 << 20)).contains("edge_logs.max_line"));
        assert!(broken(|c| c.edge_logs.max_unpacked = Size(0)).contains("edge_logs.max_unpacked"));
        assert!(broken(|c| c.edge_logs.max_ratio = 0).contains("edge_logs.max_ratio"));
        assert_eq!(broken(|c| c.edge_logs.watch = vec!["./logs".into(), "s3://bucket/logs/".into()]), "");
        assert_eq!(broken(|c| c.stream.backend = Backend::Fluvio), "");
        let no_topic = |c: &mut Config| {
            c.stream.backend = Backend::Fluvio;
            c.stream.fluvio.topic.clear();
        };
        assert!(broken(no_topic).contains("stream.fluvio.topic"));
        let two = |c: &mut Config| c.process.partitions = "0-1".parse().unwrap();
        assert!(broken(two).contains("process.partitions (0,1)"));
        let two_of_a_topic = |c: &mut Config| {
            two(c);
            c.stream.backend = Backend::Fluvio;
        };
        assert_eq!(broken(two_of_a_topic), "");
        let beyond = |c: &mut Config| {
            two_of_a_topic(c);
            c.stream.fluvio.partitions = 1;
        };
        assert!(broken(beyond).contains("process.partitions (0,1) goes beyond"), "{}", broken(beyond));
        assert!(broken(|c| c.process.lease = span(1)).contains("process.lease (1s)"));
        assert!(broken(|c| c.lake = "s3:/bucket".into()).contains("lake (\"s3:/bucket\")"));
    }
}
