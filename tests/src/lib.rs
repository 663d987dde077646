//! What the integration tests and benchmarks of the whole share.
//!
//! * [`node`]: the real `highwater` binary as a child process, killed and restarted at will
//! * [`edge`]: nginx as a real caching edge in front of it
//! * [`load`]: bounded request loops that keep a ledger of what was answered
//!
//! Everything listens on loopback only, and ends with its owner.

pub mod edge;
pub mod load;
pub mod node;

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

/// A port of loopback that is free now.
///
/// # Errors
/// When there is none.
pub fn free_port() -> std::io::Result<u16> {
    Ok(std::net::TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}
