//! `opm version`

use crate::printer;

/// In upstream's format, with the names Go has for systems and processors, as scripts cut the version out of it.
pub fn run() -> anyhow::Result<()> {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "powerpc64" => "ppc64le",
        other => other,
    };
    printer::data(&format!(
        "Version: version.Version{{OpmVersion:\"v{}\", GitCommit:\"\", BuildDate:\"\", GoOs:\"{}\", GoArch:\"{architecture}\"}}\n",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS,
    ))
}
