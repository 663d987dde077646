//! `[retention]`: how long rows are kept.

use schemas::Keep;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// `[retention]`
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Retention {
    /// How long the rows of a workspace are kept that says nothing else.
    pub(crate) keep: Limit,
}

/// A number of days, written as `400d`; nothing: for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limit(pub(crate) Option<u32>);

impl Serialize for Limit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0.map(|days| format!("{days}d")).unwrap_or_default())
    }
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = super::units::written(deserializer)?;
        let wrong = || {
            serde::de::Error::custom(format!("{text:?} is not a number of days such as \"400d\", or empty: for ever"))
        };
        match text.parse::<Keep>() {
            Ok(Keep::Days(days)) => Ok(Self(Some(days))),
            Ok(Keep::Forever) => Ok(Self(None)),
            Err(_) if text.is_empty() => Ok(Self(None)),
            // this is the default
            Ok(Keep::Default) | Err(_) => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Limit, String> {
        serde_json::from_value(text.into()).map_err(|error| error.to_string())
    }

    #[test]
    fn days_go_there_and_back_and_nothing_is_for_ever() {
        for text in ["", "1d", "400d"] {
            assert_eq!(serde_json::to_value(read(text).unwrap()).unwrap(), text);
        }
        assert_eq!(read("forever"), Ok(Limit(None)));
        for text in ["0d", "48h", "400", "default", "-1d"] {
            assert!(read(text).unwrap_err().contains("400d"), "{text}");
        }
        let number = serde_json::from_str::<Limit>("5").unwrap_err().to_string();
        assert!(number.contains("\"5\" is not a number of days such as"), "{number}");
    }
}
