//! How often a trouble that stays is told: at once, and then once a minute. Pure.

use std::time::{Duration, Instant};

/// How often.
const AGAIN: Duration = Duration::from_secs(60);

/// What is due to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tell {
    /// It has just begun.
    New,
    /// It has gone on for a minute more.
    Still,
}

/// When a trouble was told last.
#[derive(Debug, Default)]
pub(super) struct Nag(Option<Instant>);

impl Nag {
    /// It is there; what is to be told of it.
    pub(super) fn tell(&mut self, now: Instant) -> Option<Tell> {
        let tell = match self.0 {
            None => Tell::New,
            Some(last) if now.duration_since(last) >= AGAIN => Tell::Still,
            Some(_) => return None,
        };
        self.0 = Some(now);
        Some(tell)
    }

    /// It is over.
    pub(super) fn over(&mut self) {
        self.0 = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trouble_is_told_when_it_begins_and_once_a_minute() {
        let start = Instant::now();
        let mut nag = Nag::default();
        let told: Vec<u64> = (0..200).filter(|s| nag.tell(start + Duration::from_secs(*s)).is_some()).collect();
        assert_eq!(told, [0, 60, 120, 180]);
        assert_eq!(nag.tell(start + Duration::from_secs(240)), Some(Tell::Still));
        nag.over();
        assert_eq!(nag.tell(start + Duration::from_secs(241)), Some(Tell::New));
    }
}
