//! `cargo xtask mutants`: whether the tests notice when a rule is taken away.
//!
//! `tests/mutations.yaml` of a crate says, rule by rule, which clause to remove. All are made in a copy of the workspace under
//! `target/`, so that nobody who builds meanwhile meets them. Most become switches in one program of tests (see [`switches`]),
//! so that trying one costs a run of the test that should notice it; the others are compiled one by one.

mod list;
mod switches;
mod workshop;

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::bail;

use self::list::Mutation;
use self::workshop::{Compiled, Number, Ran, Switches, Workshop};
use crate::binaries::TestBinary;
use crate::workspace;

/// A crate with a list of mutations, and the tests that must notice them.
#[derive(Debug)]
struct Suite {
    package: &'static str,
    /// Names of files in `tests`, or `lib`, or the package's own name for its program.
    targets: &'static [&'static str],
    /// Part of the names of the tests that count; all do if it is empty.
    filter: &'static str,
    /// Parts of the names of tests that take seconds, which are asked last.
    slow: &'static [&'static str],
}

const SUITES: [Suite; 11] = [
    Suite {
        package: "olm-resolver",
        targets: &["lib", "plans", "scenarios"],
        filter: "scenarios_come_out_as_written",
        slow: &[],
    },
    Suite {
        package: "olm-fbc",
        targets: &["lib", "checklist"],
        filter: "",
        slow: &[],
    },
    Suite {
        package: "olm-authoring",
        targets: &["lib"],
        filter: "config_map::",
        slow: &[],
    },
    Suite {
        package: "olm-registry",
        targets: &["lib", "serve", "bounds"],
        filter: "",
        slow: &[],
    },
    Suite {
        package: "olm-operator",
        targets: &["lib"],
        filter: "",
        slow: &[
            "tests::properties::",
            "the_published_upgrades",
            "a_description_too_large",
        ],
    },
    Suite {
        package: "catalog-operator",
        targets: &["lib"],
        filter: "",
        slow: &[],
    },
    Suite {
        package: "olm-runtime",
        targets: &["lib"],
        filter: "",
        slow: &[],
    },
    Suite {
        package: "package-server",
        targets: &["lib"],
        filter: "",
        slow: &["every_package_of_real_operators"],
    },
    Suite {
        package: "olm-oci",
        targets: &["lib", "bounds", "faults", "registry"],
        filter: "",
        slow: &[],
    },
    Suite {
        package: "kubectl-operator",
        targets: &["kubectl-operator"],
        filter: "",
        slow: &[],
    },
    Suite {
        package: "xtask",
        targets: &["lib"],
        filter: "release::",
        slow: &["a_release_is_whole"],
    },
];

/// What the tests said.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// By this test; none in particular when they came to no end.
    Noticed(String),
    /// A test failed, but not the one that should.
    ByOthersOnly(String),
    /// The one that should does not; no other was asked.
    NotByItsTest,
    Unnoticed,
    DoesNotCompile(String),
    NotFound,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Noticed(_) => "noticed",
            Self::ByOthersOnly(_) => "BY OTHERS ONLY",
            Self::NotByItsTest => "NOT BY ITS TEST",
            Self::Unnoticed => "UNNOTICED",
            Self::DoesNotCompile(_) => "DOES NOT COMPILE",
            Self::NotFound => "NOT FOUND",
        })
    }
}

/// How many mutations were tried and which nobody noticed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Score {
    known: usize,
    tried: usize,
    /// A line for each that was not noticed as it should be, told again at the end, where a long log is cut last.
    failed: Vec<String>,
    /// Those of which the lists say that no test is known to notice.
    open: usize,
}

impl Score {
    /// Whether all that were tried were noticed.
    pub(crate) fn is_good(&self) -> bool {
        self.failed.is_empty()
    }
}

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            known,
            tried,
            failed,
            open,
        } = self;
        for line in failed {
            writeln!(f, "{line}")?;
        }
        write!(
            f,
            "mutations: {tried} of {known} tried, {} not noticed; {open} more have no test that is known to notice",
            failed.len()
        )
    }
}

/// Tries one in `share` of the mutations of each crate, always the same, of those whose rule, test or crate contains `only`.
/// Those that are compiled for themselves are tried only if all are, and it need not be `quick`.
///
/// # Errors
/// The workspace cannot be copied, cargo not be run, or the tests fail without any mutation.
pub(crate) fn run(share: usize, quick: bool, only: Option<&str>) -> anyhow::Result<ExitCode> {
    let score = every(share.max(1), quick, only)?;
    println!("{score}");
    Ok(if score.is_good() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn every(share: usize, quick: bool, only: Option<&str>) -> anyhow::Result<Score> {
    let root = workspace::root();
    let lists: Vec<Vec<Mutation>> = SUITES
        .iter()
        .map(|suite| list::read(&root, suite.package))
        .collect::<Result<_, _>>()?;
    let without_alone = quick || share > 1;
    let _alone = workshop::lock(&root)?;
    let began = Instant::now();
    let (workshop, switches, binaries) = prepare(&root, &lists)?;
    println!("compiled in {} s", began.elapsed().as_secs());
    let mut score = Score::default();
    for (place, (suite, mutations)) in SUITES.iter().zip(&lists).enumerate() {
        let wanted = |(_, mutation): &(usize, &Mutation)| {
            only.is_none_or(|only| {
                [mutation.rule.as_str(), &mutation.test, suite.package]
                    .iter()
                    .any(|text| text.contains(only))
            })
        };
        let wanted: Vec<(usize, &Mutation)> = mutations.iter().enumerate().filter(wanted).collect();
        let (open, wanted): (Vec<_>, Vec<_>) = wanted
            .into_iter()
            .partition(|(_, mutation)| mutation.open && (quick || only.is_none()));
        score.open += open.len();
        score.known += wanted.len();
        if wanted.is_empty() {
            continue;
        }
        let (alone, switched): (Vec<_>, Vec<_>) = wanted
            .into_iter()
            .partition(|(number, _)| switches.alone.contains(&(place, *number)));
        let began = Instant::now();
        let switched: Vec<(usize, &Mutation)> = switched
            .into_iter()
            .filter(|(_, mutation)| mutation.is_in_share(share))
            .collect();
        let mut tests: Vec<&str> = switched
            .iter()
            .map(|(_, mutation)| mutation.test.as_str())
            .collect();
        if share == 1 || tests.contains(&"") {
            tests.clear();
        }
        let mut trial = Trial::of(suite, binaries.clone(), &tests)?;
        trial.others = !quick;
        for (number, mutation) in switched {
            crate::interrupt::check()?;
            let outcome = trial.judge(Some(&switches::id(suite.package, number)), mutation)?;
            score.note(suite, mutation, &outcome);
        }
        if without_alone && !alone.is_empty() {
            println!(
                "{:<17} {}: {} that are compiled one by one; `cargo xtask mutants` tries them",
                "LEFT OUT",
                suite.package,
                alone.len()
            );
        }
        for (_, mutation) in alone.into_iter().filter(|_| !without_alone) {
            crate::interrupt::check()?;
            let outcome = try_alone(&workshop, &root, suite, mutation, &mut trial)?;
            score.note(suite, mutation, &outcome);
        }
        println!("{:<17} {}: {} s", "", suite.package, began.elapsed().as_secs());
    }
    Ok(score)
}

impl Score {
    fn note(&mut self, suite: &Suite, mutation: &Mutation, outcome: &Outcome) {
        self.tried += 1;
        let line = format!("{outcome:<17} {}: {}", suite.package, mutation.rule);
        println!("{line}");
        if !matches!(outcome, Outcome::Noticed(_)) {
            self.failed.push(line);
        }
        match outcome {
            Outcome::Noticed(by) | Outcome::ByOthersOnly(by)
                if mutation.test.is_empty() || !matches!(outcome, Outcome::Noticed(_)) =>
            {
                println!("{:<17} by {by}", "");
            }
            Outcome::DoesNotCompile(words) => println!("{words}"),
            _ => {}
        }
    }
}

/// Compiles all mutations that can be as switches. Those of which the compiler complains are left out, and it is asked again.
fn prepare(root: &Path, lists: &[Vec<Mutation>]) -> anyhow::Result<(Workshop, Switches, Vec<TestBinary>)> {
    let mut alone = BTreeSet::<Number>::new();
    loop {
        let mut switches = Switches::without(alone.clone());
        for (place, mutations) in lists.iter().enumerate() {
            switches.add(root, place, mutations);
        }
        let workshop = Workshop::open(root, &switches)?;
        match workshop.compile()? {
            Compiled::Well(binaries) => return Ok((workshop, switches, binaries)),
            Compiled::Badly(places, words) => {
                let wrong = switches.wrong(&places);
                if wrong.is_empty() {
                    bail!("the tests do not compile:\n{words}");
                }
                for (place, number) in &wrong {
                    println!(
                        "no switch: {}: {} (say `alone: true`)",
                        SUITES[*place].package, lists[*place][*number].rule
                    );
                }
                alone.extend(wrong);
            }
        }
    }
}

/// Tests of a suite that are run with one mutation or another.
#[derive(Debug)]
struct Trial<'a> {
    suite: &'a Suite,
    binaries: Vec<TestBinary>,
    limit: Duration,
    /// Whether others are asked when the test that should does not notice.
    others: bool,
}

impl<'a> Trial<'a> {
    /// Runs them without any first, or those of `tests` alone if it names some: what fails then proves nothing.
    fn of(suite: &'a Suite, binaries: Vec<TestBinary>, tests: &[&str]) -> anyhow::Result<Self> {
        let mut trial = Self {
            suite,
            binaries,
            limit: Duration::from_secs(1200),
            others: true,
        };
        let began = Instant::now();
        match trial.run(None, tests)? {
            Ran::Well => {}
            Ran::Badly(failed) => bail!("tests of {} fail without a mutation: {}", suite.package, failed),
            Ran::Endlessly => bail!("tests of {} come to no end without a mutation", suite.package),
        }
        trial.limit = began.elapsed() * 5 + Duration::from_secs(60);
        Ok(trial)
    }

    /// Runs those whose names contain one of `filters`, or all if there is none, the slow ones last.
    fn run(&self, on: Option<&str>, filters: &[&str]) -> anyhow::Result<Ran> {
        let run = |arguments: &[&str]| workshop::run(self.suite, &self.binaries, on, arguments, self.limit);
        if !filters.is_empty() {
            return run(filters);
        }
        let (filter, slow) = match self.suite.filter {
            "" => (None, self.suite.slow),
            filter => (Some(filter), &[][..]),
        };
        let skipped = slow.iter().flat_map(|name| ["--skip", *name]);
        let quick: Vec<&str> = filter.into_iter().chain(skipped).collect();
        match run(&quick)? {
            Ran::Well if !slow.is_empty() => run(slow),
            answer => Ok(answer),
        }
    }

    /// Whether they notice: first the test that should, then all.
    fn judge(&self, on: Option<&str>, mutation: &Mutation) -> anyhow::Result<Outcome> {
        const NO_END: &str = "tests that come to no end";
        if !mutation.test.is_empty() {
            match self.run(on, &[&mutation.test])? {
                Ran::Badly(failed) if failed.starts_with(&mutation.test) => {
                    return Ok(Outcome::Noticed(failed));
                }
                Ran::Endlessly => return Ok(Outcome::Noticed(NO_END.to_owned())),
                _ if !self.others => return Ok(Outcome::NotByItsTest),
                _ => {}
            }
        }
        let by = match self.run(on, &[])? {
            Ran::Well => return Ok(Outcome::Unnoticed),
            Ran::Badly(failed) => failed,
            Ran::Endlessly => NO_END.to_owned(),
        };
        Ok(if mutation.test.is_empty() {
            Outcome::Noticed(by)
        } else {
            Outcome::ByOthersOnly(by)
        })
    }
}

/// Compiles a mutation for itself and tries it.
fn try_alone(
    workshop: &Workshop,
    root: &Path,
    suite: &Suite,
    mutation: &Mutation,
    trial: &mut Trial<'_>,
) -> anyhow::Result<Outcome> {
    let Some(put_back) = workshop.take_away(root, suite.package, mutation)? else {
        return Ok(Outcome::NotFound);
    };
    let compiled = workshop.compile();
    put_back()?;
    match compiled? {
        Compiled::Badly(_, words) => Ok(Outcome::DoesNotCompile(words)),
        Compiled::Well(binaries) => {
            trial.binaries = binaries;
            trial.judge(None, mutation)
        }
    }
}
