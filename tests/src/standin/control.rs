//! Commands to a running stand-in, and the port that takes them: a line of JSON a command, a line of JSON an answer.
//!
//! ```text
//! {"knobs":{"stall":true}}                              all knobs: those that aren't named are off
//! "drop"                                                drops all connections
//! {"evict":{"topic":"t","partition":0,"before":100}}    {"evicted":96}
//! {"depose":{"topic":"t","partition":0}}                nobody leads it
//! {"elect":{"topic":"t","partition":0}}                 the other SPU leads it
//! "counts"                                              {"counts":{…}}
//! "partitions"                                          {"partitions":[{…}]}
//! ```
//! An answer is `"done"` where nothing else is shown, `{"error":"…"}` where it couldn't be done.

use std::io;
use std::sync::Arc;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::PATIENCE;
use super::broker::Broker;
use super::knobs::{Counts, Knobs};

/// The longest line.
const MAX_LINE: u64 = 1 << 20;

/// What a stand-in can be told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    /// Set all knobs.
    Knobs(Knobs),
    /// Drop all connections.
    Drop,
    /// Let go of the batches that end at or before an offset.
    Evict {
        /// Topic.
        topic: String,
        /// Number of the partition.
        partition: u32,
        /// The offset.
        before: i64,
    },
    /// Take a partition's leader away: nobody answers for it, and the controller still names the old one.
    Depose {
        /// Topic.
        topic: String,
        /// Number of the partition.
        partition: u32,
    },
    /// Make the other SPU lead a partition, and have the controller say so.
    Elect {
        /// Topic.
        topic: String,
        /// Number of the partition.
        partition: u32,
    },
    /// Ask what has been done since the start.
    Counts,
    /// Ask what each partition holds.
    Partitions,
}

/// What it answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// It is done.
    Done,
    /// The offset that the partition starts at now.
    Evicted(i64),
    /// What has been done.
    Counts(Counts),
    /// What each partition holds.
    Partitions(Vec<Extent>),
    /// Why it couldn't be done.
    Error(String),
}

/// What a partition holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    /// Topic.
    pub topic: String,
    /// Number of the partition.
    pub partition: u32,
    /// Offset of the first record that is still there, or would be.
    pub start: i64,
    /// Offset that the next record gets.
    pub end: i64,
    /// Bytes of its file.
    pub bytes: u64,
    /// The SPU that answers for it; none during an election.
    pub leader: Option<i32>,
}

impl Broker {
    /// Does what it is told.
    pub(super) fn tell(&self, command: Command) -> Answer {
        self.obey(command).unwrap_or_else(|error| Answer::Error(format!("{error:#}")))
    }

    fn obey(&self, command: Command) -> Result<Answer> {
        match command {
            Command::Knobs(knobs) => self.set(knobs),
            Command::Drop => self.drop_connections(),
            Command::Evict { topic, partition, before } => {
                return Ok(Answer::Evicted(self.evict(&topic, partition, before)?));
            }
            Command::Depose { topic, partition } => self.depose(&topic, partition)?,
            Command::Elect { topic, partition } => self.elect(&topic, partition)?,
            Command::Counts => return Ok(Answer::Counts(self.counts())),
            Command::Partitions => return Ok(Answer::Partitions(self.extents())),
        }
        Ok(Answer::Done)
    }

    fn extents(&self) -> Vec<Extent> {
        let topics = self.store.topics();
        let partitions = topics.values().flat_map(|topic| &topic.partitions).map(|partition| {
            let (start, end, bytes) = partition.extent();
            let leader = partition.now.borrow().leader;
            let (topic, partition) = partition.key.clone().split();
            Extent { topic, partition, start, end, bytes, leader }
        });
        partitions.collect()
    }
}

/// Takes commands until `stop` says so.
pub(super) async fn run(broker: Arc<Broker>, listener: TcpListener, mut stop: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            _ = stop.changed() => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => if let Ok((socket, _)) = accepted {
                connections.spawn(serve(Arc::clone(&broker), socket));
            },
        }
    }
    connections.shutdown().await;
}

async fn serve(broker: Arc<Broker>, socket: TcpStream) -> io::Result<()> {
    let mut socket = BufReader::new(socket);
    loop {
        let mut line = String::new();
        if (&mut socket).take(MAX_LINE).read_line(&mut line).await? == 0 {
            return Ok(());
        }
        let answer = match serde_json::from_str(&line) {
            Ok(command) => broker.tell(command),
            Err(error) => Answer::Error(format!("not a command: {error}")),
        };
        let mut line = serde_json::to_string(&answer)?;
        line.push('\n');
        socket.get_mut().write_all(line.as_bytes()).await?;
    }
}

/// Tells a stand-in in another process, by its control port.
///
/// # Errors
/// When it doesn't answer.
pub(super) async fn tell(port: u16, command: &Command) -> Result<Answer> {
    let exchange = async {
        let mut socket = TcpStream::connect(("127.0.0.1", port)).await?;
        let mut line = serde_json::to_string(command)?;
        line.push('\n');
        socket.write_all(line.as_bytes()).await?;
        let mut line = String::new();
        BufReader::new(socket).read_line(&mut line).await?;
        serde_json::from_str(&line).with_context(|| format!("the stand-in answered {line:?}"))
    };
    tokio::time::timeout(PATIENCE, exchange).await.context("the stand-in doesn't answer")?
}
