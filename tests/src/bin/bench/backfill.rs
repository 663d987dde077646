//! A million CloudFront lines into the lake, against DuckDB writing sorted Parquet without agents, classes or dedupe.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tests::node::Node;

use crate::{Setup, table::Table};

const ROWS: u64 = 1_000_000;

pub(crate) async fn run(setup: &Setup, table: &mut Table) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let logs = folder.path().join("logs");
    let made = Command::new(&setup.python)
        .arg(setup.peers.join("gen_edge_logs.py"))
        .arg(&logs)
        .args(["--rows", &ROWS.to_string(), "--files", "4"])
        .output()
        .context("gen_edge_logs.py")?;
    ensure!(made.status.success(), "gen_edge_logs.py: {}", String::from_utf8_lossy(&made.stderr));
    let truth: Value = serde_json::from_str(&std::fs::read_to_string(logs.join("truth.json"))?)?;

    let node = Node::new(&setup.binary, "domains = [\"go.example.com\"]", "")?;
    let pattern = logs.join("*.log.gz").display().to_string();
    let begin = Instant::now();
    let peak = peak_of(&node, &["backfill", &pattern, "--unknown-codes", "keep", "--json"])?;
    let ours = begin.elapsed().as_secs_f64();
    let again = Instant::now();
    node.ok(&["backfill", &pattern, "--unknown-codes", "keep", "--json"])?;
    let again = again.elapsed().as_secs_f64();

    let theirs = duckdb(setup, &pattern, &folder.path().join("duckdb.parquet"));
    let (peer, ratio) = match theirs {
        Ok(seconds) => (format!("duckdb {seconds:.2} s"), format!("{:.2}", seconds / ours)),
        Err(error) => (format!("duckdb: {error}"), "-".into()),
    };
    table.row("backfill of 1 M lines", &format!("{ours:.2} s"), &peer, &ratio, ">= 0.5, aim 1.0");
    table.row(
        "  the same files again",
        &format!("{again:.2} s"),
        &format!("first {ours:.2} s"),
        &format!("{:.1}", ours / again),
        "",
    );
    table.row("  peak memory", &format!("{} MB", peak / 1_000), "", "", "< 600 MB");
    let human = node.json(&["sql", "SELECT count(*) AS n FROM clicks WHERE class = 'human'", "--format", "json"])?;
    let (counted, expected) = (human[0]["n"].as_u64(), truth["human"].as_u64());
    let verdict = if counted == expected { "equal" } else { "DIFFERENT" };
    table.row("  human clicks", &format!("{counted:?}"), &format!("truth {expected:?}"), verdict, "equal");
    Ok(())
}

/// Runs a command and gives its peak resident memory in KiB, as `/usr/bin/time` would.
fn peak_of(node: &Node, arguments: &[&str]) -> Result<u64> {
    let script = "import resource,subprocess,sys\nr=subprocess.run(sys.argv[1:],stdout=subprocess.DEVNULL)\n\
                  print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\nsys.exit(r.returncode)";
    let output = Command::new("python3")
        .args(["-c", script])
        .arg(node.binary())
        .arg("--config")
        .arg(node.config())
        .arg("--data")
        .arg(node.data())
        .args(arguments)
        .output()?;
    ensure!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).trim().parse()?)
}

/// The seconds that DuckDB says it took.
fn duckdb(setup: &Setup, pattern: &str, out: &Path) -> Result<f64> {
    let output =
        Command::new(&setup.python).arg(setup.peers.join("peers/duckdb_backfill.py")).arg(pattern).arg(out).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default());
    let text = String::from_utf8_lossy(&output.stdout);
    let seconds = text.split(" lines in ").nth(1).and_then(|rest| rest.split(' ').next());
    Ok(seconds.with_context(|| text.to_string())?.parse()?)
}
