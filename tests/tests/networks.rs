//! Lists of networks: fetched by an operator, taken up by a running node, shown by `classify`, kept by rows.

use std::time::Duration;

use tests::load::{Connection, Request};
use tests::node::Node;

const PATIENCE: Duration = Duration::from_secs(60);

/// A click of an ordinary browser at this address.
fn click(address: &str) -> Request {
    Request {
        method: "GET",
        target: "/hello".into(),
        host: "go.test".into(),
        user_agent: "Mozilla/5.0 (X11; Linux x86_64; rv:126.0) Gecko/20100101 Firefox/126.0".into(),
        headers: vec![("X-Forwarded-For", address.to_owned())],
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_makes_scanners_of_its_network_and_rows_keep_that() -> anyhow::Result<()> {
    let mut node =
        Node::new(crate::binary(), "domains = [\"go.test\"]\nworkers = 1", "[classify]\nreload = \"100ms\"\n")?;
    let file = node.folder().join("mail.json");
    std::fs::write(&file, r#"{"prefixes":[{"ipv4Prefix":"198.51.100.0/24"}]}"#)?;
    let file = file.display().to_string();
    node.start().await?;
    node.ok(&["link", "add", "https://example.com/", "--code", "hello"])?;
    let mut connection = Connection::open(node.redirect).await?;
    let by_class = "/v1/reports/clicks?code=hello&interval_preset=24h&class=all";
    let counts = |class: &str, count: u64| {
        let place = format!("/totals/by_class/{class}");
        move |report: &serde_json::Value| report.pointer(&place) == Some(&count.into())
    };
    connection.send(&click("198.51.100.7")).await?;
    node.wait_for(by_class, PATIENCE, counts("human", 1)).await?;

    let refused = node.cli(&["networks", "update", &file, "--name", "mail"])?;
    assert!(String::from_utf8_lossy(&refused.stderr).contains("a new list needs --as"));
    let refused = node.cli(&["networks", "update", &file, "--name", "g", "--as", "confirm", "--agent", "Googel"])?;
    assert!(String::from_utf8_lossy(&refused.stderr).contains("did you mean Google?"));
    node.ok(&["networks", "update", &file, "--name", "mail", "--as", "scanner"])?;
    let judged = node.json(&[
        "classify",
        "--ua",
        "Mozilla/5.0 (X11) Gecko/20100101 Firefox/126.0",
        "--address",
        "198.51.100.7",
        "--json",
    ])?;
    assert_eq!((&judged["class"], &judged["reason"]), (&"scanner".into(), &"network/mail".into()), "{judged}");
    assert_eq!(judged["network"]["list"], "mail");

    // a list is in force within moments of its coming: until then clicks are people's
    let begin = std::time::Instant::now();
    loop {
        connection.send(&click("198.51.100.7")).await?;
        let report = node.get(by_class).await?;
        if report.pointer("/totals/by_class/scanner").is_some() {
            break;
        }
        anyhow::ensure!(begin.elapsed() < PATIENCE, "no scanner: {report:#}\n{}", node.log());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let sql = "SELECT DISTINCT agent, class_reason FROM clicks WHERE class = 'scanner'";
    let kept = node.json(&["sql", sql, "--format", "json"])?;
    assert_eq!(kept, serde_json::json!([{"agent": "mail", "class_reason": "network/mail"}]));

    let listed = node.json(&["networks", "list", "--json"])?;
    assert_eq!(
        (&listed[0]["name"], &listed[0]["as"], &listed[0]["prefixes"]),
        (&"mail".into(), &"scanner".into(), &1.into())
    );
    std::fs::write(&file, "<html>")?;
    let refused = node.cli(&["networks", "update", &file, "--name", "mail"])?;
    assert!(String::from_utf8_lossy(&refused.stderr).contains("a web page"), "and what was there stays");
    assert_eq!(node.json(&["networks", "list", "--json"])?, listed);

    wrong_beside_good(&node, &file).await?;
    node.ok(&["networks", "remove", "mail"])?;
    node.ok(&["networks", "remove", "other"])?;
    node.wait_for("/v1/status", PATIENCE, |status| status["refused"] == serde_json::json!([])).await?;
    assert_eq!(node.json(&["networks", "list", "--json"])?, serde_json::json!([]));
    node.stop().await
}

/// A list that is wrong is named beside the others, and in status while the node goes on with what was good of it.
async fn wrong_beside_good(node: &Node, file: &str) -> anyhow::Result<()> {
    let broken = node.data().join("networks").join("mail.json");
    std::fs::write(&broken, "{")?;
    let refused = |status: &serde_json::Value| status["refused"][0]["what"] == "networks/mail";
    let status = node.wait_for("/v1/status", PATIENCE, refused).await?;
    assert!(status["refused"][0]["why"].as_str().is_some_and(|why| why.contains("mail.json")), "{status:#}");
    std::fs::write(file, "203.0.113.0/24")?;
    node.ok(&["networks", "update", file, "--name", "other", "--as", "hosting"])?;
    let listed = node.json(&["networks", "list", "--json"])?;
    assert_eq!(
        (&listed[0]["name"], &listed[1]["name"], &listed[1]["state"]),
        (&"other".into(), &"mail".into(), &"wrong".into())
    );
    let begin = std::time::Instant::now();
    while node.metric("highwater_networks_lists", &[]).await? != 2 {
        anyhow::ensure!(begin.elapsed() < PATIENCE, "the good list is kept back\n{}", node.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(node.metric("highwater_networks_refused", &[]).await?, 1);
    Ok(())
}
