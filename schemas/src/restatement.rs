//! Why numbers that were final have changed: column `why` of table `restatements`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::class::{UnknownWord, vocabulary};

vocabulary! {
    /// Why final numbers have changed.
    Why {
        /// An import of old lines or events.
        Backfill = "backfill",
        /// Events that came late, as of a journal that returned.
        Late = "late",
        /// An import was taken back.
        Revert = "revert",
        /// Records that know better than the row of their request.
        Correction = "correction",
        /// Requests that others showed to be no person's.
        Behaviour = "behaviour",
        /// An operator has said that lines of an hour are counted, of which some had been recovered.
        Decision = "decision",
        /// Rows were judged anew by other rules.
        Reclassify = "reclassify",
        /// Rows were older than their workspace keeps any: those up to the restatement's `end` are gone.
        Retention = "retention",
    }
}
