//! Edge logs and events made elsewhere into the lake: `backfill`, `import` and uploads (design §4.1, §4.5, interface §5).
//!
//! ```text
//! input ──hash──► known? ──► its summary again
//!   │
//!   └──► blocks ──parse, look up links, enrich (threads)──► chunks ──union by id──► clicks   (all settled)
//!                                                              │                └─► arrivals (something waits)
//!                                                              └─► rejects, edge_files
//! ```
//!
//! * [`options`]: what an import is told; [`summary`]: what it says; [`error`](ImportError): why it was refused
//! * `identity`: the content's hash; `pipeline`, `worker`, `links`, `reading`, `judge`, `made_ids`, `tally`: bytes to chunks
//! * `importer`, `run`, `opened`: one import from its first byte to its summary; `ahead`: the one after it
//! * [`revert`], `again`, `set_back`: an import taken back, others decided anew; `words`: an operator's word carried out
//! * [`posts`]: events that are posted, a body at a time
//! * `checks`: what is odd about the lines of a file
//! * `begin`: an import is named; `drafts`, `land`, `arriving`: chunks into the lake; `side`, `recount`, `stored`: the side tables, and
//!   what the lake says of an import; `dry`
//!
//! Invariants
//! * A chunk of lines goes whole into one table, with the transaction that says so; killed anywhere, a repeat goes on
//!   with the first chunk that is missing, and a repeat of a whole file adds nothing.
//! * The union by id decides, as for every settler; what an import has added itself is known without reading it back.
//! * Every line is counted in the summary exactly once, whatever became of it.
//! * Memory is bounded by a few chunks, whatever the size of the file.
//!
//! Failure: a line that can't be read is rejected and the file goes on; a file that can't be read on keeps what has
//! landed; a lake or link store that fails ends the import, to be repeated.

mod again;
mod ahead;
mod arriving;
mod before;
mod begin;
mod checks;
mod drafts;
mod dry;
mod error;
mod identity;
mod importer;
mod judge;
mod land;
mod links;
mod made_ids;
mod opened;
pub mod options;
mod pipeline;
pub mod posts;
mod reading;
mod recount;
pub mod revert;
mod run;
mod set_back;
mod side;
mod stored;
pub mod summary;
mod tally;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod words;
mod worker;

pub use ahead::Ahead;
pub use checks::{Checks, Noted};
pub use error::ImportError;
pub use identity::Hashed;
pub use identity::import_id;
pub use importer::{Importer, Progress};
pub use options::{Body, ImportConfig, ImportOptions, Input, NotAChoice, UnknownCodes};
pub use posts::EventDesk;
pub use revert::{RevertError, Reverted};
pub use stored::{Stored, changing, stored, unfinished};
pub use summary::{Added, IgnoredLines, Planned, State, Summary};
pub use words::Decided;
