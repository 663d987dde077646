use super::super::testing::{Place, on_each_database};
use super::*;

const LASTS: Duration = Duration::from_secs(3_600);

on_each_database!(
    two_share_a_stream_and_no_partition,
    what_is_given_back_is_somebody_elses,
    a_word_that_has_ended_binds_nobody,
    streams_are_shared_apart,
    who_holds_what_is_told,
    claims_at_once_give_no_partition_to_two,
);

/// A lease, to be looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Lease {
    /// The stream.
    stream: String,
    /// The partition.
    part: u32,
    /// Who reads it, or has read it last.
    owner: String,
    /// Until when nobody else may, by the database's clock.
    until: UtcMicros,
    /// The how-manieth owner that is.
    generation: i64,
}

impl LinkStore {
    /// All leases, by stream and partition; those that have ended, too.
    async fn leases(&self) -> Result<Vec<Lease>, LinkError> {
        const DOING: &str = "reading leases";
        let sql = "SELECT stream, part, owner, until, generation FROM leases ORDER BY stream, part";
        let rows = self.pools.query(sql).rows().await.doing(DOING)?;
        let lease = |row: &Row| {
            Ok(Lease {
                stream: row.get("stream")?,
                part: row.count("part")?,
                owner: row.get("owner")?,
                until: UtcMicros(row.get("until")?),
                generation: row.get("generation")?,
            })
        };
        rows.iter().map(lease).collect::<Result<_, sqlx::Error>>().doing(DOING)
    }
}

async fn claim(store: &LinkStore, member: &str, lasts: Duration, gives_back: &[u32]) -> Claimed {
    let claim = Claim { stream: "clicks@1", partitions: 4, member, lasts, gives_back };
    store.claim_partitions(&claim).await.unwrap()
}

fn parts(claimed: &Claimed) -> Vec<u32> {
    claimed.held.iter().copied().collect()
}

async fn two_share_a_stream_and_no_partition(place: Place) {
    let (one, other) = (place.store().await, place.store().await);
    let first = claim(&one, "a", LASTS, &[]).await;
    assert_eq!((parts(&first), first.members), (vec![0, 1, 2, 3], 1));
    assert_eq!(parts(&claim(&other, "b", LASTS, &[]).await), [] as [u32; 0]);
    let first = claim(&one, "a", LASTS, &[]).await;
    assert_eq!((parts(&first), first.surplus), (vec![0, 1, 2, 3], BTreeSet::from([2, 3])));
    assert_eq!(parts(&claim(&other, "b", LASTS, &[]).await), [] as [u32; 0], "they may still be read");
    let first = claim(&one, "a", LASTS, &[2, 3]).await;
    assert_eq!((parts(&first), first.surplus.len()), (vec![0, 1], 0));
    let second = claim(&other, "b", LASTS, &[]).await;
    assert_eq!((parts(&second), second.members), (vec![2, 3], 2));
    let generations: Vec<i64> = one.leases().await.unwrap().iter().map(|lease| lease.generation).collect();
    assert_eq!(generations, [1, 1, 2, 2]);
}

async fn what_is_given_back_is_somebody_elses(place: Place) {
    let store = place.store().await;
    claim(&store, "a", LASTS, &[]).await;
    claim(&store, "b", LASTS, &[]).await;
    assert_eq!(store.leave_partitions("a").await.unwrap(), 4);
    let second = claim(&store, "b", LASTS, &[]).await;
    assert_eq!((parts(&second), second.members), (vec![0, 1, 2, 3], 1));
    // what isn't one's own can't be given back
    claim(&store, "a", LASTS, &[0, 1, 2, 3]).await;
    assert_eq!(store.leave_partitions("a").await.unwrap(), 0);
    assert_eq!(parts(&claim(&store, "b", LASTS, &[]).await), [0, 1, 2, 3]);
}

async fn a_word_that_has_ended_binds_nobody(place: Place) {
    let store = place.store().await;
    claim(&store, "gone", Duration::ZERO, &[]).await;
    let next = claim(&store, "next", LASTS, &[]).await;
    assert_eq!((parts(&next), next.members), (vec![0, 1, 2, 3], 1));
    // it was only paused: it finds that nothing is its own any more
    let woken = claim(&store, "gone", LASTS, &[]).await;
    assert_eq!((parts(&woken), woken.members), (vec![], 2));
    let owners: BTreeSet<String> = store.leases().await.unwrap().into_iter().map(|lease| lease.owner).collect();
    assert_eq!(owners, BTreeSet::from(["next".to_owned()]));
}

async fn streams_are_shared_apart(place: Place) {
    let store = place.store().await;
    claim(&store, "a", LASTS, &[]).await;
    let other = Claim { stream: "clicks@2", partitions: 2, member: "b", lasts: LASTS, gives_back: &[] };
    let claimed = store.claim_partitions(&other).await.unwrap();
    assert_eq!((parts(&claimed), claimed.members), (vec![0, 1], 1));
    assert_eq!(store.leases().await.unwrap().len(), 6);
}

async fn who_holds_what_is_told(place: Place) {
    let store = place.store().await;
    claim(&store, "gone", Duration::ZERO, &[]).await;
    assert_eq!(store.holders("clicks@1").await.unwrap().len(), 0, "a word that has ended holds nothing");
    claim(&store, "a", LASTS, &[]).await;
    claim(&store, "b", LASTS, &[]).await;
    claim(&store, "a", LASTS, &[3]).await;
    let told = store.holders("clicks@1").await.unwrap();
    assert_eq!(told.keys().copied().collect::<Vec<_>>(), [0, 1, 2]);
    let leases = store.leases().await.unwrap();
    assert!(told.values().all(|holder| holder.owner == "a" && holder.until > leases[3].until), "{told:?}");
    assert_eq!(store.holders("clicks@2").await.unwrap().len(), 0);
}

async fn claims_at_once_give_no_partition_to_two(place: Place) {
    let store = place.store().await;
    let claims = (0..6).map(|member| {
        let place = place.location();
        tokio::spawn(async move {
            let domains = super::super::Domains::new(&["sho.rt"]).unwrap();
            let store = LinkStore::open(&place, domains).await.unwrap();
            let mut held = BTreeSet::new();
            for _ in 0..4 {
                let claimed = claim(&store, &format!("m{member}"), LASTS, &[]).await;
                let back: Vec<u32> = claimed.surplus.iter().copied().collect();
                held = claim(&store, &format!("m{member}"), LASTS, &back).await.held;
            }
            held
        })
    });
    let ended: Vec<_> = futures::future::join_all(claims).await.into_iter().map(Result::unwrap).collect();
    let leases = store.leases().await.unwrap();
    for (member, held) in ended.iter().enumerate() {
        for part in held {
            // a later claim of its own may have given it up since; nobody else has what it holds
            let lease = leases.iter().find(|lease| lease.part == *part).unwrap();
            assert_eq!(lease.owner, format!("m{member}"));
        }
    }
    assert!(ended.iter().all(|held| held.len() <= 4));
}
