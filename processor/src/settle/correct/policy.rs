//! When corrections that wait are made. Pure.
//!
//! A correction rewrites the file of its row, of an hour as a rule, so they are made together: every few minutes at the
//! most, sooner when there are many of them, and in time before a day becomes final by itself.

use std::collections::BTreeSet;
use std::time::Duration;

use schemas::UtcMicros;
use schemas::time::DAY;

/// The corrections in one file of `arrivals`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pending {
    /// Since when they are known to be some.
    pub(crate) since: UtcMicros,
    /// How many.
    pub(crate) rows: u64,
    /// The days of their requests.
    pub(crate) days: BTreeSet<i32>,
}

/// How long corrections may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// No correction waits longer.
    pub longest: Duration,
    /// No more of them wait.
    pub most_rows: u64,
}

impl Default for Patience {
    fn default() -> Self {
        Self { longest: Duration::from_secs(300), most_rows: 50_000 }
    }
}

/// Whether the corrections that wait are to be made now. A day is final `settle` after its end, by `through`.
pub(crate) fn is_due<'a>(
    pending: impl Iterator<Item = &'a Pending> + Clone,
    now: UtcMicros,
    through: UtcMicros,
    settle: Duration,
    patience: &Patience,
) -> bool {
    let rows: u64 = pending.clone().map(|file| file.rows).sum();
    let becomes_final = |day: &i32| {
        let at = UtcMicros((i64::from(*day) + 1) * DAY).plus(settle);
        // one that is final already has time: whoever relies on it is told
        at > through && at <= through.plus(patience.longest)
    };
    rows > patience.most_rows
        || pending.clone().any(|file| now.since(file.since) >= patience.longest || file.days.iter().any(becomes_final))
}

#[cfg(test)]
mod tests {
    use super::*;
    use schemas::time::{HOUR, SECOND};

    const NOON: UtcMicros = UtcMicros(20_526 * DAY + 12 * HOUR);
    const SETTLE: Duration = Duration::from_secs(48 * 3_600);

    fn pending(seconds_ago: i64, rows: u64, day: i32) -> Pending {
        Pending { since: UtcMicros(NOON.0 - seconds_ago * SECOND), rows, days: BTreeSet::from([day]) }
    }

    fn due(files: &[Pending], through: UtcMicros) -> bool {
        is_due(files.iter(), NOON, through, SETTLE, &Patience::default())
    }

    #[test]
    fn they_wait_some_minutes_or_until_there_are_many() {
        assert!(!due(&[], NOON));
        assert!(!due(&[pending(299, 1, 20_526), pending(0, 49_999, 20_526)], NOON));
        assert!(due(&[pending(300, 1, 20_526), pending(0, 1, 20_526)], NOON));
        assert!(due(&[pending(0, 25_001, 20_526), pending(0, 25_000, 20_526)], NOON));
    }

    #[test]
    fn none_waits_past_the_end_of_its_day() {
        // day 20523 becomes final when day 20526 begins
        let midnight = 20_526 * DAY;
        let waits = [pending(0, 1, 20_523)];
        assert!(!due(&waits, UtcMicros(midnight - 301 * SECOND)));
        assert!(due(&waits, UtcMicros(midnight - 300 * SECOND)));
        assert!(due(&waits, UtcMicros(midnight - 1)));
        assert!(!due(&waits, UtcMicros(midnight)), "now it is final, and there is no hurry");
    }
}
