//! Ctrl-C while something is half done: long steps look here between their parts and stop in good order.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use anyhow::{Context as _, bail};

static REQUESTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From now on SIGINT and SIGTERM do not end this process but make [`check`] fail. Calling it again changes nothing.
///
/// # Errors
/// When the signal handlers cannot be installed.
pub(crate) fn watch() -> anyhow::Result<()> {
    if REQUESTED.get().is_some() {
        return Ok(());
    }
    let flag = REQUESTED.get_or_init(Arc::default);
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // A second Ctrl-C ends the process at once: whoever presses it twice does not want to wait for the clean-up.
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(flag))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(flag)))
            .context("cannot watch for Ctrl-C")?;
    }
    Ok(())
}

/// Whether Ctrl-C was pressed since [`watch`] was called.
pub(crate) fn is_requested() -> bool {
    REQUESTED.get().is_some_and(|flag| flag.load(Ordering::Relaxed))
}

/// # Errors
/// When Ctrl-C was pressed since [`watch`] was called.
pub(crate) fn check() -> anyhow::Result<()> {
    if is_requested() {
        bail!("interrupted");
    }
    Ok(())
}
