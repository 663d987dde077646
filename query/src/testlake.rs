//! Small lakes for tests: Parquet files and log entries written by hand, so that readers are tested against the format
//! and not against a writer's habits.

mod log;
mod pipeline;
mod rows;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;

use arrow::array::RecordBatch;
use parquet::arrow::ArrowWriter;
use schemas::click::{AgentInfo, Utm, Verdict};
use schemas::tables::Table;
use schemas::{Class, Click, ClickBuilder, ClickId, Device, Method, Principal, Scope, Source, UtcMicros};
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) use pipeline::{Pipeline, Tokens, status};
pub(crate) use rows::Rate;

use crate::config::QueryConfig;
use crate::ports::{Freshness, StatusSource};
use crate::service::QueryService;

pub(crate) fn operator() -> Principal {
    Principal { workspace: None, scope: Scope::Admin }
}

pub(crate) fn tenant(workspace: &str) -> Principal {
    Principal { workspace: Some(workspace.to_owned()), scope: Scope::Read }
}

pub(crate) fn at(text: &str) -> UtcMicros {
    UtcMicros::from(chrono::DateTime::parse_from_rfc3339(text).unwrap().to_utc())
}

pub(crate) fn text(text: &str) -> Option<Arc<str>> {
    Some(text.into())
}

/// A human click of workspace `a`, code `x`; `number` is its identity.
pub(crate) fn click(number: u64, time: UtcMicros) -> Click {
    Click {
        click_id: ClickId::from(u128::from(number) << 64 | u128::from(number)),
        event_time: time,
        ingest_time: time,
        workspace: "a".into(),
        link_id: None,
        domain: "go.example".into(),
        code: "x".into(),
        revision: Some(1),
        destination: text("https://example.com/"),
        source: Source::Origin,
        verdict: Verdict { class: Class::Human, agent: None, reason: "none".into(), rules_version: 1 },
        method: Some(Method::Get),
        status: 302,
        country: None,
        region: None,
        city: None,
        agent_info: Arc::new(AgentInfo {
            device: Device::Unknown,
            browser: None,
            browser_version: None,
            os: None,
            os_version: None,
        }),
        import_id: None,
        referrer: None,
        utm: Utm::default(),
        language: None,
        user_agent: None,
        client_net: None,
        visitor: Some(number as i64),
        weight: 1.0,
        query: None,
        private: false,
    }
}

/// A lake in a folder of its own.
#[derive(Debug)]
pub(crate) struct TestLake {
    folder: TempDir,
    pub(crate) pipeline: Arc<Pipeline>,
    versions: Mutex<BTreeMap<Table, u64>>,
}

impl TestLake {
    /// Without tables.
    pub(crate) fn new() -> Self {
        let pipeline = Pipeline(Mutex::new(Some(Freshness::default())), Mutex::default());
        Self { folder: tempfile::tempdir().unwrap(), pipeline: Arc::new(pipeline), versions: Mutex::default() }
    }

    pub(crate) fn with(clicks: &[Click]) -> Self {
        let lake = Self::new();
        lake.add(clicks);
        lake
    }

    pub(crate) fn path(&self, table: Table) -> PathBuf {
        self.folder.path().join("lake").join(table.as_str())
    }

    pub(crate) fn config(&self) -> QueryConfig {
        let lake = self.folder.path().join("lake");
        QueryConfig::new(lake.to_str().unwrap(), self.folder.path().join("spill"))
    }

    pub(crate) fn service(&self) -> QueryService {
        self.service_with(self.config())
    }

    pub(crate) fn service_with(&self, config: QueryConfig) -> QueryService {
        QueryService::new(config, Arc::new(Tokens), Arc::clone(&self.pipeline) as Arc<dyn StatusSource>).unwrap()
    }

    /// Commits clicks, a file for each UTC date, tenants mixed. Returns the files' paths.
    pub(crate) fn add(&self, clicks: &[Click]) -> Vec<String> {
        let mut files: BTreeMap<i32, ClickBuilder> = BTreeMap::new();
        for click in clicks {
            files.entry(click.event_time.day()).or_default().push(click);
        }
        let files = files.into_iter().map(|(day, mut rows)| (Some(day), rows.finish().unwrap()));
        self.add_batches(Table::Clicks, files.collect())
    }

    fn add_batches(&self, table: Table, files: Vec<(Option<i32>, RecordBatch)>) -> Vec<String> {
        let mut versions = self.versions.lock().unwrap();
        let version = versions.entry(table).or_insert_with(|| {
            self.entry(table, 0, &log::first_entry(table));
            0
        });
        *version += 1;
        let (mut lines, mut paths) = (Vec::new(), Vec::new());
        for (index, (day, batch)) in files.into_iter().enumerate() {
            let date =
                day.map(|day| UtcMicros(i64::from(day) * schemas::time::DAY).to_datetime().format("%F").to_string());
            let name = format!("{version}-{index}.parquet");
            let path = date.as_ref().map_or_else(|| name.clone(), |date| format!("date={date}/{name}"));
            let file = self.path(table).join(&path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            let mut writer = ArrowWriter::try_new(std::fs::File::create(&file).unwrap(), batch.schema(), None).unwrap();
            writer.write(&batch).unwrap();
            writer.close().unwrap();
            lines.push(json!({"add": {
                "path": path,
                "partitionValues": date.map_or_else(|| json!({}), |date| json!({ "date": date })),
                "size": std::fs::metadata(&file).unwrap().len(),
                "modificationTime": 0,
                "dataChange": true,
                "stats": log::stats(table, &batch),
            }}));
            paths.push(path);
        }
        self.entry(table, *version, &lines);
        paths
    }

    /// Commits the removal of files, and deletes them.
    pub(crate) fn remove(&self, table: Table, paths: &[String]) {
        let mut versions = self.versions.lock().unwrap();
        let version = versions.get_mut(&table).unwrap();
        *version += 1;
        let remove = |path: &String| json!({"remove": {"path": path, "deletionTimestamp": 0, "dataChange": true}});
        self.entry(table, *version, &paths.iter().map(remove).collect::<Vec<_>>());
        for path in paths {
            std::fs::remove_file(self.path(table).join(path)).unwrap();
        }
    }

    fn entry(&self, table: Table, version: u64, lines: &[Value]) {
        let log = self.path(table).join("_delta_log");
        std::fs::create_dir_all(&log).unwrap();
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(log.join(format!("{version:020}.json")), text).unwrap();
    }
}
