//! What holds for any rows: skipping files loses none, and a tenant learns nothing of another.

use proptest::prelude::*;
use schemas::{Class, Click};

use super::{engine, number, rows, session};
use crate::testlake::{TestLake, at, click, operator, tenant, text};

/// Clicks of two workspaces that share codes, names and times.
fn clicks_of(workspace: &'static str) -> impl Strategy<Value = Vec<Click>> {
    let one = (0u64..200, 0i64..200, 0usize..4, 0usize..3, 0usize..3).prop_map(
        move |(number, hour, code, country, class)| Click {
            workspace: workspace.into(),
            code: [["1", "12", "0", "7"], ["x", "12", "0", "theirs"]][usize::from(workspace == "b")][code].into(),
            country: [None, text("NL"), text("DE")][country].clone(),
            verdict: schemas::click::Verdict {
                class: [Class::Human, Class::Preview, Class::Crawler][class],
                agent: None,
                reason: workspace.into(),
                rules_version: 1,
            },
            ..click(number, schemas::UtcMicros(at("2026-03-01T00:00:00Z").0 + hour * schemas::time::HOUR / 4))
        },
    );
    proptest::collection::vec(one, 1..12)
}

/// Queries of all shapes, some of which fail, or fail only on some rows.
const QUERIES: &[&str] = &[
    "select count(*), min(event_time), max(event_time), min(code), max(code) from clicks",
    "select count(*) from clicks where workspace = 'b'",
    "select count(*) from clicks where workspace <> 'a' or true",
    "select workspace, count(*) from clicks group by workspace order by 1",
    "select code, sum(weight) from clicks where code = 'x' or country = 'NL' group by code order by 1",
    "select count(*) from clicks where cast(code as int) >= 0",
    "select sum(1 / (length(code) - 1)) from clicks where length(code) > 1",
    "select count(*) from clicks where 1 / (status - 302) = 1",
    "select c.code, d.country from clicks c join clicks d on c.code = d.code order by 1, 2 limit 7",
    "select count(*) from clicks c where exists (select 1 from clicks d where d.code = c.code and d.workspace = 'b')",
    "with b as (select * from clicks union all select * from clicks) select class_reason, count(*) from b group by 1 order by 1",
    "select row_number() over (order by event_time, click_id) as n, code from clicks order by n limit 3",
    "select code from clicks order by event_time desc, click_id limit 2",
    "select count(distinct visitor), count(country) from clicks where country is null or country not in ('DE')",
    "select max(event_time) from clicks where event_time > '2026-03-01T12:00:00Z' and date = '2026-03-02'",
    "select count(*) from (select * from clicks limit 3)",
    "select code from clicks where code like '1%' order by code",
    "select approx_distinct(code) from clicks having count(*) > 0",
];

/// A filter that files can be skipped by.
#[derive(Clone, Debug)]
enum Filter {
    Time(&'static str, schemas::UtcMicros),
    Text(&'static str, bool, &'static str),
    Day(u32),
}

impl Filter {
    fn sql(&self) -> String {
        match self {
            Self::Time(op, limit) => format!("event_time {op} '{limit}'"),
            Self::Text(column, not, value) => format!("{column} {} ('{value}')", if *not { "not in" } else { "in" }),
            Self::Day(day) => format!("date = '2026-03-0{day}'"),
        }
    }

    fn holds(&self, click: &Click) -> bool {
        match *self {
            Self::Time("<", limit) => click.event_time < limit,
            Self::Time("<=", limit) => click.event_time <= limit,
            Self::Time("=", limit) => click.event_time == limit,
            Self::Time(">=", limit) => click.event_time >= limit,
            Self::Time(">", limit) => click.event_time > limit,
            Self::Time(_, limit) => click.event_time != limit,
            Self::Text("code", not, value) => (*click.code == *value) != not,
            Self::Text(_, not, value) => (*click.workspace == *value) != not,
            Self::Day(day) => chrono::Datelike::day(&click.event_time.to_datetime()) == day,
        }
    }
}

fn filters() -> impl Strategy<Value = Filter> {
    let time = (0i64..200, -1i64..2, 0usize..6).prop_map(|(quarter, micros, op)| {
        let limit = at("2026-03-01T00:00:00Z").0 + quarter * schemas::time::HOUR / 4 + micros;
        Filter::Time(["<", "<=", "=", ">=", ">", "<>"][op], schemas::UtcMicros(limit))
    });
    let text = (0usize..5, any::<bool>(), 0usize..2).prop_map(|(value, not, column)| {
        Filter::Text(["code", "workspace"][column], not, ["x", "12", "a", "b", "theirs"][value])
    });
    prop_oneof![3 => time, 2 => text, 1 => (1u32..5).prop_map(Filter::Day)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn skipping_files_never_loses_a_row(
        commits in proptest::collection::vec(prop_oneof![clicks_of("a"), clicks_of("b")], 1..6),
        pairs in proptest::collection::vec((filters(), filters(), any::<bool>()), 12),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(async {
            let lake = TestLake::new();
            commits.iter().for_each(|clicks| drop(lake.add(clicks)));
            let engine = engine(&lake, &lake.config());
            let session = session(&engine, &operator()).await;
            for (one, other, both) in &pairs {
                let expected = commits.concat().iter().filter(|click| match both {
                    true => one.holds(click) && other.holds(click),
                    false => one.holds(click) || other.holds(click),
                }).count();
                let filter = format!("{} {} {}", one.sql(), if *both { "and" } else { "or" }, other.sql());
                let found = number(&session, &format!("select count(*) from clicks where {filter}")).await;
                assert_eq!(found, expected as i64, "{filter}");
            }
        });
    }

    #[test]
    fn a_tenants_answers_do_not_depend_on_anothers_rows(
        own in clicks_of("a"),
        others in clicks_of("b"),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(async {
            let alone = TestLake::with(&own);
            let together = TestLake::with(&[own.clone(), others].concat());
            let (one, other) = (engine(&alone, &alone.config()), engine(&together, &together.config()));
            let (one, other) = (session(&one, &tenant("a")).await, session(&other, &tenant("a")).await);
            for sql in QUERIES {
                match (rows(&one, sql).await, rows(&other, sql).await) {
                    // which of the own rows fails first is chance; it must be one of them
                    (Err(_), Err(message)) => assert!(!message.contains("theirs"), "{sql}: {message}"),
                    (alone, together) => assert_eq!(alone, together, "{sql}"),
                }
            }
        });
    }
}
