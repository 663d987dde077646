//! Statements that are deep, or grow: answered or refused, and never at the cost of others.

use std::time::Duration;

use super::*;

/// A chain that nests to the left: `step` as often as `times`, after `start`.
fn chain(start: &str, step: &str, times: usize) -> String {
    format!("select {start}{}", step.repeat(times)).replace("code", "'b'").replace("event_time", "now()")
}

#[tokio::test]
async fn deep_statements_are_answered_or_refused() {
    let lake = lake(1);
    let service = lake.service();
    for (start, step) in [
        ("1", "+1"),
        ("code", "||code"),
        ("code='b'", " or code='b'"),
        ("code='b'", " and code='b'"),
        ("1", "::int"),
        ("code", "::text"),
        ("code", " is null"),
        ("code", " is not true"),
        ("code", " like 'x'"),
        ("1", " between 0 and 1"),
        ("event_time", " at time zone 'UTC'"),
        ("event_time", "+interval '1 day'"),
        ("code", "->'a'"),
        ("code", " = code"),
        ("code", "['a']"),
        ("code", ".a"),
        ("1", " union all select 1"),
        ("1", " union select 1"),
        ("1", " except select 1"),
        ("code", " collate x"),
        ("1", " in (1)"),
        ("1", ", 1"),
        ("1 from clicks", ", clicks"),
        ("1 from clicks", " join clicks on true"),
        ("1 from clicks", " natural join clicks"),
    ] {
        for times in [60, 124, 245, 499, 990, 1_700, 5_000] {
            let answer = ask(&service, &chain(start, step, times)).await;
            match &answer {
                Err(QueryError::Deadline(_) | QueryError::Resources(_)) => panic!("{step} {times}: {answer:?}"),
                Ok(_) if times > 1_000 => panic!("{step} {times}"),
                _ => {}
            }
        }
    }
    let nested = format!("select arrow_cast('a', '{}Utf8{}')", "List(".repeat(2_500), ")".repeat(2_500));
    assert!(matches!(ask(&service, &nested).await, Err(QueryError::Statement(_))));
    assert_eq!(ask(&service, "select 1 as x").await.unwrap(), r#"[{"x":1}]"#);
}

/// `WITH a0 AS (first), a1 AS (next of a0) …`, and a query of the last.
fn with(first: &str, count: usize, next: impl Fn(usize) -> String) -> String {
    let more: String = (1..=count).map(|n| format!(", a{n} as ({})", next(n - 1))).collect();
    format!("with a0 as ({first}){more} select count(x) as n from a{count}")
}

#[tokio::test]
async fn statements_that_grow_when_planned_are_refused() {
    let lake = lake(1);
    let service = lake.service();
    let twice = |n| format!("select x from a{n} union all select x from a{n}");
    let joined =
        |count: usize| (1..count).map(|n| format!(" join clicks c{n} on c0.code = c{n}.code")).collect::<String>();
    let codes = |count: usize, by: &str| vec!["code"; count].join(by);
    let fields: Vec<&str> = "code domain class status browser os country".split(' ').collect();
    for (statement, reason) in [
        (with("select code as x from clicks", 40, twice), "WITH names"),
        (with("select code as x from clicks", 30, twice), "SELECTs and tables"),
        (with("select 1 as x", 10, twice), "SELECTs and tables"),
        (format!("select ({}) as n", with("select code as x from clicks", 9, twice)), "SELECTs and tables"),
        (with("select 1 as x", 1_500, |n| format!("select x from a{n}")), "longer than"),
        (with("select 1 as x", 100, |n| format!("select x from a{n}")), "WITH names"),
        (with("select visitor as x from clicks", 20, |n| format!("select x+x as x from a{n} where x > 1")), "columns"),
        (with("select code as x from clicks", 9, |n| format!("select x||x as x from a{n}")), "a text is made"),
        (
            with("select code as x from clicks", 9, |n| format!("select upper(concat(x, x)) as x from a{n}")),
            "a text is made",
        ),
        (format!("select count(*) from clicks c0{}", joined(120)), "joins more"),
        (format!("select count(*) from clicks c0{}", joined(1_000)), "longer than"),
        (vec!["select count(*) from clicks"; 51].join(" union all "), "SELECTs and tables"),
        (format!("select concat({}) as x from clicks", codes(65, ",")), "a text is made"),
        ("select regexp_replace(code, '', destination, 'g') as x from clicks".to_owned(), "a text is made"),
        (format!("select regexp_replace(code, '', '{}', 'g') as x from clicks", "x".repeat(64)), "a text is made"),
        (format!("select regexp_replace(code, '(.*)', '{}') as x from clicks", "\\1".repeat(64)), "a text is made"),
        (format!("select count(*) from clicks group by cube ({})", fields.join(",")), "CUBE"),
        (format!("select {} from clicks", vec!["*"; 17].join(",")), "times *"),
        ("select cast(null as int[1000000000]) as x".to_owned(), "no type"),
        ("select null::struct<a int[1000000000]> as x".to_owned(), "no type"),
        ("select arrow_cast(null, 'FixedSizeList(1000000000 x Int64)') as x".to_owned(), "arrow_cast"),
        ("select levenshtein(code, code) as x from clicks".to_owned(), "levenshtein"),
        ("select approx_percentile_cont(weight, 0.5, 1000000000) as x from clicks".to_owned(), "centroids"),
        (
            "select approx_percentile_cont(0.5, 1000000000) within group (order by weight) as x from clicks".to_owned(),
            "centroids",
        ),
    ] {
        let answer = ask(&service, &statement).await;
        assert!(
            matches!(&answer, Err(QueryError::Statement(text)) if text.contains(reason)),
            "{statement}: {answer:?}"
        );
    }
}

#[tokio::test]
async fn statements_of_a_reasonable_size_are_answered() {
    let lake = lake(3);
    let service = lake.service();
    let codes = (0..900).map(|n| format!("'c{n}'")).collect::<Vec<_>>().join(",");
    let months = (1..=12).map(|n| format!("select {n} as m, count(*) as n from a where date_part('month', t) = {n}"));
    let months = months.collect::<Vec<_>>().join(" union all ");
    let joined = (1..10).map(|n| format!(" join clicks c{n} on c0.click_id = c{n}.click_id")).collect::<String>();
    for statement in [
        format!("select count(*) as n from clicks where code not in ({codes})"),
        format!("with a as (select event_time as t from clicks) {months}"),
        format!("select count(*) as n from clicks c0{joined}"),
        with("select visitor as x from clicks", 9, |n| format!("select x+x as x from a{n} where x >= 0")),
        with("select code as x from clicks", 6, |n| format!("select x||x as x from a{n} where x <> ''")),
        "select regexp_replace(regexp_replace(destination, '^https?://([^/]*).*$', '\\1'), '^www[.]', '') as host, \
         approx_percentile_cont(weight, 0.5) as p, approx_percentile_cont(0.5) within group (order by weight) as q, \
         sum(case when class = 'human' then weight else 0 end) filter (where method = 'GET') as n \
         from clicks group by 1 order by 1"
            .to_owned(),
        "select code, os, count(*) as n, approx_percentile_cont_with_weight(visitor, weight, 0.9) as p from clicks \
         group by rollup (code, os) order by 1"
            .to_owned(),
        "select a.code, b.code as c, (select max(event_time) from clicks) as t from clicks a left join clicks b \
         on a.visitor = b.visitor + 1 where exists (select 1 from rejects) or a.code in (select code from clicks)"
            .to_owned(),
    ] {
        let answer = ask(&service, &statement).await;
        assert!(answer.is_ok(), "{statement}: {answer:?}");
    }
}

#[tokio::test]
async fn the_heaviest_statements_that_are_let_in_are_answered() {
    let lake = lake(1);
    let service = lake.service();
    let joined =
        |count: usize| (1..count).map(|n| format!(" join clicks c{n} on c0.code = c{n}.code")).collect::<String>();
    let comma = |count: usize| (1..count).map(|n| format!(", clicks c{n}")).collect::<String>();
    let from = |k: usize| {
        (1..15).map(|n| format!(" join clicks c{n} on c0.code = c{n}.code")).collect::<String>() + &format!(") b{k}")
    };
    let nested = (0..6)
        .map(|k| format!("(select c0.code, c1.os, c2.visitor from clicks c0{}", from(k)))
        .collect::<Vec<_>>()
        .join(",");
    for statement in [
        format!("select count(*) from clicks c0{}", joined(16)),
        format!("select count(*) from clicks c0{}", comma(16)),
        format!("select count(*) from {nested}"),
        with("select visitor as x from clicks", 11, |n| format!("select x+x as x from a{n} where x > 1")),
        with("select visitor as x from clicks", 4, |n| format!("select x from a{n} union select x from a{n}")),
        vec!["select count(*) from clicks"; 50].join(" union all "),
    ] {
        let answer = ask(&service, &statement).await;
        assert!(answer.is_ok(), "{statement}: {answer:?}");
    }
}

/// One thread, two places, nobody waits.
fn narrow(lake: &TestLake) -> QueryService {
    let mut config = lake.config();
    (config.concurrent, config.queued, config.threads) = (2, 0, 1);
    (config.deadline, config.refresh) = (Duration::from_millis(300), Duration::ZERO);
    lake.service_with(config)
}

/// Asks until there is a place.
async fn ask_on(service: &QueryService) -> String {
    loop {
        match ask(service, "select 1 as x").await {
            Err(QueryError::Busy { .. } | QueryError::Deadline(_)) => tokio::task::yield_now().await,
            answer => return answer.unwrap(),
        }
    }
}

#[tokio::test]
#[expect(clippy::await_holding_lock, reason = "that is the test: what plans can't go on, and doesn't yield")]
async fn planning_that_does_not_yield_is_given_up_in_time_and_keeps_its_place() {
    let lake = lake(1);
    let service = narrow(&lake);
    let stuck = lake.pipeline.0.lock().unwrap();
    for _ in 0..2 {
        // others still find a thread
        let other = tokio::time::timeout(Duration::from_secs(30), ask_on(&service)).await;
        assert_eq!(other.unwrap(), r#"[{"x":1}]"#);
        let answer = ask(&service, "select code from clicks").await;
        assert!(matches!(answer, Err(QueryError::Deadline(_))), "{answer:?}");
    }
    let next = ask(&service, "select 1 as x").await;
    assert!(matches!(next, Err(QueryError::Busy { .. })), "they still plan: {next:?}");
    drop(stuck);
    assert_eq!(ask_on(&service).await, r#"[{"x":1}]"#);
}

#[tokio::test]
async fn a_client_that_does_not_read_frees_its_place() {
    let lake = lake(30_000);
    let mut config = lake.config();
    (config.concurrent, config.queued, config.hold_bytes) = (1, 0, 1_000);
    config.stall = Duration::from_millis(50);
    let service = lake.service_with(config);
    let answer = service.sql(&operator(), "select * from clicks", Format::Json).await.unwrap();
    let SqlAnswer::Stream(mut stream) = answer else { panic!("held back") };
    assert!(stream.next().await.unwrap().is_ok());
    // long before the deadline of a minute
    let next = tokio::time::timeout(Duration::from_secs(30), ask_on(&service)).await;
    assert_eq!(next.unwrap(), r#"[{"x":1}]"#);
    let mut last = None;
    while let Some(piece) = stream.next().await {
        last = Some(piece);
    }
    assert!(matches!(last, Some(Err(_))), "a cut answer doesn't end well");
}
