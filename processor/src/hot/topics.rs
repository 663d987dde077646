//! What is published of a topic: the rows that have changed since. Pure.
//!
//! Only rows of partitions that are read here are kept: of one that is left, the next owner goes on with them.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use ingest::ports::{Covered, Reached, Reading};
use schemas::JournalId;

use super::coverage::{Published, Stretches};
use super::publish::TopicProgress;

/// How often it is told that a partition is read, though nothing moves: what isn't told is believed for half a minute.
const TOLD_EVERY: Duration = Duration::from_secs(10);
/// How long a partition that was near its end is called so: under load there is always something left.
const STAYS_NEAR: Duration = Duration::from_secs(20);

/// The rows of one generation, as published.
#[derive(Debug, Default)]
pub(super) struct Topics {
    rows: HashMap<(JournalId, u32), Published>,
    /// Each with when it was told.
    reached: BTreeMap<u32, (Reached, Instant)>,
}

impl Topics {
    /// Forgets what isn't one of `parts`: others go on with it.
    pub(super) fn keep(&mut self, parts: &[&TopicProgress]) {
        let is_read = |number: u32| parts.iter().any(|topic| topic.part.number == number);
        self.rows.retain(|(_, number), _| is_read(*number));
        self.reached.retain(|number, _| is_read(*number));
    }

    /// Whether what has landed can be put behind what is known: there is a row for it, and no hole between. If not, the rows
    /// are to be learned anew.
    pub(super) fn knows(&self, parts: &[&TopicProgress]) -> bool {
        let follows = |number, (journal, landed): (&JournalId, &Stretches)| {
            self.rows.get(&(*journal, number)).is_some_and(|published| !published.has_hole(landed))
        };
        parts.iter().all(|topic| topic.landings.iter().all(|landed| follows(topic.part.number, landed)))
    }

    /// Takes rows as they are in the link store: what others have published of partitions that are read here now is true too.
    pub(super) fn learn(&mut self, rows: Vec<Covered>) {
        for row in rows {
            let known = self.rows.entry((row.journal, row.partition)).or_insert_with(|| Published::new(row));
            known.learn(row);
        }
    }

    /// What is to be published: rows of journals and positions of partitions that are others than before, or were told long ago. `asked` is called
    /// for each stretch that is asked for. A journal that has no row is none of this generation: nobody waits for it.
    pub(super) fn follow(
        &mut self,
        parts: &[&TopicProgress],
        now: Instant,
        asked: impl Fn(),
    ) -> (Vec<Covered>, Vec<Reached>) {
        let (mut rows, mut moved) = (Vec::new(), Vec::new());
        for topic in parts {
            let number = topic.part.number;
            for (journal, landed) in &topic.landings {
                let Some(published) = self.rows.get_mut(&(*journal, number)) else { continue };
                let before = published.row().missing;
                if let Some(row) = published.follow(landed, topic.next, topic.end, now) {
                    if row.missing.is_some() && row.missing != before {
                        asked();
                        let (from, to) = (row.covered, row.missing.map_or(row.covered, |missing| missing.to));
                        tracing::warn!(%journal, partition = number, from, to, "the topic lacks a stretch of a journal: it is asked for again");
                    }
                    rows.push(row);
                }
            }
            // marks that wait don't count: of a topic at rest it is published that the lake holds it
            let is_near = topic.near_at.is_some_and(|at| now.duration_since(at) < STAYS_NEAR);
            let reading = if is_near { Reading::Near } else { Reading::Behind };
            let reached = Reached { partition: number, next: topic.next, end: topic.next + topic.lag, reading };
            let is_told = |(told, at): &(Reached, Instant)| *told == reached && now.duration_since(*at) < TOLD_EVERY;
            if !self.reached.get(&number).is_some_and(is_told) {
                self.reached.insert(number, (reached, now));
                moved.push(reached);
            }
        }
        (rows, moved)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use ingest::ports::{Generation, Missing};
    use ingest::stream::TopicPart;
    use schemas::UtcMicros;
    use schemas::batch::Cover;

    use super::super::coverage::Stretches;
    use super::*;

    #[test]
    fn only_what_has_changed_is_published() {
        let journal = JournalId::new();
        let generation = Arc::new(Generation { topic: "t".into(), id: "g".into(), partitions: 2 });
        let mut topic = TopicProgress {
            part: TopicPart { generation, number: 1 },
            next: 5,
            end: 11,
            lag: 4,
            landings: BTreeMap::from([(journal, Stretches::default())]),
            near_at: None,
        };
        let cover = |from, to| Cover { journal, from, to, mark: None, ended: false, lost: None };
        let covered =
            |covered, missing| Covered { journal, partition: 1, covered, through: UtcMicros(3), ended: false, missing };
        let (mut topics, asked, now) = (Topics::default(), AtomicU32::new(0), Instant::now());
        let follow = |topics: &mut Topics, topic: &TopicProgress| {
            topics.follow(&[topic], now, || {
                asked.fetch_add(1, Ordering::Relaxed);
            })
        };
        assert!(!topics.knows(&[&topic]));
        let reached = Reached { partition: 1, next: 5, end: 9, reading: Reading::Behind };
        assert_eq!(follow(&mut topics, &topic), (vec![], vec![reached]), "no row: nobody waits for it");
        topics.learn(vec![covered(10, None)]);
        assert!(topics.knows(&[&topic]));
        assert_eq!(follow(&mut topics, &topic), (vec![], vec![]));
        let landed = topic.landings.get_mut(&journal).unwrap();
        landed.add(&cover(8, 15));
        landed.add(&cover(20, 30));
        let row = covered(15, Some(Missing { to: 20, asked: 1 }));
        assert_eq!(follow(&mut topics, &topic), (vec![row], vec![]));
        topics.learn(vec![covered(10, None)]);
        assert_eq!(follow(&mut topics, &topic), (vec![], vec![]), "known better");
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        assert!(!topics.knows(&[&topic]), "a hole may be closed by what others have published");
        topics.learn(vec![covered(20, None)]);
        assert!(topics.knows(&[&topic]));
        assert_eq!(follow(&mut topics, &topic), (vec![covered(30, None)], vec![]));
        topics.keep(&[&topic]);
        assert!(topics.knows(&[&topic]));
        topics.keep(&[]);
        assert!(!topics.knows(&[&topic]), "who comes back reads anew");
        assert_eq!(follow(&mut topics, &topic), (vec![], vec![reached]));
    }

    #[test]
    fn that_a_partition_is_read_is_told_again_and_again_and_whether_up_to_its_end() {
        let generation = Arc::new(Generation { topic: "t".into(), id: "g".into(), partitions: 2 });
        let part = TopicPart { generation, number: 1 };
        let (start, mut topics) = (Instant::now(), Topics::default());
        let mut told = |seconds: u64, near_at: Option<u64>| {
            let near_at = near_at.map(|at| start + Duration::from_secs(at));
            let topic =
                TopicProgress { part: part.clone(), next: 5, end: 5, lag: 0, landings: BTreeMap::new(), near_at };
            let (_, reached) = topics.follow(&[&topic], start + Duration::from_secs(seconds), || {});
            reached.first().map(|one| one.reading)
        };
        assert_eq!(told(0, None), Some(Reading::Behind));
        assert_eq!(told(9, None), None);
        assert_eq!(told(10, Some(10)), Some(Reading::Near));
        assert_eq!(told(15, Some(14)), None);
        assert_eq!(told(20, Some(14)), Some(Reading::Near), "it is told again");
        assert_eq!(told(29, Some(14)), None);
        assert_eq!(told(34, Some(14)), Some(Reading::Behind), "whoever should know hasn't looked, or can't read on");
    }
}
