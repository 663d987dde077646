//! A real S3 server on loopback, over a folder of its own.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use s3s_fs::FileSystem;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// The key that the server knows.
pub const ACCESS_KEY: &str = "highwater-test";
/// Its secret.
pub const SECRET_KEY: &str = "not-a-secret";

/// A running server; it ends with its owner.
#[derive(Debug)]
pub struct S3 {
    folder: TempDir,
    address: SocketAddr,
    _serving: JoinSet<()>,
}

impl S3 {
    /// Starts a server with these buckets.
    ///
    /// # Errors
    /// When it can't listen.
    pub async fn start(buckets: &[&str]) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("highwater-s3-").tempdir()?;
        for bucket in buckets {
            std::fs::create_dir(folder.path().join(bucket))?;
        }
        let files = FileSystem::new(folder.path()).map_err(|error| anyhow!("{error:?}"))?;
        let mut service = S3ServiceBuilder::new(files);
        service.set_auth(SimpleAuth::from_single(ACCESS_KEY, SECRET_KEY));
        let service = service.build();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                let service = service.clone();
                connections.spawn(async move {
                    // how a client leaves is its own business
                    let http = Builder::new(TokioExecutor::new());
                    let _left = http.serve_connection(TokioIo::new(socket), service).await;
                });
            }
        });
        Ok(Self { folder, address, _serving: serving })
    }

    /// What a process needs in its environment to reach it.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("AWS_ENDPOINT", format!("http://{}", self.address)),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ACCESS_KEY_ID", ACCESS_KEY.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", SECRET_KEY.to_owned()),
        ]
    }

    /// The file that an object is kept in.
    pub fn path(&self, bucket: &str, key: &str) -> PathBuf {
        self.folder.path().join(bucket).join(key)
    }

    /// Puts an object, whole at once.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn put(&self, bucket: &str, key: &str, bytes: &[u8]) -> Result<()> {
        let path = self.path(bucket, key);
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))?;
        let temporary = self.folder.path().join(format!(".{bucket}.new"));
        std::fs::write(&temporary, bytes)?;
        Ok(std::fs::rename(temporary, path)?)
    }
}
