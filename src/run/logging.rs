//! Structured logs on standard error: text on a terminal, JSON elsewhere. `HIGHWATER_LOG` filters
//! (`info`, `debug`, `processor=debug` …).

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// Starts logging for a long-running command.
pub(crate) fn start() {
    let filter = EnvFilter::try_from_env("HIGHWATER_LOG")
        .unwrap_or_else(|_| EnvFilter::new("info,deltalake=warn,buoyant_kernel=warn,buoyant_kernel_engine=warn"));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // a second start (in tests) is no fault
    let _already = if std::io::stderr().is_terminal() { log.try_init() } else { log.json().try_init() };
}
