//! A private PostgreSQL server, of the programs that Debian's package `postgresql` installs: on a free port of loopback
//! and on a socket in a folder of its own. It refuses to run as root, so there it runs as its package's user.
//!
//! A shell holds it: when this process ends, however that is, the shell's input ends, and it ends the server and removes
//! the folder.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{MetadataExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use anyhow::{Context as _, Result, bail, ensure};

use crate::free_port;

/// What the shell does. Of what a power cut could cost nothing matters here.
const KEEPER: &str = r#"
bin=$1 dir=$2 port=$3 pid=
stop() { if [ -n "$pid" ]; then kill -QUIT "$pid"; wait "$pid"; pid=; fi; }
while read -r word; do
    case $word in
    start)
        "$bin/postgres" -D "$dir/data" -k "$dir" -h 127.0.0.1 -p "$port" -c fsync=off -c full_page_writes=off \
            -c max_connections=300 -c shared_buffers=32MB </dev/null >>"$dir/log" 2>&1 &
        pid=$! tries=0
        until "$bin/psql" -X -h "$dir" -p "$port" -U highwater -d postgres -c 'SELECT 1' >/dev/null 2>&1; do
            tries=$((tries + 1))
            [ "$tries" -lt 1000 ] && kill -0 "$pid" || break
            sleep 0.1
        done
        ;;
    stop) stop ;;
    esac
    echo done
done
stop
rm -rf "$dir"
"#;

/// The role that owns everything on the server.
const USER: &str = "highwater";
/// Its password, which the server asks for on its port.
pub const PASSWORD: &str = "pg-secret-7f3a";

/// A server.
#[derive(Debug)]
pub struct Postgres {
    bin: PathBuf,
    folder: PathBuf,
    port: u16,
    keeper: Mutex<(Child, BufReader<ChildStdout>)>,
    databases: AtomicU32,
}

impl Postgres {
    /// The server that the tests of this process share; started by the first that asks. `None` where there is none to
    /// start, and then the test is skipped.
    ///
    /// # Panics
    /// When it is there and doesn't start, or where nothing may be skipped.
    pub fn shared(test: &str) -> Option<&'static Self> {
        static SHARED: OnceLock<Option<Postgres>> = OnceLock::new();
        let shared =
            SHARED.get_or_init(|| bin().map(|bin| Self::start(bin).unwrap_or_else(|error| panic!("{error:?}"))));
        if shared.is_none() {
            crate::skip(test, "PostgreSQL is not installed (Debian's package postgresql has it)");
        }
        shared.as_ref()
    }

    /// A server of one's own, to be stopped at will; `None` as with [`Postgres::shared`].
    ///
    /// # Errors
    /// When it doesn't start.
    pub fn own(test: &str) -> Result<Option<Self>> {
        match bin() {
            Some(bin) => Self::start(bin).map(Some),
            None => {
                crate::skip(test, "PostgreSQL is not installed (Debian's package postgresql has it)");
                Ok(None)
            }
        }
    }

    fn start(bin: PathBuf) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("highwater-pg-").tempdir()?.keep();
        let owner = owner_of(&folder)?;
        if let Some((user, group)) = owner {
            chown(&folder, Some(user), Some(group))?;
        }
        std::fs::write(folder.join("password"), PASSWORD)?;
        let mut made = Command::new(bin.join("initdb"));
        made.arg("-D").arg(folder.join("data")).args(["-U", USER, "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"]);
        made.args(["--auth-local=trust", "--auth-host=scram-sha-256"]).arg("--pwfile").arg(folder.join("password"));
        succeeded(as_user(&mut made, owner).output()?).context("initdb")?;
        let port = free_port()?;
        let mut keeper = Command::new("sh");
        keeper.args(["-c", KEEPER, "keeper"]).arg(&bin).arg(&folder).arg(port.to_string());
        let keeper = as_user(&mut keeper, owner).stdin(Stdio::piped()).stdout(Stdio::piped());
        // out of the reach of what is sent to all processes of a terminal
        let mut keeper = keeper.process_group(0).spawn()?;
        let told = BufReader::new(keeper.stdout.take().context("no output")?);
        let server = Self { bin, folder, port, keeper: Mutex::new((keeper, told)), databases: AtomicU32::new(0) };
        server.resume()?;
        Ok(server)
    }

    /// Starts it again after [`Postgres::stop`], and waits until it answers.
    ///
    /// # Errors
    /// When it doesn't.
    pub fn resume(&self) -> Result<()> {
        self.tell("start")?;
        let log = || self.log().unwrap_or_default();
        self.psql("SELECT 1").map(drop).with_context(|| format!("PostgreSQL doesn't start: {}", log()))
    }

    /// Ends it at once, as a crash would.
    ///
    /// # Errors
    /// When nobody is there to do it.
    pub fn stop(&self) -> Result<()> {
        self.tell("stop")
    }

    fn tell(&self, word: &str) -> Result<()> {
        let mut keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(keeper.0.stdin.as_mut().context("no input")?, "{word}")?;
        let mut answer = String::new();
        keeper.1.read_line(&mut answer)?;
        ensure!(answer == "done\n", "the server's keeper is gone");
        Ok(())
    }

    /// The address of a store that nobody has used: a schema of its own, through the socket.
    ///
    /// # Errors
    /// When it can't be made.
    pub fn fresh(&self) -> Result<String> {
        let schema = self.fresh_schema()?;
        let (folder, port) = (self.folder.display(), self.port);
        Ok(format!("postgres:///postgres?host={folder}&port={port}&user={USER}&options[search_path]={schema}"))
    }

    /// As [`Postgres::fresh`], through the port `at` of loopback and with a password.
    ///
    /// # Errors
    /// When it can't be made.
    pub fn fresh_at(&self, at: u16) -> Result<String> {
        let schema = self.fresh_schema()?;
        Ok(format!("postgres://{USER}:{PASSWORD}@127.0.0.1:{at}/postgres?options[search_path]={schema}"))
    }

    fn fresh_schema(&self) -> Result<String> {
        let schema = format!("store_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.psql(&format!("CREATE SCHEMA {schema}"))?;
        Ok(schema)
    }

    /// The port of loopback that it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The folder of its files.
    pub fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// What the server has logged.
    ///
    /// # Errors
    /// When that can't be read.
    pub fn log(&self) -> Result<String> {
        Ok(std::fs::read_to_string(self.folder.join("log"))?)
    }

    /// Runs a statement as the server's owner; returns what it answers, columns apart by `|`.
    ///
    /// # Errors
    /// When the server refuses it or doesn't answer.
    pub fn psql(&self, statement: &str) -> Result<String> {
        let mut psql = Command::new(self.bin.join("psql"));
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", USER, "-d", "postgres"]);
        psql.arg("-h").arg(&self.folder).arg("-p").arg(self.port.to_string()).arg("-c").arg(statement);
        let output = succeeded(psql.stdin(Stdio::null()).output()?)?;
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    }
}

/// The folder of the newest server's programs.
fn bin() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let version = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    let found = versions.filter_map(|entry| Some(entry.ok()?.path()));
    let newest = found.filter(|path| path.join("bin/postgres").exists()).max_by_key(|path| version(path))?;
    Some(newest.join("bin"))
}

/// Whom the server runs as, if not as this process's user: root makes files of root, and may run as anybody.
fn owner_of(folder: &Path) -> Result<Option<(u32, u32)>> {
    if std::fs::metadata(folder)?.uid() != 0 {
        return Ok(None);
    }
    let users = std::fs::read_to_string("/etc/passwd")?;
    let user = users.lines().find_map(|line| line.strip_prefix("postgres:")).context("there is no user postgres")?;
    let mut numbers = user.split(':').skip(1).map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(user)), Some(Ok(group))) => Ok(Some((user, group))),
        _ => bail!("/etc/passwd can't be read"),
    }
}

fn as_user(command: &mut Command, owner: Option<(u32, u32)>) -> &mut Command {
    if let Some((user, group)) = owner {
        command.uid(user).gid(group).current_dir("/");
    }
    command
}

fn succeeded(output: Output) -> Result<Output> {
    ensure!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    Ok(output)
}
