//! `highwater backfill`: edge logs into the lake.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use ingest::edge::{Format, IdMode, SniffError};
use processor::import::{ImportError, ImportOptions, Importer, Input, Progress, State, Summary, UnknownCodes};

use super::summary::{text, total};
use super::{WrongUsage, open, print};
use crate::cli::{Backfill, IdMode as IdFlag, UnknownCodes as UnknownFlag};
use crate::config::Config;
use crate::logs::{self, Found};
use crate::run::{enricher, geo, imports};

/// Takes logs in.
pub(crate) async fn run(arguments: Backfill, config: &Config) -> anyhow::Result<ExitCode> {
    take_all(config, &arguments.paths, &options(&arguments)?, arguments.json).await
}

/// Takes each path in; a file that is refused doesn't stop the others, but the command then ends with 1. While one is
/// taken in, the next is fetched and read ahead.
pub(super) async fn take_all(
    config: &Config,
    paths: &[String],
    options: &ImportOptions,
    json: bool,
) -> anyhow::Result<ExitCode> {
    // before anything is made
    let logs = logs::find(paths).await?;
    let importer = importer(config).await?;
    let intake = Intake { config, importer: &importer, options, bars: Bars::new(), is_one: logs.len() == 1 };
    let mut logs = logs.into_iter();
    let (mut summaries, mut readings) = (Vec::new(), None);
    let mut next = intake.read_next(&mut logs).await;
    while let Some((log, input)) = next.take() {
        let take_in = async {
            let summary = match input {
                Ok(input) => intake.take_in(input).await,
                Err(error) => Err(error),
            };
            summaries.push(intake.tell(&log, summary, json, &mut readings)?);
            anyhow::Ok(())
        };
        let (told, read) = tokio::join!(take_in, intake.read_next(&mut logs));
        told?;
        next = read;
    }
    let mut is_whole = summaries.iter().all(|summary| summary.state != State::Failed);
    let has_landed = !options.dry_run && summaries.iter().any(|summary| summary.state != State::Failed);
    if has_landed && let Err(error) = importer.correct().await {
        is_whole = false;
        eprintln!(
            "highwater: the lines are counted, but rows that they know better than aren't corrected yet: {error}"
        );
    }
    if let Some(readings) = readings {
        eprintln!("highwater: {readings}");
    }
    if json {
        print::json(&summaries)?;
    } else if summaries.len() > 1 {
        print::line(&total(&summaries))?;
    }
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Whether a file is of no known format, which each format says in words of its own.
fn is_of_no_format(error: &anyhow::Error) -> bool {
    let source = error.downcast_ref::<ImportError>();
    matches!(source, Some(ImportError::Format { source: SniffError::None { .. }, .. }))
}

/// The summary of a file that was refused: one entry a file, whatever became of it.
fn failed(log: &Found, why: String, dry_run: bool) -> Summary {
    let mut summary = Summary::new(String::new(), log.name().to_owned(), String::new(), dry_run);
    summary.state = State::Failed;
    summary.note = Some(why);
    summary
}

fn options(arguments: &Backfill) -> anyhow::Result<ImportOptions> {
    let format = match arguments.format.as_str() {
        "auto" => None,
        word => Some(word.parse::<Format>().map_err(|error| WrongUsage(format!("--format: {error}")))?),
    };
    Ok(ImportOptions {
        events: None,
        format,
        id: match arguments.id {
            None | Some(IdFlag::Auto) => IdMode::Auto,
            Some(IdFlag::Trusted) => IdMode::Trusted,
            Some(IdFlag::StatusOnly) => IdMode::StatusOnly,
        },
        source: arguments.source.clone(),
        unknown_codes: unknown_codes(arguments.unknown_codes),
        dry_run: arguments.dry_run,
        workspace: None,
    })
}

pub(super) fn unknown_codes(flag: UnknownFlag) -> UnknownCodes {
    match flag {
        UnknownFlag::Keep => UnknownCodes::Keep,
        UnknownFlag::Ignore => UnknownCodes::Ignore,
    }
}

/// What takes logs in, for commands.
pub(super) async fn importer(config: &Config) -> anyhow::Result<Importer> {
    let store = open::link_store(config).await?;
    imports::importer(config, &store, open::lake(config)?, Arc::new(enricher(config, &geo::open(config)?)?))
}

/// What takes the files of a command in.
struct Intake<'a> {
    config: &'a Config,
    importer: &'a Importer,
    options: &'a ImportOptions,
    bars: Bars,
    /// Whether there is no other file.
    is_one: bool,
}

impl Intake<'_> {
    /// The next file, read as far as can be before its turn comes.
    async fn read_next(&self, logs: &mut impl Iterator<Item = Found>) -> Option<(Found, anyhow::Result<Input>)> {
        let log = logs.next()?;
        let input = self.read(&log).await;
        Some((log, input))
    }

    async fn read(&self, log: &Found) -> anyhow::Result<Input> {
        let bar = self.bars.add(log.name());
        let fetched = |bytes, of| {
            bar.set_length(of);
            bar.set_position(bytes);
            bar.set_message("fetched");
        };
        let input = log.input(&imports::spool_dir(self.config)?, fetched).await?;
        bar.finish_and_clear();
        Ok(self.importer.read_ahead(input, self.options).await?)
    }

    async fn take_in(&self, input: Input) -> anyhow::Result<Summary> {
        let bar = self.bars.add(&input.name);
        let shown = bar.clone();
        let began = std::time::Instant::now();
        let summary = self
            .importer
            .import(input, self.options.clone(), move |progress: Progress| {
                shown.set_length(progress.of);
                shown.set_position(progress.bytes);
                let rate = progress.lines as f64 / began.elapsed().as_secs_f64().max(0.001);
                shown.set_message(format!("{} lines, {rate:.0}/s", progress.lines));
            })
            .await;
        bar.finish_and_clear();
        Ok(summary?)
    }

    /// Says what became of a file, for people; refused or not, it has a summary. How the first one that is of no known format
    /// reads as each of them is put into `readings`, to be told once.
    fn tell(
        &self,
        log: &Found,
        summary: anyhow::Result<Summary>,
        json: bool,
        readings: &mut Option<String>,
    ) -> anyhow::Result<Summary> {
        self.bars.above(|| match summary {
            Ok(summary) if json => Ok(summary),
            Ok(summary) => print::line(&text(&summary)).map(|()| summary),
            Err(error) => {
                let why = crate::explain(&error);
                match why.split_once('\n').filter(|_| !self.is_one && is_of_no_format(&error)) {
                    Some((brief, all)) => {
                        eprintln!("highwater: {brief}");
                        readings.get_or_insert_with(|| format!("why no format fits, of {}:\n{all}", log.name()));
                    }
                    None => eprintln!("highwater: {why}"),
                }
                Ok(failed(log, why, self.options.dry_run))
            }
        })
    }
}

/// Progress bars, one below the other; none where nobody sees them.
struct Bars {
    bars: Option<MultiProgress>,
    style: ProgressStyle,
}

impl Bars {
    fn new() -> Self {
        let template = "{prefix} [{bar:30}] {bytes}/{total_bytes} {msg}, {eta} left";
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        Self { bars: std::io::stderr().is_terminal().then(MultiProgress::new), style }
    }

    fn add(&self, name: &str) -> ProgressBar {
        let bar = ProgressBar::no_length().with_style(self.style.clone()).with_prefix(name.to_owned());
        match &self.bars {
            Some(bars) => bars.add(bar),
            None => ProgressBar::hidden(),
        }
    }

    /// Writes lines above the bars.
    fn above<T>(&self, write: impl FnOnce() -> T) -> T {
        match &self.bars {
            Some(bars) => bars.suspend(write),
            None => write(),
        }
    }
}
