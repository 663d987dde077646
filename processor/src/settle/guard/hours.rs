//! How many lines of an import reached the origin, by UTC hour and workspace, with a sample of their ids: files may
//! overlap, and a line is to be counted once however often it came. Pure.
//!
//! The sample is of the least ids (by 32 bits of them), so samples of different files can be compared: what is below
//! the greatest of one, and not in it, is not in its file.

use std::collections::{BTreeMap, BTreeSet};

use schemas::link::DEFAULT_WORKSPACE;
use schemas::{ClickId, UtcMicros};

/// Ids kept of an hour.
const SAMPLE: usize = 64;
/// A share found by fewer ids than this is put together with others.
const FEW: usize = 8;
/// Workspaces of an hour whose lines are counted. Lines of further ones are nobody's: then too few of those seem to have
/// found their event, and an hour is rather held.
const WORKSPACES: usize = 1_000;

/// Stands for the workspace of lines that are of no link of ours.
pub(crate) const UNLINKED: &str = "";

/// The origin-class lines of one import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OriginHours(BTreeMap<i64, Lines>);

/// Those of one hour.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Lines {
    lines: u64,
    by_workspace: BTreeMap<String, u64>,
    least: BTreeSet<u32>,
}

impl Lines {
    /// Adds to each workspace its share of so many of these lines.
    fn add_part(&self, part: u64, to: &mut BTreeMap<String, u64>) {
        for (workspace, lines) in &self.by_workspace {
            let share = u128::from(*lines) * u128::from(part) / u128::from(self.lines.max(1));
            *to.entry(workspace.clone()).or_default() += share as u64;
        }
    }

    /// Ids above this may be among the lines without being in the sample.
    fn known_to(&self) -> u32 {
        match self.least.last() {
            Some(last) if self.least.len() >= SAMPLE => *last,
            _ => u32::MAX,
        }
    }
}

impl OriginHours {
    /// Takes in a line of a link of `workspace`, or [`UNLINKED`].
    pub(crate) fn add(&mut self, id: ClickId, time: UtcMicros, workspace: &str) {
        let hour = self.0.entry(time.hour()).or_default();
        hour.lines += 1;
        if let Some(lines) = hour.by_workspace.get_mut(workspace) {
            *lines += 1;
        } else if hour.by_workspace.len() < WORKSPACES {
            hour.by_workspace.insert(workspace.to_owned(), 1);
        }
        let mark = (id.as_u128() >> 32) as u32;
        if mark < hour.known_to() {
            hour.least.insert(mark);
            if hour.least.len() > SAMPLE {
                hour.least.pop_last();
            }
        }
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// As the text that `edge_files` holds: `hour:lines:sample:workspace=lines,…` with blanks between; none without
    /// lines. Names of workspaces have none of these signs.
    pub(crate) fn to_text(&self) -> Option<String> {
        use std::fmt::Write as _;
        let mut text = String::new();
        for (hour, lines) in &self.0 {
            let gap = if text.is_empty() { "" } else { " " };
            // writing into a String can't fail
            let _ = write!(text, "{gap}{hour}:{}:", lines.lines);
            for mark in &lines.least {
                let _ = write!(text, "{mark:08x}");
            }
            for (number, (workspace, lines)) in lines.by_workspace.iter().enumerate() {
                let _ = write!(text, "{}{workspace}={lines}", if number == 0 { ':' } else { ',' });
            }
        }
        (!text.is_empty()).then_some(text)
    }

    /// What [`OriginHours::to_text`] wrote; hours that can't be read are left out. Without workspaces, as an earlier
    /// version wrote it, all are of the first.
    pub(crate) fn from_text(text: &str) -> Self {
        let read = |hour: &str| {
            let mut parts = hour.split(':');
            let (hour, lines, sample) = (parts.next()?, parts.next()?, parts.next()?);
            let marks = sample.as_bytes().chunks(8);
            let least: Option<BTreeSet<u32>> =
                marks.map(|mark| u32::from_str_radix(std::str::from_utf8(mark).ok()?, 16).ok()).collect();
            let lines: u64 = lines.parse().ok()?;
            let of =
                |entry: &str| entry.split_once('=').and_then(|(name, of)| Some((name.to_owned(), of.parse().ok()?)));
            let by_workspace = match parts.next() {
                Some(entries) => entries.split(',').map(of).collect::<Option<_>>()?,
                None => BTreeMap::from([(DEFAULT_WORKSPACE.to_owned(), lines)]),
            };
            Some((hour.parse().ok()?, Lines { lines, by_workspace, least: least? }))
        };
        Self(text.split(' ').filter_map(read).collect())
    }

    /// The lines of `hour` in all of `imports` by workspace, each once as far as the samples tell. Files that have nothing
    /// in common, and files within others, are counted exactly; where a part is shared the count is rather too low, and
    /// the same part of each workspace's lines is taken for shared.
    pub(crate) fn distinct<'a>(imports: impl Iterator<Item = &'a Self>, hour: i64) -> BTreeMap<String, u64> {
        let mut files: Vec<&Lines> = imports.filter_map(|import| import.0.get(&hour)).collect();
        files.sort_by_key(|lines| std::cmp::Reverse(lines.lines));
        let known_to = files.iter().map(|lines| lines.known_to()).min().unwrap_or(u32::MAX);
        let mut seen: BTreeSet<u32> = BTreeSet::new();
        let mut lines: BTreeMap<String, u64> = BTreeMap::new();
        let (mut rest, mut of_rest) = (Lines::default(), (0usize, 0usize));
        for (number, file) in files.into_iter().enumerate() {
            let sample: BTreeSet<u32> = file.least.iter().copied().filter(|mark| *mark <= known_to).collect();
            let new = sample.difference(&seen).count();
            match (number, sample.len()) {
                (0, _) => file.add_part(file.lines, &mut lines),
                (_, few) if few < FEW => {
                    rest.lines += file.lines;
                    file.add_part(file.lines, &mut rest.by_workspace);
                    of_rest = (of_rest.0 + few, of_rest.1 + new);
                }
                (_, of) => file.add_part(part(file.lines, of, new), &mut lines),
            }
            seen.extend(sample);
        }
        rest.add_part(part(rest.lines, of_rest.0, of_rest.1), &mut lines);
        lines
    }
}

/// The part of `lines` that is new, as `new` in `of` sampled ones are; of a part that is unsure its lower end.
fn part(lines: u64, of: usize, new: usize) -> u64 {
    if of == 0 || new == 0 {
        return 0;
    }
    if new == of {
        return lines;
    }
    let share = new as f64 / of as f64;
    let low = share - 2.0 * (share * (1.0 - share) / of as f64).sqrt();
    (lines as f64 * low.max(0.0)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use schemas::time::HOUR;

    fn id(number: u64) -> ClickId {
        ClickId::from_edge("nginx", &number.to_le_bytes(), "k")
    }

    fn of(numbers: impl Iterator<Item = u64>) -> OriginHours {
        let mut hours = OriginHours::default();
        numbers.for_each(|number| hours.add(id(number), UtcMicros(7 * HOUR + number as i64), "w"));
        hours
    }

    fn distinct(files: &[OriginHours]) -> u64 {
        OriginHours::distinct(files.iter(), 7).values().sum()
    }

    #[test]
    fn files_apart_and_files_within_files_are_counted_exactly() {
        let (a, b, whole) = (of(0..900), of(900..5_000), of(0..5_000));
        assert_eq!(distinct(&[a.clone(), b.clone()]), 5_000);
        assert_eq!(distinct(&[a.clone(), a.clone(), a.clone()]), 900);
        assert_eq!(distinct(&[a.clone(), whole.clone()]), 5_000);
        assert_eq!(distinct(&[b, whole, a]), 5_000);
        assert_eq!(distinct(&[]), 0);
        assert!(OriginHours::distinct([of(0..5)].iter(), 8).is_empty());
        let small: Vec<OriginHours> = (0..100).map(|n| of(10_000 + n * 10..10_000 + n * 10 + 10)).collect();
        assert_eq!(distinct(&small), 1_000, "many small files");
    }

    #[test]
    fn a_shared_part_is_counted_rather_too_low() {
        let files = [of(0..3_000), of(1_500..4_500)];
        let counted = distinct(&files);
        assert!((3_500..=4_600).contains(&counted), "{counted}");
    }

    #[test]
    fn each_workspaces_lines_are_its_own() {
        let mut mixed = of(0..600);
        (1_000..1_900).for_each(|number| mixed.add(id(number), UtcMicros(7 * HOUR), "v"));
        mixed.add(id(5_000), UtcMicros(7 * HOUR), UNLINKED);
        let by = |files: &[OriginHours]| OriginHours::distinct(files.iter(), 7);
        let expected: BTreeMap<String, u64> = [("", 1), ("v", 900), ("w", 600)].map(|(k, n)| (k.to_owned(), n)).into();
        assert_eq!(by(&[mixed.clone()]), expected);
        assert_eq!(by(&[of(0..600), mixed.clone(), of(100..200)]), expected, "a part of it comes again");
        assert_eq!(OriginHours::from_text(&mixed.to_text().unwrap()), mixed);
        assert_eq!(
            by(&[OriginHours::from_text("7:3:000000010000000200000003")])["default"],
            3,
            "as it was written once"
        );
        let mut many = OriginHours::default();
        (0..2_000).for_each(|number| many.add(id(number), UtcMicros(7 * HOUR), &format!("w{number}")));
        assert_eq!(by(&[many]).len(), WORKSPACES);
    }

    #[test]
    fn what_can_not_be_read_is_left_out() {
        let text = of(0..3).to_text().unwrap();
        let odd = format!("x:1:00000001 8:1 {text} 9:1:zz 9:1:00000001:w");
        assert_eq!(OriginHours::from_text(&odd), of(0..3));
        assert_eq!(OriginHours::default().to_text(), None);
        assert_eq!(OriginHours::from_text(""), OriginHours::default());
    }

    proptest! {
        #[test]
        fn the_text_is_read_as_it_was_written(lines in proptest::collection::vec((0u64..500, 0i64..5, 0usize..3), 0..300)) {
            let mut hours = OriginHours::default();
            for (number, hour, workspace) in lines {
                hours.add(id(number), UtcMicros(hour * HOUR), ["", "w", "a-b.c_D"][workspace]);
            }
            let text = hours.to_text().unwrap_or_default();
            prop_assert_eq!(OriginHours::from_text(&text), hours);
        }

        /// The sample is the same whatever the order of lines, and never too high a count comes of files that are
        /// within others.
        #[test]
        fn order_does_not_matter(from in 0u64..2_000, to in 0u64..2_000) {
            let (from, to) = (from.min(to), from.max(to));
            prop_assert_eq!(of(from..to), of((from..to).rev()));
            let nested = [of(0..2_000), of(from..to)];
            prop_assert_eq!(distinct(&nested), 2_000);
        }
    }
}
