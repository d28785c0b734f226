//! Logs: one line an event, on stderr.

use std::io::IsTerminal;

use tracing_subscriber::{filter::Targets, fmt, layer::SubscriberExt, util::SubscriberInitExt};

/// Starts logging. `debug` shows what each round does; the environment variable `OLM_LOG` takes a
/// filter such as `info,olm_runtime=debug` and wins. Colours only on a terminal.
///
/// Returns the text of an unusable `OLM_LOG`, for the caller to report.
pub fn start(debug: bool) -> Option<String> {
    let level = if debug { "debug" } else { "info" };
    let default = || {
        format!("warn,olm_runtime={level},olm_operator={level},catalog_operator={level},olm_registry={level}")
    };
    let wanted = std::env::var("OLM_LOG").ok();
    let (filter, unusable) = match wanted.as_deref().map(str::parse::<Targets>) {
        Some(Ok(filter)) => (filter, None),
        Some(Err(error)) => (
            default().parse().unwrap_or_default(),
            Some(format!("OLM_LOG is not a filter ({error}), using the default")),
        ),
        None => (default().parse().unwrap_or_default(), None),
    };
    let lines = fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    // A second start, as in tests, keeps the first subscriber.
    let _ = tracing_subscriber::registry().with(filter).with(lines).try_init();
    unusable
}
