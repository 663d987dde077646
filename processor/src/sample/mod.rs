//! Lag under control: clicks of `internal` links are sampled while the lake can't keep up, fairly and by weight (design §4.6).
//!
//! ```text
//! lag, backlog ──► estimator ──► controller ──► cap: clicks of one link and second that each partition keeps
//!                                                 │
//! head of a record ──► thinner: rate of (partition, link, second) ──► hash of the id below it? ──► kept, weight 1 / rate
//!                                                 │                                             └► sampled away: remembered
//!                                                 ▼                                                 like what is kept
//!                              table `sampling`, before anything kept or sampled away at it is committed
//!                                                 │
//! whoever can't tell that an id is new ◄── the lowest rate recorded for the link near the record's time
//! ```
//! * [`control`]: whether to sample, and how far the cap goes down or up; `trend`: what that is told by; both pure
//! * [`thin`]: which rate a link's second gets, once and for all; pure
//! * `lowest`: the lowest rates near some records; pure. `book`: the same from the lake, and into it
//!
//! Invariants
//! * Clicks of `billed` links are never sampled, and no link of which fewer come than the cap is.
//! * Whatever was sampled away at a rate has that rate or a lower one recorded, for its link and second, before its
//!   position is committed. So every later judge of the id uses no higher one, and comes to the same; and reports know of the
//!   seconds between that nothing is missing.
//! * A rate depends on how many clicks come, never on which: so the weights of what is kept add up to what came, on average.
//!
//! Failure: a rate that is recorded and then not used does no harm: who judges later keeps less, and weighs it more. What the
//! lake can't tell of rates can't be judged: it is tried again.

mod book;
pub mod control;
mod lowest;
#[cfg(test)]
mod sim;
pub mod thin;
mod trend;

pub use book::rate_in_force;
pub(crate) use book::{LINES, Rate, RateBook};
pub use control::{Controller, Look, Step};
#[cfg(test)]
pub(crate) use lowest::Known;
pub(crate) use lowest::{Lowest, second_of};
pub use thin::{Cap, Thinner};
