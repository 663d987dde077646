//! Rows whose verdict becomes that of a sign, in one commit.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{AsArray as _, Int32Array, RecordBatch, StringArray};
use arrow::datatypes::TimestampMicrosecondType;
use arrow::error::ArrowError;
use schemas::restatement::Why;
use schemas::{ClickId, UtcMicros};

use crate::classify::Sign;
use crate::enrich::rejudge::{VERSION, columns, value, versions};
use crate::lake::DataFile;
use crate::settle::desk::TRIES;
use crate::settle::error::SettleError;
use crate::settle::ids::{IdMap, click_ids};
use crate::settle::remake::{Parts, Work, or_give_back, prepare, swap_in};
use crate::settle::restate::{Ledger, Several, Touch};
use crate::settle::settler::Settler;

/// The verdict's texts, in the order that they are made in.
const VERDICT: [&str; 3] = ["class", "agent", "class_reason"];

/// What is to be moved.
#[derive(Debug)]
pub(super) struct Moving {
    signs: IdMap<Sign>,
    /// Of the first and the last.
    times: Option<(UtcMicros, UtcMicros)>,
    rules_version: i32,
}

impl Moving {
    pub(super) fn new(rules_version: i32) -> Self {
        Self { signs: IdMap::default(), times: None, rules_version }
    }

    pub(super) fn add(&mut self, id: ClickId, time: UtcMicros, sign: Sign) {
        let (first, last) = self.times.unwrap_or((time, time));
        self.times = Some((first.min(time), last.max(time)));
        self.signs.insert(id, sign);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.signs.is_empty()
    }

    pub(super) fn count(&self, sign: Sign) -> u64 {
        self.signs.values().filter(|one| **one == sign).count() as u64
    }

    fn verdicts(&self, rows: &RecordBatch) -> Result<([StringArray; 3], Int32Array), ArrowError> {
        let before = columns(rows, VERDICT)?;
        let judged_by = versions(rows)?;
        let moved: Vec<Option<Sign>> = click_ids(rows).map(|id| self.signs.get(&id).copied()).collect();
        let text = |at: usize, of: fn(Sign, Option<&str>) -> Option<Cow<'static, str>>| -> StringArray {
            let column = moved.iter().enumerate().map(|(row, sign)| {
                let old = value(before[at], row);
                sign.map_or(old.map(Cow::Borrowed), |sign| of(sign, old))
            });
            column.collect()
        };
        let texts = [
            text(0, |sign, _| Some(sign.class().as_str().into())),
            text(1, |_, _| None),
            text(2, |sign, old| Some(sign.reason_after(old.unwrap_or_default()))),
        ];
        let by = moved.iter().zip(judged_by.values());
        Ok((texts, by.map(|(sign, before)| if sign.is_some() { self.rules_version } else { *before }).collect()))
    }
}

impl Work for Moving {
    /// The rows that are moved, by workspace.
    type Note = BTreeMap<String, Several>;

    fn columns(&self) -> &'static [&'static str] {
        &["click_id", "event_time", "workspace"]
    }

    fn concerns(&self, file: &DataFile) -> bool {
        self.times.is_some_and(|(first, last)| {
            file.min_time.is_none_or(|min| min <= last) && file.max_time.is_none_or(|max| max >= first)
        })
    }

    fn look(&self, rows: &RecordBatch, note: &mut Self::Note) -> Result<bool, ArrowError> {
        let [workspaces] = columns(rows, ["workspace"])?;
        let times =
            rows.column_by_name("event_time").and_then(|column| column.as_primitive_opt::<TimestampMicrosecondType>());
        let times = times.ok_or_else(|| ArrowError::SchemaError("column event_time is missing".to_owned()))?;
        let mut is_any = false;
        for (row, id) in click_ids(rows).enumerate().filter(|(_, id)| self.signs.contains_key(id)) {
            let one = Several::one(UtcMicros(times.value(row)), id.as_u128() as u64);
            let known = note.get(workspaces.value(row)).map_or(one, |known| known.and(one));
            note.insert(workspaces.value(row).to_owned(), known);
            is_any = true;
        }
        Ok(is_any)
    }

    fn made(&self, rows: RecordBatch) -> Result<RecordBatch, ArrowError> {
        let (texts, versions) = self.verdicts(&rows)?;
        let (schema, mut columns) = (rows.schema(), rows.columns().to_vec());
        for (name, text) in VERDICT.iter().zip(texts) {
            columns[schema.index_of(name)?] = Arc::new(text);
        }
        columns[schema.index_of(VERSION)?] = Arc::new(versions);
        RecordBatch::try_new(schema, columns)
    }
}

impl Settler {
    /// Moves rows. Returns how many there were of them.
    pub(super) async fn move_rows(&mut self, moving: &Moving) -> Result<u64, SettleError> {
        let mut parts = Parts::default();
        for _ in 0..TRIES {
            prepare(&mut self.desk.clicks, moving, &mut parts, (&mut |_| {}, &self.stop)).await?;
            if parts.changed().next().is_none() {
                return Ok(0);
            }
            let told = self.tell_moved(&parts).await;
            let moved = or_give_back(told, &self.desk.clicks, &mut parts).await?;
            if swap_in(&mut self.desk.clicks, &mut parts, &[]).await? {
                return Ok(moved);
            }
        }
        or_give_back(Err(SettleError::Busy { tries: TRIES }), &self.desk.clicks, &mut parts).await
    }

    /// Writes down what is about to move. Returns how many rows that are.
    async fn tell_moved(&mut self, parts: &Parts<<Moving as Work>::Note>) -> Result<u64, SettleError> {
        let mut ledger = Ledger::new(self.desk.final_through().await?);
        let mut moved = 0;
        for (workspace, rows) in parts.notes().flatten() {
            ledger.touch_several(Touch::Changed, Why::Behaviour, workspace, None, *rows);
            moved += rows.rows;
        }
        self.desk.tell(&ledger).await?;
        Ok(moved)
    }
}
