//! The same requests, in files of every make.

use std::sync::Mutex;

use arrow::array::{ArrayRef, StringArray};
use parquet::arrow::ArrowWriter;

use super::*;

const IDS: [&str; 3] = ["one==", "two==", "three=="];

/// A request's fields as CloudFront's version 2 names them.
fn fields(id: &str) -> [(&'static str, &'static str, String); 7] {
    let text = |text: &str| text.to_owned();
    [
        ("timestamp(ms)", "timestamp_ms", format!("{}", (UtcMicros::now().0 - DAY) / 1_000)),
        ("c-ip", "c_ip", text("203.0.113.7")),
        ("cs-method", "cs_method", text("GET")),
        ("cs-uri-stem", "cs_uri_stem", text("/k")),
        ("sc-status", "sc_status", text("302")),
        ("x-edge-result-type", "x_edge_result_type", text("Hit")),
        ("x-edge-request-id", "x_edge_request_id", text(id)),
    ]
}

fn objects() -> Vec<String> {
    let object = |id: &&str| {
        let pairs = fields(id).map(|(name, _, value)| format!("\"{name}\":\"{value}\""));
        format!("{{{}}}", pairs.join(","))
    };
    IDS.iter().map(object).collect()
}

fn parquet() -> Vec<u8> {
    let rows = IDS.map(fields);
    let columns = (0..rows[0].len()).map(|at| {
        let column: StringArray = rows.iter().map(|row| Some(row[at].2.as_str())).collect();
        (rows[0][at].1, Arc::new(column) as ArrayRef)
    });
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut file = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    file
}

#[tokio::test]
async fn the_same_requests_count_once_whatever_they_come_in() {
    let bench = bench();
    let objects = objects();
    let table = parquet();
    let files = [
        table.clone(),
        objects.concat().into_bytes(),
        format!("{{\"records\":[\n{}\n]}}", objects.join(",\n")).into_bytes(),
        objects.join("\n").into_bytes(),
    ];
    for (number, file) in files.into_iter().enumerate() {
        let name = format!("{number}.log");
        let seen = Arc::new(Mutex::new(None));
        let input = Input::stream(&name, std::io::Cursor::new(file.clone()));
        let last = Arc::clone(&seen);
        let progress = move |progress: Progress| *last.lock().unwrap() = Some((progress.bytes, progress.of));
        let summary = bench.importer.import(input, ImportOptions::default(), progress).await.unwrap();
        assert_eq!((summary.format.as_str(), summary.records), ("cloudfront-v2-json", 3), "{summary:?}");
        assert_eq!(summary.added.edge, if number == 0 { 3 } else { 0 }, "{summary:?}");
        let whole = file.len() as u64;
        assert_eq!(*seen.lock().unwrap(), Some((whole, whole)), "progress is the file's");
    }
    assert_eq!((bench.count(Table::Clicks).await, bench.distinct_ids().await), (3, 3));

    let input = Input::stream("cut.parquet", std::io::Cursor::new(table[..table.len() - 30].to_vec()));
    let error = bench.importer.import(input, ImportOptions::default(), |_| {}).await.unwrap_err();
    assert!(
        error.is_refusal() && error.to_string().contains("Parquet file makes no sense: it is cut short"),
        "{error}"
    );
}
