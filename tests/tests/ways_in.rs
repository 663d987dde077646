//! The ways in for edge logs: object stores, uploads, watched folders. However a log comes, each line counts once.

use std::time::{Duration, Instant};

use serde_json::Value;
use tests::logs::{EPOCH, gzip, hits};
use tests::node::Node;
use tests::s3::S3;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

/// The longest that anything may take, in a debug build on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

fn node(settings: &str) -> anyhow::Result<Node> {
    Node::new(crate::binary(), "domains = [\"go.test\"]\nworkers = 1", settings)
}

/// Rows of `clicks`, by code.
fn rows(node: &Node, code: &str) -> anyhow::Result<u64> {
    let sql = format!("SELECT count(*) AS n FROM clicks WHERE code = '{code}'");
    Ok(node.json(&["sql", &sql, "--format", "json"])?[0]["n"].as_u64().unwrap_or_default())
}

/// What a command that must fail says.
fn refused(node: &Node, arguments: &[&str]) -> anyhow::Result<String> {
    let output = node.cli(arguments)?;
    assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    Ok(String::from_utf8_lossy(&output.stderr).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn backfill_reads_objects_prefixes_and_patterns_of_a_bucket() -> anyhow::Result<()> {
    let s3 = S3::start(&["logs"]).await?;
    s3.put("logs", "cdn/2026-03-14/a.log", hits("a", "abc", EPOCH, 100).as_bytes())?;
    s3.put("logs", "cdn/2026-03-14/b.log.gz", &gzip(hits("b", "abc", EPOCH, 200).as_bytes())?)?;
    s3.put("logs", "cdn/2026-03-15/c.log", hits("c", "abc", EPOCH + 86_400, 50).as_bytes())?;
    s3.put("logs", "elsewhere/d.log", hits("d", "abc", EPOCH, 1).as_bytes())?;
    let node = node("")?.with_environment(s3.environment());

    let one = node.json(&["backfill", "s3://logs/cdn/2026-03-14/a.log", "--json"])?;
    assert_eq!((&one[0]["name"], &one[0]["added"]["edge"]), (&"s3://logs/cdn/2026-03-14/a.log".into(), &100.into()));
    let matched = node.json(&["backfill", "s3://logs/cdn/*/b*.gz", "--json"])?;
    assert_eq!(matched.as_array().map(Vec::len), Some(1), "{matched:#}");
    assert_eq!(matched[0]["added"]["edge"], 200, "{matched:#}");
    let all = node.json(&["backfill", "s3://logs/cdn/", "--json"])?;
    let added: Vec<u64> = all.as_array().into_iter().flatten().filter_map(|s| s["added"]["edge"].as_u64()).collect();
    assert_eq!(added, [0, 0, 50], "what was there is known again: {all:#}");
    assert_eq!(rows(&node, "abc")?, 350);

    for (url, word) in [
        ("s3://logs/nothing/", "no object matches"),
        ("s3://logs/cdn/z.log", "no such object"),
        ("s3://missing/cdn/", "s3://missing/cdn/"),
        ("s3://missing/a.log", "no such"),
        ("ftp://logs/a.log", "s3://"),
    ] {
        let said = refused(&node, &["backfill", url])?;
        assert!(said.contains(word), "{url}: {said}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_refuses_says_who_asks() -> anyhow::Result<()> {
    let s3 = S3::start(&["logs"]).await?;
    s3.put("logs", "a.log", hits("a", "abc", EPOCH, 1).as_bytes())?;
    let node = node("")?
        .with_environment(s3.environment())
        .with_environment(vec![("AWS_SECRET_ACCESS_KEY", "another".to_owned())]);
    let said = refused(&node, &["backfill", "s3://logs/a.log"])?;
    assert!(said.contains("refuses") && said.contains("AWS_SECRET_ACCESS_KEY"), "{said}");
    let summaries: Value =
        serde_json::from_slice(&node.cli(&["backfill", "s3://logs/", "--json"])?.stdout).unwrap_or_default();
    assert_eq!(summaries, Value::Null, "nothing was listed, so there is nothing to sum up");
    Ok(())
}

/// What answers on the management listener.
struct Manage<'a> {
    node: &'a Node,
    client: reqwest::Client,
}

impl<'a> Manage<'a> {
    fn of(node: &'a Node) -> Self {
        Self { node, client: reqwest::Client::new() }
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/v1/edge-logs{path}", self.node.manage)
    }

    async fn post(&self, token: &str, query: &str, body: impl Into<reqwest::Body>) -> anyhow::Result<(u16, Value)> {
        let answer = self.client.post(self.url(query)).bearer_auth(token).body(body).send().await?;
        Ok((answer.status().as_u16(), serde_json::from_str(&answer.text().await?)?))
    }

    async fn get(&self, token: &str, id: &str) -> anyhow::Result<(u16, Value)> {
        let answer = self.client.get(self.url(&format!("/{id}"))).bearer_auth(token).send().await?;
        Ok((answer.status().as_u16(), serde_json::from_str(&answer.text().await?)?))
    }

    /// Uploads and gives the id.
    async fn upload(&self, token: &str, query: &str, body: impl Into<reqwest::Body>) -> anyhow::Result<String> {
        let (status, answer) = self.post(token, query, body).await?;
        anyhow::ensure!(status == 202, "{status}: {answer:#}");
        Ok(answer["id"].as_str().unwrap_or_default().to_owned())
    }

    /// Waits until an upload has ended, and nothing of it waits.
    async fn ended(&self, token: &str, id: &str) -> anyhow::Result<Value> {
        let begin = Instant::now();
        loop {
            let (status, summary) = self.get(token, id).await?;
            anyhow::ensure!(status == 200, "{status}: {summary:#}");
            let is_over = summary["state"] == "failed" || summary["state"] == "done" && summary["waiting"] == 0;
            if is_over {
                return Ok(summary);
            }
            anyhow::ensure!(begin.elapsed() < PATIENCE, "{summary:#}\n{}", self.node.log());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

fn token(node: &Node, workspace: &str) -> anyhow::Result<String> {
    let printed = node.ok(&["token", "add", "--workspace", workspace, "--scope", "write"])?;
    Ok(printed.split_whitespace().find(|word| word.starts_with("hw_")).unwrap_or_default().to_owned())
}

/// Files below a folder.
fn files_in(folder: &std::path::Path) -> usize {
    std::fs::read_dir(folder).map_or(0, Iterator::count)
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_count_once_and_add_to_their_own_workspace_only() -> anyhow::Result<()> {
    let mut node = node("[edge_logs]\nmax_upload = \"1MiB\"")?;
    node.start().await?;
    node.ok(&["workspace", "add", "acme"])?;
    node.ok(&["link", "add", "https://example.com/", "--code", "mine"])?;
    node.ok(&["link", "add", "https://example.com/", "--code", "theirs", "--workspace", "acme"])?;
    let (mine, theirs) = (token(&node, "default")?, token(&node, "acme")?);
    let manage = Manage::of(&node);
    let log = format!("{}{}", hits("a", "mine", EPOCH, 300), hits("b", "theirs", EPOCH, 200));

    let id = manage.upload(&mine, "?name=plain.log&source=cdn", log.clone()).await?;
    let summary = manage.ended(&mine, &id).await?;
    assert_eq!(
        (&summary["id"], &summary["name"], &summary["state"]),
        (&id.clone().into(), &"plain.log".into(), &"done".into())
    );
    assert_eq!(
        (&summary["added"]["edge"], &summary["ignored"]["unknown_code"]),
        (&300.into(), &200.into()),
        "{summary:#}"
    );
    assert_eq!((rows(&node, "mine")?, rows(&node, "theirs")?), (300, 0));

    // the same bytes are the same upload, and packed they say nothing new
    assert_eq!(manage.upload(&mine, "?name=again.log", log.clone()).await?, id);
    let packed = manage.upload(&mine, "?name=packed.log.gz", gzip(log.as_bytes())?).await?;
    assert_ne!(packed, id);
    let summary = manage.ended(&mine, &packed).await?;
    assert_eq!((&summary["added"]["edge"], &summary["already_counted"]), (&0.into(), &300.into()), "{summary:#}");
    assert_eq!(files_in(&node.data().join("lake/_staging")), 2, "each is kept once, for a while");

    let other = manage.upload(&theirs, "", log.clone()).await?;
    let summary = manage.ended(&theirs, &other).await?;
    assert_eq!(
        (&summary["added"]["edge"], &summary["ignored"]["unknown_code"]),
        (&200.into(), &300.into()),
        "{summary:#}"
    );
    assert_eq!((rows(&node, "mine")?, rows(&node, "theirs")?), (300, 200));
    assert_eq!(manage.get(&theirs, &id).await?.0, 404);
    assert_eq!(manage.get(&node.token()?, &id).await?.0, 200);

    let refused = manage.upload(&mine, "?name=diary.txt", "dear diary\ntoday I saw a bird\n").await?;
    let summary = manage.ended(&mine, &refused).await?;
    assert_eq!(summary["state"], "failed");
    assert!(summary["note"].as_str().unwrap_or_default().contains("nginx-json"), "{summary:#}");
    assert_eq!(manage.post(&mine, "?format=papyrus", "x").await?.0, 400);
    assert_eq!(manage.post(&mine, "", "").await?.0, 400);
    assert_eq!(manage.post(&mine, "", vec![b'x'; (1 << 20) + 1]).await?.0, 413);

    // `process` hears of a source from the lake, after the upload has ended
    let is_heard = |status: &Value| {
        let logs = &status["edge_logs"];
        logs["queued"] == 0 && logs["sources"][0]["name"] == "cdn"
    };
    node.wait_for("/v1/status", PATIENCE, is_heard).await?;
    node.ok(&["verify"])?;
    node.stop().await
}

/// Sends the head and the beginning of an upload, and nothing more.
async fn begin_upload(node: &Node, bytes: &[u8]) -> anyhow::Result<TcpStream> {
    let mut stream = TcpStream::connect(("127.0.0.1", node.manage)).await?;
    let head = format!(
        "POST /v1/edge-logs?name=half.log HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nContent-Length: {}\r\n\r\n",
        node.token()?,
        bytes.len() * 2
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(bytes).await?;
    Ok(stream)
}

/// Waits until so many parts are staged.
async fn staged(node: &Node, parts: usize) -> anyhow::Result<()> {
    let (folder, begin) = (node.data().join("lake/_staging"), Instant::now());
    while files_in(&folder) != parts {
        anyhow::ensure!(begin.elapsed() < PATIENCE, "{} parts, not {parts}\n{}", files_in(&folder), node.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_in_uploads_and_imports_lose_and_double_nothing() -> anyhow::Result<()> {
    const LINES: u64 = 120_000;
    let mut node = node("")?;
    node.start().await?;
    node.ok(&["link", "add", "https://example.com/", "--code", "mine"])?;

    // a client that goes away leaves nothing, and nor does a server that is killed while one sends
    let half = vec![b'x'; 5 << 20];
    let client = begin_upload(&node, &half).await?;
    staged(&node, 1).await?;
    drop(client);
    staged(&node, 0).await?;
    let client = begin_upload(&node, &half).await?;
    staged(&node, 1).await?;
    node.kill()?;
    drop(client);
    node.start().await?;
    staged(&node, 0).await?;

    // one that is killed while it takes an upload in goes on with it
    let log = hits("a", "mine", EPOCH, LINES);
    let (token, id) = {
        let token = node.token()?;
        let id = Manage::of(&node).upload(&token, "?name=big.log.gz", gzip(log.as_bytes())?).await?;
        (token, id)
    };
    for seen in [0, 1, 50_000] {
        let begin = Instant::now();
        while Manage::of(&node).get(&token, &id).await?.1["state"] == "queued" || rows(&node, "mine")? < seen {
            anyhow::ensure!(begin.elapsed() < PATIENCE, "{}", node.log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        node.kill()?;
        node.start().await?;
    }
    let summary = Manage::of(&node).ended(&token, &id).await?;
    assert_eq!((&summary["state"], &summary["records"]), (&"done".into(), &LINES.into()), "{summary:#}");
    assert_eq!((&summary["added"]["edge"], &summary["already_counted"]), (&LINES.into(), &0.into()), "{summary:#}");
    assert_eq!(rows(&node, "mine")?, LINES);
    node.ok(&["verify"])?;
    node.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn watched_prefixes_take_each_log_once_and_make_numbers_final() -> anyhow::Result<()> {
    let s3 = S3::start(&["logs"]).await?;
    let settings = "[edge]\nprovider = \"nginx\"\nsettle = \"2s\"\n\
                    [edge_logs]\nwatch = [\"./incoming\", \"s3://logs/cdn\"]\npoll = \"200ms\"";
    let mut node = node(settings)?.with_environment(s3.environment());
    let folder = node.folder().join("incoming");
    std::fs::create_dir(&folder)?;
    std::fs::write(folder.join("a.log"), hits("a", "abc", EPOCH, 100))?;
    s3.put("logs", "cdn/one.log.gz", &gzip(hits("b", "abc", EPOCH, 200).as_bytes())?)?;
    std::fs::write(folder.join("diary.txt"), "dear diary\ntoday I saw a bird\n")?;
    node.start().await?;
    let is_final = |status: &Value| {
        let sources = status["edge_logs"]["sources"].as_array().map_or(0, Vec::len);
        sources == 2 && status["edge_logs"]["queued"] == 0 && !status["final_through"].is_null()
    };
    let status = node.wait_for("/v1/status", PATIENCE, is_final).await?;
    assert_eq!(status["edge_logs"]["sources"][0]["name"], "./incoming", "{status:#}");
    assert_eq!(rows(&node, "abc")?, 300);
    assert!(node.log().contains("diary.txt"), "a log that can't be read is named: {}", node.log());
    let list = node.json(&["edge-logs", "list", "--json"])?;
    let failed =
        list.as_array().into_iter().flatten().find(|log| log["state"] == "failed").cloned().unwrap_or_default();
    assert!(failed["location"].as_str().is_some_and(|at| at.ends_with("diary.txt")), "{list:#}");
    let shown = node.ok(&["edge-logs", "show", failed["id"].as_str().unwrap_or_default()])?;
    assert!(shown.contains("diary.txt") && shown.contains("failed, queued at") && shown.contains("note: "), "{shown}");
    assert!(node.ok(&["edge-logs", "list"])?.contains("diary.txt"));
    let off = node.ok(&["edge-logs", "revert", failed["id"].as_str().unwrap_or_default()])?;
    assert!(off.contains("diary.txt") && off.contains("off the list"), "{off}");
    assert!(!node.ok(&["edge-logs", "list"])?.contains("diary.txt"));
    // the log of the process names the queue's id
    let log = node.log();
    let line =
        log.lines().find(|line| line.contains("edge log taken in") && line.contains("a.log")).unwrap_or_default();
    let words: String = line.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { ' ' }).collect();
    let id = words.split(' ').find(|word| word.len() == 32).unwrap_or_default().to_owned();
    let taken = node.json(&["edge-logs", "show", &id, "--json"])?;
    assert_eq!((&taken["state"], &taken["added"]["edge"]), (&"done".into(), &100.into()), "{line}: {taken:#}");

    // remembered over a restart; what comes new, or grows, is taken in
    node.kill()?;
    node.start().await?;
    s3.put("logs", "cdn/two.log", hits("c", "abc", EPOCH, 10).as_bytes())?;
    std::fs::write(folder.join("a.log"), hits("a", "abc", EPOCH, 150))?;
    let begin = Instant::now();
    while rows(&node, "abc")? != 360 {
        anyhow::ensure!(begin.elapsed() < PATIENCE, "{} rows\n{}", rows(&node, "abc")?, node.log());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let refused = node.log().matches("edge log refused").count();
    assert_eq!(refused, 1, "a log that was refused doesn't come again: {}", node.log());

    // a source that can't be looked at is named with why, and one that has gone silent holds back what is final
    std::fs::rename(&folder, node.folder().join("elsewhere"))?;
    node.readyz_says("ready, but source ./incoming: can't list ./incoming: ").await?;
    let is_held = |status: &Value| {
        status["held_back_by"].as_str().is_some_and(|why| why.starts_with("source ./incoming: can't list "))
            && status["edge_logs"]["sources"][0]["silent"] == true
    };
    node.wait_for("/v1/status", PATIENCE, is_held).await?;
    node.ok(&["verify"])?;
    node.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_is_taken_back_leaves_its_lines_to_others_and_can_come_again() -> anyhow::Result<()> {
    let mut node = node("")?;
    node.start().await?;
    node.ok(&["link", "add", "https://example.com/", "--code", "mine"])?;
    let (token, manage) = (node.token()?, Manage::of(&node));
    let log = hits("a", "mine", EPOCH, 300);
    let first = manage.upload(&token, "?name=plain.log", log.clone()).await?;
    manage.ended(&token, &first).await?;
    let packed = manage.upload(&token, "?name=packed.log.gz", gzip(log.as_bytes())?).await?;
    assert_eq!(manage.ended(&token, &packed).await?["already_counted"], 300);

    let outcome = node.json(&["edge-logs", "revert", &first, "--json"])?;
    assert_eq!(outcome["removed"], 300, "{outcome:#}");
    assert_eq!((&outcome["again"][0]["id"], &outcome["again"][0]["added"]["edge"]), (&packed.into(), &300.into()));
    assert_eq!(manage.get(&token, &first).await?.1["state"], "reverted");
    assert_eq!(rows(&node, "mine")?, 300);

    assert_eq!(manage.upload(&token, "?name=plain.log", log).await?, first);
    let summary = manage.ended(&token, &first).await?;
    assert_eq!((&summary["added"]["edge"], &summary["already_counted"]), (&0.into(), &300.into()), "{summary:#}");
    assert_eq!(rows(&node, "mine")?, 300);
    node.ok(&["verify"])?;
    node.stop().await
}
