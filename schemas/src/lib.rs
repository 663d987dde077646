//! What crosses a border between Highwater's parts: the words of the field as types, the wire format of a
//! click event, and the schemas of the lake's tables. Nothing here does I/O.
//!
//! ```text
//! redirect ──ClickEvent (wire)──► journal ──► processor ──Click (click)──► lake (tables) ──► query
//! ```
//!
//! * [`ids`] identities (`ClickId`, `LinkId`, journal names)
//! * [`time`]: instants as microseconds UTC, dates and hours
//! * [`class`]: what sort of client a click was, and where its record came from
//! * [`link`]: links, their revisions, tenants' principals
//! * [`code`]: which code a path names
//! * [`event`], [`wire`]: a click as the redirect saw it, and its bytes
//! * [`batch`]: clicks of a journal as one record of the topic, and its bytes
//! * [`click`], [`click_rows`]: a row of table `clicks`, into columns and back
//! * [`keep`]: how long a workspace's rows are kept
//! * [`privacy`]: what is not to be known of people
//! * [`sampling`]: which clicks of a sampled link are kept
//! * [`hourly`], [`sketch`]: a row of table `clicks_hourly`, and the visitors that it counts
//! * [`tables`]: the other tables of the lake; [`restatement`]: the words of one of them

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod batch;
pub mod class;
pub mod click;
pub mod click_rows;
pub mod code;
pub mod event;
pub mod hourly;
pub mod ids;
pub mod keep;
pub mod link;
pub mod privacy;
pub mod restatement;
pub mod sampling;
pub mod sketch;
pub mod tables;
pub mod time;
pub mod visitor;
pub mod wire;

pub use class::{Class, Device, Method, Source};
pub use click::{Click, ClickBuilder};
pub use click_rows::ClickRows;
pub use event::ClickEvent;
pub use ids::{ClickId, JournalId, LinkId};
pub use keep::Keep;
pub use link::{Analytics, Link, LinkHistory, LinkStatus, Principal, Revision, Scope};
pub use time::UtcMicros;
