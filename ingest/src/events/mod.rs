//! Click events made elsewhere: by a redirector that isn't ours, or out of another product's export.
//!
//! ```text
//! {"code":"k7Qp2","time":"2026-03-14T09:26:53Z","request_id":"…","ip":"…","user_agent":"…",…}   one a line
//!     └──line──► EdgeRequest, already judged ──identity──► click id: by request id, or by the line itself
//! ```
//! * [`mod@line`]: what a line may hold, and how it is read
//! * [`identity`]: how an event is known, so that edge logs settle against it and a repeat adds nothing
//!
//! Invariants
//! * An event that stands for the origin's own has the id that our redirect would have given it.
//! * Ids made from lines, and those of another product's export, meet no id of an edge's log.
//! * A line that can't be read is a reject with its reason; the next one is read.

pub mod identity;
pub mod line;

pub use identity::{NO_PROVIDER, Naming, Stand, fingerprint};
pub use line::{EventLines, is_event};

/// The name of this format in summaries.
pub const FORMAT: &str = "events";
