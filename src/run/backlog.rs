//! Whether the topic keeps records for as long as a backlog may last.
//!
//! While processors are away the topic fills, and so do the journals, which keep everything until the lake has it. What the
//! topic has deleted by then they send again; but a node that is lost for good takes that with it.

use std::time::{Duration, Instant};

use prometheus_client::metrics::gauge::Gauge;
use tokio_util::sync::CancellationToken;

use super::own::OwnJournals;

/// How often it is looked at.
const EVERY: Duration = Duration::from_secs(60);
/// The longest backlog that is expected: a weekend without anybody.
const LONGEST: Duration = Duration::from_secs(72 * 3_600);
const HOUR: u64 = 3_600;

/// By how many hours the topic's retention is too short for the longest expected backlog: as long as the journals' budget
/// lasts at this rate, and no longer than [`LONGEST`]. Pure.
fn missing_hours(retention: Duration, max_bytes: u64, bytes_per_second: f64) -> u64 {
    let lasts = match bytes_per_second {
        rate if rate > 0.0 => Duration::try_from_secs_f64(max_bytes as f64 / rate).unwrap_or(LONGEST),
        _ => LONGEST,
    };
    lasts.min(LONGEST).saturating_sub(retention).as_secs().div_ceil(HOUR)
}

/// What has been written into journals, ever: about, since positions are counted and frames differ.
fn written(own: &OwnJournals) -> f64 {
    let all = own.all();
    let of = all.iter().map(|journal| journal.stats()).filter(|stats| stats.end > stats.begin);
    of.map(|stats| stats.end as f64 * (stats.bytes as f64 / (stats.end - stats.begin) as f64)).sum()
}

/// Says when the topic's retention is too short, and keeps `shown` at the hours that are missing, until `stop`.
pub(crate) async fn watch(own: OwnJournals, retention: Duration, shown: Gauge, stop: CancellationToken) {
    let (mut said, mut before) = (0, (Instant::now(), written(&own)));
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        let now = (Instant::now(), written(&own));
        let seconds = now.0.duration_since(before.0).as_secs_f64();
        let rate = if seconds > 1.0 { (now.1 - before.1) / seconds } else { 0.0 };
        before = now;
        let max_bytes = own.all().first().map_or(0, |journal| journal.budget().max_bytes);
        let missing = missing_hours(retention, max_bytes, rate);
        shown.set(missing as i64);
        if missing > said {
            tracing::warn!(
                missing_hours = missing,
                ?retention,
                "the topic keeps records for less time than a backlog may last: of the longest one it would lack these hours, \
                 which the journals would have to send again; raise stream.fluvio.retention"
            );
        }
        said = missing;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_are_missing_as_long_as_journals_last() {
        let hours = |n| Duration::from_secs(n * HOUR);
        let day_of_bytes = 86_400 * 1_000;
        assert_eq!(missing_hours(hours(168), day_of_bytes, 0.0), 0);
        assert_eq!(missing_hours(hours(48), day_of_bytes, 0.0), 24, "at rest: for a weekend");
        assert_eq!(missing_hours(hours(6), day_of_bytes, 1_000.0), 18);
        assert_eq!(missing_hours(hours(23), day_of_bytes, 999.0), 2, "begun hours count");
        assert_eq!(missing_hours(hours(6), day_of_bytes, 1e9), 0, "full within a minute");
        assert_eq!(missing_hours(hours(6), day_of_bytes, -5.0), 66);
    }
}
