use ingest::ports::{Landed, Registry};
use schemas::{JournalId, LinkStatus, UtcMicros};

use super::super::super::testing::{Place, store};
use super::super::super::{Change, LinkStore, NewLink, Which};
use super::*;

const NOW: UtcMicros = UtcMicros(1_773_480_413_123_456);

#[test]
fn a_location_is_a_path() {
    for location in ["d/links.db", "sqlite:d/links.db", "sqlite://d/links.db"] {
        assert_eq!(path_of(location).unwrap(), Path::new("d/links.db"));
    }
    for location in ["", "sqlite:", ":memory:", "mysql://localhost/links"] {
        assert!(matches!(path_of(location), Err(LinkError::Location { .. })), "{location:?}");
    }
}

#[tokio::test]
async fn a_place_that_cannot_be_written_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let location = dir.path().join("missing/links.db");
    let error = Pools::open(location.to_str().unwrap()).await.unwrap_err();
    assert!(error.to_string().contains("missing/links.db"), "{error}");
}

#[tokio::test]
async fn a_file_of_something_else_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("links.db");
    std::fs::write(&path, "no database, just a line of text that is long enough to be one\n".repeat(99)).unwrap();
    let error = Pools::open(path.to_str().unwrap()).await.unwrap_err();
    assert!(matches!(error, LinkError::Location { .. }), "{error}");
    assert!(error.to_string().contains("not a database"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_may_open_one_new_file_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let location = dir.path().join("links.db").to_str().unwrap().to_owned();
    let opening = (0..16).map(|_| {
        let location = location.clone();
        tokio::spawn(async move { Pools::open(&location).await })
    });
    for opened in futures::future::join_all(opening).await {
        opened.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_store_of_a_newer_version_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let location = dir.path().join("links.db").to_str().unwrap().to_owned();
    let pools = Pools::open(&location).await.unwrap();
    let newer = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
                 VALUES (9999, 'newer', TRUE, x'00', 0)";
    sqlx::query(newer).execute(&pools.writes).await.unwrap();
    let error = Pools::open(&location).await.unwrap_err();
    assert!(matches!(error, LinkError::Schema { .. }), "{error}");
}

#[cfg(unix)]
#[tokio::test]
async fn only_the_owner_can_read_the_files() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let pools = Pools::open(dir.path().join("links.db").to_str().unwrap()).await.unwrap();
    let mut tx = pools.write().await.unwrap();
    sqlx::query("INSERT INTO workspaces (name, created_at) VALUES ('w', 0)").execute(&mut *tx).await.unwrap();
    tx.commit().await.unwrap();
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{:?} has mode {mode:o}", entry.path());
    }
}

/// Lets the write connection have this many more pages than there are.
async fn room(store: &LinkStore, pages: u32) {
    let super::super::Pools::Sqlite(Pools { writes, .. }) = &*store.pools else { panic!("it is a file") };
    let now: u32 = sqlx::query_scalar("PRAGMA page_count").fetch_one(writes).await.unwrap();
    let limit = sqlx::AssertSqlSafe(format!("PRAGMA max_page_count = {}", now + pages));
    sqlx::query(limit).execute(writes).await.unwrap();
}

/// A file system of 16 MiB at a folder of its own, or `None`, and why not is printed.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mut mount = std::process::Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=16m", "tmpfs"]).arg(folder.path());
        match mount.output() {
            Ok(done) if done.status.success() => Some(Self(folder)),
            failed => {
                eprintln!("skipped: a small file system can't be mounted here (root can): {failed:?}");
                None
            }
        }
    }

    async fn store(&self) -> Result<LinkStore, LinkError> {
        let path = self.0.path().join("links.sqlite");
        LinkStore::open(path.to_str().unwrap(), crate::links::Domains::new(&["sho.rt"]).unwrap()).await
    }

    /// Takes every byte that is left.
    fn fill(&self) {
        use std::io::Write as _;
        let mut file = OpenOptions::new().create(true).append(true).open(self.0.path().join("filler")).unwrap();
        for size in [64 << 10, 4 << 10, 1] {
            while file.write_all(&vec![1; size]).is_ok() {}
        }
    }

    fn free(&self) {
        std::fs::remove_file(self.0.path().join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _unmounted = std::process::Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[tokio::test]
async fn on_a_full_disk_links_are_taken_down_and_nothing_else_is_changed() {
    let Some(disk) = SmallDisk::mount() else { return };
    let store = disk.store().await.unwrap();
    let link = |code: &str| NewLink { code: Some(code.into()), ..NewLink::to("https://example.com/1") };
    let which = |code: &str| Which { workspace: None, domain: None, code: code.into() };
    for n in 0..40 {
        store.create(link(&format!("c{n}")), NOW).await.unwrap();
    }
    store.check_writable().await.unwrap();
    // a smaller log grows with the first changes, as on a store that was just opened
    store.pools.forget().await.unwrap();
    disk.fill();
    let refused = store.create(link("one-more"), NOW).await.unwrap_err();
    assert!(refused.is_disk_full() && refused.to_string().contains("disk of the link store is full"), "{refused}");
    assert!(store.check_writable().await.unwrap_err().is_disk_full());
    for n in 0..40 {
        let disable = Change::Disable { reason: "abuse".into() };
        let taken_down = store.change(&which(&format!("c{n}")), &disable, NOW).await;
        assert_eq!(taken_down.unwrap().status, LinkStatus::Disabled, "{n}");
        disk.fill();
    }
    // from the shell too, which opens the store anew
    drop(store);
    let store = disk.store().await.unwrap();
    assert_eq!(store.change(&which("c0"), &Change::Delete, NOW).await.unwrap().status, LinkStatus::Deleted);
    assert!(store.check_writable().await.unwrap_err().is_disk_full(), "some of what is held for takedowns is missing");
    disk.free();
    drop(store);
    let store = disk.store().await.unwrap();
    store.check_writable().await.unwrap();
    store.create(link("one-more"), NOW).await.unwrap();
}

#[tokio::test]
async fn writing_goes_on_once_a_full_disk_has_room_again() {
    let (_dir, store) = store().await;
    let link = |code: String| NewLink { code: Some(code), ..NewLink::to("https://example.com/1") };
    store.create(link("a".into()), NOW).await.unwrap();
    let which = Which { workspace: None, domain: None, code: "a".into() };
    let journal = JournalId::new();
    store.register(journal, "n", NOW).await.unwrap();
    for round in 0..3 {
        room(&store, 0).await;
        let mut full = None;
        for n in 0..500 {
            full = store.create(link(format!("{round}-{n}")), NOW).await.err();
            if full.is_some() {
                break;
            }
        }
        assert!(full.as_ref().is_some_and(LinkError::is_disk_full), "{full:?}");
        room(&store, 1_000).await;
        store.check_writable().await.unwrap();
        let disable = Change::Disable { reason: format!("r{round}") };
        assert_eq!(store.change(&which, &disable, NOW).await.unwrap().status, LinkStatus::Disabled);
        let through = UtcMicros(NOW.0 + round);
        let landed = Landed { id: journal, through, committed: 1 };
        assert_eq!(store.publish(&[landed], NOW).await.unwrap(), through);
    }
}

#[tokio::test]
async fn a_store_that_another_holds_locked_is_not_writable() {
    let place = Place::folder();
    let (store, other) = (place.store().await, place.store().await);
    store.check_writable().await.unwrap();
    let holding = other.pools.write().await.unwrap();
    assert!(store.pools.check_writable(Duration::from_millis(20)).await.is_err());
    drop(holding);
    store.check_writable().await.unwrap();
}
