//! Checks licences and origin of dependencies, without a server or another tool.

use std::collections::BTreeSet;
use std::fs;

use anyhow::Context as _;
use serde::Deserialize;
use spdx::{Expression, ParseMode};

use crate::{process, workspace};

/// File with the permitted licences, which cargo-deny also reads.
const RULES: &str = "deny.toml";
/// Targets that we build for. Dependencies of other systems are neither fetched nor checked.
const TARGETS: [&str; 2] = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"];
/// The only permitted registry.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

#[derive(Debug, Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    source: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Debug, Deserialize)]
struct Rules {
    licenses: Licences,
}

#[derive(Debug, Deserialize)]
struct Licences {
    allow: BTreeSet<String>,
}

/// Returns packages with a licence that is not permitted, and those that are not from crates.io.
///
/// # Errors
/// cargo fails, or the rules cannot be read.
pub(super) fn faults() -> anyhow::Result<Vec<String>> {
    let mut command = workspace::cargo();
    command.args(["metadata", "--format-version=1", "--locked"]);
    command.args(TARGETS.map(|target| format!("--filter-platform={target}")));
    let metadata: Metadata = serde_json::from_str(&process::output(command, None, "cargo metadata")?)
        .context("cargo metadata did not print JSON")?;
    let rules = fs::read_to_string(workspace::root().join(RULES)).with_context(|| format!("read {RULES}"))?;
    let rules: Rules = toml::from_str(&rules).with_context(|| format!("read {RULES}"))?;
    let packages = metadata.packages.iter();
    Ok(packages
        .filter_map(|package| package.fault(&rules.licenses.allow))
        .collect())
}

impl Package {
    fn fault(&self, allowed: &BTreeSet<String>) -> Option<String> {
        let Self { name, version, .. } = self;
        if let Some(source) = self.source.as_deref().filter(|source| *source != REGISTRY) {
            return Some(format!(
                "{name} {version} comes from {source}, not from crates.io"
            ));
        }
        let licence = self.license.as_deref().unwrap_or_default();
        let is_allowed = Expression::parse_mode(licence, ParseMode::LAX)
            .is_ok_and(|licence| licence.evaluate(|required| allowed.contains(&required.to_string())));
        (!is_allowed).then(|| format!("{name} {version} is under {licence:?}, which {RULES} does not allow"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_allowed_licences_and_crates_io_may_be() {
        let allowed = ["MIT", "ISC"].map(str::to_owned).into();
        let fault = |licence: Option<&str>, source: Option<&str>| {
            let package = Package {
                name: "a".into(),
                version: "1.0.0".into(),
                license: licence.map(Into::into),
                source: source.map(Into::into),
            };
            package.fault(&allowed)
        };
        for licence in ["MIT", "ISC AND MIT", "GPL-3.0-only OR ISC", "MIT/Apache-2.0"] {
            assert_eq!(fault(Some(licence), Some(REGISTRY)), None, "{licence}");
        }
        for licence in [Some("GPL-3.0-only"), Some("MIT AND Zlib"), Some("my own"), None] {
            assert!(
                fault(licence, None).unwrap().contains("does not allow"),
                "{licence:?}"
            );
        }
        let fault = fault(Some("MIT"), Some("git+https://example.com/a")).unwrap();
        assert_eq!(
            fault,
            "a 1.0.0 comes from git+https://example.com/a, not from crates.io"
        );
    }
}
