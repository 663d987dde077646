//! Redirects a second of one worker thread, against nginx answering the same from a map with its access log on.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tests::free_port;
use tests::node::Node;

use crate::{Setup, table::Table};

const CODES: usize = 1_000;
const SECONDS: u32 = 8;
/// Pairs of runs, interleaved; the median ratio counts.
const PAIRS: usize = 3;

struct Nginx(Child);

impl Drop for Nginx {
    fn drop(&mut self) {
        let _sent = Command::new("kill").arg("-TERM").arg(self.0.id().to_string()).status();
        let _reaped = self.0.wait();
    }
}

fn nginx(setup: &Setup, folder: &Path, port: u16) -> Result<Nginx> {
    let template = std::fs::read_to_string(setup.peers.join("peers/nginx/redirect.conf.template"))?;
    let map: String = (0..CODES).map(|n| format!("/code{n:04} https://example.com/{n};\n")).collect();
    std::fs::write(folder.join("map.conf"), map)?;
    let config = template.replace("$DIR", &folder.display().to_string()).replace("$PORT", &port.to_string());
    std::fs::write(folder.join("nginx.conf"), config)?;
    let child = Command::new("nginx").arg("-c").arg(folder.join("nginx.conf")).stderr(Stdio::null()).spawn()?;
    Ok(Nginx(child))
}

/// Requests a second, as wrk says; an error when it saw anything but redirects.
fn wrk(setup: &Setup, codes: &Path, port: u16) -> Result<f64> {
    let output = Command::new("wrk")
        .args(["-t1", "-c64", &format!("-d{SECONDS}s"), "-s"])
        .arg(setup.peers.join("peers/nginx/codes.lua"))
        .arg(format!("http://127.0.0.1:{port}/"))
        .env("CODES", codes)
        .env("HOST_HEADER", "go.test")
        .output()
        .context("wrk")?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(!text.contains("Non-2xx"), "{text}");
    let line = text.lines().find(|line| line.starts_with("Requests/sec:")).with_context(|| text.to_string())?;
    Ok(line.split_whitespace().nth(1).context("no rate")?.parse()?)
}

pub(crate) async fn run(setup: &Setup, table: &mut Table) -> Result<()> {
    let settings = "[journal]\nmax_bytes = \"20GiB\"";
    let mut node = Node::new(&setup.binary, "domains = [\"go.test\"]\nworkers = 1", settings)?;
    node.start_with(&["redirect"]).await?;
    let codes: Vec<String> = (0..CODES).map(|n| format!("code{n:04}")).collect();
    for (n, code) in codes.iter().enumerate() {
        node.ok(&["link", "add", &format!("https://example.com/{n}"), "--code", code])?;
    }
    let list = node.folder().join("codes");
    std::fs::write(&list, codes.join("\n"))?;
    let folder = tempfile::tempdir()?;
    let port = free_port()?;
    let peer = nginx(setup, folder.path(), port);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..PAIRS {
        let a = wrk(setup, &list, node.redirect)?;
        ours.push(a);
        if peer.is_ok() {
            let b = wrk(setup, &list, port)?;
            theirs.push(b);
            ratios.push(a / b);
        }
    }
    node.stop().await?;
    let peer = if theirs.is_empty() {
        "nginx: not there".into()
    } else {
        format!("nginx with log {:.0}/s", median(&mut theirs))
    };
    let ratio = if ratios.is_empty() { "-".into() } else { format!("{:.2}", median(&mut ratios)) };
    table.row("redirects, one worker", &format!("{:.0}/s", median(&mut ours)), &peer, &ratio, ">= 0.5, aim 1.0");
    Ok(())
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
