//! `opm version`

use crate::printer;

pub fn run() -> anyhow::Result<()> {
    let (version, os, architecture) = (
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS,
        std::env::consts::ARCH,
    );
    printer::data(&format!("Version: {version} ({os}/{architecture})\n"))
}
