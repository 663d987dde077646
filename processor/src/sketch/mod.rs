//! What was sampled away leaves its visitors in table `clicks_hourly` (design §4.6).
//!
//! ```text
//! clicks of a group that were sampled away ──► Hours: a sketch a link, class and hour ──► rows, before the commit that
//!                                                                                         leaves the clicks out
//! upkeep: small files of one day ──► one row a key ──► one file
//! ```
//! Invariants: rows of one key mean their union, so a click that is written again (a commit tried anew, a replay) changes
//! nothing, and neither does a merge; a click is here before a commit leaves it out of `clicks` for good.
//! Failure: what couldn't be written fails the commit that it belongs to.

mod hours;
mod merge;

use arrow::error::ArrowError;
use parquet::errors::ParquetError;
use schemas::{Class, Click, LinkId, UtcMicros};

use self::hours::Hours;
pub(crate) use self::merge::tidy;
use crate::lake::{Change, CommitError, LakeError, TableHandle};

/// A click that was sampled away, as far as it still counts.
#[derive(Clone, Copy, Debug)]
pub struct SampledAway<'a> {
    /// When.
    pub event_time: UtcMicros,
    /// The tenant.
    pub workspace: &'a str,
    /// The link.
    pub link_id: LinkId,
    /// Host name of the link.
    pub domain: &'a str,
    /// Code of the link.
    pub code: &'a str,
    /// What sort of client.
    pub class: Class,
    /// Visitor hash, if any.
    pub visitor: Option<i64>,
    /// The rate that its hash has failed.
    pub rate: f64,
}

impl<'a> SampledAway<'a> {
    /// One that came to a row before it was sampled away; `None` without a link, of which none is.
    pub(crate) fn of_row(click: &'a Click, rate: f64) -> Option<Self> {
        Some(Self {
            event_time: click.event_time,
            workspace: &click.workspace,
            link_id: click.link_id?,
            domain: &click.domain,
            code: &click.code,
            class: click.verdict.class,
            visitor: click.visitor,
            rate,
        })
    }
}

/// Writes what these clicks leave; nothing when there are none.
///
/// # Errors
/// As [`CommitError`] says; nothing is known to be written.
pub async fn write(table: &mut TableHandle, clicks: &[SampledAway<'_>]) -> Result<(), CommitError> {
    if clicks.is_empty() {
        return Ok(());
    }
    let mut hours = Hours::default();
    let rows = clicks.iter().try_for_each(|click| hours.add(click)).and_then(|()| hours.to_batch());
    let rows = rows.map_err(|error| CommitError::Failed(unfit(table, error)))?;
    let add = table.write(&rows).await.map_err(CommitError::Failed)?;
    table.commit(Change { add, ..Change::default() }).await.map(drop)
}

fn unfit(table: &TableHandle, error: ArrowError) -> LakeError {
    LakeError::Rows { table: table.table(), doing: "building rows", source: ParquetError::from(error) }
}

#[cfg(test)]
mod tests;
