//! nginx as a real caching edge in front of the redirect listener: it honours `s-maxage`, gives each request an id,
//! sends it to the origin and logs it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tempfile::TempDir;

use crate::free_port;

const TEMPLATE: &str = include_str!("../nginx.conf.template");

/// A running edge.
#[derive(Debug)]
pub struct Edge {
    /// The port that it listens on.
    pub port: u16,
    folder: TempDir,
    child: Child,
}

impl Edge {
    /// Whether nginx is installed.
    pub fn is_there() -> bool {
        Command::new("nginx").arg("-v").stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    }

    /// Starts an edge at `port` in front of the origin's port, and waits until it accepts.
    ///
    /// # Errors
    /// When it doesn't start.
    pub async fn start(port: u16, origin: u16) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("highwater-edge-").tempdir()?;
        let config = TEMPLATE
            .replace("$EDGE_DIR", &folder.path().display().to_string())
            .replace("$EDGE_PORT", &port.to_string())
            .replace("$ORIGIN", &format!("127.0.0.1:{origin}"));
        let file = folder.path().join("nginx.conf");
        std::fs::write(&file, config)?;
        let child = Command::new("nginx")
            .arg("-c")
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let mut edge = Self { port, folder, child };
        let begin = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", edge.port)).is_err() {
            let log = std::fs::read_to_string(edge.path("error.log")).unwrap_or_default();
            ensure!(edge.child.try_wait()?.is_none() && begin.elapsed() < Duration::from_secs(20), "nginx: {log}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(edge)
    }

    /// A free port and an edge on it.
    ///
    /// # Errors
    /// As [`Edge::start`].
    pub async fn anywhere(origin: u16) -> Result<Self> {
        Self::start(free_port()?, origin).await
    }

    /// A file of the edge's folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The log of JSON lines.
    pub fn json_log(&self) -> PathBuf {
        self.path("edge.json.log")
    }

    /// The log in combined format with cache status and request id.
    pub fn combined_log(&self) -> PathBuf {
        self.path("edge.combined.log")
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Edge {
    fn drop(&mut self) {
        // QUIT lets the worker go with its master; a killed master would leave it behind
        let _sent = Command::new("kill").arg("-TERM").arg(self.child.id().to_string()).status();
        let _reaped = self.child.wait();
    }
}
