//! `opm version`

use crate::printer;

/// Prints the version in upstream's format, with Go's names for systems and processors, because scripts parse it.
pub(crate) fn run() -> anyhow::Result<()> {
    let architecture = go_compat::platform::architecture();
    printer::data(&format!(
        "Version: version.Version{{OpmVersion:\"v{}\", GitCommit:\"\", BuildDate:\"\", GoOs:\"{}\", GoArch:\"{architecture}\"}}\n",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS,
    ))
}
