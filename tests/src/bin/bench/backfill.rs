//! CloudFront lines into the lake, against DuckDB and ClickHouse writing sorted Parquet without agents, classes or
//! dedupe, and against `zcat`, which only unpacks them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tests::node::Node;

use crate::{Setup, table::Table};

/// Runs of each, the order alternating; the middle one is told.
const RUNS: usize = 5;

/// Takes `rows` lines in four files in.
pub(crate) async fn run(setup: &Setup, rows: u64, table: &mut Table) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let logs = generate(setup, &folder.path().join("logs"), &["--rows", &rows.to_string(), "--files", "4"])?;
    let truth: Value = serde_json::from_str(&std::fs::read_to_string(logs.join("truth.json"))?)?;
    let pattern = logs.join("*.log.gz").display().to_string();

    let (mut ours, mut again, mut peak) = (Vec::new(), Vec::new(), 0);
    let mut theirs: Vec<(&str, Vec<f64>)> = vec![("duckdb", Vec::new()), ("clickhouse", Vec::new())];
    let mut last = None;
    for _ in 0..RUNS {
        let node = Node::new(&setup.binary, "domains = [\"go.example.com\"]", "")?;
        let (seconds, resident) = measured(&node, &take_in(&pattern))?;
        peak = resident.max(peak);
        ours.push(seconds);
        let begin = Instant::now();
        node.ok(&take_in(&pattern))?;
        again.push(begin.elapsed().as_secs_f64());
        for (peer, seconds) in &mut theirs {
            match by_peer(setup, peer, &pattern, &folder.path().join(format!("{peer}.parquet"))) {
                Ok(time) => seconds.push(time),
                Err(error) => eprintln!("{peer}: {error:#}"),
            }
        }
        last = Some(node);
    }
    let node = last.context("no run")?;
    let (ours, again) = (middle(&mut ours), middle(&mut again));
    let name = format!("backfill of {} M lines", rows / 1_000_000);
    for (peer, seconds) in &mut theirs {
        let (peer, ratio) = match seconds.is_empty() {
            true => (format!("{peer}: can't run"), "-".to_owned()),
            false => (format!("{peer} {:.2} s", middle(seconds)), format!("{:.2}", middle(seconds) / ours)),
        };
        table.row(&name, &format!("{ours:.2} s"), &peer, &ratio, ">= 1.0");
    }
    let zcat = zcat(&logs)?;
    table.row("  unpacking alone", "", &format!("zcat {zcat:.2} s"), &format!("{:.2}", zcat / ours), "aim 1.0");
    let first = format!("first {ours:.2} s");
    table.row("  the same files again", &format!("{again:.2} s"), &first, &format!("{:.1}", ours / again), ">= 10");
    table.row("  peak memory", &format!("{} MB", peak / 1_000), "", "", "< 600 MB");
    let human = node.json(&["sql", "SELECT count(*) AS n FROM clicks WHERE class = 'human'", "--format", "json"])?;
    let (counted, expected) = (human[0]["n"].as_u64(), truth["human"].as_u64());
    let verdict = if counted == expected { "equal" } else { "DIFFERENT" };
    table.row("  human clicks", &format!("{counted:?}"), &format!("truth {expected:?}"), verdict, "equal");
    node.ok(&["compact"])?;
    let bytes = live_bytes(&node)? as f64 / rows as f64;
    table.row("  bytes a row, compacted", &format!("{bytes:.1}"), "", "", "<= 45");
    Ok(())
}

/// The same month's file into a lake that holds a part of that month, and into one that holds 20 M rows of other months
/// beside.
pub(crate) async fn month(setup: &Setup, table: &mut Table) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let logs = |name: &str, options: &[&str]| generate(setup, &folder.path().join(name), options);
    let month = ["--days", "30", "--start", "2026-11-01", "--rows", "1000000", "--files", "1"];
    let there = logs("there", &[&month[..], &["--seed", "2"]].concat())?;
    let new = logs("new", &[&month[..], &["--seed", "3"]].concat())?;
    let year = logs("year", &["--days", "300", "--start", "2026-01-01", "--rows", "20000000", "--files", "20"])?;
    let pattern = |logs: &Path| logs.join("*.log.gz").display().to_string();
    let (mut small, mut large) = (Vec::new(), Vec::new());
    for (before, times) in [(vec![&there], &mut small), (vec![&year, &there], &mut large)] {
        let node = Node::new(&setup.binary, "domains = [\"go.example.com\"]", "")?;
        for logs in before {
            node.ok(&take_in(&pattern(logs)))?;
        }
        node.ok(&["compact"])?;
        let begin = Instant::now();
        node.ok(&take_in(&pattern(&new)))?;
        times.push(begin.elapsed().as_secs_f64());
    }
    let (small, large) = (middle(&mut small), middle(&mut large));
    let peer = format!("alone {small:.2} s");
    let ratio = format!("{:.2}", large / small);
    table.row("1 M lines of a month beside 20 M of others", &format!("{large:.2} s"), &peer, &ratio, "<= 1.5");
    Ok(())
}

fn take_in(pattern: &str) -> [&str; 5] {
    ["backfill", pattern, "--unknown-codes", "keep", "--json"]
}

fn middle(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn generate(setup: &Setup, logs: &Path, options: &[&str]) -> Result<PathBuf> {
    let made = Command::new(&setup.python).arg(setup.peers.join("gen_edge_logs.py")).arg(logs).args(options).output();
    let made = made.context("gen_edge_logs.py")?;
    ensure!(made.status.success(), "gen_edge_logs.py: {}", String::from_utf8_lossy(&made.stderr));
    Ok(logs.to_owned())
}

/// The bytes of the files that table `clicks` is made of.
fn live_bytes(node: &Node) -> Result<u64> {
    // after compaction and with nothing removed since, the newest entries name what is live; dead files stay an hour
    let script = "import json,pathlib,sys\nlog=pathlib.Path(sys.argv[1])/'clicks/_delta_log'\nlive={}\n\
                  for e in sorted(log.glob('*.json')):\n for l in e.read_text().splitlines():\n  a=json.loads(l)\n\
                  \x20 if 'add' in a: live[a['add']['path']]=a['add']['size']\n\
                  \x20 if 'remove' in a: live.pop(a['remove']['path'],None)\nprint(sum(live.values()))";
    let output = Command::new("python3").args(["-c", script]).arg(node.data().join("lake")).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).trim().parse()?)
}

fn zcat(logs: &Path) -> Result<f64> {
    let files: Vec<PathBuf> = std::fs::read_dir(logs)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    let files = files.iter().filter(|path| path.extension().is_some_and(|end| end == "gz"));
    let begin = Instant::now();
    let status = Command::new("zcat").args(files).stdout(Stdio::null()).status()?;
    ensure!(status.success(), "zcat: {status}");
    Ok(begin.elapsed().as_secs_f64())
}

/// Runs a command and gives the seconds from its start to its end and its peak resident memory in KiB, as
/// `/usr/bin/time` would.
fn measured(node: &Node, arguments: &[&str]) -> Result<(f64, u64)> {
    let script = "import resource,subprocess,sys,time\nt=time.perf_counter()\n\
                  r=subprocess.run(sys.argv[1:],stdout=subprocess.DEVNULL)\ns=time.perf_counter()-t\n\
                  print(s,resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\nsys.exit(r.returncode)";
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
    let text = String::from_utf8_lossy(&output.stdout);
    let (seconds, resident) = text.trim().split_once(' ').with_context(|| text.to_string())?;
    Ok((seconds.parse()?, resident.parse()?))
}

/// The seconds that a peer says it took; what it takes to start isn't in them.
fn by_peer(setup: &Setup, peer: &str, pattern: &str, out: &Path) -> Result<f64> {
    let script = setup.peers.join(format!("peers/{peer}_backfill.py"));
    let output = Command::new(&setup.python).arg(script).arg(pattern).arg(out).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default());
    let text = String::from_utf8_lossy(&output.stdout);
    let seconds = text.split(" lines in ").nth(1).and_then(|rest| rest.split(' ').next());
    Ok(seconds.with_context(|| text.to_string())?.parse()?)
}
