//! The stream past one machine: journals go through a topic of a Fluvio cluster (design §4.3).
//!
//! ```text
//! journals ─► Forwarder ─► topic, by click id ─► TopicPartition ─► hot path ─► lake
//!    ▲ trimmed, sent again ◄── ports::Coverage: what the lake holds of each journal ◄──┘
//! ```
//!
//! Invariants
//! * The topic may lose, repeat and reorder: what counts is which positions of a journal the lake is known to hold. A
//!   batch says which positions it covers (`schemas::batch`); a hole is seen with the next batch and sent again. A journal
//!   keeps what isn't covered.
//! * A click's partition follows from its id alone, so all records of an id are judged in one place.
//! * Offsets mean something within one [generation](crate::ports::Generation) only; its name is part of the name of the
//!   lake's position.
//! * Everything on its way has a bounded room, and every answer a deadline.
//!
//! Failure: a cluster that is away, refuses, stalls or lies is left alone for a while and asked anew over other
//! connections; the journals keep what it hasn't taken. What neither topic nor journal has any more is lost, counted, and
//! written down.
//!
//! # Files
//! `whole` the topic as a whole · `found` comparing · `forwarder`, `forward`, `cut`, `lanes`, `lane`, `rows` the way in · `partition`,
//! `pull` the way out · `cluster`, `session` the wire · `config`, `error`, `health`, `backoff`

mod backoff;
mod cluster;
mod config;
mod cut;
mod error;
mod forward;
mod forwarder;
mod found;
mod health;
mod lane;
mod lanes;
mod partition;
mod pull;
mod rows;
mod session;
mod whole;

pub use config::{Compression, Tls, TopicConfig};
pub use error::TopicError;
pub use forwarder::{Forwarded, Forwarder};
pub use health::TopicHealth;
pub use partition::TopicPartition;
pub use whole::Topic;
