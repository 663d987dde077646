//! `GET /v1/reports/clicks`: how many, when, and of what (interface §4.1).
//!
//! ```text
//! parameters ─request─► ReportRequest ─period, buckets─► span, ends ─plan─► aggregations ─ask, answer─► Report
//! ```
//! All but the aggregations is pure. Invariants: `by_class` adds up to the redirects served whatever is asked for;
//! every row's time is in exactly one bucket; nothing in `meta` claims more than the rows that were read.

mod answer;
mod ask;
mod buckets;
mod continent;
mod dims;
mod estimate;
mod period;
mod plan;
mod request;
mod sampled;
mod shape;
mod table;
mod touched;
mod values;

pub use answer::{Change, Counts, Gap, Meta, Part, Report, Row, Totals};
pub use buckets::Interval;
pub use dims::Dimension;
pub use period::{Bound, Period, Preset};
pub use request::{Classes, ReportRequest};

pub(crate) use ask::report;
pub(crate) use shape::{floats, integers, texts};
pub(crate) use table::to_batch;

#[cfg(test)]
mod tests;
