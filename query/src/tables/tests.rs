mod properties;

use std::time::{Duration, Instant};

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use datafusion::physical_plan::metrics::MetricValue;
use datafusion::physical_plan::{ExecutionPlan, displayable};
use datafusion::prelude::SessionContext;
use schemas::Click;
use schemas::tables::Table;

use super::*;
use crate::engine::Engine;
use crate::ports::Freshness;
use crate::testlake::{TestLake, at, click, operator, tenant};

fn engine(lake: &TestLake, config: &QueryConfig) -> Arc<Engine> {
    let status: Arc<dyn StatusSource> = Arc::clone(&lake.pipeline) as _;
    Arc::new(Engine::start(config, &status).unwrap())
}

async fn session(engine: &Engine, principal: &Principal) -> SessionContext {
    let session = engine.session();
    for table in [Table::Clicks, Table::ClicksHourly] {
        let snapshot = engine.tables.snapshot(table, None).await.unwrap();
        session.register_table(table.as_str(), engine.tables.provider(&snapshot, principal)).unwrap();
    }
    session
}

async fn rows(session: &SessionContext, sql: &str) -> Result<String, String> {
    let frame = session.sql(sql).await.map_err(|error| error.to_string())?;
    let batches = frame.collect().await.map_err(|error| error.to_string())?;
    Ok(arrow::util::pretty::pretty_format_batches(&batches).unwrap().to_string())
}

async fn number(session: &SessionContext, sql: &str) -> i64 {
    let batches = session.sql(sql).await.unwrap().collect().await.unwrap();
    batches[0].column(0).as_primitive::<Int64Type>().value(0)
}

/// How many files the scan of a query opens.
async fn opened(session: &SessionContext, sql: &str) -> usize {
    let plan = session.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
    let shown = displayable(plan.as_ref()).indent(true).to_string();
    shown.matches(".parquet").count()
}

#[tokio::test]
async fn a_lake_that_is_not_there_reads_as_empty() {
    let lake = TestLake::new();
    let session = session(&engine(&lake, &lake.config()), &operator()).await;
    assert_eq!(number(&session, "select count(*) from clicks where code = 'x'").await, 0);
}

#[tokio::test]
async fn files_are_skipped_by_date_time_workspace_and_code() {
    let lake = TestLake::new();
    for (number, day) in [(1, "2026-03-01"), (2, "2026-03-02"), (3, "2026-03-03")] {
        lake.add(&[click(number, at(&format!("{day}T10:00:00Z")))]);
        let later = click(number + 10, at(&format!("{day}T12:00:00.999999Z")));
        lake.add(&[Click { workspace: "b".into(), code: "y".into(), ..later }]);
    }
    let session = session(&engine(&lake, &lake.config()), &operator()).await;
    for (filter, files, found) in [
        ("true", 6, 6),
        ("date = '2026-03-02'", 2, 2),
        ("date >= date '2026-03-02'", 4, 4),
        ("workspace = 'b'", 3, 3),
        ("code in ('y', 'z')", 3, 3),
        ("code = 'zz'", 0, 0),
        ("event_time < timestamp '2026-03-01T11:00:00Z'", 1, 1),
        ("event_time >= '2026-03-03T11:00:00Z'", 1, 1),
        // the log says 12:00:00.999: the microseconds after it are still found
        ("event_time > '2026-03-03T12:00:00.999500Z'", 1, 1),
        ("event_time > '2026-03-03T12:00:01Z'", 0, 0),
        ("workspace = 'a' and date between '2026-03-01' and '2026-03-02'", 2, 2),
    ] {
        let sql = format!("from clicks where {filter}");
        assert_eq!(opened(&session, &format!("select * {sql}")).await, files, "{filter}");
        assert_eq!(number(&session, &format!("select count(*) {sql}")).await, found, "{filter}");
    }
}

#[tokio::test]
async fn commits_are_seen_when_told_or_after_a_while() {
    let lake = TestLake::with(&[click(1, at("2026-03-01T10:00:00Z"))]);
    let (sender, receiver) = tokio::sync::watch::channel(1);
    let mut config = lake.config();
    (config.refresh, config.committed) = (Duration::from_secs(3_600), Some(receiver));
    let engine = engine(&lake, &config);
    let version = async || engine.tables.snapshot(Table::Clicks, None).await.unwrap().version;
    assert_eq!(version().await, Some(1));
    lake.add(&[click(2, at("2026-03-01T11:00:00Z"))]);
    assert_eq!(version().await, Some(1), "an hour is not over and nobody said a word");
    sender.send(2).unwrap();
    assert_eq!(version().await, Some(2));
    lake.add(&[click(3, at("2026-03-01T11:00:00Z"))]);
    let later = engine.tables.snapshot(Table::Clicks, Some(Instant::now())).await.unwrap();
    assert_eq!(later.version, Some(3));
    let mut config = lake.config();
    config.refresh = Duration::ZERO;
    let engine = self::engine(&lake, &config);
    assert_eq!(engine.tables.snapshot(Table::Clicks, None).await.unwrap().files.len(), 3);
    lake.add(&[click(4, at("2026-03-01T11:00:00Z"))]);
    assert_eq!(engine.tables.snapshot(Table::Clicks, None).await.unwrap().files.len(), 4);
}

#[tokio::test]
async fn a_promise_is_as_old_as_its_snapshot_and_survives_a_silent_pipeline() {
    let lake = TestLake::new();
    let promise = |through| Freshness { complete_through: Some(at(through)), final_through: None };
    let say = |freshness| *lake.pipeline.0.lock().unwrap() = freshness;
    say(Some(promise("2026-03-01T10:00:00Z")));
    let mut config = lake.config();
    config.refresh = Duration::from_secs(3_600);
    let engine = engine(&lake, &config);
    let before = engine.tables.snapshot(Table::Clicks, None).await.unwrap();
    say(Some(promise("2026-03-01T11:00:00Z")));
    let same = engine.tables.snapshot(Table::Clicks, None).await.unwrap();
    assert_eq!(same.freshness, before.freshness, "a snapshot is not promised more than when it was taken");
    let later = engine.tables.snapshot(Table::Clicks, Some(Instant::now())).await.unwrap();
    assert_eq!(later.freshness, promise("2026-03-01T11:00:00Z"));
    say(None);
    let silent = engine.tables.snapshot(Table::Clicks, Some(Instant::now())).await.unwrap();
    assert_eq!(silent.freshness, promise("2026-03-01T11:00:00Z"));
}

#[tokio::test]
async fn a_log_that_was_cleaned_behind_a_checkpoint_is_read_on() {
    let lake = TestLake::with(&[click(1, at("2026-03-01T10:00:00Z"))]);
    let mut config = lake.config();
    config.refresh = Duration::ZERO;
    let engine = engine(&lake, &config);
    let files = async || engine.tables.snapshot(Table::Clicks, None).await.unwrap().files.len();
    assert_eq!(files().await, 1);
    for number in 2..6 {
        lake.add(&[click(number, at("2026-03-02T10:00:00.123456Z"))]);
    }
    let folder = lake.path(Table::Clicks);
    let url = Url::from_directory_path(&folder).unwrap();
    let table = deltalake::DeltaTableBuilder::from_url(url).unwrap().load().await.unwrap();
    deltalake::checkpoints::create_checkpoint(&table, None).await.unwrap();
    for version in 0..5 {
        std::fs::remove_file(folder.join(format!("_delta_log/{version:020}.json"))).unwrap();
    }
    assert_eq!(files().await, 5);
    let fresh = self::engine(&lake, &config);
    let session = session(&fresh, &operator()).await;
    let sql = "from clicks where event_time > '2026-03-02T10:00:00.123400Z'";
    assert_eq!(opened(&session, &format!("select * {sql}")).await, 4, "the bounds have survived the checkpoint");
    assert_eq!(number(&session, &format!("select count(*) {sql}")).await, 4);
}

#[tokio::test]
async fn rows_of_two_tenants_in_one_file_are_told_apart() {
    let whose = |number| if number < 4 { "a" } else { "c" };
    let clicks: Vec<Click> =
        (0..6).map(|n| Click { workspace: whose(n).into(), ..click(n, at("2026-03-01T10:00:00Z")) }).collect();
    let lake = TestLake::with(&clicks);
    lake.add_shed(&clicks, 0.5);
    let engine = engine(&lake, &lake.config());
    for (workspace, found, files) in [("a", 4, 1), ("b", 0, 1), ("c", 2, 1), ("d", 0, 0)] {
        let session = session(&engine, &tenant(workspace)).await;
        let hours = number(&session, "select count(*) from clicks_hourly").await;
        assert_eq!(hours, i64::from(found > 0), "{workspace}");
        assert_eq!(number(&session, "select count(*) from clicks").await, found, "{workspace}");
        assert_eq!(opened(&session, "select * from clicks").await, files, "{workspace}");
    }
    let all = session(&engine, &operator()).await;
    assert_eq!(number(&all, "select count(*) from clicks").await, 6);
}

#[test]
fn paths_and_file_urls_are_lakes_and_others_are_named() {
    assert_eq!(root_url("/a/lake").unwrap().as_str(), "file:///a/lake/");
    assert_eq!(root_url("file:///a/lake").unwrap().as_str(), "file:///a/lake/");
    assert!(root_url("lake").unwrap().path().ends_with("/lake/"));
    assert!(root_url("./a b/lake").unwrap().path().ends_with("/a%20b/lake/"));
    let error = root_url("s3://bucket/lake").unwrap_err();
    assert!(error.to_string().contains("s3:// is not known"), "{error}");
}

#[tokio::test]
async fn what_fails_on_anothers_rows_does_not_fail() {
    let lake = TestLake::with(&[
        click(1, at("2026-03-01T10:00:00Z")),
        Click { workspace: "b".into(), code: "12".into(), ..click(2, at("2026-03-01T10:00:00Z")) },
    ]);
    let engine = engine(&lake, &lake.config());
    let session = session(&engine, &tenant("b")).await;
    for sql in [
        "select count(*) from clicks where cast(code as int) >= 0",
        "select count(*) from clicks where cast(code as int) >= 0 and workspace <> 'c'",
        "select count(*) from clicks where 1 / (length(code) - 1) = 1",
    ] {
        assert_eq!(number(&session, sql).await, 1, "{sql}");
    }
}

/// Lands a click whenever it is asked how complete the lake is, and then promises it.
#[derive(Debug)]
struct Landing(Arc<TestLake>);

#[async_trait::async_trait]
impl StatusSource for Landing {
    async fn freshness(&self) -> Result<Freshness, crate::ports::StatusError> {
        let time = at("2026-03-01T10:00:00Z");
        self.0.add(&[click(1, time)]);
        Ok(Freshness { complete_through: Some(time), final_through: None })
    }

    async fn changing(&self) -> Result<Vec<crate::ports::Changing>, crate::ports::StatusError> {
        Ok(Vec::new())
    }

    async fn status(&self) -> Result<crate::status::Status, crate::ports::StatusError> {
        Ok(crate::testlake::status())
    }
}

#[tokio::test]
async fn what_is_promised_is_in_the_rows() {
    let lake = Arc::new(TestLake::new());
    let status: Arc<dyn StatusSource> = Arc::new(Landing(Arc::clone(&lake)));
    let engine = Engine::start(&lake.config(), &status).unwrap();
    for commits in 1..4 {
        let snapshot = engine.tables.snapshot(Table::Clicks, Some(Instant::now())).await.unwrap();
        assert_eq!(snapshot.files.len(), commits);
    }
}

/// A metric of the scan, summed over its parts.
fn metric(plan: &Arc<dyn ExecutionPlan>, name: &str) -> usize {
    let own = plan.metrics().and_then(|metrics| metrics.sum_by_name(name)).map_or(0, |value| match value {
        MetricValue::PruningMetrics { pruning_metrics, .. } => pruning_metrics.pruned(),
        value => value.as_usize(),
    });
    own + plan.children().into_iter().map(|child| metric(child, name)).sum::<usize>()
}

#[tokio::test]
async fn pages_within_a_file_are_skipped() {
    let code = |number| if number < 50_000 { "a" } else { "b" };
    let clicks: Vec<Click> =
        (0..60_000).map(|n| Click { code: code(n).into(), ..click(n, at("2026-03-01T10:00:00Z")) }).collect();
    let lake = TestLake::with(&clicks);
    let engine = engine(&lake, &lake.config());
    for principal in [operator(), tenant("a")] {
        let session = session(&engine, &principal).await;
        let sql = "select count(*) from clicks where code = 'b' and event_time >= '2026-03-01T00:00:00Z'";
        let plan = session.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
        let rows = datafusion::physical_plan::collect(Arc::clone(&plan), session.task_ctx()).await.unwrap();
        assert_eq!(rows[0].column(0).as_primitive::<Int64Type>().value(0), 10_000);
        let skipped = metric(&plan, "page_index_rows_pruned");
        assert!(skipped >= 30_000, "{skipped} rows skipped");
    }
}
