//! Merging the sources of configuration, with errors that name the key, the value and what is expected.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use figment::providers::{Env, Format, Serialized, Toml};
use figment::value::{Dict, Value};
use figment::{Figment, Profile, Provider as _};
use serde::Serialize;

use super::Config;

/// Variables with our prefix that are no configuration.
const RESERVED: &[&str] = &["CONFIG", "LOG"];
const PREFIX: &str = "HIGHWATER_";

/// A configuration that has passed every check, and where its values came from.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// The effective values.
    pub(crate) config: Config,
    figment: Figment,
}

/// What is wrong with a configuration, one line each.
#[derive(Debug, thiserror::Error)]
#[error("configuration is not valid:\n{}", .0.iter().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n"))]
pub(crate) struct Invalid(pub Vec<String>);

/// Loads and checks the configuration.
///
/// `file` is the file named on the command line, else `HIGHWATER_CONFIG`, else `./highwater.toml` if present;
/// `data` the data folder named on the command line.
///
/// # Errors
/// When a named file can't be read, a key is unknown, or a value doesn't fit.
pub(crate) fn load(file: Option<&Path>, data: Option<&Path>) -> Result<Loaded, Invalid> {
    let named = file.map(Path::to_path_buf).or_else(|| std::env::var_os("HIGHWATER_CONFIG").map(PathBuf::from));
    let found = named.or_else(|| Some(Config::default_file().to_owned()).filter(|path| path.is_file()));
    let mut figment = Figment::from(Serialized::defaults(Config::default()));
    if let Some(path) = found {
        readable(&path)?;
        figment = figment.merge(Toml::file_exact(path));
    }
    figment = figment.merge(environment());
    if let Some(data) = data {
        figment = figment.merge(Serialized::default("data_dir", data));
    }
    let unknown = unknown_keys(&figment)?;
    if !unknown.is_empty() {
        return Err(Invalid(unknown));
    }
    let config: Config = figment.extract().map_err(|errors| Invalid(errors.into_iter().map(explain).collect()))?;
    let wrong = super::check::problems(&config);
    if wrong.is_empty() { Ok(Loaded { config, figment }) } else { Err(Invalid(wrong)) }
}

/// That the file is there and is TOML, with an error that names it.
fn readable(path: &Path) -> Result<(), Invalid> {
    let wrong = |why: String| Invalid(vec![format!("configuration file {}: {why}", path.display())]);
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    text.parse::<toml::Table>().map(drop).map_err(|error| wrong(error.to_string().trim_end().replace('\n', "\n  ")))
}

fn environment() -> Env {
    Env::prefixed(PREFIX)
        .filter(|key| {
            !RESERVED.iter().any(|name| key.as_str().eq_ignore_ascii_case(name)) && !is_for_tests(key.as_str())
        })
        .split("__")
}

fn is_for_tests(key: &str) -> bool {
    key.to_ascii_lowercase().starts_with("test_")
}

/// One line for an error of a value: the key, what was found, what is expected, where it came from.
fn explain(error: figment::Error) -> String {
    let key = error.path.join(".");
    let place = error.metadata.as_ref().map(describe).unwrap_or_default();
    match key.is_empty() {
        true => format!("{}{place}", error.kind),
        false => format!("{key}: {}{place}", error.kind),
    }
}

fn describe(metadata: &figment::Metadata) -> String {
    match &metadata.source {
        Some(figment::Source::File(path)) => format!(" (in {})", path.display()),
        _ if metadata.name.contains("environment") => " (in the environment)".to_owned(),
        _ => String::new(),
    }
}

/// Keys that are set but not known, each with the nearest known one.
fn unknown_keys(figment: &Figment) -> Result<Vec<String>, Invalid> {
    let known = paths_of(&Config::default());
    let data = figment.data().map_err(|errors| Invalid(errors.into_iter().map(explain).collect()))?;
    let dict = data.get(&Profile::Default).cloned().unwrap_or_default();
    let mut set = Vec::new();
    flatten("", &dict, &mut set);
    let mut lines = Vec::new();
    for key in set {
        // below a map of free names (edge_logs.fastly.fields) any key goes
        let is_known = known.contains_key(&key) || key.starts_with("edge_logs.fastly.fields.");
        if !is_known {
            let place = figment.find_metadata(&key).map(describe).unwrap_or_default();
            let nearest = nearest(&key, known.keys().map(String::as_str));
            lines.push(format!("{key} is not a known key{place}; did you mean {nearest}?"));
        }
    }
    Ok(lines)
}

fn nearest<'a>(key: &str, known: impl Iterator<Item = &'a str>) -> &'a str {
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
    known
        .min_by(|a, b| {
            let score = |path: &str| {
                // a right name in a wrong section is nearer than a wrong name in the right one
                strsim::normalized_damerau_levenshtein(key, path)
                    .max(strsim::normalized_damerau_levenshtein(&last(key), &last(path)) - 0.05)
            };
            score(b).total_cmp(&score(a))
        })
        .unwrap_or_default()
}

fn flatten(prefix: &str, dict: &Dict, out: &mut Vec<String>) {
    for (name, value) in dict {
        let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        match value {
            Value::Dict(_, inner) if !inner.is_empty() => flatten(&path, inner, out),
            Value::Dict(..) => {}
            _ => out.push(path),
        }
    }
}

/// Every leaf of a serialisable value, by its dotted path.
fn paths_of(value: &impl Serialize) -> BTreeMap<String, serde_json::Value> {
    fn walk(prefix: String, value: serde_json::Value, out: &mut BTreeMap<String, serde_json::Value>) {
        match value {
            serde_json::Value::Object(map) if !map.is_empty() => {
                for (name, inner) in map {
                    walk(if prefix.is_empty() { name } else { format!("{prefix}.{name}") }, inner, out);
                }
            }
            leaf => {
                out.insert(prefix, leaf);
            }
        }
    }
    let mut out = BTreeMap::new();
    walk(String::new(), serde_json::to_value(value).unwrap_or_default(), &mut out);
    out
}

impl Loaded {
    /// Every key with its effective value and where it came from, in the order of their names.
    pub(crate) fn origins(&self) -> Vec<(String, serde_json::Value, String)> {
        let mut effective = self.config.clone();
        effective.lake = self.config.lake_root();
        effective.links.url = self.config.link_store();
        paths_of(&effective)
            .into_iter()
            .map(|(key, value)| {
                let origin = self.figment.find_metadata(&key).map_or("default".to_owned(), |metadata| {
                    match (&metadata.source, metadata.name.as_ref()) {
                        (Some(figment::Source::File(path)), _) => path.display().to_string(),
                        (_, name) if name.contains("environment") => "environment".to_owned(),
                        _ if key == "data_dir" && self.config.data_dir != Config::default().data_dir => {
                            "command line".to_owned()
                        }
                        _ => "default".to_owned(),
                    }
                });
                (key, value, origin)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load_text(text: &str) -> Result<Loaded, Invalid> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("highwater.toml");
        std::fs::write(&file, text).unwrap();
        load(Some(&file), None)
    }

    #[test]
    fn the_contracts_example_is_the_default() {
        let loaded = load_text(include_str!("../../docs/highwater.toml")).unwrap();
        let expected = Config { lake: "./highwater-data/lake".into(), ..Config::default() };
        assert_eq!(paths_of(&loaded.config), paths_of(&expected));
    }

    #[test]
    fn an_unknown_key_names_the_nearest_known_one() {
        for (text, nearest) in [
            ("[redirect]\ns_max_age = \"10s\"", "redirect.s_maxage"),
            ("[journal]\nreserv = \"1GiB\"", "journal.reserve"),
            ("[edge]\ncache_ttl = \"5s\"", "redirect.cache_ttl"),
            ("datadir = \"x\"", "data_dir"),
        ] {
            let message = load_text(text).unwrap_err().to_string();
            assert!(message.contains(&format!("did you mean {nearest}?")), "{message}");
        }
    }

    #[test]
    fn a_wrong_value_names_key_and_what_is_expected() {
        for (text, key, expected) in [
            ("[redirect]\ns_maxage = \"soon\"", "redirect.s_maxage", "is not a span of time such as"),
            ("[redirect]\nlisten = \"here\"", "redirect.listen", "socket address"),
            ("[edge]\nid = \"maybe\"", "edge.id", "status-only"),
            ("[journal]\nmax_bytes = \"lots\"", "journal.max_bytes", "is not a size such as"),
        ] {
            let message = load_text(text).unwrap_err().to_string();
            assert!(message.contains(key) && message.contains(expected), "{message}");
        }
    }

    #[test]
    fn a_missing_file_is_an_error_when_it_was_named() {
        assert!(load(Some(Path::new("/nowhere/highwater.toml")), None).is_err());
    }
}
