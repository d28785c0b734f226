//! Generated files: the CustomResourceDefinitions under `manifests/crds`, the names of the fields of a ClusterServiceVersion, and what is
//! rendered from the chart.
//!
//! The API types and their test know how the first look. This command only runs that test, once to write and otherwise to
//! compare, so that xtask itself stays free of the Kubernetes crates and quick to build. The chart is rendered by helm.

use std::process::ExitCode;

use anyhow::{Context as _, bail};

use crate::progress::Progress;
use crate::{chart, workspace};

/// Tells the test to write instead of to compare.
const UPDATE: &str = "OLM_UPDATE_GENERATED";

/// Writes all generated files anew or, with `check`, finds out whether they are up to date.
///
/// # Errors
/// When cargo cannot be run, the types do not compile, or a file is stale.
pub(crate) fn run(check: bool) -> anyhow::Result<ExitCode> {
    let mut command = workspace::cargo();
    command
        .args(["test", "--quiet", "--workspace", "--test", "crds", "--"])
        .args(["--exact", "crd_manifests_are_fresh"])
        .env_remove(UPDATE);
    if !check {
        command.env(UPDATE, "1");
    }
    let output = command
        .output()
        .context("failed to run cargo test for the API types")?;
    if !output.status.success() {
        let told =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        if check {
            bail!(
                "generated files are stale, or the API types do not compile; run `cargo xtask gen`\n{told}"
            );
        }
        bail!("failed to generate manifests/crds\n{told}");
    }
    eprintln!(
        "manifests/crds {}",
        if check {
            "is up to date"
        } else {
            "has been generated"
        }
    );
    chart::generate(check, &Progress::start())?;
    Ok(ExitCode::SUCCESS)
}
