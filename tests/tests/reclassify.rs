//! History judged anew while people click and others read: what an older release has judged, by the rules of this one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use processor::lake::{Change, Lake, LakeOptions};
use schemas::click::{AgentInfo, Utm, Verdict};
use schemas::tables::Table;
use schemas::{Class, Click, ClickBuilder, ClickId, Device, Method, Source, UtcMicros};
use serde_json::{Value, json};
use tests::load::{Connection, Request};
use tests::logs::EPOCH;
use tests::node::Node;

const PATIENCE: Duration = Duration::from_secs(60);
const AGENTS: [&str; 3] = [
    "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)",
    "WhatsApp/2.23.20.0",
    "Mozilla/5.0 (X11; Linux x86_64; rv:131.0) Gecko/20100101 Firefox/131.0",
];
/// Rows of each agent.
const EACH: u64 = 400;

/// A row as a release without any rules would have written it: everybody is a person.
fn row(n: u64) -> Click {
    Click {
        click_id: ClickId::unique(),
        event_time: UtcMicros((EPOCH + n as i64) * 1_000_000),
        ingest_time: UtcMicros((EPOCH + n as i64) * 1_000_000),
        workspace: "default".into(),
        link_id: None,
        domain: "go.test".into(),
        code: "old".into(),
        revision: None,
        destination: None,
        source: Source::Origin,
        verdict: Verdict { class: Class::Human, agent: None, reason: "person".into(), rules_version: 0 },
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
        user_agent: Some(AGENTS[(n % 3) as usize].into()),
        client_net: None,
        visitor: Some(n as i64),
        weight: 1.0,
        query: None,
        private: false,
    }
}

/// Rows of an older release, in several files.
async fn history(node: &Node) -> anyhow::Result<()> {
    let root = node.data().join("lake").display().to_string();
    let mut clicks = Lake::open(&root, LakeOptions::default())?.table(Table::Clicks).await?;
    for part in 0..6 {
        let mut builder = ClickBuilder::new();
        (0..EACH / 2).for_each(|n| builder.push(&row(part * EACH / 2 + n)));
        let add = clicks.write(&builder.finish()?).await?;
        clicks.commit(Change { add, ..Change::default() }).await?;
    }
    Ok(())
}

fn classes(report: &Value) -> Value {
    report["totals"]["by_class"].clone()
}

const DAY: [&str; 6] = ["reclassify", "--start", "2026-03-14", "--end", "2026-03-14", "--json"];
const REPORT: &str = "/v1/reports/clicks?code=old&class=all&start=2026-03-14&end=2026-03-15";

#[tokio::test(flavor = "multi_thread")]
async fn history_is_judged_anew_at_once_and_every_answer_is_whole() -> anyhow::Result<()> {
    let mut node = Node::new(crate::binary(), "domains = [\"go.test\"]", "")?;
    node.start().await?;
    node.ok(&["link", "add", "https://example.com/", "--code", "new"])?;
    history(&node).await?;
    let (before, after) = (json!({"human": 3 * EACH}), json!({"human": EACH, "preview": 2 * EACH}));
    node.wait_for(REPORT, PATIENCE, |report| classes(report) == before && report["meta"]["final_through"].is_string())
        .await?;
    let told = node.json(&[&DAY[..], &["--dry-run"]].concat())?;
    assert_eq!((&told["rows"], &told["changed"], &told["after"]), (&json!(3 * EACH), &json!(3 * EACH), &after));
    assert_eq!(told["agents"].as_array().map(Vec::len), Some(2), "{told}");
    let report = node.get(REPORT).await?;
    assert_eq!((classes(&report), &report["meta"]["restated_at"]), (before.clone(), &Value::Null));

    let node = Arc::new(node);
    // whoever asks meanwhile sees the one or the other, and nobody waits for it
    let over = AtomicBool::new(false);
    let asking = async {
        let mut seen = Vec::new();
        while !over.load(Ordering::SeqCst) {
            seen.push(classes(&node.get(REPORT).await?));
        }
        anyhow::Ok(seen)
    };
    let judging = async {
        let node = Arc::clone(&node);
        let done = tokio::task::spawn_blocking(move || node.json(&DAY)).await;
        over.store(true, Ordering::SeqCst);
        anyhow::Ok(done??)
    };
    let clicking = async {
        let mut connection = Connection::open(node.redirect).await?;
        let (method, target, host) = ("GET", "/new".to_owned(), "go.test".to_owned());
        let request = Request { method, target, host, user_agent: AGENTS[2].to_owned(), headers: Vec::new() };
        let mut clicks = 0u64;
        while !over.load(Ordering::SeqCst) {
            assert_eq!(connection.send(&request).await?.status, 302);
            clicks += 1;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        anyhow::Ok(clicks)
    };
    let (seen, done, clicks) = tokio::join!(asking, judging, clicking);
    let (seen, done, clicks) = (seen?, done?, clicks?);
    assert!(seen.iter().all(|classes| *classes == before || *classes == after), "{seen:?}");
    assert_eq!((&done["changed"], &done["after"]), (&json!(3 * EACH), &after));

    // `query` looks for what other processes have done a few times a second
    let report = node.wait_for(REPORT, PATIENCE, |report| classes(report) == after).await?;
    assert!(report["meta"]["restated_at"].is_string(), "{report}");
    let by_agent = node.get("/v1/reports/clicks?code=old&class=preview&group_by=agent").await?;
    let rows: Vec<_> =
        by_agent["data"].as_array().into_iter().flatten().map(|row| (&row["value"], &row["clicks"])).collect();
    assert_eq!(rows, [(&json!("Slack"), &json!(EACH)), (&json!("WhatsApp"), &json!(EACH))], "{by_agent}");
    let by_class = node.get("/v1/reports/clicks?code=old&class=all&group_by=class").await?;
    assert_eq!(by_class["totals"]["clicks"], json!(3 * EACH));
    let new = "/v1/reports/clicks?code=new&class=all";
    node.wait_for(new, PATIENCE, |report| report["totals"]["clicks"] == json!(clicks)).await?;
    assert_eq!(node.json(&["verify", "--json"])?["ok"], json!(true));

    let again = node.json(&DAY)?;
    assert_eq!((&again["changed"], &again["rewritten"]), (&json!(0), &json!(0)));
    let mut node = Arc::into_inner(node).unwrap();
    node.stop().await?;
    let nothing = node.ok(&["reclassify", "--start", "2020-01-01", "--end", "2020-01-01T12:00:00Z"])?;
    assert!(nothing.contains("there are no clicks"), "{nothing}");
    let backwards = node.cli(&["reclassify", "--start", "2026-03-15", "--end", "2026-03-14"])?;
    let said = String::from_utf8_lossy(&backwards.stderr).into_owned();
    assert!(!backwards.status.success() && said.contains("must be later than --start"), "{said}");
    let wrong = node.cli(&["reclassify", "--start", "yesterday", "--end", "2026-03-14"])?;
    assert_eq!(wrong.status.code(), Some(2));
    Ok(())
}
