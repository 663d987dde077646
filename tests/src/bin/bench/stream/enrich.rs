//! What it costs to make a row of a record, without reading or writing any: decoded, enriched and classified on one core.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, ensure};
use processor::enrich::{EnrichConfig, Enricher};
use processor::geo::Geo;
use schemas::{UtcMicros, wire};

use super::made_up::Crowd;
use super::places;
use crate::table::Table;

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
        for record in records {
            let click = enricher.click(&wire::decode(record)?, UtcMicros(0));
            located += usize::from(click.city.is_some());
            black_box(click);
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
    Ok(())
}
