//! `kill -9` of redirect, process and broker at random, each a process of its own.

use std::time::Duration;

use anyhow::Result;
use rand::{Rng, SeedableRng};
use tests::node::Node;

use super::{Load, broker, check, node, settings};

const KILLS: usize = 9;

/// A node that only brings clicks into the lake of another.
fn processor(of: &Node, settings: &str) -> Result<Node> {
    let data = of.data();
    let links = format!("{settings}\n[links]\nurl = \"{}\"", data.join("links.sqlite").display());
    let node = Node::new(crate::binary(), "domains = [\"go.test\"]", &links)?;
    Ok(node.with_environment(vec![("HIGHWATER_LAKE", data.join("lake").display().to_string())]))
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_of_each_part_lose_and_double_nothing() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut broker = broker(folder.path())?;
    let settings = settings(&broker.address(), 3);
    let mut redirect = node(&settings)?;
    let mut process = processor(&redirect, &settings)?;
    redirect.start_with(&["redirect"]).await?;
    process.start_with(&["process"]).await?;
    let load = Load::start(redirect.redirect);
    let mut chance = rand::rngs::StdRng::seed_from_u64(11);
    for kill in 0..KILLS {
        tokio::time::sleep(Duration::from_millis(chance.random_range(50..1_500))).await;
        match kill % 3 {
            0 => {
                redirect.kill()?;
                redirect.start_with(&["redirect"]).await?;
            }
            1 => {
                process.kill()?;
                process.start_with(&["process"]).await?;
            }
            _ => {
                broker.kill()?;
                broker.start()?;
            }
        }
    }
    load.more(100).await?;
    let ledger = load.end().await?;
    check(&redirect, &ledger).await?;
    // what a clean stop of the redirect leaves is in the topic: the processor closes its journals
    redirect.stop().await?;
    check(&redirect, &ledger).await?;
    process.stop().await?;
    redirect.ok(&["verify"])?;
    Ok(())
}
