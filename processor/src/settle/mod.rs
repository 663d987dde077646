//! Settling: arrivals into `clicks`, each request once; then compaction and clean-up (design §4.5).
//!
//! ```text
//! arrivals (edge lines that wait, late events) ──read──► union by id with `clicks` ± max skew ──► commit, fenced
//!            ▲                                                                                      │
//!            └── what waits on ◄── rows that are settled leave `arrivals` once that has landed ◄────┘
//! clicks: small files of an hour ──merge──► fewer; hours of a final day ──merge──► day files
//! ```
//!
//! * [`waits`]: when a record may be settled; [`union`](mod@union): what becomes of it; [`compact`]: what to merge.
//!   Pure.
//! * [`guard`]: lines without an event are recovered only where ids meet; `elsewhere`: when events of a provider's
//!   requests were made by others, and `withdraw`: told no longer
//! * [`ids`]: which ids the lake holds around some instants, and what their rows say
//! * `correct`: rows merged with records that know better
//! * [`behaviour`]: rows that others show to be no person's
//! * `restate`: what must be said of commits that change final numbers
//! * `sampled`: which records of `internal` links are sampled away, and what the others weigh
//! * `take_out`: an import's rows out of the tables again
//! * [`reclassify`]: rows judged anew by the rules in force; `retain`: rows older than their workspace keeps any;
//!   `remake`: files made anew in one commit
//! * [`settler`]: the task, with `desk` (look, decide, land), `thin`, `arrivals`, `leave`, `upkeep` and `merge`
//!
//! Invariants
//! * No id comes into `clicks` twice: every commit that adds or removes rows here is decided on a snapshot, and lands
//!   only if no other settler's has landed since.
//! * `complete_through` is read before the snapshot that a decision is made on.
//! * Nothing else removes files of `clicks`. No merge changes a row; a correction changes what is known of a request, and
//!   judging it anew what is made of that, never which requests there are; retention alone removes some for good.
//! * Rows in memory are bounded by a group of arrivals, or a batch of each part of a merge and its packed result.
//!
//! Failure: killed between any two steps, the next pass comes to the same rows, because what is there already is
//! counted, not added.

mod arrivals;
pub mod behaviour;
pub mod compact;
mod correct;
pub(crate) mod desk;
pub(crate) mod elsewhere;
mod error;
pub mod guard;
pub mod ids;
pub(crate) mod leave;
mod merge;
pub mod reclassify;
pub(crate) mod remake;
pub(crate) mod restate;
pub(crate) mod retain;
mod said;
pub(crate) mod sampled;
pub mod settler;
#[cfg(test)]
mod sim;
pub(crate) mod take_out;
#[cfg(test)]
mod tests;
mod thin;
pub mod union;
mod upkeep;
pub(crate) mod waiting;
pub mod waits;
mod withdraw;

pub use behaviour::BehaviourConfig;
pub use compact::CompactConfig;
pub use correct::policy::Patience;
pub use error::SettleError;
pub use guard::{DecideError, Edge, Mismatched, Standing, Word, mismatched, words_under_way};
pub use ids::IdIndex;
pub use reclassify::{Moved, Reclassified, Reclassify};
pub use remake::Looked;
pub use retain::{Kept, Limits, Retained};
pub use settler::{SettleConfig, Settled, Settler};
pub use union::{Arrival, Decision, Fate, Remark, union};
pub(crate) use upkeep::exchange;
pub use waiting::{Waiting, waiting};
pub use waits::{Kind, Waits};
