//! Parity with uap-core: its own test files, which ship in the package that the rules are from.

use std::borrow::Cow;
use std::path::Path;

use super::agent::extractors;

#[path = "../../build/uap.rs"]
mod uap;

/// The entries of a test file, every `step`th.
fn cases(file: &str, step: usize) -> Vec<uap::Entry> {
    let path = Path::new(env!("UAP_CORE")).join(file);
    let text = std::fs::read_to_string(&path).unwrap();
    let mut lists = uap::read(&text).unwrap();
    let cases: Vec<_> = lists.remove("test_cases").unwrap().into_iter().step_by(step).collect();
    assert!(!cases.is_empty(), "{file} has no cases");
    cases
}

fn field(case: &uap::Entry, name: &str) -> Option<String> {
    case.get(name).cloned()
}

#[test]
fn browsers_are_told_as_uap_core_tells_them() {
    let (browsers, _) = extractors();
    for (file, step) in [
        ("tests/test_ua.yaml", 1),
        ("test_resources/firefox_user_agent_strings.yaml", 1),
        ("test_resources/opera_mini_user_agent_strings.yaml", 1),
        ("test_resources/podcasting_user_agent_strings.yaml", 1),
        ("test_resources/pgts_browser_list.yaml", 10),
    ] {
        for case in cases(file, step) {
            let agent = &field(&case, "user_agent_string").unwrap_or_default();
            let told = browsers.extract(agent);
            let told = told.as_ref();
            assert_eq!(told.map_or("Other", |b| &b.family), case["family"], "{file}: {agent}");
            let owned = |text: Option<&str>| text.map(str::to_owned);
            for (name, part) in [
                ("major", told.and_then(|b| owned(b.major))),
                ("minor", told.and_then(|b| owned(b.minor))),
                ("patch", told.and_then(|b| owned(b.patch))),
            ] {
                assert_eq!(part, field(&case, name), "{file}: {name} of {agent}");
            }
        }
    }
}

#[test]
fn systems_are_told_as_uap_core_tells_them() {
    let (_, systems) = extractors();
    for file in ["tests/test_os.yaml", "test_resources/additional_os_tests.yaml"] {
        for case in cases(file, 1) {
            let agent = &field(&case, "user_agent_string").unwrap_or_default();
            let told = systems.extract(agent);
            let told = told.as_ref();
            assert_eq!(told.map_or("Other", |s| &s.os), case["family"], "{file}: {agent}");
            let owned = |text: Option<&Cow<'_, str>>| text.map(|text| text.clone().into_owned());
            for (name, part) in [
                ("major", told.and_then(|s| owned(s.major.as_ref()))),
                ("minor", told.and_then(|s| owned(s.minor.as_ref()))),
                ("patch", told.and_then(|s| owned(s.patch.as_ref()))),
                ("patch_minor", told.and_then(|s| owned(s.patch_minor.as_ref()))),
            ] {
                assert_eq!(part, field(&case, name), "{file}: {name} of {agent}");
            }
        }
    }
}

/// Another reading of the same rules comes to the same, also for agents that nobody has written down what to expect of.
#[test]
fn another_parser_of_the_same_rules_tells_the_same() {
    use uaparser::Parser as _;
    let rules = Path::new(env!("UAP_CORE")).join("regexes.yaml");
    let other = uaparser::UserAgentParser::builder().build_from_yaml(rules.to_str().unwrap()).unwrap();
    let (browsers, systems) = extractors();
    for case in cases("tests/test_device.yaml", 400) {
        let agent = &field(&case, "user_agent_string").unwrap_or_default();
        let (browser, system) = (browsers.extract(agent), systems.extract(agent));
        let theirs = other.parse_user_agent(agent);
        let parts = [theirs.major, theirs.minor, theirs.patch].map(|part| part.map(Cow::into_owned));
        let ours = browser.as_ref().map_or([None; 3], |b| [b.major, b.minor, b.patch]);
        assert_eq!(browser.as_ref().map_or("Other", |b| &b.family), theirs.family, "{agent}");
        assert_eq!(ours.map(|part| part.map(str::to_owned)), parts, "{agent}");
        let theirs = other.parse_os(agent);
        let parts = [theirs.major, theirs.minor, theirs.patch].map(|part| part.map(Cow::into_owned));
        assert_eq!(system.as_ref().map_or("Other", |s| &s.os), theirs.family, "{agent}");
        let ours = system.map_or([None, None, None], |s| [s.major, s.minor, s.patch]);
        assert_eq!(ours.map(|part| part.map(Cow::into_owned)), parts, "{agent}");
    }
}

#[test]
fn yaml_beyond_what_is_read_is_an_error_with_its_line() {
    let read = uap::read(
        "a:\n  # note\n  - regex: '(it''s) \\d'\n    x: \"q\\\"\" # c\n    y:\n    z: null\n    w: plain 1\n",
    )
    .unwrap();
    let entry = &read["a"][0];
    assert_eq!(entry["regex"], "(it's) \\d");
    assert_eq!(entry["x"], "q\"");
    assert_eq!(entry["w"], "plain 1");
    assert_eq!(entry.len(), 3);
    for (text, line) in [
        ("a:\n  - b: |\n", "line 2"),
        ("a:\n  - b: 'x\n", "line 2"),
        ("a:\n  b: x\n", "line 2"),
        ("  - b: x\n", "line 1"),
        ("a:\n  - b\n", "line 2"),
        ("a: 1\n", "line 1"),
        ("a:\n  - b: \"\\q\"\n", "line 2"),
        ("a:\n  - b: 'x' y\n", "line 2"),
    ] {
        let error = uap::read(text).unwrap_err();
        assert!(error.starts_with(line), "{error}");
    }
}
