//! What 3,000 commits cost and leave behind, on a local disk with the settler at work:
//! `cargo run --release -p processor --example upkeep [COMMITS]`.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use ingest::ports::{JournalState, Landed, PortError, RegisteredJournal, Registry};
use processor::classify::Classifier;
use processor::enrich::{EnrichConfig, Enricher};
use processor::lake::{Change, Lake, LakeOptions};
use processor::settle::{SettleConfig, Settler};
use schemas::tables::Table;
use schemas::{Analytics, ClickBuilder, ClickEvent, ClickId, JournalId, LinkId, Method, UtcMicros};

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

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let commits: usize = std::env::args().nth(1).map_or(Ok(3_000), |text| text.parse())?;
    let folder = std::env::temp_dir().join(format!("highwater-upkeep-{}", std::process::id()));
    let root = folder.display().to_string();
    let options = LakeOptions { keep: Duration::from_secs(2), ..LakeOptions::default() };
    let lake = Lake::open(&root, options.clone())?;
    let enricher = Arc::new(Enricher::with_classifier(Classifier::builtin()?, &EnrichConfig::default()));
    let config = SettleConfig { maintain_every: Duration::from_secs(1), ..SettleConfig::default() };
    let mut settler = Settler::new(&lake, Arc::new(Nobody), Arc::clone(&enricher), config).await?;
    let mut clicks = lake.table(Table::Clicks).await?;
    let (mut spans, mut most) = (Vec::with_capacity(commits), 0);
    for n in 0..commits {
        let mut builder = ClickBuilder::new();
        builder.push(&enricher.click(&event(), UtcMicros::now()));
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
