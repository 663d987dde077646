//! How many queries run at a time, and how long one may take.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::config::QueryConfig;
use crate::error::QueryError;

/// Places for queries of one kind.
#[derive(Debug)]
pub(crate) struct Places {
    running: Arc<Semaphore>,
    waiting: AtomicUsize,
    most_waiting: usize,
    longest_wait: Duration,
}

impl Places {
    /// As configured.
    pub(crate) fn new(config: &QueryConfig) -> Self {
        Self {
            running: Arc::new(Semaphore::new(config.concurrent.max(1))),
            waiting: AtomicUsize::new(0),
            most_waiting: config.queued,
            longest_wait: config.queue_wait,
        }
    }

    /// A place, kept until what is returned is dropped.
    ///
    /// # Errors
    /// [`QueryError::Busy`] when too many wait, or the wait was too long.
    pub(crate) async fn take(&self) -> Result<OwnedSemaphorePermit, QueryError> {
        if let Ok(permit) = Arc::clone(&self.running).try_acquire_owned() {
            return Ok(permit);
        }
        let busy = || QueryError::Busy { retry_after: Duration::from_secs(1) };
        let waiting = Waiting::begin(&self.waiting);
        if waiting.before >= self.most_waiting {
            return Err(busy());
        }
        match tokio::time::timeout(self.longest_wait, Arc::clone(&self.running).acquire_owned()).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(busy()),
        }
    }
}

/// One who waits, counted until it no longer does, even when its client goes.
struct Waiting<'a> {
    count: &'a AtomicUsize,
    before: usize,
}

impl<'a> Waiting<'a> {
    fn begin(count: &'a AtomicUsize) -> Self {
        Self { count, before: count.fetch_add(1, Ordering::Relaxed) }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Runs `work` until `deadline` has passed.
///
/// # Errors
/// Those of `work`, and [`QueryError::Deadline`].
pub(crate) async fn within<T>(
    deadline: Duration,
    work: impl Future<Output = Result<T, QueryError>>,
) -> Result<T, QueryError> {
    tokio::time::timeout(deadline, work).await.unwrap_or(Err(QueryError::Deadline(deadline)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(concurrent: usize, queued: usize, wait: Duration) -> Places {
        let mut config = QueryConfig::new("/nowhere", "/nowhere");
        (config.concurrent, config.queued, config.queue_wait) = (concurrent, queued, wait);
        Places::new(&config)
    }

    #[tokio::test]
    async fn a_full_house_answers_busy_and_lets_in_who_waits() {
        let places = Arc::new(places(1, 1, Duration::from_secs(600)));
        let first = places.take().await.unwrap();
        let second = tokio::spawn({
            let places = Arc::clone(&places);
            async move { places.take().await.map(drop) }
        });
        while places.waiting.load(Ordering::Relaxed) == 0 {
            tokio::task::yield_now().await;
        }
        assert!(matches!(places.take().await, Err(QueryError::Busy { .. })), "one waits already");
        drop(first);
        second.await.unwrap().unwrap();
        assert_eq!(places.waiting.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn nobody_waits_for_ever() {
        let places = places(1, 1, Duration::ZERO);
        let _first = places.take().await.unwrap();
        assert!(matches!(places.take().await, Err(QueryError::Busy { .. })));
    }
}
