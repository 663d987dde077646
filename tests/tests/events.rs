//! A service that keeps its own redirects: its events by HTTP or as a file, its edge's log by backfill, in any order,
//! repeated, through kills; each request is one click.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tests::edge::Edge;
use tests::foreign::Redirector;
use tests::load::{Connection, Request};
use tests::node::Node;
use tests::{free_port, skip};

const QUICK: &str = "skew = \"1s\"\nrepeat = \"1s\"\nrecover_after = \"2s\"\nmax_skew = \"1m\"";
const REQUESTS: usize = 1_500;
const PERSON: &str =
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36";

/// Requests sent, by code.
type Ledger = BTreeMap<String, u64>;

async fn send_all(edge: &Edge, host: &str) -> anyhow::Result<Ledger> {
    let mut ledger = Ledger::new();
    let mut connection = Connection::open(edge.port).await?;
    for n in 0..REQUESTS {
        let code = format!("code-{}", n % 7 % 4);
        let request = Request {
            method: if n % 10 == 0 { "HEAD" } else { "GET" },
            target: format!("/{code}"),
            host: host.to_owned(),
            user_agent: PERSON.to_owned(),
            headers: Vec::new(),
        };
        assert_eq!(connection.send(&request).await?.status, 302);
        *ledger.entry(code).or_default() += 1;
    }
    Ok(ledger)
}

fn lines(events: &[Value]) -> Vec<u8> {
    events.iter().map(|event| format!("{event}\n")).collect::<String>().into_bytes()
}

fn gzip(bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut gzip = Command::new("gzip").arg("-c").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut input = gzip.stdin.take().ok_or_else(|| anyhow::anyhow!("gzip takes no input"))?;
    let bytes = bytes.to_vec();
    let writing = std::thread::spawn(move || input.write_all(&bytes));
    let output = gzip.wait_with_output()?;
    writing.join().map_err(|_| anyhow::anyhow!("writing to gzip broke off"))??;
    Ok(output.stdout)
}

/// Posts a body; `Ok(None)` when no answer came.
async fn post(node: &Node, token: &str, query: &str, body: Vec<u8>) -> anyhow::Result<Option<(u16, Value)>> {
    let url = format!("http://127.0.0.1:{}/v1/events{query}", node.manage);
    let Ok(answer) = reqwest::Client::new().post(url).bearer_auth(token).body(body).send().await else {
        return Ok(None);
    };
    let status = answer.status().as_u16();
    Ok(Some((status, serde_json::from_str(&answer.text().await?)?)))
}

async fn accepted(node: &Node, token: &str, query: &str, body: Vec<u8>) -> anyhow::Result<(u64, u64)> {
    let answer = post(node, token, query, body).await?;
    let Some((200, answer)) = answer else { anyhow::bail!("{answer:?}\n{}", node.log()) };
    anyhow::ensure!(answer["rejected"] == json!([]), "{answer}");
    let count = |key: &str| answer[key].as_u64().unwrap_or_default();
    Ok((count("accepted"), count("duplicates")))
}

/// Rows, distinct ids and sources, by code.
async fn assert_exact(node: &Node, ledger: &Ledger) -> anyhow::Result<()> {
    let settled = |status: &Value| status["edge_logs"]["waiting"] == 0 && status["edge_logs"]["late"] == 0;
    node.wait_for("/v1/status", Duration::from_secs(90), settled).await?;
    let sql = "SELECT code, count(*) AS n, count(DISTINCT click_id) AS ids FROM clicks GROUP BY code ORDER BY code";
    let rows = node.json(&["sql", sql, "--format", "json"])?;
    let expected: Vec<Value> = ledger.iter().map(|(code, n)| json!({"code": code, "n": n, "ids": n})).collect();
    assert_eq!(rows, json!(expected), "{}", node.log());
    node.ok(&["verify"])?;
    Ok(())
}

async fn foreign_service() -> anyhow::Result<(String, Redirector, Edge, Ledger)> {
    let port = free_port()?;
    let host = format!("127.0.0.1:{port}");
    let redirector = Redirector::start().await?;
    let edge = Edge::start(port, redirector.port).await?;
    let ledger = send_all(&edge, &host).await?;
    Ok((host, redirector, edge, ledger))
}

fn add_links(node: &Node, ledger: &Ledger) -> anyhow::Result<()> {
    for code in ledger.keys() {
        node.ok(&["link", "add", "https://example.com/", "--code", code])?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_with_its_own_redirects_is_exact_events_first_and_through_kills() -> anyhow::Result<()> {
    if !Edge::is_there() {
        skip("own redirects, events first", "nginx is not installed");
        return Ok(());
    }
    let (host, redirector, edge, ledger) = foreign_service().await?;
    let mut node = Node::new(crate::binary(), &format!("domains = [\"{host}\"]"), &format!("[edge]\n{QUICK}"))?;
    node.start().await?;
    add_links(&node, &ledger)?;
    let token = node.token()?;
    let events = redirector.events();
    assert!(events.len() < REQUESTS * 3 / 4, "the edge answered {} of {REQUESTS}", REQUESTS - events.len());
    let bodies: Vec<Vec<u8>> = events.chunks(50).map(lines).collect();
    let query = "?provider=nginx";
    for (n, body) in bodies.iter().enumerate() {
        if n % 3 == 1 {
            // killed somewhere in between; no answer may come, or the right one
            let posted = tokio::spawn({
                let (url, token, body) =
                    (format!("http://127.0.0.1:{}/v1/events{query}", node.manage), token.clone(), body.clone());
                async move { drop(reqwest::Client::new().post(url).bearer_auth(token).body(body).send().await) }
            });
            tokio::time::sleep(Duration::from_millis(n as u64 * 3)).await;
            node.kill()?;
            posted.await?;
            node.start().await?;
        }
        let body = if n % 2 == 0 { body.clone() } else { gzip(body)? };
        let (accepted, duplicates) = accepted(&node, &token, query, body).await?;
        assert_eq!(accepted + duplicates, bodies[n].split(|byte| *byte == b'\n').count() as u64 - 1);
    }
    assert_eq!(accepted(&node, &token, query, lines(&events)).await?, (0, events.len() as u64));
    let rows = node.json(&["sql", "SELECT DISTINCT source FROM clicks", "--format", "json"])?;
    assert_eq!(rows, json!([{"source": "origin"}]));

    let (json_log, combined) = (edge.json_log().display().to_string(), edge.combined_log().display().to_string());
    node.ok(&["backfill", &json_log, &combined, &json_log, "--unknown-codes", "ignore"])?;
    assert_exact(&node, &ledger).await?;
    // and the same events once more, as a file
    let file = node.folder().join("events.ndjson");
    std::fs::write(&file, lines(&events))?;
    let path = file.display().to_string();
    let summary = node.json(&["import", &path, "--provider", "nginx", "--json"])?;
    let of = |key: &str| summary[0][key].clone();
    assert_eq!((of("format"), of("already_counted")), (json!("events"), json!(events.len())), "{summary:#}");
    assert_eq!(of("added"), json!({"edge": 0, "recovered": 0, "origin": 0, "import": 0}));
    assert_exact(&node, &ledger).await?;
    node.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn and_the_log_first() -> anyhow::Result<()> {
    if !Edge::is_there() {
        skip("own redirects, log first", "nginx is not installed");
        return Ok(());
    }
    let (host, redirector, edge, ledger) = foreign_service().await?;
    let settings = format!("[edge]\nprovider = \"nginx\"\n{QUICK}");
    let mut node = Node::new(crate::binary(), &format!("domains = [\"{host}\"]"), &settings)?;
    node.start().await?;
    add_links(&node, &ledger)?;
    let log = edge.json_log().display().to_string();
    let events = redirector.events();
    // half of the events come while lines wait, half when they have been recovered
    let (early, late) = events.split_at(events.len() / 2);
    let file = node.folder().join("early.ndjson.gz");
    std::fs::write(&file, gzip(&lines(early))?)?;
    node.ok(&["backfill", &log, "--unknown-codes", "ignore"])?;
    let summary = node.json(&["import", &file.display().to_string(), "--json"])?;
    assert_eq!(summary[0]["records"], early.len(), "the edge in front is the provider: {summary:#}");
    assert_exact(&node, &ledger).await?;
    let (accepted, duplicates) = accepted(&node, &node.token()?, "", lines(late)).await?;
    assert_eq!((accepted, duplicates), (0, late.len() as u64));
    assert_exact(&node, &ledger).await?;
    node.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn each_workspace_has_its_own_events_on_a_node_that_only_manages() -> anyhow::Result<()> {
    let mut node = Node::new(crate::binary(), "domains = [\"go.test\", \"acme.test\"]", "")?;
    node.ok(&["workspace", "add", "acme"])?;
    for (code, domain, workspace) in
        [("k", "go.test", "default"), ("k", "acme.test", "acme"), ("own", "go.test", "default")]
    {
        node.ok(&[
            "link",
            "add",
            "https://example.com/",
            "--code",
            code,
            "--domain",
            domain,
            "--workspace",
            workspace,
        ])?;
    }
    let token = |workspace: &str, scope: &str| {
        let text = node.ok(&["token", "add", "--workspace", workspace, "--scope", scope])?;
        anyhow::Ok(text.trim().to_owned())
    };
    let (acme, ours, reader) = (token("acme", "write")?, token("default", "write")?, token("acme", "read")?);
    node.start_with(&["manage"]).await?;
    let body = [
        json!({"code": "k", "time": "2026-03-14T09:26:53Z"}),
        json!({"code": "own", "time": "2026-03-14T09:26:54Z"}),
        json!({"code": "k", "time": "yesterday"}),
        json!({"code": "k", "time": 1_773_480_413, "domain": "go.test", "request_id": "1"}),
        json!({"code": "k", "time": 1_773_480_413, "domain": "acme.test", "request_id": "1"}),
    ];
    let began = std::time::Instant::now();
    let (status, answer) = post(&node, &acme, "", lines(&body)).await?.unwrap();
    assert_eq!(status, 200, "{answer}");
    let rejected = json!([
        {"line": 2, "reason": "unknown_code"}, {"line": 3, "reason": "bad_timestamp"}, {"line": 4, "reason": "unknown_code"}
    ]);
    assert_eq!(answer, json!({"accepted": 2, "duplicates": 0, "rejected": rejected}));
    println!("a first post took {:?}", began.elapsed());
    let (_, answer) = post(&node, &ours, "", lines(&body)).await?.unwrap();
    assert_eq!(
        (&answer["accepted"], &answer["rejected"]),
        (&json!(3), &json!([{"line": 3, "reason": "bad_timestamp"}, {"line": 5, "reason": "unknown_code"}]))
    );
    assert_eq!(post(&node, &reader, "", lines(&body)).await?.unwrap().0, 403);

    let thousand: Vec<Value> = (0..1_000)
        .map(|n| json!({"code": "k", "time": 1_773_480_413 + n, "user_agent": PERSON, "ip": "203.0.113.9"}))
        .collect();
    let began = std::time::Instant::now();
    assert_eq!(accepted(&node, &acme, "?as=import", lines(&thousand)).await?, (1_000, 0));
    println!("a thousand events took {:?}", began.elapsed());
    let sql =
        "SELECT workspace, source, count(*) AS n FROM clicks GROUP BY workspace, source ORDER BY workspace, source";
    let rows = node.json(&["sql", sql, "--format", "json"])?;
    let expected = json!([
        {"workspace": "acme", "source": "import", "n": 1_000}, {"workspace": "acme", "source": "origin", "n": 2},
        {"workspace": "default", "source": "origin", "n": 3}
    ]);
    assert_eq!(rows, expected);
    let imports = node.json(&["edge-logs", "list", "--json"])?;
    let added: Vec<&Value> = imports.as_array().unwrap().iter().map(|import| &import["records"]).collect();
    assert_eq!(added, [2, 3, 1_000], "{imports:#}");
    node.stop().await
}
