//! Storage that isn't this machine's: buckets of S3, Google and Azure, as the environment configures them.
//!
//! Two processes that commit one version must not both succeed, and it is the storage that sees to it: a log entry is put
//! only if there is none. Not all that speaks S3 keeps that promise, and one that doesn't would lose commits without a
//! word. So it is tried before the first entry is written.

use std::sync::{Arc, Once};
use std::time::Duration;

use bytes::Bytes;
use deltalake::logstore::{
    LogStore, LogStoreFactory, ObjectStoreFactory, ObjectStoreRef, StorageConfig, default_logstore, logstore_factories,
    object_store_factories,
};
use deltalake::{DeltaResult, DeltaTableError};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::path::Path;
use object_store::{
    ClientConfigKey, Error, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, PutPayload, RetryConfig,
    UpdateVersion,
};
use url::Url;
use uuid::Uuid;

/// The schemes that are understood.
const SCHEMES: [&str; 3] = ["s3", "gs", "az"];

/// How often and how long the store's own client tries one request: less than a lake's deadline, so that the store's own
/// words are heard.
const TRIES: usize = 5;
const TRIED_FOR: Duration = Duration::from_secs(20);
const ANSWER_WITHIN: &str = "25s";

/// The storage of the bucket that `root` names (`s3://bucket/`, `gs://…`, `az://…`). Credentials, regions and endpoints
/// come from the environment variables that each store's own tools read. `answer_within`: for one whole answer.
///
/// # Errors
/// When the environment doesn't suit the storage.
pub fn remote_store(root: &str, answer_within: &str, retry: RetryConfig) -> Result<Arc<dyn ObjectStore>, Error> {
    let timeout = ClientConfigKey::Timeout;
    Ok(match root.split_once("://").map(|(scheme, _)| scheme) {
        Some("gs") => Arc::new(
            GoogleCloudStorageBuilder::from_env()
                .with_url(root)
                .with_config(GoogleConfigKey::Client(timeout), answer_within)
                .with_retry(retry)
                .build()?,
        ),
        Some("az") => Arc::new(
            MicrosoftAzureBuilder::from_env()
                .with_url(root)
                .with_config(AzureConfigKey::Client(timeout), answer_within)
                .with_retry(retry)
                .build()?,
        ),
        _ => Arc::new(
            AmazonS3Builder::from_env()
                .with_url(root)
                .with_config(AmazonS3ConfigKey::Client(timeout), answer_within)
                .with_retry(retry)
                .build()?,
        ),
    })
}

/// Makes the schemes known to the library that keeps the logs, for all of this process: for those, too, who read tables
/// by their addresses.
pub(super) fn register() {
    static DONE: Once = Once::new();
    DONE.call_once(|| {
        for scheme in SCHEMES {
            let Ok(scheme) = Url::parse(&format!("{scheme}://")) else { continue };
            object_store_factories().insert(scheme.clone(), Arc::new(Remote));
            logstore_factories().insert(scheme, Arc::new(Remote));
        }
    });
}

/// Makes what is needed of an address.
#[derive(Debug)]
struct Remote;

impl ObjectStoreFactory for Remote {
    fn parse_url_opts(&self, url: &Url, _: &StorageConfig) -> DeltaResult<(ObjectStoreRef, Path)> {
        let wrong = |error: Error| DeltaTableError::ObjectStore { source: error };
        let retry = RetryConfig { max_retries: TRIES, retry_timeout: TRIED_FOR, ..RetryConfig::default() };
        let store = remote_store(url.as_str(), ANSWER_WITHIN, retry).map_err(wrong)?;
        let path = Path::from_url_path(url.path()).map_err(|error| wrong(error.into()))?;
        Ok((store, path))
    }
}

impl LogStoreFactory for Remote {
    fn with_options(
        &self,
        prefixed: ObjectStoreRef,
        root: ObjectStoreRef,
        location: &Url,
        options: &StorageConfig,
    ) -> DeltaResult<Arc<dyn LogStore>> {
        Ok(default_logstore(prefixed, root, location, options))
    }
}

/// Why a storage can't hold a lake.
#[derive(Debug)]
pub(super) enum Unfit {
    /// It doesn't keep the promise.
    Careless(&'static str),
    /// It didn't let us find out.
    Failed(Error),
}

/// Finds out whether `store` puts only what may be put: an object where there is none, and another in place of the one
/// that is named. Leaves nothing behind in `folder`.
pub(super) async fn prove(store: &dyn ObjectStore, folder: &Path) -> Result<(), Unfit> {
    let probe = folder.clone().join("_probe").join(Uuid::new_v4().to_string());
    let proof = try_it(store, &probe).await;
    if let Err(error) = store.delete(&probe).await {
        tracing::warn!(%error, %probe, "what the lake's storage was tried with could not be removed");
    }
    proof
}

async fn try_it(store: &dyn ObjectStore, probe: &Path) -> Result<(), Unfit> {
    let put = async |bytes: &'static [u8], mode: PutMode| {
        store.put_opts(probe, PutPayload::from_bytes(Bytes::from_static(bytes)), PutOptions::from(mode)).await
    };
    let first = put(b"first", PutMode::Create).await.map_err(Unfit::Failed)?;
    match put(b"second", PutMode::Create).await {
        Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => {}
        Err(other) => return Err(Unfit::Failed(other)),
        Ok(_) => return Err(Unfit::Careless("it replaced an object by a put that was to create one")),
    }
    let first = UpdateVersion { e_tag: first.e_tag, version: first.version };
    put(b"third", PutMode::Update(first.clone())).await.map_err(Unfit::Failed)?;
    match put(b"fourth", PutMode::Update(first)).await {
        Err(Error::Precondition { .. } | Error::AlreadyExists { .. }) => Ok(()),
        Err(other) => Err(Unfit::Failed(other)),
        Ok(_) => Err(Unfit::Careless("it replaced an object by a put that was to replace another version of it")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lake::testing::{Fault, FaultStore};
    use crate::lake::{Lake, LakeError, LakeOptions};
    use futures::TryStreamExt as _;
    use object_store::memory::InMemory;
    use schemas::tables::Table;

    fn lake(store: Arc<dyn ObjectStore>) -> Lake {
        let root = Url::parse("memory:///lake").unwrap();
        Lake::with_store(store, root, LakeOptions::default()).unwrap().unproven()
    }

    #[tokio::test]
    async fn a_storage_that_keeps_its_promise_is_tried_once_and_left_clean() {
        let store = Arc::new(InMemory::new());
        let lake = lake(Arc::clone(&store) as _);
        lake.prove().await.unwrap();
        assert_eq!(store.list(None).try_collect::<Vec<_>>().await.unwrap(), []);
        lake.table(Table::Clicks).await.unwrap();
    }

    #[tokio::test]
    async fn a_careless_one_is_refused_before_anything_is_written() {
        for (nth, why) in [(2, "to create one"), (4, "another version")] {
            let store = FaultStore::new(Arc::new(InMemory::new()));
            store.arm("_probe", nth, Fault::Careless);
            let lake = lake(Arc::new(store.clone()));
            let refused = lake.table(Table::Clicks).await.unwrap_err();
            assert!(matches!(refused, LakeError::Careless { .. }), "{refused}");
            assert!(refused.to_string().contains(why), "{refused}");
            assert_eq!(store.list(None).try_collect::<Vec<_>>().await.unwrap(), []);
        }
    }

    #[tokio::test]
    async fn one_that_is_down_is_tried_again() {
        let store = FaultStore::new(Arc::new(InMemory::new()));
        let lake = lake(Arc::new(store.clone()));
        store.set_down(true);
        assert!(matches!(lake.prove().await, Err(LakeError::Unproven { .. })));
        store.set_down(false);
        lake.table(Table::Clicks).await.unwrap();
    }

    #[test]
    fn an_address_of_a_bucket_can_be_opened() {
        let lake = Lake::open("s3://bucket/a/prefix", LakeOptions::default()).unwrap();
        assert_eq!(lake.root().as_str(), "s3://bucket/a/prefix/");
        assert_eq!(lake.path().as_ref(), "a/prefix");
        lake.log_store(Table::Clicks).unwrap();
        let refused = Lake::open("hdfs://bucket/a", LakeOptions::default()).unwrap_err().to_string();
        assert!(refused.contains("hdfs://") && refused.contains("s3"), "{refused}");
    }
}
