use std::fs::File;
use std::io::Write;

use arrow::array::{
    ArrayRef, BinaryArray, Date32Array, DictionaryArray, Int32Array, Int64Array, ListArray, StringArray,
};
use arrow::datatypes::Int32Type;
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use super::super::contents::Contents;
use super::super::format::Format;
use super::super::{FileParser, LineReader, ReadLimits, Settings, sniff};
use super::*;

fn written(columns: Vec<(&str, ArrayRef)>, properties: WriterProperties) -> Vec<u8> {
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut file = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    file
}

fn packed(compression: Compression) -> WriterProperties {
    WriterProperties::builder().set_compression(compression).build()
}

fn texts(rows: usize, value: impl Fn(usize) -> String) -> ArrayRef {
    Arc::new((0..rows).map(|row| Some(value(row))).collect::<StringArray>())
}

/// A log of so many rows, under the names that such files have.
fn log(rows: usize, properties: WriterProperties) -> Vec<u8> {
    let columns = vec![
        ("date", texts(rows, |_| "2026-03-14".to_owned())),
        ("time", texts(rows, |_| "09:26:53".to_owned())),
        ("c_ip", texts(rows, |_| "203.0.113.7".to_owned())),
        ("cs_method", texts(rows, |_| "GET".to_owned())),
        ("cs_uri_stem", texts(rows, |row| format!("/k{row}"))),
        ("sc_status", Arc::new(Int32Array::from(vec![302; rows])) as ArrayRef),
        ("cs_user_agent", texts(rows, |_| "Mozilla/5.0%20(X11)".to_owned())),
        ("x_edge_result_type", texts(rows, |row| if row % 2 == 0 { "Hit" } else { "Miss" }.to_owned())),
        ("x_edge_request_id", texts(rows, |row| format!("id-{row}=="))),
        ("timestamp_ms", Arc::new((0..rows).map(|row| Some(1_773_480_413_000 + row as i64)).collect::<Int64Array>())),
    ];
    written(columns, properties)
}

fn lines(file: Vec<u8>) -> Result<Vec<String>, String> {
    let mut rows = Rows::open(Bytes::from(file)).map_err(|e| e.to_string())?;
    let mut text = String::new();
    rows.read_to_string(&mut text).map_err(|e| e.to_string())?;
    Ok(text.lines().map(str::to_owned).collect())
}

#[test]
fn rows_become_lines_by_their_columns_names() {
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(1)]), None, None]);
    let file = written(
        vec![
            ("cs(User-Agent)", Arc::new(StringArray::from(vec![Some("say \"hi\"\\\n"), None, Some("é")])) as ArrayRef),
            ("list", Arc::new(list)),
            ("raw", Arc::new(BinaryArray::from(vec![Some(&b"a\xff"[..]), None, Some(b"")]))),
            ("day", Arc::new(Date32Array::from(vec![Some(20_526), None, None]))),
            ("bytes", Arc::new(Int64Array::from(vec![Some(-1), None, Some(i64::MAX)]))),
        ],
        packed(Compression::UNCOMPRESSED),
    );
    let expected = [
        r#"{"cs(User-Agent)":"say \"hi\"\\\n","raw":"a�","day":"2026-03-14","bytes":"-1"}"#,
        "{}",
        r#"{"cs(User-Agent)":"é","raw":"","bytes":"9223372036854775807"}"#,
    ];
    assert_eq!(lines(file).unwrap(), expected);
}

#[test]
fn a_log_is_read_through_every_packing_and_its_lines_are_its_rows() {
    for compression in [Compression::UNCOMPRESSED, Compression::SNAPPY, Compression::ZSTD(ZstdLevel::default())] {
        let file = log(ROWS * 3 + 7, packed(compression));
        let read = lines(file.clone()).unwrap();
        assert_eq!(read.len(), ROWS * 3 + 7);
        assert!(read[ROWS + 1].contains(&format!("\"cs_uri_stem\":\"/k{}\"", ROWS + 1)), "{}", read[ROWS + 1]);

        let mut named = tempfile::tempfile().unwrap();
        named.write_all(&file).unwrap();
        let contents: Contents<File> = Contents::of(named).unwrap();
        let mut reader = LineReader::new(contents, ReadLimits::default()).unwrap();
        let head = reader.head().unwrap().to_vec();
        let sniffed = sniff(&head, &Settings::default()).unwrap().unwrap();
        assert_eq!(sniffed.format, Format::CloudFrontV2Json);
        assert!(FileParser::new(sniffed.format, &head, Settings::default()).layout_has_id());
        let mut seen = 0;
        while let Some(block) = reader.next_block().unwrap() {
            seen += block.line_count();
            assert!(reader.raw_bytes() <= file.len() as u64);
        }
        assert_eq!(reader.raw_bytes(), file.len() as u64, "all of it is read");
        assert_eq!(seen, read.len() as u64);
        assert_eq!(reader.finish().unwrap().lines, seen);
    }
}

#[test]
fn a_row_is_read_as_the_line_would_be() {
    let line = &lines(log(1, packed(Compression::SNAPPY))).unwrap()[0];
    super::super::testing::requests(Format::CloudFrontV2Json, line, |request| {
        assert_eq!(request.time.to_string(), "2026-03-14T09:26:53Z");
        assert_eq!((request.code, request.user_agent, request.status), ("k0", "Mozilla/5.0 (X11)", 302));
        assert_eq!(request.line_key, Some(&b"id-0=="[..]));
    });
    assert_eq!(super::super::testing::verdicts(Format::CloudFrontV2Json, line), ["edge"]);
}

#[test]
fn other_bytes_are_no_parquet_file() {
    let is = |bytes: &'static [u8]| is_parquet(&Bytes::from_static(bytes)).unwrap();
    assert!(!is(b"") && !is(b"PAR1") && !is(b"PAR1 is how this line begins\n") && !is(b"{\"a\":1}\n{\"a\":2}\n"));
    assert!(is(b"PAR1....PAR1"));
    let cut = is_parquet(&Bytes::from_static(b"PAR1\x15\x04\x15\x10and so on")).unwrap_err().to_string();
    assert!(cut.contains("it is cut short"), "{cut}");
}

#[test]
fn a_damaged_file_is_refused_and_never_panics() {
    let file = log(50, packed(Compression::SNAPPY));
    assert_eq!(
        lines(b"PAR1....PAR1".to_vec()).unwrap_err().split(':').next(),
        Some("this Parquet file makes no sense")
    );
    let whole = lines(file.clone()).unwrap();
    let mut refused = 0;
    for at in (4..file.len() - 4).step_by(3) {
        let mut damaged = file.clone();
        damaged[at] ^= 0x15;
        match lines(damaged) {
            // Without checksums of pages a changed value can't be told; what matters is that it ends.
            Ok(lines) => assert!(lines.len() <= whole.len()),
            Err(why) => {
                refused += 1;
                assert!(why.starts_with("this Parquet file makes no sense: "), "{why}");
            }
        }
    }
    assert!(refused > 20, "{refused} refused");
}

#[test]
fn a_long_text_that_a_page_repeats_takes_no_memory_for_each_row() {
    let text = "x".repeat(200_000);
    let column: DictionaryArray<Int32Type> = (0..2_000).map(|_| Some(text.as_str())).collect();
    let batch = RecordBatch::try_from_iter([("cs_uri_stem", Arc::new(column) as ArrayRef)]).unwrap();
    let mut file = Vec::new();
    let properties = packed(Compression::ZSTD(ZstdLevel::default()));
    let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let error = lines(file).unwrap_err();
    assert!(error.ends_with("its rows come to more than 500 times its size, the limit"), "{error}");
}
