//! Structured logs on standard error: text on a terminal, JSON elsewhere. `HIGHWATER_LOG` filters
//! (`info`, `debug`, `processor=debug` …).

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// What is logged unless somebody says otherwise: of crates that tell each step of theirs, what is out of the ordinary.
/// A name stands for all crates that begin with it.
const DEFAULT: &str = "info,deltalake=warn,buoyant_kernel=warn,fluvio=warn";

/// Starts logging for a long-running command.
pub(crate) fn start() {
    let filter = EnvFilter::try_from_env("HIGHWATER_LOG").unwrap_or_else(|_| EnvFilter::new(DEFAULT));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // a second start (in tests) is no fault
    let _already = if std::io::stderr().is_terminal() { log.try_init() } else { log.json().try_init() };
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Keeps what is logged.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn clients_of_others_say_what_is_out_of_the_ordinary_and_we_all_that_matters() {
        let kept = Kept::default();
        let writer = kept.clone();
        let log = tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::new(DEFAULT))
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::with_default(log, || {
            tracing::info!(target: "fluvio_socket::versioned", "connect to socket");
            tracing::info!(target: "buoyant_kernel_engine", "a step");
            tracing::warn!(target: "fluvio_socket::versioned", "socket is gone");
            tracing::info!(target: "ingest::topic::cluster", "topic made");
            tracing::debug!(target: "highwater::run", "too much");
        });
        let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        for (word, is_there) in [
            ("connect to", false),
            ("a step", false),
            ("socket is gone", true),
            ("topic made", true),
            ("too much", false),
        ] {
            assert_eq!(text.contains(word), is_there, "{word}: {text}");
        }
    }
}
