//! What the tables say of a provider's hour: its events, rows and waiting lines. Files never change, so each is read
//! once, and no more of it kept than some numbers.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use arrow::array::{Array as _, AsArray as _, RecordBatch, StringArray};
use arrow::datatypes::TimestampMicrosecondType;
use schemas::time::HOUR;
use schemas::{ClickId, Source, UtcMicros};
use serde::Deserialize;

use super::hours::OriginHours;
use crate::lake::{LakeError, TableHandle};
use crate::settle::ids::click_ids;
use crate::settle::waiting::corrects;

/// An id made at the origin has its time in it; it is taken for one if that is so near the event's.
const MADE_NEAR: Duration = Duration::from_secs(60);

/// Rows recovered from the lines of an import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Recovered {
    /// All of them.
    pub(super) rows: u64,
    /// Those of links of ours.
    pub(super) linked: u64,
}

/// What one hour's rows of `clicks` say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct HourRows {
    /// Events that an edge's id names.
    pub(super) named: u64,
    /// Events that were given an id at the origin.
    pub(super) nameless: u64,
    /// Events made elsewhere, by import.
    pub(super) told: HashMap<String, u64>,
    /// Rows recovered from lines, by import.
    pub(super) recovered: HashMap<String, Recovered>,
}

/// Rows of `clicks` by hour, of files that have been asked for.
#[derive(Debug, Default)]
pub(super) struct ClickFacts(HashMap<String, BTreeMap<i64, HourRows>>);

impl ClickFacts {
    /// What the snapshot says of an hour.
    pub(super) async fn of(&mut self, clicks: &TableHandle, hour: i64) -> Result<HourRows, LakeError> {
        let live: HashSet<&str> = clicks.files().iter().map(|file| file.path.as_str()).collect();
        self.0.retain(|path, _| live.contains(path.as_str()));
        let mut all = HourRows::default();
        for file in clicks.files_between(UtcMicros(hour * HOUR), UtcMicros((hour + 1) * HOUR - 1)) {
            if !self.0.contains_key(&file.path) {
                let batches = clicks.read(file, &["click_id", "event_time", "source", "import_id", "link_id"]).await?;
                let mut hours = BTreeMap::new();
                batches.iter().for_each(|batch| take_in(batch, &mut hours));
                self.0.insert(file.path.clone(), hours);
            }
            let Some(rows) = self.0.get(&file.path).and_then(|hours| hours.get(&hour)) else { continue };
            all.named += rows.named;
            all.nameless += rows.nameless;
            for (import, told) in &rows.told {
                *all.told.entry(import.clone()).or_default() += told;
            }
            for (import, recovered) in &rows.recovered {
                let of = all.recovered.entry(import.clone()).or_default();
                of.rows += recovered.rows;
                of.linked += recovered.linked;
            }
        }
        Ok(all)
    }
}

fn take_in(batch: &RecordBatch, hours: &mut BTreeMap<i64, HourRows>) {
    let text = |name: &str| batch.column_by_name(name).and_then(|column| column.as_string_opt::<i32>());
    let times = times(batch, "event_time");
    let (Some(sources), Some(imports), Some(links), Some(times)) =
        (text("source"), text("import_id"), text("link_id"), times)
    else {
        return;
    };
    for (row, id) in click_ids(batch).enumerate() {
        let time = UtcMicros(times.value(row));
        let hour = hours.entry(time.hour()).or_default();
        match sources.value(row).parse() {
            Ok(Source::Origin) if imports.is_valid(row) => {
                *hour.told.entry(imports.value(row).to_owned()).or_default() += 1;
            }
            Ok(Source::Origin) if is_made_here(id, time) => hour.nameless += 1,
            Ok(Source::Origin) => hour.named += 1,
            Ok(Source::Recovered) => {
                let of = hour.recovered.entry(text_or_none(imports, row)).or_default();
                of.rows += 1;
                of.linked += u64::from(links.is_valid(row));
            }
            _ => {}
        }
    }
}

fn is_made_here(id: ClickId, time: UtcMicros) -> bool {
    id.made_at().is_some_and(|made| made.minus(MADE_NEAR) <= time && time <= made.plus(MADE_NEAR))
}

fn times<'a>(batch: &'a RecordBatch, name: &str) -> Option<&'a arrow::array::PrimitiveArray<TimestampMicrosecondType>> {
    batch.column_by_name(name)?.as_primitive_opt()
}

/// What `edge_files` says of an import.
#[derive(Clone, Debug)]
struct Import {
    id: String,
    provider: String,
    is_reverted: bool,
    hours: OriginHours,
}

/// The imports that have ended.
#[derive(Debug, Default)]
pub(super) struct ImportFacts(HashMap<String, Vec<Import>>);

#[derive(Deserialize)]
struct Told {
    state: String,
}

impl ImportFacts {
    /// Goes on to what the snapshot says.
    pub(super) async fn follow(&mut self, edge_files: &TableHandle) -> Result<(), LakeError> {
        let live: HashSet<&str> = edge_files.files().iter().map(|file| file.path.as_str()).collect();
        self.0.retain(|path, _| live.contains(path.as_str()));
        for file in edge_files.files() {
            if !self.0.contains_key(&file.path) {
                let batches = edge_files.read(file, &["id", "provider", "summary", "origin_hours"]).await?;
                self.0.insert(file.path.clone(), batches.iter().flat_map(imports).collect());
            }
        }
        Ok(())
    }

    fn all(&self) -> impl Iterator<Item = &Import> {
        self.0.values().flatten()
    }

    /// Lines of the provider's hour that reached the origin, each once.
    pub(super) fn lines(&self, provider: &str, hour: i64) -> u64 {
        let of = self.all().filter(|import| import.provider == provider && !import.is_reverted);
        OriginHours::distinct(of.map(|import| &import.hours), hour)
    }

    /// Whose lines an import's are; none while it is under way.
    pub(super) fn provider_of(&self, import: &str) -> Option<&str> {
        self.all().find(|known| known.id == import).map(|known| known.provider.as_str())
    }
}

fn imports(batch: &RecordBatch) -> Vec<Import> {
    let text = |column: usize| batch.column(column).as_string_opt::<i32>();
    let (Some(ids), Some(providers), Some(told), Some(hours)) = (text(0), text(1), text(2), text(3)) else {
        return Vec::new();
    };
    let import = |row: usize| Import {
        id: ids.value(row).to_owned(),
        provider: providers.value(row).to_owned(),
        is_reverted: serde_json::from_str::<Told>(told.value(row)).is_ok_and(|told| told.state == "reverted"),
        hours: if hours.is_valid(row) { OriginHours::from_text(hours.value(row)) } else { OriginHours::default() },
    };
    (0..batch.num_rows()).map(import).collect()
}

/// An origin-class line in `arrivals`.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) id: ClickId,
    pub(super) time: UtcMicros,
    pub(super) import: String,
    pub(super) arrived: UtcMicros,
    /// Whether it is of a link of ours.
    pub(super) is_linked: bool,
}

/// The origin-class lines of a provider that wait, of these hours.
pub(super) async fn waiting(
    arrivals: &TableHandle,
    provider: &str,
    hours: &BTreeSet<i64>,
) -> Result<Vec<Waiting>, LakeError> {
    let mut found = Vec::new();
    let meets = |from: Option<UtcMicros>, to: Option<UtcMicros>| {
        let (from, to) = (from.map_or(i64::MIN, UtcMicros::hour), to.map_or(i64::MAX, UtcMicros::hour));
        hours.range(from..=to).next().is_some()
    };
    for file in arrivals.files().iter().filter(|file| meets(file.min_time, file.max_time)) {
        let columns =
            ["click_id", "event_time", "source", "import_id", "link_id", "provider", "arrived_at", "corrects"];
        for batch in arrivals.read(file, &columns).await? {
            let text = |name: &str| batch.column_by_name(name).and_then(|column| column.as_string_opt::<i32>());
            let (Some(sources), Some(imports), Some(links), Some(providers), Some(at), Some(arrived)) = (
                text("source"),
                text("import_id"),
                text("link_id"),
                text("provider"),
                times(&batch, "event_time"),
                times(&batch, "arrived_at"),
            ) else {
                continue;
            };
            for (row, id) in click_ids(&batch).enumerate() {
                let time = UtcMicros(at.value(row));
                let is_origin = sources.value(row) == Source::Recovered.as_str() && providers.value(row) == provider;
                if is_origin && hours.contains(&time.hour()) && !corrects(&batch, row) {
                    let (import, arrived) = (text_or_none(imports, row), UtcMicros(arrived.value(row)));
                    found.push(Waiting { id, time, import, arrived, is_linked: links.is_valid(row) });
                }
            }
        }
    }
    Ok(found)
}

fn text_or_none(texts: &StringArray, row: usize) -> String {
    if texts.is_valid(row) { texts.value(row).to_owned() } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_made_at_the_origin_are_told_from_an_edges() {
        let now = UtcMicros::now();
        assert!(is_made_here(ClickId::unique(), now));
        assert!(!is_made_here(ClickId::unique(), now.plus(Duration::from_secs(3_600))));
        let named = (0..100_000u64).filter(|n| is_made_here(ClickId::from_edge("nginx", &n.to_le_bytes(), "k"), now));
        assert_eq!(named.count(), 0);
    }
}
