//! Clicks that are sampled away by the fixed-size head of their record: neither decoded nor enriched (design §4.6).
//!
//! Whoever knows the agent's class by its hash, and the link's names by an earlier click of it, needs no more of a click
//! than its head; of the first click of each, the rest tells. Where networks of scanners are known, its address is read too.
//! While nothing is sampled no head is read here.

use std::collections::HashMap;
use std::sync::Arc;

use ingest::stream::{Body, Record};
use schemas::sampling::is_kept;
use schemas::wire::{self, Head, WireError};
use schemas::{Analytics, Class, ClickEvent, ClickId, JournalId, LinkId, UtcMicros};

use super::decode::{Enrich, clicks_of};
use crate::sample::{Cap, Thinner};
use crate::sketch::SampledAway;

/// Links whose names are known at most; when there are more, all are forgotten.
const MOST_NAMES: usize = 1 << 16;

/// What a link is called, and whose it is: never another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LinkNames {
    pub(crate) workspace: Arc<str>,
    pub(crate) domain: Arc<str>,
    pub(crate) code: Arc<str>,
}

/// A click that was sampled away.
#[derive(Clone, Debug)]
pub(crate) struct Shed {
    /// Clicks of its batch that stand before it.
    pub(crate) before: u32,
    pub(crate) journal: JournalId,
    pub(crate) click_id: ClickId,
    pub(crate) event_time: UtcMicros,
    pub(crate) link_id: LinkId,
    pub(crate) names: Arc<LinkNames>,
    pub(crate) class: Class,
    pub(crate) visitor: Option<i64>,
    /// The rate that its hash has failed.
    pub(crate) rate: f64,
}

impl<'a> From<&'a Shed> for SampledAway<'a> {
    fn from(shed: &'a Shed) -> Self {
        let LinkNames { workspace, domain, code } = &*shed.names;
        let Shed { event_time, link_id, class, visitor, rate, .. } = *shed;
        Self { event_time, workspace, link_id, domain, code, class, visitor, rate }
    }
}

/// What a partition's reader knows for judging clicks by their heads.
#[derive(Debug)]
pub(super) struct Shedder {
    cap: Arc<Cap>,
    thinner: Thinner,
    names: HashMap<LinkId, Arc<LinkNames>>,
}

/// What is found by a click's head.
#[derive(Debug)]
pub(super) enum ByHead {
    /// It is to be kept, at this rate, if it is none of one that was judged before.
    Kept(f64),
    /// It is sampled away.
    Shed(Shed),
}

impl Shedder {
    /// Of a partition of which nothing is known; `cap` is what all partitions share.
    pub(super) fn new(cap: Arc<Cap>) -> Self {
        Self { cap, thinner: Thinner::default(), names: HashMap::new() }
    }

    /// Begins with some records. Returns whether their clicks are to be judged by their heads.
    pub(super) fn begin(&mut self, records: &[Record]) -> bool {
        let cap = self.cap.get();
        let is_judging = self.thinner.begin(cap);
        if cap.is_some() {
            let heads = records.iter().flat_map(clicks).filter_map(internal);
            heads.for_each(|head| self.thinner.count(head.link_id, head.event_time));
        }
        if self.names.len() > MOST_NAMES {
            self.names.clear();
        }
        is_judging
    }

    /// Takes note of the last click that was read of a journal.
    pub(super) fn ended(&mut self, journal: JournalId, click: &[u8]) {
        if let Ok(head) = wire::decode_head(click) {
            self.thinner.ended(journal, head.event_time);
        }
    }

    /// Judges a click by its head.
    ///
    /// # Errors
    /// When the rest of it is needed and can't be read.
    pub(super) fn judge(
        &mut self,
        journal: JournalId,
        bytes: &[u8],
        before: usize,
        (enrich, now): (&dyn Enrich, UtcMicros),
    ) -> Result<ByHead, WireError> {
        let Some(head) = internal(bytes) else { return Ok(ByHead::Kept(1.0)) };
        let rate = self.thinner.rate(journal, head.link_id, head.event_time, &self.cap);
        if is_kept(head.click_id, rate) {
            return Ok(ByHead::Kept(rate));
        }
        let known = self.names.get(&head.link_id).cloned();
        let signals = head.signals.filter(|signals| !signals.has_purpose);
        let address = || wire::decode_address(bytes);
        let class = signals.and_then(|signals| enrich.class_of(head.agent_hash, signals.is_head, &address));
        let (names, class) = match (known, class) {
            (Some(names), Some(class)) => (names, class),
            (known, class) => {
                let event = wire::decode(bytes)?;
                let names = known.unwrap_or_else(|| self.learn(&event));
                (names, class.unwrap_or_else(|| class_of(enrich, &event, now)))
            }
        };
        let Head { click_id, event_time, link_id, visitor, .. } = head;
        let before = before as u32;
        Ok(ByHead::Shed(Shed { before, journal, click_id, event_time, link_id, names, class, visitor, rate }))
    }

    fn learn(&mut self, event: &ClickEvent<'_>) -> Arc<LinkNames> {
        let [workspace, domain, code] = [event.workspace, event.domain, event.code].map(Arc::from);
        let names = Arc::new(LinkNames { workspace, domain, code });
        self.names.insert(event.link_id, Arc::clone(&names));
        names
    }
}

/// The class of a click of an agent that hasn't been seen lately.
fn class_of(enrich: &dyn Enrich, event: &ClickEvent<'_>, now: UtcMicros) -> Class {
    let mut class = Class::Unknown;
    enrich.row(event, now, &mut |row| class = row.verdict.class);
    class
}

/// The clicks of a record.
fn clicks(record: &Record) -> impl Iterator<Item = &[u8]> {
    let (single, batch) = match &record.body {
        Body::Click(bytes) => (Some(&bytes[..]), None),
        Body::Batch(_, bytes) => (None, Some(clicks_of(bytes))),
        Body::Mark(_) | Body::Unreadable(..) => (None, None),
    };
    single.into_iter().chain(batch.into_iter().flatten().map(|(_, click)| click))
}

/// The head of a click that may be sampled.
fn internal(bytes: &[u8]) -> Option<Head> {
    wire::decode_head(bytes).ok().filter(|head| head.analytics == Analytics::Internal)
}
