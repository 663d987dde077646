//! One thread's work: a block of lines becomes rows, records for the union, counts and rejects.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::array::RecordBatch;
use bytes::Bytes;
use ingest::edge::block::RawLine;
use ingest::edge::{Arena, EdgeClass, EdgeRequest, Ignored, Job, Line, Reject};
use ingest::ports::VisitorKeys;
use schemas::visitor::VisitorKey;
use schemas::{Analytics, ClickBuilder, ClickId, LinkId, UtcMicros};

use super::error::Failure;
use super::judge::Word;
use super::links::{Heard, Known, Links, Scope, Slot};
use super::reading::{Name, Reading};
use super::tally::{KEPT_BYTES, RejectedLine, Tally};
use crate::enrich::{EdgeLine, Enricher};
use crate::settle::{Arrival, Kind};

/// What holds for every line of a file.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub(super) reading: Reading,
    /// By which promises a request may have been answered.
    pub(super) heard: Heard,
    pub(super) import_id: Arc<str>,
    pub(super) ingest_time: UtcMicros,
    /// A line from later than this can't be right.
    pub(super) latest: UtcMicros,
    /// The domain of a line without a host; empty when none is configured.
    pub(super) default_domain: String,
}

/// What a block of lines came to.
#[derive(Debug)]
pub(super) struct Parsed {
    /// Columns of `clicks`, one row a record.
    pub(super) rows: RecordBatch,
    /// The same records, in the same order.
    pub(super) arrivals: Vec<Arrival>,
    /// Lines that aren't counted, and yet may have an event.
    pub(super) unasked: Vec<Unasked>,
    /// Of records whose ids are made from lines: which of the records, and its fingerprint. Its id is made once the
    /// file's earlier lines are known.
    pub(super) prints: Vec<(usize, u128)>,
    pub(super) tally: Tally,
    pub(super) rejects: Vec<RejectedLine>,
    /// Of events, lines that are no clicks, by number.
    pub(super) ignored: Vec<(u64, &'static str)>,
}

/// A thread that parses.
#[derive(Debug)]
pub(super) struct Worker {
    rules: Arc<Rules>,
    enricher: Arc<Enricher>,
    links: Links,
    keys: Arc<dyn VisitorKeys>,
    day_keys: HashMap<i32, VisitorKey>,
    rows: ClickBuilder,
}

impl Worker {
    pub(super) fn new(rules: Arc<Rules>, enricher: Arc<Enricher>, links: Links, keys: Arc<dyn VisitorKeys>) -> Self {
        Self { rules, enricher, links, keys, day_keys: HashMap::new(), rows: ClickBuilder::new() }
    }

    /// The same for another file; `None` where what it knows of links may not hold for that.
    pub(super) fn again(self, rules: &Arc<Rules>, scope: &Scope) -> Option<Self> {
        self.links.are_good_for(scope).then(|| Self { rules: Arc::clone(rules), ..self })
    }

    /// Parses a block, asks for the links and visitor keys it needs, and makes its rows.
    pub(super) async fn work(&mut self, job: &Job, arena: &Arena) -> Result<Parsed, Failure> {
        let block = job.block();
        let mut tally = Tally { lines: block.line_count(), ..Tally::default() };
        let (mut rejects, mut ignored) = (Vec::new(), Vec::new());
        let lines = block.line_count() as usize;
        let mut requests: Vec<EdgeRequest<'_>> = Vec::with_capacity(lines);
        let mut parents = HashSet::new();
        let mut numbers = Vec::with_capacity(lines);
        let tells = self.rules.reading.tells_ignored();
        let mut reject = |raw: RawLine<'_>, why: Reject, tally: &mut Tally| {
            tally.reject(why.reason);
            let bytes = Bytes::copy_from_slice(&raw.bytes[..raw.bytes.len().min(KEPT_BYTES)]);
            rejects.push(RejectedLine { number: raw.number, reason: why.reason, bytes });
        };
        job.parse(arena, |raw, line| {
            if matches!(line, Line::Header) {
                tally.headers += 1;
                return;
            }
            tally.records += 1;
            match line {
                Line::Header => {}
                Line::ParentHit { key } => {
                    tally.ignore(Ignored::NotViewer);
                    parents.insert(key);
                }
                Line::Ignored(why) => {
                    tally.ignore(why);
                    if tells {
                        ignored.push((raw.number, why.as_str()));
                    }
                }
                Line::Reject(why) => reject(raw, why, &mut tally),
                Line::Request(request) if request.time > self.rules.latest => {
                    reject(raw, Reject::BAD_TIMESTAMP, &mut tally);
                }
                Line::Request(request) => match self.rules.reading.accept(&request) {
                    Ok(()) => {
                        requests.push(request);
                        numbers.push(raw.number);
                    }
                    Err(why) => reject(raw, why, &mut tally),
                },
            }
        });
        let slots = self.prepare(&requests).await?;
        let Judged { arrivals, prints, unasked, no_clicks } = self.judge(&requests, &slots, &parents, &mut tally);
        if tells {
            ignored.extend(no_clicks.into_iter().map(|(at, why)| (numbers[at], why)));
        }
        let rows = self.rows.finish().map_err(|e| Failure::BrokeOff(format!("rows don't fit their table: {e}")))?;
        Ok(Parsed { rows, arrivals, unasked, prints, tally, rejects, ignored })
    }

    /// Looks up the links and day keys that the requests need. Returns where each request's link is.
    async fn prepare(&mut self, requests: &[EdgeRequest<'_>]) -> Result<Vec<Slot>, Failure> {
        self.links.bound();
        let mut slots = Vec::with_capacity(requests.len());
        let mut last_day = None;
        for request in requests {
            slots.push(self.links.slot(request.host, request.code));
            let day = request.time.day();
            if last_day != Some(day) && !self.day_keys.contains_key(&day) {
                let key = self.keys.key_of(day).await?;
                self.day_keys.insert(day, key);
            }
            last_day = Some(day);
        }
        self.links.look_up().await?;
        Ok(slots)
    }

    /// Makes rows of requests. Of those that are no clicks, says which and why. `parents`: keys of requests that a cache
    /// behind the edge answered, as a line of its own in this block says. Those of other blocks aren't known: such a
    /// request is taken as its own line has it.
    fn judge(
        &mut self,
        requests: &[EdgeRequest<'_>],
        slots: &[Slot],
        parents: &HashSet<&[u8]>,
        tally: &mut Tally,
    ) -> Judged {
        let mut judged = Judged { arrivals: Vec::with_capacity(requests.len()), ..Judged::default() };
        let rules = Arc::clone(&self.rules);
        let mut day_key = (i32::MIN, None);
        for (at, (request, slot)) in requests.iter().zip(slots).enumerate() {
            tally.at(request.time);
            let Some(link) = self.links.at(*slot) else {
                tally.ignored.unknown_code += 1;
                judged.no_clicks.push((at, "unknown_code"));
                continue;
            };
            let class = match request.line_key {
                Some(key) if parents.contains(key) => EdgeClass::Edge,
                _ => request.class,
            };
            let kind = match rules.reading.judge(request, class, link) {
                Word::Record(kind) => kind,
                Word::Counted => {
                    tally.counted += 1;
                    continue;
                }
                Word::Off => {
                    tally.ignored.analytics_off += 1;
                    judged.unasked.extend(rules.may_have_event(request, class, link));
                    judged.no_clicks.push((at, "analytics_off"));
                    continue;
                }
            };
            tally.unlinked += u64::from(!link.is_link());
            tally.eventless += u64::from(kind == Kind::Origin && !rules.reading.expects_event(request, link));
            let host = if request.host.is_empty() { &rules.default_domain } else { request.host };
            let click_id = match rules.reading.name(request, link.domain().unwrap_or(host)) {
                Name::Id(id) => id,
                Name::Print(print) => {
                    // of the line as it is: another file may have it without its parent's
                    judged.prints.push((judged.arrivals.len(), print));
                    ClickId([0; 16])
                }
            };
            let day = request.time.day();
            if day_key.0 != day {
                day_key = (day, self.day_keys.get(&day));
            }
            let line = EdgeLine {
                click_id,
                source: kind.source(),
                import_id: Some(&rules.import_id),
                ingest_time: rules.ingest_time,
                visitor_key: day_key.1,
                domain: host,
                // its event may have been sampled by what the link was before
                is_internal: link.may_have_promised(Analytics::Internal, request.time, rules.heard),
            };
            let (enricher, rows) = (&self.enricher, &mut self.rows);
            enricher.edge_row(request, line, link.at(request.time), |row| rows.push_row(row));
            judged.arrivals.push(Arrival { id: click_id, time: request.time, kind });
        }
        judged
    }
}

/// What the requests of a block are.
#[derive(Debug, Default)]
struct Judged {
    arrivals: Vec<Arrival>,
    /// Fingerprints of those without an id.
    prints: Vec<(usize, u128)>,
    unasked: Vec<Unasked>,
    /// Which requests are no clicks, and why.
    no_clicks: Vec<(usize, &'static str)>,
}

/// A line of a link that wasn't counted at its time, but so shortly before that its request may have left an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unasked {
    pub(super) id: ClickId,
    pub(super) time: UtcMicros,
    pub(super) link: Option<LinkId>,
    /// Whose link it is of.
    pub(super) workspace: Arc<str>,
}

impl Rules {
    /// A request of a link that isn't counted, if it may have left an event under its id.
    fn may_have_event(&self, request: &EdgeRequest<'_>, class: EdgeClass, link: &Known) -> Option<Unasked> {
        let was = |analytics| link.may_have_promised(analytics, request.time, self.heard);
        let is_of_log = class == EdgeClass::Origin && matches!(self.reading, Reading::Log { .. });
        if !is_of_log || !(was(Analytics::Billed) || was(Analytics::Internal)) {
            return None;
        }
        let Name::Id(id) = self.reading.name(request, link.domain()?) else { return None };
        Some(Unasked { id, time: request.time, link: link.link_id(), workspace: link.workspace().into() })
    }
}
