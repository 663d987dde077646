//! Whatever lines come in whatever files and order: every summary adds up, and in the end the lake holds the set union.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// A line, as a test makes it up.
#[derive(Clone, Debug)]
pub(super) struct Made {
    id: u64,
    age: i64,
    cache: &'static str,
    code: &'static str,
    status: &'static str,
    method: &'static str,
    cut: bool,
}

impl Made {
    pub(super) fn text(&self, now: UtcMicros) -> String {
        let line = line_at(self.id, UtcMicros(now.0 - self.age * SECOND), self.cache, self.code);
        let line = line.replace("\"302\"", &format!("\"{}\"", self.status));
        let line = line.replace("\"GET\"", &format!("\"{}\"", self.method));
        if self.cut { format!("{}\n", &line[..line.len() / 2]) } else { line }
    }

    /// What identifies the click, if it is one.
    pub(super) fn click(&self) -> Option<(u64, &'static str)> {
        let counts = !self.cut && self.status == "302" && self.method != "POST" && self.code != "off";
        (counts && !self.code.is_empty()).then_some((self.id, self.code))
    }
}

pub(super) fn made() -> impl Strategy<Value = Made> {
    // one time for all records of an id: they are of one request
    let word = |words: &'static [&'static str]| proptest::sample::select(words);
    let id = 0u64..24;
    (
        id,
        word(&["HIT", "MISS"]),
        word(&["k", "k", "x", "off", ""]),
        word(&["302", "302", "404"]),
        word(&["GET", "HEAD", "POST"]),
        0u8..12,
    )
        .prop_map(|(id, cache, code, status, method, cut)| {
            let age = [5, 100, 500, 2_000, 90_000, 4_000_000][id as usize % 6];
            Made { id, age, cache, code, status, method, cut: cut == 0 }
        })
}

async fn whatever_comes(files: &[Vec<Made>], open: bool) -> Result<(), TestCaseError> {
    let now = UtcMicros::now();
    let journals = if open {
        Journals::open(now.minus(Duration::from_secs(9_000_000)), now.minus(Duration::from_secs(300)))
    } else {
        Journals::default()
    };
    let bench = bench_with(journals, ImportConfig::default());
    let mut union = BTreeSet::new();
    let texts: Vec<String> =
        files.iter().map(|lines| lines.iter().map(|line| line.text(now)).collect::<String>()).collect();
    for (lines, text) in files.iter().zip(&texts) {
        // a file may be of no lines that any format knows
        let Ok(summary) = bench.import_with(text, ImportOptions::default()).await else { continue };
        prop_assert!(summary.adds_up(), "{summary:?}");
        union.extend(lines.iter().filter_map(Made::click));
        prop_assert!(bench.distinct_ids().await <= union.len());
    }
    bench.journals.set(UtcMicros(0), now.plus(Duration::from_secs(5_000)));
    let mut settler = bench.settler().await;
    // corrections are found in the first pass, and made in the second
    for seconds in [5_000, 5_300] {
        settler.pass_at(now.plus(Duration::from_secs(seconds))).await.unwrap();
    }
    prop_assert_eq!(bench.count(Table::Arrivals).await, 0);
    let heads: BTreeSet<_> =
        files.iter().flatten().filter(|line| line.method == "HEAD").filter_map(Made::click).collect();
    prop_assert_eq!(bench.heads().await, heads.len(), "whoever was first, a HEAD is one");
    prop_assert_eq!(bench.count(Table::Clicks).await, union.len());
    prop_assert_eq!(bench.distinct_ids().await, union.len());
    for text in &texts {
        let Ok(again) = bench.import_with(text, ImportOptions::default()).await else { continue };
        prop_assert!(again.adds_up() && again.added == Added::default() && again.waiting == 0, "{again:?}");
    }
    prop_assert_eq!(bench.count(Table::Clicks).await, union.len());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn the_lake_holds_the_union(
        files in proptest::collection::vec(proptest::collection::vec(made(), 1..30), 1..5),
        open: bool,
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(whatever_comes(&files, open))?;
    }
}
