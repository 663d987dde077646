//! Which files of `clicks` to merge next. Pure: sizes and hours in, a choice out.
//!
//! ```text
//! a bucket = one UTC hour until its day is final, then one UTC day
//! open bucket:    a tier (files of like size) holds `fan_in` files ──► merge those
//! closed bucket:  the small ones together weigh at least half of what they are merged with ──► merge, smallest first
//! ```
//! A merge in an open bucket makes a file `fan_in` times as large as its parts, one in a closed bucket a file at
//! least half as large again as its largest part; so each row is rewritten a number of times that grows with the
//! logarithm of its file's size and never because a little was added to much. No merge exceeds the target, so
//! nothing above half of it moves again. Until its day is final no file spans more than one hour: reading the ids
//! around an instant then stays cheap however busy the day.

use std::collections::BTreeMap;

/// A live file, as far as the choice needs to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Size in storage.
    pub bytes: u64,
    /// Rows in it.
    pub rows: u64,
    /// Hour (since the epoch) of its first row.
    pub first_hour: i64,
    /// Hour of its last row.
    pub last_hour: i64,
}

/// Bounds of compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactConfig {
    /// How many files of like size make one merge in an hour that still grows.
    pub fan_in: usize,
    /// The most files one merge reads.
    pub max_files: usize,
    /// Of these, the most that have more than a few thousand rows: they are read side by side, and each that is open holds
    /// a decompressor a column.
    pub max_open: usize,
    /// No merge makes a file larger than this.
    pub target_bytes: u64,
    /// No merge reads more rows than this.
    pub target_rows: u64,
}

impl Default for CompactConfig {
    fn default() -> Self {
        Self { fan_in: 8, max_files: 64, max_open: 16, target_bytes: 64 << 20, target_rows: 2_000_000 }
    }
}

/// Files below this size are all of one tier.
const SMALLEST_TIER_BYTES: u64 = 256 << 10;
/// A file with no more rows is read at once and closed.
const FEW_ROWS: u64 = 4_096;
const HOURS_A_DAY: i64 = 24;

/// What is known of time: which buckets still grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Horizon {
    /// Hours before this one are over: hardly anything is added to them.
    pub closed_before_hour: i64,
    /// Days (since the epoch) before this one are final: their hours may share files.
    pub final_before_day: i64,
}

/// The files (by position in `pieces`) of the most useful merge, or none when all is well.
pub fn choose(pieces: &[Piece], horizon: &Horizon, config: &CompactConfig) -> Option<Vec<usize>> {
    let mut buckets: BTreeMap<(i64, i64), Vec<usize>> = BTreeMap::new();
    for (index, piece) in pieces.iter().enumerate() {
        let day = piece.first_hour.div_euclid(HOURS_A_DAY);
        if piece.last_hour.div_euclid(HOURS_A_DAY) != day || is_mature(piece, config) {
            continue;
        }
        if day >= horizon.final_before_day && piece.last_hour != piece.first_hour {
            continue;
        }
        let hour = if day < horizon.final_before_day { i64::MIN } else { piece.first_hour };
        buckets.entry((day, hour)).or_default().push(index);
    }
    buckets
        .into_iter()
        .filter_map(|((day, hour), mut files)| {
            files.sort_by_key(|&file| (pieces[file].bytes, file));
            let closed = day < horizon.final_before_day || hour < horizon.closed_before_hour;
            let tier = full_tier(pieces, &files, config);
            if closed { tier.or_else(|| leftovers(pieces, &files, config)) } else { tier }
        })
        .max_by_key(Vec::len)
}

fn is_mature(piece: &Piece, config: &CompactConfig) -> bool {
    piece.bytes > config.target_bytes / 2 || piece.rows > config.target_rows / 2
}

/// The lowest tier that is full, smallest files first, as many as one merge may take.
fn full_tier(pieces: &[Piece], ascending: &[usize], config: &CompactConfig) -> Option<Vec<usize>> {
    let tier = |file: usize| {
        let mut tier = 0u32;
        let mut limit = SMALLEST_TIER_BYTES;
        while pieces[file].bytes > limit {
            limit = limit.saturating_mul(config.fan_in.max(2) as u64);
            tier += 1;
        }
        tier
    };
    ascending
        .chunk_by(|a, b| tier(*a) == tier(*b))
        .map(|files| fitting(pieces, files, config))
        .find(|files| files.len() >= config.fan_in.max(2))
}

/// The longest run of smallest files whose largest weighs no more than twice all the others.
fn leftovers(pieces: &[Piece], ascending: &[usize], config: &CompactConfig) -> Option<Vec<usize>> {
    let mut files = fitting(pieces, ascending, config);
    while let Some((largest, others)) = files.split_last() {
        let weight: u64 = others.iter().map(|file| pieces[*file].bytes).sum();
        if !others.is_empty() && weight.saturating_mul(2) >= pieces[*largest].bytes {
            return Some(files);
        }
        files.pop();
    }
    None
}

/// As many of the files, in order, as one merge may take.
fn fitting(pieces: &[Piece], ascending: &[usize], config: &CompactConfig) -> Vec<usize> {
    let (mut bytes, mut rows, mut open) = (0u64, 0u64, 0);
    ascending
        .iter()
        .copied()
        .take(config.max_files)
        .take_while(|file| {
            bytes += pieces[*file].bytes;
            rows += pieces[*file].rows;
            open += usize::from(pieces[*file].rows > FEW_ROWS);
            bytes <= config.target_bytes && rows <= config.target_rows && open <= config.max_open
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HOUR: i64 = 480_000;
    const DAY: i64 = HOUR / 24;

    fn piece(hour: i64, kib: u64) -> Piece {
        Piece { bytes: kib << 10, rows: kib * 25, first_hour: hour, last_hour: hour }
    }

    fn open() -> Horizon {
        Horizon { closed_before_hour: HOUR, final_before_day: DAY }
    }

    fn chosen(pieces: &[Piece], horizon: Horizon) -> Vec<u64> {
        let mut sizes: Vec<u64> = choose(pieces, &horizon, &CompactConfig::default())
            .unwrap_or_default()
            .into_iter()
            .map(|file| pieces[file].bytes >> 10)
            .collect();
        sizes.sort_unstable();
        sizes
    }

    #[test]
    fn an_open_hour_waits_for_a_full_tier() {
        let mut pieces = vec![piece(HOUR, 40); 7];
        pieces.push(piece(HOUR, 1_000));
        assert_eq!(chosen(&pieces, open()), Vec::<u64>::new());
        pieces.push(piece(HOUR, 30));
        assert_eq!(chosen(&pieces, open()), [30, 40, 40, 40, 40, 40, 40, 40], "not the large one");
    }

    #[test]
    fn a_closed_hour_is_tidied_but_not_rewritten_for_a_trifle() {
        let closed = Horizon { closed_before_hour: HOUR + 1, ..open() };
        let pieces = [piece(HOUR, 40), piece(HOUR, 60), piece(HOUR, 150)];
        assert_eq!(chosen(&pieces, open()), Vec::<u64>::new());
        assert_eq!(chosen(&pieces, closed), [40, 60, 150]);
        let pieces = [piece(HOUR, 40), piece(HOUR, 10), piece(HOUR, 9_000)];
        assert_eq!(chosen(&pieces, closed), Vec::<u64>::new(), "40 is not twice 10, 9,000 not twice 50");
        let pieces = [piece(HOUR, 40), piece(HOUR, 30), piece(HOUR, 9_000)];
        assert_eq!(chosen(&pieces, closed), [30, 40]);
    }

    #[test]
    fn hours_share_a_file_only_once_their_day_is_final() {
        let pieces: Vec<Piece> = (0..24).map(|hour| piece(DAY * 24 + hour, 100)).collect();
        let closed = Horizon { closed_before_hour: HOUR + 24, final_before_day: DAY };
        assert_eq!(choose(&pieces, &closed, &CompactConfig::default()), None);
        let last = Horizon { final_before_day: DAY + 1, ..closed };
        assert_eq!(choose(&pieces, &last, &CompactConfig::default()).map(|files| files.len()), Some(24));
    }

    #[test]
    fn no_merge_is_larger_than_the_target_and_large_files_rest() {
        let last = Horizon { closed_before_hour: HOUR + 24, final_before_day: DAY + 1 };
        let pieces = vec![piece(HOUR, 30 << 10); 10];
        assert_eq!(chosen(&pieces, last).len(), 2, "two of 30 MiB, which have 1.5 million rows");
        assert_eq!(chosen(&[piece(HOUR, 40 << 10), piece(HOUR, 33 << 10)], last), Vec::<u64>::new());
    }

    #[test]
    fn files_that_are_read_side_by_side_are_few() {
        let pieces = vec![piece(HOUR, 1_000); 40];
        assert_eq!(chosen(&pieces, open()).len(), 16);
        let pieces = vec![piece(HOUR, 100); 40];
        assert_eq!(chosen(&pieces, open()).len(), 40, "small ones are closed at once");
    }

    #[test]
    fn the_bucket_with_most_to_gain_comes_first() {
        let mut pieces = vec![piece(HOUR, 10); 9];
        pieces.extend(vec![piece(HOUR - 1, 10); 12]);
        let chosen = choose(&pieces, &open(), &CompactConfig::default()).unwrap();
        assert!(chosen.iter().all(|file| pieces[*file].first_hour == HOUR - 1));
        assert_eq!(chosen.len(), 12);
    }

    /// A day of small commits, hours closing one after the other: few files live at any time, and few rewrites.
    #[test]
    fn a_stream_of_small_files_costs_few_rewrites_and_leaves_few_files() {
        let config = CompactConfig::default();
        let (mut pieces, mut written, mut rewritten, mut most) = (Vec::<Piece>::new(), 0u64, 0u64, 0);
        for commit in 0..6_000i64 {
            let hour = HOUR + commit / 1_500;
            pieces.push(piece(hour, 60));
            written += 60 << 10;
            let horizon = Horizon { closed_before_hour: hour, final_before_day: DAY };
            while let Some(mut files) = choose(&pieces, &horizon, &config) {
                files.sort_unstable_by(|a, b| b.cmp(a));
                let mut merged = Piece { bytes: 0, rows: 0, ..pieces[files[0]] };
                for file in files {
                    let part = pieces.swap_remove(file);
                    assert_eq!(part.first_hour, merged.first_hour);
                    merged.bytes += part.bytes;
                    merged.rows += part.rows;
                }
                rewritten += merged.bytes;
                pieces.push(merged);
            }
            most = most.max(pieces.len());
        }
        assert!(most < 60, "{most} live files");
        assert!(rewritten < 5 * written, "each byte rewritten {} times", rewritten / written);
    }

    proptest! {
        #[test]
        fn a_choice_keeps_its_bounds(
            sizes in proptest::collection::vec((0i64..60, 1u64..60_000), 0..60),
            closed in 0i64..60, last in 0i64..3, fan_in in 2usize..12,
        ) {
            let config = CompactConfig { fan_in, ..CompactConfig::default() };
            let pieces: Vec<Piece> = sizes.iter().map(|(hour, kib)| piece(DAY * 24 + hour, *kib)).collect();
            let horizon = Horizon { closed_before_hour: DAY * 24 + closed, final_before_day: DAY + last };
            if let Some(files) = choose(&pieces, &horizon, &config) {
                let mut unique = files.clone();
                unique.sort_unstable();
                unique.dedup();
                prop_assert_eq!(unique.len(), files.len());
                prop_assert!(files.len() >= 2);
                prop_assert!(files.iter().map(|f| pieces[*f].bytes).sum::<u64>() <= config.target_bytes);
                let hours: Vec<i64> = files.iter().map(|f| pieces[*f].first_hour).collect();
                let day = hours[0].div_euclid(24);
                prop_assert!(hours.iter().all(|hour| hour.div_euclid(24) == day));
                prop_assert!(day < horizon.final_before_day || hours.iter().all(|hour| *hour == hours[0]));
            }
        }
    }
}
