//! Edge logs made up for tests: nginx's JSON lines, each request with an id of its own.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

/// 2026-03-14 09:26:53 UTC, in seconds.
pub const EPOCH: i64 = 1_773_480_413;

/// Lines of requests that the edge answered, for `code` at go.test: one a second from `at` on. `id` begins the ids.
pub fn hits(id: &str, code: &str, at: i64, lines: u64) -> String {
    let mut text = String::new();
    for n in 0..lines {
        let second = at + n as i64;
        // writing into a String can't fail
        let _ = writeln!(
            text,
            "{{\"msec\":\"{second}.{:03}\",\"remote_addr\":\"203.0.113.{}\",\"host\":\"go.test\",\
             \"request_method\":\"GET\",\"request_uri\":\"/{code}\",\"status\":\"302\",\"http_referer\":\"\",\
             \"http_user_agent\":\"Mozilla/5.0 (X11; Linux x86_64; rv:126.0) Gecko/20100101 Firefox/126.0\",\
             \"upstream_cache_status\":\"HIT\",\"request_id\":\"{id}{n:0width$x}\",\"scheme\":\"https\"}}",
            n % 1_000,
            n % 250 + 1,
            width = 32 - id.len()
        );
    }
    text
}

/// `bytes` as `gzip` packs them.
///
/// # Errors
/// When gzip isn't there or fails.
pub fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut child = Command::new("gzip").arg("-c").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut input = child.stdin.take().context("no pipe")?;
    let bytes = bytes.to_vec();
    let writing = std::thread::spawn(move || input.write_all(&bytes));
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "gzip ended with {}", output.status);
    writing.join().ok().context("the writer died")??;
    Ok(output.stdout)
}
