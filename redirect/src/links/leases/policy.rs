//! Who of those that share a stream reads which of its partitions. Pure.
//!
//! Each has its fair share: as many as the others, give or take one, all together every partition. Who has more gives
//! some up, who has less takes what is free; nobody is taken anything from while its word holds.

use std::collections::BTreeSet;

/// A partition's lease that holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Held {
    /// The partition.
    pub(super) part: u32,
    /// Who reads it.
    pub(super) owner: String,
}

/// What one of them does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Decision {
    /// Partitions that it goes on reading.
    pub(super) keep: Vec<u32>,
    /// Partitions that it begins to read.
    pub(super) take: Vec<u32>,
    /// Of those that it keeps, the ones that it is to stop reading, so that others can have them.
    pub(super) give_up: Vec<u32>,
}

/// How many of `partitions` the one at `rank` among `members` has.
fn share(partitions: u32, rank: usize, members: usize) -> usize {
    let (partitions, members) = (partitions as usize, members.max(1));
    partitions / members + usize::from(rank < partitions % members)
}

/// What `me` does, one of `members`, where `held` are the leases that hold.
pub(super) fn decide(partitions: u32, me: &str, members: &BTreeSet<String>, held: &[Held]) -> Decision {
    let rank = members.iter().take_while(|member| member.as_str() < me).count();
    let share = share(partitions, rank, members.len());
    let mine = |held: &&Held| held.owner == me && held.part < partitions;
    let mut keep: Vec<u32> = held.iter().filter(mine).map(|held| held.part).collect();
    keep.sort_unstable();
    let taken: BTreeSet<u32> = held.iter().map(|held| held.part).collect();
    let free = (0..partitions).filter(|part| !taken.contains(part));
    let take = free.take(share.saturating_sub(keep.len())).collect();
    let give_up = keep.get(share..).unwrap_or_default().to_vec();
    Decision { keep, take, give_up }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn held(parts: &[(u32, &str)]) -> Vec<Held> {
        parts.iter().map(|(part, owner)| Held { part: *part, owner: (*owner).to_owned() }).collect()
    }

    #[test]
    fn shares_are_fair_and_whole() {
        for partitions in 0..20 {
            for members in 1..8 {
                let shares: Vec<usize> = (0..members).map(|rank| share(partitions, rank, members)).collect();
                assert_eq!(shares.iter().sum::<usize>(), partitions as usize);
                assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1);
                assert!(*shares.iter().max().unwrap() <= (partitions as usize).div_ceil(members));
            }
        }
    }

    #[test]
    fn the_first_takes_all_and_makes_room_for_the_second() {
        let alone = decide(4, "a", &names(&["a"]), &[]);
        assert_eq!(alone, Decision { take: vec![0, 1, 2, 3], ..Decision::default() });
        let all = held(&[(0, "a"), (1, "a"), (2, "a"), (3, "a")]);
        let both = names(&["a", "b"]);
        assert_eq!(decide(4, "b", &both, &all), Decision::default(), "nothing is taken from anybody");
        let first = decide(4, "a", &both, &all);
        assert_eq!((first.keep, first.give_up), (vec![0, 1, 2, 3], vec![2, 3]));
        let second = decide(4, "b", &both, &held(&[(0, "a"), (1, "a")]));
        assert_eq!(second.take, [2, 3]);
    }

    #[test]
    fn what_its_owner_left_is_shared() {
        // c is gone, and its leases have ended
        let left = held(&[(0, "a"), (3, "b")]);
        let both = names(&["a", "b"]);
        assert_eq!(decide(4, "b", &both, &left).take, [1]);
        assert_eq!(decide(4, "a", &both, &held(&[(0, "a"), (3, "b"), (1, "b")])).take, [2]);
        assert_eq!(decide(2, "c", &names(&["a", "b", "c"]), &[]), Decision::default(), "more members than partitions");
    }

    proptest! {
        /// Whoever comes and goes: a partition has one owner, and once nobody does any more, all are owned, fairly.
        #[test]
        fn they_come_to_rest_with_every_partition_owned(
            partitions in 0u32..12,
            steps in proptest::collection::vec((0usize..5, any::<bool>()), 0..60),
        ) {
            let mut members = BTreeSet::new();
            let mut leases: Vec<Held> = Vec::new();
            let turn = |me: &str, members: &BTreeSet<String>, leases: &mut Vec<Held>| {
                let decision = decide(partitions, me, members, leases);
                leases.retain(|held| held.owner != me || !decision.give_up.contains(&held.part));
                for part in decision.take {
                    assert!(leases.iter().all(|held| held.part != part), "taken from somebody");
                    leases.push(Held { part, owner: me.to_owned() });
                }
            };
            for (number, leaves) in steps {
                let me = format!("m{number}");
                if leaves {
                    members.remove(&me);
                    leases.retain(|held| held.owner != me);
                } else {
                    members.insert(me.clone());
                    turn(&me, &members, &mut leases);
                }
            }
            for _ in 0..2 {
                for me in members.clone() {
                    turn(&me, &members, &mut leases);
                }
            }
            let count = |me: &String| leases.iter().filter(|held| held.owner == *me).count();
            let counts: Vec<usize> = members.iter().map(count).collect();
            if let (Some(most), Some(least)) = (counts.iter().max(), counts.iter().min()) {
                prop_assert_eq!(leases.len(), partitions as usize);
                prop_assert!(most - least <= 1, "{:?}", counts);
            }
        }
    }
}
