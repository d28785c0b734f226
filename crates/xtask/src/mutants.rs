//! `cargo xtask mutants`: whether the tests notice when a rule is taken away.
//!
//! `tests/mutations.yaml` of a crate says, rule by rule, which clause to remove. Each is tried on a copy of the workspace
//! under `target/`, so that nobody who builds meanwhile meets it.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, bail};
use serde::Deserialize;

use crate::workspace;

/// A crate with a list of mutations, and the tests that must notice them.
struct Suite {
    package: &'static str,
    tests: &'static [&'static str],
    /// Left to `--long`: each mutation compiles a whole operator or runs minutes of tests.
    is_long: bool,
}

const SUITES: [Suite; 7] = [
    Suite {
        package: "olm-resolver",
        tests: &["--test", "scenarios", "scenarios_come_out_as_written"],
        is_long: false,
    },
    Suite {
        package: "olm-fbc",
        tests: &["--no-fail-fast", "--lib", "--test", "checklist"],
        is_long: false,
    },
    Suite {
        package: "olm-registry",
        tests: &["--no-fail-fast", "--test", "serve", "--test", "bounds"],
        is_long: false,
    },
    Suite {
        package: "olm-operator",
        tests: &["--lib"],
        is_long: true,
    },
    Suite {
        package: "catalog-operator",
        tests: &["--lib"],
        is_long: true,
    },
    Suite {
        package: "olm-runtime",
        tests: &["--lib"],
        is_long: true,
    },
    Suite {
        package: "olm-oci",
        tests: &["--no-fail-fast", "--tests"],
        is_long: true,
    },
];

/// A clause to take away.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mutation {
    /// The rule it belongs to.
    rule: String,
    /// Beginning of the name of the test that must fail; any test will do if there is none.
    #[serde(default)]
    test: String,
    /// File below the crate's `src`.
    file: String,
    /// The clause as it stands there.
    from: String,
    /// What stands there without the rule.
    to: String,
}

/// What the tests said.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Noticed,
    /// Tests failed, but not the one that should.
    ByOthersOnly,
    Unnoticed,
    DoesNotCompile,
    NotFound,
}

/// How many mutations were tried and how many nobody noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Score {
    known: usize,
    tried: usize,
    failed: usize,
}

impl Score {
    /// Whether all that were tried were noticed.
    pub fn is_good(self) -> bool {
        self.failed == 0
    }
}

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { known, tried, failed } = self;
        write!(f, "mutations: {tried} of {known} tried, {failed} not noticed")
    }
}

/// Tries every mutation, or those whose rule, test or crate contains `only`.
///
/// # Errors
/// The workspace cannot be copied or cargo not be run.
pub fn run(only: Option<&str>) -> anyhow::Result<ExitCode> {
    let score = every(1, only)?;
    println!("{score}");
    Ok(if score.is_good() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Tries one in `share` of the mutations of each crate, always the same, of those whose rule, test or crate contains `only`.
///
/// # Errors
/// The workspace cannot be copied or cargo not be run.
pub fn every(share: usize, only: Option<&str>) -> anyhow::Result<Score> {
    let root = workspace::root();
    let copy = root.join("target/mutants/workspace");
    copy_workspace(&root, &copy)?;
    let mut score = Score {
        known: 0,
        tried: 0,
        failed: 0,
    };
    for suite in &SUITES {
        if suite.is_long && share > 1 {
            println!(
                "{:<17} {}: its mutations are tried by `--long`",
                "LEFT OUT", suite.package
            );
            continue;
        }
        let list = format!("crates/{}/tests/mutations.yaml", suite.package);
        let text = fs::read_to_string(root.join(&list)).with_context(|| format!("read {list}"))?;
        let mutations: Vec<Mutation> =
            serde_saphyr::from_str(&text).with_context(|| format!("read {list}"))?;
        let wanted = |mutation: &&Mutation| {
            only.is_none_or(|only| {
                [mutation.rule.as_str(), &mutation.test, suite.package]
                    .iter()
                    .any(|text| text.contains(only))
            })
        };
        let wanted: Vec<&Mutation> = mutations.iter().filter(wanted).collect();
        score.known += wanted.len();
        for mutation in wanted.into_iter().step_by(share) {
            let outcome = attempt(&copy, suite, mutation)?;
            let word = match outcome {
                Outcome::Noticed => "noticed",
                Outcome::ByOthersOnly => "BY OTHERS ONLY",
                Outcome::Unnoticed => "UNNOTICED",
                Outcome::DoesNotCompile => "DOES NOT COMPILE",
                Outcome::NotFound => "NOT FOUND",
            };
            score.tried += 1;
            score.failed += usize::from(outcome != Outcome::Noticed);
            println!("{word:<17} {}", mutation.rule);
        }
    }
    Ok(score)
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

fn attempt(copy: &Path, suite: &Suite, mutation: &Mutation) -> anyhow::Result<Outcome> {
    let file: PathBuf = copy
        .join("crates")
        .join(suite.package)
        .join("src")
        .join(&mutation.file);
    let Ok(original) = fs::read_to_string(&file) else {
        return Ok(Outcome::NotFound);
    };
    if !original.contains(&mutation.from) {
        return Ok(Outcome::NotFound);
    }
    let write = |text: &str| fs::write(&file, text).with_context(|| format!("write {}", file.display()));
    write(&original.replacen(&mutation.from, &mutation.to, 1))?;
    let test = workspace::cargo()
        .current_dir(copy)
        // Packages of the copy have the names of ours: in a shared build folder each would be taken for the other.
        .env("CARGO_TARGET_DIR", copy.with_file_name("build"))
        .args(["test", "--quiet", "--package", suite.package])
        .args(suite.tests)
        .output();
    write(&original)?;
    let test = test.context("run cargo test")?;
    if test.status.success() {
        return Ok(Outcome::Unnoticed);
    }
    if String::from_utf8_lossy(&test.stderr).contains("could not compile") {
        return Ok(Outcome::DoesNotCompile);
    }
    // Failed tests are listed by name, indented, with the modules they are in.
    let failed = String::from_utf8_lossy(&test.stdout)
        .lines()
        .filter_map(|line| line.strip_prefix("    ")?.rsplit("::").next().map(str::to_owned))
        .any(|name| name.starts_with(&mutation.test));
    Ok(if failed || mutation.test.is_empty() {
        Outcome::Noticed
    } else {
        Outcome::ByOthersOnly
    })
}
