//! Spans of time, sizes and networks as people write them: `50ms`, `10s`, `48h`, `1GiB`, `10.0.0.0/8`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use ipnet::IpNet;
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A span of time, written as a number and `ms`, `s`, `m`, `h` or `d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Span(pub Duration);

/// A number of bytes, written as a number and `B`, `KiB`, `MiB`, `GiB` or `TiB` (or `KB` … in thousands).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Size(pub u64);

const SPANS: &[(&str, u64)] = &[("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
const SIZES: &[(&str, u64)] = &[
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("B", 1),
];

/// The number and unit of `text`, as a whole number of the smallest unit.
fn parse(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let unit = unit.trim();
    let factor = units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?.1;
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// The shortest exact way to write `value`.
fn write(value: u64, units: &[(&str, u64)], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    // a day is not written: 48h says more plainly what was meant
    let (name, factor) = units
        .iter()
        .filter(|(name, factor)| *name != "d" && value != 0 && value.is_multiple_of(*factor))
        .max_by_key(|(_, factor)| *factor)
        .or_else(|| units.iter().min_by_key(|(_, factor)| *factor))
        .copied()
        .unwrap_or(("", 1));
    write!(f, "{}{name}", value / factor)
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse(text, SPANS)
            .map(|ms| Self(Duration::from_millis(ms)))
            .ok_or_else(|| format!("{text:?} is not a span of time such as \"50ms\", \"10s\", \"15m\", \"48h\""))
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse(text, SIZES).map(Self).ok_or_else(|| format!("{text:?} is not a size such as \"64MiB\" or \"10GiB\""))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(self.0.as_millis() as u64, SPANS, f)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(self.0, SIZES, f)
    }
}

macro_rules! as_text {
    ($($unit:ty),+) => {$(
        impl Serialize for $unit {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $unit {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                written(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    )+};
}
as_text!(Span, Size);

/// A value as it is written. A number without quotes or unit (`5`) is text too, so that it is refused in the words of what
/// was expected.
pub(super) fn written<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    struct Written;

    impl Visitor<'_> for Written {
        type Value = String;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a number with its unit, in quotes")
        }

        fn visit_str<E>(self, text: &str) -> Result<String, E> {
            Ok(text.to_owned())
        }

        fn visit_u64<E>(self, number: u64) -> Result<String, E> {
            Ok(number.to_string())
        }

        fn visit_i64<E>(self, number: i64) -> Result<String, E> {
            Ok(number.to_string())
        }

        fn visit_f64<E>(self, number: f64) -> Result<String, E> {
            Ok(number.to_string())
        }
    }
    deserializer.deserialize_any(Written)
}

/// Networks, of which a wrong one is named.
pub(crate) fn nets<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<IpNet>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    let one = |text: String| {
        let expected = "is no network, expected one such as \"10.0.0.0/8\" or \"2001:db8::/32\"";
        text.parse().map_err(|_| serde::de::Error::custom(format_args!("{text:?} {expected}")))
    };
    texts.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_and_sizes_go_there_and_back() {
        for text in ["50ms", "10s", "15m", "48h", "1500ms", "0ms"] {
            assert_eq!(text.parse::<Span>().unwrap().to_string(), text);
        }
        for text in ["64MiB", "10GiB", "7B", "0B"] {
            assert_eq!(text.parse::<Size>().unwrap().to_string(), text);
        }
        assert_eq!("2d".parse::<Span>().unwrap().to_string(), "48h");
        assert_eq!("1 gib".parse::<Size>().unwrap(), Size(1 << 30));
    }

    #[test]
    fn what_is_no_span_is_named() {
        for text in ["", "10", "s", "-1s", "1.5s", "10 parsecs", "99999999999999999999s"] {
            assert!(text.parse::<Span>().unwrap_err().contains("50ms"), "{text}");
        }
    }

    #[test]
    fn a_wrong_network_is_named() {
        #[derive(Debug, Deserialize)]
        struct Given {
            #[serde(deserialize_with = "nets")]
            of: Vec<IpNet>,
        }
        let given = |text: &str| toml::from_str::<Given>(text);
        assert_eq!(given("of = [\"10.0.0.0/8\", \"::1/128\"]").unwrap().of.len(), 2);
        let error = given("of = [\"10.0.0.0/40\"]").unwrap_err().to_string();
        assert!(error.contains("\"10.0.0.0/40\" is no network"), "{error}");
    }
}
