//! Getting clicks in: from a redirect's answer to durable bytes and out again as an ordered stream, and from
//! edge log files to normalised requests.
//!
//! ```text
//! redirect ──append──► journal ──(embedded: is the stream)──► stream::Partition ──► processor
//! edge log file ──► edge::Reader ──► edge::EdgeRequest or edge::Reject          ──► processor
//! events made elsewhere ──► events::EventLines ──► the same
//! ```
//!
//! * [`journal`]: a redirect worker's own durable log (design §4.2)
//! * [`stream`]: the ordered, partitioned log that processors read (design §4.3)
//! * [`topic`]: the same past one machine, through a Fluvio cluster
//! * [`edge`]: edge logs, one file a format
//! * [`events`]: click events made elsewhere
//! * [`ports`]: what the link store does for the pipeline, as traits
//! * [`queue`]: edge logs that wait for their turn

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod edge;
pub mod events;
pub mod journal;
pub mod ports;
pub mod queue;
pub mod stream;
pub mod topic;
