//! When to stop: SIGTERM or SIGINT begins the drain, a second one ends the process at once.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Cancels `stop` at the first signal and exits with 130 at the second.
///
/// # Errors
/// When the handlers can't be installed.
pub(crate) fn listen(stop: CancellationToken) -> std::io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        let mut asked = false;
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if asked {
                tracing::warn!("stopped at the second signal, without the drain; nothing answered is lost");
                std::process::exit(130);
            }
            asked = true;
            tracing::info!("draining; a second signal stops at once");
            stop.cancel();
        }
    });
    Ok(())
}
