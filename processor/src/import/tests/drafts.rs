//! Packed files whose chunks are written before the file is known to be sound.

use ingest::edge::ReadLimits;

use super::*;

/// With some forty lines a chunk.
fn bench_of_chunks() -> Bench {
    let limits = ReadLimits { line: 1 << 10, block: 16 << 10, ..ReadLimits::default() };
    bench_with(Journals::default(), ImportConfig { chunk_lines: 1, limits, ..ImportConfig::default() })
}

impl Bench {
    async fn pack_and_import(&self, log: &str) -> Result<Summary, ImportError> {
        self.import_packed(flate2_gzip(log)).await
    }

    async fn import_packed(&self, packed: Vec<u8>) -> Result<Summary, ImportError> {
        let input = Input::stream("test.log.gz", std::io::Cursor::new(packed));
        let summary = self.importer.import(input, ImportOptions::default(), |_| {}).await;
        assert!(summary.as_ref().map_or(true, Summary::adds_up), "{summary:?}");
        summary
    }

    async fn commits(&self) -> i64 {
        self.lake.table(Table::Clicks).await.unwrap().version()
    }
}

#[tokio::test]
async fn the_chunks_of_a_file_land_as_one() {
    let (bench, plain, log) = (bench_of_chunks(), bench_of_chunks(), long_log(200));
    let before = bench.commits().await;
    let summary = bench.pack_and_import(&log).await.unwrap();
    assert_eq!((summary.lines, summary.added.edge, summary.already_counted), (200, 200, 0));
    assert_eq!(bench.commits().await, before + 1);
    assert!(bench.lake.table(Table::Clicks).await.unwrap().files().len() > 3, "files of several chunks");
    let other = plain.import(&log).await;
    assert!(plain.commits().await > before + 3);
    assert_eq!((summary.added, summary.first, summary.last), (other.added, other.first, other.last));
    assert_eq!(bench.rows(Table::Clicks).await, plain.rows(Table::Clicks).await);
    assert_eq!(bench.distinct_ids().await, 200);
    // the ids that an import remembers are those of its files
    let longer = bench.pack_and_import(&long_log(201)).await.unwrap();
    assert_eq!((longer.added.edge, longer.already_counted), (1, 200));
    assert_eq!((bench.distinct_ids().await, bench.count(Table::Clicks).await), (201, 201));
    assert_eq!(bench.pack_and_import(&log).await.unwrap().already_counted, 200);
}

#[tokio::test]
async fn of_a_file_damaged_at_its_very_end_nothing_lands() {
    let (bench, mut packed) = (bench_of_chunks(), flate2_gzip(&long_log(200)));
    let size = packed.len() - 1;
    packed[size] ^= 1;
    let error = bench.import_packed(packed).await.unwrap_err();
    assert!(error.is_refusal(), "{error}");
    assert_eq!((bench.count(Table::Clicks).await, bench.count(Table::EdgeFiles).await), (0, 0));
}

#[tokio::test]
async fn a_file_that_is_cut_keeps_what_came_before() {
    let (bench, mut packed) = (bench_of_chunks(), flate2_gzip(&long_log(400)));
    packed.truncate(packed.len() / 2);
    let summary = bench.import_packed(packed).await.unwrap();
    assert!(summary.note.unwrap().contains("ends in the middle"));
    assert_eq!(bench.count(Table::Clicks).await as u64, summary.added.edge);
    assert!(summary.added.edge > 100, "several chunks");
}

#[tokio::test]
async fn a_file_that_is_cut_before_its_first_line_is_not_called_empty() {
    let (bench, packed) = (bench_of_chunks(), flate2_gzip(&long_log(400)));
    let error = bench.import_packed(packed[..11].to_vec()).await.unwrap_err();
    let said = error.to_string();
    assert!(error.is_refusal() && said.contains("nothing of it can be read: the packed data ends"), "{said}");
    let empty = bench.pack_and_import("").await.unwrap();
    assert_eq!(empty.note.as_deref(), Some("the file is empty"));
}

#[tokio::test]
async fn a_file_of_many_chunks_is_looked_through_first() {
    let bench = bench_of_chunks();
    let before = bench.commits().await;
    let summary = bench.pack_and_import(&long_log(600)).await.unwrap();
    assert_eq!((summary.lines, summary.added.edge), (600, 600));
    assert!(bench.commits().await > before + 3, "what comes after those that were drafted lands by itself");
    assert_eq!(bench.distinct_ids().await, 600);
    let (damaged, mut packed) = (bench_of_chunks(), flate2_gzip(&long_log(600)));
    let size = packed.len() - 1;
    packed[size] ^= 1;
    assert!(damaged.import_packed(packed).await.is_err());
    assert_eq!((damaged.count(Table::Clicks).await, damaged.count(Table::EdgeFiles).await), (0, 0));
}

#[tokio::test]
async fn lines_that_are_there_already_count_once() {
    let bench = bench_of_chunks();
    let log = long_log(200);
    let known: Vec<&str> = log.lines().skip(150).take(1).collect();
    assert_eq!(bench.import(&format!("{}\n", known[0])).await.added.edge, 1);
    let summary = bench.pack_and_import(&log).await.unwrap();
    assert_eq!((summary.added.edge, summary.already_counted), (199, 1));
    assert_eq!((bench.distinct_ids().await, bench.count(Table::Clicks).await), (200, 200));
}

#[tokio::test]
async fn a_line_that_comes_again_chunks_later_counts_once() {
    let bench = bench_of_chunks();
    let log = long_log(200);
    let first: Vec<&str> = log.lines().take(1).collect();
    let summary = bench.pack_and_import(&format!("{log}{}\n", first[0])).await.unwrap();
    assert_eq!((summary.lines, summary.added.edge, summary.already_counted), (201, 200, 1));
    assert_eq!((bench.distinct_ids().await, bench.count(Table::Clicks).await), (200, 200));
    assert_eq!(bench.count(Table::EdgeFiles).await, 1);
}

#[tokio::test]
async fn of_two_that_draft_the_same_file_one_lands() {
    let bench = bench_of_chunks();
    let other = bench_on(&bench, bench.importer.shared.config.clone());
    let packed = flate2_gzip(&long_log(200));
    for table in Table::ALL {
        bench.lake.table(*table).await.unwrap();
    }
    let gate = Gate::new();
    bench.store.arm("clicks/_delta_log", 1, Fault::Hold(gate.clone()));
    let (importer, held) = (bench.importer.clone(), packed.clone());
    let slow = tokio::spawn(async move {
        let input = Input::stream("test.log.gz", std::io::Cursor::new(held));
        importer.import(input, ImportOptions::default(), |_| {}).await
    });
    gate.reached().await;
    assert_eq!(other.import_packed(packed).await.unwrap().added.edge, 200);
    gate.open();
    let slow = slow.await.unwrap().unwrap();
    assert_eq!((slow.lines, slow.added.edge), (200, 200), "what the lake holds of it");
    assert_eq!((bench.distinct_ids().await, bench.count(Table::Clicks).await), (200, 200));
}
