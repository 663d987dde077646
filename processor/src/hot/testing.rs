//! A partition, a registry and an enrichment that live in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Instant;

use async_trait::async_trait;
use bytes::Bytes;
use ingest::ports::{
    Coverage, Covered, Generation, JournalState, Landed, PortError, Reached, RegisteredJournal, Registry,
};
use ingest::stream::{Body, Partition, Record, StreamError, TopicPart};
use schemas::batch::{BatchWriter, Cover};
use schemas::click::{AgentInfo, Click, ClickRow, Utm, Verdict};
use schemas::{
    Analytics, Class, ClickBuilder, ClickEvent, ClickId, Device, JournalId, LinkId, Method, Source, UtcMicros, wire,
};
use tokio::sync::watch;

use super::decode::{Batch, Clicked, Enrich};
use super::shed::LinkNames;
use crate::enrich;

/// The rules in force: a row that they have judged isn't judged anew when it is settled.
static RULES_VERSION: LazyLock<i32> = LazyLock::new(|| crate::classify::Classifier::builtin().unwrap().version());

/// A row with nothing special about it.
pub(crate) fn click(id: u128, time: i64) -> Click {
    Click {
        click_id: ClickId::from(id),
        event_time: UtcMicros(time),
        ingest_time: UtcMicros(time),
        workspace: "default".into(),
        link_id: None,
        domain: "go.example.com".into(),
        code: "abc".into(),
        revision: None,
        destination: None,
        source: Source::Origin,
        verdict: Verdict { class: Class::Human, agent: None, reason: "test".into(), rules_version: *RULES_VERSION },
        method: Some(Method::Get),
        status: 302,
        country: None,
        region: None,
        city: None,
        agent_info: Arc::new(AgentInfo {
            device: Device::Unknown,
            browser: None,
            browser_version: None,
            os: None,
            os_version: None,
        }),
        import_id: None,
        referrer: None,
        utm: Utm::default(),
        language: None,
        user_agent: None,
        client_net: None,
        visitor: None,
        weight: 1.0,
        query: None,
        private: false,
    }
}

/// A link's names with nothing special about them.
pub(crate) fn names() -> Arc<LinkNames> {
    Arc::new(LinkNames { workspace: "default".into(), domain: "go.example.com".into(), code: "abc".into() })
}

/// A click with nothing special about it, as it is judged.
pub(crate) fn clicked(id: u128, time: i64) -> Clicked {
    Clicked {
        journal: JournalId::default(),
        provider: "".into(),
        is_internal: false,
        rate: 1.0,
        click_id: ClickId::from(id),
        event_time: UtcMicros(time),
        link_id: None,
        source: Source::Origin,
        class: Class::Human,
        visitor: None,
    }
}

/// A batch of one click at each position.
pub(super) fn clicked_batch(from: u64, to: u64) -> Batch {
    let mut rows = ClickBuilder::new();
    (from..to).for_each(|n| rows.push(&click(u128::from(n), 1)));
    Batch {
        from,
        to,
        clicks: (from..to).map(|n| clicked(u128::from(n), 1)).collect(),
        rows: vec![rows.into_batch().unwrap()],
        shed: Vec::new(),
        oldest: Some(UtcMicros(1)),
        refused: Vec::new(),
        marks: Vec::new(),
        covers: Vec::new(),
        bytes: 1,
        read_at: Instant::now(),
    }
}

/// The bytes of an event of a `billed` link.
pub(crate) fn event(id: u128, time: i64) -> Bytes {
    event_of(id, time, LinkId::new(), Analytics::Billed)
}

/// The bytes of an event of this link.
pub(crate) fn event_of(id: u128, time: i64, link_id: LinkId, analytics: Analytics) -> Bytes {
    let plain = enrich::testing::event(id, UtcMicros(time));
    let event = ClickEvent { link_id, analytics, provider: "nginx", ..plain };
    let mut bytes = Vec::new();
    wire::encode(&event, &mut bytes);
    bytes.into()
}

/// Makes the plainest row; panics at one code, as a broken parser would.
#[derive(Debug)]
pub(crate) struct Plain;

/// An event of this id makes [`Plain`] panic.
pub(crate) const POISON: u128 = u128::MAX;

impl Enrich for Plain {
    fn row(&self, event: &ClickEvent<'_>, now: UtcMicros, then: &mut dyn FnMut(&ClickRow<'_>)) {
        assert_ne!(event.click_id, ClickId::from(POISON), "a record that breaks the enrichment");
        let click = click(event.click_id.as_u128(), event.event_time.0);
        then(&ClickRow { ingest_time: now, link_id: Some(event.link_id), ..click.as_row() });
    }

    fn class_of(&self, _: u64, is_head: bool, _: &dyn Fn() -> Option<IpAddr>) -> Option<Class> {
        Some(if is_head { Class::Probe } else { Class::Human })
    }
}

/// A log in memory; clones are the same log.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    pub(crate) journal: JournalId,
    state: Arc<watch::Sender<LogState>>,
    read_to: Arc<watch::Sender<u64>>,
}

#[derive(Debug, Default)]
struct LogState {
    records: Vec<Record>,
    end: u64,
    is_sealed: bool,
    failing: bool,
    is_silent: bool,
}

impl Log {
    pub(crate) fn new() -> Self {
        Self { journal: JournalId::new(), state: Arc::default(), read_to: Arc::default() }
    }

    fn push(&self, body: Body) -> u64 {
        self.push_of(self.journal, body)
    }

    fn push_of(&self, journal: JournalId, body: Body) -> u64 {
        self.state.send_modify(|state| {
            state.records.push(Record { offset: state.end, journal, body });
            state.end += 1;
        });
        self.state.borrow().end
    }

    pub(crate) fn click(&self, id: u128, time: i64) -> u64 {
        self.push(Body::Click(event(id, time)))
    }

    /// A click of an `internal` link.
    pub(crate) fn internal(&self, id: u128, time: i64, link: LinkId) -> u64 {
        self.push(Body::Click(event_of(id, time, link, Analytics::Internal)))
    }

    /// A click of each id of an `internal` link, all there at once; returns the position after the last.
    pub(crate) fn internals(&self, ids: std::ops::Range<u128>, time: i64, link: LinkId) -> u64 {
        self.state.send_modify(|state| {
            for id in ids {
                let body = Body::Click(event_of(id, time, link, Analytics::Internal));
                state.records.push(Record { offset: state.end, journal: self.journal, body });
                state.end += 1;
            }
        });
        self.state.borrow().end
    }

    /// A click of each id; returns the position after the last.
    pub(crate) fn clicks(&self, ids: std::ops::Range<u128>, time: i64) -> u64 {
        ids.fold(0, |_, id| self.click(id, time))
    }

    pub(crate) fn garbage(&self, bytes: &'static [u8]) -> u64 {
        self.push(Body::Click(Bytes::from_static(bytes)))
    }

    pub(crate) fn mark(&self, time: i64) -> u64 {
        self.push(Body::Mark(UtcMicros(time)))
    }

    pub(crate) fn seal(&self) {
        self.state.send_modify(|state| state.is_sealed = true);
    }

    /// Waits until somebody has read it so far.
    pub(crate) async fn until_read(&self, to: u64) {
        self.read_to.subscribe().wait_for(|read| *read >= to).await.unwrap();
    }

    /// Whether nobody has it open.
    pub(crate) fn is_unread(&self) -> bool {
        self.state.is_closed()
    }

    pub(crate) fn set_failing(&self, failing: bool) {
        self.state.send_modify(|state| state.failing = failing);
    }

    /// Whoever reads waits for records, though they are there.
    pub(crate) fn be_silent(&self) {
        self.state.send_modify(|state| state.is_silent = true);
    }

    pub(crate) fn partition(&self) -> Box<dyn Partition> {
        let name = self.journal.to_string();
        let read_to = Arc::clone(&self.read_to);
        Box::new(LogPartition { name, log: self.state.subscribe(), read_to, is_sealed: false })
    }
}

#[derive(Debug)]
struct LogPartition {
    name: String,
    log: watch::Receiver<LogState>,
    read_to: Arc<watch::Sender<u64>>,
    is_sealed: bool,
}

#[async_trait]
impl Partition for LogPartition {
    fn name(&self) -> &str {
        &self.name
    }

    async fn read(&mut self, from: u64, _: usize) -> Result<Vec<Record>, StreamError> {
        let name = self.name.clone();
        let state = self
            .log
            .wait_for(|state| state.failing || !state.is_silent && (state.is_sealed || state.end > from))
            .await
            .map_err(|e| StreamError::Io { partition: name.clone(), source: std::io::Error::other(e) })?;
        if state.failing {
            return Err(StreamError::Gap { partition: name, begin: 9, wanted: from });
        }
        // a few at a time, so that a group has several batches
        let records: Vec<Record> =
            state.records.iter().filter(|record| record.offset >= from).take(3).cloned().collect();
        self.is_sealed = records.is_empty();
        self.read_to.send_replace(from + records.len() as u64);
        Ok(records)
    }

    async fn end(&mut self) -> Result<u64, StreamError> {
        Ok(self.log.borrow().end)
    }

    fn is_sealed(&self) -> bool {
        self.is_sealed
    }
}

/// A partition of a topic in memory; clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct TopicLog {
    pub(crate) part: TopicPart,
    log: Log,
}

impl TopicLog {
    /// The first of two partitions.
    pub(crate) fn new() -> Self {
        Self::numbered(0)
    }

    /// One of two partitions.
    pub(crate) fn numbered(number: u32) -> Self {
        let generation = Generation { topic: "t".into(), id: "g".into(), partitions: 2 };
        Self { part: TopicPart { generation: Arc::new(generation), number }, log: Log::new() }
    }

    /// Adds a batch with a click of each id, at the journal positions from `from` on; returns the offset after it.
    pub(crate) fn batch(&self, cover: Cover, ids: std::ops::Range<u128>, time: i64) -> u64 {
        let mut writer = BatchWriter::new(cover.from);
        for (position, id) in (cover.from..).zip(ids) {
            assert!(writer.push(position, &event(id, time)));
        }
        self.log.push_of(cover.journal, Body::Batch(cover, writer.finish(cover).into()))
    }

    /// Adds a batch with a click of id 9 and one that makes [`Plain`] panic.
    pub(crate) fn poisoned(&self, cover: Cover, time: i64) -> u64 {
        let mut writer = BatchWriter::new(cover.from);
        assert!(writer.push(cover.from, &event(9, time)) && writer.push(cover.from + 1, &event(POISON, time)));
        self.log.push_of(cover.journal, Body::Batch(cover, writer.finish(cover).into()))
    }

    /// Adds what can't be read.
    pub(crate) fn garbage(&self) -> u64 {
        self.log.push_of(JournalId::new(), Body::Unreadable("corrupt", Bytes::from_static(b"x")))
    }

    /// Forgets records, as a broker does: offsets go on behind them.
    pub(crate) fn forget(&self, offset: u64) {
        self.log.state.send_modify(|state| state.records.retain(|record| record.offset != offset));
    }

    pub(crate) fn partition(&self) -> Box<dyn Partition> {
        let name = self.part.generation.partition(self.part.number);
        let read_to = Arc::clone(&self.log.read_to);
        let log = LogPartition { name, log: self.log.state.subscribe(), read_to, is_sealed: false };
        Box::new(TopicLogPartition { part: self.part.clone(), log })
    }
}

#[derive(Debug)]
struct TopicLogPartition {
    part: TopicPart,
    log: LogPartition,
}

#[async_trait]
impl Partition for TopicLogPartition {
    fn name(&self) -> &str {
        self.log.name()
    }

    fn part(&self) -> Option<&TopicPart> {
        Some(&self.part)
    }

    async fn read(&mut self, from: u64, max_bytes: usize) -> Result<Vec<Record>, StreamError> {
        self.log.read(from, max_bytes).await
    }

    async fn end(&mut self) -> Result<u64, StreamError> {
        self.log.end().await
    }

    fn is_sealed(&self) -> bool {
        false
    }
}

/// Rows of coverage in memory.
#[derive(Debug, Default)]
pub(crate) struct MemoryCoverage {
    pub(crate) rows: watch::Sender<BTreeMap<(JournalId, u32), Covered>>,
    pub(crate) reached: watch::Sender<BTreeMap<u32, Reached>>,
    /// Whoever publishes waits while this is set.
    pub(crate) holding: watch::Sender<bool>,
    /// How many publications have begun.
    pub(crate) begun: watch::Sender<u64>,
}

impl MemoryCoverage {
    /// A journal whose positions below `covered` are in the lake.
    pub(crate) fn enter_at(&self, journal: JournalId, covered: u64) {
        let row = Covered { journal, partition: 0, covered, through: UtcMicros(0), ended: false, missing: None };
        self.rows.send_modify(|rows| rows.extend([((journal, 0), row)]));
    }

    /// Waits until the row of a journal is as `done` says.
    pub(crate) async fn until(&self, journal: JournalId, done: impl Fn(&Covered) -> bool) -> Covered {
        let mut rows = self.rows.subscribe();
        let rows = rows.wait_for(|rows| rows.get(&(journal, 0)).is_some_and(&done)).await.unwrap();
        rows[&(journal, 0)]
    }
}

#[async_trait]
impl Coverage for MemoryCoverage {
    async fn generation(&self, _: &str) -> Result<Option<Generation>, PortError> {
        Ok(None)
    }

    async fn begin_generation(
        &self,
        topic: &str,
        partitions: u32,
        _: Option<&Generation>,
        _: UtcMicros,
    ) -> Result<Generation, PortError> {
        Ok(Generation { topic: topic.into(), id: "g".into(), partitions })
    }

    async fn enter(&self, _: JournalId, _: &Generation) -> Result<Vec<Covered>, PortError> {
        Ok(Vec::new())
    }

    async fn covered(&self, _: &Generation) -> Result<Vec<Covered>, PortError> {
        Ok(self.rows.borrow().values().copied().collect())
    }

    async fn cover(
        &self,
        _: &Generation,
        covered: &[Covered],
        reached: &[Reached],
        now: UtcMicros,
    ) -> Result<UtcMicros, PortError> {
        self.begun.send_modify(|begun| *begun += 1);
        self.holding.subscribe().wait_for(|holding| !holding).await.unwrap();
        self.rows.send_modify(|rows| covered.iter().for_each(|row| raise(rows, row)));
        self.reached.send_modify(|all| all.extend(reached.iter().map(|one| (one.partition, *one))));
        Ok(now)
    }

    async fn reached(&self, _: &Generation) -> Result<Vec<Reached>, PortError> {
        Ok(self.reached.borrow().values().copied().collect())
    }
}

/// Publishes a row as a link store does: nothing of it goes back but what is missing.
fn raise(rows: &mut BTreeMap<(JournalId, u32), Covered>, row: &Covered) {
    let Some(known) = rows.get_mut(&(row.journal, row.partition)) else { return };
    let (covered, through) = (known.covered.max(row.covered), known.through.max(row.through));
    *known = Covered { covered, through, ended: known.ended | row.ended, ..*row };
}

/// What a registry holds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Registered {
    pub(crate) landed: BTreeMap<JournalId, Landed>,
    pub(crate) closed: BTreeSet<JournalId>,
    pub(crate) retired: BTreeSet<JournalId>,
    pub(crate) published: u64,
}

/// A registry in memory that tells what it was told.
#[derive(Debug, Default)]
pub(crate) struct MemoryRegistry {
    pub(crate) state: watch::Sender<Registered>,
    pub(crate) failing: Mutex<bool>,
}

impl MemoryRegistry {
    /// Waits until the registry has been told as `done` says.
    pub(crate) async fn until(&self, done: impl FnMut(&Registered) -> bool) -> Registered {
        self.state.subscribe().wait_for(done).await.unwrap().clone()
    }

    fn check(&self) -> Result<(), PortError> {
        let failing = *self.failing.lock().unwrap();
        if failing { Err(PortError { doing: "testing", source: "down".into() }) } else { Ok(()) }
    }
}

#[async_trait]
impl Registry for MemoryRegistry {
    async fn register(&self, _: JournalId, _: &str, now: UtcMicros) -> Result<UtcMicros, PortError> {
        Ok(now)
    }

    async fn journals(&self) -> Result<Vec<RegisteredJournal>, PortError> {
        Ok(Vec::new())
    }

    async fn publish(&self, landed: &[Landed], now: UtcMicros) -> Result<UtcMicros, PortError> {
        self.check()?;
        self.state.send_modify(|state| {
            state.published += 1;
            for one in landed {
                state.landed.insert(one.id, *one);
            }
        });
        Ok(now)
    }

    async fn set_state(&self, id: JournalId, to: JournalState) -> Result<(), PortError> {
        self.check()?;
        self.state.send_modify(|state| {
            match to {
                JournalState::Closed => state.closed.insert(id),
                JournalState::Retired => state.retired.insert(id),
                JournalState::Open => false,
            };
        });
        Ok(())
    }

    async fn complete_through(&self, now: UtcMicros) -> Result<UtcMicros, PortError> {
        Ok(now)
    }

    async fn final_through(&self) -> Result<Option<UtcMicros>, PortError> {
        Ok(None)
    }
}
