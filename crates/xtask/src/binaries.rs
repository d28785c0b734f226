//! Compiled tests and programs of the workspace, built by a single cargo command.
//!
//! cargo selects features of dependencies by the requested packages. Two commands for two sets of packages would compile half of
//! the dependencies twice.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::workspace;

/// A test program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TestBinary {
    /// Package of the tests.
    pub package: String,
    /// Target of the tests: the name of a file in `tests`, `lib`, or the name of a program that contains tests.
    pub target: String,
    pub executable: PathBuf,
    /// Folder of the package, in which cargo runs its tests.
    pub folder: PathBuf,
}

impl TestBinary {
    /// Returns the name for output.
    pub(crate) fn name(&self) -> String {
        format!("{} {}", self.package, self.target)
    }

    /// Returns a command that runs it as `cargo test` does.
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

/// The programs that cargo built.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Built {
    /// Test programs, by package and target.
    pub tests: Vec<TestBinary>,
    /// Programs of the workspace, by name.
    pub programs: BTreeMap<String, PathBuf>,
}

/// Compiles the workspace's programs and tests: all tests, or those named in `only`. Dependencies have the same features in both
/// cases.
///
/// # Errors
/// The compilation fails; the compiler's messages were printed before.
pub(crate) fn build(only: Option<&[String]>) -> anyhow::Result<Built> {
    let mut cargo = workspace::cargo();
    // `cargo test --no-run` would not report the programs.
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
    let mut built = Built::default();
    messages(cargo, |message| built.note(message))?;
    built
        .tests
        .sort_by(|one, other| (&one.package, &one.target).cmp(&(&other.package, &other.target)));
    Ok(built)
}

/// Runs a cargo command that prints messages as JSON, and passes each to `note`.
///
/// # Errors
/// The command fails; the compiler's messages were printed before.
pub(crate) fn messages(mut cargo: Command, mut note: impl FnMut(&str)) -> anyhow::Result<()> {
    let mut child = cargo
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run cargo")?;
    let output = child.stdout.take().context("cargo's output was not captured")?;
    for message in BufReader::new(output).lines() {
        note(&message.context("cargo's output broke off")?);
    }
    if !child.wait().context("lost cargo")?.success() {
        bail!("the compilation failed; the compiler's messages are above");
    }
    Ok(())
}

impl Built {
    /// Adds the program from a line of cargo's messages, if it has one.
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
    fn tests_and_programs_are_distinguished() {
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
