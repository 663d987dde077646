//! What upkeep costs, on a local disk.
//! * 3,000 commits with the settler at work, and what they leave behind: `cargo run --release -p processor --example upkeep
//!   [COMMITS]`
//! * history judged anew, with time and the most memory: `… --example upkeep reclassify [ROWS]`

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use ingest::ports::{JournalState, Landed, PortError, RegisteredJournal, Registry};
use processor::classify::Classifier;
use processor::enrich::{EnrichConfig, Enricher};
use processor::lake::{Change, Lake, LakeOptions, Span};
use processor::settle::{Reclassify, SettleConfig, Settler};
use schemas::click::{ClickRow, Verdict};
use schemas::tables::Table;
use schemas::time::DAY;
use schemas::{Analytics, Class, ClickBuilder, ClickEvent, ClickId, JournalId, LinkId, Method, UtcMicros};

/// No journals: everything is complete up to now.
#[derive(Debug)]
struct Nobody;

#[async_trait]
impl Registry for Nobody {
    async fn register(&self, _: JournalId, _: &str, now: UtcMicros) -> Result<UtcMicros, PortError> {
        Ok(now)
    }

    async fn journals(&self) -> Result<Vec<RegisteredJournal>, PortError> {
        Ok(Vec::new())
    }

    async fn publish(&self, _: &[Landed], now: UtcMicros) -> Result<UtcMicros, PortError> {
        Ok(now)
    }

    async fn set_state(&self, _: JournalId, _: JournalState) -> Result<(), PortError> {
        Ok(())
    }

    async fn complete_through(&self, now: UtcMicros) -> Result<UtcMicros, PortError> {
        Ok(now)
    }

    async fn final_through(&self) -> Result<Option<UtcMicros>, PortError> {
        Ok(None)
    }
}

fn event() -> ClickEvent<'static> {
    ClickEvent {
        click_id: ClickId::unique(),
        link_id: LinkId::new(),
        event_time: UtcMicros::now(),
        analytics: Analytics::Billed,
        visitor: Some(1),
        agent_hash: 0,
        workspace: "default",
        domain: "go.example.com",
        code: "k7Qp2",
        revision: 1,
        destination: "https://example.com/",
        method: Method::Get,
        status: 302,
        address: None,
        no_edge_id: false,
        private: false,
        user_agent: "Mozilla/5.0 (X11; Linux x86_64; rv:131.0) Gecko/20100101 Firefox/131.0",
        referrer: "",
        language: "en",
        query: "",
        country: "",
        region: "",
        city: "",
        purpose: "",
        provider: "",
    }
}

fn files_below(folder: &Path) -> std::io::Result<usize> {
    let mut files = 0;
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        files += if path.is_dir() { files_below(&path)? } else { 1 };
    }
    Ok(files)
}

type Outcome = Result<(), Box<dyn std::error::Error>>;

#[tokio::main]
async fn main() -> Outcome {
    let mut arguments = std::env::args().skip(1).peekable();
    match arguments.next_if(|word| word == "reclassify") {
        Some(_) => reclassify(arguments.next().map_or(Ok(5_000_000), |text| text.parse())?).await,
        None => commits(arguments.next().map_or(Ok(3_000), |text| text.parse())?).await,
    }
}

/// Rows of a file of the history to be judged: as a merge leaves them.
const FILE_ROWS: u64 = 500_000;
/// Distinct agents of the history.
const AGENTS: u64 = 100_000;

/// Judges `rows` of a day anew, none of which says what it did, and again when there is nothing to do.
async fn reclassify(rows: u64) -> Outcome {
    let folder = std::env::temp_dir().join(format!("highwater-reclassify-{}", std::process::id()));
    let lake = Lake::open(&folder.display().to_string(), LakeOptions::default())?;
    // as the command has it
    let settings = EnrichConfig { cache_bytes: 96 << 20, ..EnrichConfig::default() };
    let enricher = Arc::new(Enricher::with_rules(Classifier::builtin()?, &settings));
    let mut clicks = lake.table(Table::Clicks).await?;
    let midnight = UtcMicros(20_526 * DAY);
    for first in (0..rows).step_by(FILE_ROWS as usize) {
        let mut builder = ClickBuilder::new();
        for n in first..rows.min(first + FILE_ROWS) {
            let agent = format!("Mozilla/5.0 (X11; Linux x86_64; rv:{0}.0) Gecko/20100101 Firefox/{0}.0", n % AGENTS);
            let code = format!("code{}", n % 1_009);
            let event_time = UtcMicros(midnight.0 + (n * DAY as u64 / rows) as i64);
            let event = ClickEvent { user_agent: &agent, code: &code, event_time, ..event() };
            enricher.event_row(&event, midnight, |row| {
                let verdict = Verdict { class: Class::Scanner, rules_version: 0, ..row.verdict.clone() };
                builder.push_row(&ClickRow { verdict: &verdict, ..*row });
            });
        }
        let add = clicks.write_spanning(&[builder.finish()?], Span::Day).await?;
        clicks.commit(Change { add, ..Change::default() }).await?;
    }
    let mut settler = Settler::new(&lake, Arc::new(Nobody), enricher, SettleConfig::default()).await?;
    let asked = Reclassify { start: midnight, end: UtcMicros(midnight.0 + DAY), workspace: None, dry_run: false };
    for what in ["all of it changes", "nothing changes"] {
        // from here on the most is counted anew, where the system lets us
        let _counted_from_the_start = std::fs::write("/proc/self/clear_refs", "5");
        let begin = Instant::now();
        let done = settler.reclassify(&asked, &mut |_| {}).await?;
        let seconds = begin.elapsed().as_secs_f64();
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let most = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("VmHWM: not known");
        println!(
            "{what}: {} rows in {} files, {} changed, in {seconds:.1} s ({:.0} rows/s), {most}",
            done.rows,
            done.files,
            done.changed,
            done.rows as f64 / seconds
        );
    }
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

async fn commits(commits: usize) -> Outcome {
    let folder = std::env::temp_dir().join(format!("highwater-upkeep-{}", std::process::id()));
    let root = folder.display().to_string();
    let options = LakeOptions { keep: Duration::from_secs(2), ..LakeOptions::default() };
    let lake = Lake::open(&root, options.clone())?;
    let enricher = Arc::new(Enricher::with_rules(Classifier::builtin()?, &EnrichConfig::default()));
    let config = SettleConfig { maintain_every: Duration::from_secs(1), ..SettleConfig::default() };
    let mut settler = Settler::new(&lake, Arc::new(Nobody), Arc::clone(&enricher), config).await?;
    let mut clicks = lake.table(Table::Clicks).await?;
    let (mut spans, mut most) = (Vec::with_capacity(commits), 0);
    for n in 0..commits {
        let mut builder = ClickBuilder::new();
        enricher.event_row(&event(), UtcMicros::now(), |row| builder.push_row(row));
        let begin = Instant::now();
        clicks.refresh().await?;
        let add = clicks.write(&builder.finish()?).await?;
        clicks.commit(Change { add, ..Change::default() }).await?;
        spans.push(begin.elapsed());
        if n % 20 == 19 {
            settler.pass().await?;
            most = most.max(files_below(&folder)?);
        }
    }
    spans.sort();
    let begin = Instant::now();
    let opened = Lake::open(&root, options)?.table(Table::Clicks).await?;
    let open = begin.elapsed();
    println!("{commits} commits: p50 {:?}, p99 {:?}", spans[commits / 2], spans[commits * 99 / 100]);
    println!("files under the lake: {} at the end, {most} at most", files_below(&folder)?);
    println!("opened at version {} with {} live files in {open:?}", opened.version(), opened.files().len());
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}
