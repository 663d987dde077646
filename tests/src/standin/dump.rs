//! What a stand-in's folder holds, for ledgers: read from the files, whether it runs or not.

use std::fs::File;
use std::io::{self, Cursor, ErrorKind};
use std::path::Path;

use anyhow::{Context, Result};
use fluvio_protocol::Decoder;
use fluvio_protocol::record::{Batch, RawRecords};

use super::frames::scan;
use super::log::{Entry, entry};

/// A record that a partition holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Its offset.
    pub offset: i64,
    /// Its key, if it has one.
    pub key: Option<Vec<u8>>,
    /// Its value.
    pub value: Vec<u8>,
}

/// The records of a topic, by partition. Evicted ones are left out.
///
/// # Errors
/// When there is no such topic in the folder, or a batch can't be decompressed.
pub fn dump(folder: &Path, topic: &str) -> Result<Vec<Vec<Held>>> {
    let mut partitions = Vec::new();
    loop {
        let path = folder.join("topics").join(topic).join(format!("{}.log", partitions.len()));
        let batches = match batches(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound && !partitions.is_empty() => return Ok(partitions),
            batches => batches.with_context(|| path.display().to_string())?,
        };
        let mut held = Vec::new();
        for batch in batches {
            let batch = Batch::try_from(batch).with_context(|| path.display().to_string())?;
            held.extend(batch.into_consumer_records_iter(0).map(|record| Held {
                offset: record.offset(),
                key: record.key().map(<[u8]>::to_vec),
                value: record.value().to_vec(),
            }));
        }
        partitions.push(held);
    }
}

fn batches(path: &Path) -> io::Result<Vec<Batch<RawRecords>>> {
    let mut batches = Vec::new();
    let mut start = 0;
    scan(&File::open(path)?, |_, body| {
        match entry(body)? {
            Entry::Batch(bytes) => batches.push(Batch::decode_from(&mut Cursor::new(bytes), 0)?),
            Entry::Start(offset) => start = offset,
        }
        Ok(())
    })?;
    batches.retain(|batch: &Batch<RawRecords>| batch.computed_last_offset() > start);
    Ok(batches)
}
