//! Merging the sources of configuration, with errors that name the key, the value and what is expected.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use figment::providers::{Env, Format, Serialized, Toml};
use figment::value::{Dict, Value};
use figment::{Figment, Profile, Provider as _};
use serde::Serialize;

use super::Config;
use super::near::{did_you_mean, near, near_key};
use super::told::{describe, explain, is_environment, is_given, variable};

/// Variables with our prefix that are no configuration.
const RESERVED: &[&str] = &["CONFIG", "LOG"];
pub(super) const PREFIX: &str = "HIGHWATER_";

/// A configuration that has passed every check, and where its values came from.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// The effective values.
    pub(crate) config: Config,
    figment: Figment,
    file: Option<PathBuf>,
}

impl Loaded {
    /// The file that was read, if any was.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }
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
    if let Some(path) = &found {
        readable(path)?;
        figment = figment.merge(Toml::file_exact(path));
    }
    figment = figment.merge(environment());
    if let Some(data) = data {
        figment = figment.merge(Serialized::default("data_dir", data));
    }
    let (unknown, mut wrong) = unknown_keys(&figment)?;
    let (mut config, malformed) = extract(known_part(&figment, &unknown)?, &figment)?;
    if !figment.find_metadata("redirect.domains").is_some_and(is_given) {
        // nobody has named a host: links are on the port that redirects are
        config.redirect.domains = vec![format!("localhost:{}", config.redirect.listen.port())];
    }
    // what stands for a value that can't be read is nobody's mistake
    let is_meant = |line: &String| !malformed.iter().any(|(key, _)| line.contains(key.as_str()));
    let problems = super::check::problems(&config);
    wrong.extend(malformed.iter().map(|(_, line)| line.clone()));
    wrong.extend(problems.into_iter().filter(is_meant));
    if wrong.is_empty() { Ok(Loaded { config, figment, file: found }) } else { Err(Invalid(wrong)) }
}

/// The values, and every one that can't be read, by its key: figment stops at the first, so that is set right and it is asked
/// again. `whole` knows where they came from.
fn extract(mut figment: Figment, whole: &Figment) -> Result<(Config, Vec<(String, String)>), Invalid> {
    let defaults = paths_of(&Config::default());
    let mut wrong: Vec<(String, String)> = Vec::new();
    loop {
        let errors = match figment.extract::<Config>() {
            Ok(config) => return Ok((config, wrong)),
            Err(errors) => errors,
        };
        for error in errors {
            let key = error.path.join(".");
            let line = explain(&error, whole);
            let default = defaults.get(&key).filter(|_| !wrong.iter().any(|(_, told)| *told == line));
            wrong.push((key.clone(), line));
            match default {
                Some(value) => figment = figment.merge(Serialized::default(&key, value)),
                None => return Err(Invalid(wrong.into_iter().map(|(_, line)| line).collect())),
            }
        }
    }
}

/// The values without those of `unknown` keys, which would keep all others from being read.
fn known_part(figment: &Figment, unknown: &[String]) -> Result<Figment, Invalid> {
    fn without(prefix: &str, dict: Dict, unknown: &[String]) -> Dict {
        let kept = dict.into_iter().filter_map(|(name, value)| {
            let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
            match value {
                Value::Dict(tag, inner) => {
                    let inner = without(&path, inner, unknown);
                    (!inner.is_empty()).then_some((name, Value::Dict(tag, inner)))
                }
                value => (!unknown.contains(&path)).then_some((name, value)),
            }
        });
        kept.collect()
    }
    if unknown.is_empty() {
        return Ok(figment.clone());
    }
    Ok(Figment::from(Serialized::defaults(without("", values(figment)?, unknown))))
}

/// All that is set, defaults too.
fn values(figment: &Figment) -> Result<Dict, Invalid> {
    let data = figment.data().map_err(|errors| Invalid(errors.into_iter().map(|e| explain(&e, figment)).collect()))?;
    Ok(data.get(&Profile::Default).cloned().unwrap_or_default())
}

/// That the file is there and is TOML, with an error that names it.
fn readable(path: &Path) -> Result<(), Invalid> {
    let wrong = |why: String| Invalid(vec![format!("configuration file {}: {why}", path.display())]);
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    text.parse::<toml::Table>().map(drop).map_err(|error| wrong(error.to_string().trim_end().replace('\n', "\n  ")))
}

fn environment() -> Env {
    let theirs = service_links();
    Env::prefixed(PREFIX)
        .filter(move |key| {
            let is_theirs = theirs.iter().any(|name| key.as_str().eq_ignore_ascii_case(name));
            !RESERVED.iter().any(|name| key.as_str().eq_ignore_ascii_case(name))
                && !is_for_tests(key.as_str())
                && !is_theirs
        })
        .split("__")
}

/// Variables that Kubernetes has set for a Service whose name begins as ours, without our prefix.
fn service_links() -> Vec<String> {
    let set =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let service = PREFIX.trim_end_matches('_');
    let links = set.filter(|(name, value)| super::kubernetes::is_service_link(service, name, value));
    links.filter_map(|(name, _)| Some(name.strip_prefix(PREFIX)?.to_owned())).collect()
}

fn is_for_tests(key: &str) -> bool {
    key.to_ascii_lowercase().starts_with("test_")
}

/// Keys that are set but not known, and what is said of them, with the nearest known ones.
fn unknown_keys(figment: &Figment) -> Result<(Vec<String>, Vec<String>), Invalid> {
    let known = paths_of(&Config::default());
    let mut set = Vec::new();
    flatten("", &values(figment)?, &mut set);
    let (mut unknown_keys, mut lines) = (Vec::new(), Vec::new());
    for key in set {
        // below a map of free names (edge_logs.fastly.fields) any key goes
        let is_known = known.contains_key(&key) || key.starts_with("edge_logs.fastly.fields.");
        if !is_known {
            let metadata = figment.find_metadata(&key);
            let place = metadata.map(|metadata| describe(metadata, &key)).unwrap_or_default();
            let section = key.split_once('.').map(|(section, _)| section);
            let unknown = section.filter(|section| !known.keys().any(|key| key.starts_with(&format!("{section}."))));
            match unknown {
                Some(section) => {
                    let sections = known.keys().filter_map(|key| key.split_once('.')).map(|(section, _)| section);
                    let meant = did_you_mean(near(section, sections).map(|meant| format!("[{meant}]")));
                    lines.push(format!("[{section}] is not a known section{place}{meant}"));
                }
                None => {
                    let meant = near_key(&key, known.keys().map(String::as_str));
                    let meant = meant.map(|meant| match metadata.is_some_and(is_environment) {
                        true => format!("{meant}, which is {}", variable(meant)),
                        false => meant.to_owned(),
                    });
                    lines.push(format!("{key} is not a known key{place}{}", did_you_mean(meant)));
                }
            }
            unknown_keys.push(key);
        }
    }
    Ok((unknown_keys, lines))
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
        effective.links.url = redirect::links::shown(&self.config.link_store());
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
    fn a_key_that_is_like_no_other_is_named_alone() {
        let message = load_text("foo = 1").unwrap_err().to_string();
        assert!(message.contains("foo is not a known key (in ") && !message.contains("did you mean"), "{message}");
        assert_eq!(variable("retention.keep"), "HIGHWATER_RETENTION__KEEP");
    }

    #[test]
    fn a_wrong_value_names_key_and_what_is_expected() {
        for (text, key, expected) in [
            ("[redirect]\ns_maxage = \"soon\"", "redirect.s_maxage", "is not a span of time such as"),
            (
                "[redirect]\nlisten = \"8080\"",
                "redirect.listen",
                "is not an address and port such as \"127.0.0.1:8080\"",
            ),
            ("[redirect]\nlisten = \"8080\"", "redirect.listen", "\"8080\" is not an address and port"),
            ("[redirect]\nlisten = 8080", "redirect.listen", "expected an address and port in quotes"),
            ("[redirect]\nworkers = -1", "redirect.workers", "invalid value `-1`, expected a whole number from 0 on"),
            ("[stream]\nbackend = \"kafka\"", "stream.backend", "expected `embedded` or `fluvio` (in "),
            ("lake = \"s3:/bucket\"", "lake", "s3://"),
            ("data_dir = \"\"", "data_dir", "names no folder"),
            ("[redirect]\ndomains = \"a\"", "redirect.domains", "expected a list such as"),
            ("[edge]\nid = \"maybe\"", "edge.id", "status-only"),
            ("[journal]\nmax_bytes = \"lots\"", "journal.max_bytes", "is not a size such as"),
            ("[journal]\nmax_bytes = 5", "journal.max_bytes", "\"5\" is not a size such as"),
            ("[edge]\nskew = 1.5", "edge.skew", "\"1.5\" is not a span of time such as"),
            ("[retention]\nkeep = 5", "retention.keep", "\"5\" is not a number of days such as"),
            ("lake = 5", "lake", "found number `5`"),
        ] {
            let message = load_text(text).unwrap_err().to_string();
            assert!(message.contains(key) && message.contains(expected), "{message}");
        }
    }

    #[test]
    fn every_wrong_value_is_named_at_once() {
        let text = "[redirect]\nlisten = \"x\"\nworkers = -1\n[journal]\nmax_bytes = \"ten\"\n[edge]\nskew = \"x\"\n";
        let message = load_text(text).unwrap_err().to_string();
        for key in ["redirect.listen", "redirect.workers", "journal.max_bytes", "edge.skew"] {
            assert_eq!(message.matches(key).count(), 1, "{message}");
        }
    }

    #[test]
    fn unknown_keys_wrong_forms_and_wrong_values_are_told_together() {
        let text = "lak = \"x\"\n[redirct]\na = 1\n[redirect]\ncache_ttl = \"soon\"\ns_maxage = \"29s\"\n\
                    [edge]\nprovider = \"acme\"\nskw = \"1s\"\n";
        let Invalid(lines) = load_text(text).unwrap_err();
        let about: Vec<&str> = lines.iter().filter_map(|line| line.split([' ', ':']).next()).collect();
        assert_eq!(about, ["edge.skw", "lak", "[redirct]", "redirect.cache_ttl", "edge.provider"], "{lines:#?}");
        assert!(
            lines[3].contains("\"soon\" is not a span of time") && lines[3].contains("highwater.toml)"),
            "{lines:#?}"
        );
    }

    #[test]
    fn a_section_that_is_not_known_is_named_as_one() {
        let message = load_text("[redirct]\nlisten = \"127.0.0.1:1\"").unwrap_err().to_string();
        assert!(message.contains("[redirct] is not a known section") && message.contains("[redirect]?"), "{message}");
    }

    #[test]
    fn links_are_on_the_port_that_redirects_are_unless_a_host_is_named() {
        let domains = |text: &str| load_text(text).unwrap().config.redirect.domains;
        assert_eq!(domains(""), ["localhost:8080"]);
        assert_eq!(domains("[redirect]\nlisten = \"127.0.0.1:9980\""), ["localhost:9980"]);
        assert_eq!(domains("[redirect]\nlisten = \"127.0.0.1:9980\"\ndomains = [\"a.example\"]"), ["a.example"]);
    }

    #[test]
    fn a_missing_file_is_an_error_when_it_was_named() {
        assert!(load(Some(Path::new("/nowhere/highwater.toml")), None).is_err());
    }
}
