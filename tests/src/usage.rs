//! What a process has used so far, as the kernel says.

use std::time::Duration;

/// Ticks of a processor's second: what Linux counts in, on every machine.
const TICKS: u64 = 100;

/// Processor time of all its threads.
pub fn processor_time(pid: u32) -> Option<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // what stands before may hold anything: the program's name
    let (_, fields) = stat.rsplit_once(')')?;
    let mut ticks = fields.split_whitespace().skip(11).map(|field| field.parse::<u64>().ok());
    let (user, system) = (ticks.next()??, ticks.next()??);
    Some(Duration::from_millis((user + system) * (1_000 / TICKS)))
}

/// Memory that it holds, in bytes.
pub fn resident_bytes(pid: u32) -> Option<u64> {
    of_status(pid, "VmRSS:")
}

/// The most memory that it has ever held, in bytes.
pub fn peak_bytes(pid: u32) -> Option<u64> {
    of_status(pid, "VmHWM:")
}

fn of_status(pid: u32, name: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_something() {
        let own = std::process::id();
        let begin = std::time::Instant::now();
        while processor_time(own).unwrap() < Duration::from_millis(20) {
            assert!(begin.elapsed() < Duration::from_secs(60));
        }
        let (held, most) = (resident_bytes(own).unwrap(), peak_bytes(own).unwrap());
        assert!(held > 100_000 && most >= held / 2, "{held} {most}");
        assert_eq!(processor_time(0), None);
    }
}
