//! What was sampled, from the tables as they are written to the report, across a compaction; and by the second.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use processor::lake::{Change, Lake, LakeOptions};
use processor::sketch::{SampledAway, write};
use schemas::click::{AgentInfo, Utm, Verdict};
use schemas::sampling::is_kept;
use schemas::tables::Table;
use schemas::time::{DAY, HOUR};
use schemas::{Class, Click, ClickBuilder, ClickId, Device, LinkId, Method, Source, UtcMicros};
use serde_json::Value;
use tests::node::Node;

const RATE: f64 = 0.1;
/// 2026-03-14, 12:00.
const NOON: i64 = 20_526 * DAY + 12 * HOUR;

fn click(number: u64, link: LinkId) -> Click {
    let time = UtcMicros(NOON + (number as i64 % 3) * HOUR + number as i64);
    Click {
        // as random as a request's id
        click_id: ClickId::from(u128::from(number + 40_000).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835)),
        event_time: time,
        ingest_time: time,
        workspace: "default".into(),
        link_id: Some(link),
        domain: "go.test".into(),
        code: "viral".into(),
        revision: Some(1),
        destination: Some("https://example.com/".into()),
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
        visitor: Some((number / 2).wrapping_mul(0x9E37_79B9_7F4A_7C15) as i64),
        weight: 1.0,
        query: None,
        private: false,
    }
}

/// Writes clicks as they are written under sampling: the sketches of each group before its rows.
async fn sample(lake: &Lake, clicks: &[Click]) -> anyhow::Result<()> {
    let (mut rows, mut hourly) = (lake.table(Table::Clicks).await?, lake.table(Table::ClicksHourly).await?);
    for group in clicks.chunks(5_000) {
        let (kept, shed): (Vec<&Click>, Vec<&Click>) = group.iter().partition(|click| is_kept(click.click_id, RATE));
        let shed: Vec<SampledAway<'_>> = shed
            .into_iter()
            .map(|click| SampledAway {
                event_time: click.event_time,
                workspace: &click.workspace,
                link_id: click.link_id.unwrap(),
                domain: &click.domain,
                code: &click.code,
                class: click.verdict.class,
                visitor: click.visitor,
                rate: RATE,
            })
            .collect();
        // a commit that was tried again has written them twice
        for _ in 0..2 {
            write(&mut hourly, &shed).await?;
        }
        let mut builder = ClickBuilder::new();
        kept.into_iter().for_each(|click| builder.push(&Click { weight: 1.0 / RATE, ..click.clone() }));
        let add = rows.write(&builder.finish()?).await?;
        rows.commit(Change { add, ..Change::default() }).await?;
    }
    Ok(())
}

/// Writes down at which rate clicks of these seconds were kept.
async fn record(lake: &Lake, link: LinkId, seconds: &[i64]) -> anyhow::Result<()> {
    let instants = TimestampMicrosecondArray::from(seconds.to_vec()).with_timezone("UTC");
    let texts = |text: &str| Arc::new(StringArray::from(vec![text; seconds.len()])) as ArrayRef;
    let columns: Vec<ArrayRef> = vec![
        texts("default"),
        texts(&link.to_string()),
        Arc::new(instants.clone()),
        texts("0"),
        Arc::new(Float64Array::from(vec![RATE; seconds.len()])),
        Arc::new(instants),
    ];
    let mut rates = lake.table(Table::Sampling).await?;
    let add = rates.write(&RecordBatch::try_new(Table::Sampling.schema(), columns)?).await?;
    rates.commit(Change { add, ..Change::default() }).await?;
    Ok(())
}

/// Whether the report's numbers hold the truth.
fn assert_true(counts: &Value, clicks: u64, visitors: u64) {
    let number = |name: &str| counts[name].as_u64().unwrap();
    assert!(number("clicks_low") <= clicks && clicks <= number("clicks_high"), "{clicks} clicks: {counts}");
    assert!(number("visitors").abs_diff(visitors) * 100 < 3 * visitors, "{visitors} visitors: {counts}");
}

#[tokio::test(flavor = "multi_thread")]
async fn visitors_of_what_was_sampled_away_are_in_the_report_before_and_after_a_compaction() -> anyhow::Result<()> {
    let node = Node::new(crate::binary(), "domains = [\"go.test\"]\nworkers = 1", "")?;
    let added = ["link", "add", "https://example.com/", "--code", "viral", "--analytics", "internal", "--json"];
    let link: LinkId = node.json(&added)?["id"].as_str().unwrap().parse()?;
    let clicks: Vec<Click> = (0..30_000).map(|number| click(number, link)).collect();
    let lake = Lake::open(node.data().join("lake").to_str().unwrap(), LakeOptions::default())?;
    sample(&lake, &clicks).await?;

    let report = || {
        node.json(&["report", "viral", "--interval", "hour", "--start", "2026-03-14", "--end", "2026-03-14", "--json"])
    };
    let sketches = || {
        Ok::<_, anyhow::Error>(
            node.json(&["sql", "select count(*) as n from clicks_hourly", "--format", "json"])?[0]["n"].clone(),
        )
    };
    let before = report()?;
    assert_true(&before["totals"], 30_000, 15_000);
    for (row, hour) in before["data"].as_array().unwrap().iter().zip(0i64..) {
        let of_hour = clicks.iter().filter(|click| click.event_time.hour().rem_euclid(24) == hour);
        let (mut count, mut visitors) = (0, HashSet::new());
        of_hour.for_each(|click| {
            count += 1;
            visitors.insert(click.visitor);
        });
        match count {
            0 => assert_eq!((&row["clicks_high"], &row["visitors"]), (&0.into(), &0.into())),
            _ => assert_true(row, count, visitors.len() as u64),
        }
    }
    assert_eq!(before["meta"]["lowest_rate"], RATE);
    assert!(before["meta"]["visitors"].as_str().unwrap().starts_with("estimated"), "{}", before["meta"]);
    let totals = &before["totals"];
    let (clicks, low, high) = (&totals["clicks"], &totals["clicks_low"], &totals["clicks_high"]);
    let told = node.ok(&["report", "viral", "--start", "2026-03-14", "--end", "2026-03-14"])?;
    let first = format!("/viral: clicks by people: {clicks} [{low}, {high}], visitors: about {}", totals["visitors"]);
    assert!(told.starts_with(&first) && told.contains("sampled, at least 10.0 % kept"), "{told}");
    let how = format!("visitors: {}", before["meta"]["visitors"].as_str().unwrap());
    assert!(told.lines().any(|line| line == how), "{told}");
    node.ok(&["verify"])?;

    assert_eq!(sketches()?, 36, "six groups, written twice, of three hours");
    node.ok(&["compact"])?;
    assert_eq!(sketches()?, 3);
    let after = report()?;
    assert_eq!((&after["totals"], &after["data"]), (&before["totals"], &before["data"]));
    node.ok(&["verify"])?;

    // all clicks are of the first second of their hour
    let minutes = || {
        let span = ["--start", "2026-03-14T12:30:00Z", "--end", "2026-03-14T14:00:00Z"];
        node.json(&[&["report", "viral", "--interval", "minute"], &span[..], &["--json"]].concat())
    };
    let above = |report: &Value| -> Vec<usize> {
        let rows = report["data"].as_array().unwrap().iter().enumerate();
        rows.filter(|(_, row)| row["clicks_high"] != row["clicks_low"]).map(|(number, _)| number).collect()
    };
    let by_hours = minutes()?;
    assert_eq!(above(&by_hours), (0..90).collect::<Vec<_>>());
    assert!(by_hours["totals"]["visitors"].is_null(), "{by_hours}");
    record(&lake, link, &[NOON, NOON + HOUR, NOON + 2 * HOUR]).await?;
    let by_seconds = minutes()?;
    assert_eq!(above(&by_seconds), [30]);
    assert_true(&by_seconds["totals"], 10_000, 10_000);
    let visitors = |minute: usize| &by_seconds["data"][minute]["visitors"];
    assert_eq!([visitors(29), visitors(30), visitors(31)], [&0.into(), &Value::Null, &0.into()]);
    Ok(())
}
