//! Whether a log is whole: every entry from its newest checkpoint on is there, up to the newest.
//!
//! ```text
//! ckpt 50 │ 51 │ 52 │ 53            whole at 53
//! ckpt 50 │ 51 │    │ 53            entry 52 is missing: an error, at 51 as at 53
//!                                   at 53: nothing is there any more; an error
//!         │ 51 │ … │ ckpt 60 │ 61   at 51: a clean-up took what was passed, and the checkpoint covers it
//! ```
//! A log that simply stops looks like the newest version. Whoever went on from there would write a version that exists,
//! or one that nobody ever reads; so the end of a log is believed only after a look at all the names behind the last
//! checkpoint. [`judge`] is pure; what others do while the names are read is told from a gap by looking again.

use std::collections::BTreeSet;

use object_store::ObjectMeta;

use super::LakeError;
use super::place::Place;
use super::replay::name_of;

/// What a log's names say to one who has read it up to a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sight {
    /// This is the newest version. The newest checkpoint's version comes along; -1 without one.
    Newest { checkpoint: i64 },
    /// The next entry is there.
    Behind,
    /// The next entry was cleaned up, and a checkpoint covers it.
    Covered,
    /// This entry is missing, although this one, or a checkpoint of it, is there or was.
    Gap { missing: i64, known: i64 },
}

/// Whether a log file's name ends as an entry's or a checkpoint's.
fn kind(rest: &str) -> Option<bool> {
    match rest {
        "json" => Some(false),
        _ if rest.starts_with("checkpoint.") && rest.ends_with(".parquet") => Some(true),
        _ => None,
    }
}

/// Judges the names of a log's files, of which none before the newest checkpoint known to cover `version` need be there.
pub(super) fn judge(files: &[ObjectMeta], version: i64) -> Sight {
    let (mut entries, mut checkpoint) = (BTreeSet::new(), -1);
    for (of, rest) in files.iter().filter_map(|meta| name_of(&meta.location)) {
        match kind(rest) {
            Some(true) => checkpoint = checkpoint.max(of),
            Some(false) => drop(entries.insert(of)),
            None => {}
        }
    }
    let newest = entries.last().copied().unwrap_or(-1).max(checkpoint);
    if let Some(missing) = (checkpoint + 1..=newest).find(|of| !entries.contains(of)) {
        return Sight::Gap { missing, known: newest };
    }
    if newest < version {
        return Sight::Gap { missing: version, known: version };
    }
    match newest > version {
        false => Sight::Newest { checkpoint },
        true if entries.contains(&(version + 1)) => Sight::Behind,
        true => Sight::Covered,
    }
}

/// Looks at the log's names behind `checkpoint`, one that covers `version`.
///
/// # Errors
/// When they can't be listed.
pub(super) async fn look(place: &Place, checkpoint: i64, version: i64) -> Result<Sight, LakeError> {
    // the checkpoint itself sorts before its version's entry
    Ok(judge(&place.log_after(checkpoint - 1).await?, version))
}

/// Why a gap is one.
pub(super) fn error(place: &Place, missing: i64, known: i64) -> LakeError {
    if missing == known {
        return place
            .gap(missing, "although this version was read or written before: the table is gone or another one");
    }
    place.gap(missing, format!("although version {known} is there: the log has a gap"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lake::place::LOG;
    use object_store::path::Path;

    fn log(names: &[&str]) -> Vec<ObjectMeta> {
        let meta = |name: &&str| {
            let (version, rest) = name.split_once('.').unwrap_or((name, ""));
            let name = version.parse::<i64>().map_or((*name).to_owned(), |version| format!("{version:020}.{rest}"));
            let location = Path::from(LOG).join(name);
            ObjectMeta { location, last_modified: chrono::DateTime::UNIX_EPOCH, size: 1, e_tag: None, version: None }
        };
        names.iter().map(meta).collect()
    }

    #[test]
    fn a_log_is_whole_from_its_newest_checkpoint_on() {
        let sees = |names: &[&str], version| judge(&log(names), version);
        let gap = |missing, known| Sight::Gap { missing, known };
        let newest = |checkpoint| Sight::Newest { checkpoint };
        assert_eq!(sees(&[], -1), newest(-1));
        assert_eq!(sees(&["_last_checkpoint", ".tmp-x", "2.crc"], -1), newest(-1));
        assert_eq!(sees(&["0.json", "1.json"], 1), newest(-1));
        assert_eq!(sees(&["0.json", "1.json"], 0), Sight::Behind);
        assert_eq!(sees(&["0.json", "1.json", "3.json"], 1), gap(2, 3));
        assert_eq!(sees(&["0.json", "1.json", "3.json"], 3), gap(2, 3), "one who is past it says so too");
        assert_eq!(sees(&["3.json"], -1), gap(0, 3));
        assert_eq!(sees(&["0.json", "1.json"], 5), gap(5, 5), "an older log, or another");
        assert_eq!(sees(&[], 5), gap(5, 5));
        assert_eq!(sees(&["4.checkpoint.parquet", "5.json"], 5), newest(4));
        assert_eq!(sees(&["4.checkpoint.parquet", "4.json", "6.json"], 4), gap(5, 6));
        assert_eq!(sees(&["2.json", "4.checkpoint.parquet", "5.json"], 2), Sight::Covered);
        assert_eq!(sees(&["4.checkpoint.parquet"], 4), newest(4));
        assert_eq!(sees(&["4.checkpoint.parquet"], 2), Sight::Covered);
    }
}
