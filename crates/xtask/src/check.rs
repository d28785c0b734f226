//! `cargo xtask check`: checks that apply to all code.
//!
//! `crates/structure.yaml` defines the permitted dependencies between packages; most other checks are tools. Each takes seconds
//! once the workspace is compiled. `cargo xtask test` runs them, too.

mod manifests;

use std::process::Command;
use std::time::Instant;

use anyhow::Context as _;
use serde::Deserialize;

use crate::progress::Progress;
use crate::{files, r#gen, workspace};

/// File with the permitted dependencies.
const STRUCTURE: &str = "crates/structure.yaml";

/// Rules on dependencies.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Structure {
    /// For each package, the packages of the workspace that it may depend on. Tests may need others.
    depends: manifests::Table,
    /// Packages that must not be built in.
    never: Vec<manifests::Ban>,
}

/// Result of a check that could run: it found these faults, or could not run for a reason.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    Faults(Vec<String>),
    LeftOut(String),
}

/// Runs a check.
type Check = fn() -> anyhow::Result<Outcome>;

/// The checks, each with its name in the output.
const CHECKS: [(&str, Check); 9] = [
    ("packages depend on those they may", || {
        let structure = structure()?;
        let packages = manifests::packages()?;
        Ok(Outcome::Faults(manifests::against_the_table(
            &packages,
            &structure.depends,
        )))
    }),
    ("nothing is built in that may not be", || {
        Ok(Outcome::Faults(manifests::banned(&structure()?.never)?))
    }),
    ("formatted", || tool(&mut cargo("fmt --all --check"))),
    ("no warning of the compiler or clippy", || {
        tool(&mut cargo(
            "clippy --workspace --all-targets --keep-going --quiet -- -D warnings",
        ))
    }),
    ("generated files are fresh", || {
        let error = r#gen::run(true).err();
        Ok(Outcome::Faults(
            error.iter().map(|error| format!("{error:#}")).collect(),
        ))
    }),
    ("documentation has no dead links", || {
        let mut doc = cargo("doc --workspace --no-deps --quiet --document-private-items");
        tool(doc.env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private_intra_doc_links"))
    }),
    ("links in Markdown lead somewhere, by lychee", links),
    (
        "licences and sources of packages are allowed, by cargo-deny",
        || tool(&mut cargo("deny check bans licenses sources")),
    ),
    ("advisories, by cargo-deny", || {
        tool(&mut cargo("deny check advisories"))
    }),
];

/// Messages of tools that lack something on this machine, with what to do.
const EXCUSES: [(&str, &str); 2] = [
    (
        "no such command: `deny`",
        "cargo-deny is not on this machine; `cargo install --locked cargo-deny` and check again",
    ),
    (
        "failed to fetch advisory database",
        "the database of advisories is out of reach; check again with https://github.com/rustsec within reach",
    ),
];

/// Runs all checks, prints each with its duration, and returns false if one found a fault.
///
/// # Errors
/// A check cannot run.
pub(crate) fn run() -> anyhow::Result<bool> {
    let progress = Progress::start();
    let mut holds = true;
    for (name, check) in CHECKS {
        crate::interrupt::check()?;
        let began = Instant::now();
        match check().with_context(|| format!("check `{name}`"))? {
            Outcome::LeftOut(why) => progress.note(&format!("LEFT OUT: {name}: {why}")),
            Outcome::Faults(faults) if faults.is_empty() => progress.done(name, began.elapsed()),
            Outcome::Faults(faults) => {
                holds = false;
                progress.note(&format!("DOES NOT HOLD: {name}"));
                for fault in faults {
                    eprintln!("  {fault}");
                }
            }
        }
    }
    Ok(holds)
}

fn structure() -> anyhow::Result<Structure> {
    let text = files::read(&workspace::root().join(STRUCTURE))?;
    serde_saphyr::from_str(&text).with_context(|| format!("read {STRUCTURE}"))
}

/// Returns a cargo command with these arguments.
fn cargo(arguments: &str) -> Command {
    let mut command = workspace::cargo();
    command.args(arguments.split(' '));
    command
}

/// Runs a tool; what it prints is the fault if it fails.
fn tool(command: &mut Command) -> anyhow::Result<Outcome> {
    let output = command
        .output()
        .with_context(|| format!("cannot run {}", command.get_program().display()))?;
    if output.status.success() {
        return Ok(Outcome::Faults(Vec::new()));
    }
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8_lossy(&printed);
    let excuse = EXCUSES.iter().find(|(said, _)| printed.contains(said));
    Ok(match excuse {
        Some((_, why)) => Outcome::LeftOut((*why).to_owned()),
        None => Outcome::Faults(printed.lines().map(str::to_owned).collect()),
    })
}

/// Checks the relative links in Markdown, with their headings.
fn links() -> anyhow::Result<Outcome> {
    let mut lychee = Command::new("lychee");
    lychee
        .args(["--offline", "--include-fragments", "--no-progress"])
        .args(["*.md", "docs/**/*.md", "charts/*.md", "manifests/*.md"])
        .current_dir(workspace::root());
    if Command::new("lychee").arg("--version").output().is_err() {
        let why = "lychee is not on this machine; `cargo install --locked lychee` and check again";
        return Ok(Outcome::LeftOut(why.to_owned()));
    }
    tool(&mut lychee)
}
