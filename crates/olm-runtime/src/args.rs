//! Text shared by the command lines of the operators.

/// The two lines upstream's binaries print for `--version`.
pub fn version_text(version: &str, commit: &str) -> String {
    format!("OLM version: {version}\ngit commit: {commit}\n")
}
