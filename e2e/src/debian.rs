//! Debian packages that single tests use.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};

/// Installs `packages` if `program` is missing from `/usr/bin`.
///
/// # Errors
/// They cannot be installed; the error names them.
pub fn ensure_installed(program: &str, packages: &[&str]) -> anyhow::Result<()> {
    if Path::new("/usr/bin").join(program).exists() {
        return Ok(());
    }
    let list = packages.join(" ");
    ensure!(
        rustix::process::geteuid().is_root() && Path::new("/usr/bin/apt-get").exists(),
        "this test needs {program}; run: sudo apt-get install {list}"
    );
    let install = [&["install", "--yes", "--no-install-recommends"], packages].concat();
    for arguments in [vec!["update"], install] {
        let output = Command::new("apt-get")
            .args(["-o", "DPkg::Lock::Timeout=120", "-o", "Acquire::Retries=3"])
            .args(arguments)
            .env("DEBIAN_FRONTEND", "noninteractive")
            // Debian starts a package's service on installation; the tests run their own process.
            .env("RUNLEVEL", "1")
            .stdin(Stdio::null())
            .output()
            .context("cannot run apt-get")?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "cannot install {list}: {errors}");
    }
    Ok(())
}
