//! How much memory the C library's allocator keeps for itself.
//!
//! glibc makes up to eight arenas a core for threads that allocate at once, and what is freed in one is no use to the
//! others: a backfill on two cores took 325 to 618 MB by chance. With an arena a core it takes 262 to 285 MB, and no longer.
//! The bound is read from the environment before a program's first line, so the program begins once more with it.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

const BOUND: &str = "MALLOC_ARENA_MAX";

/// Begins once more with bounded arenas, unless whoever started the program has bounded them. Where that fails, things are
/// as they were.
pub(crate) fn bound() {
    if !cfg!(target_env = "gnu") || std::env::var_os(BOUND).is_some() {
        return;
    }
    let cores = std::thread::available_parallelism().map_or(2, |cores| cores.get().max(2));
    let mut arguments = std::env::args_os();
    let name = arguments.next();
    if let (Some(name), Ok(program)) = (name, std::env::current_exe()) {
        // comes back only when it has failed
        let _failed = Command::new(program).arg0(name).args(arguments).env(BOUND, cores.to_string()).exec();
    }
}
