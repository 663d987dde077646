//! Instants as the lake stores them: microseconds since 1970, UTC.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Microseconds in one second.
pub const SECOND: i64 = 1_000_000;
/// Microseconds in one hour.
pub const HOUR: i64 = 3_600 * SECOND;
/// Microseconds in one day.
pub const DAY: i64 = 24 * HOUR;

/// An instant, microseconds since the Unix epoch, UTC. Serialised as RFC 3339 with `Z`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct UtcMicros(pub i64);

impl UtcMicros {
    /// The system's clock.
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(since.as_micros() as i64)
    }

    /// Days since the epoch: the value of the lake's `date` partition as Arrow's Date32.
    pub fn day(self) -> i32 {
        self.0.div_euclid(DAY) as i32
    }

    /// Hours since the epoch.
    pub fn hour(self) -> i64 {
        self.0.div_euclid(HOUR)
    }

    /// This instant moved forward.
    #[must_use]
    pub fn plus(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span.as_micros() as i64))
    }

    /// This instant moved back.
    #[must_use]
    pub fn minus(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(span.as_micros() as i64))
    }

    /// The time from `earlier` to this instant; zero when it is not earlier.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0).max(0) as u64)
    }

    /// As chrono's type; instants beyond its range become its ends.
    pub fn to_datetime(self) -> DateTime<Utc> {
        DateTime::from_timestamp_micros(self.0).unwrap_or(if self.0 < 0 {
            DateTime::<Utc>::MIN_UTC
        } else {
            DateTime::<Utc>::MAX_UTC
        })
    }
}

impl From<DateTime<Utc>> for UtcMicros {
    fn from(instant: DateTime<Utc>) -> Self {
        Self(instant.timestamp_micros())
    }
}

impl fmt::Display for UtcMicros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_datetime().to_rfc3339_opts(SecondsFormat::AutoSi, true))
    }
}

impl Serialize for UtcMicros {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for UtcMicros {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        DateTime::<Utc>::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_hours_before_the_epoch_round_down() {
        assert_eq!(UtcMicros(-1).day(), -1);
        assert_eq!(UtcMicros(-1).hour(), -1);
        assert_eq!(UtcMicros(DAY).day(), 1);
    }

    #[test]
    fn text_keeps_microseconds() {
        let instant = UtcMicros(1_773_480_413_123_456);
        assert_eq!(instant.to_string(), "2026-03-14T09:26:53.123456Z");
        let json = serde_json::to_string(&instant).unwrap();
        assert_eq!(serde_json::from_str::<UtcMicros>(&json).unwrap(), instant);
    }
}
