//! `kubectl operator version`: prints the version.

use crate::{Verdict, printer};

/// Prints the version in upstream's format, which scripts parse. Systems and processors have Go's names.
///
/// # Errors
/// The version cannot be written to stdout.
pub(crate) fn run() -> anyhow::Result<Verdict> {
    let commit = option_env!("OLM_GIT_COMMIT").unwrap_or("unknown");
    let architecture = go_compat::platform::architecture();
    printer::data(&format!(
        "version.Info{{GitVersion:\"v{}\", GitCommit:\"{commit}\", GitCommitTime:\"unknown\", GitTreeState:\"unknown\", \
         GoVersion:\"\", Compiler:\"rustc\", Platform:\"{}/{architecture}\"}}\n",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS,
    ))?;
    Ok(Verdict::Fine)
}
