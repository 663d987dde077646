//! Bad input of each kind gets a named error and loses nothing.

use std::net::TcpListener;

use tests::node::Node;

fn node() -> anyhow::Result<Node> {
    Node::new(crate::binary(), "domains = [\"go.test\"]\nworkers = 1", "")
}

/// The command fails with `code`, and says each of `words` on standard error.
fn fails(node: &Node, arguments: &[&str], code: i32, words: &[&str]) {
    let output = node.cli(arguments).unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
    for word in words {
        assert!(text.contains(word), "{arguments:?} should say {word:?}: {text}");
    }
}

#[test]
fn a_broken_configuration_names_key_value_and_what_is_expected() -> anyhow::Result<()> {
    let node = node()?;
    for (text, words) in [
        ("[redirect]\ns_max_age = \"10s\"", ["redirect.s_max_age", "redirect.s_maxage"]),
        ("[redirect]\ns_maxage = \"soon\"", ["redirect.s_maxage", "soon"]),
        ("[redirect]\ns_maxage = \"60s\"", ["redirect.takedown_limit", "30s"]),
        ("[redirect\n", ["highwater.toml", ""]),
    ] {
        std::fs::write(node.config(), text)?;
        fails(&node, &["config", "check"], 1, &words);
        fails(&node, &["up"], 1, &words);
    }
    std::fs::write(node.config(), "[redirect]\ns_maxage = \"5s\"")?;
    let told = node.ok(&["config", "check"])?;
    assert!(told.contains("highwater.toml: the configuration is valid") && told.lines().count() == 1, "{told}");
    Ok(())
}

#[test]
fn variables_that_kubernetes_sets_for_a_service_are_no_configuration() -> anyhow::Result<()> {
    let set = |pairs: &[(&'static str, &str)]| pairs.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    let node = node()?.with_environment(set(&[
        ("HIGHWATER_SERVICE_HOST", "10.96.0.12"),
        ("HIGHWATER_SERVICE_PORT_HTTP", "80"),
        ("HIGHWATER_PORT", "tcp://10.96.0.12:80"),
        ("HIGHWATER_PORT_80_TCP_ADDR", "10.96.0.12"),
        ("HIGHWATER_REDIRECT_SERVICE_PORT", "8080"),
    ]));
    node.ok(&["config", "check"])?;
    let node = node.with_environment(set(&[("HIGHWATER_PORT", "8080")]));
    fails(&node, &["config", "check"], 1, &["port is not a known key (in the environment: HIGHWATER_PORT)"]);
    let node = node.with_environment(set(&[("HIGHWATER_RETENTION_KEEP", "5d")]));
    fails(&node, &["config", "check"], 1, &["did you mean retention.keep, which is HIGHWATER_RETENTION__KEEP?"]);
    let node = self::node()?.with_environment(set(&[("HIGHWATER_RETENTION__KEEP", "5")]));
    let said = ["retention.keep: \"5\" is not a number of days such as \"400d\"", "HIGHWATER_RETENTION__KEEP"];
    fails(&node, &["config", "check"], 1, &said);
    Ok(())
}

#[test]
fn wrong_usage_is_2() -> anyhow::Result<()> {
    let node = node()?;
    fails(&node, &["frobnicate"], 2, &["frobnicate"]);
    fails(&node, &["link", "add"], 2, &["URL"]);
    fails(&node, &["backfill", "x", "--id", "maybe"], 2, &["status-only"]);
    fails(&node, &["backfill", "x", "--format", "papyrus"], 2, &["--format", "papyrus", "cloudfront-v1"]);
    fails(&node, &["import", "x", "--provider", "acme"], 2, &["--provider", "acme"]);
    fails(&node, &["classify", "--header", "sec-purpose"], 2, &["--header", "sec-purpose"]);
    fails(&node, &["process", "--partitions", "0-1"], 2, &["--partitions", "stream.backend"]);
    fails(&node, &["link", "add", "ftp://example.com/"], 2, &["destination"]);
    fails(&node, &["workspace", "add", "no name"], 2, &["letters, digits"]);
    node.ok(&["link", "add", "https://example.com/"])?;
    let days = ["--start", "2026-03-15", "--end", "2026-03-14"];
    fails(&node, &[&["reclassify"], &days[..]].concat(), 2, &["--end 2026-03-14"]);
    fails(&node, &[&["report"], &days[..]].concat(), 2, &["--"]);
    fails(&node, &["report", "--by", "colour"], 2, &["--by", "country"]);
    fails(&node, &["report", "--timezone", "Europe/Berln"], 2, &["--timezone", "did you mean Europe/Berlin?"]);
    // what isn't there is no wrong usage
    fails(&node, &["report", "nosuch", "--domain", "x.example"], 1, &["\"nosuch\" on the domain \"x.example\""]);
    Ok(())
}

#[test]
fn an_occupied_port_is_named() -> anyhow::Result<()> {
    let node = node()?;
    for (key, port) in [("manage.listen", node.manage), ("redirect.listen", node.redirect)] {
        let _taken = TcpListener::bind(("127.0.0.1", port))?;
        fails(&node, &["up"], 1, &[key, &port.to_string(), "is another process there?"]);
        assert!(!node.data().exists(), "nothing is left of a start that came to nothing");
    }
    Ok(())
}

#[test]
fn a_start_that_fails_late_says_why_and_nothing_else() -> anyhow::Result<()> {
    let mut node = node()?;
    let config = std::fs::read_to_string(node.config())?;
    // the sample links lead to where this node is: found out when all the rest runs
    std::fs::write(node.config(), config.replace("go.test", "example.com"))?;
    for _ in 0..3 {
        let output = node.cli(&["up", "--demo"])?;
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains("must not lead back") && !text.contains("panicked"), "{text}");
    }
    // what had begun by then is whole
    std::fs::write(node.config(), config)?;
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        node.start().await?;
        node.stop().await
    })
}

#[test]
fn a_data_folder_that_cannot_be_written_is_named() -> anyhow::Result<()> {
    let node = node()?;
    std::fs::write(node.data(), "a file where the folder should be")?;
    fails(&node, &["up"], 1, &["data_dir"]);
    fails(&node, &["link", "list"], 1, &["data_dir"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_up_on_one_folder_is_refused() -> anyhow::Result<()> {
    let mut node = node()?;
    node.start().await?;
    fails(&node, &["up"], 1, &["in use"]);
    node.stop().await
}

#[test]
fn logs_that_are_none_are_refused_and_bad_lines_are_kept() -> anyhow::Result<()> {
    let node = node()?;
    let file = |name: &str, bytes: &[u8]| -> anyhow::Result<String> {
        let path = node.folder().join(name);
        std::fs::write(&path, bytes)?;
        Ok(path.display().to_string())
    };
    let nonsense = file("nonsense.log", b"dear diary\ntoday I saw a bird\n")?;
    fails(&node, &["backfill", &nonsense], 1, &["nonsense.log", "cloudfront-v1", "nginx-json"]);
    let missing = node.folder().join("missing.log").display().to_string();
    fails(&node, &["backfill", &missing], 1, &["missing.log"]);
    // of several, what the formats say is told once, and which weren't taken in
    let other = file("other.log", b"dear diary\ntoday it rained\n")?;
    let output = node.cli(&["backfill", &nonsense, &other])?;
    let (told, total) = (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("nonsense.log: no known") && told.contains("other.log: no known"), "{told}");
    assert_eq!(told.matches("cloudfront-v1").count(), 1, "{told}");
    assert!(total.starts_with("2 files, 2 not taken in: "), "{total}");
    let no_id = file(
        "plain.log",
        b"203.0.113.7 - - [14/Mar/2026:09:26:53 +0000] \"GET /abc HTTP/1.1\" 302 5 \"-\" \"Mozilla/5.0\"\n",
    )?;
    fails(&node, &["backfill", &no_id], 1, &["--id status-only"]);

    let good = r#"{"time_iso8601":"2026-03-14T09:26:53+00:00","msec":"1773480413.100","remote_addr":"203.0.113.7","host":"go.test","request_method":"GET","request_uri":"/abc","status":"302","http_referer":"","http_user_agent":"Mozilla/5.0","upstream_cache_status":"HIT","request_id":"0123456789abcdef0123456789abcdef","scheme":"https"}"#;
    let mixed = file("mixed.log", format!("{good}\n{{\"broken\": \n{good}\n").as_bytes())?;
    let summary = node.json(&["backfill", &mixed, "--json"])?;
    assert_eq!(summary[0]["added"]["edge"], 1, "{summary:#}");
    assert_eq!(summary[0]["already_counted"], 1, "{summary:#}");
    let rejected: u64 =
        summary[0]["rejected"].as_object().unwrap().values().filter_map(serde_json::Value::as_u64).sum();
    assert_eq!(rejected, 1, "{summary:#}");
    let rejects = node.json(&["sql", "SELECT number, reason FROM rejects", "--format", "json"])?;
    assert_eq!(rejects[0]["number"], 2, "{rejects:#}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_tokens_and_foreign_workspaces_see_nothing() -> anyhow::Result<()> {
    let mut node = node()?;
    node.start().await?;
    node.ok(&["workspace", "add", "acme"])?;
    node.ok(&["link", "add", "https://example.com/", "--code", "mine"])?;
    let printed = node.ok(&["token", "add", "--workspace", "acme", "--scope", "write"])?;
    let token = printed.split_whitespace().find(|word| word.starts_with("hw_")).unwrap().to_owned();
    let client = reqwest::Client::new();
    let manage = format!("http://127.0.0.1:{}", node.manage);
    let query = format!("http://127.0.0.1:{}", node.query);
    let status =
        |request: reqwest::RequestBuilder| async { request.send().await.map(|answer| answer.status().as_u16()) };
    for path in ["/v1/links", "/v1/links/mine"] {
        assert_eq!(status(client.get(format!("{manage}{path}"))).await?, 401);
        assert_eq!(status(client.get(format!("{manage}{path}")).bearer_auth("hw_wrong")).await?, 401);
    }
    assert_eq!(status(client.get(format!("{manage}/v1/links/mine")).bearer_auth(&token)).await?, 404);
    assert_eq!(status(client.delete(format!("{manage}/v1/links/mine")).bearer_auth(&token)).await?, 404);
    for path in ["/v1/reports/clicks", "/v1/status"] {
        assert_eq!(status(client.get(format!("{query}{path}"))).await?, 401);
        assert_eq!(status(client.get(format!("{query}{path}")).bearer_auth("hw_wrong")).await?, 401);
        assert_eq!(status(client.get(format!("{query}{path}")).bearer_auth(&token)).await?, 200);
    }
    let sql = client.post(format!("{query}/v1/sql")).bearer_auth(&token).json(&serde_json::json!({"sql": "SELECT 1"}));
    assert_eq!(status(sql).await?, 403);
    node.stop().await
}
