//! Whether there is anything to ask: a command that makes nothing must find what it asks. In a wrong folder it says so,
//! rather than leave an empty store there and answer that there are no clicks.

use std::path::Path;

use anyhow::{Context as _, bail};

use crate::cli::{Command, Link, Token, Workspace};
use crate::config::Config;
use crate::logs::scheme_of;
use crate::rules::Lists;
use crate::run::{NO_FOLDER, ids_in};

/// What a command that makes nothing asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asks {
    /// The link store alone.
    Links,
    /// The lake too.
    Lake,
}

/// What a command asks; none of one that makes what is missing.
fn asks(command: &Command) -> Option<Asks> {
    match command {
        Command::Link(Link::Add { .. })
        | Command::Workspace(Workspace::Add { .. })
        | Command::Token(Token::Add { .. })
        | Command::Backfill(_)
        | Command::Import(_)
        | Command::Up(_)
        | Command::Redirect
        | Command::Manage
        | Command::Process(_)
        | Command::Query
        | Command::Classify(_)
        | Command::Networks(_)
        | Command::Config(_) => None,
        Command::Link(_) | Command::Workspace(_) | Command::Token(_) | Command::Stream(_) => Some(Asks::Links),
        Command::EdgeLogs(_)
        | Command::Journal(_)
        | Command::Report(_)
        | Command::Sql(_)
        | Command::Verify(_)
        | Command::Compact(_)
        | Command::Retention(_)
        | Command::Reclassify(_) => Some(Asks::Lake),
    }
}

/// That what a command asks is there, as far as folders tell; of a server and an object store it shows when they are asked.
///
/// # Errors
/// Names what is missing, and what names another.
pub(super) fn require(command: &Command, config: &Config) -> anyhow::Result<()> {
    match asks(command) {
        None => Ok(()),
        Some(asks) => found(asks, config),
    }
}

fn found(asks: Asks, config: &Config) -> anyhow::Result<()> {
    if config.links.url.is_empty() {
        return data_folder(config);
    }
    if let Some(path) = file_of(&config.links.url)
        && !is_there(Path::new(path), "links.url")?
    {
        bail!("links.url = {:?}: there is no such file; `highwater up` and what adds links make it", config.links.url);
    }
    let root = config.lake_root();
    let folder = root.strip_prefix("file://").unwrap_or(&root);
    if asks == Asks::Lake && scheme_of(folder).is_none() && !is_there(Path::new(folder), "lake")? {
        let key = if config.lake.is_empty() { "data_dir (--data DIR) or lake" } else { "lake" };
        bail!(
            "lake = {root:?}: there is no such folder; {key} names another, and `highwater up`, `process` or `backfill` make it"
        );
    }
    Ok(())
}

/// The path of a link store that is a file.
fn file_of(url: &str) -> Option<&str> {
    match scheme_of(url) {
        None => Some(url.strip_prefix("sqlite:").unwrap_or(url)),
        Some("sqlite") => url.strip_prefix("sqlite://"),
        Some(_) => None,
    }
}

/// Whether something is at `path`, which `key` names. What can't be looked at may be.
fn is_there(path: &Path, key: &str) -> anyhow::Result<bool> {
    path.try_exists().with_context(|| format!("{key}: {} can't be looked at", path.display()))
}

/// That the data folder is there, and is one: it holds a link store, or nothing yet, or what is left of one that lost its
/// store, which is another error.
fn data_folder(config: &Config) -> anyhow::Result<()> {
    let folder = &config.data_dir;
    let key = format!("data_dir = {:?}", folder.display().to_string());
    if !is_there(folder, "data_dir")? {
        bail!(
            "{key}: there is no such folder; --data DIR names another, and `highwater up` and what adds links make it"
        );
    }
    if !folder.is_dir() {
        bail!("{key}: {NO_FOLDER}; --data DIR names another");
    }
    let mut entries = std::fs::read_dir(folder).with_context(|| format!("{key}: can't be read"))?;
    let is_empty = entries.next().is_none();
    let is_known = is_there(Path::new(&config.link_store()), "data_dir")?
        || Path::new(&config.lake_root()).exists()
        || Lists::of(config).folder().exists()
        || ids_in(&config.journal_dir()).is_ok_and(|ids| !ids.is_empty());
    if !is_empty && !is_known {
        bail!("{key}: this is no data folder of highwater: there is no link store in it; --data DIR names another");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::Cli;

    fn said(arguments: &str, config: &Config) -> String {
        let command = Cli::parse_from(["highwater"].into_iter().chain(arguments.split(' '))).command;
        require(&command, config).err().map(|error| crate::explain(&error)).unwrap_or_default()
    }

    const ASKING: [&str; 15] = [
        "report",
        "sql x",
        "verify",
        "compact",
        "retention",
        "workspace set a --keep 400d",
        "reclassify --start 2026-03-14 --end 2026-03-14",
        "link list",
        "link disable a --reason b",
        "edge-logs list",
        "edge-logs revert a",
        "journal list",
        "workspace list",
        "token list",
        "stream tail",
    ];
    const MAKING: [&str; 5] =
        ["link add https://a.test/", "workspace add a", "token add --operator", "backfill a", "import a"];

    #[test]
    fn what_asks_makes_no_folder_and_names_the_one_that_is_missing() {
        let dir = tempfile::tempdir().unwrap();
        let config = Config { data_dir: dir.path().join("wrong/data"), ..Config::default() };
        for asking in ASKING {
            let told = said(asking, &config);
            assert!(told.contains("wrong/data") && told.contains("--data DIR"), "{asking}: {told}");
        }
        for making in MAKING {
            assert_eq!(said(making, &config), "", "{making}");
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        let config = Config { data_dir: dir.path().to_owned(), ..config };
        assert_eq!(said("report", &config), "", "a fresh folder has no clicks");
        std::fs::write(dir.path().join("letter.txt"), "dear").unwrap();
        assert!(said("report", &config).contains("no data folder"), "and another's isn't filled");
        std::fs::write(config.link_store(), "").unwrap();
        assert_eq!(said("report", &config), "");
    }

    #[test]
    fn what_cannot_be_looked_at_is_not_called_missing() {
        let dir = tempfile::tempdir().unwrap();
        let (turning, file) = (dir.path().join("loop"), dir.path().join("file"));
        std::os::unix::fs::symlink(&turning, &turning).unwrap();
        std::fs::write(&file, "").unwrap();
        let of = |data_dir: &Path| said("report", &Config { data_dir: data_dir.to_owned(), ..Config::default() });
        let told = of(&turning);
        assert!(told.contains("loop can't be looked at: ") && !told.contains("no such"), "{told}");
        assert!(of(&file).contains("a file, not a folder"), "{}", of(&file));
        let mut config =
            Config { data_dir: dir.path().join("data"), lake: turning.display().to_string(), ..Config::default() };
        config.links.url = turning.display().to_string();
        assert!(said("link list", &config).starts_with("links.url: "));
        config.links.url = "postgres://db.internal/links".into();
        assert!(said("report", &config).starts_with("lake: "));
    }

    #[test]
    fn with_links_elsewhere_only_what_is_asked_must_be_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).display().to_string();
        let mut config = Config { data_dir: dir.path().join("data"), lake: path("lake"), ..Config::default() };
        config.links.url = "postgres://db.internal/links".into();
        assert_eq!(said("link list", &config), "");
        assert!(said("report", &config).starts_with("lake = "));
        config.lake = "s3://bucket/lake".into();
        assert_eq!(said("report", &config), "");
        for url in [path("links.sqlite"), format!("sqlite:{}", path("links.sqlite"))] {
            config.links.url = url;
            assert!(said("link list", &config).starts_with("links.url = "));
        }
        std::fs::write(path("links.sqlite"), "").unwrap();
        assert_eq!(said("link list", &config), "");
    }
}
