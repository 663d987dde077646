//! When a record may be settled: pure, the clock passed in.

use std::time::Duration;

use schemas::{Source, UtcMicros};

/// What sort of record waits in `arrivals`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// An event itself, under an id that a journal may bring too.
    Event(Source),
    /// An event made elsewhere, under an id that no journal can bring.
    Elsewhere(Source),
    /// A log line that says the edge answered.
    Edge,
    /// A log line of a request that reached the origin: its event should be in the lake, or come.
    Origin,
}

impl Kind {
    /// The kind of a row of `arrivals`, whose column `source` says what it will become.
    pub fn of(source: Source) -> Self {
        match source {
            Source::Edge => Self::Edge,
            Source::Recovered => Self::Origin,
            Source::Origin => Self::Event(source),
            Source::Import => Self::Elsewhere(source),
        }
    }

    /// The source of the row that such a record becomes.
    pub fn source(self) -> Source {
        match self {
            Self::Event(source) | Self::Elsewhere(source) => source,
            Self::Edge => Source::Edge,
            Self::Origin => Source::Recovered,
        }
    }

    /// Whether settling a record of this kind makes journals' events before it late: only where one of them could have
    /// been its own event.
    pub(crate) fn is_of_journals(self) -> bool {
        !matches!(self, Self::Elsewhere(_))
    }

    /// Whether it is a line of an edge log.
    pub(crate) fn is_line(self) -> bool {
        matches!(self, Self::Edge | Self::Origin)
    }

    /// Among records of one id the least makes the row: who was there first-hand knows best.
    pub(crate) fn rank(self) -> u8 {
        match self {
            Self::Event(_) | Self::Elsewhere(_) => 0,
            Self::Edge => 1,
            Self::Origin => 2,
        }
    }
}

/// How long records wait for what may still be on its way (configuration `[edge]`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waits {
    /// How far clocks of edge and origin may be apart.
    pub skew: Duration,
    /// How long an edge may ask the origin again under one id.
    pub repeat: Duration,
    /// How long an origin-class line waits for its event.
    pub recover_after: Duration,
}

impl Default for Waits {
    fn default() -> Self {
        Self {
            skew: Duration::from_secs(5),
            repeat: Duration::from_secs(60),
            recover_after: Duration::from_secs(15 * 60),
        }
    }
}

impl Waits {
    /// How far `complete_through` must have passed a record of this kind.
    ///
    /// Two records of one id are at most `skew + repeat` apart, so nothing that a journal may bring waits less; an
    /// origin-class line waits at least that long too, however small `recover_after` is set.
    pub fn of(&self, kind: Kind) -> Duration {
        let apart = self.skew + self.repeat;
        match kind {
            Kind::Event(_) | Kind::Edge => apart,
            Kind::Origin => apart.max(self.recover_after),
            Kind::Elsewhere(_) => Duration::ZERO,
        }
    }

    /// Whether a record may be settled: every event that could be the same request's is in the lake, as far as
    /// journals in good standing go. `complete_through` must have been read *before* the snapshot that the
    /// record is compared with: read afterwards, it could cover events that the snapshot lacks.
    pub fn ready(&self, complete_through: UtcMicros, kind: Kind, time: UtcMicros) -> bool {
        !kind.is_of_journals() || complete_through > time.plus(self.of(kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schemas::time::SECOND;

    const T: UtcMicros = UtcMicros(1_000 * SECOND);

    fn first_ready(waits: &Waits, kind: Kind) -> i64 {
        (0..2_000_000_000).step_by(1_000_000).find(|after| waits.ready(UtcMicros(T.0 + after), kind, T)).unwrap()
            / SECOND
    }

    #[test]
    fn ready_means_later_than_the_wait_not_equal_to_it() {
        let waits = Waits::default();
        for (kind, seconds) in [(Kind::Edge, 65), (Kind::Event(Source::Origin), 65), (Kind::Origin, 900)] {
            let exactly = UtcMicros(T.0 + seconds * SECOND);
            assert!(!waits.ready(exactly, kind, T), "{kind:?}");
            assert!(waits.ready(UtcMicros(exactly.0 + 1), kind, T), "{kind:?}");
        }
    }

    #[test]
    fn an_origin_line_never_waits_less_than_an_edge_line() {
        let waits = Waits { recover_after: Duration::from_secs(1), ..Waits::default() };
        assert_eq!(first_ready(&waits, Kind::Origin), 66);
        assert_eq!(first_ready(&waits, Kind::Edge), 66);
    }

    #[test]
    fn what_no_journal_can_bring_waits_for_nothing() {
        let kind = Kind::Elsewhere(Source::Origin);
        assert!(Waits::default().ready(UtcMicros(0), kind, T), "not even for its own time");
    }

    #[test]
    fn a_kind_becomes_the_source_it_came_from() {
        for source in Source::ALL {
            assert_eq!(Kind::of(*source).source(), *source);
        }
    }
}
