use super::super::testing::{Place, on_each_database};
use super::*;
use proptest::prelude::*;

/// Long ago: nothing is published that is later than the databases' own clocks.
const NOW: UtcMicros = UtcMicros(1_573_480_413_123_456);

on_each_database!(
    with_no_journal_all_is_complete_until_now_and_stays_so,
    the_slowest_open_journal_holds_it_back,
    progress_never_goes_back,
    registering_again_finds_the_first_mark,
    a_journal_that_is_over_stays_so,
    progress_of_an_unknown_journal_is_refused_as_a_whole,
    final_through_is_unknown_until_published_and_never_goes_back,
);

fn later(micros: i64) -> UtcMicros {
    UtcMicros(NOW.0 + micros)
}

fn landed(id: JournalId, through: UtcMicros, committed: u64) -> Landed {
    Landed { id, through, committed }
}

async fn with_no_journal_all_is_complete_until_now_and_stays_so(place: Place) {
    let store = place.store().await;
    assert_eq!(store.complete_through(NOW).await.unwrap(), NOW);
    assert_eq!(store.complete_through(later(-5)).await.unwrap(), NOW);
    assert_eq!(store.publish(&[], later(7)).await.unwrap(), later(7));
    // What was answered binds a journal that joins with a clock behind.
    assert_eq!(store.register(JournalId::new(), "n", NOW).await.unwrap(), later(7));
}

async fn the_slowest_open_journal_holds_it_back(place: Place) {
    let store = place.store().await;
    let (a, b) = (JournalId::new(), JournalId::new());
    assert_eq!(store.register(a, "one", NOW).await.unwrap(), NOW);
    assert_eq!(store.register(b, "two", later(10)).await.unwrap(), later(10));
    assert_eq!(store.complete_through(later(99)).await.unwrap(), NOW);
    let other = place.store().await;
    assert_eq!(other.publish(&[landed(a, later(50), 5)], later(99)).await.unwrap(), later(10));
    assert_eq!(store.publish(&[landed(b, later(40), 9)], later(99)).await.unwrap(), later(40));
    store.set_state(b, JournalState::Retired).await.unwrap();
    assert_eq!(store.publish(&[], later(99)).await.unwrap(), later(50));
    store.set_state(a, JournalState::Closed).await.unwrap();
    assert_eq!(other.complete_through(later(99)).await.unwrap(), later(99));
    let journals = store.journals().await.unwrap();
    let seen: Vec<_> = journals.iter().map(|j| (j.node.as_str(), j.state, j.through, j.committed)).collect();
    use JournalState::{Closed, Retired};
    assert_eq!(seen, [("one", Closed, later(50), 5), ("two", Retired, later(40), 9)]);
    assert_eq!(journals[1].registered_at, later(10));
}

async fn progress_never_goes_back(place: Place) {
    let store = place.store().await;
    let id = JournalId::new();
    store.register(id, "n", NOW).await.unwrap();
    store.publish(&[landed(id, later(50), 5)], NOW).await.unwrap();
    assert_eq!(store.publish(&[landed(id, later(20), 9)], NOW).await.unwrap(), later(50));
    store.publish(&[landed(id, later(60), 2)], NOW).await.unwrap();
    let journal = store.journals().await.unwrap().remove(0);
    assert_eq!((journal.through, journal.committed), (later(60), 9));
}

async fn registering_again_finds_the_first_mark(place: Place) {
    let store = place.store().await;
    let id = JournalId::new();
    assert_eq!(store.register(id, "n", NOW).await.unwrap(), NOW);
    assert_eq!(store.register(id, "n", later(9)).await.unwrap(), NOW);
    store.set_state(id, JournalState::Closed).await.unwrap();
    let refused = store.register(id, "n", later(9)).await.unwrap_err().to_string();
    assert_eq!(refused, format!("registering a journal: journal {id} is closed"));
}

async fn a_journal_that_is_over_stays_so(place: Place) {
    use JournalState::{Closed, Open, Retired};
    let store = place.store().await;
    let state = async |id| store.journals().await.unwrap().into_iter().find(|j| j.id == id).unwrap().state;
    for (path, end) in [
        (vec![Open], Open),
        (vec![Closed, Closed], Closed),
        (vec![Closed, Retired], Closed),
        (vec![Retired, Retired], Retired),
        // It came back, and all of it has been taken as late.
        (vec![Retired, Closed], Closed),
    ] {
        let id = JournalId::new();
        store.register(id, "n", NOW).await.unwrap();
        for step in path {
            store.set_state(id, step).await.unwrap();
        }
        assert_eq!(state(id).await, end);
        assert_eq!(store.set_state(id, Open).await.is_ok(), end == Open);
    }
    assert!(store.set_state(JournalId::new(), Closed).await.is_err());
}

async fn progress_of_an_unknown_journal_is_refused_as_a_whole(place: Place) {
    let store = place.store().await;
    let id = JournalId::new();
    store.register(id, "n", NOW).await.unwrap();
    let batch = [landed(id, later(5), 1), landed(JournalId::new(), later(5), 1)];
    assert!(store.publish(&batch, NOW).await.is_err());
    assert_eq!(store.journals().await.unwrap()[0].through, NOW);
}

async fn final_through_is_unknown_until_published_and_never_goes_back(place: Place) {
    let store = place.store().await;
    assert_eq!(store.final_through().await.unwrap(), None);
    assert_eq!(store.publish_final_through(NOW).await.unwrap(), NOW);
    assert_eq!(place.store().await.publish_final_through(later(-1)).await.unwrap(), NOW);
    assert_eq!(store.final_through().await.unwrap(), Some(NOW));
}

/// What nodes, clocks that disagree and processors do, in any order.
#[derive(Clone, Debug)]
enum Step {
    Register { clock: i64 },
    Publish { journal: usize, ahead: i64, committed: u64, clock: i64 },
    Read { clock: i64 },
    End { journal: usize, state: JournalState },
}

fn step() -> impl Strategy<Value = Step> {
    let ends = prop_oneof![Just(JournalState::Closed), Just(JournalState::Retired), Just(JournalState::Open)];
    prop_oneof![
        2 => (-50..200i64).prop_map(|clock| Step::Register { clock }),
        6 => (0..6usize, -20..40i64, 0..99u64, -50..200i64)
            .prop_map(|(journal, ahead, committed, clock)| Step::Publish { journal, ahead, committed, clock }),
        2 => (-50..200i64).prop_map(|clock| Step::Read { clock }),
        2 => (0..6usize, ends).prop_map(|(journal, state)| Step::End { journal, state }),
    ]
}

/// Runs the steps on two handles in turn; checks what must always hold.
async fn check(steps: Vec<Step>, place: &Place) -> Result<(), TestCaseError> {
    let handles = [place.store().await, place.store().await];
    let mut known: Vec<JournalId> = Vec::new();
    let mut published = UtcMicros(i64::MIN);
    for (n, step) in steps.into_iter().enumerate() {
        let store = &handles[n % 2];
        match step {
            Step::Register { clock } => {
                let id = JournalId::new();
                let mark = store.register(id, "n", later(clock)).await.unwrap();
                prop_assert!(mark >= published && mark >= later(clock));
                known.push(id);
            }
            Step::Publish { journal, ahead, committed, clock } => {
                let journals = store.journals().await.unwrap();
                let one = journals.get(journal).map(|j| landed(j.id, UtcMicros(j.through.0 + ahead), committed));
                let now = store.publish(one.as_slice(), later(clock)).await.unwrap();
                prop_assert!(now >= published);
                published = now;
            }
            Step::Read { clock } => {
                let now = store.complete_through(later(clock)).await.unwrap();
                prop_assert!(now >= published);
                published = now;
            }
            Step::End { journal, state } => {
                if let Some(id) = known.get(journal) {
                    // Going back to open is refused; whatever comes of it, the rules below hold.
                    let _ = store.set_state(*id, state).await;
                }
            }
        }
        let journals = store.journals().await.unwrap();
        prop_assert_eq!(journals.len(), known.len());
        let open: Vec<_> = journals.iter().filter(|j| j.state == JournalState::Open).collect();
        prop_assert!(open.iter().all(|j| j.through >= published), "{:?} below {:?}", open, published);
        prop_assert!(journals.iter().all(|j| j.through >= j.registered_at));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn nothing_open_is_ever_before_what_was_published(steps in prop::collection::vec(step(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(check(steps, &Place::folder()))?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]
    #[test]
    fn nor_on_a_server(steps in prop::collection::vec(step(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        if let Some(place) = Place::server("links::registry::tests::nor_on_a_server") {
            runtime.block_on(check(steps, &place))?;
        }
    }
}
