//! The hot path: two processes. Embedded, one owns all journals (the lock of the data folder); a topic's partitions
//! move between the two, and a former owner that was paused may not hear of it.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use schemas::sampling::is_kept;
use schemas::time::HOUR;
use schemas::{Class, ClickId, UtcMicros};

use super::redirect::{Frame, JournalState};
use super::stream::stream;
use super::table::{Change, Row};
use super::{LINK, MAX_SKEW, REPEAT, Rule, SKEW, World, ticks};
use crate::hot::decode::Clicked;
use crate::hot::judge::{Fate, Judge, Lateness, questions, rates_asked};
use crate::hot::shed::Shed;
use crate::hot::testing::{clicked, names};
use crate::hot::window::Window;
use crate::sample::{Known, second_of};
use crate::settle::ids::Spans;

/// One partition, as a process reads it.
#[derive(Debug, Default)]
struct Task {
    expected: Option<i64>,
    next: usize,
    buffer: Vec<(usize, usize, Frame)>,
}

/// A commit that has been decided on.
#[derive(Debug, Default)]
struct Plan {
    base: usize,
    /// Partition, position expected, position afterwards.
    txns: Vec<(usize, Option<i64>, i64)>,
    rows: Vec<Row>,
    late: Vec<Row>,
    /// The rates that were judged by.
    rates: Vec<Known>,
    /// What is sampled away, and whether it was late.
    away: Vec<(ClickId, bool)>,
    /// With the partition that each came from.
    judged: Vec<(usize, ClickId, UtcMicros)>,
    side_done: bool,
}

#[derive(Debug)]
pub(super) struct Process {
    tasks: BTreeMap<usize, Task>,
    window: Window,
    /// The rates of its readers, by partition and second.
    rates: BTreeMap<(usize, i64), f64>,
    plan: Option<Plan>,
}

/// An event as its reader hands it over.
enum Read {
    Click(Box<Clicked>),
    Shed(Shed),
}

impl Process {
    pub(super) fn new(floor: UtcMicros) -> Self {
        // the smallest window there is: it forgets within a run
        let window = Window::new(0, ticks(SKEW + REPEAT), floor);
        Self { tasks: BTreeMap::new(), window, rates: BTreeMap::new(), plan: None }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.plan.is_none()
    }
}

impl World {
    fn new_process(&self) -> Process {
        let floor = if self.keeps(Rule::RestartFloor) { self.at(SKEW) } else { UtcMicros(0) };
        Process::new(floor)
    }

    pub(super) fn kill_process(&mut self) {
        let which = self.random.below(2) as usize;
        let owned: Vec<usize> = self.processes[which].tasks.keys().copied().collect();
        self.processes[which] = self.new_process();
        self.say(|| format!("process {which} killed"));
        for partition in owned {
            self.own(which, partition);
        }
    }

    /// A partition moves to the other process, and the former owner may not hear of it.
    pub(super) fn take_over(&mut self) {
        if self.embedded {
            return;
        }
        let (which, partition) = (self.random.below(2) as usize, self.random.below(2) as usize);
        if self.chance(50) {
            self.processes[1 - which].tasks.remove(&partition);
        }
        if !self.processes[which].tasks.contains_key(&partition) {
            self.drop_state(which, partition);
        }
    }

    fn own(&mut self, which: usize, partition: usize) {
        let expected = self.stored(partition);
        let task = Task { expected, next: expected.unwrap_or(0) as usize, buffer: Vec::new() };
        self.processes[which].tasks.insert(partition, task);
    }

    /// New partitions, and those that nobody owns.
    fn adopt(&mut self) {
        for partition in 0..self.partitions.len() {
            if !self.processes.iter().any(|process| process.tasks.contains_key(&partition)) {
                let owner = if self.embedded { 0 } else { partition % 2 };
                self.drop_state(owner, partition);
            }
        }
    }

    pub(super) fn read(&mut self) {
        self.adopt();
        for which in 0..2 {
            let owned: Vec<usize> = self.processes[which].tasks.keys().copied().collect();
            for partition in owned {
                let most = if self.calm { 1_000 } else { self.random.below(4) as usize };
                let source = &self.partitions[partition];
                let Process { tasks, rates, .. } = &mut self.processes[which];
                let Some(task) = tasks.get_mut(&partition) else { continue };
                let to = (task.next + most).min(source.records.len()).max(task.next);
                for offset in task.next..to {
                    let (journal, frame) = source.records[offset];
                    if let Frame::Event(_, time) = frame {
                        // whatever the cap is now
                        let rate = if self.calm { 1.0 } else { self.random.pick(&[1.0, 1.0, 0.5, 0.25]) };
                        rates.entry((partition, second_of(time))).or_insert(rate);
                    }
                    task.buffer.push((offset, journal, frame));
                }
                task.next = to;
            }
        }
    }

    fn lateness(&self, version: usize) -> Lateness {
        let txns = &self.clicks.at(version).txns;
        let settled = txns
            .iter()
            .filter_map(|(id, through)| Some((id.strip_prefix("settled/")?.parse().ok()?, UtcMicros(*through))));
        let retired = self.journals.iter().filter(|journal| {
            if self.keeps(Rule::RetireInLake) {
                txns.contains_key(&format!("retired/{}", journal.id))
            } else {
                journal.state == JournalState::Retired && self.now % 2 == 0
            }
        });
        Lateness { settled: settled.collect(), retired: retired.map(|journal| journal.id).collect() }
    }

    /// Judges what is buffered, on the snapshot that the commit will build on.
    pub(super) fn build(&mut self) {
        let which = self.random.below(2) as usize;
        for which in if self.calm { vec![0, 1] } else { vec![which] } {
            if self.processes[which].plan.is_none() {
                self.build_in(which);
            }
        }
    }

    fn build_in(&mut self, which: usize) {
        let base = self.clicks.version();
        let owned: Vec<usize> = self.processes[which].tasks.keys().copied().collect();
        let mut group = Vec::new();
        for partition in owned {
            let stored = self.stored(partition);
            let task = &self.processes[which].tasks[&partition];
            let (expected, empty) = (task.expected, task.buffer.is_empty());
            if empty || self.chance(25) {
                continue;
            }
            if self.keeps(Rule::CheckTransactions) && expected != stored {
                self.drop_state(which, partition);
                continue;
            }
            group.push(partition);
        }
        let plan = self.judge(which, base, &group);
        if !plan.txns.is_empty() {
            self.processes[which].plan = Some(plan);
        }
    }

    /// Begins anew with a partition: others may have judged its records meanwhile.
    fn drop_state(&mut self, which: usize, partition: usize) {
        if self.keeps(Rule::RestartFloor) {
            let floor = self.at(SKEW);
            self.processes[which].window.lift(floor);
        }
        self.say(|| format!("process {which} begins anew with partition {partition}"));
        self.own(which, partition);
    }

    fn judge(&self, which: usize, base: usize, group: &[usize]) -> Plan {
        let process = &self.processes[which];
        let mut read = Vec::new();
        let mut txns = Vec::new();
        for partition in group {
            let task = &process.tasks[partition];
            for (_, journal, frame) in &task.buffer {
                if let Frame::Event(id, time) = frame {
                    read.push((*partition, self.handed_over(which, *partition, *journal, (*id, *time))));
                }
            }
            txns.extend(task.buffer.last().map(|(offset, ..)| (*partition, task.expected, *offset as i64 + 1)));
        }
        let lateness = self.lateness(base);
        let clicked =
            || read.iter().filter_map(|(_, one)| if let Read::Click(one) = one { Some(&**one) } else { None });
        let asked = questions(clicked(), &lateness, &process.window);
        let near: Spans = asked.iter().map(|(_, time)| *time).collect();
        let known: HashSet<ClickId> = self.near(base, &near).into_iter().collect();
        let lowest = self.lowest(rates_asked(clicked(), &lateness, &process.window));
        let mut judge = Judge::new(&lateness, &process.window, &known, &lowest);
        let mut plan = Plan { base, txns, ..Plan::default() };
        for (partition, one) in &read {
            let (id, time, fate, read_at, is_shed) = match one {
                Read::Click(one) => (one.click_id, one.event_time, judge.judge(one), one.rate, false),
                Read::Shed(shed) => (shed.click_id, shed.event_time, judge.judge_shed(shed), shed.rate, true),
            };
            let row = self.event(id, time);
            let mut rate = read_at;
            if fate != Fate::Late && (self.keeps(Rule::RememberAway) || !matches!(fate, Fate::Sampled(_))) {
                plan.judged.push((*partition, id, time));
            }
            match fate {
                Fate::Row(at) => {
                    rate = at;
                    plan.rows.push(Row { weight: 1.0 / at, ..row });
                }
                Fate::Duplicate => continue,
                Fate::Sampled(at) => {
                    rate = at;
                    plan.away.push((id, false));
                }
                Fate::Late if is_shed => plan.away.push((id, true)),
                Fate::Late => plan.late.push(row),
            }
            if rate < 1.0 && (self.keeps(Rule::RecordLowest) || rate == read_at) {
                plan.rates.push(Known { link: LINK, second: second_of(time), by_lines: false, rate });
            }
        }
        plan
    }

    /// An event as the reader of a partition hands it over: kept or shed at its rate.
    fn handed_over(&self, which: usize, partition: usize, journal: usize, (id, time): (ClickId, UtcMicros)) -> Read {
        let journal = self.journals[journal].id;
        let rates = &self.processes[which].rates;
        let is_internal = self.sampled_link(id).is_some();
        let rate = if is_internal { rates.get(&(partition, second_of(time))).copied().unwrap_or(1.0) } else { 1.0 };
        if is_kept(id, rate) {
            let one = clicked(id.as_u128(), time.0);
            return Read::Click(Box::new(Clicked { journal, is_internal, rate, link_id: Some(LINK), ..one }));
        }
        Read::Shed(Shed {
            before: 0,
            journal,
            click_id: id,
            event_time: time,
            link_id: LINK,
            names: names(),
            class: Class::Human,
            visitor: None,
            rate,
        })
    }

    /// Ids of `clicks` in files near some instants.
    fn near(&self, version: usize, spans: &Spans) -> Vec<ClickId> {
        self.rows_near(version, spans).map(|row| row.id).collect()
    }

    /// Rows of `clicks` in files near some instants.
    pub(super) fn rows_near<'a>(&'a self, version: usize, spans: &'a Spans) -> impl Iterator<Item = &'a Row> {
        let look_around = self.keeps(Rule::LookAround);
        let skew = if look_around { ticks(MAX_SKEW) } else { std::time::Duration::ZERO };
        let files = self.clicks.at(version).files.values().filter(move |file| {
            let times = file.iter().map(|row| row.time);
            let hour = times.clone().min().map_or(0, UtcMicros::hour) * HOUR;
            let (min, max) = (times.clone().min(), times.max());
            // without looking around, only the record's own hour is read
            spans.near(min, max, skew) || (!look_around && spans.near(Some(UtcMicros(hour)), max, skew))
        });
        files.flat_map(|file| file.iter())
    }

    /// Late events into `arrivals`, before the commit that carries their position; again on a replay.
    pub(super) fn side(&mut self) {
        let which = self.random.below(2) as usize;
        for which in if self.calm { vec![0, 1] } else { vec![which] } {
            let Some(plan) = self.processes[which].plan.as_mut().filter(|plan| !plan.side_done) else { continue };
            plan.side_done = true;
            let (late, rates) = (plan.late.clone(), plan.rates.clone());
            if self.keeps(Rule::RatesFirst) {
                self.rates.extend(rates);
            }
            if !late.is_empty() {
                self.say(|| format!("process {which}: late {late:?}"));
                self.held.extend(late.iter().map(|row| row.id));
                let base = self.arrivals.version();
                self.arrivals.commit(base, Change { add: late, ..Change::default() });
            }
        }
    }

    pub(super) fn commit(&mut self) {
        let which = self.random.below(2) as usize;
        for which in if self.calm { vec![0, 1] } else { vec![which] } {
            if self.processes[which].plan.as_ref().is_some_and(|plan| plan.side_done) {
                self.commit_in(which);
            }
        }
    }

    fn commit_in(&mut self, which: usize) {
        let Some(plan) = self.processes[which].plan.take() else { return };
        let mut change = Change {
            add: plan.rows.clone(),
            txns: plan.txns.iter().map(|(partition, _, to)| (stream(*partition), *to)).collect(),
            ..Change::default()
        };
        if self.keeps(Rule::CheckTransactions) {
            change.expect = plan.txns.iter().map(|(partition, from, _)| (stream(*partition), *from)).collect();
        }
        let fails_before = self.chance(8);
        let landed = !fails_before && self.clicks.commit(plan.base, change);
        self.say(|| {
            let rows: Vec<String> = plan.rows.iter().map(ToString::to_string).collect();
            format!("process {which} commits {rows:?} {:?} on {}, landed {landed}", plan.txns, plan.base)
        });
        if landed {
            self.held.extend(plan.judged.iter().map(|(_, id, _)| *id));
            for (id, is_late) in &plan.away {
                self.held.insert(*id);
                if *is_late { &mut self.away_late } else { &mut self.away }.insert(*id);
            }
        }
        // Whatever the answer was: look what the lake holds now. It may have landed, by this process or another.
        let mut landed = BTreeSet::new();
        for (partition, _, to) in &plan.txns {
            let stored = self.stored(*partition);
            let Some(task) = self.processes[which].tasks.get_mut(partition) else { continue };
            if stored == Some(*to) {
                task.buffer.retain(|(at, ..)| *at as i64 >= *to);
                task.expected = stored;
                landed.insert(*partition);
            } else if stored != task.expected && self.keeps(Rule::CheckTransactions) {
                self.drop_state(which, *partition);
            }
        }
        // By whomever it landed, these ids are judged.
        for (partition, id, time) in plan.judged {
            if landed.contains(&partition) {
                self.processes[which].window.insert(id, time);
            }
        }
        self.check_twice();
    }
}
