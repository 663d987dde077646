//! What the integration tests and benchmarks of the whole share.
//!
//! * [`node`]: the real `highwater` binary as a child process, killed and restarted at will
//! * [`edge`]: nginx as a real caching edge in front of it
//! * [`foreign`]: a redirector that isn't ours, behind such an edge
//! * [`logs`]: edge logs made up
//! * [`s3`]: a real S3 server
//! * [`postgres`]: a private PostgreSQL server
//! * [`standin`]: a stand-in for a Fluvio cluster
//! * [`load`]: requests over connections of our own, [`clicks`]: many of them with a ledger of what was answered
//! * [`kills`]: redirect, broker and processors killed under clicks
//! * [`usage`]: what a process has used
//!
//! Everything listens on loopback only, and ends with its owner.

#![cfg_attr(test, allow(clippy::unwrap_used))]

use std::sync::atomic::{AtomicU32, Ordering};

pub mod clicks;
pub mod edge;
pub mod foreign;
pub mod kills;
pub mod load;
pub mod logs;
pub mod node;
pub mod postgres;
pub mod s3;
pub mod standin;
pub mod usage;

/// Whether a missing service must fail a test instead of skipping it.
pub fn must_not_skip() -> bool {
    std::env::var_os("HIGHWATER_TEST_REQUIRE").is_some_and(|value| value == "1")
}

/// Says that a test was skipped and why; fails instead when nothing may be skipped.
///
/// # Panics
/// Under `HIGHWATER_TEST_REQUIRE=1`.
pub fn skip(test: &str, why: &str) {
    assert!(!must_not_skip(), "{test} can't run: {why}");
    eprintln!("skipped {test}: {why}");
}

/// Ports from here on are handed out: below those that the system gives to outgoing connections.
const FIRST_PORT: u32 = 10_000;
const PORTS: u32 = 20_000;

/// A port of loopback that is free now, and that no other test of this process is given.
///
/// # Errors
/// When there is none.
pub fn free_port() -> std::io::Result<u16> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let mut last = std::io::ErrorKind::AddrInUse.into();
    for _ in 0..PORTS {
        // processes begin at places of their own
        let next = NEXT.fetch_add(1, Ordering::Relaxed).wrapping_add(std::process::id().wrapping_mul(97));
        let port = (FIRST_PORT + next % PORTS) as u16;
        match std::net::TcpListener::bind(("127.0.0.1", port)) {
            Ok(_) => return Ok(port),
            Err(error) => last = error,
        }
    }
    Err(last)
}
