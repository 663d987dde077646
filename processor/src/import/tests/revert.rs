//! Imports taken back: what is left is the union of the others, whatever overlapped, waited, was killed or under way.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::union::{Made, made};
use super::*;

impl Bench {
    /// Takes an import back, and takes in again what that asks for, from `texts` by their first lines' import ids.
    async fn revert(&self, id: &str, texts: &[(String, String)]) -> Reverted {
        loop {
            // one that fails is repeated, as is what it asks for
            let Ok(reverted) = self.importer.revert(id).await else { continue };
            for other in &reverted.again {
                let text = texts.iter().find(|(id, _)| *id == other.summary.id).map(|(_, text)| text.clone()).unwrap();
                while !self.take_in_again(other, &text).await {}
            }
            return reverted;
        }
    }

    async fn take_in_again(&self, log: &Stored, text: &str) -> bool {
        let bytes = std::io::Cursor::new(text.as_bytes().to_vec());
        let input = Input::stream("again.log", bytes).expecting(&log.sha256);
        let summary = self.importer.import(input, log.options.clone().unwrap(), |_| {}).await;
        assert!(summary.as_ref().map_or(true, |one| one.adds_up() && one.state == State::Done), "{summary:?}");
        summary.is_ok()
    }

    async fn shown(&self, id: &str) -> Summary {
        stored(&self.lake, Some(id)).await.unwrap().remove(0).summary
    }
}

fn codes(rows: &[(String, String)]) -> Vec<&str> {
    rows.iter().map(|(code, _)| code.as_str()).collect()
}

#[tokio::test]
async fn rows_go_and_what_they_had_counted_counts_again() {
    let bench = bench();
    bench.journals.set_final(UtcMicros::now());
    let (x, y, z) = (line(1, 5_000, "HIT", "x"), line(2, 5_000, "MISS", "y"), line(3, 5_000, "HIT", "z"));
    let first = [x.clone(), y.clone(), "{broken\n".to_owned()].concat();
    let second = [x.clone(), z.clone()].concat();
    let elsewhere = [line(9, 90_000, "HIT", "w")].concat();
    let (a, b, c) = (bench.import(&first).await, bench.import(&second).await, bench.import(&elsewhere).await);
    assert_eq!((b.added.edge, b.already_counted), (1, 1));
    let texts = [(b.id.clone(), second.clone()), (c.id.clone(), elsewhere)];

    let queued = bench.importer.revert(&a.id).await.unwrap();
    assert_eq!((queued.removed, queued.removed_waiting, queued.was_gone, queued.again.len()), (2, 0, false, 1));
    assert_eq!(bench.shown(&b.id).await.state, State::Queued, "until it is taken in again");
    let changing = async || {
        let all = changing(&bench.lake.table(Table::EdgeFiles).await.unwrap()).await.unwrap();
        all.into_iter().map(|import| (import.summary.id.clone(), import.span())).collect::<Vec<_>>()
    };
    assert_eq!(changing().await, [(b.id.clone(), (b.first.unwrap(), b.last.unwrap()))], "numbers may lack its lines");
    // killed here, a repeat finishes the job
    let repeated = bench.revert(&a.id, &texts).await;
    assert_eq!((repeated.removed, repeated.was_gone, repeated.again.len()), (0, true, 1));
    assert_eq!(codes(&bench.rows(Table::Clicks).await), ["w", "x", "z"]);
    assert_eq!(bench.count(Table::Rejects).await, 0);
    assert!(changing().await.is_empty());
    let (a_now, b_now) = (bench.shown(&a.id).await, bench.shown(&b.id).await);
    assert!(a_now.adds_up() && a_now.state == State::Reverted && a_now.ignored.reverted == 2, "{a_now:?}");
    assert_eq!((b_now.state, b_now.added.edge, b_now.already_counted), (State::Done, 2, 0));
    assert_eq!(bench.revert(&a.id, &texts).await.again.len(), 0, "there is nothing left to do");

    let why: Vec<String> = bench
        .batches(Table::Restatements, &["why"])
        .await
        .iter()
        .flat_map(|batch| batch.column(0).as_string::<i32>().iter().flatten().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    assert_eq!(why.iter().filter(|why| *why == "revert").count(), 1);
    assert_eq!(why.len(), 5, "three imports, the revert, and what came again: {why:?}");

    let again = bench.import(&first).await;
    assert_eq!((again.added.recovered, again.already_counted, again.rejected_total()), (1, 1, 1));
    assert_eq!(bench.shown(&a.id).await.state, State::Done);
    assert_eq!((bench.count(Table::EdgeFiles).await, bench.count(Table::Rejects).await), (3, 1));
    assert_eq!(codes(&bench.rows(Table::Clicks).await), ["w", "x", "y", "z"]);
    let unknown = bench.importer.revert("0123").await.unwrap_err();
    assert!(matches!(unknown, RevertError::Unknown(_)), "{unknown}");
}

/// A log that is gone is named, and isn't missed by whoever takes others back; delivered again it is in.
#[tokio::test]
async fn what_cannot_be_taken_in_again_is_given_up_until_it_comes() {
    let bench = bench();
    bench.journals.set_final(UtcMicros::now());
    let (x, y, z) = (line(1, 5_000, "HIT", "x"), line(2, 5_000, "HIT", "y"), line(3, 5_000, "HIT", "z"));
    let (first, second) = ([x.clone(), y].concat(), [x, z.clone()].concat());
    let third = [z, line(4, 5_000, "HIT", "w")].concat();
    let (a, b, c) = (bench.import(&first).await, bench.import(&second).await, bench.import(&third).await);
    let queued = bench.importer.revert(&a.id).await.unwrap().again;
    assert_eq!(queued.iter().map(|log| log.summary.again_for.as_deref()).collect::<Vec<_>>(), [Some(&*a.id); 2]);
    assert_eq!(bench.shown(&b.id).await.again_for.as_deref(), Some(&*a.id));
    assert!(bench.take_in_again(&queued[1], &third).await);
    bench.importer.give_up(&b.id, "its file is gone").await.unwrap();
    bench.importer.give_up(&c.id, "it is in").await.unwrap();
    let failed = bench.shown(&b.id).await;
    assert!(failed.adds_up() && failed.state == State::Failed, "{failed:?}");
    assert!(failed.note.as_ref().is_some_and(|note| note.contains("its file is gone")), "{failed:?}");
    let left = unfinished(&bench.lake).await.unwrap();
    assert_eq!(left.iter().map(|log| &log.summary.id).collect::<Vec<_>>(), [&b.id]);

    let others = bench.importer.revert(&c.id).await.unwrap().again;
    assert_eq!(others.iter().map(|log| log.summary.again_for.as_deref()).collect::<Vec<_>>(), [Some(&*a.id)]);
    assert_eq!(bench.import(&second).await.added.edge, 2, "one has come now, the other was its own before");
    assert_eq!((bench.shown(&b.id).await.state, bench.shown(&b.id).await.again_for), (State::Done, None));
    assert_eq!(codes(&bench.rows(Table::Clicks).await), ["x", "z"]);
    assert!(unfinished(&bench.lake).await.unwrap().is_empty());
}

#[tokio::test]
async fn other_bytes_under_the_old_name_are_refused() {
    let bench = bench();
    let input = Input::stream("a.log", std::io::Cursor::new(line(1, 5_000, "HIT", "x").into_bytes())).expecting("00");
    let error = bench.importer.import(input, ImportOptions::default(), |_| {}).await.unwrap_err();
    assert!(error.is_refusal() && error.to_string().starts_with("a.log: holds other bytes"), "{error}");
}

/// What a revert says in the end doesn't depend on whether it was broken off when the rows were gone.
#[tokio::test]
async fn a_revert_that_goes_on_knows_what_was_there() {
    let bench = bench();
    let id = bench.import(&long_log(10)).await.id;
    // what is done is named first, and told of when the rows are gone
    bench.store.arm("edge_files/_delta_log", 2, Fault::Before);
    bench.importer.revert(&id).await.unwrap_err();
    bench.store.disarm();
    assert_eq!(bench.count(Table::Clicks).await, 0);
    let reverted = bench.importer.revert(&id).await.unwrap();
    assert_eq!((reverted.removed, reverted.counted_elsewhere, reverted.was_gone), (0, 0, false));
}

/// An import under way while another is taken back may have counted lines by the rows that go: it begins anew.
#[tokio::test]
async fn an_import_under_way_begins_anew() {
    let chunks = ImportConfig { chunk_lines: 1, ..ImportConfig::default() };
    let bench = bench_with(Journals::default(), chunks);
    let whole = long_log(12_000);
    let part: String = whole.lines().take(3_000).map(|line| format!("{line}\n")).collect();
    let first = bench.import(&part).await;
    let gate = Gate::new();
    // chunks whose lines are all counted are commits too
    bench.store.arm("clicks/_delta_log", 2, Fault::Hold(gate.clone()));
    let importer = bench.importer.clone();
    let input = Input::stream("b", std::io::Cursor::new(whole.clone().into_bytes()));
    let under_way = tokio::spawn(async move { importer.import(input, ImportOptions::default(), |_| {}).await });
    gate.reached().await;
    let reverted = bench.importer.revert(&first.id).await.unwrap();
    assert_eq!((reverted.removed, reverted.again.len()), (3_000, 0));
    gate.open();
    let summary = under_way.await.unwrap().unwrap();
    assert!(summary.adds_up() && summary.added.edge == 12_000, "{summary:?}");
    assert_eq!((bench.count(Table::Clicks).await, bench.distinct_ids().await), (12_000, 12_000));
    assert_eq!(bench.shown(&summary.id).await.added.edge, 12_000);
}

/// Puts that a fault may hit, of all that a revert writes.
const PUTS: [&str; 7] = [
    "clicks/_delta_log",
    "arrivals/_delta_log",
    "edge_files/_delta_log",
    "rejects/_delta_log",
    "restatements/_delta_log",
    "clicks/date",
    "arrivals/",
];

/// What is done after a revert was killed.
#[derive(Clone, Copy, Debug)]
enum Then {
    /// The same again.
    Revert,
    /// All but the import that was to be taken back are brought again, then the same.
    BringOthers,
    /// All are brought again, and the revert is called off with it.
    BringAll,
}

async fn whatever_is_taken_back(
    files: &[Vec<Made>],
    (victim, open, then): (usize, bool, Then),
    fault: Option<(usize, usize, bool)>,
) -> Result<(), TestCaseError> {
    let now = UtcMicros::now();
    let journals = if open {
        Journals::open(now.minus(Duration::from_secs(9_000_000)), now.minus(Duration::from_secs(300)))
    } else {
        Journals::default()
    };
    let bench = bench_with(journals, ImportConfig::default());
    bench.journals.set_final(now.minus(Duration::from_secs(1_000)));
    let mut taken: Vec<(String, String)> = Vec::new();
    for lines in files {
        let text: String = lines.iter().map(|line| line.text(now)).collect();
        // a file may be of no lines that any format knows
        let Ok(summary) = bench.import_with(&text, ImportOptions::default()).await else { continue };
        taken.push((summary.id, text));
    }
    if taken.is_empty() {
        return Ok(());
    }
    let victim = taken[victim % taken.len()].0.clone();
    if let Some((put, nth, after)) = fault {
        bench.store.arm(PUTS[put % PUTS.len()], nth, if after { Fault::After } else { Fault::Before });
        let before = bench.count(Table::Clicks).await + bench.count(Table::Arrivals).await;
        // whatever it comes to: it is killed now
        let is_done = bench.importer.revert(&victim).await.is_ok();
        let gone = before - bench.count(Table::Clicks).await - bench.count(Table::Arrivals).await;
        let state = bench.shown(&victim).await.state;
        let is_named = matches!(state, State::Reverting | State::Reverted);
        prop_assert!(is_named || !is_done && gone == 0, "{gone} rows went, and it is {state:?}");
        for (id, text) in taken.iter().filter(|(id, _)| *id != victim || matches!(then, Then::BringAll)) {
            while !matches!(then, Then::Revert) && bench.import_with(text, ImportOptions::default()).await.is_err() {}
            prop_assert!(bench.shown(id).await.adds_up());
        }
    }
    let is_called_off = fault.is_some() && matches!(then, Then::BringAll);
    if !is_called_off {
        bench.revert(&victim, &taken).await;
    }
    // a put that never came leaves its fault for others
    bench.store.disarm();
    let shown = bench.shown(&victim).await;
    let state = if is_called_off { State::Done } else { State::Reverted };
    prop_assert!(shown.adds_up() && shown.state == state, "{shown:?}");
    let left_over = unfinished(&bench.lake).await.unwrap();
    prop_assert!(left_over.is_empty(), "{left_over:?}");

    bench.journals.set(UtcMicros(0), now.plus(Duration::from_secs(5_000)));
    let mut settler = bench.settler().await;
    // corrections are found in the first pass, and made in the second
    for seconds in [5_000, 5_300] {
        let late = now.plus(Duration::from_secs(seconds));
        // a fault that no revert has come upon hits the settler, which tries again
        if settler.pass_at(late).await.is_err() {
            prop_assert!(bench.store.is_spent());
            settler.pass_at(late).await.unwrap();
        }
    }
    let mut left = BTreeSet::new();
    for lines in files {
        let text: String = lines.iter().map(|line| line.text(now)).collect();
        if taken.iter().any(|(id, other)| *other == text && (is_called_off || *id != victim)) {
            left.extend(lines.iter().filter_map(Made::click));
        }
    }
    prop_assert_eq!(bench.count(Table::Arrivals).await, 0);
    prop_assert_eq!(bench.count(Table::Clicks).await, left.len());
    prop_assert_eq!(bench.distinct_ids().await, left.len());
    for import in stored(&bench.lake, None).await.unwrap() {
        prop_assert!(import.summary.adds_up() && import.summary.waiting == 0, "{import:?}");
        prop_assert!(import.summary.state == State::Done || import.summary.id == victim, "{import:?}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn what_is_left_is_the_union_of_the_others(
        files in proptest::collection::vec(proptest::collection::vec(made(), 1..20), 1..5),
        victim in (
            0usize..5,
            any::<bool>(),
            proptest::sample::select(&[Then::Revert, Then::BringOthers, Then::BringAll][..]),
        ),
        fault in proptest::option::weighted(0.8, (0usize..PUTS.len(), 1usize..7, any::<bool>())),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(whatever_is_taken_back(&files, victim, fault))?;
    }
}
