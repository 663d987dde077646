//! The roles as processes of their own on one PostgreSQL, which goes away and comes back.

use std::time::{Duration, Instant};

use reqwest::StatusCode;
use serde_json::{Value, json};
use tests::load::Connection;
use tests::node::Node;
use tests::postgres::{PASSWORD, Postgres};

use crate::roles::{click, rows};

/// The roles, each with listeners of its own, on one data folder.
struct Roles {
    manage: Node,
    redirect: Node,
    process: Node,
    query: Node,
    token: String,
    client: reqwest::Client,
}

impl Roles {
    async fn start(address: &str) -> anyhow::Result<Self> {
        let settings = format!("[links]\nurl = \"{address}\"");
        let node = || Node::new(crate::binary(), "domains = [\"go.test\"]\nworkers = 1", &settings);
        let mut manage = node()?;
        let (mut redirect, mut process, mut query) =
            (node()?.sharing_data_of(&manage), node()?.sharing_data_of(&manage), node()?.sharing_data_of(&manage));
        manage.start_with(&["manage"]).await?;
        let token = manage.ok(&["token", "add", "--operator"])?.trim().to_owned();
        redirect.start_with(&["redirect"]).await?;
        process.start_with(&["process"]).await?;
        query.start_with(&["query"]).await?;
        Ok(Self { manage, redirect, process, query, token, client: reqwest::Client::new() })
    }

    async fn post(&self, path: &str, body: Value) -> anyhow::Result<(StatusCode, String)> {
        let url = format!("http://127.0.0.1:{}{path}", self.manage.manage);
        let answer = self.client.post(url).bearer_auth(&self.token).json(&body).send().await?;
        Ok((answer.status(), answer.text().await?))
    }

    async fn click(&self, code: &str) -> anyhow::Result<u16> {
        Ok(Connection::open(self.redirect.redirect).await?.send(&click(code)).await?.status)
    }

    async fn clicks(&self, code: &str, expected: u64) -> anyhow::Result<()> {
        let begin = Instant::now();
        let url = format!("http://127.0.0.1:{}/v1/reports/clicks?code={code}&interval_preset=24h", self.query.query);
        loop {
            let report = self.client.get(&url).bearer_auth(&self.token).send().await?;
            let report: Value = serde_json::from_str(&report.text().await?)?;
            if report["totals"]["clicks"] == expected {
                return Ok(());
            }
            anyhow::ensure!(begin.elapsed() < Duration::from_secs(60), "{report:#}\n{}", self.process.log());
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    fn all(&mut self) -> [&mut Node; 4] {
        [&mut self.manage, &mut self.redirect, &mut self.process, &mut self.query]
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn roles_share_a_server_and_outlive_its_absence() -> anyhow::Result<()> {
    let Some(server) = Postgres::own("roles_share_a_server")? else { return Ok(()) };
    let mut roles = Roles::start(&server.fresh_at(server.port())?).await?;
    let link = |code: &str| json!({"destination": "https://example.com/", "code": code});
    assert_eq!(roles.post("/v1/links", link("solo")).await?.0, 201);
    assert_eq!(roles.click("solo").await?, 302);
    roles.clicks("solo", 1).await?;

    server.stop()?;
    assert_eq!(roles.click("solo").await?, 302, "a link in memory is answered");
    let (status, told) = roles.post("/v1/links", link("other")).await?;
    assert!(status == 503 && told.contains("the link store doesn't answer"), "{status} {told}");
    assert_eq!(roles.click("never-seen").await?, 503);
    server.resume()?;

    let begin = Instant::now();
    while roles.post("/v1/links/solo/disable", json!({"reason": "abuse"})).await?.0 != 200 {
        anyhow::ensure!(begin.elapsed() < Duration::from_secs(60), "{}", roles.manage.log());
    }
    while roles.click("solo").await? != 410 {
        anyhow::ensure!(begin.elapsed() < Duration::from_secs(60), "it is not taken down\n{}", roles.redirect.log());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(roles.post("/v1/links", link("other")).await?.0, 201);
    assert_eq!(roles.click("other").await?, 302);
    roles.clicks("other", 1).await?;
    roles.clicks("solo", rows(&roles.manage, "solo").await?).await?;

    let shown = roles.manage.ok(&["config", "show"])?;
    assert!(shown.contains("postgres://highwater:***@") && !shown.contains(PASSWORD), "{shown}");
    for node in roles.all() {
        node.stop().await?;
        assert!(!node.log().contains(PASSWORD), "{}", node.log());
    }
    let verified = roles.manage.json(&["verify", "--json"])?;
    assert_eq!(verified["ok"], true, "{verified:#}");
    Ok(())
}
