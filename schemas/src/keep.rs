//! How long a workspace's rows are kept, in whole days.

use std::fmt;
use std::str::FromStr;

/// How long rows are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// As long as the configuration says (`retention.keep`).
    #[default]
    Default,
    /// For ever.
    Forever,
    /// For so many days, at least one.
    Days(u32),
}

/// The most days: within what calendars say.
const MOST_DAYS: u32 = 36_525;

impl Keep {
    /// So many days; none: for ever.
    pub fn days(self, default: Option<u32>) -> Option<u32> {
        match self {
            Self::Default => default,
            Self::Forever => None,
            Self::Days(days) => Some(days),
        }
    }
}

impl fmt::Display for Keep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Forever => f.write_str("forever"),
            Self::Days(days) => write!(f, "{days}d"),
        }
    }
}

impl FromStr for Keep {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || {
            format!(
                "{text:?} is not how long rows are kept: expected days from 1d to {MOST_DAYS}d, forever, or default"
            )
        };
        match text {
            "default" => Ok(Self::Default),
            "forever" => Ok(Self::Forever),
            _ => {
                let days = text.strip_suffix('d').and_then(|days| days.trim_end().parse().ok());
                days.filter(|days| (1..=MOST_DAYS).contains(days)).map(Self::Days).ok_or_else(expected)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_there_and_back() {
        for text in ["default", "forever", "1d", "400d", "36525d"] {
            assert_eq!(text.parse::<Keep>().unwrap().to_string(), text);
        }
        for text in ["", "0d", "d", "-1d", "36526d", "48h", "1.5d", "never"] {
            assert!(text.parse::<Keep>().unwrap_err().contains("forever"), "{text}");
        }
        assert_eq!(Keep::Default.days(Some(7)), Some(7));
        assert_eq!((Keep::Forever.days(Some(7)), Keep::Days(3).days(None)), (None, Some(3)));
    }
}
