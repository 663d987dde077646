//! `POST /v1/sql`: one read-only statement (interface §4.2).
//!
//! ```text
//! text ─check, weigh─► one SELECT over known tables ─plan─► stream of batches ─encode─► held back ─► body
//! ```
//! Three fences, each enough by itself: the statement is looked at as a tree, the plan is checked for anything but
//! reading, and a session can reach nothing but the lake's tables ([`crate::engine`]). Only listed functions exist.
//! What would be too deep, or become too big, is refused before it is planned; and planning, which nothing can stop, has a
//! thread of its own and keeps its place among the queries until it ends, whoever still waits for it.
//! An answer is whole or an error: short ones are held back until they are done, long ones are cut off without their
//! proper end, so that a client can't take a part for the whole.

mod check;
pub(crate) mod encode;
pub(crate) mod functions;
mod grow;
mod out;
mod pairs;
mod run;
mod weigh;

pub use encode::Format;
pub use out::SqlStream;
pub use run::SqlAnswer;

pub(crate) use out::Limits;
pub(crate) use run::{Job, start};

#[cfg(test)]
mod tests;
