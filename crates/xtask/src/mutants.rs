//! `cargo xtask mutants`: whether the resolver's scenarios notice when a rule is taken away.
//!
//! `crates/olm-resolver/tests/mutations.yaml` says, rule by rule, which clause to remove. Each is tried on a copy of the
//! workspace under `target/`, so that nobody who builds meanwhile meets it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, bail};
use serde::Deserialize;

use crate::workspace;

const LIST: &str = "crates/olm-resolver/tests/mutations.yaml";

/// A clause to take away.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mutation {
    /// The rule it belongs to.
    rule: String,
    /// File below the resolver's `src`.
    file: String,
    /// The clause as it stands there.
    from: String,
    /// What stands there without the rule.
    to: String,
}

/// What the scenarios said.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Noticed,
    Unnoticed,
    DoesNotCompile,
    NotFound,
}

/// Tries every mutation, or those whose rule contains `only`.
///
/// # Errors
/// The workspace cannot be copied or cargo not be run.
pub fn run(only: Option<&str>) -> anyhow::Result<ExitCode> {
    let root = workspace::root();
    let text = fs::read_to_string(root.join(LIST)).with_context(|| format!("read {LIST}"))?;
    let mutations: Vec<Mutation> = serde_saphyr::from_str(&text).with_context(|| format!("read {LIST}"))?;
    let copy = root.join("target/mutants/workspace");
    copy_workspace(&root, &copy)?;
    let mut failed = 0;
    for mutation in mutations
        .iter()
        .filter(|m| only.is_none_or(|only| m.rule.contains(only)))
    {
        let outcome = attempt(&copy, mutation)?;
        let word = match outcome {
            Outcome::Noticed => "noticed",
            Outcome::Unnoticed => "UNNOTICED",
            Outcome::DoesNotCompile => "DOES NOT COMPILE",
            Outcome::NotFound => "NOT FOUND",
        };
        failed += usize::from(outcome != Outcome::Noticed);
        println!("{word:<17} {}", mutation.rule);
    }
    println!("{} mutations, {failed} not noticed", mutations.len());
    Ok(if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Copies what git knows of, as it is on disk.
fn copy_workspace(root: &Path, copy: &Path) -> anyhow::Result<()> {
    let listed = Command::new("git")
        .current_dir(root)
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .output()
        .context("run git")?;
    if !listed.status.success() {
        bail!("git ls-files failed: {}", String::from_utf8_lossy(&listed.stderr));
    }
    let names = String::from_utf8(listed.stdout).context("names of files")?;
    for name in names.split('\0').filter(|name| !name.is_empty()) {
        let (from, to) = (root.join(name), copy.join(name));
        let Ok(content) = fs::read(&from) else { continue };
        // What is the same already keeps its time, so that cargo builds no more than it must.
        if fs::read(&to).is_ok_and(|known| known == content) {
            continue;
        }
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
        }
        fs::write(&to, content).with_context(|| format!("write {}", to.display()))?;
    }
    Ok(())
}

fn attempt(copy: &Path, mutation: &Mutation) -> anyhow::Result<Outcome> {
    let file: PathBuf = copy.join("crates/olm-resolver/src").join(&mutation.file);
    let original = fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
    if !original.contains(&mutation.from) {
        return Ok(Outcome::NotFound);
    }
    let write = |text: &str| fs::write(&file, text).with_context(|| format!("write {}", file.display()));
    write(&original.replacen(&mutation.from, &mutation.to, 1))?;
    let test = workspace::cargo()
        .current_dir(copy)
        // Packages of the copy have the names of ours: in a shared build folder each would be taken for the other.
        .env("CARGO_TARGET_DIR", copy.with_file_name("build"))
        .args([
            "test",
            "--quiet",
            "--package",
            "olm-resolver",
            "--test",
            "scenarios",
            "scenarios_come_out_as_written",
        ])
        .output();
    write(&original)?;
    let test = test.context("run cargo test")?;
    let text = String::from_utf8_lossy(&test.stderr);
    Ok(
        match (test.status.success(), text.contains("could not compile")) {
            (true, _) => Outcome::Unnoticed,
            (false, true) => Outcome::DoesNotCompile,
            (false, false) => Outcome::Noticed,
        },
    )
}
