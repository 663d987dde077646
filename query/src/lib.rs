//! Questions about the lake, and their answers: reports, SQL, status, and a first page for people.
//!
//! ```text
//!            ┌─ reports ─┐                       ┌─ file bounds ─► row groups ─► pages
//! HTTP, CLI ─┼─ sql ─────┼─► engine ─► tables ───┤
//!            ├─ status   │   (own threads,       └─ rows of one workspace, enforced
//!            └─ dashboard┘    memory, deadline)
//! ```
//!
//! * [`QueryService`] answers; [`router`] is the HTTP listener on top of it
//! * [`Access`] and [`StatusSource`] are what it asks of the rest of the process
//!
//! Invariants: a token sees its workspace's rows and no others, through every door; an answer says how fresh and how
//! complete it is and never claims more than the rows it read; it is whole, or an error. A query that asks too much
//! (memory, time, rows) fails alone: it has its own threads and never touches a redirect.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod config;
mod dashboard;
mod engine;
mod error;
mod failure;
mod http;
mod limits;
mod metrics;
mod near;
mod ports;
mod reports;
mod service;
mod spill;
mod sql;
pub mod status;
mod tables;
#[cfg(test)]
mod testlake;
mod verify;

pub use config::QueryConfig;
pub use error::{FieldError, QueryError};
pub use http::router;
pub use metrics::QueryMetrics;
pub use ports::{Access, AccessError, Answered, AnsweredError, Changing, Freshness, StatusError, StatusSource};
pub use reports::{
    Bound, Change, Classes, Counts, Dimension, Gap, Interval, Meta, Part, Period, Preset, Report, ReportRequest, Row,
    Totals,
};
pub use service::QueryService;
pub use sql::{Format, SqlAnswer, SqlStream};
pub use verify::VerifyReport;
