//! Tables and files of before columns were added.

use std::sync::Arc;

use arrow::array::{Array as _, StringArray};
use arrow::datatypes::{DataType, Field};
use object_store::ObjectStoreExt as _;
use object_store::memory::InMemory;
use object_store::path::Path;
use schemas::{Click, ClickBuilder, ClickRows};

use super::*;
use crate::hot::testing::click;
use crate::lake::{Change, Lake, LakeOptions, TableHandle};

/// Columns of `clicks` that came later.
const LATER: [&str; 2] = ["query", "private"];

fn rows(clicks: &[Click]) -> RecordBatch {
    let mut builder = ClickBuilder::new();
    clicks.iter().for_each(|click| builder.push(click));
    builder.finish().unwrap()
}

/// The same without what came later, as an old release wrote it.
fn old(batch: &RecordBatch) -> RecordBatch {
    let kept: Vec<usize> =
        (0..batch.num_columns()).filter(|at| !LATER.contains(&batch.schema().field(*at).name().as_str())).collect();
    batch.project(&kept).unwrap()
}

fn told(handle: &TableHandle) -> Vec<String> {
    let meta = handle.state.meta.as_ref().unwrap();
    let schema: Value = serde_json::from_str(&meta.schema_string).unwrap();
    schema["fields"].as_array().unwrap().iter().map(|field| field["name"].as_str().unwrap().to_owned()).collect()
}

/// A lake whose table `clicks` an old release has made, with one file.
async fn old_lake() -> (Lake, Arc<InMemory>) {
    let store = Arc::new(InMemory::new());
    let url = url::Url::parse("memory:///lake").unwrap();
    let options = LakeOptions { checkpoint_every: 5, ..LakeOptions::default() };
    let lake = Lake::with_store(Arc::clone(&store) as _, url, options).unwrap();
    let mut clicks = lake.table(Table::Clicks).await.unwrap();
    let entry = Path::from("lake/clicks/_delta_log/00000000000000000000.json");
    let text = String::from_utf8(store.get(&entry).await.unwrap().bytes().await.unwrap().to_vec()).unwrap();
    let mut lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for line in &mut lines {
        if let Some(text) = line["metaData"]["schemaString"].as_str() {
            let mut schema: Value = serde_json::from_str(text).unwrap();
            let is_old = |field: &Value| !LATER.contains(&field["name"].as_str().unwrap());
            schema["fields"].as_array_mut().unwrap().retain(is_old);
            line["metaData"]["schemaString"] = schema.to_string().into();
            line["metaData"]["configuration"]["own.word"] = "kept".into();
        }
    }
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    store.put(&entry, text.into()).await.unwrap();
    let add = clicks.write(&old(&rows(&[click(1, 1)]))).await.unwrap();
    let entry = Path::from("lake/clicks/_delta_log/00000000000000000001.json");
    // put by a handle that has read the log as it was before
    clicks.commit(Change { add, ..Change::default() }).await.unwrap();
    let text = String::from_utf8(store.get(&entry).await.unwrap().bytes().await.unwrap().to_vec()).unwrap();
    assert!(!text.contains("metaData"));
    (lake, store)
}

#[tokio::test]
async fn an_old_table_is_read_whole_and_grows_with_the_next_commit() {
    let (lake, _) = old_lake().await;
    let mut clicks = lake.table(Table::Clicks).await.unwrap();
    assert!(LATER.iter().all(|name| !told(&clicks).contains(&(*name).to_owned())));
    let file = Arc::clone(&clicks.files()[0]);
    let read = clicks.read(&file, &[]).await.unwrap();
    assert_eq!(ClickRows::of(&read[0]).unwrap().row(0).unwrap(), click(1, 1));
    let named = clicks.read(&file, &["private", "code", "query"]).await.unwrap();
    assert_eq!(
        named[0].schema().fields().iter().map(|f| f.name().as_str()).collect::<Vec<_>>(),
        ["private", "code", "query"]
    );
    assert_eq!((named[0].column(0).null_count(), named[0].column(1).null_count()), (1, 0));
    let new = Click { private: true, query: Some("ref=1".into()), ..click(2, 2) };
    let add = clicks.write(&rows(&[new])).await.unwrap();
    clicks.commit(Change { add, ..Change::default() }).await.unwrap();
    let grown = told(&clicks);
    assert!(LATER.iter().all(|name| grown.contains(&(*name).to_owned())));
    assert_eq!(clicks.state.meta.as_ref().unwrap().configuration["own.word"].as_deref(), Some("kept"));
    let version = clicks.version();
    let add = clicks.write(&rows(&[click(3, 3)])).await.unwrap();
    clicks.commit(Change { add, ..Change::default() }).await.unwrap();
    assert_eq!((told(&clicks), clicks.version()), (grown, version + 1), "once");
}

#[test]
fn what_can_not_be_missing_is_named_and_what_is_unknown_is_left() {
    let batch = RecordBatch::try_from_iter([("code", Arc::new(StringArray::from(vec!["a"])) as ArrayRef)]).unwrap();
    let error = completed(Table::Clicks, batch.clone(), &["code", "workspace"]).unwrap_err().to_string();
    assert!(error.contains("workspace"), "{error}");
    assert!(completed(Table::Clicks, batch.clone(), &["code", "no_such"]).is_err());
    let meta = MetaData { schema_string: schema_string(Table::Gaps).unwrap(), ..MetaData::default() };
    assert_eq!(meta.grown(Table::Gaps).unwrap(), None);
    let newer = Field::new("newer", DataType::Utf8, true);
    let more = RecordBatch::try_new(
        Arc::new(Schema::new(vec![batch.schema().field(0).clone(), newer])),
        vec![Arc::clone(batch.column(0)), Arc::new(StringArray::from(vec!["x"]))],
    )
    .unwrap();
    assert_eq!(completed(Table::Clicks, more, &["code"]).unwrap(), batch);
}
