//! From events and edge log lines to the lake (design §4.4–4.5).
//!
//! ```text
//! journals ──hot::HotPath──► clicks (late events: arrivals; what can't be read: rejects)
//! edge logs ──import──► arrivals or clicks ──settle──► clicks, compacted and cleaned up
//! ```
//!
//! Two writers of `clicks` and no third: the hot path appends, the settler settles and alone removes files. Progress
//! is an application transaction in the commit that makes it, so a kill at any moment loses and doubles nothing.
//!
//! * [`classify`] – who made a request, by the rules of `rules.toml`
//! * [`enrich`] – browser, system, device, referrer, campaign, language; event or log line → row
//! * [`gaps`] – clicks known to be missing
//! * [`geo`] – where an address is, by a geography database
//! * [`hot`] – partitions of the stream into `clicks`
//! * [`import`] – edge logs, chunk by chunk
//! * [`lake`] – the Delta tables and their commits
//! * [`metrics`] – what is counted
//! * [`networks`] – published lists of networks, and what each means
//! * [`sample`] – clicks of `internal` links sampled under backlog
//! * [`settle`] – arrivals into `clicks`, each request once; compaction and clean-up
//! * [`sketch`] – visitors of what was sampled away
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod classify;
pub mod enrich;
pub mod gaps;
pub mod geo;
pub mod hot;
pub mod import;
pub mod lake;
pub mod metrics;
pub mod networks;
pub mod sample;
pub mod settle;
pub mod sketch;
