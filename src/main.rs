//! Highwater: click analytics for short links that stay exact when a link goes viral.
//!
//! The one binary: reads the command line, loads the configuration, and hands over to a command.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod arenas;
mod cli;
mod commands;
mod config;
mod demo;
#[cfg(test)]
mod deploy;
mod logs;
mod rules;
mod run;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    arenas::bound();
    let cli = cli::Cli::parse();
    match commands::dispatch(cli) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("highwater: {}", explain(&error));
            ExitCode::from(if error.is::<commands::WrongUsage>() { 2 } else { 1 })
        }
    }
}

/// An error and its causes on one line. A cause that is told already is not told again: some libraries put their
/// causes into their own text.
pub(crate) fn explain(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_told_once() {
        let error = anyhow::anyhow!("disk full").context("writing x: disk full").context("backfill");
        assert_eq!(explain(&error), "backfill: writing x: disk full");
    }
}
