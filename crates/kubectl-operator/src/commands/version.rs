//! `kubectl operator version`

use crate::{Verdict, printer};

/// In upstream's format, with the names Go has for systems and processors, as scripts cut the version out of it.
///
/// # Errors
/// When stdout cannot be written to.
pub(crate) fn run() -> anyhow::Result<Verdict> {
    let architecture = go_compat::platform::architecture();
    printer::data(&format!(
        "version.Info{{GitVersion:\"v{}\", GitCommit:\"unknown\", GitCommitTime:\"unknown\", GitTreeState:\"unknown\", \
         GoVersion:\"\", Compiler:\"rustc\", Platform:\"{}/{architecture}\"}}\n",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS,
    ))?;
    Ok(Verdict::Fine)
}
