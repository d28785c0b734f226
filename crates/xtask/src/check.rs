//! `cargo xtask check`: what holds for all of the code, whatever it does.
//!
//! `crates/structure.yaml` says who may depend on whom; most other checks are tools. Each is seconds long once the workspace is compiled. `cargo xtask test` runs them too.

mod documents;
mod manifests;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::Context as _;
use serde::Deserialize;

use crate::progress::Progress;
use crate::release::supply;
use crate::{r#gen, workspace};

/// The table of who may depend on whom.
const STRUCTURE: &str = "crates/structure.yaml";

/// How the house is built.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Structure {
    /// For each package those of this workspace that it may be built with; what tests need in addition is free.
    depends: BTreeMap<String, BTreeSet<String>>,
    /// What packages are not built with.
    never: Vec<manifests::Ban>,
}

/// Where nobody watches, this names the checks that may be left out, with commas between them.
const MAY_BE_LEFT_OUT: &str = "OLM_MAY_BE_LEFT_OUT";

/// What a check found: nothing, faults, or that it could not be made here and why.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    Holds,
    Faults(Vec<String>),
    LeftOut(Left),
}

/// A check that could not be made.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Left {
    /// What [`MAY_BE_LEFT_OUT`] calls it.
    what: &'static str,
    why: String,
}

/// What [`MAY_BE_LEFT_OUT`] may name.
const YANKED: &str = "yanked";
const ADVISORIES: &str = "advisories";

/// A check and how it is told.
struct Check {
    name: &'static str,
    run: fn() -> anyhow::Result<Outcome>,
}

/// What holds for what comes from others, which a release asks, too.
const SUPPLY: [Check; 4] = [
    Check {
        name: "licences are allowed",
        run: || Ok(faults(supply::licences()?)),
    },
    Check {
        name: "packages come from the registry, with checksums",
        run: || Ok(faults(supply::sources()?)),
    },
    Check {
        name: "no package was taken back by its authors",
        run: yanked,
    },
    Check {
        name: "advisories, by cargo-deny",
        run: deny,
    },
];

const CHECKS: [Check; 7] = [
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
];

/// Makes all checks, prints each with the time it took, and fails if one found a fault.
///
/// # Errors
/// When a check cannot be made.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    Ok(if all(&Progress::start())? {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Makes all checks; true if each holds.
///
/// # Errors
/// When a check cannot be made.
pub(crate) fn all(progress: &Progress) -> anyhow::Result<bool> {
    make(CHECKS.iter().chain(&SUPPLY), progress)
}

/// Makes those of what comes from others; true if each holds.
///
/// # Errors
/// When a check cannot be made.
pub(crate) fn supply(progress: &Progress) -> anyhow::Result<bool> {
    make(SUPPLY.iter(), progress)
}

fn make<'a>(checks: impl Iterator<Item = &'a Check>, progress: &Progress) -> anyhow::Result<bool> {
    let is_watched = std::env::var_os("CI").is_none();
    let text = std::env::var(MAY_BE_LEFT_OUT).unwrap_or_default();
    let named = named(&text)?;
    let mut holds = true;
    for check in checks {
        crate::interrupt::check()?;
        let began = Instant::now();
        let outcome = (check.run)().with_context(|| format!("check `{}`", check.name))?;
        match judged(outcome, is_watched, &named) {
            Outcome::Holds => progress.done(check.name, began.elapsed()),
            Outcome::LeftOut(left) => progress.note(&format!("LEFT OUT: {}: {}", check.name, left.why)),
            Outcome::Faults(faults) => {
                holds = false;
                progress.note(&format!("DOES NOT HOLD: {}", check.name));
                for fault in faults {
                    eprintln!("  {fault}");
                }
            }
        }
    }
    Ok(holds)
}

/// Reads names of checks.
///
/// # Errors
/// When one is no check that can be left out: it would be a slip.
fn named(text: &str) -> anyhow::Result<BTreeSet<&str>> {
    let names: BTreeSet<&str> = text
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .collect();
    for name in &names {
        anyhow::ensure!(
            [YANKED, ADVISORIES].contains(name),
            "{MAY_BE_LEFT_OUT} names {name:?}; only {YANKED} and {ADVISORIES} may be left out"
        );
    }
    Ok(names)
}

/// What an outcome counts for: where nobody watches, only what is named may be left out.
fn judged(outcome: Outcome, is_watched: bool, named: &BTreeSet<&str>) -> Outcome {
    match outcome {
        Outcome::LeftOut(Left { what, why }) if !is_watched && !named.contains(what) => {
            Outcome::Faults(vec![
                format!("it was left out, and CI is set: {why}"),
                format!("{MAY_BE_LEFT_OUT}={what} has it left out all the same"),
            ])
        }
        outcome => outcome,
    }
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

/// What cargo says, if it is not content.
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

/// Held against cargo's copy of the index: what that does not have is told.
fn yanked() -> anyhow::Result<Outcome> {
    let supply::Yanked {
        faults: found,
        unknown,
    } = supply::yanked()?;
    if found.is_empty() && !unknown.is_empty() {
        return Ok(Outcome::LeftOut(Left {
            what: YANKED,
            why: format!(
                "cargo's index on this machine does not have {} versions in use, {} the first; `cargo fetch` has it look",
                unknown.len(),
                unknown[0]
            ),
        }));
    }
    Ok(faults(found))
}

/// May be left out: the tool is no part of a toolchain, and its database of advisories, which is
/// newer than any release, may be out of reach. What was left out is printed, and how to have it.
fn deny() -> anyhow::Result<Outcome> {
    let is_there = Command::new("cargo-deny")
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !is_there {
        return Ok(Outcome::LeftOut(Left {
            what: ADVISORIES,
            why: "cargo-deny is not on this machine; `cargo install --locked cargo-deny` and check again. Licences, sources and versions that were taken back were checked without it"
                .to_owned(),
        }));
    }
    match tool(&["deny", "check"], &[])? {
        Outcome::Faults(printed)
            if printed
                .iter()
                .any(|line| line.contains("failed to fetch advisory database")) =>
        {
            // What needs no database is not left out with it.
            Ok(match tool(&["deny", "check", "bans", "licenses", "sources"], &[])? {
                Outcome::Holds => Outcome::LeftOut(Left {
                    what: ADVISORIES,
                    why: "the database of advisories is out of reach; check again with https://github.com/rustsec within reach".to_owned(),
                }),
                outcome => outcome,
            })
        }
        outcome => Ok(outcome),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_where_nobody_watches_is_a_fault_unless_it_is_named() {
        let left = || {
            Outcome::LeftOut(Left {
                what: ADVISORIES,
                why: "no tool".into(),
            })
        };
        let none = BTreeSet::new();
        assert_eq!(judged(left(), true, &none), left());
        let Outcome::Faults(faults) = judged(left(), false, &none) else {
            panic!("passes in CI");
        };
        assert!(
            faults[0].contains("no tool") && faults[1].contains("OLM_MAY_BE_LEFT_OUT=advisories"),
            "{faults:?}"
        );
        assert_eq!(
            judged(left(), false, &named("yanked, advisories").unwrap()),
            left()
        );
        assert!(matches!(
            judged(left(), false, &named("yanked").unwrap()),
            Outcome::Faults(_)
        ));
        let faults = || Outcome::Faults(vec!["x".into()]);
        assert_eq!(judged(faults(), false, &named("advisories").unwrap()), faults());
        let error = named("licences").unwrap_err().to_string();
        assert!(
            error.contains("\"licences\"") && error.contains("yanked and advisories"),
            "{error}"
        );
        assert_eq!(named(" ,").unwrap(), none);
    }

    #[test]
    fn a_release_asks_what_comes_from_others() {
        let names: Vec<&str> = SUPPLY.iter().map(|check| check.name).collect();
        assert_eq!(
            names,
            [
                "licences are allowed",
                "packages come from the registry, with checksums",
                "no package was taken back by its authors",
                "advisories, by cargo-deny",
            ]
        );
    }
}
