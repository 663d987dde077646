//! `kill -9` at random moments: every answered click is in the lake, exactly once.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rand::{Rng, SeedableRng};
use schemas::ClickId;
use tests::load::{Connection, Request};
use tests::node::Node;

const KILLS: usize = 20;
const SENDERS: u64 = 4;

/// What one sender knows: ids that were answered, and ids whose answer never came.
#[derive(Default)]
struct Ledger {
    answered: BTreeSet<String>,
    unsure: BTreeSet<String>,
}

/// Sends requests with ids of its own until told to stop, through kills and restarts.
async fn send(port: u16, sender: u64, stop: Arc<AtomicBool>, sent: Arc<AtomicU64>) -> Ledger {
    let mut ledger = Ledger::default();
    let mut connection = None;
    let mut n = 0u64;
    while !stop.load(Ordering::Relaxed) {
        let Some(open) = connection.as_mut() else {
            connection = Connection::open(port).await.ok();
            tokio::time::sleep(Duration::from_millis(5)).await;
            continue;
        };
        n += 1;
        let key = format!("{sender:08x}{n:024x}");
        let code = format!("c{}", n % 5);
        let request = Request {
            method: "GET",
            target: format!("/{code}"),
            host: "go.test".into(),
            user_agent: "Mozilla/5.0 (X11; Linux x86_64; rv:126.0) Gecko/20100101 Firefox/126.0".into(),
            headers: vec![("X-Request-Id", key.clone())],
        };
        let id = ClickId::from_edge("nginx", key.as_bytes(), &code).to_string();
        match open.send(&request).await {
            Ok(answer) if answer.status == 302 => {
                ledger.answered.insert(id);
                sent.fetch_add(1, Ordering::Relaxed);
            }
            Ok(answer) => panic!("{answer:?}"),
            Err(_) => {
                ledger.unsure.insert(id);
                connection = None;
            }
        }
        // bounded: four senders at about 1,000 a second in all
        tokio::time::sleep(Duration::from_millis(4)).await;
    }
    ledger
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_answered_survives_twenty_kills_exactly_once() -> anyhow::Result<()> {
    let redirect = "domains = [\"go.test\"]\nworkers = 2";
    let settings =
        "[edge]\nprovider = \"nginx\"\nskew = \"1s\"\nrepeat = \"1s\"\nrecover_after = \"2s\"\nmax_skew = \"5m\"";
    let mut node = Node::new(crate::binary(), redirect, settings)?;
    node.start().await?;
    for n in 0..5 {
        node.ok(&["link", "add", "https://example.com/", "--code", &format!("c{n}")])?;
    }
    let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let senders: Vec<_> = (0..SENDERS)
        .map(|sender| tokio::spawn(send(node.redirect, sender, Arc::clone(&stop), Arc::clone(&sent))))
        .collect();
    let mut chance = rand::rngs::StdRng::seed_from_u64(7);
    for _ in 0..KILLS {
        tokio::time::sleep(Duration::from_millis(chance.random_range(50..1_500))).await;
        node.kill()?;
        node.start().await?;
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    stop.store(true, Ordering::Relaxed);
    let mut ledger = Ledger::default();
    for sender in senders {
        let part = sender.await?;
        ledger.answered.extend(part.answered);
        ledger.unsure.extend(part.unsure);
    }
    assert!(ledger.answered.len() > 1_000, "only {} answered", ledger.answered.len());

    // a drain brings what is left into the lake
    node.stop().await?;
    let rows = node.json(&["sql", "SELECT click_id FROM clicks", "--format", "json"])?;
    let mut times: HashMap<String, u32> = HashMap::new();
    for row in rows.as_array().cloned().unwrap_or_default() {
        *times.entry(row["click_id"].as_str().unwrap_or_default().to_owned()).or_default() += 1;
    }
    let lost: Vec<_> = ledger.answered.iter().filter(|id| !times.contains_key(*id)).collect();
    let twice: Vec<_> = times.iter().filter(|(_, n)| **n > 1).collect();
    let strange = times.keys().filter(|id| !ledger.answered.contains(*id) && !ledger.unsure.contains(*id)).count();
    assert!(
        lost.is_empty() && twice.is_empty() && strange == 0,
        "{} answered; {} lost, {} twice, {strange} never sent\n{}",
        ledger.answered.len(),
        lost.len(),
        twice.len(),
        node.log()
    );
    node.ok(&["verify"])?;
    Ok(())
}
