//! What is left of people, where, and for how long (docs/privacy.md): looked for in every file.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use arrow::array::{Array as _, AsArray as _, RecordBatch};
use arrow::datatypes::DataType;
use ingest::ports::VisitorKeys as _;
use processor::lake::{Lake, LakeOptions};
use redirect::links::{Domains, LinkStore};
use schemas::UtcMicros;
use schemas::tables::Table;
use schemas::visitor::{VisitorKey, as_v6_octets, visitor};
use serde_json::{Value, json};
use tests::load::{Connection, Request};
use tests::node::Node;

/// Longer than anything here takes, on a busy machine in a debug build.
const PATIENCE: Duration = Duration::from_secs(90);
const PERSON: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:131.0) Gecko/20100101 Firefox/131.0";
/// Of this test alone.
const ADDRESSES: [&str; 2] = ["198.51.100.213", "2001:db8:77:4321:89ab:cdef:1234:5678"];
const QUICK: &str =
    "[edge]\nprovider = \"nginx\"\nskew = \"1s\"\nrepeat = \"1s\"\nrecover_after = \"2s\"\nmax_skew = \"1m\"\n";

async fn click(node: &Node, id: &str, address: &str, headers: &[(&'static str, &str)]) -> anyhow::Result<()> {
    let known = [("x-forwarded-for", address), ("x-request-id", id)];
    let request = Request {
        method: "GET",
        target: "/k?email=someone%40example.com&ref=7&utm_source=s".to_owned(),
        host: "go.test".to_owned(),
        user_agent: PERSON.to_owned(),
        headers: known.iter().chain(headers).map(|(name, value)| (*name, (*value).to_owned())).collect(),
    };
    anyhow::ensure!(Connection::open(node.redirect).await?.send(&request).await?.status == 302, "no redirect");
    Ok(())
}

fn log_line(id: &str, address: &str, cache: &str, at: UtcMicros) -> String {
    let line = json!({
        "msec": format!("{}.{:03}", at.0 / 1_000_000, at.0 / 1_000 % 1_000), "remote_addr": address, "host": "go.test",
        "request_method": "GET", "request_uri": "/k?email=someone%40example.com&ref=7", "status": "302",
        "http_referer": "", "http_user_agent": PERSON, "upstream_cache_status": cache, "request_id": id,
    });
    format!("{line}\n")
}

async fn post(node: &Node, path: &str, body: String) -> anyhow::Result<Value> {
    let url = format!("http://127.0.0.1:{}{path}", node.manage);
    let answer = reqwest::Client::new().post(url).bearer_auth(node.token()?).body(body).send().await?;
    let (status, text) = (answer.status(), answer.text().await?);
    anyhow::ensure!(status.is_success(), "{path}: {status} {text}");
    Ok(serde_json::from_str(&text)?)
}

/// Waits until `sql` finds as many rows.
async fn rows(node: &Node, sql: &str, count: usize) -> anyhow::Result<Vec<Value>> {
    let begin = Instant::now();
    loop {
        let found = node.json(&["sql", sql, "--format", "json"])?.as_array().cloned().unwrap_or_default();
        if found.len() == count {
            return Ok(found);
        }
        anyhow::ensure!(begin.elapsed() < PATIENCE, "{sql}: {found:?}, not {count}\n{}", node.log());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Every file below `folder`, but for those below `except`.
fn files(folder: &Path, except: &[&str]) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let entries = match std::fs::read_dir(folder) {
        // it has just gone
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(found),
        entries => entries?,
    };
    for entry in entries {
        let (path, name) = {
            let entry = entry?;
            (entry.path(), entry.file_name())
        };
        if path.is_dir() {
            if !except.iter().any(|except| name == *except) {
                found.extend(files(&path, except)?);
            }
        } else {
            found.push(path);
        }
    }
    Ok(found)
}

/// A file's bytes, without the zeros that hold space at its end; none of one that has just gone.
fn content(path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut bytes = match std::fs::read(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        read => read?,
    };
    bytes.truncate(bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1));
    Ok(bytes)
}

fn holds(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// How an address can be written: as text, and as the bytes that journals use.
fn spellings(address: &str) -> [Vec<u8>; 2] {
    let octets = as_v6_octets(address.parse::<IpAddr>().unwrap());
    [address.as_bytes().to_vec(), octets.to_vec()]
}

/// Whether an address is in a text or in bytes of a batch.
fn told(batch: &RecordBatch, address: &str) -> bool {
    let spelled = spellings(address);
    let is_told = |bytes: &[u8]| spelled.iter().any(|part| holds(bytes, part));
    batch.columns().iter().any(|column| match column.data_type() {
        DataType::Utf8 => column.as_string::<i32>().iter().flatten().any(|text| is_told(text.as_bytes())),
        DataType::Binary => column.as_binary::<i32>().iter().flatten().any(is_told),
        _ => false,
    })
}

/// The tables of a lake that hold an address.
async fn tables_with(lake: &Path, address: &str) -> anyhow::Result<Vec<Table>> {
    let lake = Lake::open(&lake.display().to_string(), LakeOptions::default())?;
    let mut with = Vec::new();
    for table in Table::ALL {
        let handle = lake.table(*table).await?;
        for file in handle.files() {
            if handle.read(file, &[]).await?.iter().any(|batch| told(batch, address)) && !with.contains(table) {
                with.push(*table);
            }
        }
    }
    Ok(with)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_table_but_rejects_holds_an_address_and_those_who_ask_are_not_known() -> anyhow::Result<()> {
    let settings = format!("{QUICK}[privacy]\nquery = [\"ref\"]\n");
    let mut node = Node::new(crate::binary(), "domains = [\"go.test\"]", &settings)?;
    node.start().await?;
    node.ok(&["link", "add", "https://example.com/", "--code", "k"])?;
    let at = UtcMicros::now();
    for (n, address) in ADDRESSES.iter().enumerate() {
        // two people and two who ask not to be known, whose lines are in the edge's log too
        click(&node, &format!("{n:032x}"), address, &[]).await?;
        click(&node, &format!("a{n:031x}"), address, &[("sec-gpc", "1")]).await?;
        click(&node, &format!("b{n:031x}"), address, &[("dnt", "1")]).await?;
        let event = json!({"code": "k", "time": at.0 / 1_000_000, "ip": address, "user_agent": PERSON, "request_id": format!("e{n}")});
        post(&node, "/v1/events?provider=other&as=import", format!("{event}\n")).await?;
    }
    let of_sources = "SELECT source, private, visitor, client_net, city, query FROM clicks ORDER BY source, private";
    rows(&node, of_sources, 8).await?;
    let mut log = String::new();
    for (n, address) in ADDRESSES.iter().enumerate() {
        for id in [format!("{n:032x}"), format!("a{n:031x}"), format!("b{n:031x}")] {
            log += &log_line(&id, address, "MISS", at);
        }
        log += &log_line(&format!("c{n:031x}"), address, "HIT", at);
        log += &format!(
            "{{\"msec\":\"never\",\"remote_addr\":\"{address}\",\"request_uri\":\"/k\",\"status\":\"302\"}}\n"
        );
    }
    post(&node, "/v1/edge-logs?format=nginx-json&name=edge.log", log).await?;
    let found = rows(&node, of_sources, 10).await?;
    node.wait_for("/v1/status", PATIENCE, |status| status["edge_logs"]["waiting"] == 0).await?;
    let private: Vec<&Value> = found.iter().filter(|row| row["private"] == true).collect();
    assert_eq!(private.len(), 4, "{found:#?}");
    // merged with their lines, which know more
    for row in rows(&node, "SELECT * FROM clicks WHERE private", 4).await? {
        assert_eq!(
            (&row["visitor"], &row["client_net"], &row["city"]),
            (&Value::Null, &Value::Null, &Value::Null),
            "{row}"
        );
        assert_eq!((&row["query"], &row["utm_source"]), (&json!("ref=7"), &json!("s")));
    }
    let others = rows(&node, "SELECT * FROM clicks WHERE private IS NULL", 6).await?;
    assert!(others.iter().all(|row| row["visitor"].is_i64() && row["client_net"].is_string()), "{others:#?}");
    let report = node.get("/v1/reports/clicks?code=k&class=all").await?;
    assert_eq!(report["totals"]["clicks"], 10, "{report}");
    node.ok(&["verify"])?;
    let journals: Vec<PathBuf> = std::fs::read_dir(node.data().join("journals"))?
        .map(|entry| Ok(entry?.path()))
        .collect::<anyhow::Result<_>>()?;
    node.stop().await?;
    // what a process has left in its journals, and the lake holds, goes when the next one starts
    node.start().await?;
    let begin = Instant::now();
    while journals.iter().any(|journal| journal.is_dir()) {
        anyhow::ensure!(begin.elapsed() < PATIENCE, "old journals stay: {journals:?}\n{}", node.log());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    let lake = node.data().join("lake");
    for address in ADDRESSES {
        assert_eq!(tables_with(&lake, address).await?, [Table::Rejects], "{address}");
        // uploads are staged for a while, and named in docs/privacy.md
        for path in files(node.folder(), &["_staging", "rejects"])? {
            let bytes = content(&path)?;
            for part in spellings(address) {
                assert!(!holds(&bytes, &part), "{address} is in {}", path.display());
            }
            assert!(!holds(&bytes, b"someone%40example.com"), "a parameter that isn't listed is in {}", path.display());
        }
    }
    node.stop().await
}

/// The one of some addresses that a visitor is of, by any of the keys.
fn found(wanted: i64, keys: impl IntoIterator<Item = VisitorKey>) -> Option<IpAddr> {
    let addresses: Vec<IpAddr> = (0..=3u8).map(|last| IpAddr::from([198, 51, 100, 211 + last])).collect();
    keys.into_iter().find_map(|key| addresses.iter().copied().find(|address| visitor(&key, *address, PERSON) == wanted))
}

/// Whatever sixteen bytes of a file could be a key.
fn keys_in(path: &Path) -> anyhow::Result<Vec<VisitorKey>> {
    Ok(content(path)?.windows(16).filter_map(|window| window.try_into().ok().map(VisitorKey)).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_past_days_visitors_can_not_be_computed_again() -> anyhow::Result<()> {
    let mut node = Node::new(crate::binary(), "domains = [\"go.test\"]", "")?;
    node.start().await?;
    node.ok(&["link", "add", "https://example.com/", "--code", "k"])?;
    click(&node, "x", ADDRESSES[0], &[]).await?;
    let row = rows(&node, "SELECT visitor, event_time FROM clicks", 1).await?.remove(0);
    node.stop().await?;
    let wanted = row["visitor"].as_i64().unwrap();
    let day = row["event_time"].as_str().unwrap().parse::<chrono::DateTime<chrono::Utc>>()?;
    let day = UtcMicros::from(day).day();
    let location = node.data().join("links.sqlite").display().to_string();
    let store = LinkStore::open(&location, Domains::new(&["go.test"])?).await?;
    let key = store.key_of(day).await?;
    let address: IpAddr = ADDRESSES[0].parse()?;
    assert_eq!(found(wanted, [key]), Some(address), "as long as there is the key");
    let stores = || {
        let all = files(&node.data(), &["lake", "journals"])?;
        anyhow::Ok(
            all.into_iter().filter(|path| path.display().to_string().contains("links.sqlite")).collect::<Vec<_>>(),
        )
    };
    let mut in_files = 0;
    for path in stores()? {
        in_files += usize::from(found(wanted, keys_in(&path)?).is_some());
    }
    assert!(in_files > 0, "it is found where it is kept");

    assert!(store.destroy_visitor_keys(day + 1).await? >= 1);
    for path in files(node.folder(), &[])? {
        assert!(!holds(&content(&path)?, &key.0), "the key is in {}", path.display());
    }
    for path in stores()? {
        assert_eq!(found(wanted, keys_in(&path)?), None, "{}", path.display());
    }
    assert_eq!(found(wanted, [store.key_of(day).await?]), None, "the day's new key is another");
    Ok(())
}
