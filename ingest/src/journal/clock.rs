//! The clock that event times are taken from, so that tests can turn it.

use std::fmt;
use std::sync::Arc;

use schemas::UtcMicros;

/// Tells the time.
#[derive(Clone)]
pub(crate) struct Clock(Arc<dyn Fn() -> UtcMicros + Send + Sync>);

impl Clock {
    /// The system's clock.
    pub(crate) fn system() -> Self {
        Self(Arc::new(UtcMicros::now))
    }

    /// A clock of one's own.
    #[cfg(test)]
    pub(crate) fn new(now: impl Fn() -> UtcMicros + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// The time.
    pub(crate) fn now(&self) -> UtcMicros {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}
