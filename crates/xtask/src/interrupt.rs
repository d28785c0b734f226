//! Handles Ctrl-C during long operations: steps check for it between their parts and clean up.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use anyhow::{Context as _, bail};

static REQUESTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Makes [`check`] fail after SIGINT or SIGTERM, instead of ending the process. Further calls have no effect.
///
/// # Errors
/// The signal handlers cannot be installed.
pub(crate) fn watch() -> anyhow::Result<()> {
    if REQUESTED.get().is_some() {
        return Ok(());
    }
    let flag = REQUESTED.get_or_init(Arc::default);
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // A second Ctrl-C ends the process at once, for users who do not want to wait for the clean-up.
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(flag))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(flag)))
            .context("cannot watch for Ctrl-C")?;
    }
    Ok(())
}

/// Returns true if Ctrl-C was pressed since [`watch`] was called.
pub(crate) fn is_requested() -> bool {
    REQUESTED.get().is_some_and(|flag| flag.load(Ordering::Relaxed))
}

/// # Errors
/// Ctrl-C was pressed since [`watch`] was called.
pub(crate) fn check() -> anyhow::Result<()> {
    if is_requested() {
        bail!("interrupted");
    }
    Ok(())
}
