//! Small lakes for tests: Parquet files and log entries written by hand, so that readers are tested against the format
//! and not against a writer's habits.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;

use arrow::array::AsArray;
use arrow::array::{Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use arrow::compute::{concat_batches, max_string, min_string};
use async_trait::async_trait;
use chrono::SecondsFormat;
use deltalake::kernel::StructType;
use deltalake::kernel::engine::arrow_conversion::TryIntoKernel as _;
use parquet::arrow::ArrowWriter;
use schemas::click::{AgentInfo, Utm, Verdict};
use schemas::hourly::HourRow;
use schemas::sketch::VisitorSketch;
use schemas::tables::Table;
use schemas::{Class, Click, ClickBuilder, ClickId, Device, Method, Principal, Scope, Source, UtcMicros};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::config::QueryConfig;
use crate::ports::{Access, AccessError, Changing, Freshness, StatusError, StatusSource};
use crate::service::QueryService;
use crate::status::{EdgeLogsStatus, HotLink, JournalStatus, PartitionStatus, SamplingStatus, Status, StreamStatus};

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

/// `op` is an operator's token; `t-W` is workspace W's; of `away` nobody can tell; any other is unknown.
#[derive(Debug)]
pub(crate) struct Tokens;

#[async_trait]
impl Access for Tokens {
    async fn authenticate(&self, token: &str) -> Result<Option<Principal>, AccessError> {
        match token {
            "op" => Ok(Some(operator())),
            "away" => Err(AccessError("the database of links, db.internal, is away".to_owned())),
            token => Ok(token.strip_prefix("t-").map(tenant)),
        }
    }
}

/// A pipeline that says what it is told to say, or nothing.
#[derive(Debug, Default)]
pub(crate) struct Pipeline(pub(crate) Mutex<Option<Freshness>>, pub(crate) Mutex<Vec<Changing>>);

#[async_trait]
impl StatusSource for Pipeline {
    async fn freshness(&self) -> Result<Freshness, StatusError> {
        self.0.lock().unwrap().ok_or_else(|| StatusError("down".to_owned()))
    }

    async fn changing(&self) -> Result<Vec<Changing>, StatusError> {
        Ok(self.1.lock().unwrap().clone())
    }

    async fn status(&self) -> Result<Status, StatusError> {
        Ok(status())
    }
}

pub(crate) fn status() -> Status {
    let link = |workspace: &str, code: &str| HotLink {
        workspace: workspace.into(),
        code: code.into(),
        since: UtcMicros(1),
        until: UtcMicros(2),
        rate: 5.0,
    };
    Status {
        as_of: UtcMicros(3),
        complete_through: Some(UtcMicros(2)),
        final_through: None,
        held_back_by: Some("j".into()),
        stream: StreamStatus {
            backend: "embedded".into(),
            lag_records: 0,
            lag_seconds: 0.0,
            retention_seconds: 604_800,
            partitions: vec![PartitionStatus { id: 0, next: 1, end: 1, owner: None, until: None }],
        },
        journals: vec![JournalStatus {
            id: "j".into(),
            node: "n".into(),
            through: UtcMicros(2),
            unsent: Some(0),
            bytes: 10,
            state: "open".into(),
        }],
        journal_budget: None,
        sampling: SamplingStatus { active: false, rate: 1.0 },
        edge_logs: EdgeLogsStatus {
            queued: 0,
            failed: 0,
            waiting: 0,
            mismatched: vec![],
            deciding: vec![],
            sources: vec![],
        },
        refused: vec![],
        hot_links: vec![link("a", "of-a"), link("b", "of-b")],
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

    /// Commits what is left of clicks that were sampled away at `rate`: one row a workspace, code, class and hour.
    pub(crate) fn add_shed(&self, shed: &[Click], rate: f64) -> Vec<String> {
        let mut hours: BTreeMap<(i32, &str, &str, Class, i64), VisitorSketch> = BTreeMap::new();
        for click in shed {
            let time = click.event_time;
            let key = (time.day(), &*click.workspace, &*click.code, click.verdict.class, time.hour());
            let sketch = hours.entry(key).or_insert_with(|| VisitorSketch::new().unwrap());
            click.visitor.into_iter().for_each(|visitor| sketch.add(visitor));
        }
        let mut days: BTreeMap<i32, Vec<RecordBatch>> = BTreeMap::new();
        for ((day, workspace, code, class, hour), sketch) in hours {
            let row = HourRow {
                workspace,
                link_id: "018f0000-0000-7000-8000-000000000001",
                domain: "go.example",
                code,
                class: class.as_str(),
                hour: UtcMicros(hour * schemas::time::HOUR),
                lowest_rate: rate,
                visitors: &sketch.to_bytes(),
            };
            days.entry(day).or_default().push(schemas::hourly::to_batch([row]).unwrap());
        }
        let joined = |rows: Vec<RecordBatch>| concat_batches(&rows[0].schema(), &rows).unwrap();
        let files = days.into_iter().map(|(day, rows)| (Some(day), joined(rows)));
        self.add_batches(Table::ClicksHourly, files.collect())
    }

    /// Commits a gap.
    pub(crate) fn add_gap(&self, workspace: Option<&str>, start: UtcMicros, end: UtcMicros, lost: i64) {
        let time = |time: UtcMicros| Arc::new(TimestampMicrosecondArray::from(vec![time.0]).with_timezone("UTC"));
        let columns: Vec<arrow::array::ArrayRef> = vec![
            Arc::new(StringArray::from(vec![workspace])),
            Arc::new(StringArray::from(vec!["j"])),
            time(start),
            time(end),
            Arc::new(Int64Array::from(vec![lost])),
            Arc::new(StringArray::from(vec!["disk full"])),
            time(end),
        ];
        let batch = RecordBatch::try_new(Table::Gaps.schema(), columns).unwrap();
        self.add_batches(Table::Gaps, vec![(None, batch)]);
    }

    /// Commits a restatement, made at its own end, for a backfill.
    pub(crate) fn add_restatement(&self, workspace: Option<&str>, start: UtcMicros, end: UtcMicros) {
        self.restate("backfill", workspace, start, end);
    }

    /// Commits what is said before rows go that are too old.
    pub(crate) fn add_retention(&self, workspace: &str, start: UtcMicros, end: UtcMicros) {
        self.restate("retention", Some(workspace), start, end);
    }

    fn restate(&self, why: &str, workspace: Option<&str>, start: UtcMicros, end: UtcMicros) {
        let time = |time: UtcMicros| Arc::new(TimestampMicrosecondArray::from(vec![time.0]).with_timezone("UTC"));
        let count = |count: i64| Arc::new(Int64Array::from(vec![count]));
        let columns: Vec<arrow::array::ArrayRef> = vec![
            time(end),
            Arc::new(StringArray::from(vec![why])),
            Arc::new(StringArray::from(vec![workspace])),
            time(start),
            time(end),
            count(1),
            count(0),
            count(0),
            Arc::new(StringArray::new_null(1)),
        ];
        let batch = RecordBatch::try_new(Table::Restatements.schema(), columns).unwrap();
        self.add_batches(Table::Restatements, vec![(None, batch)]);
    }

    fn add_batches(&self, table: Table, files: Vec<(Option<i32>, RecordBatch)>) -> Vec<String> {
        let mut versions = self.versions.lock().unwrap();
        let version = versions.entry(table).or_insert_with(|| {
            self.entry(table, 0, &first_entry(table));
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
                "stats": stats(table, &batch),
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

fn first_entry(table: Table) -> Vec<Value> {
    let schema: StructType = table.schema().as_ref().try_into_kernel().unwrap();
    vec![
        json!({"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}),
        json!({"metaData": {
            "id": "5fba94ed-9794-4965-ba6e-6ee3c0d22af9",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": serde_json::to_string(&schema).unwrap(),
            "partitionColumns": table.partitioned_by(),
            "configuration": {"delta.dataSkippingStatsColumns": table.stats_columns().join(",")},
            "createdTime": 0,
        }}),
    ]
}

fn stats(table: Table, batch: &RecordBatch) -> String {
    let (mut least, mut greatest) = (json!({}), json!({}));
    for column in table.stats_columns() {
        let array = batch.column_by_name(column).unwrap();
        match array.as_string_opt::<i32>() {
            Some(texts) => {
                least[column] = json!(min_string(texts));
                greatest[column] = json!(max_string(texts));
            }
            None => {
                let times = array.as_primitive::<arrow::datatypes::TimestampMicrosecondType>();
                // milliseconds, cut: as some writers do
                let time = |time: Option<i64>| {
                    time.map(|time| UtcMicros(time).to_datetime().to_rfc3339_opts(SecondsFormat::Millis, true))
                };
                least[column] = json!(time(arrow::compute::min(times)));
                greatest[column] = json!(time(arrow::compute::max(times)));
            }
        }
    }
    json!({"numRecords": batch.num_rows(), "minValues": least, "maxValues": greatest}).to_string()
}
