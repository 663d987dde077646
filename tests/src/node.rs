//! The real binary as a child process on a data folder of its own.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::RuntimeFlavor;

use crate::free_port;

/// The longest that a start or a drain may take, in a debug build on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// One data folder, its configuration, and the process that runs on it, if any.
#[derive(Debug)]
pub struct Node {
    binary: PathBuf,
    folder: TempDir,
    data: PathBuf,
    /// Port of the redirect listener.
    pub redirect: u16,
    /// Port of the management listener.
    pub manage: u16,
    /// Port of the query listener.
    pub query: u16,
    /// Port of the ops listener.
    pub ops: u16,
    child: Option<Child>,
    client: reqwest::Client,
    environment: Vec<(&'static str, String)>,
    /// The only core that its processes run on, if they may not run on all.
    core: Option<usize>,
}

impl Node {
    /// A fresh folder. `settings` is TOML that is added to the listeners' addresses: tables other than `[redirect]`,
    /// and lines of `[redirect]` in `redirect`.
    ///
    /// # Errors
    /// When the folder can't be made.
    pub fn new(binary: &Path, redirect: &str, settings: &str) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("highwater-test-").tempdir()?;
        let node = Self {
            binary: binary.to_owned(),
            data: folder.path().join("data"),
            folder,
            redirect: free_port()?,
            manage: free_port()?,
            query: free_port()?,
            ops: free_port()?,
            child: None,
            client: reqwest::Client::builder().timeout(Duration::from_secs(30)).build()?,
            environment: Vec::new(),
            core: None,
        };
        // many nodes share a disk here: a reserve of 1 GiB each could leave it without room
        let reserve = if settings.contains("[journal]") { "" } else { "[journal]\nreserve = \"16MiB\"\n" };
        let config = format!(
            "[redirect]\nlisten = \"127.0.0.1:{}\"\n{redirect}\n[manage]\nlisten = \"127.0.0.1:{}\"\n\
             [query]\nlisten = \"127.0.0.1:{}\"\n[ops]\nlisten = \"127.0.0.1:{}\"\n{reserve}{settings}\n",
            node.redirect, node.manage, node.query, node.ops
        );
        std::fs::write(node.config(), config)?;
        Ok(node)
    }

    /// The binary.
    pub fn binary(&self) -> &Path {
        &self.binary
    }

    /// The folder that holds configuration, data and log.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The data folder.
    pub fn data(&self) -> PathBuf {
        self.data.clone()
    }

    /// On the data folder of `other`, as roles that share a machine are.
    #[must_use]
    pub fn sharing_data_of(mut self, other: &Self) -> Self {
        self.data = other.data();
        self
    }

    /// The configuration file.
    pub fn config(&self) -> PathBuf {
        self.folder().join("highwater.toml")
    }

    /// The process id, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Variables that every process and command started from now on finds in its environment.
    #[must_use]
    pub fn with_environment(mut self, variables: Vec<(&'static str, String)>) -> Self {
        self.environment.extend(variables);
        self
    }

    /// Its processes, not its commands, run on this core only from now on.
    #[must_use]
    pub fn pinned_to(mut self, core: usize) -> Self {
        self.core = Some(core);
        self
    }

    fn command(&self) -> Command {
        self.with(Command::new(&self.binary))
    }

    /// What a process is started by: a pinned one by `taskset`, in whose place it then stands.
    fn process(&self) -> Command {
        let Some(core) = self.core else { return self.command() };
        let mut command = Command::new("taskset");
        command.args(["-c", &core.to_string()]).arg(&self.binary);
        self.with(command)
    }

    fn with(&self, mut command: Command) -> Command {
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.arg("--config").arg(self.config()).arg("--data").arg(self.data()).current_dir(self.folder());
        command
    }

    /// Starts `up` and waits until it is ready.
    ///
    /// # Errors
    /// When it ends or is not ready in time; the message holds its log.
    pub async fn start(&mut self) -> Result<()> {
        self.start_with(&["up"]).await
    }

    /// Starts with these arguments and waits until it is ready.
    ///
    /// # Errors
    /// As [`Node::start`].
    pub async fn start_with(&mut self, arguments: &[&str]) -> Result<()> {
        self.spawn(arguments)?;
        self.wait_until_ready().await
    }

    /// Starts with these arguments and waits for nothing.
    ///
    /// # Errors
    /// When it runs already, or can't be started.
    pub fn spawn(&mut self, arguments: &[&str]) -> Result<()> {
        ensure!(self.child.is_none(), "it runs already");
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.log_file())?;
        let child = self.process().args(arguments).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?;
        self.child = Some(child);
        Ok(())
    }

    /// Waits until `/readyz` says so.
    ///
    /// # Errors
    /// As [`Node::start`].
    pub async fn wait_until_ready(&mut self) -> Result<()> {
        let begin = Instant::now();
        while !self.is_ready().await {
            if let Some(status) = self.child.as_mut().and_then(|child| child.try_wait().ok().flatten()) {
                self.child = None;
                bail!("highwater ended at its start with {status}:\n{}", self.log());
            }
            ensure!(begin.elapsed() < PATIENCE, "highwater was not ready in time:\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    /// Whether `/readyz` says so.
    pub async fn is_ready(&self) -> bool {
        let answer = self.client.get(format!("http://127.0.0.1:{}/readyz", self.ops)).send().await;
        answer.is_ok_and(|answer| answer.status().is_success())
    }

    /// What `/readyz` says, as soon as it says something that contains `part`.
    ///
    /// # Errors
    /// When it doesn't in time; the message holds the log.
    pub async fn readyz_says(&self, part: &str) -> Result<String> {
        let begin = Instant::now();
        loop {
            let answer = self.client.get(format!("http://127.0.0.1:{}/readyz", self.ops)).send().await;
            let text = match answer {
                Ok(answer) => answer.text().await?,
                Err(_) => String::new(),
            };
            if text.contains(part) {
                return Ok(text);
            }
            ensure!(begin.elapsed() < PATIENCE, "/readyz says {text:?}, not {part:?}:\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until its log holds `part`.
    ///
    /// # Errors
    /// When it doesn't in time; the message holds the log.
    pub async fn log_says(&self, part: &str) -> Result<()> {
        let begin = Instant::now();
        while !self.log().contains(part) {
            ensure!(begin.elapsed() < PATIENCE, "the log doesn't say {part:?}:\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// `kill -9`.
    ///
    /// # Errors
    /// When it doesn't run.
    pub fn kill(&mut self) -> Result<()> {
        let mut child = self.child.take().context("it doesn't run")?;
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    /// SIGTERM, and waits for the drain.
    ///
    /// # Errors
    /// When it doesn't end in time, or not with 0.
    pub async fn stop(&mut self) -> Result<()> {
        let mut child = self.child.take().context("it doesn't run")?;
        let sent = Command::new("kill").arg("-TERM").arg(child.id().to_string()).status()?;
        ensure!(sent.success(), "kill failed");
        let begin = Instant::now();
        loop {
            if let Some(status) = child.try_wait()? {
                ensure!(status.success(), "highwater ended with {status}:\n{}", self.log());
                return Ok(());
            }
            if begin.elapsed() > PATIENCE {
                child.kill()?;
                bail!("highwater did not drain in time:\n{}", self.log());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Runs a command on the folder, whether `up` runs or not.
    ///
    /// # Errors
    /// When it can't be started.
    pub fn cli(&self, arguments: &[&str]) -> Result<Output> {
        let run = || self.command().args(arguments).stdin(Stdio::null()).output();
        // a server of the test may be what the command waits for: its tasks must not wait behind this one
        let flavor = tokio::runtime::Handle::try_current().map(|handle| handle.runtime_flavor());
        let output = match flavor {
            Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(run),
            _ => run(),
        };
        Ok(output?)
    }

    /// Runs a command that must succeed, and gives its standard output.
    ///
    /// # Errors
    /// When it fails; the message holds its standard error.
    pub fn ok(&self, arguments: &[&str]) -> Result<String> {
        let output = self.cli(arguments)?;
        ensure!(
            output.status.success(),
            "highwater {arguments:?} ended with {}:\n{}\n{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Runs a command that prints JSON.
    ///
    /// # Errors
    /// When it fails or prints something else.
    pub fn json(&self, arguments: &[&str]) -> Result<Value> {
        let text = self.ok(arguments)?;
        serde_json::from_str(&text).with_context(|| format!("highwater {arguments:?} printed {text:?}"))
    }

    /// The operator token that `up` has made.
    ///
    /// # Errors
    /// When there is none yet.
    pub fn token(&self) -> Result<String> {
        Ok(std::fs::read_to_string(self.data().join("admin.token"))?.trim().to_owned())
    }

    /// GET from the query listener as the operator.
    ///
    /// # Errors
    /// When it doesn't answer 200 with JSON.
    pub async fn get(&self, path: &str) -> Result<Value> {
        let url = format!("http://127.0.0.1:{}{path}", self.query);
        let answer = self.client.get(&url).bearer_auth(self.token()?).send().await?;
        let status = answer.status();
        let text = answer.text().await?;
        ensure!(status.is_success(), "{path}: {status} {text}");
        Ok(serde_json::from_str(&text)?)
    }

    /// What `/metrics` shows.
    ///
    /// # Errors
    /// When the ops listener doesn't answer.
    pub async fn metrics(&self) -> Result<String> {
        Ok(self.client.get(format!("http://127.0.0.1:{}/metrics", self.ops)).send().await?.text().await?)
    }

    /// The sum of a metric over the labels that contain each of `labels`.
    ///
    /// # Errors
    /// When the ops listener doesn't answer.
    pub async fn metric(&self, name: &str, labels: &[&str]) -> Result<u64> {
        let text = self.metrics().await?;
        let lines = text.lines().filter(|line| {
            let rest = line.strip_prefix(name).unwrap_or_default();
            rest.starts_with(['{', ' ']) && labels.iter().all(|label| rest.contains(label))
        });
        Ok(lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>() as u64)
    }

    /// Waits until `done` says so of what `path` answers.
    ///
    /// # Errors
    /// When it doesn't in time; the message holds the last answer.
    pub async fn wait_for(&self, path: &str, patience: Duration, done: impl Fn(&Value) -> bool) -> Result<Value> {
        let begin = Instant::now();
        loop {
            let answer = self.get(path).await;
            match answer {
                Ok(value) if done(&value) => return Ok(value),
                last if begin.elapsed() > patience => {
                    bail!("waited in vain for {path}; last: {last:?}\n{}", self.log())
                }
                _ => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }

    fn log_file(&self) -> PathBuf {
        self.folder().join("log")
    }

    /// What it has logged, its last 20,000 characters.
    pub fn log(&self) -> String {
        let text = std::fs::read_to_string(self.log_file()).unwrap_or_default();
        let skip = text.chars().count().saturating_sub(20_000);
        text.chars().skip(skip).collect()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // the folder goes with it: whatever it was doing is of no use any more
            let _gone = child.kill();
            let _reaped = child.wait();
        }
    }
}
