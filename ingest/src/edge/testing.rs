//! What tests of formats share.

use bytes::Bytes;

use super::block::{Block, Tail};
use super::format::{Format, Settings};
use super::parser::FileParser;
use super::request::{EdgeClass, EdgeRequest, Line};
use super::{Arena, Ids};

/// The bytes as one block.
pub(super) fn block(bytes: &[u8]) -> Block {
    let tail = if bytes.is_empty() || bytes.ends_with(b"\n") { Tail::Whole } else { Tail::Unterminated };
    Block::new(Bytes::copy_from_slice(bytes), 1, tail, 64 << 10)
}

/// Every line of a file in short: `edge`, `origin`, `header`, or the reason of an ignored or rejected one.
pub(super) fn verdicts(format: Format, file: &str) -> Vec<&'static str> {
    verdicts_with(format, file, &Settings::default())
}

/// As [`verdicts`], as configured.
pub(super) fn verdicts_with(format: Format, file: &str, settings: &Settings) -> Vec<&'static str> {
    let mut verdicts = Vec::new();
    let mut parser = FileParser::new(format, file.as_bytes(), settings.clone());
    let job = parser.job(block(ended(file).as_bytes()));
    job.parse(&Arena::new(), |_, line| {
        verdicts.push(match line {
            Line::Header => "header",
            Line::Ignored(why) => why.as_str(),
            Line::ParentHit { .. } => "parent_hit",
            Line::Reject(reject) => reject.reason,
            Line::Request(request) => match Ids::Trusted.key(&request) {
                Err(reject) => reject.reason,
                Ok(_) if request.class == EdgeClass::Edge => "edge",
                Ok(_) => "origin",
            },
        });
    });
    verdicts
}

/// Shows each request of a file.
pub(super) fn requests(format: Format, file: &str, show: impl FnMut(&EdgeRequest<'_>)) {
    requests_with(format, file, &Settings::default(), show);
}

/// As [`requests`], as configured.
pub(super) fn requests_with(format: Format, file: &str, settings: &Settings, mut show: impl FnMut(&EdgeRequest<'_>)) {
    let mut parser = FileParser::new(format, file.as_bytes(), settings.clone());
    let job = parser.job(block(ended(file).as_bytes()));
    job.parse(&Arena::new(), |_, line| {
        if let Line::Request(request) = line {
            show(&request);
        }
    });
}

/// With the end of its last line: one without may be cut.
fn ended(file: &str) -> String {
    if file.ends_with('\n') { file.to_owned() } else { format!("{file}\n") }
}
