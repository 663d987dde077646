//! What is said of values that can't be read: the key, what was found, what is expected, where it came from.

use figment::Figment;
use figment::value::Value;

use super::load::PREFIX;

/// One line for an error of a value: the key, what was found, what is expected, where it came from.
pub(super) fn explain(error: &figment::Error, whole: &Figment) -> String {
    let key = error.path.join(".");
    let place = whole.find_metadata(&key).or(error.metadata.as_ref()).map(|metadata| describe(metadata, &key));
    let place = place.unwrap_or_default();
    let what = plain(&error.kind.to_string());
    // who reads an address doesn't say what it has read
    let given = whole.find_value(&key).ok().filter(|_| what.starts_with("is not "));
    let given = given.as_ref().and_then(Value::as_str).map(|given| format!("{given:?} ")).unwrap_or_default();
    match key.is_empty() {
        true => format!("{what}{place}"),
        false => format!("{key}: {given}{what}{place}"),
    }
}

/// What serde and the standard library say, in words that a reader of the file knows.
fn plain(what: &str) -> String {
    let words = [
        ("invalid socket address syntax", "is not an address and port such as \"127.0.0.1:8080\""),
        ("``", "`"),
        ("unsigned int", "number"),
        ("signed int", "number"),
        ("invalid value number", "invalid value"),
        ("expected socket address", "expected an address and port in quotes, such as \"127.0.0.1:8080\""),
        ("expected usize", "expected a whole number from 0 on"),
        ("expected u32", "expected a whole number from 0 on"),
        ("expected a sequence", "expected a list such as [\"a\", \"b\"]"),
    ];
    words.iter().fold(what.to_owned(), |text, (theirs, ours)| text.replace(theirs, ours))
}

/// Whether a value was given, rather than being the default.
pub(super) fn is_given(metadata: &figment::Metadata) -> bool {
    matches!(metadata.source, Some(figment::Source::File(_))) || is_environment(metadata)
}

pub(super) fn is_environment(metadata: &figment::Metadata) -> bool {
    metadata.name.contains("environment")
}

/// Where the value of `key` came from, to be put behind it.
pub(super) fn describe(metadata: &figment::Metadata, key: &str) -> String {
    match &metadata.source {
        Some(figment::Source::File(path)) => format!(" (in {})", path.display()),
        _ if is_environment(metadata) => format!(" (in the environment: {})", variable(key)),
        _ => String::new(),
    }
}

/// The variable that sets a key.
pub(super) fn variable(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('.', "__").to_uppercase())
}
