//! Generated files: the field names of specs, the page of messages, and the rendered chart.
//!
//! A test of the API types generates the first from `manifests/crds`. This command runs that test, either to write the file or to
//! compare it. So xtask does not depend on the Kubernetes crates and compiles fast. Helm renders the chart.

use anyhow::{Context as _, bail};

use crate::progress::Progress;
use crate::{chart, messages, workspace};

/// Variable that makes the test write the file instead of comparing it.
const UPDATE: &str = "OLM_UPDATE_GENERATED";

/// Writes all generated files or, with `check`, verifies that they are up to date.
///
/// # Errors
/// cargo cannot be run, the types do not compile, or a file is outdated.
pub(crate) fn run(check: bool) -> anyhow::Result<()> {
    let mut command = workspace::cargo();
    command
        .args(["test", "--quiet", "--workspace", "--test", "crds", "--"])
        .args(["--exact", "field_table_is_fresh"])
        .env_remove(UPDATE);
    if !check {
        command.env(UPDATE, "1");
    }
    let output = command
        .output()
        .context("cannot run cargo test for the API types")?;
    if !output.status.success() {
        let printed = [output.stdout, output.stderr].concat();
        bail!(
            "generated files are stale, or the API types do not compile; run `cargo xtask gen`\n{}",
            String::from_utf8_lossy(&printed)
        );
    }
    messages::generate(check)?;
    chart::generate(check, &Progress::start())
}
