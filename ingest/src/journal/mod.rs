//! A redirect worker's own durable log: what has been answered is in it (design §4.2).
//!
//! ```text
//!                      ┌ directory of one journal ───────────────────────────────┐
//!  append ──write(2)──►│ 00…0000.seg  00…4711.seg  00…9203.seg │ synced │ written │
//!                      └─────▲──────────────────────────────────────▲────────────┘
//!                        trim behind                              readers see up to here
//!                        what the lake holds
//! ```
//!
//! # What holds
//! * An append returns when its bytes are with the kernel: no kill of the process loses them. It never waits for a
//!   sync, or for anything else but the journal's lock and one `write(2)`.
//! * A position is a frame's number. It follows from the segments alone (each is named by its first position), and
//!   once a reader has been shown it, it never means another frame.
//! * Readers see only what has been synced, so that a power cut never takes back what the lake holds.
//! * Times never go back within a journal, not across restarts either, and none is before the journal's first mark.
//! * A mark stands behind every event that is before it, and is the only sign that a silent journal is complete.
//!
//! # When things fail
//! * Kill: nothing written is lost; at most the beginning of a frame is cut off when the journal is opened again.
//! * Power cut: the unsynced tail goes, counted.
//! * Full disk, or full budget: events that may be sampled are dropped and counted; billed clicks go into the
//!   [`Budget`]'s reserve; when that is full too they are lost and counted, in a file whose blocks are taken
//!   beforehand. Redirects go on in any case.
//! * A write error: what it left behind is cut off, or the journal goes on in a new segment.
//! * A sync error: readers stand still, the unsynced frames are written again to a new segment. While
//!   syncing keeps failing, [`JournalStats::sync_failing_since`] says since when.
//! * Synced frames are gone (bits rot, files deleted by hand): the journal is opened sealed and says so
//!   ([`JournalStats::damage`]); a new one takes its place.
//! * The folder is a copy ([`Journals::is_copy`]): its clicks go on in another journal, under their own ids.
//!
//! # Why not a crate
//! Looked at: `mrecordlog` 0.4 (keeps all records in memory; its writer buffers in the process), `commitlog` 0.2
//! (never syncs, and its index files are a second truth), `okaywal` 0.3 (made for checkpoints, its readers are the
//! checkpointer; its format is called unstable), `raft-engine` 0.4 (entries indexed in memory, truncated from the
//! front of a Raft group), `yaque` 0.6 (one consumer, its position in a file of its own), `walrus-rust` 0.2 (memory
//! maps, `unsafe`, positions in an index file), `open-wal` 0.2 (careful about recovery and failed syncs, but an
//! append stays in the process until a commit that syncs under the only writer) and `wal-db` 1.1 (the nearest:
//! append is `write`, sync is apart and shared; but positions are byte offsets, a failed write poisons the log, and
//! readers aren't held to what is synced). What the journal is for, going on when the disk is full and never showing
//! what isn't synced, is in none of them, and would have to reach into each one's files. So the frames and
//! segments, the smaller part of this module, are written here too.
//!
//! # Files
//! `frame` bytes of a frame · `segment` files · `scan` walking over them · `recover` opening · `writer` appending ·
//! `handle` the journal in use, `worker` whose it is · `lacking` which frames are clicks · `loss_file` what was lost · `inspect` a look from outside · `round` and `rehome` syncing · `reader`, `follow`, `partition` reading ·
//! `home` and `copied` whether it is a copy, and what becomes of it ·
//! `marks` when to mark · `budget` and `ballast` · `journals` the directory · `sync_task` the timer ·
//! `disk`, `clock`, `lock` the world outside

mod ballast;
mod budget;
mod clock;
mod copied;
mod disk;
mod error;
mod follow;
mod frame;
mod handle;
mod home;
mod inspect;
mod journals;
mod lacking;
mod lock;
mod loss_file;
mod marks;
mod partition;
mod reader;
mod recover;
mod rehome;
mod round;
mod scan;
mod segment;
mod stats;
mod sync_task;
#[cfg(test)]
mod tests;
mod worker;
mod writer;

pub use budget::Budget;
pub use copied::Adopted;
pub use error::JournalError;
pub use handle::Journal;
pub use inspect::{Inspection, clicks_below, first_of, inspect};
pub use journals::{JournalConfig, Journals};
pub use lacking::Lacking;
pub use lock::is_in_use;
pub use loss_file::{forget_losses, losses_of};
pub use partition::JournalPartition;
pub use stats::{BudgetStats, Damage, JournalStats, Losses, Refusal, Torn};
pub use sync_task::SyncTask;
pub use worker::WorkerJournal;
pub use writer::Appended;
