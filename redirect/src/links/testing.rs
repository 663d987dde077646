//! Stores for tests, of each database.

use super::*;

/// Where a store is.
#[derive(Debug)]
pub(crate) enum Place {
    /// In a folder of its own.
    Folder(tempfile::TempDir),
    /// In a schema of its own, on the server that the tests share.
    Server(String),
}

impl Place {
    /// A folder with nothing in it.
    pub(crate) fn folder() -> Self {
        Self::Folder(tempfile::tempdir().unwrap())
    }

    /// A schema with nothing in it; `None` where there is no server, and then the test is skipped.
    pub(crate) fn server(test: &str) -> Option<Self> {
        ::tests::postgres::Postgres::shared(test).map(|server| Self::Server(server.fresh().unwrap()))
    }

    pub(crate) fn location(&self) -> String {
        match self {
            Self::Folder(folder) => folder.path().join("links.db").to_str().unwrap().to_owned(),
            Self::Server(address) => address.clone(),
        }
    }

    /// A handle on the store there; each is as that of another process.
    pub(crate) async fn store(&self) -> LinkStore {
        self.store_with(&["sho.rt", "second.example"]).await
    }

    /// The same, with other domains served.
    pub(crate) async fn store_with(&self, domains: &[&str]) -> LinkStore {
        LinkStore::open(&self.location(), Domains::new(domains).unwrap()).await.unwrap()
    }
}

/// Makes of each function that takes a [`Place`] two tests: one on SQLite, one on PostgreSQL.
macro_rules! on_each_database {
    ($($test:ident),+ $(,)?) => { $(
        mod $test {
            use $crate::links::testing::Place;

            #[tokio::test(flavor = "multi_thread")]
            async fn sqlite() {
                super::$test(Place::folder()).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn postgres() {
                if let Some(place) = Place::server(concat!(module_path!(), "::postgres")) {
                    super::$test(place).await;
                }
            }
        }
    )+ };
}
pub(crate) use on_each_database;

/// A store in a folder of its own.
pub(crate) async fn store() -> (tempfile::TempDir, LinkStore) {
    let place = Place::folder();
    let store = place.store().await;
    match place {
        Place::Folder(folder) => (folder, store),
        Place::Server(_) => unreachable!("it is a folder"),
    }
}

/// Takes away the table of links, so that whatever needs it fails.
pub(crate) async fn break_links(store: &LinkStore) {
    let mut tx = store.pools.write().await.unwrap();
    tx.query("ALTER TABLE links RENAME TO elsewhere").run().await.unwrap();
    tx.commit().await.unwrap();
}
