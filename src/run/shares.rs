//! A fair share of a stream's partitions, agreed with other processes by leases in the link store.
//!
//! ```text
//! a third of the lease ─► claim ─► held ────► Take ──► hot path
//!                          ▲        surplus ─► Leave ─► hot path: left ─┐
//!                          └───────────── given back ◄──────────────────┘
//! no answer until the lease ends ─────────────► Leave, all
//! ```
//! A partition is taken only with its lease in hand, and given back only when it is read no more. The lease is counted
//! from before it was asked for, by a clock that doesn't jump. A process that was paused beyond that finds, at its next
//! claim or its next commit, that others went on; what it still had to commit the lake refuses.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::Context;
use futures::FutureExt as _;
use ingest::stream::Partition;
use processor::hot::Seating;
use redirect::links::{Claim, Claimed, LinkStore};
use tokio::sync::{mpsc, oneshot};

use super::signs::Reads;

/// A claim that failed is made again after this.
const AGAIN: Duration = Duration::from_secs(1);

/// A process among those that share a stream.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    /// Where leases are.
    pub(crate) store: LinkStore,
    /// A name that no other process has or has had.
    pub(crate) name: String,
    /// How long a lease lasts without a word.
    pub(crate) lasts: Duration,
}

/// A stream whose partitions are shared.
pub(crate) trait Shared {
    /// Its name among leases.
    fn name(&self) -> String;
    /// How many partitions it has.
    fn partitions(&self) -> u32;
    /// The name of one of them, as the hot path knows it.
    fn name_of(&self, part: u32) -> String;
    /// One of them, to be read.
    fn open(&self, part: u32) -> Box<dyn Partition>;
}

/// Why a share ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// This process ends: the hot path commits what it has read, and then reads no more.
    Stopping,
    /// There is another stream to share.
    Stream,
}

/// What of the stream is read here.
#[derive(Debug)]
struct Share<'a, S> {
    stream: &'a S,
    seats: &'a mpsc::Sender<Seating>,
    /// What is read, to be shown.
    shown: &'a Reads,
    reading: BTreeSet<u32>,
    /// Told to be left, and not left yet.
    leaving: BTreeMap<u32, oneshot::Receiver<()>>,
    /// Left, and to be given back.
    left: Vec<u32>,
}

/// Reads a share of `stream` through the hot path behind `seats`, as `me`, until `over`; then waits until the hot path
/// reads none of it any more, and gives all back. What is read is `shown` meanwhile.
///
/// # Errors
/// When the hot path has gone before that.
pub(crate) async fn share<S: Shared>(
    me: &Member,
    stream: &S,
    seats: &mpsc::Sender<Seating>,
    shown: &Reads,
    over: impl Future<Output = Over>,
) -> anyhow::Result<()> {
    let (reading, leaving) = (BTreeSet::new(), BTreeMap::new());
    let mut share = Share { stream, seats, shown, reading, leaving, left: Vec::new() };
    let (name, mut holds_until) = (stream.name(), Instant::now());
    tokio::pin!(over);
    let why = loop {
        let asked = Instant::now();
        let claim = Claim {
            stream: &name,
            partitions: stream.partitions(),
            member: &me.name,
            lasts: me.lasts,
            gives_back: &share.left,
        };
        let again = tokio::select! {
            why = &mut over => break why,
            claimed = me.store.claim_partitions(&claim) => match claimed {
                Ok(claimed) => {
                    holds_until = asked + me.lasts;
                    if let Err(gone) = share.follow(claimed, asked + me.lasts / 3).await {
                        // when all is stopped, the hot path may be the first to go
                        break over.as_mut().now_or_never().ok_or(gone)?;
                    }
                    // what was left is given back at once
                    if share.left.is_empty() { asked + me.lasts / 3 } else { asked }
                }
                Err(error) => {
                    tracing::warn!(%error, stream = name, "partitions can't be claimed now; trying again");
                    if Instant::now() >= holds_until {
                        share.leave_all().await?;
                    }
                    let until = if share.reading.is_empty() { Instant::now() + AGAIN } else { holds_until };
                    (Instant::now() + AGAIN).min(until)
                }
            },
        };
        tokio::select! {
            why = &mut over => break why,
            () = tokio::time::sleep_until(again.into()) => {}
        }
    };
    share.end(why, me.lasts).await;
    // if it can't be told now, it ends by itself
    if let Err(error) = me.store.leave_partitions(&me.name).await {
        tracing::warn!(%error, stream = name, "partitions could not be given back; others take them when the lease ends");
    }
    Ok(())
}

impl<S: Shared> Share<'_, S> {
    /// Makes what is read what is held. What is to be left may take until `within`, or is asked for again next time.
    async fn follow(&mut self, claimed: Claimed, within: Instant) -> anyhow::Result<()> {
        self.left.clear();
        let lost: Vec<u32> = self.reading.difference(&claimed.held).copied().collect();
        for part in lost {
            tracing::warn!(partition = part, "another process reads it now: the lease had ended");
            self.leave(part).await?;
            self.leaving.remove(&part);
        }
        for &part in claimed.surplus.intersection(&self.reading.clone()) {
            tracing::info!(partition = part, members = claimed.members, "left to another process");
            self.leave(part).await?;
        }
        self.leaving.retain(|part, _| claimed.held.contains(part));
        for (&part, left) in &mut self.leaving {
            if tokio::time::timeout_at(within.into(), left).await.is_ok() {
                self.left.push(part);
            }
        }
        self.leaving.retain(|part, _| !self.left.contains(part));
        let wanted: Vec<u32> = claimed.held.difference(&claimed.surplus).copied().collect();
        for part in wanted {
            let is_on_its_way_out = self.leaving.contains_key(&part) || self.left.contains(&part);
            if !is_on_its_way_out && self.reading.insert(part) {
                self.shown.take(&self.stream.name_of(part));
                self.send(Seating::Take(self.stream.open(part))).await?;
            }
        }
        Ok(())
    }

    async fn leave(&mut self, part: u32) -> anyhow::Result<()> {
        let (left, is_left) = oneshot::channel();
        self.reading.remove(&part);
        self.shown.leave(&self.stream.name_of(part));
        self.leaving.insert(part, is_left);
        self.send(Seating::Leave { name: self.stream.name_of(part), left }).await
    }

    async fn leave_all(&mut self) -> anyhow::Result<()> {
        for part in std::mem::take(&mut self.reading) {
            self.leave(part).await?;
        }
        self.leaving.clear();
        Ok(())
    }

    async fn send(&self, seating: Seating) -> anyhow::Result<()> {
        self.seats.send(seating).await.ok().context("the hot path has gone")
    }

    /// Waits until nothing of the stream is read or committed here any more, but not for longer than a lease.
    async fn end(mut self, why: Over, lasts: Duration) {
        let all_left = async {
            if why == Over::Stopping {
                return self.seats.closed().await;
            }
            for part in std::mem::take(&mut self.reading) {
                let _gone = self.leave(part).await;
            }
            for (_, left) in self.leaving {
                let _told = left.await;
            }
        };
        let _waited = tokio::time::timeout(lasts, all_left).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use async_trait::async_trait;
    use ingest::stream::{Record, StreamError};
    use redirect::links::Domains;
    use tokio::sync::watch;
    use tokio::task::JoinHandle;
    use tokio_util::sync::CancellationToken;

    const PARTS: u32 = 5;

    #[derive(Debug)]
    struct Part(String);

    #[async_trait]
    impl Partition for Part {
        fn name(&self) -> &str {
            &self.0
        }

        async fn read(&mut self, _: u64, _: usize) -> Result<Vec<Record>, StreamError> {
            std::future::pending().await
        }

        async fn end(&mut self) -> Result<u64, StreamError> {
            Ok(0)
        }

        fn is_sealed(&self) -> bool {
            false
        }
    }

    struct Clicks;

    impl Shared for Clicks {
        fn name(&self) -> String {
            "clicks@1".into()
        }

        fn partitions(&self) -> u32 {
            PARTS
        }

        fn name_of(&self, part: u32) -> String {
            format!("clicks@1/{part}")
        }

        fn open(&self, part: u32) -> Box<dyn Partition> {
            Box::new(Part(self.name_of(part)))
        }
    }

    /// A process: a hot path that only notes what it is to read, and its share.
    struct Process {
        reads: watch::Receiver<BTreeSet<String>>,
        stop: CancellationToken,
        sharing: JoinHandle<anyhow::Result<()>>,
    }

    impl Process {
        async fn start(folder: &tempfile::TempDir, name: &str) -> Self {
            let path = folder.path().join("links");
            let store = LinkStore::open(path.to_str().unwrap(), Domains::new(&["a.test"]).unwrap()).await.unwrap();
            let me = Member { store, name: name.to_owned(), lasts: Duration::from_millis(900) };
            let (seats, mut seatings) = mpsc::channel(4);
            let (tell, reads) = watch::channel(BTreeSet::new());
            let stop = CancellationToken::new();
            let (hot, over) = (stop.clone(), stop.clone());
            tokio::spawn(async move {
                while let Some(Some(seating)) = hot.run_until_cancelled(seatings.recv()).await {
                    match seating {
                        Seating::Take(part) => {
                            tell.send_if_modified(|reads: &mut BTreeSet<String>| reads.insert(part.name().to_owned()))
                        }
                        Seating::Leave { name, left } => {
                            let is_read = tell.send_if_modified(|reads| reads.remove(&name));
                            let _told = left.send(());
                            is_read
                        }
                    };
                }
            });
            let sharing = tokio::spawn(async move {
                let over = async {
                    over.cancelled().await;
                    Over::Stopping
                };
                share(&me, &Clicks, &seats, &Reads::default(), over).await
            });
            Self { reads, stop, sharing }
        }

        async fn until_reads(&self, count: usize) -> BTreeSet<String> {
            self.reads.clone().wait_for(|reads| reads.len() == count).await.unwrap().clone()
        }

        async fn stop(self) {
            self.stop.cancel();
            self.sharing.await.unwrap().unwrap();
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn who_comes_gets_a_fair_share_and_who_goes_leaves_it_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let first = Process::start(&folder, "a").await;
        assert_eq!(first.until_reads(5).await.len(), 5);
        let second = Process::start(&folder, "b").await;
        let (of_first, of_second) = (first.until_reads(3).await, second.until_reads(2).await);
        assert!(of_first.is_disjoint(&of_second), "{of_first:?} {of_second:?}");
        first.stop().await;
        second.until_reads(5).await;
        second.stop().await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn who_is_stopped_just_when_a_share_comes_gives_it_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("links");
        let store = LinkStore::open(path.to_str().unwrap(), Domains::new(&["a.test"]).unwrap()).await.unwrap();
        let me = Member { store, name: "a".to_owned(), lasts: Duration::from_secs(3_600) };
        let (seats, mut seatings) = mpsc::channel(1);
        let stop = CancellationToken::new();
        let over = async {
            stop.cancelled().await;
            Over::Stopping
        };
        let hot_path = async {
            seatings.recv().await;
            stop.cancel();
            drop(seatings);
        };
        let shown = Reads::default();
        let (shared, ()) = tokio::join!(share(&me, &Clicks, &seats, &shown, over), hot_path);
        shared.unwrap();
        let next = Process::start(&folder, "b").await;
        next.until_reads(5).await;
        next.stop().await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_a_killed_process_held_is_taken_over() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (Process::start(&folder, "a").await, Process::start(&folder, "b").await);
        let held = async { tokio::join!(first.until_reads(3), second.until_reads(2)) };
        held.await;
        first.sharing.abort();
        second.until_reads(5).await;
        second.stop().await;
    }
}
