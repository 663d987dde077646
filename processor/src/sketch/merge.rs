//! Small files of one day put together, their rows united.
//!
//! Under sampling every commit leaves a file with a row or more for every link that is thinned. As long as a day goes on
//! its files are merged when there are many, afterwards when there are two; a file that is large is left alone. United
//! rows are fewer, and mean the same.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::hours::Hours;
use super::unfit;
use crate::lake::{Change, DataFile, TableHandle};
use crate::settle::{SettleError, exchange};

/// Files of a day that goes on are put together when there are so many.
const MANY: usize = 16;
/// A file is left alone from this size on.
const LARGE_BYTES: u64 = 8 << 20;
/// So much is read for one merge, at most: about a thousand whole sketches.
const MERGE_BYTES: u64 = 16 << 20;

/// Merges files of days before `open_from` (since the epoch), and those of later ones that have many. Returns how many
/// merges landed.
pub(crate) async fn tidy(table: &mut TableHandle, open_from: i32) -> Result<u64, SettleError> {
    table.refresh().await?;
    let mut merges = 0;
    for parts in choose(table.files(), open_from) {
        let mut hours = Hours::default();
        let mut readable = true;
        for part in &parts {
            for rows in table.read(part, &[]).await? {
                if let Err(error) = hours.take_in(&rows) {
                    tracing::error!(%error, file = part.path, "rows of clicks_hourly can't be united; left as they are");
                    readable = false;
                }
            }
        }
        if readable {
            let rows = hours.to_batch().map_err(|error| unfit(table, error))?;
            let add = table.write(&rows).await?;
            let change = Change { add, remove: parts, ..Change::default() };
            merges += u64::from(exchange(table, change).await?);
        }
    }
    Ok(merges)
}

/// The files of each merge that is worth it.
fn choose(files: &[Arc<DataFile>], open_from: i32) -> Vec<Vec<Arc<DataFile>>> {
    let mut days: BTreeMap<i32, Vec<Arc<DataFile>>> = BTreeMap::new();
    for file in files.iter().filter(|file| file.size < LARGE_BYTES) {
        // a file whose day isn't known is another program's
        days.entry(file.date.unwrap_or(i32::MAX)).or_default().push(Arc::clone(file));
    }
    days.remove(&i32::MAX);
    let worth_it = |(day, mut files): (i32, Vec<Arc<DataFile>>)| {
        files.sort_by_key(|file| file.size);
        let mut bytes = 0;
        let fit = files.iter().take_while(|file| {
            bytes += file.size;
            bytes <= MERGE_BYTES
        });
        let fit = fit.count();
        files.truncate(fit);
        (files.len() >= if day < open_from { 2 } else { MANY }).then_some(files)
    };
    days.into_iter().filter_map(worth_it).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(day: i32, size: u64) -> Arc<DataFile> {
        let path = format!("date={day}/{size}");
        let times = (None, None);
        Arc::new(DataFile { path, size, rows: 1, date: Some(day), min_time: times.0, max_time: times.1, written_ms: 0 })
    }

    fn chosen(files: &[Arc<DataFile>]) -> Vec<(i32, usize)> {
        choose(files, 5).iter().map(|files| (files[0].date.unwrap(), files.len())).collect()
    }

    #[test]
    fn a_day_that_goes_on_waits_for_many_files_and_one_that_is_over_for_two() {
        let mut files = vec![file(4, 1), file(3, 1), file(3, 2), file(2, LARGE_BYTES), file(2, 9)];
        files.extend((1..16).map(|size| file(5, size)));
        assert_eq!(chosen(&files), [(3, 2)]);
        files.push(file(5, 16));
        assert_eq!(chosen(&files), [(3, 2), (5, 16)]);
    }

    #[test]
    fn a_merge_reads_so_much_and_no_more() {
        let files: Vec<_> = (0..9).map(|n| file(1, (3 << 20) + n)).collect();
        assert_eq!(chosen(&files), [(1, 5)]);
    }
}
