//! The compiled tests and programs of the workspace, built by one call of cargo.
//!
//! One call, because cargo chooses the features of dependencies by the packages it is asked for: two calls for two sets of
//! packages would compile half the dependencies twice.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::workspace;

/// One program of tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TestBinary {
    /// The package it belongs to.
    pub package: String,
    /// Its target: the name of a file in `tests`, or `lib`, or the name of a program with tests in it.
    pub target: String,
    pub executable: PathBuf,
    /// The package's folder, in which cargo runs its tests.
    pub folder: PathBuf,
}

impl TestBinary {
    /// How it is named to people.
    pub(crate) fn name(&self) -> String {
        format!("{} {}", self.package, self.target)
    }

    /// A command that runs it as `cargo test` does.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.executable);
        command
            .current_dir(&self.folder)
            .env(
                "CARGO",
                std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()),
            )
            .env("CARGO_MANIFEST_DIR", &self.folder)
            .env("CARGO_PKG_NAME", &self.package)
            .stdin(Stdio::null());
        command
    }
}

/// What cargo built.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Built {
    /// Programs of tests, by package and target.
    pub tests: Vec<TestBinary>,
    /// The workspace's own programs by name.
    pub programs: BTreeMap<String, PathBuf>,
}

/// Compiles the workspace's programs and tests: all tests, or those called `only`. Dependencies have the same features either
/// way.
///
/// # Errors
/// When something does not compile; the compiler's words have then been printed.
pub(crate) fn build(only: Option<&[String]>) -> anyhow::Result<Built> {
    let mut cargo = workspace::cargo();
    // Of `cargo test --no-run` the programs would be missing.
    cargo.args([
        "build",
        "--workspace",
        "--bins",
        "--message-format=json-render-diagnostics",
    ]);
    match only {
        None => cargo.arg("--tests"),
        Some(names) => cargo.args(names.iter().map(|name| format!("--test={name}"))),
    };
    let mut child = cargo
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run cargo")?;
    let output = child.stdout.take().context("cargo's output was not captured")?;
    let mut built = Built::default();
    for line in BufReader::new(output).lines() {
        built.note(&line.context("cargo's output broke off")?);
    }
    if !child.wait().context("lost cargo")?.success() {
        bail!("the tests do not compile; the compiler's words are above");
    }
    built
        .tests
        .sort_by(|one, other| (&one.package, &one.target).cmp(&(&other.package, &other.target)));
    Ok(built)
}

impl Built {
    /// Takes in a line of cargo's messages.
    pub(crate) fn note(&mut self, line: &str) {
        let Ok(message) = serde_json::from_str::<Value>(line) else {
            return;
        };
        let Some(executable) = message["executable"].as_str().map(PathBuf::from) else {
            return;
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (name, kind) = (
            text(&message["target"]["name"]),
            text(&message["target"]["kind"][0]),
        );
        if message["profile"]["test"] != true {
            self.programs.insert(name, executable);
            return;
        }
        let manifest = text(&message["manifest_path"]);
        let folder = Path::new(&manifest).parent().unwrap_or(Path::new(""));
        let package = folder
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let target = if kind == "lib" { kind } else { name };
        self.tests.push(TestBinary {
            package,
            target,
            executable,
            folder: folder.to_owned(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn artifact(kind: &str, name: &str, test: bool, executable: &str) -> String {
        serde_json::json!({
            "reason": "compiler-artifact", "manifest_path": "/w/crates/olm-oci/Cargo.toml",
            "target": {"kind": [kind], "name": name}, "profile": {"test": test}, "executable": executable
        })
        .to_string()
    }

    #[test]
    fn tests_and_programs_are_told_apart() {
        let mut built = Built::default();
        for line in [
            artifact("lib", "olm_oci", true, "/t/deps/olm_oci-1"),
            artifact("test", "fuzz", true, "/t/deps/fuzz-1"),
            artifact("bin", "opm", false, "/t/opm"),
            r#"{"reason":"compiler-artifact","executable":null,"target":{"kind":["lib"],"name":"serde"},"profile":{"test":false}}"#.to_owned(),
            "warning: talk".to_owned(),
        ] {
            built.note(&line);
        }
        let names: Vec<String> = built.tests.iter().map(TestBinary::name).collect();
        assert_eq!(names, ["olm-oci lib", "olm-oci fuzz"]);
        assert_eq!(built.tests[0].folder, Path::new("/w/crates/olm-oci"));
        assert_eq!(built.programs["opm"], Path::new("/t/opm"));
    }
}
