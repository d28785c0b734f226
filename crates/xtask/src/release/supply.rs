//! What comes from others: under which licences, from where, and whether its authors took it back. Asks no server and no tool.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Deserialize;
use spdx::{Expression, ParseMode};

use crate::workspace;

/// What is allowed; cargo-deny reads it, too.
const RULES: &str = "deny.toml";
/// What is built in where we build; what other systems need is neither fetched nor looked at.
const TARGETS: [&str; 2] = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"];
/// The only registry.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// A package that is built in somewhere.
#[derive(Debug, Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
}

/// A package of `Cargo.lock`.
#[derive(Debug, Deserialize)]
pub(super) struct Locked {
    pub(super) name: String,
    pub(super) version: String,
    /// None where it is of this workspace.
    pub(super) source: Option<String>,
    /// SHA-256 of its archive.
    pub(super) checksum: Option<String>,
}

/// Packages under licences that are not allowed, and licences that are allowed without a reason or without need.
///
/// # Errors
/// When cargo cannot tell, or the rules cannot be read.
pub(crate) fn licences() -> anyhow::Result<Vec<String>> {
    #[derive(Deserialize)]
    struct Metadata {
        packages: Vec<Package>,
    }
    let output = workspace::cargo()
        .args(["metadata", "--format-version", "1", "--locked"])
        .args(TARGETS.iter().flat_map(|target| ["--filter-platform", target]))
        .output()
        .context("cannot run cargo metadata")?;
    let told = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "cargo metadata: {}", told.trim());
    let metadata: Metadata =
        serde_json::from_slice(&output.stdout).context("cargo metadata did not print JSON")?;
    let rules = fs::read_to_string(workspace::root().join(RULES)).with_context(|| format!("read {RULES}"))?;
    against_rules(&rules, &metadata.packages)
}

fn against_rules(rules: &str, packages: &[Package]) -> anyhow::Result<Vec<String>> {
    #[derive(Deserialize)]
    struct Rules {
        licenses: Licences,
    }
    #[derive(Deserialize)]
    struct Licences {
        allow: Vec<String>,
    }
    let allowed: Rules = toml::from_str(rules).with_context(|| format!("read {RULES}"))?;
    let allowed: BTreeSet<String> = allowed.licenses.allow.into_iter().collect();
    let mut faults = Vec::new();
    for licence in &allowed {
        let line = rules
            .lines()
            .find(|line| line.trim_start().starts_with(&format!("{licence:?}")));
        if !line.is_some_and(|line| {
            line.split_once('#')
                .is_some_and(|(_, why)| !why.trim().is_empty())
        }) {
            faults.push(format!("{RULES} allows {licence} without a reason on its line"));
        }
    }
    let mut read = Vec::new();
    for package in packages {
        let Package {
            name,
            version,
            license,
        } = package;
        let Some(text) = license else {
            faults.push(format!("{name} {version} states no licence"));
            continue;
        };
        match Expression::parse_mode(text, ParseMode::LAX) {
            Ok(licence) if fits(&licence, &allowed) => read.push(licence),
            Ok(_) => faults.push(format!(
                "{name} {version} is under {text}, which {RULES} does not allow"
            )),
            Err(_) => faults.push(format!(
                "{name} {version} is under {text:?}, which SPDX does not know"
            )),
        }
    }
    for licence in &allowed {
        let mut others = allowed.clone();
        others.remove(licence);
        if read.iter().all(|expression| fits(expression, &others)) {
            faults.push(format!("no package needs {licence}; take it out of {RULES}"));
        }
    }
    Ok(faults)
}

fn fits(licence: &Expression, allowed: &BTreeSet<String>) -> bool {
    licence.evaluate(|required| allowed.contains(&required.to_string()))
}

/// Packages that do not come from the registry, or whose archive nothing vouches for.
///
/// # Errors
/// When `Cargo.lock` cannot be read.
pub(crate) fn sources() -> anyhow::Result<Vec<String>> {
    Ok(strangers(&locked()?))
}

/// What of a `Cargo.lock` cannot be vouched for.
pub(super) fn strangers(locked: &[Locked]) -> Vec<String> {
    let mut faults = Vec::new();
    for package in locked {
        let Locked { name, version, .. } = package;
        match package.source.as_deref() {
            None => {}
            Some(REGISTRY) if package.checksum.as_ref().is_some_and(|it| it.len() == 64) => {}
            Some(REGISTRY) => faults.push(format!("Cargo.lock has no checksum of {name} {version}")),
            Some(other) => faults.push(format!("{name} {version} comes from {other}, not from crates.io")),
        }
    }
    faults
}

fn locked() -> anyhow::Result<Vec<Locked>> {
    packages(&fs::read_to_string(workspace::root().join("Cargo.lock")).context("read Cargo.lock")?)
}

/// The packages of the text of a `Cargo.lock`.
///
/// # Errors
/// When it is not what cargo writes.
pub(super) fn packages(lock: &str) -> anyhow::Result<Vec<Locked>> {
    #[derive(Deserialize)]
    struct Lock {
        package: Vec<Locked>,
    }
    Ok(toml::from_str::<Lock>(lock)
        .context("Cargo.lock is not what cargo writes")?
        .package)
}

/// What the index of the registry on this machine says of the versions in use.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Yanked {
    /// Versions that their authors took back.
    pub(crate) faults: Vec<String>,
    /// Versions of which it says nothing.
    pub(crate) unknown: Vec<String>,
}

/// Asks cargo's copy of the index, which is as new as cargo's last look at each package.
///
/// # Errors
/// When `Cargo.lock` cannot be read.
pub(crate) fn yanked() -> anyhow::Result<Yanked> {
    let indexes = fs::read_dir(workspace::cargo_home()?.join("registry/index"));
    let caches: Vec<PathBuf> = indexes
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path().join(".cache"))
        .collect();
    Ok(by_index(&caches, &locked()?))
}

fn by_index(caches: &[PathBuf], locked: &[Locked]) -> Yanked {
    let mut found = Yanked::default();
    for Locked { name, version, .. } in locked.iter().filter(|package| package.source.is_some()) {
        let said: Vec<bool> = caches
            .iter()
            .filter_map(|cache| fs::read(cache.join(place(name))).ok())
            .filter_map(|entry| is_yanked(&entry, version))
            .collect();
        if said.contains(&true) {
            found.faults.push(format!(
                "{name} {version} was taken back by its authors; cargo update --package {name}"
            ));
        } else if said.is_empty() {
            found.unknown.push(format!("{name} {version}"));
        }
    }
    found
}

/// Where the index has a package.
fn place(name: &str) -> PathBuf {
    let name = name.to_lowercase();
    let part = |from: usize, to: usize| name.get(from..to).unwrap_or_default();
    let folder = match name.len() {
        1 => Path::new("1").to_owned(),
        2 => Path::new("2").to_owned(),
        3 => Path::new("3").join(part(0, 1)),
        _ => Path::new(part(0, 2)).join(part(2, 4)),
    };
    folder.join(&name)
}

/// What a file of the index says of a version: after a head stand, each ended by a zero, a version and what is known of it as JSON.
fn is_yanked(entry: &[u8], version: &str) -> Option<bool> {
    #[derive(Deserialize)]
    struct Release {
        vers: String,
        #[serde(default)]
        yanked: bool,
    }
    let mut parts = entry.split(|&byte| byte == 0);
    parts.find(|part| part.ends_with(version.as_bytes()) && part.len() == version.len())?;
    let release: Release = serde_json::from_slice(parts.next()?).ok()?;
    (release.vers == version).then_some(release.yanked)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, licence: Option<&str>) -> Package {
        Package {
            name: name.into(),
            version: "1.0.0".into(),
            license: licence.map(Into::into),
        }
    }

    const TWO: &str = "[licenses]\nallow = [\n  \"MIT\", # short\n  \"ISC\", # shorter\n]\n";

    #[test]
    fn what_this_workspace_builds_in_may_be() {
        assert_eq!(licences().unwrap(), [""; 0]);
        assert_eq!(sources().unwrap(), [""; 0]);
        let yanked = yanked().unwrap();
        assert_eq!(yanked.faults, [""; 0]);
        eprintln!("the index says nothing of {} versions", yanked.unknown.len());
    }

    #[test]
    fn only_licences_with_a_reason_are_allowed() {
        let faults = |rules: &str, licences: &[Option<&str>]| {
            let packages: Vec<Package> = licences.iter().map(|licence| package("a", *licence)).collect();
            against_rules(rules, &packages).unwrap()
        };
        let both = [Some("MIT"), Some("ISC AND MIT")];
        assert_eq!(faults(TWO, &both), [""; 0]);
        assert_eq!(
            faults(TWO, &[Some("GPL-3.0-only OR ISC"), Some("MIT/Apache-2.0")]),
            [""; 0]
        );
        let with = |licence| faults(TWO, &[both[0], both[1], licence]);
        assert_eq!(
            with(Some("GPL-3.0-only")),
            ["a 1.0.0 is under GPL-3.0-only, which deny.toml does not allow"]
        );
        assert_eq!(
            with(Some("MIT AND Zlib")),
            ["a 1.0.0 is under MIT AND Zlib, which deny.toml does not allow"]
        );
        assert_eq!(
            with(Some("my own")),
            ["a 1.0.0 is under \"my own\", which SPDX does not know"]
        );
        assert_eq!(with(None), ["a 1.0.0 states no licence"]);
        assert_eq!(
            faults(TWO, &[Some("MIT")]),
            ["no package needs ISC; take it out of deny.toml"]
        );
        let bare = TWO.replace(" # shorter", "");
        assert_eq!(
            faults(&bare, &both),
            ["deny.toml allows ISC without a reason on its line"]
        );
        let empty = TWO.replace("shorter", "");
        assert_eq!(faults(&empty, &both).len(), 1);
    }

    #[test]
    fn everything_comes_from_the_registry_with_a_checksum() {
        let locked = |source: Option<&str>, checksum: Option<&str>| Locked {
            name: "a".into(),
            version: "1.0.0".into(),
            source: source.map(Into::into),
            checksum: checksum.map(Into::into),
        };
        let sum = "0".repeat(64);
        assert_eq!(
            strangers(&[locked(None, None), locked(Some(REGISTRY), Some(&sum))]),
            [""; 0]
        );
        assert_eq!(
            strangers(&[
                locked(Some(REGISTRY), None),
                locked(Some(REGISTRY), Some("0")),
                locked(Some("git+https://example.com/a"), Some(&sum)),
            ]),
            [
                "Cargo.lock has no checksum of a 1.0.0",
                "Cargo.lock has no checksum of a 1.0.0",
                "a 1.0.0 comes from git+https://example.com/a, not from crates.io",
            ]
        );
    }

    #[test]
    fn a_version_that_was_taken_back_is_found_in_the_index() {
        let folder = tempfile::tempdir().unwrap();
        let entry = "\u{3}head\0\
            1.0.0\0{\"name\":\"serde\",\"vers\":\"1.0.0\",\"yanked\":false}\0\
            1.0.1\0{\"name\":\"serde\",\"vers\":\"1.0.1\",\"yanked\":true}\0";
        fs::create_dir_all(folder.path().join("se/rd")).unwrap();
        fs::write(folder.path().join("se/rd/serde"), entry).unwrap();
        let of = |name: &str, version: &str| {
            let locked = Locked {
                name: name.into(),
                version: version.into(),
                source: Some(REGISTRY.into()),
                checksum: None,
            };
            by_index(&[folder.path().to_owned(), folder.path().join("none")], &[locked])
        };
        assert_eq!(of("serde", "1.0.0"), Yanked::default());
        assert_eq!(
            of("serde", "1.0.1").faults,
            ["serde 1.0.1 was taken back by its authors; cargo update --package serde"]
        );
        assert_eq!(of("serde", "1.0.2").unknown, ["serde 1.0.2"]);
        assert_eq!(of("other", "1.0.0").unknown, ["other 1.0.0"]);
        assert_eq!(place("a"), Path::new("1/a"));
        assert_eq!(place("ab"), Path::new("2/ab"));
        assert_eq!(place("Abc"), Path::new("3/a/abc"));
        assert_eq!(place("tokio"), Path::new("to/ki/tokio"));
    }
}
