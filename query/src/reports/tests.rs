mod cut;
mod groups;
mod meta;
mod model;
mod sampled;
mod seconds;

use schemas::click::Verdict;
use schemas::{Class, Click, LinkId, Principal};

use super::*;
use crate::error::QueryError;
use crate::testlake::{TestLake, at, click, operator, tenant};

fn request(query: &str) -> ReportRequest {
    ReportRequest::from_pairs(url::form_urlencoded::parse(query.as_bytes())).unwrap()
}

async fn ask(lake: &TestLake, principal: &Principal, query: &str) -> Report {
    lake.service().report(principal, &request(query)).await.unwrap()
}

fn of_class(class: Class, click: Click) -> Click {
    Click { verdict: Verdict { class, agent: None, reason: "r".into(), rules_version: 1 }, ..click }
}

fn from(country: Option<&str>, click: Click) -> Click {
    Click { country: country.map(Into::into), ..click }
}

fn groups(report: &Report) -> Vec<(&str, u64)> {
    let group = |row: &'_ Row| match row {
        Row::Group { value, counts } => (value.clone(), counts.clicks),
        Row::Bucket { .. } => panic!("a bucket"),
    };
    let rows: Vec<(String, u64)> = report.data.iter().map(group).collect();
    rows.into_iter().map(|(value, clicks)| (&*String::leak(value), clicks)).collect()
}

fn clicks(report: &Report) -> Vec<u64> {
    report.data.iter().map(|row| row.counts().clicks).collect()
}

const NOON: &str = "2026-03-14T12:00:00Z";

#[tokio::test]
async fn an_empty_lake_is_zero_clicks() {
    let report = ask(&TestLake::new(), &operator(), "").await;
    assert_eq!(report.totals.counts, Counts { visitors: Some(0), ..Counts::default() });
    assert!(report.data.is_empty() && report.totals.by_class.is_empty());
    let series = ask(&TestLake::new(), &operator(), "start=2026-03-14&end=2026-03-15&interval=hour").await;
    assert_eq!(series.data.len(), 48);
    let nothing = ask(&TestLake::new(), &operator(), "interval=hour&interval_preset=all").await;
    assert!(nothing.data.is_empty(), "all of nothing is no time at all");
}

/// Whether there is such a link isn't told: only that there is nothing to count.
#[tokio::test]
async fn a_link_without_anything_is_remarked_on() {
    let lake = TestLake::with(&[of_class(Class::Crawler, Click { code: "x".into(), ..click(1, at(NOON)) })]);
    let remark = async |who: &Principal, query: &str| ask(&lake, who, query).await.meta.remark;
    for query in ["code=nosuch", "domain=nope.example", &format!("link_id={}", LinkId::new())] {
        assert!(remark(&tenant("a"), query).await.is_some(), "{query}");
    }
    assert_eq!(remark(&tenant("b"), "code=x").await, remark(&tenant("b"), "code=nosuch").await, "another's is none");
    for query in ["", "country=NL", "code=x", "code=x&code=nosuch"] {
        assert_eq!(remark(&tenant("a"), query).await, None, "{query}: something was counted, or no link was named");
    }
}

#[tokio::test]
async fn the_first_bucket_of_all_there_is_is_whole() {
    let lake = TestLake::with(&[click(1, at("2026-03-14T00:52:57.052950Z"))]);
    let report = ask(&lake, &operator(), "interval=week&interval_preset=all&timezone=Asia/Tokyo").await;
    let Row::Bucket { start, .. } = &report.data[0] else { panic!("no bucket") };
    assert_eq!(start, "2026-03-09T00:00:00+09:00");
    let report = ask(&lake, &operator(), "interval_preset=all").await;
    assert_eq!(report.query["start"], "2026-03-14T00:00:00Z");
}

#[tokio::test]
async fn clicks_are_human_and_classes_add_up_to_all() {
    let classes = [Class::Human, Class::Human, Class::Preview, Class::Crawler, Class::Unknown];
    let rows: Vec<Click> = classes.iter().zip(1..).map(|(&class, n)| of_class(class, click(n, at(NOON)))).collect();
    let lake = TestLake::with(&rows);
    let report = ask(&lake, &tenant("a"), "").await;
    assert_eq!((report.totals.counts.clicks, report.totals.counts.visitors), (2, Some(2)));
    assert_eq!(report.totals.by_class.values().sum::<u64>(), 5);
    assert_eq!(report.totals.by_class["human"], 2);
    for (query, expected) in [
        ("class=all", 5),
        ("class=preview&class=crawler", 2),
        ("class=unknown", 1),
        ("class=all&not_class=crawler", 4),
        ("class=feed", 0),
    ] {
        let report = ask(&lake, &tenant("a"), query).await;
        assert_eq!(report.totals.counts.clicks, expected, "{query}");
        assert_eq!(report.totals.by_class.values().sum::<u64>(), 5, "{query}");
    }
    let by_class = ask(&lake, &tenant("a"), "class=all&group_by=class").await;
    assert_eq!(groups(&by_class), [("human", 2), ("crawler", 1), ("preview", 1), ("unknown", 1)]);
    assert_eq!(by_class.unknown.clicks, 0, "unknown is a class");
}

#[tokio::test]
async fn links_are_told_apart_by_code_domain_and_id() {
    let id = LinkId::new();
    let rows = [
        Click { code: "A".into(), ..click(1, at(NOON)) },
        Click { code: "a".into(), link_id: Some(id), ..click(2, at(NOON)) },
        Click { code: "a".into(), domain: "other.example".into(), ..click(3, at(NOON)) },
        Click { code: "ü'; --".into(), ..click(4, at(NOON)) },
        Click { code: "a".into(), workspace: "b".into(), ..click(5, at(NOON)) },
    ];
    let lake = TestLake::with(&rows);
    for (query, own, all) in [
        ("", 4, 5),
        ("code=a", 2, 3),
        ("code=A", 1, 1),
        ("code=a&code=A", 3, 4),
        ("code=a&domain=other.example", 1, 1),
        ("code=a&domain=OTHER.example&domain=go.example", 2, 3),
        (&format!("link_id={id}"), 1, 1),
        ("code=%C3%BC%27%3B%20--", 1, 1),
        ("not_code=a", 2, 2),
        ("code=b", 0, 0),
    ] {
        assert_eq!(ask(&lake, &tenant("a"), query).await.totals.counts.clicks, own, "{query}");
        assert_eq!(ask(&lake, &operator(), query).await.totals.counts.clicks, all, "{query}");
    }
}

#[tokio::test]
async fn a_series_fills_its_empty_buckets_in_the_zone() {
    // the hour from two to three comes twice
    let times = ["2026-10-24T23:30:00Z", "2026-10-25T00:10:00Z", "2026-10-25T00:59:59.999999Z", "2026-10-25T01:00:00Z"];
    let rows: Vec<Click> = times.iter().zip(1..).map(|(time, n)| click(n, at(time))).collect();
    let lake = TestLake::with(&rows);
    let query = "start=2026-10-25&end=2026-10-25&timezone=Europe/Berlin&interval=hour";
    let report = ask(&lake, &tenant("a"), query).await;
    assert_eq!(report.data.len(), 25);
    assert_eq!(clicks(&report)[..5], [0, 1, 2, 1, 0]);
    assert_eq!(report.totals.counts.clicks, 4);
    let Row::Bucket { start, end, .. } = &report.data[2] else { panic!("no bucket") };
    assert_eq!((start.as_str(), end.as_str()), ("2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+01:00"));
    assert_eq!(report.query["start"], "2026-10-25T00:00:00+02:00");
    assert_eq!(report.query["end"], "2026-10-26T00:00:00+01:00");
    let utc = ask(&lake, &tenant("a"), "start=2026-10-24T23:30:00Z&end=2026-10-25T01:00:00Z&interval=day").await;
    assert_eq!(clicks(&utc), [1, 2], "an end that is an instant is not part");
    let Row::Bucket { start, .. } = &utc.data[0] else { panic!("no bucket") };
    assert_eq!(start, "2026-10-24T23:30:00Z");
}

#[tokio::test]
async fn visitors_are_counted_once_a_utc_day() {
    let visit = |number, time: &str, visitor: Option<i64>| Click { visitor, ..click(number, at(time)) };
    let rows = [
        visit(1, "2026-03-14T01:00:00Z", Some(-7)),
        visit(2, "2026-03-14T23:00:00Z", Some(-7)),
        visit(3, "2026-03-15T01:00:00Z", Some(-7)),
        visit(4, "2026-03-15T02:00:00Z", Some(8)),
        visit(5, "2026-03-16T02:00:00Z", None),
    ];
    let lake = TestLake::with(&rows);
    let report = ask(&lake, &tenant("a"), "start=2026-03-14&end=2026-03-16&interval=day").await;
    let visitors: Vec<Option<u64>> = report.data.iter().map(|row| row.counts().visitors).collect();
    assert_eq!(visitors, [Some(1), Some(2), None]);
    assert_eq!(report.totals.counts.visitors, Some(3));
    assert!(report.meta.visitors.ends_with("; 1 clicks have no known visitor"), "{}", report.meta.visitors);
    let week = ask(&lake, &tenant("a"), "group_by=code").await;
    assert_eq!(week.data[0].counts().visitors, Some(3));

    lake.add(&[6, 7].map(|number| Click { private: true, ..visit(number, "2026-03-16T03:00:00Z", None) }));
    let report = ask(&lake, &tenant("a"), "start=2026-03-14&end=2026-03-16&interval=day").await;
    let said = "; 3 clicks have no known visitor, 2 of them because the client asked not to be known";
    assert!(report.meta.visitors.ends_with(said), "{}", report.meta.visitors);
}

#[tokio::test]
async fn weights_are_summed_and_the_interval_says_how_sure() {
    let rows: Vec<Click> = (0..100).map(|n| Click { weight: 4.0, ..click(n, at(NOON)) }).collect();
    let report = ask(&TestLake::with(&rows), &tenant("a"), "").await;
    let counts = report.totals.counts;
    assert_eq!((counts.clicks, counts.clicks_low, counts.clicks_high, counts.visitors), (400, 337, 472, None));
    assert!(report.meta.sampled && report.meta.lowest_rate == 0.25);
    assert!(report.meta.visitors.starts_with("not counted"));
    assert_eq!(report.totals.by_class["human"], 400);
}

#[tokio::test]
async fn too_many_buckets_and_impossible_spans_are_named() {
    let lake = TestLake::new();
    let service = lake.service();
    for (query, field) in [
        ("interval=minute&start=2026-01-01&end=2026-01-31", "interval"),
        ("start=2026-01-02&end=2026-01-01", "end"),
        ("start=2199-01-01", "start"),
    ] {
        match service.report(&operator(), &request(query)).await {
            Err(QueryError::Invalid(errors)) => assert_eq!(errors[0].field, field, "{query}"),
            other => panic!("{query}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_file_that_was_cleaned_away_is_not_missed() {
    let lake = TestLake::new();
    let old = lake.add(&[click(1, at(NOON))]);
    let mut config = lake.config();
    config.refresh = std::time::Duration::from_secs(3_600);
    let service = lake.service_with(config);
    let count = async || service.report(&operator(), &request("")).await.unwrap().totals.counts.clicks;
    // the snapshot is pinned, its files not yet read
    service.report(&operator(), &request("start=2020-01-01&end=2020-01-02")).await.unwrap();
    lake.add(&[click(1, at(NOON)), click(2, at(NOON))]);
    lake.remove(schemas::tables::Table::Clicks, &old);
    assert_eq!(count().await, 2);
}

#[tokio::test]
async fn the_echo_has_defaults_filled_in() {
    let report = ask(&TestLake::new(), &operator(), "group_by=os&country=NL&not_os=Windows&start=2026-01-01").await;
    let echo = serde_json::to_value(&report.query).unwrap();
    for (key, value) in [
        ("timezone", serde_json::json!("UTC")),
        ("class", serde_json::json!(["human"])),
        ("limit", serde_json::json!(10)),
        ("group_by", serde_json::json!("os")),
        ("country", serde_json::json!(["NL"])),
        ("not_os", serde_json::json!(["Windows"])),
        ("start", serde_json::json!("2026-01-01T00:00:00Z")),
    ] {
        assert_eq!(echo[key], value, "{key}");
    }
}
