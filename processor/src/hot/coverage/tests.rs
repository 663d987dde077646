use proptest::prelude::*;

use super::*;

fn cover(from: u64, to: u64) -> Cover {
    let journal = JournalId(Default::default());
    Cover { journal, from, to, mark: None, ended: false, lost: None }
}

fn row(covered: u64) -> Covered {
    let journal = JournalId(Default::default());
    Covered { journal, partition: 0, covered, through: UtcMicros(0), ended: false, missing: None }
}

fn landed(covers: &[(u64, u64)]) -> Stretches {
    let mut stretches = Stretches::default();
    covers.iter().for_each(|(from, to)| stretches.add(&cover(*from, *to)));
    stretches
}

#[test]
fn what_touches_becomes_one_and_a_hole_stays() {
    let stretches = landed(&[(0, 5), (5, 9), (20, 30), (8, 10)]);
    assert_eq!(stretches.0.len(), 2);
    assert_eq!(stretches.reach(0).0.to, 10);
    assert_eq!(stretches.reach(0).1, Some(20));
    assert_eq!(stretches.reach(15), (Stretch { to: 15, mark: None, ended: false }, Some(20)));
    assert_eq!(stretches.reach(25).0.to, 30);
    assert_eq!(landed(&[(0, 5), (20, 30), (4, 21)]).0.len(), 1);
}

#[test]
fn a_mark_counts_when_it_is_reached() {
    let mut published = Published::new(row(0));
    let mut stretches = landed(&[(0, 5)]);
    stretches.add(&Cover { mark: Some(UtcMicros(70)), ended: true, ..cover(8, 9) });
    let now = Instant::now();
    let news = published.follow(&stretches, 2, 2, now).unwrap();
    assert_eq!((news.covered, news.through, news.ended), (5, UtcMicros(0), false));
    assert_eq!(news.missing, Some(Missing { to: 8, asked: 1 }));
    assert_eq!(published.follow(&stretches, 2, 2, now), None, "nothing new");
    stretches.add(&cover(5, 8));
    let news = published.follow(&stretches, 3, 3, now).unwrap();
    assert_eq!((news.covered, news.through, news.ended, news.missing), (9, UtcMicros(70), true, None));
    assert_eq!(published.row(), &news);
}

#[test]
fn an_end_is_one_only_where_it_was_said() {
    let mut stretches = landed(&[(0, 5)]);
    stretches.add(&Cover { ended: true, ..cover(5, 5) });
    assert!(stretches.reach(0).0.ended);
    stretches.add(&cover(3, 4));
    assert!(stretches.reach(0).0.ended, "a repeat takes nothing back");
    let mut early = Stretches::default();
    early.add(&Cover { ended: true, ..cover(5, 5) });
    assert_eq!((early.reach(4).0.ended, early.reach(5).0.ended), (false, true));
}

#[test]
fn what_does_not_come_is_asked_for_again_but_not_before_it_could_have() {
    let (start, stretches) = (Instant::now(), landed(&[(7, 9)]));
    let mut published = Published::new(row(5));
    let mut asked = |at: u64, next, end| {
        let now = start + Duration::from_secs(at);
        published.follow(&stretches, next, end, now).map(|row| row.missing.unwrap().asked)
    };
    assert_eq!(asked(0, 100, 100), Some(1));
    assert_eq!(asked(9, 200, 200), None, "it may be on its way");
    assert_eq!(asked(10, 200, 500), None, "it may be before 500");
    assert_eq!(asked(90, 499, 900), None);
    assert_eq!(asked(91, 500, 900), Some(2));
    assert_eq!(asked(92, 600, 900), None);
}

#[test]
fn what_is_on_its_way_is_not_asked_for_again_when_some_of_it_has_come() {
    let (start, mut stretches) = (Instant::now(), landed(&[(30, 40)]));
    let mut published = Published::new(row(10));
    let mut follow = |stretches: &Stretches, at: u64, next: u64| {
        published.follow(stretches, next, 900, start + Duration::from_secs(at)).map(|row| (row.covered, row.missing))
    };
    let missing = |asked| Some(Missing { to: 30, asked });
    assert_eq!(follow(&stretches, 0, 900), Some((10, missing(1))));
    stretches.add(&cover(10, 15));
    assert_eq!(follow(&stretches, 9, 900), Some((15, missing(1))));
    stretches.add(&cover(20, 25));
    assert_eq!(follow(&stretches, 12, 900), None, "it has gone on at 9");
    assert_eq!(follow(&stretches, 19, 900), Some((15, Some(Missing { to: 20, asked: 2 }))), "but not since");
    stretches.add(&cover(15, 20));
    assert_eq!(follow(&stretches, 20, 900), Some((25, missing(3))), "another hole");
}

#[test]
fn what_others_publish_closes_holes_and_nothing_goes_back() {
    let (now, mut stretches) = (Instant::now(), landed(&[(0, 5)]));
    let mut published = Published::new(row(0));
    published.follow(&stretches, 1, 1, now);
    // another one has had the partition meanwhile
    stretches.add(&Cover { mark: Some(UtcMicros(90)), ..cover(20, 30) });
    assert!(published.has_hole(&stretches));
    published.learn(Covered { through: UtcMicros(60), missing: Some(Missing { to: 20, asked: 7 }), ..row(12) });
    assert!(published.has_hole(&stretches));
    let news = published.follow(&stretches, 2, 2, now).unwrap();
    assert_eq!((news.covered, news.through, news.missing), (12, UtcMicros(60), Some(Missing { to: 20, asked: 8 })));
    published.learn(Covered { ended: true, ..row(30) });
    assert!(!published.has_hole(&stretches));
    let news = published.follow(&stretches, 2, 2, now).unwrap();
    assert_eq!((news.covered, news.through, news.ended, news.missing), (30, UtcMicros(90), true, None));
    published.learn(row(3));
    assert_eq!(published.row(), &news);
}

#[test]
fn stretches_are_bounded_and_the_last_are_forgotten() {
    let covers: Vec<(u64, u64)> = (0..200).map(|n| (n * 10, n * 10 + 1)).collect();
    let stretches = landed(&covers);
    assert_eq!(stretches.0.len(), STRETCHES);
    assert_eq!(stretches.reach(0).0.to, 1);
}

proptest! {
    /// However often and in whatever order batches come, with whatever of them lost: the journal is covered exactly up to the
    /// first position that no batch from the base on has covered.
    #[test]
    fn coverage_ends_at_the_first_position_that_is_missing(
        base in 0u64..40,
        covers in proptest::collection::vec((0u64..100, 0u64..12), 0..40),
    ) {
        let mut stretches = Stretches::default();
        let mut has = [false; 120];
        for (from, length) in covers {
            stretches.add(&cover(from, from + length));
            (from..from + length).for_each(|at| has[at as usize] = true);
        }
        let (reached, hole) = stretches.reach(base);
        let expected = (base..).find(|at| !has[*at as usize]).unwrap();
        prop_assert_eq!(reached.to, expected);
        if let Some(to) = hole {
            prop_assert!(to > expected && (expected..to).all(|at| !has[at as usize]));
        } else {
            prop_assert!(!has[expected as usize..].iter().any(|has| *has));
        }
    }
}
