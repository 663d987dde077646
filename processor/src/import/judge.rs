//! What a request line of a link comes to: a click, or counted before by rule, or not counted at all. Pure.

use std::time::Duration;

use ingest::edge::{EdgeClass, Ids};
use ingest::ports::RegisteredJournal;
use schemas::{Analytics, UtcMicros};

use crate::settle::Kind;
use crate::settle::elsewhere::Elsewhere;

/// What a line comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// A record for the union by id.
    Record(Kind),
    /// Its event was counted, as its cache status says.
    Counted,
    /// Its link is not counted.
    Off,
}

/// Which requests have left events: of our own redirect, or of another that tells us of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OwnEvents {
    /// Our redirect's: none before this; `None`: none ever.
    since: Option<UtcMicros>,
    /// Whether requests of internal links do. With ids that don't meet they leave none: every viewer line is the click.
    internal: bool,
    /// Those made elsewhere, by workspace: whatever the link's promise, as whoever made them knew nothing of it.
    elsewhere: Elsewhere,
    /// How far clocks may be apart.
    skew: Duration,
    /// How long whoever has told of events is taken to go on.
    goes_on: Duration,
}

impl OwnEvents {
    /// Where an edge with ids as `edge_ids` is in front of our redirect. An event can be no older than the first journal,
    /// give or take the greatest `skew`. `elsewhere`: the events made elsewhere of requests that came through the edge at
    /// hand; whoever has told of some `goes_on` for so long, as a log may come before the events of its hours.
    pub(super) fn of(
        edge_ids: Ids,
        journals: &[RegisteredJournal],
        elsewhere: Elsewhere,
        (skew, goes_on): (Duration, Duration),
    ) -> Self {
        let first = journals.iter().map(|journal| journal.registered_at).min();
        let since = first.map(|first| first.minus(skew));
        Self { since, internal: edge_ids == Ids::Trusted, elsewhere, skew, goes_on }
    }

    /// Whether there may be any at all.
    pub(super) fn are_possible(&self) -> bool {
        self.since.is_some() || self.elsewhere != Elsewhere::default()
    }

    /// Whether a request has left an event, if it reached the origin.
    fn has(&self, request: Asked<'_>) -> bool {
        self.ours(request) || self.made_elsewhere(request)
    }

    /// Whether a request has left an event under the id that its edge gave it, if it reached the origin. `ours_named`:
    /// those of our redirect have that edge's ids.
    pub(super) fn has_named(&self, request: Asked<'_>, ours_named: bool) -> bool {
        (ours_named && self.ours(request)) || self.made_elsewhere(request)
    }

    fn ours(&self, request: Asked<'_>) -> bool {
        let emits = request.analytics != Analytics::Internal || self.internal;
        // what is no link of ours was answered 404 here, whoever answered it 302
        request.is_link && emits && self.since.is_some_and(|since| request.time >= since)
    }

    fn made_elsewhere(&self, request: Asked<'_>) -> bool {
        self.elsewhere.tells_of(request.workspace, request.time, self.skew, self.goes_on)
    }
}

/// What was asked for, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked<'a> {
    /// Whether it is a link of ours.
    pub(super) is_link: bool,
    /// Whose it is.
    pub(super) workspace: &'a str,
    /// The promise that held then.
    pub(super) analytics: Analytics,
    /// When.
    pub(super) time: UtcMicros,
}

/// Judges one line. With trusted ids the union decides and cache status only says how long to wait; otherwise the
/// status decides, unless there can have been no event that was counted.
pub(super) fn judge(ids: Ids, class: EdgeClass, asked: Asked<'_>, events: &OwnEvents) -> Word {
    if asked.analytics == Analytics::Off {
        return Word::Off;
    }
    match (class, ids) {
        (EdgeClass::Edge, _) => Word::Record(Kind::Edge),
        (EdgeClass::Origin, Ids::StatusOnly) if events.has(asked) => Word::Counted,
        (EdgeClass::Origin, _) => Word::Record(Kind::Origin),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ingest::ports::JournalState;
    use schemas::JournalId;

    const SKEW: Duration = Duration::from_micros(10);

    fn events(edge_ids: Ids, registered: &[i64]) -> OwnEvents {
        let journals: Vec<RegisteredJournal> = registered
            .iter()
            .map(|at| RegisteredJournal {
                id: JournalId::new(),
                node: "n".into(),
                registered_at: UtcMicros(*at),
                state: JournalState::Closed,
                through: UtcMicros(*at),
                committed: 0,
                forwarded: false,
            })
            .collect();
        OwnEvents::of(edge_ids, &journals, Elsewhere::default(), (SKEW, SKEW))
    }

    fn word(ids: Ids, class: EdgeClass, analytics: Analytics, time: i64, events: &OwnEvents) -> Word {
        judge(ids, class, Asked { is_link: true, workspace: "w", analytics, time: UtcMicros(time) }, events)
    }

    #[test]
    fn with_trusted_ids_every_line_goes_to_the_union() {
        let events = events(Ids::Trusted, &[100]);
        let billed = Analytics::Billed;
        assert_eq!(word(Ids::Trusted, EdgeClass::Edge, billed, 500, &events), Word::Record(Kind::Edge));
        assert_eq!(word(Ids::Trusted, EdgeClass::Origin, billed, 500, &events), Word::Record(Kind::Origin));
        assert_eq!(word(Ids::Trusted, EdgeClass::Edge, Analytics::Off, 500, &events), Word::Off);
    }

    #[test]
    fn by_status_the_origins_lines_are_counted_where_it_could_have_counted() {
        let origin =
            |analytics, time, events: &OwnEvents| word(Ids::StatusOnly, EdgeClass::Origin, analytics, time, events);
        let ours = events(Ids::StatusOnly, &[300, 100]);
        assert_eq!(origin(Analytics::Billed, 90, &ours), Word::Counted);
        assert_eq!(origin(Analytics::Billed, 89, &ours), Word::Record(Kind::Origin), "before the first journal");
        assert_eq!(origin(Analytics::Internal, 500, &ours), Word::Record(Kind::Origin), "internal links emit nothing");
        let never = events(Ids::StatusOnly, &[]);
        assert_eq!(origin(Analytics::Billed, 500, &never), Word::Record(Kind::Origin));
        let asked = Asked { is_link: false, workspace: "w", analytics: Analytics::Billed, time: UtcMicros(500) };
        let no_link = judge(Ids::StatusOnly, EdgeClass::Origin, asked, &ours);
        assert_eq!(no_link, Word::Record(Kind::Origin), "our redirect would not have answered it");
        assert_eq!(word(Ids::StatusOnly, EdgeClass::Edge, Analytics::Billed, 500, &ours), Word::Record(Kind::Edge));
    }

    #[test]
    fn by_status_the_origins_lines_are_counted_where_events_are_made_elsewhere() {
        const MINUTE: i64 = 60_000_000;
        let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
        let made =
            |of: &[(&str, i64)]| of.iter().map(|(who, at)| ((*who).to_owned(), UtcMicros(at * MINUTE))).collect();
        let made = made(&[("w", 1_000), ("v", 5_000)]);
        let events = OwnEvents::of(Ids::StatusOnly, &[], made, (minutes(10), minutes(120)));
        let origin = |at, analytics| word(Ids::StatusOnly, EdgeClass::Origin, analytics, at * MINUTE, &events);
        assert_eq!(origin(990, Analytics::Billed), Word::Counted);
        assert_eq!(origin(989, Analytics::Billed), Word::Record(Kind::Origin));
        assert_eq!(origin(990, Analytics::Internal), Word::Counted, "they were told of all");
        assert_eq!(origin(1_020 + 119, Analytics::Billed), Word::Counted, "their events may still come");
        assert_eq!(
            origin(1_020 + 120, Analytics::Billed),
            Word::Record(Kind::Origin),
            "an event tells for its own time"
        );
        let by = |ids, workspace| {
            let asked =
                Asked { is_link: false, workspace, analytics: Analytics::Billed, time: UtcMicros(1_001 * MINUTE) };
            judge(ids, EdgeClass::Origin, asked, &events)
        };
        assert_eq!(by(Ids::StatusOnly, "w"), Word::Counted, "whoever made them answered codes that we don't know");
        assert_eq!(by(Ids::StatusOnly, "v"), Word::Record(Kind::Origin));
        assert_eq!(by(Ids::StatusOnly, "u"), Word::Record(Kind::Origin));
        assert_eq!(by(Ids::Trusted, "w"), Word::Record(Kind::Origin));
    }
}
