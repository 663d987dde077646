//! The folder of network lists: one file a list, each replaced whole.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail, ensure};
use processor::networks::{List, check_name};

use super::text::text;
use crate::config::Config;

/// The longest file, in bytes: that of the most prefixes that a list may have.
const MOST_BYTES: u64 = 32 << 20;
/// Whoever runs the service must be able to read what an operator has put there: there is no secret in it.
const MODE: u32 = 0o644;

/// How what is being written is called, before it is whole.
const UNFINISHED: &str = ".list-";
/// No list takes so long to be written: what is as old was left by a process that was killed.
const LEFT_AFTER: Duration = Duration::from_secs(3_600);

/// What there is in the folder.
#[derive(Debug, Default)]
pub(crate) struct Looked {
    /// Lists that are right, by name.
    pub(crate) lists: Vec<List>,
    /// Why others can't be used, by the names of their files.
    pub(crate) wrong: BTreeMap<String, anyhow::Error>,
}

/// The folder.
#[derive(Clone, Debug)]
pub(crate) struct Lists(PathBuf);

impl Lists {
    /// That of a data folder, there or not.
    pub(crate) fn of(config: &Config) -> Self {
        Self(config.data_dir.join("networks"))
    }

    /// Where it is.
    pub(crate) fn folder(&self) -> &Path {
        &self.0
    }

    /// The files of the lists, by name; none where there is no folder.
    pub(super) fn paths(&self) -> anyhow::Result<Vec<PathBuf>> {
        let entries = match fs::read_dir(&self.0) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.with_context(|| self.0.display().to_string())?,
        };
        let mut paths = Vec::new();
        for entry in entries {
            let path = entry.with_context(|| self.0.display().to_string())?.path();
            // a list that is being written has another ending
            if path.extension().is_some_and(|ending| ending == "json") {
                paths.push(path);
            }
        }
        paths.sort();
        Ok(paths)
    }

    /// Every list that is right, and what is wrong with the others.
    ///
    /// # Errors
    /// When the folder can't be read.
    pub(crate) fn look(&self) -> anyhow::Result<Looked> {
        let mut looked = Looked::default();
        for path in self.paths()? {
            let list = read(&path)
                .with_context(|| format!("the list in {} can't be used ({})", path.display(), way_out(&stem(&path))));
            match list {
                Ok(list) => looked.lists.push(list),
                // a name that no list can have is shown as it can be
                Err(error) => drop(looked.wrong.insert(stem(&path).into_owned(), error)),
            }
        }
        Ok(looked)
    }

    /// Every list, checked.
    ///
    /// # Errors
    /// When one can't be read or is wrong; names its file and the way out.
    pub(crate) fn read(&self) -> anyhow::Result<Vec<List>> {
        let Looked { lists, wrong } = self.look()?;
        wrong.into_values().next().map_or(Ok(lists), Err)
    }

    /// The list of this name, if there is one.
    ///
    /// # Errors
    /// When it can't be read or is wrong.
    pub(crate) fn get(&self, name: &str) -> anyhow::Result<Option<List>> {
        let path = self.path(name)?;
        if !path.exists() {
            return Ok(None);
        }
        read(&path).map(Some).with_context(|| path.display().to_string())
    }

    /// Puts a list in the place of that with its name, if it is right.
    ///
    /// # Errors
    /// When it is wrong, or can't be written.
    pub(crate) fn put(&self, list: &List) -> anyhow::Result<()> {
        list.check()?;
        let path = self.path(&list.name)?;
        // the data folder is its owner's; what is in this one is public
        self.0.parent().map_or(Ok(()), crate::run::make_folder)?;
        fs::create_dir_all(&self.0).with_context(|| self.0.display().to_string())?;
        self.tidy();
        let mut file = tempfile::Builder::new()
            .prefix(UNFINISHED)
            .permissions(Permissions::from_mode(MODE))
            .tempfile_in(&self.0)
            .with_context(|| self.0.display().to_string())?;
        serde_json::to_writer(&mut file, list)?;
        file.write_all(b"\n").and_then(|()| file.as_file().sync_all()).with_context(|| path.display().to_string())?;
        file.persist(&path).with_context(|| path.display().to_string())?;
        Ok(())
    }

    /// Removes what killed updates have left.
    fn tidy(&self) {
        let now = SystemTime::now();
        let is_left = |entry: &fs::DirEntry| {
            let is_unfinished = entry.file_name().to_string_lossy().starts_with(UNFINISHED);
            let modified = entry.metadata().ok().filter(fs::Metadata::is_file).and_then(|meta| meta.modified().ok());
            is_unfinished && modified.is_some_and(|at| now.duration_since(at).is_ok_and(|age| age > LEFT_AFTER))
        };
        for entry in fs::read_dir(&self.0).into_iter().flatten().flatten().filter(is_left) {
            // it is in nobody's way: the next update tries again
            let _tried = fs::remove_file(entry.path());
        }
    }

    /// Takes a list away.
    ///
    /// # Errors
    /// When there is none, or it can't be.
    pub(crate) fn remove(&self, name: &str) -> anyhow::Result<()> {
        let path = self.path(name)?;
        if !path.exists() {
            bail!("there is no list {name:?} in {}", self.0.display());
        }
        fs::remove_file(&path).with_context(|| path.display().to_string())
    }

    fn path(&self, name: &str) -> anyhow::Result<PathBuf> {
        check_name(name)?;
        Ok(self.0.join(format!("{name}.json")))
    }
}

fn stem(path: &Path) -> Cow<'_, str> {
    path.file_stem().unwrap_or_default().to_string_lossy()
}

/// How to get a list in order that can't be used. What it meant may be lost with it, so that is said anew.
fn way_out(name: &str) -> String {
    let (update, remove) = match check_name(name) {
        Ok(()) => (name, format!("`highwater networks remove {name}` takes it away")),
        Err(_) => ("NAME", "delete the file".to_owned()),
    };
    format!(
        "`highwater networks update SOURCE --name {update} --as MEANING` (and --agent of one that confirms) brings it anew, {remove}"
    )
}

fn read(path: &Path) -> anyhow::Result<List> {
    let list: List = serde_json::from_str(&text(path, MOST_BYTES)?)?;
    list.check()?;
    let is_its = path.file_stem().is_some_and(|stem| stem == list.name.as_str());
    ensure!(is_its, "it is a copy of list {:?}: the file of a list has its name", list.name);
    Ok(list)
}

#[cfg(test)]
mod tests {
    use processor::networks::Meaning;
    use schemas::UtcMicros;

    use super::*;

    fn list(name: &str) -> List {
        let (agents, prefixes) = (Vec::new(), vec!["192.0.2.0/24".parse().unwrap()]);
        let (source, updated_at) = ("test".to_owned(), UtcMicros(1));
        List { name: name.into(), meaning: Meaning::Scanner, agents, source, updated_at, prefixes }
    }

    #[test]
    fn lists_are_put_replaced_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let lists = Lists::of(&Config { data_dir: folder.path().join("data"), ..Config::default() });
        assert_eq!(lists.read().unwrap(), []);
        lists.put(&list("b")).unwrap();
        lists.put(&list("a")).unwrap();
        lists.put(&List { source: "other".into(), ..list("b") }).unwrap();
        let names =
            |lists: &Lists| lists.read().unwrap().into_iter().map(|list| list.name + &list.source).collect::<Vec<_>>();
        assert_eq!(names(&lists), ["atest", "bother"]);
        assert_eq!(lists.get("a").unwrap(), Some(list("a")));
        lists.remove("a").unwrap();
        assert_eq!((names(&lists), lists.get("a").unwrap()), (vec!["bother".to_owned()], None));
        assert!(lists.remove("a").unwrap_err().to_string().contains("no list \"a\""));
        assert!(lists.put(&List { prefixes: vec![], ..list("c") }).is_err());
        assert!(lists.get("../b").is_err(), "a name is no path");
    }

    #[test]
    fn a_file_that_is_no_list_is_named_with_the_way_out() {
        let folder = tempfile::tempdir().unwrap();
        let lists = Lists::of(&Config { data_dir: folder.path().into(), ..Config::default() });
        lists.put(&list("a")).unwrap();
        fs::copy(lists.folder().join("a.json"), lists.folder().join("b.json")).unwrap();
        let said = crate::explain(&lists.read().unwrap_err());
        assert!(
            said.contains("b.json")
                && said.contains("a copy of list \"a\"")
                && said.contains("networks update SOURCE --name b --as MEANING")
                && said.contains("networks remove b"),
            "{said}"
        );
        fs::write(lists.folder().join("b.json"), "{}").unwrap();
        assert!(crate::explain(&lists.read().unwrap_err()).contains("missing field"));
        let looked = lists.look().unwrap();
        assert_eq!(
            (looked.lists, looked.wrong.into_keys().collect::<Vec<_>>()),
            (vec![list("a")], vec!["b".to_owned()])
        );
    }

    #[test]
    fn what_a_killed_update_has_left_is_removed_by_a_later_one() {
        let folder = tempfile::tempdir().unwrap();
        let lists = Lists::of(&Config { data_dir: folder.path().into(), ..Config::default() });
        lists.put(&list("a")).unwrap();
        let file = |name: &str, age: Duration| {
            let file = fs::File::create(lists.folder().join(name)).unwrap();
            file.set_times(fs::FileTimes::new().set_modified(SystemTime::now() - age)).unwrap();
        };
        file(".list-left", 2 * LEFT_AFTER);
        file(".list-busy", Duration::ZERO);
        file("other", 2 * LEFT_AFTER);
        lists.put(&list("b")).unwrap();
        let entries = fs::read_dir(lists.folder()).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        assert_eq!(names, [".list-busy", "a.json", "b.json", "other"]);
    }
}
