//! What the committer tells others: the registry's publisher, status, metrics.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use ingest::ports::Landed;
use schemas::UtcMicros;
use tracing::info;

use super::committer::Committer;
use super::publish::TopicProgress;
use super::slot::Slot;
use super::{HotStatus, PartitionStatus};

impl Committer {
    /// Publishes what has landed, and lets go of journals that are whole in the lake.
    pub(super) fn finish(&mut self) {
        let finished: Vec<usize> =
            self.slots.iter().filter(|(_, slot)| slot.is_finished()).map(|(number, _)| *number).collect();
        if self.failing.is_none() {
            let (now, clock) = (Instant::now(), UtcMicros::now());
            self.slots.values_mut().for_each(|slot| slot.look(now, clock));
        }
        let (slots, leaving) = (&self.slots, &self.leaving);
        self.progress.send_if_modified(|progress| {
            let before = progress.topics.len();
            progress.topics.retain(|number, _| slots.contains_key(number) || leaving.contains_key(number));
            let mut is_news = progress.topics.len() < before;
            for (number, slot) in slots {
                is_news |= slot.part.is_some() && note_topic(&mut progress.topics, *number, slot);
                for &(id, through) in &slot.marks {
                    // a journal that is a partition of its own counts in the partition's positions
                    let committed = if slot.journal == Some(id) { slot.position() } else { 0 };
                    let landed = Landed { id, through, committed };
                    is_news |= progress.landed.insert(id, landed) != Some(landed);
                }
                if let (true, Some(journal)) = (slot.is_finished(), slot.journal) {
                    is_news |= progress.finished.insert(journal);
                }
            }
            progress.number += u64::from(is_news);
            is_news
        });
        let mut is_any = false;
        for number in finished {
            if let Some(slot) = self.slots.remove(&number) {
                info!(partition = &*slot.name, at = slot.position(), "sealed, and all of it is in the lake");
                self.metrics.forget_partition(&slot.name);
                is_any = true;
            }
        }
        if is_any {
            self.tell();
        }
    }

    /// Tells status and metrics how far each partition is.
    pub(super) fn tell(&self) {
        let lag_seconds = self.oldest().map_or(0.0, |oldest| UtcMicros::now().since(oldest).as_secs_f64());
        let partitions: Vec<PartitionStatus> = self
            .slots
            .values()
            .map(|slot| PartitionStatus {
                name: Arc::clone(&slot.name),
                next: slot.position(),
                end: slot.end.max(slot.position()),
                lag: slot.lag(),
                failing: slot.failing.clone(),
            })
            .collect();
        self.metrics.note_lag(&partitions, lag_seconds);
        let (failing, failing_since) = self.failing.clone().unzip();
        let sampling = self.steering.rate();
        self.status.send_replace(HotStatus { partitions, lag_seconds, failing, failing_since, sampling });
    }
}

/// Notes how far a partition of a topic is. Returns whether something has landed: that it has grown is no news by itself.
fn note_topic(topics: &mut BTreeMap<usize, TopicProgress>, number: usize, slot: &Slot) -> bool {
    let Some(part) = &slot.part else { return false };
    let (next, end, lag) = (slot.position(), slot.end.max(slot.position()), slot.lag());
    let known = topics.get(&number);
    let is_news = known.is_none_or(|known| known.next != next);
    let near_at = slot.near_at;
    if !is_news && known.is_some_and(|known| (known.end, known.lag, known.near_at) == (end, lag, near_at)) {
        return false;
    }
    let landings = slot.landings.clone();
    topics.insert(number, TopicProgress { part: part.clone(), next, end, lag, landings, near_at });
    is_news
}
