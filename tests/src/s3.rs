//! A real S3 server on loopback, over a folder of its own.
//!
//! It knows conditional puts, but looks first and writes afterwards: of two at once both could succeed. So they take turns
//! here, as a real store has them do.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use hyper::body::Incoming;
use hyper::header::{CONTENT_LENGTH, IF_MATCH, IF_NONE_MATCH};
use hyper::service::{Service, service_fn};
use hyper::{Method, Request};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use s3s_fs::FileSystem;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

/// The key that the server knows.
pub const ACCESS_KEY: &str = "highwater-test";
/// Its secret.
pub const SECRET_KEY: &str = "not-a-secret";

/// What a narrow store takes for any object.
const LEAST: Duration = Duration::from_millis(10);

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
        Self::serve(buckets, false, None).await
    }

    /// The same, but it takes in only so many bytes a second of each object that is put, and 10 ms for it.
    ///
    /// # Errors
    /// When it can't listen.
    pub async fn narrow(buckets: &[&str], bytes: f64) -> Result<Self> {
        Self::serve(buckets, false, Some(bytes)).await
    }

    /// The same, but it creates what is there already, as some that speak S3 do.
    ///
    /// # Errors
    /// When it can't listen.
    pub async fn careless(buckets: &[&str]) -> Result<Self> {
        Self::serve(buckets, true, None).await
    }

    async fn serve(buckets: &[&str], is_careless: bool, bytes_a_second: Option<f64>) -> Result<Self> {
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
        let (objects, turn) = (folder.path().to_owned(), Arc::new(Mutex::new(())));
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                let (service, turn, objects) = (service.clone(), Arc::clone(&turn), objects.clone());
                let service = service_fn(move |request: Request<Incoming>| {
                    let (service, turn) = (service.clone(), Arc::clone(&turn));
                    let is_conditional =
                        [IF_NONE_MATCH, IF_MATCH].iter().any(|name| request.headers().contains_key(name));
                    let is_put = request.method() == Method::PUT;
                    let is_conditional = is_conditional && is_put;
                    if is_careless && is_conditional {
                        // what isn't there is no obstacle
                        let _gone = std::fs::remove_file(objects.join(request.uri().path().trim_start_matches('/')));
                    }
                    let length =
                        request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
                    async move {
                        if let (true, Some(most)) = (is_put, bytes_a_second) {
                            let takes = Duration::from_secs_f64(length.unwrap_or(0.0) / most);
                            tokio::time::sleep(LEAST + takes).await;
                        }
                        let _turn = if is_conditional { Some(turn.lock().await) } else { None };
                        Service::call(&service, request).await
                    }
                });
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
