//! The rules as a whole: the file's own consistency, labelled sets. Whole requests are judged where rows are made.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use schemas::event::PURPOSE_HEADERS;

use super::rules::RulesFile;
use super::*;

fn builtin() -> Classifier {
    Classifier::builtin().unwrap()
}

/// Whoever is judged to fetch ahead must have been answered so that the click itself comes again.
#[test]
fn a_header_that_counts_is_one_that_the_redirect_heeds() {
    let file = RulesFile::read(RULES).unwrap();
    assert_eq!(file.header.iter().map(|rule| &rule.name).collect::<HashSet<_>>().len(), PURPOSE_HEADERS.len());
    for rule in &file.header {
        let heeded = PURPOSE_HEADERS.iter().find(|(name, _)| *name == rule.name);
        let (_, begins) = heeded.unwrap_or_else(|| panic!("{}: the redirect doesn't tell of {}", rule.id, rule.name));
        assert!(rule.begins.iter().all(|begin| begins.contains(&begin.as_str())), "{}", rule.id);
    }
}

/// An agent that is a token and no more.
fn sample(token: &str) -> String {
    let text = token.trim_start_matches(['^', '*']).trim_end_matches(['|', '$']);
    if text.ends_with(' ') { format!("{text}1") } else { text.to_owned() }
}

/// A token that a better rule always beats would be dead weight that looks like cover.
#[test]
fn every_token_decides_for_its_own_agent() {
    let file = RulesFile::read(RULES).unwrap();
    let classifier = builtin();
    let mut wrong = Vec::new();
    for group in file.group.iter().filter(|group| !group.all) {
        for (agent, tokens) in &group.agents {
            for token in tokens {
                let verdict = classifier.agent(&sample(token));
                if verdict.agent.as_deref() != Some(agent) || !verdict.reason.starts_with(&format!("{}/", group.id)) {
                    wrong.push(format!("{}/{agent}: {token:?} is taken by {}", group.id, verdict.reason));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_reason_names_one_rule() {
    let file = RulesFile::read(RULES).unwrap();
    let classifier = builtin();
    let mut owners: HashMap<String, String> = HashMap::new();
    for group in &file.group {
        for (agent, tokens) in &group.agents {
            let text: Vec<String> = tokens.iter().map(|token| sample(token)).collect();
            let text = if group.all { text.join(" ") } else { text[0].clone() };
            let verdict = classifier.agent(&text);
            let other = owners.insert(verdict.reason.as_ref().to_owned(), format!("{}/{agent}", group.id));
            assert_eq!(other, None, "{} is the reason of two agents", verdict.reason);
        }
    }
}

const HEAD: &str = r#"
version = 1
bare_words = ["news"]
[people]
engines = { why = "w", tokens = ["AppleWebKit"] }
browsers = { why = "w", tokens = ["^Nokia"] }
apps = { why = "w", tokens = ["FBAN/"] }
sites = { why = "w", tokens = ["bsalsa.com"] }
"#;

fn read(rest: &str) -> Result<Classifier, RulesError> {
    Classifier::compile(&RulesFile::read(&format!("{HEAD}{rest}"))?)
}

fn faults_of(rest: &str) -> String {
    read(rest).unwrap_err().to_string()
}

#[test]
fn faults_in_a_rules_file_are_named() {
    let group = |class: &str, agents: &str| {
        format!("[[group]]\nid = \"g\"\nclass = \"{class}\"\nwhy = \"w\"\nsource = \"s\"\n[group.agents]\n{agents}\n")
    };
    assert!(read(&group("feed", "A = [\"Abc\"]")).is_ok());
    for (rest, fault) in [
        (group("robot", "A = [\"Abc\"]"), "unknown variant `robot`"),
        (group("feed", "A = [\"Abc\"]\nB = [\"abc\"]"), "token \"abc\" is also of g/A"),
        (group("feed", "A = [\"ab\"]"), "token \"ab\" is shorter than three bytes"),
        (group("feed", "A = [\"News\"]"), "token \"News\" is a bare word"),
        (group("feed", "A = []"), "g/A: needs a name and a token"),
        (group("feed", "A = [\"Abc\"]").replace("why = \"w\"", "why = \" \""), "g: says neither why nor from where"),
        (group("feed", "A = [\"Abc\"]").replace("why = \"w\"", "why = \"w\"\nall = true"), "g/A: needs 2 to 32 tokens"),
        (group("feed", "A = [\"Abc\"]").replace("\"g\"", "\"G x\""), "an id is of lower-case letters"),
        (group("feed", "A = [\"Abc\"]").repeat(2), "g: id is used twice"),
        (group("feed", "A = [\"Abc\"]").replace("why", "wyh"), "unknown field `wyh`"),
        (
            "[[shape]]\nid = \"s\"\ntest = \"word\"\nclass = \"feed\"\nwhy = \"w\"\n".to_owned(),
            "s: words belong to test",
        ),
    ] {
        let said = faults_of(&rest);
        assert!(said.contains(fault), "{said:?} doesn't say {fault:?}");
    }
    let two = faults_of(&group("feed", "A = [\"ab\", \"News\"]"));
    assert!(two.contains("shorter") && two.contains("bare word"), "all faults at once: {two}");
}

fn shared(file: &str) -> Option<std::fs::File> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/cases/ua").join(file);
    let opened = std::fs::File::open(&path).ok();
    if opened.is_none() {
        eprintln!("skipped: {file} is not there");
    }
    opened
}

fn evaluated(file: &str) -> Option<Evaluation> {
    let set = std::io::BufReader::new(shared(file)?);
    Some(evaluate(&builtin(), set).unwrap())
}

#[test]
fn labelled_machines_are_found() {
    let Some(result) = evaluated("dev-nonhuman.tsv") else { return };
    let share = result.nonhuman.found as f64 / result.nonhuman.total as f64;
    assert!(share >= 0.99, "found {share:.4}");
    for category in ["preview", "scanner", "search", "ai", "monitor", "feed", "library", "headless"] {
        let row = &result.by_category[category];
        assert!(row.missed * 50 <= row.total, "{category}: missed {} of {}", row.missed, row.total);
    }
}

#[test]
fn labelled_people_stay_people() {
    for (file, most) in [("dev-human.tsv", 0.0005), ("dev-hard-human.tsv", 0.02)] {
        let Some(result) = evaluated(file) else { continue };
        let share = result.human.flagged as f64 / result.human.total as f64;
        assert!(share <= most, "{file}: {share:.4}: {:?}", result.wrong);
        assert!(result.inapp.flagged as f64 <= 0.001 * result.inapp.total as f64, "{file}: {:?}", result.wrong);
    }
}
