//! A start that waits for somebody who never answers ends at the first signal, and nothing is lost by it.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tests::load::Connection;
use tests::node::Node;
use tokio::net::{TcpListener, TcpStream};

use crate::roles::{click, rows};

/// Longer than a start takes to ask, in a debug build on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
const LAKE: &str = "HIGHWATER_LAKE";

/// Takes connections, and says nothing.
struct Silent(TcpListener);

impl Silent {
    async fn new() -> Result<Self> {
        Ok(Self(TcpListener::bind("127.0.0.1:0").await?))
    }

    /// A node whose link store is there.
    fn database_of(&self, node: Node) -> Result<Node> {
        let address = self.0.local_addr()?;
        Ok(node.with_environment(vec![("HIGHWATER_LINKS__URL", format!("postgres://a:b@{address}/links"))]))
    }

    /// A node whose lake is there.
    fn lake_of(&self, node: Node) -> Result<Node> {
        Ok(node.with_environment(vec![
            (LAKE, "s3://data/lake".to_owned()),
            ("AWS_ENDPOINT", format!("http://{}", self.0.local_addr()?)),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ACCESS_KEY_ID", "a".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "b".to_owned()),
        ]))
    }

    /// Waits until somebody asks, who will wait for as long as what this returns is kept.
    async fn asked(&self, node: &Node) -> Result<TcpStream> {
        let asked = tokio::time::timeout(PATIENCE, self.0.accept()).await;
        Ok(asked.with_context(|| format!("nobody asks:\n{}", node.log()))??.0)
    }
}

fn node() -> Result<Node> {
    Node::new(crate::binary(), "domains = [\"go.test\"]\nworkers = 1", "")
}

/// Stops what is waiting for an answer: it ends well, and says what it was.
async fn stop(node: &mut Node) -> Result<()> {
    node.stop().await?;
    ensure!(node.log().contains("stopped before it had started"), "{}", node.log());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_role_heeds_a_signal_while_its_database_does_not_answer() -> Result<()> {
    for role in ["redirect", "manage", "process", "query"] {
        let silent = Silent::new().await?;
        let mut node = silent.database_of(node()?)?;
        node.spawn(&[role])?;
        let _waiting = silent.asked(&node).await?;
        stop(&mut node).await.context(role)?;
    }
    Ok(())
}

/// Redirects go on without a lake, a stop ends them, and the next start brings in what they have answered.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_answered_while_the_lake_did_not_is_counted_once_after_a_stop() -> Result<()> {
    let silent = Silent::new().await?;
    let mut node = silent.lake_of(node()?)?;
    node.ok(&["link", "add", "https://example.com/", "--code", "live"])?;
    node.spawn(&["up"])?;
    let _waiting = silent.asked(&node).await?;
    let mut connection = Connection::open(node.redirect).await?;
    for _ in 0..20 {
        ensure!(connection.send(&click("live")).await?.status == 302, "no redirect:\n{}", node.log());
    }
    stop(&mut node).await?;

    let lake = node.data().join("lake").display().to_string();
    let mut node = node.with_environment(vec![(LAKE, lake)]);
    node.start().await?;
    node.stop().await?;
    let verified = node.ok(&["verify"])?;
    ensure!(verified.ends_with("all is well\n"), "{verified}\n{}", node.log());
    ensure!(rows(&node, "live").await? == 20, "{}", node.log());
    Ok(())
}
