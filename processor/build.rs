//! Finds uap-core's data in the package of crate `ua-parser`, whose sources every build has anyway, and turns its
//! `regexes.yaml` into Rust tables: nothing of it is copied into this repository, and nothing is parsed at start.
//!
//! Where the package lies is asked of cargo, which knows about vendored, patched and git sources. Where cargo can't
//! answer offline (it wants the packages of tests too, which a plain build hasn't fetched), cargo's registry folder is
//! searched for the version that `Cargo.lock` names. `HIGHWATER_UAP_CORE=<folder>` goes before both.

#[path = "build/uap.rs"]
mod uap;

use std::collections::BTreeMap;
use std::env;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const PACKAGE: &str = "ua-parser";
const OVERRIDE: &str = "HIGHWATER_UAP_CORE";

type Failure = Box<dyn Error>;

fn main() -> Result<(), Failure> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build/uap.rs");
    println!("cargo::rerun-if-env-changed={OVERRIDE}");
    let manifest_dir = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let folder = uap_core(&manifest_dir)?;
    let regexes = folder.join("regexes.yaml");
    println!("cargo::rerun-if-changed={}", regexes.display());
    println!("cargo::rustc-env=UAP_CORE={}", folder.display());
    let lists = uap::read(&fs::read_to_string(&regexes)?).map_err(|e| format!("{}: {e}", regexes.display()))?;
    let out = PathBuf::from(env::var("OUT_DIR")?).join("uap_core.rs");
    fs::write(out, tables(&lists).map_err(|e| format!("{}: {e}", regexes.display()))?)?;
    Ok(())
}

/// The folder of uap-core.
fn uap_core(manifest_dir: &Path) -> Result<PathBuf, Failure> {
    if let Ok(folder) = env::var(OVERRIDE) {
        return checked(PathBuf::from(folder)).map_err(|e| format!("{OVERRIDE}: {e}").into());
    }
    let lock = manifest_dir.ancestors().map(|dir| dir.join("Cargo.lock")).find(|lock| lock.is_file());
    if let Some(lock) = &lock {
        println!("cargo::rerun-if-changed={}", lock.display());
    }
    let asked = ask_cargo(manifest_dir).and_then(checked);
    let Err(asked_error) = asked else { return asked };
    let found = lock.ok_or_else(|| "there is no Cargo.lock".into()).and_then(|lock| search(&lock)).and_then(checked);
    found.map_err(|found_error| {
        format!(
            "the data of crate {PACKAGE} was not found: cargo metadata: {asked_error}; registry: {found_error}. \
             Run `cargo fetch`, or name a folder that holds uap-core's regexes.yaml in {OVERRIDE}"
        )
        .into()
    })
}

fn checked(folder: PathBuf) -> Result<PathBuf, Failure> {
    if folder.join("regexes.yaml").is_file() {
        Ok(folder)
    } else {
        Err(format!("{} holds no regexes.yaml", folder.display()).into())
    }
}

/// Asks cargo where the package is. Offline and with the lock file as it is: a build script changes neither.
fn ask_cargo(manifest_dir: &Path) -> Result<PathBuf, Failure> {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["metadata", "--format-version", "1", "--offline", "--locked", "--filter-platform"]);
    command.arg(env::var("TARGET")?).arg("--manifest-path").arg(manifest_dir.join("Cargo.toml"));
    let output = command.output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned().into());
    }
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().ok_or("no packages")?;
    let package = packages.iter().find(|package| package["name"] == PACKAGE).ok_or("not among the packages")?;
    let manifest = package["manifest_path"].as_str().ok_or("no manifest path")?;
    Ok(Path::new(manifest).with_file_name("uap-core"))
}

/// Searches cargo's registry folder for the version that the lock file names.
fn search(lock: &Path) -> Result<PathBuf, Failure> {
    let text = fs::read_to_string(lock)?;
    let version = text
        .split("[[package]]")
        .find(|package| package.contains(&format!("name = \"{PACKAGE}\"")))
        .and_then(|package| package.split("version = \"").nth(1)?.split('"').next())
        .ok_or("not in Cargo.lock")?;
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo"))).ok_or("no CARGO_HOME")?;
    let name = format!("{PACKAGE}-{version}");
    let sources = home.join("registry/src");
    for registry in fs::read_dir(&sources).map_err(|e| format!("{}: {e}", sources.display()))? {
        let folder = registry?.path().join(&name).join("uap-core");
        if folder.is_dir() {
            return Ok(folder);
        }
    }
    Err(format!("{name} is not under {}", sources.display()).into())
}

/// The tables as Rust source: for each rule its regular expression and its replacements.
fn tables(lists: &BTreeMap<String, Vec<uap::Entry>>) -> Result<String, String> {
    let browser =
        ["regex", "family_replacement", "v1_replacement", "v2_replacement", "v3_replacement", "v4_replacement"];
    let os =
        ["regex", "os_replacement", "os_v1_replacement", "os_v2_replacement", "os_v3_replacement", "os_v4_replacement"];
    let mut source = String::new();
    for (list, name, fields) in [("user_agent_parsers", "BROWSERS", browser), ("os_parsers", "SYSTEMS", os)] {
        let entries =
            lists.get(list).filter(|entries| !entries.is_empty()).ok_or(format!("{list} is missing or empty"))?;
        write!(source, "static {name}: [[Option<&str>; {}]; {}] = [", fields.len(), entries.len())
            .map_err(|e| e.to_string())?;
        for entry in entries {
            if let Some(key) = entry.keys().find(|key| !fields.contains(&key.as_str())) {
                return Err(format!("{list}: field {key} is not known"));
            }
            if !entry.contains_key("regex") {
                return Err(format!("{list}: an entry has no regex: {entry:?}"));
            }
            let values = fields.map(|field| entry.get(field).map(String::as_str));
            writeln!(source, "{values:?},").map_err(|e| e.to_string())?;
        }
        source.push_str("];\n");
    }
    Ok(source)
}
