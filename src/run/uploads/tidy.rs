//! Staged uploads go when they are no longer needed: a while after they were taken in, as an import may be taken back
//! and the log then be needed again; at once what no log of the queue knows of, once nobody can be uploading it. The
//! queue's own word of an upload goes long after that.

use std::collections::HashSet;
use std::time::Duration;

use redirect::links::LinkStore;
use schemas::UtcMicros;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::staging::Staging;

const EVERY: Duration = Duration::from_secs(600);
/// So long after its end the queue forgets a log that can't come again as it was, or is known without it.
pub(crate) const REMEMBERED: Duration = Duration::from_secs(30 * 24 * 3_600);
/// What is older and no log's was left behind: an upload puts a part at least every ten minutes.
const NOBODYS_AFTER: Duration = Duration::from_secs(3_600);

/// Removes what is no longer needed until `stop`. `alone`: nobody else can be uploading when this begins, so that what
/// a killed process has left behind goes at once.
pub(crate) async fn tidy(queue: LinkStore, staging: Staging, keep: Duration, alone: bool, stop: CancellationToken) {
    let begun = UtcMicros::now();
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        let now = UtcMicros::now();
        let old = now.minus(NOBODYS_AFTER);
        let nobodys = if alone { old.max(begun) } else { old };
        if let Err(error) = once(&queue, &staging, now.minus(keep), nobodys).await {
            tracing::warn!(error = crate::explain(&error), "staged uploads can't be tidied now");
        }
    }
}

async fn once(queue: &LinkStore, staging: &Staging, ended: UtcMicros, nobodys: UtcMicros) -> anyhow::Result<()> {
    // asked before the listing: what is queued in between is then too young to go
    let known: HashSet<String> = queue.staged_objects().await?.into_iter().collect();
    let swept = staging.sweep(&known, nobodys.0 / 1_000).await?;
    if swept > 0 {
        tracing::info!(parts = swept, "removed what broken uploads have left behind");
    }
    let forgotten = queue.forget_uploads(UtcMicros::now().minus(REMEMBERED)).await?;
    if forgotten > 0 {
        tracing::info!(forgotten, "forgot uploads that ended long ago; the lake knows those that it has taken in");
    }
    for staged in queue.staged_before(ended).await? {
        staging.remove(&staged.object, staged.parts).await?;
        queue.forget_staged(&staged).await?;
    }
    Ok(())
}
