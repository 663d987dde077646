//! What an operator has put in place and isn't taken because it is wrong: rules, lists of networks, a geography database.
//! Each process tells of its own through the link store, so that status shows them wherever it is asked for.
//!
//! Failure: a link store that is away hears nothing; nobody can be asked then either.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use redirect::links::LinkStore;
use schemas::JournalId;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::journals::node_name;

/// How often it is looked whether there is something to tell.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often it is told while it lasts.
const TOLD_EVERY: Duration = Duration::from_secs(5);

/// What is refused here, each with why. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refusals(watch::Sender<BTreeMap<String, String>>);

impl Refusals {
    /// This is wrong on disk; what was there before stays in force.
    pub(crate) fn refuse(&self, what: &str, why: &str) {
        self.0.send_modify(|all| drop(all.insert(what.to_owned(), why.to_owned())));
    }

    /// What is on disk is in force.
    pub(crate) fn accept(&self, what: &str) {
        self.0.send_modify(|all| drop(all.remove(what)));
    }

    /// Of all whose names begin with `kind`, these are refused, by the rest of their names, and no others.
    pub(crate) fn replace(&self, kind: &str, wrong: &BTreeMap<String, String>) {
        self.0.send_modify(|all| {
            all.retain(|what, _| !what.starts_with(kind));
            all.extend(wrong.iter().map(|(name, why)| (format!("{kind}{name}"), why.clone())));
        });
    }

    /// Tells whoever asks the link store, until `stop`.
    pub(crate) async fn tell(self, store: LinkStore, stop: CancellationToken) {
        let name = format!("{}/{}", node_name(), JournalId::new());
        let mut told = (BTreeMap::new(), Instant::now());
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            let (refused, now) = (self.0.borrow().clone(), Instant::now());
            let is_fresh = refused.is_empty() || now.saturating_duration_since(told.1) < TOLD_EVERY;
            if refused == told.0 && is_fresh {
                continue;
            }
            match store.tell_refusals(&name, &refused).await {
                Ok(()) => told = (refused, now),
                Err(error) => tracing::debug!(%error, "what is refused can't be told now"),
            }
        }
        if !told.0.is_empty()
            && let Err(error) = store.tell_refusals(&name, &BTreeMap::new()).await
        {
            tracing::debug!(%error, "it ends by itself");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(refusals: &Refusals) -> Vec<String> {
        refusals.0.borrow().iter().map(|(what, why)| format!("{what}: {why}")).collect()
    }

    #[test]
    fn each_thing_is_refused_until_it_is_accepted() {
        let refusals = Refusals::default();
        refusals.refuse("classify.rules", "a");
        refusals.replace("networks/", &BTreeMap::from([("x".into(), "b".into()), ("y".into(), "c".into())]));
        refusals.clone().refuse("classify.rules", "d");
        refusals.replace("networks/", &BTreeMap::from([("x".into(), "e".into())]));
        assert_eq!(all(&refusals), ["classify.rules: d", "networks/x: e"]);
        refusals.accept("classify.rules");
        refusals.replace("networks/", &BTreeMap::new());
        assert_eq!(all(&refusals), [""; 0]);
    }

    #[tokio::test]
    async fn who_is_asked_elsewhere_hears_of_them_until_they_are_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("links");
        let domains = redirect::links::Domains::new(&["a.test"]).unwrap();
        let store = LinkStore::open(path.to_str().unwrap(), domains).await.unwrap();
        let (refusals, stop) = (Refusals::default(), CancellationToken::new());
        refusals.refuse("geo.mmdb", "damaged");
        let telling = tokio::spawn(refusals.tell(store.clone(), stop.clone()));
        let told = loop {
            if let Some(told) = store.refusals().await.unwrap().pop() {
                break told;
            }
            tokio::task::yield_now().await;
        };
        assert!(told.process.starts_with(&node_name()), "{}", told.process);
        assert_eq!((&*told.what, &*told.why), ("geo.mmdb", "damaged"));
        stop.cancel();
        telling.await.unwrap();
        assert!(store.refusals().await.unwrap().is_empty());
    }
}
