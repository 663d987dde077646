//! A stand-in for a Fluvio cluster: the real client connects to it, and it does wrong on demand.
//!
//! ```text
//!               ┌ controller port   topics made, removed, listed, watched
//! real client ──┤
//!               └ data port ×2      produce, offsets, streams        (SPU 5001 leads, 5002 after an election)
//! test ───────── control port       knobs, commands, counts          (or the handle, in the same process)
//!                     │
//!                     ▼
//!               folder: a file of frames per partition
//! ```
//! [`StandIn`] runs in the test's own process, [`Process`] in one that can be killed; both take [`Command`]s.
//!
//! Invariants: what has been acknowledged is in the kernel, so `kill -9` and a restart on the same folder keep it,
//! unless the restart is told to [lose](Options::lose) it. Where nothing is said otherwise it answers as the real
//! broker of platform 0.18 does, faults of the real one included: answers are cut at `max_bytes` inside a batch, an
//! offset behind the end is an error, and a stream whose partition got another leader falls silent.
//!
//! It can't show: what a power cut costs, when retention really strikes, how long an election takes, replication.

mod broker;
mod control;
mod controller;
mod data;
mod dump;
mod frames;
mod knobs;
mod log;
mod metadata;
mod partition;
mod ports;
mod process;
mod produce;
mod store;
mod stream;
mod tls;
mod wire;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Parser;
use tokio::sync::watch;
use tokio::task::JoinSet;

pub use control::{Answer, Command, Extent};
pub use dump::{Held, dump};
pub use knobs::{Counts, Knobs, Refusal};
pub use process::{Launch, Process, serve_for_parent};

use broker::{Broker, SPUS};

/// A start, an answer and an end take no longer, even on a machine that stands still for a while.
const PATIENCE: Duration = Duration::from_secs(90);

/// How a stand-in is started.
#[derive(Clone, Debug, Parser)]
#[command(about = "A stand-in for a Fluvio cluster, for tests")]
pub struct Options {
    /// Folder that holds topics and records.
    #[arg(long = "dir")]
    pub folder: PathBuf,
    /// Address of the controller, on loopback; port 0 takes any.
    #[arg(long, default_value = "127.0.0.1:0", value_parser = parse_loopback)]
    pub listen: SocketAddr,
    /// Port of the first SPU; 0 takes any.
    #[arg(long, default_value_t = 0)]
    pub data_port: u16,
    /// Port of the second SPU; 0 takes any.
    #[arg(long, default_value_t = 0)]
    pub second_data_port: u16,
    /// Port for commands; 0 takes any.
    #[arg(long, default_value_t = 0)]
    pub control_port: u16,
    /// Folder with `server.pem` and `server.key`: connections are encrypted then. With a `clients.pem` in it clients must
    /// show a certificate which that has signed.
    #[arg(long)]
    pub tls: Option<PathBuf>,
    /// Records at a partition's end that are forgotten before anything is served, as TOPIC/PARTITION:RECORDS.
    #[arg(long, value_parser = parse_lose)]
    pub lose: Vec<Lose>,
}

/// Acknowledged records that a restart forgets: at least so many, for whole batches go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lose {
    /// Topic.
    pub topic: String,
    /// Number of the partition.
    pub partition: u32,
    /// How many.
    pub records: i64,
}

fn parse_loopback(text: &str) -> Result<SocketAddr> {
    let address: SocketAddr = text.parse()?;
    ensure!(address.ip() == Ipv4Addr::LOCALHOST, "{address} is not on 127.0.0.1, where the stand-in listens");
    Ok(address)
}

fn parse_lose(text: &str) -> Result<Lose> {
    let parse = || {
        let (partition, records) = text.split_once(':')?;
        let (topic, partition) = partition.split_once('/')?;
        Some(Lose { topic: topic.to_owned(), partition: partition.parse().ok()?, records: records.parse().ok()? })
    };
    parse().ok_or_else(|| anyhow!("{text:?} is not TOPIC/PARTITION:RECORDS"))
}

impl Options {
    /// Any ports, nothing lost.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        let folder = folder.into();
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Self { folder, listen, data_port: 0, second_data_port: 0, control_port: 0, tls: None, lose: Vec::new() }
    }

    /// What `standin` is given on its command line.
    fn to_arguments(&self) -> Vec<String> {
        let mut arguments = vec![
            format!("--dir={}", self.folder.display()),
            format!("--listen={}", self.listen),
            format!("--data-port={}", self.data_port),
            format!("--second-data-port={}", self.second_data_port),
            format!("--control-port={}", self.control_port),
        ];
        arguments.extend(self.tls.iter().map(|folder| format!("--tls={}", folder.display())));
        let lose = self.lose.iter();
        arguments.extend(lose.map(|lose| format!("--lose={}/{}:{}", lose.topic, lose.partition, lose.records)));
        arguments
    }

    /// From what [`Options::to_arguments`] has made.
    fn from_arguments<'a>(arguments: impl Iterator<Item = &'a str>) -> Result<Self> {
        Ok(Self::try_parse_from(std::iter::once("standin").chain(arguments))?)
    }
}

/// A running stand-in; it ends with its owner.
#[derive(Debug)]
pub struct StandIn {
    broker: Arc<Broker>,
    options: Options,
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

impl StandIn {
    /// Starts on the current runtime.
    ///
    /// # Errors
    /// When the folder is used by another, a port is taken, or there is nothing to lose.
    pub async fn start(mut options: Options) -> Result<Self> {
        let (controller, port) = ports::listen(options.listen.port()).await.context("controller port")?;
        let (first, first_port) = ports::listen(options.data_port).await.context("data port")?;
        let (second, second_port) = ports::listen(options.second_data_port).await.context("second data port")?;
        let (control, control_port) = ports::listen(options.control_port).await.context("control port")?;
        let encryption = options.tls.as_deref().map(tls::Encryption::of_folder).transpose()?.unwrap_or_default();
        let broker = Arc::new(Broker {
            store: store::Store::open(&options.folder, SPUS[0])?,
            knobs: watch::Sender::default(),
            counters: Default::default(),
            cuts: watch::Sender::default(),
            drops: watch::Sender::default(),
            encryption,
            data_ports: [first_port, second_port],
        });
        for lose in std::mem::take(&mut options.lose) {
            broker.lose(&lose.topic, lose.partition, lose.records)?;
        }
        options.listen.set_port(port);
        (options.data_port, options.second_data_port) = (first_port, second_port);
        options.control_port = control_port;
        let stop = watch::Sender::new(false);
        let mut tasks = JoinSet::new();
        tasks.spawn(ports::run(Arc::clone(&broker), controller, stop.subscribe(), controller::serve));
        for (listener, spu) in [first, second].into_iter().zip(SPUS) {
            let serve = move |broker, socket| data::serve(broker, spu, socket);
            tasks.spawn(ports::run(Arc::clone(&broker), listener, stop.subscribe(), serve));
        }
        tasks.spawn(control::run(Arc::clone(&broker), control, stop.subscribe()));
        Ok(Self { broker, options, stop, tasks })
    }

    /// Where clients connect to, as `host:port`.
    pub fn address(&self) -> String {
        self.options.listen.to_string()
    }

    /// The folder and the ports in use: a start with these comes back as the same cluster.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Does what it is told.
    pub fn tell(&self, command: Command) -> Answer {
        self.broker.tell(command)
    }

    /// Changes knobs, and leaves the others as they are.
    pub fn turn(&self, change: impl FnOnce(&mut Knobs)) {
        let mut knobs = self.knobs();
        change(&mut knobs);
        self.broker.set(knobs);
    }

    /// The knobs as they are; those that count down have done so.
    pub fn knobs(&self) -> Knobs {
        self.broker.knobs.borrow().clone()
    }

    /// What has been done since the start.
    pub fn counts(&self) -> Counts {
        self.broker.counts()
    }

    /// Drops all connections and lets go of folder and ports.
    ///
    /// # Errors
    /// When that takes too long.
    pub async fn stop(mut self) -> Result<Options> {
        self.stop.send_replace(true);
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        tokio::time::timeout(PATIENCE, ended).await.context("the stand-in doesn't stop")?;
        if Arc::into_inner(self.broker).is_none() {
            bail!("something still uses the stand-in's folder");
        }
        Ok(self.options)
    }
}

/// Runs a stand-in until the process ends, and prints where it listens as a line of JSON.
///
/// # Errors
/// As [`StandIn::start`].
pub async fn serve(options: Options) -> Result<()> {
    let standin = StandIn::start(options).await?;
    let options = standin.options();
    println!(
        "{}",
        serde_json::json!({
            "controller": standin.address(),
            "data": [options.data_port, options.second_data_port],
            "control": options.control_port,
        })
    );
    std::future::pending().await
}
