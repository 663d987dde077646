//! A data folder that is copied while its clicks are in no topic yet, and both go on.

use std::path::Path;

use anyhow::Result;
use tests::clicks::Ledger;
use tests::node::Node;

use super::{broker, check, load, node, settings};

/// Copies a folder as `cp -r` does.
fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy(&entry.path(), &to)?,
            false => drop(std::fs::copy(entry.path(), to)?),
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copied_folder_costs_neither_itself_nor_the_original_a_click() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut broker = broker(folder.path())?;
    let settings = settings(&broker.address(), 2);
    let mut original = node(&settings)?;
    original.start().await?;
    let mut all = Ledger::default();
    let clicks = load(&original);
    clicks.more(100).await?;
    broker.kill()?;
    clicks.more(200).await?;

    let links = format!("{settings}\n[links]\nurl = \"{}\"", original.data().join("links.sqlite").display());
    let mut copied = Node::new(crate::binary(), "domains = [\"go.test\"]\nworkers = 2", &links)?;
    copy(&original.data().join("journals"), &copied.data().join("journals"))?;
    copied.start_with(&["redirect"]).await?;
    let beside = load(&copied);
    beside.more(200).await?;
    all.add(beside.end().await?);
    copied.kill()?;
    clicks.more(200).await?;
    broker.start()?;
    all.add(clicks.end().await?);
    let log = copied.log();
    assert!(log.contains("the folder is a copy"), "{log}");
    // what the copy has taken waits in its folder for the next start
    copied.start_with(&["redirect"]).await?;
    check(&original, &all).await?;
    copied.stop().await?;
    original.stop().await?;
    original.ok(&["verify"])?;
    check(&original, &all).await
}
