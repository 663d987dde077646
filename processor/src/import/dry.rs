//! A dry run: every decision as it would be made now, and nothing written.

use std::collections::{BTreeMap, HashMap};

use arrow::array::AsArray as _;
use schemas::UtcMicros;

use super::error::Failure;
use super::land::count;
use super::pipeline::Chunk;
use super::summary::{Planned, State, Summary};
use crate::settle::ids::IdSet;
use crate::settle::{Fate, Settler};

/// Ids of one file that are remembered, so that a line twice is counted once: what a run would find in the lake.
const MOST_SEEN: usize = 8_000_000;
/// Links that are shown.
const MOST_LINKS: usize = 100;
/// Links that are counted.
const MOST_COUNTED: usize = 1_000_000;

#[derive(Debug, Default)]
struct Counts {
    added: u64,
    waiting: u64,
}

/// What a run would do.
#[derive(Debug)]
pub(super) struct DryRun {
    summary: Summary,
    /// As `arrivals` would know its records.
    brought: String,
    seen: IdSet,
    days: BTreeMap<i32, Counts>,
    links: HashMap<String, Counts>,
    started: std::time::Instant,
}

impl DryRun {
    pub(super) fn new(summary: Summary, brought: String, started: std::time::Instant) -> Self {
        Self { summary, brought, seen: IdSet::default(), days: BTreeMap::new(), links: HashMap::new(), started }
    }

    /// Decides on a chunk as a run would.
    pub(super) async fn judge(&mut self, settler: &mut Settler, chunk: &Chunk) -> Result<(), Failure> {
        let complete_through = settler.desk.peek(UtcMicros::now()).await?;
        let mut decision = settler.desk.decide(&chunk.rows, &chunk.arrivals, complete_through).await?;
        settler.hold_chunk(&self.brought, &chunk.rows, &chunk.arrivals, &mut decision).await?;
        for (arrival, fate) in chunk.arrivals.iter().zip(&mut decision.fates) {
            if matches!(fate, Fate::Counted | Fate::Correct | Fate::Sampled) {
                continue;
            }
            if self.seen.contains(&arrival.id) {
                *fate = Fate::Counted;
            } else if *fate == Fate::Add && self.seen.len() < MOST_SEEN {
                self.seen.insert(arrival.id);
            }
        }
        count(&mut self.summary, chunk, &decision);
        let mut at = 0;
        for rows in &chunk.rows {
            let text = |name| rows.column_by_name(name).and_then(|column| column.as_string_opt::<i32>());
            let (Some(domains), Some(codes)) = (text("domain"), text("code")) else { continue };
            for row in 0..rows.num_rows() {
                let (arrival, fate) = (chunk.arrivals[at + row], decision.fates[at + row]);
                self.plan(arrival.time, domains.value(row), codes.value(row), fate);
            }
            at += rows.num_rows();
        }
        Ok(())
    }

    fn plan(&mut self, time: UtcMicros, domain: &str, code: &str, fate: Fate) {
        let add = |counts: &mut Counts| match fate {
            Fate::Add => counts.added += 1,
            Fate::Wait => counts.waiting += 1,
            Fate::Counted | Fate::Correct | Fate::Sampled => {}
        };
        add(self.days.entry(time.day()).or_default());
        let link = format!("{domain}/{code}");
        if self.links.len() < MOST_COUNTED || self.links.contains_key(&link) {
            add(self.links.entry(link).or_default());
        }
    }

    /// What the run would have come to.
    pub(super) fn finish(mut self) -> Summary {
        let planned = |of: String, counts: &Counts| Planned { of, added: counts.added, waiting: counts.waiting };
        let date =
            |day: i32| UtcMicros(i64::from(day) * schemas::time::DAY).to_datetime().format("%Y-%m-%d").to_string();
        self.summary.days = Some(self.days.iter().map(|(day, counts)| planned(date(*day), counts)).collect());
        let mut links: Vec<Planned> = self.links.into_iter().map(|(link, counts)| planned(link, &counts)).collect();
        links.sort_by(|a, b| (b.added + b.waiting).cmp(&(a.added + a.waiting)).then_with(|| a.of.cmp(&b.of)));
        links.truncate(MOST_LINKS);
        self.summary.links = Some(links);
        self.summary.state = State::Done;
        self.summary.seconds = self.started.elapsed().as_secs_f64();
        self.summary
    }
}
