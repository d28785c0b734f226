//! `kubectl operator version`: prints the version.

use serde_json::json;

use crate::args::shared::Document;
use crate::{Verdict, printer};

/// Prints the version in upstream's format, which scripts parse, or as a document with the field names of `kubectl version`. Systems
/// and processors have Go's names.
///
/// # Errors
/// The version cannot be written to stdout.
pub(crate) fn run(output: Option<Document>) -> anyhow::Result<Verdict> {
    let version = concat!("v", env!("CARGO_PKG_VERSION"));
    let commit = option_env!("OLM_GIT_COMMIT").unwrap_or("unknown");
    let platform = format!("{}/{}", std::env::consts::OS, go_compat::platform::architecture());
    match output {
        Some(format) => {
            let client = json!({"gitVersion": version, "gitCommit": commit, "compiler": "rustc", "platform": platform});
            printer::document(&json!({"clientVersion": client}), format)?;
        }
        None => printer::data(&format!(
            "version.Info{{GitVersion:\"{version}\", GitCommit:\"{commit}\", GitCommitTime:\"unknown\", \
             GitTreeState:\"unknown\", GoVersion:\"\", Compiler:\"rustc\", Platform:\"{platform}\"}}\n",
        ))?,
    }
    Ok(Verdict::Fine)
}
