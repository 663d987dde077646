//! Links: where they are kept, how they are managed, and the listener that answers for them.
//!
//! ```text
//! token holder ──► manage ──► links (SQLite) ◄── registry, keys ── ingest, processor
//!                               │  │
//! person ──► edge ──► listener ◄┘  └──Changed──► the listener's cache
//!                        └──append──► journal (crate ingest)
//! ```
//!
//! * [`links`]: the link store: links, revisions, workspaces, tokens, and what the pipeline keeps beside them
//! * [`manage`]: the management API
//! * [`listener`]: the redirect listener
//!
//! This crate knows neither the lake nor the queries on it. A redirect needs nothing of the link store but its own
//! lookup; what fails in `manage` or in the store's writing never reaches it.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod links;
pub mod listener;
pub mod manage;
