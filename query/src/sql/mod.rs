//! `POST /v1/sql`: one read-only statement (interface §4.2).
//!
//! ```text
//! text ─check─► one SELECT over known tables ─plan─► stream of batches ─encode─► held back ─► body
//! ```
//! Three fences, each enough by itself: the statement is looked at as a tree, the plan is checked for anything but
//! reading, and a session can reach nothing but the lake's tables ([`crate::engine`]). Only listed functions exist.
//! An answer is whole or an error: short ones are held back until they are done, long ones are cut off without their
//! proper end, so that a client can't take a part for the whole.

mod check;
pub(crate) mod encode;
pub(crate) mod functions;
mod run;

pub use encode::Format;
pub use run::{SqlAnswer, SqlStream};

pub(crate) use run::{Job, Limits, start};

#[cfg(test)]
mod tests;
