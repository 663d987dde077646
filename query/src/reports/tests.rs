mod model;
mod sampled;

use std::sync::Arc;

use schemas::click::{AgentInfo, Utm, Verdict};
use schemas::{Class, Click, Device, LinkId, Principal, UtcMicros};

use super::*;
use crate::error::QueryError;
use crate::ports::Freshness;
use crate::testlake::{TestLake, at, click, operator, tenant, text};

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
async fn groups_are_the_top_and_the_rest_is_other_or_unknown() {
    let countries =
        [Some("NL"), Some("NL"), Some("NL"), Some("DE"), Some("DE"), Some("AT"), Some("FR"), None, Some("")];
    let rows: Vec<Click> = countries.iter().zip(1..).map(|(&c, n)| from(c, click(n, at(NOON)))).collect();
    let lake = TestLake::with(&rows);
    let report = ask(&lake, &tenant("a"), "group_by=country&limit=3").await;
    assert_eq!(groups(&report), [("NL", 3), ("DE", 2), ("AT", 1)]);
    assert_eq!((report.other.clicks, report.unknown.clicks), (1, 2));
    assert_eq!(report.totals.counts.clicks, 9);
    let report = ask(&lake, &tenant("a"), "group_by=continent").await;
    assert_eq!(groups(&report), [("EU", 7)]);
    assert_eq!((report.other.clicks, report.unknown.clicks), (0, 2));
    for (query, expected) in [
        ("country=NL&country=DE", 5),
        ("not_country=NL", 6),
        ("country=", 2),
        ("not_country=&not_country=NL", 4),
        ("continent=EU", 7),
        ("continent=AS", 0),
        ("not_continent=EU", 2),
        ("country=nl", 0),
    ] {
        assert_eq!(ask(&lake, &tenant("a"), query).await.totals.counts.clicks, expected, "{query}");
    }
}

#[tokio::test]
async fn every_dimension_groups() {
    let info = AgentInfo {
        device: Device::Mobile,
        browser: text("Firefox"),
        browser_version: None,
        os: text("Android"),
        os_version: None,
    };
    let utm = Utm { source: text("s"), medium: text("m"), campaign: text("c"), term: text("t"), content: text("n") };
    let full = Click {
        agent_info: Arc::new(info),
        utm,
        country: text("JP"),
        region: text("13"),
        city: text("Tokyo"),
        referrer: text("t.co"),
        language: text("ja"),
        ..click(1, at(NOON))
    };
    let lake = TestLake::with(&[full, click(2, at(NOON))]);
    for (dimension, value) in [
        ("country", "JP"),
        ("region", "13"),
        ("city", "Tokyo"),
        ("continent", "AS"),
        ("device", "mobile"),
        ("browser", "Firefox"),
        ("os", "Android"),
        ("referrer", "t.co"),
        ("utm_source", "s"),
        ("utm_medium", "m"),
        ("utm_campaign", "c"),
        ("utm_term", "t"),
        ("utm_content", "n"),
        ("language", "ja"),
    ] {
        let report = ask(&lake, &tenant("a"), &format!("group_by={dimension}")).await;
        assert_eq!((groups(&report), report.unknown.clicks), (vec![(value, 1)], 1), "{dimension}");
        let only = ask(&lake, &tenant("a"), &format!("{dimension}={value}")).await;
        assert_eq!(only.totals.counts.clicks, 1, "{dimension}");
    }
    for (dimension, value) in [
        ("class", "human"),
        ("source", "origin"),
        ("code", "x"),
        ("domain", "go.example"),
        ("destination", "https://example.com/"),
    ] {
        let report = ask(&lake, &tenant("a"), &format!("group_by={dimension}")).await;
        assert_eq!((groups(&report), report.unknown.clicks), (vec![(value, 2)], 0), "{dimension}");
    }
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
async fn meta_tells_of_freshness_and_gaps_that_are_touched() {
    let lake = TestLake::with(&[click(1, at(NOON))]);
    *lake.pipeline.0.lock().unwrap() =
        Some(Freshness { complete_through: Some(at(NOON)), final_through: Some(at("2026-03-12T12:00:00Z")) });
    lake.add_gap(None, at("2026-03-14T10:00:00Z"), at("2026-03-14T11:00:00Z"), 9);
    lake.add_gap(Some("a"), at("2026-03-14T09:00:00Z"), at("2026-03-14T09:30:00Z"), 4);
    lake.add_gap(Some("b"), at("2026-03-14T08:00:00Z"), at("2026-03-14T09:00:00Z"), 5);
    let before = UtcMicros::now();
    let report = ask(&lake, &tenant("a"), "start=2026-03-14&end=2026-03-14").await;
    assert!(report.meta.as_of >= before && report.meta.as_of <= UtcMicros::now());
    assert_eq!(report.meta.complete_through, Some(at(NOON)));
    assert_eq!(report.meta.final_through, Some(at("2026-03-12T12:00:00Z")));
    let lost: Vec<Option<u64>> = report.meta.gaps.iter().map(|gap| gap.lost).collect();
    assert_eq!(lost, [Some(4), None], "not b's, and not how many of a gap that may be others'");
    let all = ask(&lake, &operator(), "start=2026-03-14&end=2026-03-14").await;
    assert_eq!(all.meta.gaps.iter().filter_map(|gap| gap.lost).sum::<u64>(), 18);
    let untouched = ask(&lake, &operator(), "start=2026-03-15&end=2026-03-15").await;
    assert!(untouched.meta.gaps.is_empty());
}

#[tokio::test]
async fn meta_tells_when_final_numbers_of_the_span_have_changed() {
    let lake = TestLake::with(&[click(1, at(NOON))]);
    let service = lake.service_with(crate::QueryConfig { refresh: std::time::Duration::ZERO, ..lake.config() });
    let restated =
        async |principal, query: &str| service.report(&principal, &request(query)).await.unwrap().meta.restated_at;
    let day = "start=2026-03-14&end=2026-03-14";
    assert_eq!(restated(operator(), day).await, None);
    lake.add_restatement(Some("a"), at("2026-03-13T10:00:00Z"), at("2026-03-14T00:00:00Z"));
    lake.add_restatement(Some("a"), at("2026-03-14T10:00:00Z"), at("2026-03-14T11:00:00Z"));
    lake.add_restatement(Some("b"), at("2026-03-14T12:00:00Z"), at("2026-03-14T13:00:00Z"));
    assert_eq!(restated(operator(), day).await, Some(at("2026-03-14T13:00:00Z")));
    assert_eq!(restated(tenant("a"), day).await, Some(at("2026-03-14T11:00:00Z")), "not b's");
    assert_eq!(restated(tenant("c"), day).await, None);
    let before = "start=2026-03-14T00:00:00Z&end=2026-03-14T10:00:00Z";
    assert_eq!(restated(tenant("a"), before).await, Some(at("2026-03-14T00:00:00Z")), "its last instant");
    assert_eq!(restated(operator(), "start=2026-03-15&end=2026-03-15").await, None);
}

#[tokio::test]
async fn meta_tells_from_when_on_clicks_are_kept_where_that_cuts_the_span() {
    let lake = TestLake::with(&[click(1, at(NOON))]);
    let service = lake.service_with(crate::QueryConfig { refresh: std::time::Duration::ZERO, ..lake.config() });
    let meta = async |principal, query: &str| {
        let meta = service.report(&principal, &request(query)).await.unwrap().meta;
        assert_eq!(meta.restated_at, None, "what is kept no longer isn't another number");
        meta.kept_from
    };
    let (long, day) = ("start=2026-03-01&end=2026-03-14", "start=2026-03-14&end=2026-03-14");
    assert_eq!(meta(tenant("a"), long).await, None);
    lake.add_retention("a", at("2026-03-01T00:00:00Z"), at("2026-03-09T23:59:59.999999Z"));
    lake.add_retention("a", at("2026-03-01T00:00:00Z"), at("2026-03-01T23:59:59.999999Z"));
    lake.add_retention("b", at("2026-03-12T00:00:00Z"), at("2026-03-12T23:59:59.999999Z"));
    assert_eq!(meta(tenant("a"), long).await, Some(at("2026-03-10T00:00:00Z")));
    assert_eq!(meta(tenant("a"), day).await, None, "that day is whole");
    assert_eq!(meta(tenant("a"), "interval_preset=all").await, Some(at("2026-03-10T00:00:00Z")));
    assert_eq!(meta(tenant("a"), "").await, Some(at("2026-03-10T00:00:00Z")));
    assert_eq!(meta(tenant("c"), long).await, None);
    assert_eq!(meta(operator(), long).await, Some(at("2026-03-13T00:00:00Z")), "of the one that keeps the least");
}

#[tokio::test]
async fn meta_tells_which_changes_of_the_span_are_under_way() {
    let lake = TestLake::with(&[click(1, at(NOON))]);
    let one = |workspace: Option<&str>, start: &str, end: &str, reason: &str| crate::Changing {
        workspace: workspace.map(str::to_owned),
        start: at(start),
        end: at(end),
        reason: reason.to_owned(),
    };
    let any = one(None, "2026-03-14T10:00:00Z", "2026-03-14T10:59:59Z", "an hour");
    let of_b = one(Some("b"), "2026-03-10T10:00:00Z", "2026-03-14T00:00:00Z", "b's");
    *lake.pipeline.1.lock().unwrap() = vec![any.clone(), of_b, any];
    let day = "start=2026-03-14&end=2026-03-14";
    let told = async |principal, query: &str| {
        let changing = ask(&lake, &principal, query).await.meta.changing;
        changing.into_iter().map(|one| one.reason).collect::<Vec<_>>()
    };
    assert_eq!(told(operator(), day).await, ["b's", "an hour"]);
    assert_eq!(told(tenant("a"), day).await, ["an hour"]);
    assert_eq!(told(tenant("b"), "start=2026-03-12&end=2026-03-12").await, ["b's"]);
    assert!(told(operator(), "start=2026-03-15&end=2026-03-15").await.is_empty());
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
