//! `kill -9` of redirect, broker and two processors at random, each a process of its own.

use anyhow::Result;
use tests::kills::Cast;

use super::{PATIENCE, broker, settings};

#[tokio::test(flavor = "multi_thread")]
async fn kills_of_each_part_lose_and_double_nothing() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let broker = broker(folder.path())?;
    let settings = settings(&broker.address(), 3);
    let cast = Cast::start(crate::binary(), Some(broker), &settings, None).await?;
    let deaths = cast.die(12, 11, 800, PATIENCE).await?;
    assert!(deaths.answered > 1_000, "{deaths:?}");
    Ok(())
}
