//! A request becomes a row: browser, system and device, class, referrer, campaign, language, country, network.
//!
//! ```text
//! ClickEvent (journal) ──event_row()─► ClickRow     agent ─► cache ─(first time)─► uap-core + rules
//! EdgeRequest (edge log) ─edge_row()─► ClickRow
//! ```
//!
//! One [`Enricher`] serves the hot path and all imports, so that an event and its log line come out alike. What an
//! agent says is worked out once per distinct agent and kept in a bounded cache that all threads share. A row borrows its
//! texts, and is written down at once. Nothing here fails: what can't be made out is `None`, or `unknown`.
//!
//! * `agent`: user agents by uap-core's rules; `device`: the sort of device
//! * `force`: the rules in force, which may change while rows are made
//! * `cache`, `intern`, `short`: what makes the common case cheap
//! * `referrer`, `utm`, `locale`: what the request's texts say; `place`: where it came from
//! * [`facts`], `merge`: whether a record knows better than a row, and the row that knows what both know
//! * `rejudge`: rows judged anew, from what they have kept of their requests

mod agent;
mod cache;
mod device;
mod enricher;
pub mod facts;
mod force;
mod intern;
pub(crate) mod locale;
mod merge;
mod place;
mod referrer;
pub(crate) mod rejudge;
mod short;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod utm;

#[cfg(test)]
mod cases;
#[cfg(test)]
mod parity;
#[cfg(test)]
mod tests;

pub use enricher::{EdgeLine, EnrichConfig, Enricher};
pub use facts::Facts;
pub use force::{Rules, mark};
