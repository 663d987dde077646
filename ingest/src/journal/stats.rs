//! What a journal tells about itself, for status and metrics.

use schemas::{JournalId, UtcMicros};

/// Why an event was not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// What is left of the budget or of the disk is kept for billed clicks.
    NearlyFull,
    /// The budget is used up, with its reserve.
    Full,
    /// The disk refused the write, and had no reserve left to give or failed otherwise.
    Disk,
    /// The journal takes no more events.
    Sealed,
    /// The event is longer than any may be.
    TooLong,
}

impl Refusal {
    /// The word for metrics and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NearlyFull => "nearly_full",
            Self::Full => "full",
            Self::Disk => "disk",
            Self::Sealed => "sealed",
            Self::TooLong => "too_long",
        }
    }

    /// The refusal of this word.
    pub fn of_word(word: &str) -> Option<Self> {
        let all = [Self::NearlyFull, Self::Full, Self::Disk, Self::Sealed, Self::TooLong];
        all.into_iter().find(|refusal| refusal.as_str() == word)
    }
}

/// Events that are gone, and when that was: enough for a row of `gaps`. Of billed clicks it is kept on disk and goes on
/// counting when the journal is opened again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// How many, since the journal was made.
    pub count: u64,
    /// So many of them were counted by a process that didn't come to its end: there may have been more.
    pub at_least: u64,
    /// Time of the first.
    pub first: Option<UtcMicros>,
    /// Time of the last.
    pub last: Option<UtcMicros>,
    /// Why the last one was.
    pub why: Option<Refusal>,
}

impl Losses {
    /// Counts some.
    pub(crate) fn add(&mut self, count: u64, time: UtcMicros, why: Refusal) {
        self.count += count;
        self.first = self.first.or(Some(time));
        self.last = Some(time);
        self.why = Some(why);
    }
}

/// What was cut off when the journal was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Torn {
    /// Bytes that were no whole frame, and frames behind them.
    pub bytes: u64,
    /// Whether answered clicks may have been among them. A kill leaves at most the beginning of a frame whose
    /// click wasn't answered yet: false then. True after a power cut.
    pub frames_lost: bool,
}

/// A place where synced frames are gone: not by a power cut, which takes only what wasn't synced.
///
/// The journal takes no more events, since the lake may hold the positions that they would get. It is read up to
/// here; an operator retires it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The first position that can't be read.
    pub position: u64,
    /// Frames were synced, or held by the lake, up to here.
    pub synced: u64,
}

/// One journal, as it stands. Counts but that of losses begin anew when it is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalStats {
    /// Its identity.
    pub id: JournalId,
    /// The first position that is left.
    pub begin: u64,
    /// The first position that is not written.
    pub end: u64,
    /// Frames below this position are on the disk, and readers see them.
    pub synced: u64,
    /// Bytes on the disk.
    pub bytes: u64,
    /// Files on the disk.
    pub segments: usize,
    /// Time of the last mark made, `None` before the first.
    pub last_mark: Option<UtcMicros>,
    /// No event gets a time before this: that of the last frame, or the journal's first mark.
    pub last_event_time: UtcMicros,
    /// What was cut off when it was opened.
    pub torn: Torn,
    /// Events that may be sampled (`internal`, `off`) and were not written.
    pub dropped: Losses,
    /// Billed clicks that were not written, ever.
    pub lost: Losses,
    /// Failed sync rounds.
    pub sync_errors: u64,
    /// Since when no sync has succeeded, when the last one failed. Readers stand still while it lasts.
    pub sync_failing_since: Option<UtcMicros>,
    /// Whether it takes no more events.
    pub sealed: bool,
    /// Where synced frames are gone, if any are.
    pub damage: Option<Damage>,
}

/// The disk budget of a node's journals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetStats {
    /// Bytes that the journals take.
    pub used: u64,
    /// Bytes that they may take.
    pub max_bytes: u64,
    /// The part of it that is kept for billed clicks.
    pub reserve: u64,
    /// Disk space that is held for the reserve.
    pub held: u64,
    /// Whether only billed clicks are taken.
    pub nearly_full: bool,
}

impl BudgetStats {
    /// What is taken of it, in percent.
    pub fn percent(&self) -> u64 {
        (u128::from(self.used) * 100 / u128::from(self.max_bytes.max(1))) as u64
    }

    /// The alarm that is on: the highest threshold, in percent, that is reached.
    pub fn alarm(&self) -> Option<u64> {
        ALARMS.into_iter().rev().find(|alarm| self.percent() >= *alarm)
    }
}

/// Percents of the disk budget at which an alarm is raised.
pub(super) const ALARMS: [u64; 2] = [50, 80];
