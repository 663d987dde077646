use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ::tests::postgres::{PASSWORD, Postgres as Server};
use schemas::{LinkStatus, UtcMicros};
use tokio::net::{TcpListener, TcpStream};

use super::super::super::testing::Place;
use super::super::super::{Change, Domains, LinkStore, NewLink, Which};
use super::*;

const NOW: UtcMicros = UtcMicros(1_773_480_413_123_456);

fn link(code: &str) -> NewLink {
    NewLink { code: Some(code.into()), ..NewLink::to("https://example.com/1") }
}

fn disable() -> Change {
    Change::Disable { reason: "abuse".into() }
}

fn which(code: &str) -> Which {
    Which { workspace: None, domain: None, code: code.into() }
}

async fn open(location: &str) -> Result<LinkStore, LinkError> {
    LinkStore::open(location, Domains::new(&["sho.rt"]).unwrap()).await
}

#[test]
fn no_password_is_shown() {
    for (location, safe) in [
        ("d/links.db", "d/links.db"),
        ("postgres://u@h:1/d?sslmode=require", "postgres://u@h:1/d?sslmode=require"),
        ("postgres://u:secret@h/d", "postgres://u:***@h/d"),
        ("postgresql://u:se%2Fcret@h/d", "postgresql://u:***@h/d"),
        ("postgres://h/d?user=u&password=secret", "postgres://h/d?user=u&password=***"),
        ("postgres://u:secret@h:port/d", "postgres://…"),
    ] {
        assert_eq!(shown(location), safe);
    }
}

#[test]
fn a_location_that_cannot_be_one_is_refused_by_name() {
    for (location, why) in [
        ("postgres://u:secret@h:port/d", "invalid port"),
        ("postgres://u:secret@h/d?sslmod=require", "\"sslmod\""),
        ("postgres://u:secret@h/d?sslmode=never", "never"),
    ] {
        let error = parse(location).unwrap_err().to_string();
        assert!(error.contains(why) && !error.contains("secret"), "{error}");
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_server_is_said_without_its_password() {
    let Some(server) = Server::shared("what_is_wrong_with_a_server") else { return };
    let nobody = ::tests::free_port().unwrap();
    let address = server.fresh_at(nobody).unwrap();
    let error = open(&address).await.unwrap_err();
    assert!(matches!(error, LinkError::Away { .. }), "{error}");
    let error = open(&server.fresh_at(server.port()).unwrap().replace(PASSWORD, "wrong-one")).await.unwrap_err();
    assert!(matches!(error, LinkError::Location { .. }), "{error}");
    let told = error.to_string();
    assert!(told.contains("authentication failed") && !told.contains("wrong-one") && told.contains(":***@"), "{told}");
    let error = open(&server.fresh_at(server.port()).unwrap().replace("/postgres?", "/none?")).await.unwrap_err();
    assert!(error.to_string().contains("\"none\" does not exist"), "{error}");
    server.psql("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0").unwrap();
    let error = open(&server.fresh_at(server.port()).unwrap().replace("/postgres?", "/latin?")).await.unwrap_err();
    assert!(error.to_string().contains("expected UTF8"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_may_open_one_new_store_at_once() {
    let Some(place) = Place::server("many_may_open_one_new_store_at_once") else { return };
    let opening = (0..8).map(|_| {
        let location = place.location();
        tokio::spawn(async move { open(&location).await })
    });
    for opened in futures::future::join_all(opening).await {
        opened.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_store_of_a_newer_version_is_left_alone() {
    let Some(place) = Place::server("a_store_of_a_newer_version_is_left_alone") else { return };
    let store = place.store().await;
    let mut tx = store.pools.write().await.unwrap();
    let newer = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
                 VALUES (9999, 'newer', TRUE, '', 0)";
    tx.query(newer).run().await.unwrap();
    tx.commit().await.unwrap();
    let error = open(&place.location()).await.unwrap_err();
    assert!(matches!(error, LinkError::Schema { .. }), "{error}");
}

#[tokio::test]
async fn text_that_the_server_cannot_hold_is_nothing_it_knows() {
    let Some(place) = Place::server("text_that_the_server_cannot_hold") else { return };
    let store = place.store().await;
    store.create(link("a"), NOW).await.unwrap();
    assert_eq!(store.lookup("sho.rt", "a\0").await.unwrap(), None);
    assert!(matches!(store.get(&which("a\0")).await, Err(LinkError::NotFound { .. })));
    assert!(matches!(store.require_workspace("\0").await, Err(LinkError::UnknownWorkspace(_))));
}

#[tokio::test]
async fn stores_in_two_schemas_do_not_wait_for_each_other() {
    let Some(one) = Place::server("stores_in_two_schemas") else { return };
    let other = Place::server("stores_in_two_schemas").unwrap();
    let (first, second, again) = (one.store().await, other.store().await, one.store().await);
    let holding = first.pools.write().await.unwrap();
    second.create(link("a"), NOW).await.unwrap();
    assert!(again.pools.check_writable(Duration::from_millis(50)).await.is_err(), "this one waits");
    drop(holding);
    again.check_writable().await.unwrap();
}

#[tokio::test]
async fn a_writer_that_does_nothing_loses_its_turn_and_writes_nothing() {
    let Some(place) = Place::server("a_writer_that_does_nothing_loses_its_turn") else { return };
    let (paused, other) = (place.store().await, place.store().await);
    paused.create(link("a"), NOW).await.unwrap();
    let mut tx = paused.pools.write().await.unwrap();
    tx.query("SET LOCAL idle_in_transaction_session_timeout = 50").run().await.unwrap();
    tx.query("UPDATE links SET status = 'deleted'").run().await.unwrap();
    // it waits for its turn, which comes when the server ends the other's transaction
    other.change(&which("a"), &disable(), NOW).await.unwrap();
    let late = tx.commit().await.unwrap_err();
    assert_eq!(fault_of(&late), Fault::Away, "{late}");
    assert_eq!(paused.get(&which("a")).await.unwrap().status, LinkStatus::Disabled);
    paused.change(&which("a"), &Change::Enable, NOW).await.unwrap();
}

#[tokio::test]
async fn what_fails_is_told_apart() {
    let Some(place) = Place::server("what_fails_is_told_apart") else { return };
    let store = place.store().await;
    let raised = [
        ("DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = 'disk_full'; END $$", Fault::Disk),
        ("DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = 'admin_shutdown'; END $$", Fault::Away),
        ("DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = 'too_many_connections'; END $$", Fault::Away),
        ("DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = 'read_only_sql_transaction'; END $$", Fault::Away),
        ("DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = 'lock_not_available'; END $$", Fault::Other),
    ];
    for (statement, fault) in raised {
        let mut tx = store.pools.write().await.unwrap();
        let error = tx.query(statement).run().await.unwrap_err();
        assert_eq!(fault_of(&error), fault, "{error}");
    }
    let refused = store.pools.query("UPDATE links SET status = 'deleted'").run().await.unwrap_err();
    assert!(refused.to_string().contains("read-only transaction"), "a statement by itself only reads: {refused}");
}

#[tokio::test]
async fn a_destroyed_key_is_in_no_file_of_its_table() {
    let Some(server) = Server::shared("a_destroyed_key_is_in_no_file_of_its_table") else { return };
    let place = Place::Server(server.fresh().unwrap());
    let store = place.store().await;
    let key = ingest::ports::VisitorKeys::key_of(&store, 1).await.unwrap();
    // the file system's view is what a checkpoint has written
    let file_holds = || {
        server.psql("CHECKPOINT").unwrap();
        let schema = place.location().rsplit_once('=').unwrap().1.to_owned();
        let path = server.psql(&format!("SELECT pg_relation_filepath('{schema}.visitor_keys')")).unwrap();
        let folder = server.data().join(path).parent().unwrap().to_owned();
        std::fs::read_dir(folder).unwrap().any(|entry| {
            let bytes = std::fs::read(entry.unwrap().path()).unwrap_or_default();
            bytes.windows(16).any(|window| window == key.0)
        })
    };
    assert!(file_holds());
    store.destroy_visitor_keys(UtcMicros::now().day() + 1).await.unwrap();
    assert!(!file_holds());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_goes_away_is_missed_by_name_and_found_again() {
    let Some(server) = Server::own("a_server_that_goes_away").unwrap() else { return };
    let store = open(&server.fresh_at(server.port()).unwrap()).await.unwrap();
    store.create(link("a"), NOW).await.unwrap();
    for _ in 0..2 {
        server.stop().unwrap();
        let change = store.change(&which("a"), &disable(), NOW).await.unwrap_err();
        assert!(matches!(change, LinkError::Away { .. }), "{change}");
        assert!(change.to_string().contains("doesn't answer"), "{change}");
        assert!(matches!(store.lookup("sho.rt", "a").await, Err(LinkError::Away { .. })));
        assert!(matches!(store.check_writable().await, Err(LinkError::Away { .. })));
        assert!(matches!(store.check_readable().await, Err(LinkError::Away { .. })));
        server.resume().unwrap();
        // whatever it held of connections is dead; a call finds that out by itself
        assert_eq!(store.change(&which("a"), &disable(), NOW).await.unwrap().status, LinkStatus::Disabled);
        assert_eq!(store.lookup("sho.rt", "a").await.unwrap().unwrap().status, LinkStatus::Disabled);
        store.change(&which("a"), &Change::Enable, NOW).await.unwrap();
    }
}

#[tokio::test]
async fn a_writer_comes_to_rest_without_a_word_whatever_it_was_at() {
    let Some(server) = Server::own("a_writer_comes_to_rest").unwrap() else { return };
    let store = open(&server.fresh_at(server.port()).unwrap()).await.unwrap();
    store.create(link("a"), NOW).await.unwrap();
    drop(store.pools.write().await.unwrap());
    store.change(&which("a"), &disable(), NOW).await.unwrap();
    let log = server.log().unwrap();
    assert!(!log.contains("WARNING"), "{log}");
    let super::super::Pools::Postgres(pools) = &*store.pools else { unreachable!("it is a server's") };
    for broken_off in ["BEGIN; UPDATE links SET status = 'deleted'", "BEGIN; SELECT 1 / 0"] {
        let mut connection = pools.writes.acquire().await.unwrap();
        let _fails = connection.execute(broken_off).await;
        drop(connection);
        assert_eq!(store.get(&which("a")).await.unwrap().status, LinkStatus::Disabled);
        store.change(&which("a"), &Change::Enable, NOW).await.unwrap();
        store.change(&which("a"), &disable(), NOW).await.unwrap();
    }
}

/// A way to the server that can swallow all that goes through it.
async fn way_to(server: &Server) -> (SocketAddr, Arc<AtomicBool>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let (address, port, swallows) = (listener.local_addr().unwrap(), server.port(), Arc::new(AtomicBool::new(false)));
    let is_swallowing = Arc::clone(&swallows);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            tokio::spawn(pass(client, server, Arc::clone(&is_swallowing)));
        }
    });
    (address, swallows)
}

/// Passes bytes both ways; while it swallows, those that come are lost, and the connection with them.
async fn pass(client: TcpStream, server: TcpStream, swallows: Arc<AtomicBool>) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
        (client.into_split(), server.into_split());
    let (mut asked, mut answered) = ([0; 4096], [0; 4096]);
    let mut is_broken = false;
    loop {
        tokio::select! {
            read = from_client.read(&mut asked) => match read {
                Ok(n) if n > 0 => {
                    is_broken |= swallows.load(Ordering::Relaxed);
                    if !is_broken && to_server.write_all(&asked[..n]).await.is_err() { return }
                }
                _ => return,
            },
            read = from_server.read(&mut answered) => match read {
                Ok(n) if n > 0 => if !is_broken && to_client.write_all(&answered[..n]).await.is_err() { return },
                _ => return,
            },
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_into_nowhere_are_given_up_in_time() {
    let Some(server) = Server::shared("connections_into_nowhere") else { return };
    let (way, swallows) = way_to(server).await;
    let store = open(&server.fresh_at(way.port()).unwrap()).await.unwrap();
    store.create(link("a"), NOW).await.unwrap();
    let lookups = async |store: &LinkStore| {
        let lookups = (0..READERS + 2).map(|_| store.lookup("sho.rt", "a"));
        futures::future::join_all(lookups).await
    };
    assert!(lookups(&store).await.iter().all(Result::is_ok), "now all connections are there");
    swallows.store(true, Ordering::Relaxed);
    // callers that lose patience, as the redirect's cache does, must not leave a connection that holds its place
    for _ in 0..3 {
        assert!(tokio::time::timeout(Duration::from_millis(100), lookups(&store)).await.is_err());
    }
    let change = store.change(&which("a"), &disable(), NOW).await.unwrap_err();
    assert!(matches!(change, LinkError::Away { .. }), "{change}");
    swallows.store(false, Ordering::Relaxed);
    let begin = std::time::Instant::now();
    while store.lookup("sho.rt", "a").await.is_err() || store.change(&which("a"), &disable(), NOW).await.is_err() {
        assert!(begin.elapsed() < Duration::from_secs(60), "it doesn't find back");
    }
}
