//! Keeps `deploy/` and the operator's page true: what is written there is read here by what would read it.

use std::path::{Path, PathBuf};

use clap::Parser as _;
use serde_yaml::Value;

use crate::cli::Cli;
use crate::config::{Backend, load};

/// Something that a command takes in the place of a word that stands for it.
const ID: &str = "01a22c49-54d2-7090-a17b-f322c4ce430e";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The files below `folder` that end with `ending`.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, ending));
        } else if path.to_str().unwrap().ends_with(ending) {
            found.push(path);
        }
    }
    found
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The documents of a YAML file, with what is merged into their mappings.
fn documents(path: &Path) -> Vec<Value> {
    let text = read(path);
    let one = |document| {
        let mut value: Value = serde::Deserialize::deserialize(document)
            .unwrap_or_else(|error: serde_yaml::Error| panic!("{}: {error}", path.display()));
        value.apply_merge().unwrap();
        value
    };
    serde_yaml::Deserializer::from_str(&text).map(one).collect()
}

fn words(value: &Value) -> Vec<String> {
    value.as_sequence().into_iter().flatten().map(|word| word.as_str().unwrap().to_owned()).collect()
}

/// Fails unless `highwater` with these arguments is understood.
fn is_understood(arguments: &[String], whence: &str) {
    let line = std::iter::once("highwater").chain(arguments.iter().map(String::as_str));
    if let Err(error) = Cli::try_parse_from(line) {
        panic!("{whence}: highwater {}: {error}", arguments.join(" "));
    }
}

#[test]
fn every_configuration_loads() {
    let all = files(&root().join("deploy"), ".toml");
    assert!(all.len() >= 2, "{all:?}");
    for path in all {
        let loaded = load(Some(&path), None).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let config = loaded.config;
        assert_eq!(config.stream.backend, Backend::Fluvio, "{}", path.display());
        for listen in [config.redirect.listen, config.manage.listen, config.query.listen, config.ops.listen] {
            assert!(listen.ip().is_unspecified(), "{}: {listen} can't be reached from outside", path.display());
        }
    }
}

#[test]
fn the_compose_files_roles_are_commands_and_whom_they_wait_for_is_there() {
    let [compose] = &documents(&root().join("deploy/compose/compose.yaml"))[..] else { panic!("not one document") };
    let services = compose["services"].as_mapping().unwrap();
    let mut roles = Vec::new();
    for (name, service) in services {
        let name = name.as_str().unwrap();
        if service["image"] == "highwater" {
            is_understood(&words(&service["command"]), name);
            roles.push(name);
        }
        for other in service["depends_on"].as_mapping().into_iter().flat_map(|waits| waits.keys()) {
            assert!(services.contains_key(other), "{name} waits for {other:?}");
        }
        for port in words(&service["ports"]) {
            assert!(port.starts_with("127.0.0.1:"), "{name} publishes {port} to everybody");
        }
    }
    assert_eq!(roles, ["redirect", "process", "manage", "query"]);
}

#[test]
fn the_kubernetes_manifests_run_the_four_roles_as_they_are_started_here() {
    let mut roles = Vec::new();
    for path in files(&root().join("deploy/kubernetes/base"), ".yaml") {
        for document in documents(&path) {
            let pod = &document["spec"]["template"]["spec"];
            let Some([container]) = pod["containers"].as_sequence().map(Vec::as_slice) else { continue };
            let arguments = words(&container["args"]);
            is_understood(&arguments, &path.display().to_string());
            assert_eq!(container["image"], "highwater");
            assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
            assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
            // three drains, and the time in which it still answers
            let (grace, sleep) =
                (&pod["terminationGracePeriodSeconds"], &container["lifecycle"]["preStop"]["sleep"]["seconds"]);
            let needed = 3 * crate::run::DRAIN.as_secs() + sleep.as_u64().unwrap_or_default();
            assert!(grace.as_u64().unwrap() > needed, "{}: {needed} s may be needed", path.display());
            roles.push(arguments[0].clone());
        }
    }
    roles.sort();
    assert_eq!(roles, ["manage", "process", "query", "redirect"]);
    let patches = &documents(&root().join("deploy/kubernetes/by-ordinal/kustomization.yaml"))[0]["patches"];
    let patch: Value = serde_yaml::from_str(patches[0]["patch"].as_str().unwrap()).unwrap();
    let set =
        |path: &str| patch.as_sequence().unwrap().iter().find(|one| one["path"] == path).unwrap()["value"].clone();
    let replicas = set("/spec/replicas").as_u64().unwrap();
    let arguments = words(&set("/spec/template/spec/containers/0/args"));
    for pod in 0..replicas {
        let arguments: Vec<String> =
            arguments.iter().map(|word| word.replace("$(POD_INDEX)", &pod.to_string())).collect();
        assert!(arguments[1].ends_with(&format!("={pod}/{replicas}")), "{arguments:?}");
        is_understood(&arguments, "by-ordinal");
    }
}

/// The arguments of a command line as a shell would split it, up to its end or its comment.
fn split(line: &str) -> Vec<String> {
    let (mut all, mut word, mut quote, mut is_word) = (Vec::new(), String::new(), None, false);
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), c) => word.push(c),
            (None, '\'' | '"') => (quote, is_word) = (Some(c), true),
            (None, '|' | '>' | '&' | ';' | '#' | '\\') => break,
            (None, c) if c.is_whitespace() => {
                if std::mem::take(&mut is_word) {
                    all.push(std::mem::take(&mut word));
                }
            }
            (None, c) => (is_word, _) = (true, word.push(c)),
        }
    }
    if is_word {
        all.push(word);
    }
    all
}

/// The command lines of a page: in its blocks for a shell, and in the midst of its text.
fn command_lines(page: &str) -> Vec<String> {
    let page = page.replace("\\\n", " ");
    let (mut lines, mut is_shell) = (Vec::new(), false);
    for line in page.lines() {
        match line.trim_start() {
            fence if fence.starts_with("```") => is_shell = fence == "```sh",
            line if is_shell => {
                // kubectl's own words end there
                let rest = line.split_once(" -- ").map_or("", |(_, rest)| rest);
                let line = if line.starts_with("kubectl ") { rest } else { line };
                lines.extend(line.find("highwater ").map(|at| line[at..].to_owned()));
            }
            line => {
                let code = line.split('`').skip(1).step_by(2);
                lines.extend(code.filter(|code| code.starts_with("highwater ")).map(str::to_owned));
            }
        }
    }
    lines
}

#[test]
fn every_command_that_operators_are_told_is_one() {
    let mut count = 0;
    for page in ["deploy/README.md", "docs/operations.md", "docs/nodes.md", "docs/stream.md", "docs/classes.md"] {
        for line in command_lines(&read(&root().join(page))) {
            let arguments = split(&line).into_iter().skip(1);
            let arguments: Vec<String> =
                arguments.map(|word| if word == "ID" { ID.to_owned() } else { word }).collect();
            is_understood(&arguments, page);
            count += 1;
        }
    }
    assert!(count >= 15, "only {count} commands were found");
}

#[test]
fn agents_that_operators_are_told_are_names_that_rules_give() {
    let rules = processor::classify::Classifier::builtin().unwrap();
    let (mut count, mut missing) = (0, Vec::new());
    for page in ["deploy/README.md", "docs/classes.md"] {
        for line in command_lines(&read(&root().join(page))) {
            let words = split(&line);
            for named in words.windows(2).filter(|pair| pair[0] == "--agent") {
                count += 1;
                missing.extend((!rules.agents().any(|known| known == named[1])).then(|| named[1].clone()));
            }
        }
    }
    assert!(count >= 4 && missing.is_empty(), "of {count} agents no rule names {missing:?}");
}

#[test]
fn every_alert_is_explained_and_nothing_else_is() {
    let [rules] = &documents(&root().join("deploy/prometheus/alerts.yml"))[..] else { panic!("not one document") };
    let rules = rules["groups"].as_sequence().unwrap().iter().flat_map(|group| group["rules"].as_sequence().unwrap());
    let mut alerts: Vec<String> = rules.map(|rule| rule["alert"].as_str().unwrap().to_owned()).collect();
    let page = read(&root().join("docs/operations.md"));
    let first_cells = page.lines().filter_map(|line| line.strip_prefix("| `Highwater")?.split_once('`'));
    let mut explained: Vec<String> = first_cells.map(|(name, _)| format!("Highwater{name}")).collect();
    alerts.sort();
    explained.sort();
    assert_eq!(alerts, explained);
}

#[test]
fn a_line_is_split_as_a_shell_would() {
    let of = |line: &str| split(line).join("·");
    assert_eq!(of("highwater sql \"SELECT 1\" --format json | jq . # x"), "highwater·sql·SELECT 1·--format·json");
    assert_eq!(
        of("highwater link disable a --reason 'not \"ours\"' > x"),
        "highwater·link·disable·a·--reason·not \"ours\""
    );
    let page = "a `highwater verify` b `x`\n```sh\nsudo highwater up &\nkubectl -n highwater exec x -- highwater query\n\
                kubectl create -n highwater x\n```\n```toml\nhighwater no\n```\n";
    assert_eq!(command_lines(page), ["highwater verify", "highwater up &", "highwater query"]);
}
