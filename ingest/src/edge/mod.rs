//! Edge logs: from the bytes of a log file to normalised requests. No link store, no lake, no clock here.
//!
//! ```text
//! raw bytes ──reader──► blocks of lines ──parser──► jobs ──any thread──► Line::{Header, Request, Ignored, Reject}
//!   gzip, zstd, plain     (in order)      (in order)       format file → judge
//!   Parquet, JSON that isn't lines
//! ```
//!
//! * [`reader`], [`unpack`], [`block`]: decompression told by magic bytes, line limits, SHA-256 of the raw bytes;
//!   `gzip`, `zstandard`: the packings, member by member
//! * `framing`, `framed`, `scan`: JSON records that aren't lines, made into lines; [`contents`], `rows`: Parquet's rows, too
//! * [`parser`]: a file's parser; hands out [`Job`]s that may be parsed in parallel
//! * [`mod@format`], [`mod@sniff`]: the table of formats, and which of them a file is
//! * [`nginx_json`], [`nginx_combined`], [`cloudfront_v1`], [`cloudfront_v2_json`], [`cloudfront_realtime`],
//!   [`mod@cloudflare`], [`gcp_lb`], [`azure_front_door`]: one file a format, with [`nginx`] and [`cloudfront`] for what
//!   several formats of a provider share
//! * [`varnish`], [`caddy`] with `caddy_headers`, [`haproxy`], [`alb`], [`bunny`]: likewise
//! * [`fastly`], [`akamai_ds2`], [`nginx_log_format`] with [`nginx_directive`]: those whose fields are configured, with
//!   [`field_names`] to check the names
//! * [`judge`]: from what a log says to what it means, the same for every format
//! * [`identity`], [`header`]: request ids, trusted or not (design §4.1), and where headers carry them
//! * [`arena`], [`address`], [`clock`], [`json`], [`fields`], [`keyed`], [`target`], `combined`: small pure readers of
//!   values
//!
//! # Adding a format
//! One file and one line: write `edge/<name>.rs` with `recognise` and `layout` as [`mod@format`] says, and add it to the
//! table there. The file turns a line into a [`judge::Entry`]; everything after that is shared.
//!
//! # Invariants
//! * A parser never fails a file: a line that can't be read becomes [`Line::Reject`] with a reason, and the next one
//!   is read. No input makes it panic.
//! * Texts are borrowed from the line, or from an [`Arena`] where something had to be decoded: no allocation a line.
//! * Block borders follow from the unpacked bytes alone, not from how they were read, so that work cut into blocks
//!   can be resumed.

pub mod address;
pub mod akamai;
pub mod akamai_ds2;
pub mod alb;
pub mod arena;
pub mod azure_front_door;
pub mod block;
pub mod bunny;
pub mod caddy;
mod caddy_headers;
#[cfg(test)]
mod cases;
pub mod clock;
pub mod cloudflare;
pub mod cloudfront;
pub mod cloudfront_realtime;
pub mod cloudfront_v1;
pub mod cloudfront_v2_json;
mod combined;
pub mod contents;
pub mod fastly;
pub mod field_names;
pub mod fields;
pub mod format;
mod framed;
mod framing;
pub mod gcp_lb;
mod gzip;
pub mod haproxy;
pub mod header;
pub mod identity;
pub mod json;
pub mod judge;
pub mod keyed;
pub mod nginx;
pub mod nginx_combined;
pub mod nginx_directive;
pub mod nginx_json;
pub mod nginx_log_format;
pub mod parser;
pub mod reader;
pub mod request;
mod rows;
mod scan;
pub mod sniff;
pub mod target;
#[cfg(test)]
mod testing;
pub mod unpack;
pub mod varnish;
mod zstandard;

pub use arena::Arena;
pub use block::Block;
pub use contents::Contents;
pub use format::{Format, Settings};
pub use header::{IdForm, line_key_of};
pub use identity::{IdMode, Ids, Occurrences, fingerprint, made_key, well_formed_key};
pub use parser::{FileParser, Job};
pub use reader::{Ending, LineReader, ReadError, ReadLimits};
pub use request::{EdgeClass, EdgeRequest, Ignored, Line, Reject};
pub use sniff::{SniffError, Sniffed, sniff};
