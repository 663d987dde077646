//! Which partitions of a topic a process reads, as people write it.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Which partitions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) enum Partitions {
    /// A fair share, agreed with the others by leases in the link store.
    #[default]
    Shared,
    /// These: `0-3` or `0,2,5-7`.
    Listed(BTreeSet<u32>),
    /// Every so manieth, from one's own number on: `0/3`, as the instances of a StatefulSet are numbered.
    Every {
        /// The first.
        first: u32,
        /// How many instances there are.
        of: u32,
    },
}

impl Partitions {
    /// Those of a topic's `count` partitions that are read whatever others do; `None` when they are shared.
    pub(crate) fn fixed(&self, count: u32) -> Option<BTreeSet<u32>> {
        match self {
            Self::Shared => None,
            Self::Listed(parts) => Some(parts.clone()),
            Self::Every { first, of } => Some((0..count).filter(|part| part % of == *first).collect()),
        }
    }

    /// Whether a topic with `count` partitions lacks one that is named, or has none for this process.
    pub(crate) fn are_beyond(&self, count: u32) -> bool {
        match self {
            Self::Shared => false,
            Self::Listed(parts) => parts.iter().any(|part| *part >= count),
            Self::Every { first, .. } => *first >= count,
        }
    }
}

impl FromStr for Partitions {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("{text:?} names no partitions; expected \"shared\", such as \"0-3\", \"0,2,5-7\", or \"0/3\"");
        let number = |text: &str| text.trim().parse::<u32>().map_err(|_| wrong());
        if text.trim() == "shared" {
            return Ok(Self::Shared);
        }
        if let Some((first, of)) = text.split_once('/') {
            let (first, of) = (number(first)?, number(of)?);
            return if first < of { Ok(Self::Every { first, of }) } else { Err(wrong()) };
        }
        let mut parts = BTreeSet::new();
        for range in text.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last) = (number(first)?, number(last)?);
            if last < first || last - first > 1_024 {
                return Err(wrong());
            }
            parts.extend(first..=last);
        }
        Ok(Self::Listed(parts))
    }
}

impl fmt::Display for Partitions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shared => f.write_str("shared"),
            Self::Every { first, of } => write!(f, "{first}/{of}"),
            Self::Listed(parts) => {
                let parts: Vec<String> = parts.iter().map(u32::to_string).collect();
                f.write_str(&parts.join(","))
            }
        }
    }
}

impl TryFrom<String> for Partitions {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Partitions> for String {
    fn from(partitions: Partitions) -> Self {
        partitions.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixed(text: &str, count: u32) -> Option<Vec<u32>> {
        let partitions: Partitions = text.parse().unwrap();
        assert_eq!(partitions.to_string().parse(), Ok(partitions.clone()), "{text}");
        Some(partitions.fixed(count)?.into_iter().collect())
    }

    #[test]
    fn what_is_written_is_what_is_read() {
        assert_eq!(fixed("shared", 4), None);
        assert_eq!(fixed("0-3", 8), Some(vec![0, 1, 2, 3]));
        assert_eq!(fixed("6, 0,2-3", 8), Some(vec![0, 2, 3, 6]));
        let beyond = |text: &str| text.parse::<Partitions>().unwrap().are_beyond(4);
        assert!(!["shared", "0-3", "3", "3/9", "0/1"].into_iter().any(beyond));
        assert!(["4", "0-4", "7", "4/9"].into_iter().all(beyond));
        let every: Vec<u32> = (0..3).flat_map(|n| fixed(&format!("{n}/3"), 8).unwrap()).collect();
        assert_eq!(every, [0, 3, 6, 1, 4, 7, 2, 5]);
        for wrong in ["", "a", "3-1", "3/3", "0/0", "-1", "0-99999"] {
            assert!(wrong.parse::<Partitions>().unwrap_err().contains("0,2,5-7"), "{wrong}");
        }
    }
}
