//! The lists of mutations: `tests/mutations.yaml` of the crates.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

/// A clause to take away.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mutation {
    /// The rule it belongs to.
    pub rule: String,
    /// Beginning of the name of the test that must fail; any test will do if there is none.
    #[serde(default)]
    pub test: String,
    /// File below the crate's `src`.
    pub file: String,
    /// Text before the clause, where the clause stands more than once: the first one after it is meant.
    #[serde(default)]
    pub after: String,
    /// The clause as it stands there.
    pub from: String,
    /// What stands there without the rule.
    pub to: String,
    /// It is nothing that a switch can stand for, so it is compiled for itself.
    #[serde(default)]
    pub alone: bool,
    /// No test is known to notice yet; it is tried only when it is asked for.
    #[serde(default)]
    pub open: bool,
}

impl Mutation {
    /// Where the clause stands in `text`.
    ///
    /// # Errors
    /// For people: it is not there, or it cannot be told which one is meant.
    pub(super) fn place(&self, text: &str) -> Result<Range<usize>, &'static str> {
        let start = if self.after.is_empty() {
            0
        } else {
            text.find(&self.after)
                .ok_or("what it stands after is not there")?
        };
        let rest = &text[start..];
        let found = rest.find(&self.from).ok_or("the clause is not there")?;
        if self.after.is_empty() && rest[found + 1..].contains(&self.from) {
            return Err("the clause stands there more than once, and `after` does not say which is meant");
        }
        let begin = start + found;
        Ok(begin..begin + self.from.len())
    }

    /// Whether it is of the one in `share` that is tried. What it takes away decides that, not its place in the list: a new one
    /// leaves the choice among the others as it was.
    pub(super) fn is_in_share(&self, share: usize) -> bool {
        let mut hash = Sha256::new();
        for part in [&self.file, &self.after, &self.from, &self.to] {
            hash.update(part);
            hash.update([0]);
        }
        let number = hash
            .finalize()
            .iter()
            .take(size_of::<u64>())
            .fold(0, |number: u64, byte| number << 8 | u64::from(*byte));
        u64::try_from(share).is_ok_and(|share| share < 2 || number % share == 0)
    }

    /// Its file in the workspace at `root`.
    pub(super) fn path(&self, root: &Path, package: &str) -> PathBuf {
        root.join("crates").join(package).join("src").join(&self.file)
    }
}

/// The list of a crate.
///
/// # Errors
/// It cannot be read.
pub(super) fn read(root: &Path, package: &str) -> anyhow::Result<Vec<Mutation>> {
    let list = format!("crates/{package}/tests/mutations.yaml");
    let text = fs::read_to_string(root.join(&list)).with_context(|| format!("read {list}"))?;
    serde_saphyr::from_str(&text).with_context(|| format!("read {list}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutants::SUITES;
    use crate::workspace;

    fn mutation(after: &str, from: &str) -> Mutation {
        Mutation {
            after: after.to_owned(),
            from: from.to_owned(),
            ..Mutation::default()
        }
    }

    #[test]
    fn a_clause_is_found_where_it_is_meant() {
        let text = "fn a() { x(); }\nfn b() { x(); y(); }\n";
        assert_eq!(mutation("", "y();").place(text).unwrap(), 30..34);
        assert_eq!(mutation("fn b()", "x();").place(text).unwrap(), 25..29);
        assert!(mutation("", "x();").place(text).is_err());
        assert!(mutation("", "z();").place(text).is_err());
        assert!(mutation("fn c()", "x();").place(text).is_err());
    }

    #[test]
    fn a_share_is_the_same_each_time_and_about_as_large_as_it_says() {
        let all: Vec<Mutation> = (0..1000)
            .map(|number| mutation("", &format!("clause {number}")))
            .collect();
        let of = |share: usize| all.iter().filter(|mutation| mutation.is_in_share(share)).count();
        assert_eq!(of(1), 1000);
        assert!((150..250).contains(&of(5)), "{}", of(5));
        let first: Vec<usize> = (0..1000)
            .filter(|place| all[*place].is_in_share(5))
            .take(4)
            .collect();
        assert_eq!(first, [0, 1, 4, 6]);
        let told_apart = Mutation {
            rule: "another name of the rule".to_owned(),
            ..mutation("", "clause 0")
        };
        assert_eq!(told_apart.is_in_share(5), all[0].is_in_share(5));
    }

    /// All texts of a crate's sources and tests.
    fn sources(folder: &Path, into: &mut String) {
        let Ok(entries) = fs::read_dir(folder) else { return };
        for entry in entries.flatten() {
            let path = entry.path();
            if path.is_dir() {
                sources(&path, into);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                into.push_str(&fs::read_to_string(&path).unwrap());
            }
        }
    }

    /// Lists that nobody runs for a while must not rot.
    #[test]
    fn every_clause_and_every_named_test_is_there() {
        let root = workspace::root();
        let mut wrong = Vec::new();
        for suite in &SUITES {
            let mut all = String::new();
            for folder in ["src", "tests"] {
                sources(&root.join("crates").join(suite.package).join(folder), &mut all);
            }
            for mutation in read(&root, suite.package).unwrap() {
                let mut tell =
                    |what: &str| wrong.push(format!("{}, {}: {what}", suite.package, mutation.rule));
                match fs::read_to_string(mutation.path(&root, suite.package)) {
                    Err(_) => tell("there is no such file"),
                    Ok(text) => drop(mutation.place(&text).map_err(&mut tell)),
                }
                if mutation.from == mutation.to {
                    tell("it changes nothing");
                }
                if !mutation.test.is_empty() && !all.contains(&format!("fn {}", mutation.test)) {
                    tell("no test is called so");
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
