//! What `edge_files` says of imports: whose they are, and how many of their lines reached the origin. Files never change, so
//! each is read once.

use std::collections::{BTreeMap, HashMap, HashSet};

use arrow::array::{Array as _, AsArray as _, RecordBatch};
use serde::Deserialize;

use super::hours::OriginHours;
use super::party::{Party, tenant_of};
use crate::lake::{LakeError, TableHandle};

/// What `edge_files` says of an import.
#[derive(Clone, Debug)]
pub(super) struct Import {
    id: String,
    pub(super) provider: String,
    /// Who has uploaded it; none: an operator brought it.
    tenant: Option<String>,
    /// Whether its lines are coming in.
    is_begun: bool,
    is_reverted: bool,
    hours: OriginHours,
}

impl Import {
    pub(super) fn is_uploaded(&self) -> bool {
        self.tenant.is_some()
    }

    pub(super) fn has_ended(&self) -> bool {
        !self.is_begun
    }
}

/// The imports that have ended, or whose lines are coming in.
#[derive(Debug, Default)]
pub(super) struct ImportFacts(HashMap<String, Vec<Import>>);

#[derive(Deserialize)]
struct Told {
    state: String,
}

#[derive(Deserialize)]
struct Options {
    workspace: Option<String>,
}

impl ImportFacts {
    /// Goes on to what the snapshot says.
    pub(super) async fn follow(&mut self, edge_files: &TableHandle) -> Result<(), LakeError> {
        let live: HashSet<&str> = edge_files.files().iter().map(|file| file.path.as_str()).collect();
        self.0.retain(|path, _| live.contains(path.as_str()));
        for file in edge_files.files() {
            if !self.0.contains_key(&file.path) {
                let columns = ["id", "provider", "summary", "origin_hours", "options"];
                let batches = edge_files.read(file, &columns).await?;
                self.0.insert(file.path.clone(), batches.iter().flat_map(imports).collect());
            }
        }
        Ok(())
    }

    fn all(&self) -> impl Iterator<Item = &Import> {
        self.0.values().flatten()
    }

    /// Lines of a party's hour that reached the origin, each once, by workspace; of all workspaces that are in the same
    /// files.
    pub(super) fn lines(&self, party: &Party, hour: i64) -> BTreeMap<String, u64> {
        let tells = |import: &&Import| {
            let of_it = import.provider == party.provider && !import.is_reverted;
            of_it && (import.tenant.is_none() || import.tenant == party.tenant)
        };
        OriginHours::distinct(self.all().filter(tells).map(|import| &import.hours), hour)
    }

    /// An import that is known.
    pub(super) fn get(&self, import: &str) -> Option<&Import> {
        self.all().find(|known| known.id == import)
    }
}

fn imports(batch: &RecordBatch) -> Vec<Import> {
    let text = |name: &str| batch.column_by_name(name).and_then(|column| column.as_string_opt::<i32>());
    let (Some(ids), Some(providers), Some(told), Some(hours), Some(options)) =
        (text("id"), text("provider"), text("summary"), text("origin_hours"), text("options"))
    else {
        return Vec::new();
    };
    let import = |row: usize| {
        let state = serde_json::from_str::<Told>(told.value(row)).map(|told| told.state).unwrap_or_default();
        Import {
            id: ids.value(row).to_owned(),
            provider: providers.value(row).to_owned(),
            // posts have no options, and no lines
            tenant: serde_json::from_str::<Options>(options.value(row))
                .ok()
                .and_then(|options| tenant_of(options.workspace.as_deref()).map(str::to_owned)),
            is_begun: state == "running",
            is_reverted: state == "reverted",
            hours: if hours.is_valid(row) { OriginHours::from_text(hours.value(row)) } else { OriginHours::default() },
        }
    };
    (0..batch.num_rows()).map(import).collect()
}
