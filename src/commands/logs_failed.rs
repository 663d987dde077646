//! Taking a log back that is no import: it failed, so there is nothing of it but its place in the list.

use anyhow::bail;
use ingest::queue::{QueuedLog, Stage, Way};
use processor::import::{State, Summary, stored};
use redirect::links::LinkStore;
use schemas::UtcMicros;
use serde::Serialize;

use super::open;
use crate::config::Config;
use crate::run::unended;

/// A log that is off the list.
#[derive(Debug, Serialize)]
pub(super) struct OffTheList {
    /// As it stands now.
    off_the_list: Summary,
    /// Why it had failed.
    why: Option<String>,
    /// Whether it lies below a watched prefix, and so doesn't come again by itself.
    watched: bool,
}

impl OffTheList {
    /// What was done, for people.
    pub(super) fn text(&self) -> String {
        let Summary { id, name, .. } = &self.off_the_list;
        let why = self.why.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
        let again = match self.watched {
            true => "this version of it doesn't come again from its watched folder or prefix",
            false => "uploaded again, it is taken in",
        };
        format!("{name} (id {id}) failed{why}: no rows were of it. It is off the list; {again}")
    }
}

/// Takes the log `id` off the list if it is one that the lake knows nothing of and that failed; none if it is an import, or
/// unknown.
///
/// # Errors
/// When it is still to be taken in, so that there is nothing to take back yet.
pub(super) async fn outside(id: &str, config: &Config) -> anyhow::Result<Option<OffTheList>> {
    let (store, lake) = (open::link_store(config).await?, open::lake(config)?);
    let Some(log) = store.queued_log(id).await? else { return Ok(None) };
    let is_import = stored(&lake, Some(id)).await?.iter().any(|import| import.summary.state != State::Reverted);
    match log.stage {
        _ if is_import => Ok(None),
        Stage::Done => Ok(None),
        Stage::Failed => off(&store, log).await.map(Some),
        Stage::Queued | Stage::Running => bail!(
            "{} (id {id}) is {}: there is nothing of it to take back yet. `up` or `process` takes it in; once it is done or has \
             failed, take it back",
            log.name,
            log.stage
        ),
    }
}

async fn off(store: &LinkStore, log: QueuedLog) -> anyhow::Result<OffTheList> {
    let off_the_list = dismissed(&log, UtcMicros::now());
    if !store.dismiss_failed(&log.id, &serde_json::to_string(&off_the_list)?).await? {
        bail!("{} (id {}) is being taken in again; look at `edge-logs list`", log.name, log.id);
    }
    Ok(OffTheList { off_the_list, why: log.error, watched: log.way == Way::Watched })
}

/// Takes the log off the list if it is there, and failed.
///
/// # Errors
/// When the link store fails.
pub(super) async fn dismiss(store: &LinkStore, id: &str) -> anyhow::Result<()> {
    if let Some(log) = store.queued_log(id).await?.filter(|log| log.stage == Stage::Failed) {
        store.dismiss_failed(id, &serde_json::to_string(&dismissed(&log, UtcMicros::now()))?).await?;
    }
    Ok(())
}

/// What is remembered of it.
fn dismissed(log: &QueuedLog, now: UtcMicros) -> Summary {
    let note = Some(format!("failed, and taken off the list at {now}"));
    Summary { state: State::Reverted, note, ..unended(log) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ingest::queue::Terms;

    use super::*;

    fn log(way: Way) -> QueuedLog {
        QueuedLog {
            id: way.as_str().to_owned(),
            way,
            name: "diary.txt".into(),
            terms: Terms::default(),
            object: "/logs/diary.txt".into(),
            parts: 1,
            size: 5,
            tag: "t".into(),
            stage: Stage::Queued,
            tries: 0,
            summary: None,
            error: None,
            queued_at: UtcMicros(1),
        }
    }

    #[tokio::test]
    async fn a_log_that_failed_is_off_the_list_and_one_that_waits_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let config = Config { data_dir: folder.path().to_owned(), ..Config::default() };
        let store = open::link_store(&config).await.unwrap();
        assert!(outside("nothing", &config).await.unwrap().is_none(), "whoever takes imports back says so");
        for (way, again) in [(Way::Upload, "uploaded again"), (Way::Watched, "doesn't come again")] {
            let id = way.as_str();
            store.enqueue(&log(way), false).await.unwrap();
            let refused = outside(id, &config).await.unwrap_err().to_string();
            assert!(refused.contains("diary.txt") && refused.contains("is queued"), "{refused}");
            store.claim_log(way, "me", UtcMicros(2), Duration::from_secs(9)).await.unwrap();
            assert!(outside(id, &config).await.unwrap_err().to_string().contains("is running"));
            store.finish_log(id, "me", Err("it is no log"), UtcMicros(3)).await.unwrap();
            let off = outside(id, &config).await.unwrap().unwrap();
            let told = off.text();
            assert!(told.contains("(it is no log)") && told.contains("off the list") && told.contains(again), "{told}");
            assert_eq!(off.off_the_list.state, State::Reverted);
            assert!(outside(id, &config).await.unwrap().is_none(), "once");
        }
        assert!(store.logs_outside().await.unwrap().is_empty());
    }
}
