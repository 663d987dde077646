//! What is wrong with a journal, as registry, lake and disk together tell. Pure, but for the look at the disk.

use std::fmt;
use std::path::{Path, PathBuf};

use ingest::journal::{Damage, Inspection, inspect};
use ingest::ports::{JournalState, RegisteredJournal};
use processor::hot;
use processor::lake::TableHandle;
use schemas::{JournalId, UtcMicros};

/// What the lake holds of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    /// The first position that it lacks.
    pub(crate) below: u64,
    /// Whether the journal was given up.
    pub(crate) retired: bool,
}

impl Held {
    /// As the table's transactions say; of a journal that goes through a topic, as is published of its coverage.
    pub(crate) fn of(clicks: &TableHandle, known: &RegisteredJournal) -> Self {
        let below = if known.forwarded { known.committed } else { hot::position(clicks, known.id) };
        Self { below, retired: hot::is_retired(clicks, known.id) }
    }
}

/// What is wrong with a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// It is open, and its folder is gone.
    Missing,
    /// Frames that were synced can't be read.
    Damaged(Damage),
    /// It ends before what the lake holds of it.
    Short {
        /// Where it ends.
        end: u64,
        /// The first position that the lake lacks.
        held: u64,
    },
    /// It begins behind what the lake holds of it: what was in between is nowhere.
    Gone {
        /// Where it begins.
        begin: u64,
        /// The first position that the lake lacks.
        held: u64,
    },
    /// The lake has lost what it held: it was an older one that is there now, or another.
    Behind {
        /// The first position that it should lack.
        registered: u64,
        /// The first that it lacks.
        held: u64,
    },
    /// It can't be read at all.
    Unreadable(String),
    /// It is given up, and on another machine: what that had not sent yet may be lost.
    Elsewhere,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => write!(f, "it is registered as open, and its folder is gone"),
            Self::Damaged(Damage { position, synced }) => {
                write!(f, "it is damaged: frames from position {position} on can't be read, and {synced} were synced")
            }
            Self::Short { end, held } => write!(f, "it ends at position {end}, and the lake holds it below {held}"),
            Self::Gone { begin, held } => {
                write!(f, "it begins at position {begin}, and the lake holds it only below {held}")
            }
            Self::Behind { registered, held } => {
                write!(
                    f,
                    "the lake is behind the registry: it held the journal below {registered}, and now below {held}"
                )
            }
            Self::Unreadable(why) => write!(f, "it can't be read: {why}"),
            Self::Elsewhere => write!(f, "its node, which has its folder, is gone"),
        }
    }
}

impl Trouble {
    /// What to do about it.
    pub(crate) fn way_out(&self, id: JournalId) -> String {
        let restore = match self {
            Self::Behind { .. } => "restore the lake",
            _ => "put back what is missing",
        };
        format!("{restore}, or `highwater journal retire {id}` gives it up and writes the loss down")
    }

    /// Why clicks are missing, as a row of `gaps` says it.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Missing => "journal missing",
            Self::Damaged(_) | Self::Short { .. } | Self::Gone { .. } | Self::Unreadable(_) => "journal damaged",
            Self::Behind { .. } => "lake lost",
            Self::Elsewhere => "node gone",
        }
    }
}

/// What the disk says of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// What is there.
    Here(Inspection),
    /// It has no folder.
    Nothing,
    /// It can't be read.
    Unreadable(String),
}

impl Found {
    /// Looks at the journal `id` below `journals` from position `from` on.
    pub(crate) async fn look(journals: &Path, id: JournalId, from: u64) -> Self {
        let journals = PathBuf::from(journals);
        let looked = tokio::task::spawn_blocking(move || inspect(&journals, id, from)).await;
        match looked {
            Ok(Ok(Some(found))) => Self::Here(found),
            Ok(Ok(None)) => Self::Nothing,
            Ok(Err(error)) => Self::Unreadable(error.to_string()),
            Err(panic) => Self::Unreadable(panic.to_string()),
        }
    }
}

/// What is wrong with a journal, if anything is. One that was given up has had its loss written down. `is_of_here`: it was made
/// in the folder that was looked at.
pub(crate) fn trouble(known: &RegisteredJournal, held: Held, found: &Found, is_of_here: bool) -> Option<Trouble> {
    let below = held.below;
    let behind = Trouble::Behind { registered: known.committed, held: below };
    let is_behind = known.committed > below;
    if held.retired {
        return None;
    }
    if known.state != JournalState::Open {
        return is_behind.then_some(behind);
    }
    match found {
        // its own node has it, as far as anybody else can tell
        Found::Nothing if known.forwarded && !is_of_here => None,
        Found::Nothing => Some(Trouble::Missing),
        Found::Unreadable(why) => Some(Trouble::Unreadable(why.clone())),
        Found::Here(_) if is_behind => Some(behind),
        Found::Here(found) if found.begin > below => Some(Trouble::Gone { begin: found.begin, held: below }),
        Found::Here(found) => match found.damage {
            Some(damage) => Some(Trouble::Damaged(damage)),
            None => (found.end < below).then_some(Trouble::Short { end: found.end, held: below }),
        },
    }
}

/// From when to when clicks of a journal in trouble may be missing. `changed` is when its folder, or the one that held
/// it, last changed: no frame of it is later, and nothing else tells when all that is left of it is older.
pub(crate) fn span(
    known: &RegisteredJournal,
    trouble: &Trouble,
    found: &Found,
    changed: UtcMicros,
) -> (UtcMicros, UtcMicros) {
    let (before, newest) = match found {
        Found::Here(found) => (found.before, found.newest),
        Found::Nothing | Found::Unreadable(_) => (None, None),
    };
    let start = match trouble {
        // how much of it the lake held when is not known any more
        Trouble::Behind { .. } => before.unwrap_or(known.registered_at),
        _ => before.unwrap_or(known.through).max(known.through),
    };
    let end = newest.unwrap_or(start).max(known.through).max(start);
    match trouble {
        Trouble::Damaged(_) | Trouble::Gone { .. } | Trouble::Behind { .. } => (start, end),
        Trouble::Missing | Trouble::Short { .. } | Trouble::Unreadable(_) | Trouble::Elsewhere => {
            (start, end.max(changed))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(state: JournalState, committed: u64) -> RegisteredJournal {
        let (registered_at, through) = (UtcMicros(10), UtcMicros(100));
        RegisteredJournal {
            id: JournalId::new(),
            node: "n".into(),
            registered_at,
            state,
            through,
            committed,
            forwarded: false,
        }
    }

    fn here(begin: u64, end: u64, damage: Option<Damage>) -> Found {
        let (before, newest) = (Some(UtcMicros(110)), Some(UtcMicros(300)));
        Found::Here(Inspection { begin, end, before, newest, damage, ..Inspection::default() })
    }

    #[test]
    fn each_trouble_is_known_and_nothing_else_is_one() {
        let damage = Damage { position: 7, synced: 9 };
        let held = |below| Held { below, retired: false };
        let open = known(JournalState::Open, 5);
        for (found, held_below, expected) in [
            (here(0, 9, None), 5, None),
            (here(5, 5, None), 5, None),
            (here(0, 9, None), 8, None),
            (Found::Nothing, 5, Some(Trouble::Missing)),
            (here(0, 7, Some(damage)), 5, Some(Trouble::Damaged(damage))),
            (here(0, 4, None), 5, Some(Trouble::Short { end: 4, held: 5 })),
            (here(6, 9, None), 5, Some(Trouble::Gone { begin: 6, held: 5 })),
            (here(0, 9, None), 4, Some(Trouble::Behind { registered: 5, held: 4 })),
            (Found::Unreadable("x".into()), 5, Some(Trouble::Unreadable("x".into()))),
        ] {
            assert_eq!(trouble(&open, held(held_below), &found, false), expected, "{found:?}, {held_below}");
            assert_eq!(
                trouble(&open, Held { below: held_below, retired: true }, &found, true),
                None,
                "it is written down"
            );
        }
        let closed = known(JournalState::Closed, 5);
        assert_eq!(trouble(&closed, held(5), &Found::Nothing, true), None, "its folder goes when it is closed");
        assert!(matches!(trouble(&closed, held(0), &Found::Nothing, true), Some(Trouble::Behind { .. })));
        let forwarded = RegisteredJournal { forwarded: true, ..open };
        assert_eq!(trouble(&forwarded, held(5), &Found::Nothing, false), None, "its own node has it");
        assert_eq!(trouble(&forwarded, held(5), &Found::Nothing, true), Some(Trouble::Missing));
    }

    #[test]
    fn a_loss_is_from_what_the_lake_holds_to_the_newest_that_is_known() {
        let open = known(JournalState::Open, 5);
        let (changed, at) = (UtcMicros(900), |start, end| (UtcMicros(start), UtcMicros(end)));
        let damaged = Trouble::Damaged(Damage { position: 7, synced: 9 });
        assert_eq!(span(&open, &damaged, &here(0, 7, None), changed), at(110, 300));
        assert_eq!(span(&open, &Trouble::Missing, &Found::Nothing, changed), at(100, 900));
        assert_eq!(span(&open, &Trouble::Missing, &Found::Nothing, UtcMicros(50)), at(100, 100), "a restored folder");
        let behind = Trouble::Behind { registered: 5, held: 0 };
        assert_eq!(span(&open, &behind, &Found::Nothing, changed), at(10, 100));
    }
}
