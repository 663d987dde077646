//! Requests that several others show to be no person's: found in `clicks`, and moved out of class `human`.
//!
//! ```text
//! complete_through goes on ──every few seconds──► rows of that stretch, and a little before it
//!                                                      │ policy: signs
//!                                                      ▼
//!                      files made anew with other verdicts, one commit, told if any of it was final
//! ```
//! * `policy`: which; `read`: of what; `moving`: the change
//!
//! Looked for in the lake rather than in the stream: there the requests of a visitor are together, whichever processor
//! has read each. Requests of a stretch are looked at when all of them are there, so what is found doesn't depend on who
//! was faster.
//!
//! Invariants
//! * Nothing leaves `human` for its behaviour once its hour is final, and nothing ever comes into it.
//! * Memory is bounded by `MOST_ROWS`, whatever comes in a stretch: of more the visitors are looked at in parts.
//!
//! Failure: killed in between, nothing has changed. The next start looks at the last hour again; what was moved before is
//! known by its reason.

mod moving;
mod policy;
mod read;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::time::Duration;

use ipnet::IpNet;
use schemas::UtcMicros;
use schemas::time::HOUR;

use self::moving::Moving;
pub use self::policy::BehaviourConfig;
use self::policy::signs;
use self::read::{Share, Sort, Wanted};
use super::error::SettleError;
use super::settler::Settler;
use super::upkeep::BACKLOG;
use crate::classify::Sign;

/// How often is looked.
const EVERY: Duration = Duration::from_secs(10);
/// So much of time is looked at at once.
const STRETCH: Duration = Duration::from_secs(600);
/// A start looks so far back.
const BACK: Duration = Duration::from_secs(3_600);
/// Rows held at once, at most.
const MOST_ROWS: usize = 200_000;
/// In so many parts, at most, are the visitors of a stretch looked at.
const MOST_PARTS: u64 = 64;

/// How far a settler has looked.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Looked {
    through: Option<UtcMicros>,
    at: Option<UtcMicros>,
}

impl Settler {
    /// Looks at what has come since the last time, when it is time. Returns how many rows were moved.
    pub(super) async fn look_at_behaviour(
        &mut self,
        now: UtcMicros,
        complete_through: UtcMicros,
    ) -> Result<u64, SettleError> {
        let config = self.config.behaviour;
        // one that works off a backlog is left the processor
        let lag = self.hot.as_ref().map_or(0.0, |hot| hot.borrow().lag_seconds);
        if config.is_off() || lag >= BACKLOG || self.behaviour.at.is_some_and(|at| now.since(at) < EVERY) {
            return Ok(0);
        }
        self.behaviour.at = Some(now);
        let through = complete_through.min(now);
        // what is in an hour that is final stays where it is
        let movable =
            self.desk.final_through().await?.map_or(UtcMicros(i64::MIN), |time| UtcMicros(time.hour() * HOUR));
        let mut from = self.behaviour.through.unwrap_or(through.minus(BACK)).max(movable);
        let mut moved = 0;
        while from < through && !self.stop.is_cancelled() {
            let to = from.plus(STRETCH).min(through);
            moved += self.look_at_stretch(from.minus(config.within)..to, movable).await?;
            from = to;
            self.behaviour.through = Some(from);
        }
        Ok(moved)
    }

    async fn look_at_stretch(&mut self, times: Range<UtcMicros>, movable: UtcMicros) -> Result<u64, SettleError> {
        let (config, clicks) = (self.config.behaviour, &self.desk.clicks);
        let mut moving = Moving::new(self.enricher.classifier().version());
        let enricher = std::sync::Arc::clone(&self.enricher);
        let sort = |network: IpNet| match network.addr() {
            address if enricher.is_peoples(address) => Sort::Peoples,
            address if enricher.hosting(address).is_some() => Sort::Hosting,
            _ => Sort::Ordinary,
        };
        let counts = match config.least_requests() {
            Some(least) => Some((read::counts(clicks, &times).await?, least)),
            None => None,
        };
        let often = counts.as_ref().map(|(counts, least)| (counts, *least));
        let hosted = !config.new_link.is_zero() && enricher.has_hosting();
        let wanted = Wanted { times, often, hosted };
        let (mut number, mut of) = (0, 1);
        while number < of {
            let share = Share { number, of };
            let Some(rows) = read::rows(clicks, &wanted, share, MOST_ROWS, sort).await? else {
                if of < MOST_PARTS {
                    (number, of) = (0, of * 2);
                } else {
                    tracing::warn!(from = %wanted.times.start, "more requests of some visitors than are looked at for their behaviour");
                    number += 1;
                }
                continue;
            };
            let mut requests: Vec<_> = rows.iter().map(read::Row::request).collect();
            let found = signs(&mut requests, &config);
            for row in rows.iter().filter(|row| row.is_human && row.time >= movable) {
                if let Some(sign) = found.get(&row.id) {
                    moving.add(row.id, row.time, *sign);
                }
            }
            number += 1;
        }
        if moving.is_empty() {
            return Ok(0);
        }
        let moved = self.move_rows(&moving).await?;
        for sign in Sign::ALL {
            self.metrics.note_behaviour(sign.reason(), moving.count(sign));
        }
        Ok(moved)
    }
}
