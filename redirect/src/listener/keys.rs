//! The visitor keys of yesterday, today and tomorrow, fetched ahead so that no redirect waits for one.
//!
//! While a day's key can't be had its clicks carry no visitor; nothing else changes.

use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use ingest::ports::{PortError, VisitorKeys};
use schemas::UtcMicros;
use schemas::visitor::VisitorKey;
use tokio::time::{sleep, timeout};

/// How long the store may take to give a key.
const DEADLINE: Duration = Duration::from_secs(5);
/// How often the day is looked at, and how soon a failure is tried again.
const EVERY: Duration = Duration::from_secs(60);
const RETRY: Duration = Duration::from_secs(1);

/// The keys at hand. A key that is no longer of the three days is forgotten.
#[derive(Debug, Default)]
pub(super) struct KeyRing {
    keys: RwLock<[Option<(i32, VisitorKey)>; 3]>,
}

impl KeyRing {
    /// The key of `day` (days since 1970, UTC), if it is at hand.
    pub(super) fn key_of(&self, day: i32) -> Option<VisitorKey> {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        keys.iter().flatten().find(|(of, _)| *of == day).map(|(_, key)| *key)
    }

    /// Gets the keys that are missing around `today`. What can be had is kept even when the rest fails.
    pub(super) async fn refresh(&self, source: &dyn VisitorKeys, today: i32) -> Result<(), PortError> {
        // today's first: the others only matter around midnight
        let days = [today, today + 1, today - 1];
        let mut keys = days.map(|day| self.key_of(day).map(|key| (day, key)));
        let mut failed = None;
        for (slot, day) in keys.iter_mut().zip(days) {
            if slot.is_none() && failed.is_none() {
                match timeout(DEADLINE, source.key_of(day)).await {
                    Ok(Ok(key)) => *slot = Some((day, key)),
                    Ok(Err(error)) => failed = Some(error),
                    Err(late) => failed = Some(PortError { doing: "waiting for a visitor key", source: late.into() }),
                }
            }
        }
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = keys;
        failed.map_or(Ok(()), Err)
    }

    /// Keeps the ring complete, for good.
    pub(super) async fn keep(&self, source: &dyn VisitorKeys) {
        let mut failing = false;
        loop {
            let refreshed = self.refresh(source, UtcMicros::now().day()).await;
            if let Err(error) = &refreshed
                && !failing
            {
                tracing::warn!(%error, "no visitor key: clicks carry no visitor until there is one");
            }
            failing = refreshed.is_err();
            sleep(if failing { RETRY } else { EVERY }).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    use async_trait::async_trait;

    /// Gives keys named by their day; refuses from the call numbered `fails_from` on.
    #[derive(Debug, Default)]
    struct Source {
        asked: Mutex<Vec<i32>>,
        fails_from: Option<usize>,
    }

    #[async_trait]
    impl VisitorKeys for Source {
        async fn key_of(&self, day: i32) -> Result<VisitorKey, PortError> {
            let mut asked = self.asked.lock().unwrap();
            asked.push(day);
            match self.fails_from {
                Some(from) if asked.len() > from => Err(PortError { doing: "x", source: "down".into() }),
                _ => Ok(VisitorKey([day as u8; 16])),
            }
        }
    }

    #[tokio::test]
    async fn three_days_are_at_hand_and_each_is_asked_for_once() {
        let (ring, source) = (KeyRing::default(), Source::default());
        ring.refresh(&source, 10).await.unwrap();
        ring.refresh(&source, 10).await.unwrap();
        for day in 9..=11 {
            assert_eq!(ring.key_of(day), Some(VisitorKey([day as u8; 16])));
        }
        assert_eq!((ring.key_of(8), ring.key_of(12)), (None, None));
        ring.refresh(&source, 11).await.unwrap();
        assert_eq!(ring.key_of(9), None, "a key that is no longer needed is forgotten");
        assert_eq!(*source.asked.lock().unwrap(), [10, 11, 9, 12]);
    }

    #[tokio::test]
    async fn a_failing_store_takes_nothing_away() {
        let ring = KeyRing::default();
        let partly = Source { fails_from: Some(1), ..Source::default() };
        assert!(ring.refresh(&partly, 10).await.is_err());
        assert_eq!((ring.key_of(10).is_some(), ring.key_of(11)), (true, None));
        ring.refresh(&Source::default(), 10).await.unwrap();
        let down = Source { fails_from: Some(0), ..Source::default() };
        assert!(ring.refresh(&down, 11).await.is_err());
        assert!(ring.key_of(11).is_some(), "tomorrow's key was fetched ahead");
    }
}
