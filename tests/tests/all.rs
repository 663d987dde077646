//! The whole, as its users meet it: the real binary, a real edge, real kills. One binary, so that it links once.

#![allow(clippy::unwrap_used, missing_docs)]

mod behaviour;
mod bucket;
mod corrections;
mod crash;
mod deploy;
mod edge_logs;
mod errors;
mod events;
mod exact;
mod geo;
mod losses;
mod networks;
mod postgres;
mod privacy;
mod product;
mod reclassify;
mod retention;
mod roles;
mod rules;
mod sampled;
mod sampling;
mod sharing;
mod standin;
mod starts;
mod stream;
mod ways_in;

use std::path::Path;

/// The binary under test.
fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_highwater"))
}
