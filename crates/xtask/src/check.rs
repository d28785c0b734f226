//! `cargo xtask check`: checks that apply to all code.
//!
//! `crates/structure.yaml` defines the permitted dependencies between packages; most other checks are tools. Each takes seconds
//! once the workspace is compiled. `cargo xtask test` runs them, too.

mod documents;
mod licences;
mod manifests;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::{ExitCode, Stdio};
use std::time::Instant;

use anyhow::Context as _;
use serde::Deserialize;

use crate::progress::Progress;
use crate::{r#gen, workspace};

/// File with the permitted dependencies.
const STRUCTURE: &str = "crates/structure.yaml";

/// Rules on dependencies.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Structure {
    /// For each package, the packages of the workspace that it may depend on. Tests may need others.
    depends: BTreeMap<String, BTreeSet<String>>,
    /// Packages that must not be built in.
    never: Vec<manifests::Ban>,
}

/// Result of a check: it passed, found faults, or could not run for a reason.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    Holds,
    Faults(Vec<String>),
    LeftOut(String),
}

/// A check and its name in the output.
struct Check {
    name: &'static str,
    run: fn() -> anyhow::Result<Outcome>,
}

const CHECKS: [Check; 9] = [
    Check {
        name: "packages depend on those they may",
        run: dependencies,
    },
    Check {
        name: "nothing is built in that may not be",
        run: || Ok(faults(manifests::banned(&structure()?.never)?)),
    },
    Check {
        name: "formatted",
        run: || tool(&["fmt", "--all", "--check"], &[]),
    },
    Check {
        name: "no warning of the compiler or clippy",
        run: || {
            tool(
                &[
                    "clippy",
                    "--workspace",
                    "--all-targets",
                    "--keep-going",
                    "--quiet",
                    "--",
                    "-D",
                    "warnings",
                ],
                &[],
            )
        },
    },
    Check {
        name: "generated files are fresh",
        run: generated,
    },
    Check {
        name: "links in Markdown lead somewhere",
        run: || Ok(faults(documents::dead_links()?)),
    },
    Check {
        name: "documentation has no dead links",
        run: || {
            tool(
                &[
                    "doc",
                    "--workspace",
                    "--no-deps",
                    "--quiet",
                    "--document-private-items",
                ],
                &[("RUSTDOCFLAGS", "-D warnings -A rustdoc::private_intra_doc_links")],
            )
        },
    },
    Check {
        name: "licences and sources of packages are allowed",
        run: || Ok(faults(licences::faults()?)),
    },
    Check {
        name: "advisories, by cargo-deny",
        run: deny,
    },
];

/// Runs all checks, prints each with its duration, and returns a failure if one found a fault.
///
/// # Errors
/// A check cannot run.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    let progress = Progress::start();
    let mut holds = true;
    for check in &CHECKS {
        crate::interrupt::check()?;
        let began = Instant::now();
        let outcome = (check.run)().with_context(|| format!("check `{}`", check.name))?;
        match outcome {
            Outcome::Holds => progress.done(check.name, began.elapsed()),
            Outcome::LeftOut(why) => progress.note(&format!("LEFT OUT: {}: {why}", check.name)),
            Outcome::Faults(faults) => {
                holds = false;
                progress.note(&format!("DOES NOT HOLD: {}", check.name));
                for fault in faults {
                    eprintln!("  {fault}");
                }
            }
        }
    }
    Ok(if holds {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn faults(faults: Vec<String>) -> Outcome {
    if faults.is_empty() {
        Outcome::Holds
    } else {
        Outcome::Faults(faults)
    }
}

fn structure() -> anyhow::Result<Structure> {
    let text =
        fs::read_to_string(workspace::root().join(STRUCTURE)).with_context(|| format!("read {STRUCTURE}"))?;
    serde_saphyr::from_str(&text).with_context(|| format!("read {STRUCTURE}"))
}

fn dependencies() -> anyhow::Result<Outcome> {
    Ok(faults(manifests::against_the_table(
        &manifests::packages()?,
        &structure()?.depends,
    )))
}

/// Runs a cargo command; its output is the fault if it fails.
fn tool(arguments: &[&str], environment: &[(&str, &str)]) -> anyhow::Result<Outcome> {
    let output = workspace::cargo()
        .args(arguments)
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run cargo {}", arguments.join(" ")))?;
    if output.status.success() {
        return Ok(Outcome::Holds);
    }
    let printed = [output.stdout, output.stderr].concat();
    Ok(Outcome::Faults(
        String::from_utf8_lossy(&printed)
            .lines()
            .map(str::to_owned)
            .collect(),
    ))
}

fn generated() -> anyhow::Result<Outcome> {
    Ok(match r#gen::run(true) {
        Ok(_) => Outcome::Holds,
        Err(error) => Outcome::Faults(vec![format!("{error:#}")]),
    })
}

/// Advisories may be newer than any release, so the check needs a tool and its database, which not every machine has.
fn deny() -> anyhow::Result<Outcome> {
    let outcome = tool(&["deny", "check"], &[])?;
    let Outcome::Faults(printed) = &outcome else {
        return Ok(outcome);
    };
    let excuses = [
        (
            "no such command",
            "cargo-deny is not on this machine; `cargo install --locked cargo-deny` and check again",
        ),
        (
            "failed to fetch advisory database",
            "the database of advisories is out of reach; check again with https://github.com/rustsec within reach",
        ),
    ];
    let excuse = excuses
        .iter()
        .find(|(said, _)| printed.iter().any(|line| line.contains(said)));
    Ok(excuse.map_or_else(|| outcome.clone(), |(_, why)| Outcome::LeftOut((*why).to_owned())))
}
