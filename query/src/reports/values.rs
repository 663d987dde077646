//! What parameters and their values may be, and what is said of those that can't.

use schemas::class::{Class, Device, Source};

use super::continent;
use super::dims::Dimension;
use crate::near::{did_you_mean, near};

/// Parameters that are no filters.
pub(super) const PARAMETERS: &[&str] = &[
    "code",
    "domain",
    "link_id",
    "start",
    "end",
    "interval_preset",
    "timezone",
    "interval",
    "group_by",
    "limit",
    "class",
];

/// Why a dimension can't have a value; the empty one is known of all.
pub(super) fn refused(dimension: Dimension, value: &str) -> Option<String> {
    let is_country = |value: &str| value.len() == 2 && value.bytes().all(|byte| byte.is_ascii_uppercase());
    match dimension.name() {
        "class" if value.parse::<Class>().is_err() => Some(class_words()),
        _ if value.is_empty() => None,
        "continent" if continent::countries(value).next().is_none() => {
            Some("expected AF, AN, AS, EU, NA, OC or SA".to_owned())
        }
        "country" if !is_country(value) => {
            Some(format!("{} is not a country's two letters, such as NL or US", shown(value)))
        }
        "device" => value.parse::<Device>().err().map(|error| error.to_string()),
        "source" => value.parse::<Source>().err().map(|error| error.to_string()),
        _ => None,
    }
}

/// A value as messages show it: of a long one the beginning.
pub(super) fn shown(value: &str) -> String {
    const MOST: usize = 64;
    let shown: String = value.chars().take(MOST).collect();
    format!("{shown:?}{}", if shown.len() < value.len() { "…" } else { "" })
}

/// What is said of a parameter that isn't known.
pub(super) fn unknown(name: &str) -> String {
    let dimensions = Dimension::names();
    let meant = did_you_mean(near(name, PARAMETERS.iter().copied().chain(dimensions.split(", "))));
    format!(
        "unknown parameter{meant}; known are {}, and as filters, with not_ before them too, {dimensions}",
        PARAMETERS.join(", ")
    )
}

pub(super) fn class_words() -> String {
    let words: Vec<&str> = Class::ALL.iter().map(|class| class.as_str()).collect();
    format!("expected all, {}", words.join(", "))
}
