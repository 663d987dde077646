//! A stand-in as a process of its own, killed and started again at will.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Program, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::sync::oneshot;

use super::control;
use super::{Answer, Command, Extent, Knobs, Lose, Options, PATIENCE};
use crate::free_port;

/// The variable by which a test binary that runs as a stand-in is told how: the arguments, one a line.
const ARGUMENTS: &str = "HIGHWATER_STANDIN";

/// What is run.
#[derive(Clone, Debug)]
pub enum Launch {
    /// The binary `standin`.
    Binary(PathBuf),
    /// This very test binary, of which only the named, ignored test is run: it calls [`serve_for_parent`].
    Test(&'static str),
}

/// A stand-in's folder, its ports, and the process that runs on them, if any.
#[derive(Debug)]
pub struct Process {
    launch: Launch,
    options: Options,
    child: Option<Child>,
}

impl Process {
    /// On this folder, with ports that stay the same over restarts. It doesn't run yet.
    ///
    /// # Errors
    /// When no port is free.
    pub fn new(launch: Launch, folder: &Path) -> Result<Self> {
        let mut options = Options::new(folder);
        options.listen.set_port(free_port()?);
        (options.data_port, options.second_data_port) = (free_port()?, free_port()?);
        options.control_port = free_port()?;
        Ok(Self { launch, options, child: None })
    }

    /// Encrypts its connections from the next start on, as [`Options::tls`] says.
    #[must_use]
    pub fn with_tls(mut self, folder: &Path) -> Self {
        self.options.tls = Some(folder.to_owned());
        self
    }

    /// Where clients connect to, as `host:port`.
    pub fn address(&self) -> String {
        self.options.listen.to_string()
    }

    /// Starts it and waits until it listens.
    ///
    /// # Errors
    /// When it runs already, or ends at its start; what it says goes to standard error.
    pub fn start(&mut self) -> Result<()> {
        self.start_losing(&[])
    }

    /// Starts it as a broker that has lost acknowledged records.
    ///
    /// # Errors
    /// As [`Process::start`], and when there are not so many records.
    pub fn start_losing(&mut self, lose: &[Lose]) -> Result<()> {
        ensure!(self.child.is_none(), "the stand-in runs already");
        self.options.lose = lose.to_vec();
        let arguments = self.options.to_arguments();
        let mut program = match &self.launch {
            Launch::Binary(path) => {
                let mut program = Program::new(path);
                program.args(arguments);
                program
            }
            Launch::Test(name) => {
                let mut program = Program::new(std::env::current_exe()?);
                program.args([name, "--exact", "--ignored", "--nocapture"]).env(ARGUMENTS, arguments.join("\n"));
                program
            }
        };
        let mut child = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().context("no standard output")?;
        self.child = Some(child);
        let (say, said) = mpsc::sync_channel(1);
        std::thread::spawn(move || {
            // a test's harness speaks first
            let is_ready = BufReader::new(output).lines().any(|line| line.is_ok_and(|line| line.starts_with('{')));
            say.send(is_ready)
        });
        if !said.recv_timeout(PATIENCE).context("the stand-in doesn't get ready")? {
            self.kill()?;
            bail!("the stand-in ended at its start");
        }
        Ok(())
    }

    /// `kill -9`.
    ///
    /// # Errors
    /// When it doesn't run.
    pub fn kill(&mut self) -> Result<()> {
        let mut child = self.child.take().context("the stand-in doesn't run")?;
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    /// Tells it.
    ///
    /// # Errors
    /// When it doesn't answer.
    pub async fn tell(&self, command: Command) -> Result<Answer> {
        control::tell(self.options.control_port, &command).await
    }

    /// Sets its knobs.
    ///
    /// # Errors
    /// When it doesn't do it.
    pub async fn turn(&self, knobs: Knobs) -> Result<()> {
        self.order(Command::Knobs(knobs)).await
    }

    /// Takes the leaders of all partitions away, and after a while elects others.
    ///
    /// # Errors
    /// When it doesn't do it.
    pub async fn change_leaders(&self, after: Duration) -> Result<()> {
        let Answer::Partitions(all) = self.tell(Command::Partitions).await? else { bail!("it names no partitions") };
        for Extent { topic, partition, .. } in &all {
            self.order(Command::Depose { topic: topic.clone(), partition: *partition }).await?;
        }
        tokio::time::sleep(after).await;
        for Extent { topic, partition, .. } in all {
            self.order(Command::Elect { topic, partition }).await?;
        }
        Ok(())
    }

    async fn order(&self, command: Command) -> Result<()> {
        match self.tell(command).await? {
            Answer::Done => Ok(()),
            other => bail!("the stand-in answers {other:?}"),
        }
    }

    /// The process id, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // one that doesn't run has nothing to be killed
        let _gone = self.kill();
    }
}

/// The stand-in of a [`Launch::Test`]: runs until its parent is gone. Returns at once when nobody asked for it.
///
/// # Errors
/// As [`StandIn::start`](super::StandIn::start).
pub async fn serve_for_parent() -> Result<()> {
    let Ok(arguments) = std::env::var(ARGUMENTS) else { return Ok(()) };
    let options = Options::from_arguments(arguments.lines())?;
    let (gone, parent) = oneshot::channel();
    // its end of the pipe is closed with the parent, however that ends; a thread of its own, for a runtime would wait
    // for the read when it ends
    std::thread::spawn(move || gone.send(std::io::copy(&mut std::io::stdin(), &mut std::io::sink())));
    tokio::select! {
        served = super::serve(options) => served,
        gone = parent => {
            gone??;
            Ok(())
        }
    }
}
