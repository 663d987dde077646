//! Reports by a dimension, and filtered by one.

use std::sync::Arc;

use schemas::click::{AgentInfo, Utm};
use schemas::{Click, Device};

use super::{NOON, ask, from, groups};
use crate::testlake::{TestLake, at, click, tenant, text};

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
        ("country=XX", 0),
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
