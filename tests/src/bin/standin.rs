//! The stand-in broker by hand: `cargo run -p tests --bin standin -- --dir DIR --listen 127.0.0.1:9003`.
//!
//! Prints where it listens when it is ready, as a line of JSON.

use clap::Parser;
use tests::standin::{Options, serve};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    serve(Options::parse()).await
}
