//! An operator's word on an hour whose ids don't meet, and all that follows from it.
//!
//! ```text
//! word written ──┬── counted: rows that were recovered before go ────────────────────┬──► carried out ──► what waits
//! (under way)    └── recovered, after it was counted: its logs are decided anew ─────┘                    is settled
//! ```
//! Lines that were counted have left nothing behind, so a word that is taken back brings them again from where they came.
//!
//! Failure: until all is done the word says of itself that it is under way, and so is found: the same word again, given by
//! anybody, goes on with it.

use schemas::UtcMicros;
use schemas::time::HOUR;

use super::again::{found_again, mark, marked, names};
use super::importer::{Importer, Tables};
use super::set_back::{UnderWay, set_back};
use super::stored::Stored;
use crate::settle::guard::Spoken;
use crate::settle::guard::party::tenant_of;
use crate::settle::{DecideError, SettleError, Settled, Standing};

/// What an operator's word has come to.
#[derive(Clone, Debug)]
pub struct Decided {
    /// The other word that was given before.
    pub was: Option<Standing>,
    /// What of the lines that waited was settled.
    pub settled: Settled,
    /// Rows that had been recovered and have left `clicks`.
    pub taken_out: u64,
    /// Imports to be taken in again: until then, lines of theirs may be missing from the counts.
    pub again: Vec<Stored>,
}

impl Importer {
    /// Decides the hour that begins at `hour`: its lines without an event, and those that still come, are settled as
    /// `word`. `provider` as [`Mismatched`](crate::settle::Mismatched) names it. What is to be taken in again is up to the
    /// caller, by [`Importer::import`] with the options that each was told.
    ///
    /// # Errors
    /// As [`DecideError`] says; the same word again goes on where it was broken off.
    pub async fn settle_hour(&self, provider: &str, hour: UtcMicros, word: Standing) -> Result<Decided, DecideError> {
        let mut tables = self.shared.tables().await.map_err(DecideError::from)?;
        let decided = settle_hour(&mut tables, provider, hour, word).await;
        self.shared.give_back(tables);
        decided
    }
}

async fn settle_hour(
    tables: &mut Tables,
    provider: &str,
    hour: UtcMicros,
    word: Standing,
) -> Result<Decided, DecideError> {
    let Spoken { was, is_under_way } = tables.settler.say(provider, hour, word).await?;
    let (mut taken_out, mut again) = (0, Vec::new());
    match word {
        Standing::Counted => taken_out = tables.settler.take_out_recovered(provider, hour).await?,
        Standing::Recovered if is_under_way => again = anew(tables, provider, hour).await?,
        // whoever gave it may have been killed before all were taken in again
        Standing::Recovered => again = marked(tables, &whose(provider, hour)).await?,
        Standing::Open => {}
    }
    tables.settler.carried_out(provider, hour, word).await?;
    Ok(Decided { was, taken_out, again, settled: tables.settler.settle().await? })
}

/// For whose sake logs are decided anew.
fn whose(provider: &str, hour: UtcMicros) -> String {
    format!("{provider} {hour}")
}

/// Has the logs with lines of an hour decided anew.
async fn anew(tables: &mut Tables, provider: &str, hour: UtcMicros) -> Result<Vec<Stored>, SettleError> {
    let is_near = |other: &Stored| may_concern(other, provider) && other.meets(hour, UtcMicros(hour.0 + HOUR - 1));
    let again = found_again(tables, "", false, is_near).await?;
    mark(tables, None, &whose(provider, hour), &again).await?;
    // one that somebody has brought again in between has been marked nevertheless: it is decided anew once more
    set_back(tables, &names("", &again), UnderWay::Too).await?;
    Ok(again)
}

/// Whether a log may have lines that are of a party's hours.
fn may_concern(import: &Stored, party: &str) -> bool {
    let (provider, tenant) = party.split_once('/').map_or((party, None), |(provider, tenant)| (provider, Some(tenant)));
    let of = import.options.as_ref().and_then(|options| tenant_of(options.workspace.as_deref()));
    import.provider == provider && !import.is_of_events() && (of.is_none() || of == tenant)
}
