//! What it costs to make a row of a record, without reading or writing any: decoded, enriched and classified on one core;
//! and what its parts cost that issue a verdict.

use std::hint::black_box;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, ensure};
use ipnet::Ipv4Net;
use processor::classify::Classifier;
use processor::enrich::{EnrichConfig, Enricher};
use processor::geo::Geo;
use processor::networks::{List, Meaning, Networks};
use schemas::{ClickBuilder, UtcMicros, wire};

use super::made_up::{self, Crowd};
use super::places;
use crate::table::Table;

/// Records that become one batch of rows: about as many as are read at once.
const AT_ONCE: usize = 2_500;
/// Agents that are judged.
const DECISIONS: u64 = 100_000;

/// Measures it for as many clicks, after as many that fill the caches as a process has met before.
pub(super) fn run(clicks: u64, table: &mut Table) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("places.mmdb");
    std::fs::write(&path, places::database())?;
    let enricher = Enricher::new(&EnrichConfig { geo: Arc::new(Geo::open(&path)?), ..EnrichConfig::default() })?;
    let mut crowd = Crowd::new(1);
    let mut records = || -> Vec<Vec<u8>> {
        let encoded = |n| {
            let mut bytes = Vec::new();
            wire::encode(&crowd.click(UtcMicros(n as i64)), &mut bytes);
            bytes
        };
        (0..clicks).map(encoded).collect()
    };
    let rows = |records: &[Vec<u8>]| -> Result<usize> {
        let mut located = 0;
        for read in records.chunks(AT_ONCE) {
            let mut rows = ClickBuilder::with_capacity(read.len());
            for record in read {
                enricher.event_row(&wire::decode(record)?, UtcMicros(0), |row| {
                    located += usize::from(row.city.is_some());
                    rows.push_row(row);
                });
            }
            black_box(rows.into_batch()?);
        }
        Ok(located)
    };
    rows(&records())?;
    let measured = records();
    let begin = Instant::now();
    let located = rows(&measured)?;
    let per_second = clicks as f64 / begin.elapsed().as_secs_f64();
    ensure!(located * 3 > measured.len(), "only {located} of {clicks} clicks were found anywhere");
    let what = format!("{clicks} clicks decoded, enriched and classified, one core");
    table.row(&what, &format!("{per_second:.0}/s"), "", "", ">= 400,000/s");
    verdicts(&enricher, table)
}

/// How long verdicts take.
fn verdicts(enricher: &Enricher, table: &mut Table) -> Result<()> {
    let agents: Vec<String> = (0..DECISIONS).map(made_up::app).collect();
    let classifier = Classifier::builtin()?;
    let new = each(agents.iter(), |agent| {
        black_box(classifier.agent(agent));
    });
    table.row("  an agent not seen before, its class", &format!("{new:.0} ns"), "", "", "< 2,000 ns");
    let mut crowd = Crowd::new(1);
    let hash = crowd.click(UtcMicros(0)).agent_hash;
    ensure!(enricher.class_of(hash, false, || None).is_some(), "the agent of the first click is in no cache");
    let cached = each(0..10 * DECISIONS as u32, |_| {
        black_box(enricher.class_of(black_box(hash), false, || None));
    });
    table.row("  one in cache", &format!("{cached:.1} ns"), "", "", "< 50 ns");
    let list = List {
        name: "scanners".into(),
        meaning: Meaning::Scanner,
        agents: Vec::new(),
        source: "made up".into(),
        updated_at: UtcMicros::now(),
        prefixes: (0..50_000u32)
            .map(|n| Ipv4Net::new(Ipv4Addr::from_bits(n.wrapping_mul(0x9e37_79b9)), 24).map(Into::into))
            .collect::<Result<_, _>>()?,
    };
    let networks = Networks::new([&list]);
    let looked_up = each(0..DECISIONS as u32, |n| {
        black_box(networks.mark(Ipv4Addr::from_bits(n.wrapping_mul(0x85eb_ca6b)).into(), None));
    });
    table.row("  a network, of 50,000", &format!("{looked_up:.0} ns"), "", "", "");
    Ok(())
}

/// Nanoseconds for each.
fn each<T>(of: impl ExactSizeIterator<Item = T>, mut then: impl FnMut(T)) -> f64 {
    let (count, begin) = (of.len(), Instant::now());
    of.for_each(&mut then);
    begin.elapsed().as_nanos() as f64 / count.max(1) as f64
}
