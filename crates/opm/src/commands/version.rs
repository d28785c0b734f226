//! `opm version`

use crate::printer;

/// In upstream's format, with the names Go has for systems and processors, as scripts cut the version out of it.
pub(crate) fn run() -> anyhow::Result<()> {
    let architecture = go_compat::platform::architecture();
    printer::data(&format!(
        "Version: version.Version{{OpmVersion:\"v{}\", GitCommit:\"\", BuildDate:\"\", GoOs:\"{}\", GoArch:\"{architecture}\"}}\n",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS,
    ))
}
