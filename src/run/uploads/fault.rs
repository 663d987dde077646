//! How a try to take a log in ended without the log being in the lake, and what follows from it. Pure.

use std::time::Duration;

use processor::import::ImportError;

use crate::logs::ObjectError;

/// A log that breaks off so often without the lake or a store being to blame is given up.
pub(super) const MOST_TRIES: u32 = 8;
/// Pauses before the next try: twice as long after each.
pub(super) const FIRST_PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// Why a log isn't in the lake.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The log is at fault: trying again won't help.
    Refused(String),
    /// The lake or a store doesn't answer: trying later will help.
    Later(String),
    /// It broke off for no reason known: trying again may help.
    Broke(String),
}

/// What follows from a fault.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    GiveUp,
    Again(Duration),
}

impl Fault {
    /// Of an import.
    pub(super) fn of(error: &ImportError) -> Self {
        let why = crate::explain(&anyhow::anyhow!("{error}"));
        match error {
            error if error.is_refusal() => Self::Refused(why),
            ImportError::Settle { .. } | ImportError::Spool { .. } => Self::Later(why),
            _ => Self::Broke(why),
        }
    }

    /// Of a log that can't be read where it was found.
    pub(super) fn not_there(error: &anyhow::Error) -> Self {
        let why = crate::explain(error);
        match error.downcast_ref::<ObjectError>() {
            Some(error) if error.may_pass() => Self::Later(why),
            _ => Self::Refused(why),
        }
    }

    pub(super) fn why(&self) -> &str {
        match self {
            Self::Refused(why) | Self::Later(why) | Self::Broke(why) => why,
        }
    }

    /// What follows at the `tries`th try.
    pub(super) fn next(&self, tries: u32) -> Next {
        let pause = FIRST_PAUSE.saturating_mul(1 << tries.saturating_sub(1).min(16)).min(LONGEST_PAUSE);
        match self {
            Self::Refused(_) => Next::GiveUp,
            Self::Broke(_) if tries >= MOST_TRIES => Next::GiveUp,
            Self::Broke(_) | Self::Later(_) => Next::Again(pause),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_log_is_given_up_and_a_lake_that_is_down_never() {
        assert_eq!(Fault::Refused(String::new()).next(1), Next::GiveUp);
        assert_eq!(Fault::Later(String::new()).next(1), Next::Again(FIRST_PAUSE));
        assert_eq!(Fault::Later(String::new()).next(2), Next::Again(FIRST_PAUSE * 2));
        assert_eq!(Fault::Later(String::new()).next(u32::MAX), Next::Again(LONGEST_PAUSE));
        assert_eq!(Fault::Broke(String::new()).next(MOST_TRIES - 1), Next::Again(FIRST_PAUSE * 64));
        assert_eq!(Fault::Broke(String::new()).next(MOST_TRIES), Next::GiveUp);
    }
}
