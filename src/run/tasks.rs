//! The tasks of a process by name: when one ends by itself, the process does.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Running tasks of one phase, and the token that stops them.
#[derive(Debug)]
pub(crate) struct Tasks {
    set: JoinSet<(&'static str, anyhow::Result<()>)>,
    stop: CancellationToken,
}

impl Tasks {
    /// None yet.
    pub(crate) fn new() -> Self {
        Self { set: JoinSet::new(), stop: CancellationToken::new() }
    }

    /// What tells them to stop.
    pub(crate) fn stop_token(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Adds one.
    pub(crate) fn spawn(
        &mut self,
        name: &'static str,
        work: impl Future<Output = anyhow::Result<()>> + Send + 'static,
    ) {
        self.set.spawn(async move { (name, work.await) });
    }

    /// Waits until any ends, which none should do by itself. Never returns when there are none.
    pub(crate) async fn any_ended(&mut self) -> anyhow::Error {
        match self.set.join_next().await {
            None => std::future::pending().await,
            Some(Ok((name, Ok(())))) => anyhow::anyhow!("{name} has ended by itself"),
            Some(Ok((name, Err(error)))) => error.context(name),
            Some(Err(error)) => anyhow::anyhow!("a task has died: {error}"),
        }
    }

    /// Stops them all and waits, at most `limit`; what is still running then is cut off. The first error, if any.
    pub(crate) async fn drain(&mut self, limit: Duration) -> anyhow::Result<()> {
        self.stop.cancel();
        let mut first = Ok(());
        let all = async {
            while let Some(ended) = self.set.join_next().await {
                let result = match ended {
                    Ok((name, result)) => result.map_err(|error| error.context(name)),
                    Err(error) => Err(anyhow::anyhow!("a task has died: {error}")),
                };
                if first.is_ok() {
                    first = result;
                }
            }
        };
        if tokio::time::timeout(limit, all).await.is_err() {
            tracing::warn!(?limit, "the drain took too long and was cut off; nothing answered is lost");
            self.set.abort_all();
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_ends_is_named_and_a_drain_waits() {
        let mut tasks = Tasks::new();
        tasks.spawn("sleeper", async { std::future::pending().await });
        tasks.spawn("hasty", async { anyhow::bail!("enough") });
        let error = tasks.any_ended().await;
        assert_eq!(format!("{error:#}"), "hasty: enough");
        tasks.drain(Duration::from_millis(1)).await.unwrap();

        let mut tasks = Tasks::new();
        let stop = tasks.stop_token();
        tasks.spawn("polite", async move {
            stop.cancelled().await;
            anyhow::bail!("failed at the end")
        });
        assert_eq!(
            format!("{:#}", tasks.drain(Duration::from_secs(60)).await.unwrap_err()),
            "polite: failed at the end"
        );
    }
}
