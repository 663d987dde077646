//! `highwater stream`: click events as they pass, readable; another generation of the topic.

use std::net::IpAddr;
use std::process::ExitCode;

use anyhow::Context;
use ingest::journal::JournalPartition;
use ingest::ports::{Coverage as _, Registry as _};
use ingest::stream::{Body, Partition, Record};
use processor::gaps::{self, Gap};
use processor::lake::Lake;
use redirect::links::LinkStore;
use schemas::tables::Table;
use schemas::{ClickEvent, UtcMicros, wire};
use serde_json::json;
use tokio::sync::mpsc;

use super::{open, print};
use crate::cli::Stream;
use crate::config::{Backend, Config};
use crate::run::{ids_in, lost_offsets};

/// Events read ahead of the terminal.
const AHEAD: usize = 1_024;
/// Bytes read at a time from one journal.
const BLOCK: usize = 256 << 10;

/// Runs one of them.
pub(crate) async fn run(command: Stream, config: &Config) -> anyhow::Result<ExitCode> {
    match command {
        Stream::Tail { json, from_start, limit } => tail(json, from_start, limit, config).await,
        Stream::Renew => renew(config).await,
    }
}

/// Begins another generation of the topic.
async fn renew(config: &Config) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(config.stream.backend == Backend::Fluvio, "stream.backend is \"embedded\": there is no topic");
    let store = open::link_store(config).await?;
    let lake = open::lake(config)?;
    if lost_offsets(&lake, &store).await?.is_some() {
        let lost = write_down(&lake, &store).await?;
        print::line(&format!("the lake has lost clicks of {lost} journals: every answer that this touches says so"))?;
    }
    let fluvio = &config.stream.fluvio;
    let before = store.generation(&fluvio.topic).await?;
    let now = UtcMicros::now();
    let after = store.begin_generation(&fluvio.topic, fluvio.partitions, before.as_ref(), now).await?;
    let over = before.map_or("none".to_owned(), |before| before.id);
    print::line(&format!(
        "topic {}: generation {} with {} partitions has begun ({over} is over); whoever runs goes over to it within seconds",
        after.topic, after.id, after.partitions
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// What the lake has lost of journals that went through the topic, as rows of `gaps`: how much of each nobody knows.
async fn write_down(lake: &Lake, store: &LinkStore) -> anyhow::Result<usize> {
    let journals = store.journals().await?;
    let forwarded = journals.into_iter().filter(|known| known.forwarded && known.committed > 0);
    let lost: Vec<Gap> = forwarded
        .map(|known| Gap {
            journal: known.id,
            start: known.registered_at,
            end: known.through,
            lost: None,
            reason: "lake lost".to_owned(),
        })
        .collect();
    let mut table = lake.table(Table::Gaps).await?;
    gaps::add(&mut table, &lost, Vec::new()).await.context("the loss can't be written down")?;
    Ok(lost.len())
}

/// Prints events until stopped, or until enough were printed.
async fn tail(json: bool, from_start: bool, limit: Option<u64>, config: &Config) -> anyhow::Result<ExitCode> {
    let directory = config.journal_dir();
    let ids = ids_in(&directory)?;
    anyhow::ensure!(!ids.is_empty(), "there are no journals in {}; `highwater up` makes them", directory.display());
    let (send, mut events) = mpsc::channel(AHEAD);
    for id in ids {
        let partition = JournalPartition::in_directory(&directory, id);
        tokio::spawn(follow(partition, from_start, send.clone()));
    }
    drop(send);
    let mut left = limit.unwrap_or(u64::MAX);
    while left > 0 {
        let Some(record) = events.recv().await else { break };
        let record = record?;
        if let Body::Click(bytes) = &record.body {
            match wire::decode(bytes) {
                Ok(event) if json => print::line(&as_json(&event, &record).to_string())?,
                Ok(event) => print::line(&as_text(&event))?,
                Err(error) => print::line(&format!("journal {} position {}: {error}", record.journal, record.offset))?,
            }
            left -= 1;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn follow(mut partition: JournalPartition, from_start: bool, send: mpsc::Sender<anyhow::Result<Record>>) {
    if let Err(error) = follow_on(&mut partition, from_start, &send).await {
        // whoever printed has gone when this can't be sent
        let _gone = send.send(Err(error)).await;
    }
}

async fn follow_on(
    partition: &mut JournalPartition,
    from_start: bool,
    send: &mpsc::Sender<anyhow::Result<Record>>,
) -> anyhow::Result<()> {
    let mut next = if from_start { begin_of(partition).await? } else { partition.end().await? };
    loop {
        for record in partition.read(next, BLOCK).await? {
            next = record.offset + 1;
            if send.send(Ok(record)).await.is_err() {
                return Ok(());
            }
        }
        if partition.is_sealed() && next >= partition.end().await? {
            return Ok(());
        }
    }
}

/// The oldest position that is left: asking for the first tells where it is.
async fn begin_of(partition: &mut JournalPartition) -> anyhow::Result<u64> {
    if partition.end().await? == 0 {
        return Ok(0);
    }
    match partition.read(0, 1).await {
        Ok(_) => Ok(0),
        Err(ingest::stream::StreamError::Gap { begin, .. }) => Ok(begin),
        Err(error) => Err(error.into()),
    }
}

/// The address, unless the client asked for privacy.
fn shown_address(event: &ClickEvent<'_>) -> Option<IpAddr> {
    event.address.filter(|_| !event.private)
}

fn as_text(event: &ClickEvent<'_>) -> String {
    let address = shown_address(event).map_or("-".to_owned(), |address| address.to_string());
    format!(
        "{} {} {}/{} {} {} {:?}",
        event.event_time, event.method, event.domain, event.code, event.status, address, event.user_agent
    )
}

fn as_json(event: &ClickEvent<'_>, record: &Record) -> serde_json::Value {
    json!({
        "click_id": event.click_id.to_string(), "event_time": event.event_time, "workspace": event.workspace,
        "link_id": event.link_id, "domain": event.domain, "code": event.code, "revision": event.revision,
        "destination": event.destination, "analytics": event.analytics, "method": event.method,
        "status": event.status, "address": shown_address(event), "user_agent": event.user_agent,
        "referrer": event.referrer, "language": event.language, "query": event.query, "country": event.country,
        "region": event.region, "city": if event.private { "" } else { event.city }, "private": event.private,
        "purpose": event.purpose, "provider": event.provider, "no_edge_id": event.no_edge_id,
        "journal": record.journal, "position": record.offset,
    })
}
