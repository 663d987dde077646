//! `highwater edge-logs settle`: an operator's word on an hour whose request ids don't meet.

use std::process::ExitCode;

use processor::import::{Decided, Summary};
use processor::lake::Lake;
use processor::settle::{Standing, Word, words_under_way};
use schemas::tables::Table;
use serde::Serialize;

use super::logs_again::Missing;
use super::{backfill, logs_again, open, print};
use crate::config::Config;
use crate::run::{Again, turn};

/// What became of a word.
#[derive(Debug, Serialize)]
struct Outcome {
    #[serde(flatten)]
    word: Word,
    /// The other word that was given before.
    #[serde(skip_serializing_if = "Option::is_none")]
    was: Option<Standing>,
    /// Rows that lines which waited have become.
    added: u64,
    /// Lines that waited and are counted.
    already_counted: u64,
    /// Rows that had been recovered and are gone.
    taken_out: u64,
    /// Logs decided anew.
    again: Vec<Summary>,
    /// Logs that can't be read any more.
    deliver_again: Vec<Missing>,
}

/// The words that are not carried out yet.
pub(super) async fn under_way(lake: &Lake) -> anyhow::Result<Vec<Word>> {
    Ok(words_under_way(&lake.table(Table::Clicks).await?))
}

/// One of them for people.
pub(super) fn text(word: &Word) -> String {
    let (hour, word_of, provider) = (word.hour.to_string(), word.word.as_str(), &word.provider);
    format!(
        "the hour {hour} of {provider} is being settled as {word_of}: its misses may be counted as they were before; \
         `highwater edge-logs settle --provider {provider} --hour {} --as {word_of}` goes on with it",
        &hour[..13.min(hour.len())]
    )
}

/// Settles an hour, and takes in again the logs that this asks for. Ends with 1 while one of them is to be delivered again.
pub(super) async fn settle(word: Word, json: bool, config: &Config) -> anyhow::Result<ExitCode> {
    let importer = backfill::importer(config).await?;
    let _turn = turn(&config.data_dir).await?;
    let (store, lake) = (open::link_store(config).await?, open::lake(config)?);
    let Decided { was, settled, taken_out, again } = importer.settle_hour(&word.provider, word.hour, word.word).await?;
    let intake = Again::new(config, &store, &lake, importer.clone())?;
    let whose = format!("{} {}", word.provider, word.hour);
    let (again, deliver_again) = logs_again::take_in(&intake, again, &whose).await;
    let (added, already_counted) = (settled.added, settled.already_counted);
    let outcome = Outcome { word, was, added, already_counted, taken_out, again, deliver_again };
    if json {
        print::json(&outcome)?
    } else {
        print::line(&told(&outcome))?
    }
    let is_whole = outcome.deliver_again.iter().all(|log| !log.is_new());
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// The outcome for people.
fn told(outcome: &Outcome) -> String {
    let Outcome { word, was, added, already_counted, taken_out, again, deliver_again } = outcome;
    let before = was.map(|was| format!(" (it was {} before)", was.as_str())).unwrap_or_default();
    let gone = match taken_out {
        0 => String::new(),
        rows => format!(", {rows} rows that had been recovered taken out"),
    };
    let mut lines = vec![format!(
        "the hour {} of {} is decided: {}{before}; {added} rows added, {already_counted} lines counted already{gone}",
        word.hour,
        word.provider,
        word.word.as_str()
    )];
    lines.extend(logs_again::text(again, deliver_again, "by the word before"));
    lines.join("\n")
}
