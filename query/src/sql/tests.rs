use futures::StreamExt;
use schemas::Click;

use super::*;
use crate::error::QueryError;
use crate::service::QueryService;
use crate::testlake::{TestLake, at, click, operator, tenant};

fn lake(rows: u64) -> TestLake {
    let clicks: Vec<Click> = (0..rows).map(|n| click(n, at("2026-03-14T12:00:00.5Z"))).collect();
    TestLake::with(&clicks)
}

async fn ask(service: &QueryService, sql: &str) -> Result<String, QueryError> {
    let mut text = Vec::new();
    match service.sql(&operator(), sql, Format::Json).await? {
        SqlAnswer::Whole(bytes) => text.extend_from_slice(&bytes),
        SqlAnswer::Stream(mut stream) => {
            while let Some(bytes) = stream.next().await {
                text.extend_from_slice(&bytes?);
            }
        }
    }
    Ok(String::from_utf8(text).unwrap())
}

#[tokio::test]
async fn a_statement_is_answered() {
    let lake = lake(3);
    let service = lake.service();
    let sql = "select code, class, event_time, count(*) as n from clicks group by 1, 2, 3";
    let row = r#"{"code":"x","class":"human","event_time":"2026-03-14T12:00:00.500Z","n":3}"#;
    assert_eq!(ask(&service, sql).await.unwrap(), format!("[{row}]"));
    let id = ask(&service, "select click_id from clicks order by click_id desc limit 1").await.unwrap();
    assert_eq!(id, r#"[{"click_id":"00000000000000020000000000000002"}]"#);
    for (time, shown) in [
        ("timestamp '2026-03-14T09:00:00'", "2026-03-14T09:00:00Z"),
        ("to_timestamp('2026-03-14T09:00:00+02:00')", "2026-03-14T07:00:00Z"),
        ("timestamp '2026-03-14T09:00:00' at time zone 'Europe/Berlin'", "2026-03-14T08:00:00Z"),
        ("date_trunc('day', min(event_time))", "2026-03-14T00:00:00Z"),
        ("date '2026-03-14'", "2026-03-14"),
    ] {
        let answer = ask(&service, &format!("select {time} as t from clicks group by true")).await.unwrap();
        assert_eq!(answer, format!(r#"[{{"t":"{shown}"}}]"#), "{time}");
    }
    for table in schemas::tables::Table::ALL {
        let count = ask(&service, &format!("select count(*) as n from {table}")).await.unwrap();
        assert_eq!(count, if table.as_str() == "clicks" { r#"[{"n":3}]"# } else { r#"[{"n":0}]"# }, "{table}");
    }
}

#[tokio::test]
async fn tenants_are_refused() {
    let lake = lake(1);
    let answer = lake.service().sql(&tenant("a"), "select 1", Format::Json).await;
    assert!(matches!(answer, Err(QueryError::Forbidden(_))));
}

#[tokio::test]
async fn statements_that_do_more_than_read_or_make_much_of_little_are_refused() {
    let lake = lake(1);
    let service = lake.service();
    for sql in [
        "select * from generate_series(1, 10)",
        "select * from range(1, 10)",
        "select repeat('x', 1000000000)",
        "select lpad('x', 1000000000)",
        "select rpad('x', 1000000000)",
        "select input_file_name() from clicks",
        "select version()",
        "select * into x from clicks",
        "with recursive n as (select 1 as i union all select i + 1 from n) select * from n",
        "select unnest(make_array(1, 2))",
        "select * from read_csv('/etc/passwd')",
        "select nothing from clicks",
        "select 1 / 0",
        "select cast(code as int) from clicks",
        "select code, code from clicks",
        "with x as (insert into clicks select * from clicks) select 1",
    ] {
        let answer = ask(&service, sql).await;
        assert!(matches!(answer, Err(QueryError::Statement(_))), "{sql}: {answer:?}");
    }
}

#[tokio::test]
async fn a_type_that_a_format_lacks_is_the_statements_fault() {
    let lake = lake(1);
    let answer = lake.service().sql(&operator(), "select array_agg(code) as x from clicks", Format::Csv).await;
    assert!(matches!(&answer, Err(QueryError::Statement(text)) if text.contains("text/csv")), "{answer:?}");
}

#[tokio::test]
async fn an_answer_over_a_limit_is_an_error() {
    let lake = lake(100);
    let mut config = lake.config();
    (config.max_rows, config.max_bytes) = (50, 4_000);
    let service = lake.service_with(config);
    assert!(ask(&service, "select code from clicks limit 50").await.is_ok());
    let rows = ask(&service, "select code from clicks").await;
    assert!(matches!(rows, Err(QueryError::TooLarge { unit: "rows", limit: 50 })), "{rows:?}");
    let bytes = ask(&service, "select * from clicks limit 49").await;
    assert!(matches!(bytes, Err(QueryError::TooLarge { unit: "bytes", .. })), "{bytes:?}");
}

#[tokio::test]
async fn a_long_answer_that_fails_on_the_way_does_not_end_well() {
    let lake = lake(30_000);
    let mut config = lake.config();
    (config.hold_bytes, config.max_rows) = (10_000, 29_000);
    let service = lake.service_with(config.clone());
    let SqlAnswer::Stream(mut stream) = service.sql(&operator(), "select * from clicks", Format::Csv).await.unwrap()
    else {
        panic!("held back");
    };
    let (mut good, mut bad) = (0, 0);
    while let Some(piece) = stream.next().await {
        if piece.is_ok() { good += 1 } else { bad += 1 }
    }
    assert!(good > 0 && bad == 1, "{good} {bad}");
    config.max_rows = 30_000;
    let whole = ask(&lake.service_with(config), "select visitor from clicks").await.unwrap();
    assert_eq!(serde_json::from_str::<Vec<serde_json::Value>>(&whole).unwrap().len(), 30_000);
}

#[tokio::test]
async fn a_query_that_takes_too_long_is_stopped() {
    let lake = lake(30_000);
    let mut config = lake.config();
    config.deadline = std::time::Duration::from_millis(300);
    let service = lake.service_with(config);
    let sql = "select count(*) from clicks a, clicks b where a.visitor * b.visitor = 7";
    assert!(matches!(ask(&service, sql).await, Err(QueryError::Deadline(_))));
}

#[tokio::test]
async fn what_pairs_every_row_with_every_other_is_refused_when_it_is_too_much() {
    let lake = lake(2_000);
    let service = lake.service();
    for sql in [
        "select count(*) from clicks a, clicks b, clicks c",
        "select count(*) from clicks a cross join clicks b cross join (select code from clicks) c",
        "select count(*) from clicks a join (select x.visitor from clicks x, clicks y) b on a.visitor < b.visitor",
    ] {
        let answer = ask(&service, sql).await;
        assert!(matches!(&answer, Err(QueryError::Statement(why)) if why.contains("pairs")), "{sql}: {answer:?}");
    }
    for (sql, n) in [
        ("select count(*) as n from clicks a, clicks b", 4_000_000),
        (
            "select count(*) as n from clicks a, (select max(visitor) as v from clicks) b, (select count(*) from clicks) c",
            2_000,
        ),
        (
            "select count(*) as n from clicks a, (select code from clicks limit 3) b, (select code from clicks limit 2) c",
            12_000,
        ),
        (
            "select count(*) as n from clicks a join clicks b on a.click_id = b.click_id join clicks c on b.click_id = c.click_id",
            2_000,
        ),
    ] {
        assert_eq!(ask(&service, sql).await.unwrap(), format!(r#"[{{"n":{n}}}]"#), "{sql}");
    }
}

#[tokio::test]
async fn a_query_that_needs_too_much_memory_fails_alone() {
    let lake = lake(20_000);
    let mut config = lake.config();
    (config.memory_bytes, config.temp_bytes) = (1 << 20, 1 << 10);
    let service = lake.service_with(config);
    let answer =
        ask(&service, "select array_agg(c.click_id) as x from clicks c join clicks d on c.code = d.code").await;
    assert!(matches!(answer, Err(QueryError::Resources(_))), "{:?}", answer.map(|text| text.len()));
    assert_eq!(ask(&service, "select 1 as x").await.unwrap(), r#"[{"x":1}]"#);
}

#[tokio::test]
async fn a_client_that_goes_frees_its_place() {
    let lake = lake(30_000);
    let mut config = lake.config();
    (config.concurrent, config.hold_bytes) = (1, 1_000);
    let service = lake.service_with(config);
    let answer = service.sql(&operator(), "select * from clicks", Format::Json).await.unwrap();
    assert!(matches!(answer, SqlAnswer::Stream(_)));
    drop(answer);
    assert_eq!(ask(&service, "select 1 as x").await.unwrap(), r#"[{"x":1}]"#);
}

mod bounds;
