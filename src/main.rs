//! Highwater: click analytics for short links that stay exact when a link goes viral.
//!
//! The one binary: reads the command line, loads the configuration, and hands over to a command.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod cli;
mod commands;
mod config;
mod demo;
mod run;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    match commands::dispatch(cli) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("highwater: {error:#}");
            ExitCode::from(1)
        }
    }
}
