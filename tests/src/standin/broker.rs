//! What the ports share: the store, the knobs, the counters; and what the commands do.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use fluvio_protocol::link::ErrorCode;
use fluvio_protocol::types::SpuId;
use fluvio_sc_schema::shared::validate_resource_name;
use fluvio_sc_schema::topic::TopicSpec;
use tokio::sync::watch;

use super::knobs::{Counters, Counts, Knobs};
use super::partition::Partition;
use super::store::Store;
use super::tls::Encryption;

/// The SPUs. The first leads all partitions until an election.
pub(super) const SPUS: [SpuId; 2] = [5001, 5002];

/// What the ports share.
#[derive(Debug)]
pub(super) struct Broker {
    pub(super) store: Store,
    pub(super) knobs: watch::Sender<Knobs>,
    pub(super) counters: Counters,
    /// Counts how often the connections of that moment have died without being closed.
    pub(super) cuts: watch::Sender<u64>,
    /// Counts how often the connections of that moment were dropped.
    pub(super) drops: watch::Sender<u64>,
    /// How connections to the controller and the SPUs are encrypted.
    pub(super) encryption: Encryption,
    /// Where the SPUs listen.
    pub(super) data_ports: [u16; 2],
}

impl Broker {
    /// Sets the knobs.
    pub(super) fn set(&self, knobs: Knobs) {
        let dies = knobs.half_open;
        let before = self.knobs.send_replace(knobs);
        if dies && !before.half_open {
            self.cuts.send_modify(|cuts| *cuts += 1);
        }
    }

    /// Drops all connections.
    pub(super) fn drop_connections(&self) {
        self.drops.send_modify(|drops| *drops += 1);
    }

    /// Waits while the broker stalls.
    pub(super) async fn not_stalled(&self) {
        let mut knobs = self.knobs.subscribe();
        while knobs.borrow_and_update().stall && knobs.changed().await.is_ok() {}
    }

    /// Takes one of those that are left; false when there are none.
    pub(super) fn take(&self, which: impl Fn(&mut Knobs) -> &mut u32) -> bool {
        self.knobs.send_if_modified(|knobs| match which(knobs) {
            0 => false,
            left => {
                *left -= 1;
                true
            }
        })
    }

    /// A partition that commands name.
    fn partition(&self, topic: &str, number: u32) -> Result<Arc<Partition>> {
        self.store.partition(topic, number).with_context(|| format!("there is no partition {topic}-{number}"))
    }

    /// Lets go of what ends at or before this offset; gives the new start.
    ///
    /// # Errors
    /// When there is no such partition, or that can't be written down.
    pub(super) fn evict(&self, topic: &str, number: u32, before: i64) -> Result<i64> {
        Ok(self.partition(topic, number)?.evict(before)?)
    }

    /// Takes a partition's leader away: nobody answers for it, and the controller still names the old one.
    ///
    /// # Errors
    /// When there is no such partition.
    pub(super) fn depose(&self, topic: &str, number: u32) -> Result<()> {
        self.partition(topic, number)?.now.send_modify(|now| now.leader = None);
        Ok(())
    }

    /// Makes the other SPU lead a partition, and has the controller say so.
    ///
    /// # Errors
    /// When there is no such partition.
    pub(super) fn elect(&self, topic: &str, number: u32) -> Result<()> {
        self.partition(topic, number)?.now.send_modify(|now| {
            now.named = if now.named == SPUS[0] { SPUS[1] } else { SPUS[0] };
            now.leader = Some(now.named);
        });
        self.store.epoch.send_modify(|epoch| *epoch += 1);
        Ok(())
    }

    /// Forgets the last records, as a broker does that had acknowledged what it never wrote to its disk. Only before
    /// anything is served.
    ///
    /// # Errors
    /// When there is no such partition, or not so many records.
    pub(super) fn lose(&self, topic: &str, number: u32, records: i64) -> Result<()> {
        let lost = self.partition(topic, number)?.forget(records)?;
        ensure!(lost >= records, "{topic}-{number} had only {lost} of the {records} records to be lost");
        Ok(())
    }

    /// What has been done since the start.
    pub(super) fn counts(&self) -> Counts {
        self.counters.counts()
    }

    /// Makes a topic after the real controller's checks.
    ///
    /// # Errors
    /// The real controller's code and words.
    pub(super) fn create(&self, name: &str, spec: &TopicSpec, is_trial: bool) -> Result<(), (ErrorCode, String)> {
        if let Err(error) = validate_resource_name(name) {
            return Err((ErrorCode::TopicInvalidName, format!("Invalid topic name: '{name}'. {error}")));
        }
        if self.store.topic(name).is_some() {
            return Err((ErrorCode::TopicAlreadyExists, format!("Topic '{name}' already exists")));
        }
        if let Some(error) = spec.validate_config() {
            return Err((ErrorCode::TopicInvalidConfiguration, error));
        }
        if spec.partitions() == 0 {
            return Err((ErrorCode::TopicError, "partition must be greater than 0".to_owned()));
        }
        if is_trial {
            return Ok(());
        }
        match self.store.create(name, spec) {
            Ok(true) => Ok(()),
            Ok(false) => Err((ErrorCode::TopicAlreadyExists, format!("Topic '{name}' already exists"))),
            Err(error) => Err((ErrorCode::TopicError, format!("{error:#}"))),
        }
    }
}
