//! Requests that one by one look like a person's, and together don't.

use std::time::Duration;

use tests::load::{Connection, Request};
use tests::node::Node;

/// Links that one visitor opens at once.
const LINKS: u64 = 6;

fn click(code: &str, address: &str) -> Request {
    Request {
        method: "GET",
        target: format!("/{code}"),
        host: "go.test".into(),
        user_agent: "Mozilla/5.0 (X11; Linux x86_64; rv:126.0) Gecko/20100101 Firefox/126.0".into(),
        headers: vec![("x-forwarded-for", address.into())],
    }
}

/// Of three that open many links within moments one is a scanner: the second has the address of a proxy, behind which
/// there may be anybody, and the third opens the same link again and again.
#[tokio::test(flavor = "multi_thread")]
async fn who_opens_many_links_at_once_is_no_person() -> anyhow::Result<()> {
    // with a provider hours aren't final at once, so that the turn of one makes no difference
    let settings = "[edge]\nprovider = \"nginx\"\n[behaviour]\nmany_links = 5\nwithin = \"60s\"";
    let mut node = Node::new(crate::binary(), "domains = [\"go.test\"]\nworkers = 1", settings)?;
    node.start().await?;
    for number in 0..LINKS {
        node.ok(&["link", "add", "https://example.com/", "--code", &format!("link{number}")])?;
    }
    let mut connection = Connection::open(node.redirect).await?;
    for number in 0..LINKS {
        for (code, address) in
            [(format!("link{number}"), "8.8.4.4"), (format!("link{number}"), "10.0.0.7"), ("link0".into(), "9.9.9.9")]
        {
            assert_eq!(connection.send(&click(&code, address)).await?.status, 302);
        }
    }
    let path = "/v1/reports/clicks?interval_preset=24h&class=all";
    let is_moved = |report: &serde_json::Value| report["totals"]["by_class"]["scanner"] == LINKS;
    let report = node.wait_for(path, Duration::from_secs(90), is_moved).await?;
    assert_eq!(report["totals"]["by_class"]["human"], 2 * LINKS, "{report:#}");
    let reasons = "SELECT class_reason, count(*) AS n FROM clicks GROUP BY 1 ORDER BY 1";
    let rows = node.json(&["sql", reasons, "--format", "json"])?;
    let expected = serde_json::json!([
        {"class_reason": "behaviour/many-links", "n": LINKS},
        {"class_reason": "person", "n": 2 * LINKS},
    ]);
    assert_eq!(rows, expected);
    assert_eq!(node.metric("highwater_behaviour_moved_total", &["sign=\"behaviour/many-links\""]).await?, LINKS);
    node.ok(&["verify"])?;
    node.stop().await
}

/// Each of three new links is asked for by a rented server, and by somebody else.
#[tokio::test(flavor = "multi_thread")]
async fn a_rented_server_that_asks_for_a_link_just_made_is_no_person() -> anyhow::Result<()> {
    let settings = "[edge]\nprovider = \"nginx\"\n[behaviour]\nnew_link = \"5m\"";
    let mut node = Node::new(crate::binary(), "domains = [\"go.test\"]\nworkers = 1", settings)?;
    let list = node.folder().join("cloud.txt");
    std::fs::write(&list, "8.8.4.0/24\n")?;
    node.ok(&["networks", "update", &list.display().to_string(), "--name", "cloud", "--as", "hosting"])?;
    node.start().await?;
    let mut connection = Connection::open(node.redirect).await?;
    for number in 0..3 {
        let code = format!("new{number}");
        node.ok(&["link", "add", "https://example.com/", "--code", &code])?;
        for address in ["8.8.4.4", "9.9.9.9"] {
            assert_eq!(connection.send(&click(&code, address)).await?.status, 302);
        }
    }
    let path = "/v1/reports/clicks?interval_preset=24h&class=all";
    let is_moved = |report: &serde_json::Value| report["totals"]["by_class"]["scanner"] == 3;
    let report = node.wait_for(path, Duration::from_secs(90), is_moved).await?;
    assert_eq!(report["totals"]["by_class"]["human"], 3, "{report:#}");
    let sql = "SELECT class_reason, client_net, count(*) AS n FROM clicks GROUP BY 1, 2 ORDER BY 1";
    let rows = node.json(&["sql", sql, "--format", "json"])?;
    let expected = serde_json::json!([
        {"class_reason": "behaviour/new-link", "client_net": "8.8.4.0/24", "n": 3},
        {"class_reason": "person", "client_net": "9.9.9.0/24", "n": 3},
    ]);
    assert_eq!(rows, expected);
    // all are still in the journal: verify looks for each of them, whatever class it is of now
    let clicks = &node.json(&["verify", "--json"])?["clicks"];
    assert_eq!(
        (&clicks["rows"], &clicks["answered"], &clicks["missing"]),
        (&6.into(), &6.into(), &0.into()),
        "{clicks:#}"
    );
    node.stop().await
}
