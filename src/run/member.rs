//! The name by which this process shares a topic's partitions with others.
//!
//! ```text
//! start ─► last name of this folder ─► its partitions given back ─► a name of one's own ─► claims
//! ```
//! A name is one start's: no other process has or has had it, so that a lease under one's own name can be nobody else's. But a
//! process that was killed leaves leases behind, and everybody, the one that is started in its place too, would wait until
//! they end. So the name stands in the data folder, and the next start there gives back what was held under it: whoever has
//! the folder's lock knows that nobody else works there any more.
//!
//! A copied folder, as of a cloned machine, may hold the name of a process that lives. That one loses its partitions once, finds
//! so at its next claim, and gets its share again; what it was about to commit meanwhile the lake refuses. From then on
//! the two have names of their own.

use std::path::Path;

use anyhow::Context;
use redirect::links::LinkStore;
use schemas::JournalId;

use super::journals::node_name;

/// The file that holds the name.
const FILE: &str = "process.member";

/// A new name for the process that holds the lock of `folder`; what was held there before is given back.
///
/// # Errors
/// When the folder can't be written.
pub(super) async fn name(store: &LinkStore, folder: &Path) -> anyhow::Result<String> {
    let path = folder.join(FILE);
    if let Some(last) = read(&path) {
        match store.leave_partitions(&last).await {
            Ok(0) => {}
            Ok(partitions) => tracing::info!(partitions, last, "given back what the process before this one held here"),
            Err(error) => tracing::warn!(%error, last, "what the process before this one held is waited for"),
        }
    }
    let name = format!("{}/{}", node_name(), JournalId::new());
    // put in place whole: half a name would be nobody's
    let new = folder.join(format!("{FILE}.tmp"));
    let written = std::fs::write(&new, format!("{name}\n")).and_then(|()| std::fs::rename(&new, &path));
    written.with_context(|| format!("can't write {}", path.display()))?;
    Ok(name)
}

/// The name that a file holds, if it holds one.
fn read(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let (_, start) = text.trim().rsplit_once('/')?;
    start.parse::<JournalId>().ok()?;
    Some(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use redirect::links::{Claim, Claimed, Domains};
    use std::collections::BTreeSet;
    use std::time::Duration;

    const STREAM: &str = "clicks@1";

    async fn claim(store: &LinkStore, member: &str, gives_back: &[u32]) -> Claimed {
        let lasts = Duration::from_secs(3_600);
        store.claim_partitions(&Claim { stream: STREAM, partitions: 4, member, lasts, gives_back }).await.unwrap()
    }

    struct World {
        store: LinkStore,
        folder: tempfile::TempDir,
    }

    impl World {
        async fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("links");
            let store = LinkStore::open(path.to_str().unwrap(), Domains::new(&["a.test"]).unwrap()).await.unwrap();
            Self { store, folder }
        }

        async fn start(&self) -> String {
            name(&self.store, self.folder.path()).await.unwrap()
        }
    }

    #[tokio::test]
    async fn who_comes_back_waits_for_nobody() {
        let world = World::new().await;
        let killed = world.start().await;
        assert_eq!(claim(&world.store, &killed, &[]).await.held.len(), 4);
        let back = world.start().await;
        assert_ne!(killed, back);
        let claimed = claim(&world.store, &back, &[]).await;
        assert_eq!((claimed.held.len(), claimed.members), (4, 1));
    }

    #[tokio::test]
    async fn a_copied_folder_takes_once_and_then_shares() {
        let (world, copy) = (World::new().await, tempfile::tempdir().unwrap());
        let original = world.start().await;
        claim(&world.store, &original, &[]).await;
        std::fs::copy(world.folder.path().join(FILE), copy.path().join(FILE)).unwrap();
        let copied = name(&world.store, copy.path()).await.unwrap();
        assert_ne!(original, copied);
        assert_eq!(claim(&world.store, &copied, &[]).await.held.len(), 4);
        // the original is alive: it finds that nothing is its own, and gets its share
        assert_eq!(claim(&world.store, &original, &[]).await.held.len(), 0);
        let surplus: Vec<u32> = claim(&world.store, &copied, &[]).await.surplus.into_iter().collect();
        let mut held =
            [claim(&world.store, &copied, &surplus).await.held, claim(&world.store, &original, &[]).await.held];
        for _ in 0..3 {
            assert_eq!((held[0].len(), held[1].len()), (2, 2));
            let again = [claim(&world.store, &copied, &[]).await.held, claim(&world.store, &original, &[]).await.held];
            assert_eq!(again, held, "peace");
            held = again;
        }
    }

    #[tokio::test]
    async fn what_is_no_name_is_nobodys() {
        let world = World::new().await;
        let held: BTreeSet<u32> = claim(&world.store, "someone", &[]).await.held;
        for text in ["", "someone", "a/b", "host/"] {
            std::fs::write(world.folder.path().join(FILE), text).unwrap();
            world.start().await;
        }
        assert_eq!(claim(&world.store, "someone", &[]).await.held, held);
    }
}
