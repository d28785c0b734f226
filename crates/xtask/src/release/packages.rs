//! The sources of packages, from the archives that `Cargo.lock` names by their sums.
//!
//! Cargo looks at an archive's sum when it downloads it and never again, and compiles what was unpacked once, whoever changed that since. A
//! release takes the archives, holds each against `Cargo.lock`, and unpacks them for itself; where they came from does not matter then.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, bail};
use flate2::read::GzDecoder;
use serde_json::json;

use super::archive::sha256;
use super::supply::{self, Locked};
use crate::progress::Progress;
use crate::workspace;

/// Largest archive of a package in bytes (crates.io takes 10 MiB if nobody asks for more), and what it may be when unpacked.
const MAX_ARCHIVE: u64 = 64 << 20;
const MAX_UNPACKED: u64 = 1 << 30;
/// How many missing packages are named.
const NAMED: usize = 5;

/// What became of the archive of a package.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    /// It is what `Cargo.lock` says.
    Whole(Vec<u8>),
    /// The only ones that are there are others.
    Changed(PathBuf),
    Missing,
}

/// Has cargo download the archives that are not there yet. It does so as its user set it up, mirrors included: what they send is held against
/// `Cargo.lock` by [`unpack`].
///
/// # Errors
/// When `Cargo.lock` cannot be read, or cargo's own words.
pub(super) fn fetch(lock: &str, progress: &Progress) -> anyhow::Result<()> {
    let caches = caches()?;
    let is_missing = |package: &Locked| matches!(find(&caches, package), Ok(Found::Missing));
    if !supply::packages(lock)?
        .iter()
        .any(|package| package.source.is_some() && is_missing(package))
    {
        return Ok(());
    }
    progress.stage("packages fetched", || {
        let output = workspace::cargo()
            .args(["fetch", "--locked"])
            .stdin(Stdio::null())
            .output()
            .context("cannot run cargo fetch")?;
        let told = String::from_utf8_lossy(&output.stderr);
        anyhow::ensure!(output.status.success(), "cargo fetch: {}", told.trim());
        Ok(())
    })
}

/// Where cargo keeps archives of packages on this machine, one folder for each registry.
///
/// # Errors
/// When there is neither CARGO_HOME nor HOME.
pub(super) fn caches() -> anyhow::Result<Vec<PathBuf>> {
    let folder = workspace::cargo_home()?.join("registry/cache");
    let mut found: Vec<PathBuf> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    found.sort();
    Ok(found)
}

/// Unpacks all packages of `lock`, the text of a `Cargo.lock`, below the new folder `into`, in the form of `cargo vendor`.
///
/// # Errors
/// When a package comes from elsewhere than crates.io, has no archive in `caches`, or one with another sum.
pub(super) fn unpack(lock: &str, caches: &[PathBuf], into: &Path) -> anyhow::Result<()> {
    let packages = supply::packages(lock)?;
    let strangers = supply::strangers(&packages);
    if !strangers.is_empty() {
        bail!(
            "what cannot be held against Cargo.lock is not released: {}",
            strangers.join("; ")
        );
    }
    fs::create_dir_all(into).with_context(|| format!("cannot make {}", into.display()))?;
    let mut missing = Vec::new();
    for package in packages.iter().filter(|package| package.source.is_some()) {
        crate::interrupt::check()?;
        let Locked { name, version, .. } = package;
        match find(caches, package)? {
            Found::Whole(archive) => {
                let checksum = package.checksum.as_deref().unwrap_or_default();
                unpack_one(&archive, &format!("{name}-{version}"), checksum, into)
                    .with_context(|| format!("the archive of {name} {version}"))?;
            }
            Found::Changed(file) => bail!(
                "{} is not the archive of {name} {version} that Cargo.lock names by its SHA-256; remove the file, and `cargo fetch` has it again",
                file.display()
            ),
            Found::Missing => missing.push(format!("{name} {version}")),
        }
    }
    if !missing.is_empty() {
        bail!(
            "cargo has no archive of {} packages on this machine: {}; `cargo fetch --locked` downloads them",
            missing.len(),
            missing.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ")
        );
    }
    Ok(())
}

/// What cargo is told of packages in a home of its own: crates.io is that folder, and there is no network.
pub(super) fn settings(packages: &Path) -> anyhow::Result<String> {
    // A text of JSON is one of TOML, too.
    let folder = serde_json::to_string(packages.to_str().context("the folder of packages is no text")?)?;
    Ok(format!(
        "[source.crates-io]\nreplace-with = \"unpacked\"\n\n[source.unpacked]\ndirectory = {folder}\n\n[net]\noffline = true\n"
    ))
}

fn find(caches: &[PathBuf], package: &Locked) -> anyhow::Result<Found> {
    let mut found = Found::Missing;
    for cache in caches {
        let file = cache.join(format!("{}-{}.crate", package.name, package.version));
        let archive = match fs::File::open(&file) {
            Ok(archive) => archive,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", file.display())),
        };
        let mut content = Vec::new();
        archive
            .take(MAX_ARCHIVE)
            .read_to_end(&mut content)
            .with_context(|| format!("cannot read {}", file.display()))?;
        if package.checksum.as_ref() == Some(&sha256(&content)) {
            return Ok(Found::Whole(content));
        }
        found = Found::Changed(file);
    }
    Ok(found)
}

/// Unpacks an archive, all of which lies in the folder `stem`.
fn unpack_one(archive: &[u8], stem: &str, checksum: &str, into: &Path) -> anyhow::Result<()> {
    let mut archive = tar::Archive::new(GzDecoder::new(archive).take(MAX_UNPACKED));
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        if !path.starts_with(stem) || !entry.unpack_in(into)? {
            bail!("{} does not lie in {stem}", path.display());
        }
    }
    let sums = json!({ "files": {}, "package": checksum });
    let file = into.join(stem).join(".cargo-checksum.json");
    fs::write(&file, sums.to_string()).with_context(|| format!("cannot write {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oci_layout::gzip;

    /// An archive of files, packed.
    fn archive(files: &[(&str, &str)]) -> Vec<u8> {
        let mut tar = tar::Builder::new(Vec::new());
        for (path, text) in files {
            let mut header = tar::Header::new_ustar();
            header.set_size(text.len() as u64);
            header.set_mode(0o644);
            // Set as it is: the library refuses what leads outside.
            header.as_mut_bytes()[..path.len()].copy_from_slice(path.as_bytes());
            header.set_cksum();
            tar.append(&header, text.as_bytes()).unwrap();
        }
        gzip(&tar.into_inner().unwrap(), false).unwrap()
    }

    fn lock(source: &str, checksum: &str) -> String {
        format!(
            "[[package]]\nname = \"ours\"\nversion = \"0.1.0\"\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nsource = \"{source}\"\nchecksum = \"{checksum}\"\n"
        )
    }

    const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

    /// A folder with two caches, the second of which has `a`; and what unpacking it gives.
    fn unpacked(content: &[u8], lock: &str) -> (tempfile::TempDir, Result<(), String>) {
        let folder = tempfile::tempdir().unwrap();
        let caches = ["one", "two"].map(|name| folder.path().join(name));
        for cache in &caches {
            fs::create_dir(cache).unwrap();
        }
        fs::write(caches[1].join("a-1.0.0.crate"), content).unwrap();
        let done = unpack(lock, &caches, &folder.path().join("into")).map_err(|error| format!("{error:#}"));
        (folder, done)
    }

    #[test]
    fn packages_are_what_cargo_lock_says_and_not_what_lies_in_cargos_home() {
        let good = archive(&[
            ("a-1.0.0/Cargo.toml", "[package]"),
            ("a-1.0.0/src/lib.rs", "code"),
        ]);
        let lock = lock(REGISTRY, &sha256(&good));
        let (folder, done) = unpacked(&good, &lock);
        assert_eq!(done, Ok(()));
        let of = |name: &str| fs::read_to_string(folder.path().join("into/a-1.0.0").join(name)).unwrap();
        assert_eq!(of("src/lib.rs"), "code");
        assert_eq!(
            of(".cargo-checksum.json"),
            format!(r#"{{"files":{{}},"package":"{}"}}"#, sha256(&good))
        );
        let edited = archive(&[
            ("a-1.0.0/Cargo.toml", "[package]"),
            ("a-1.0.0/src/lib.rs", "edit"),
        ]);
        let (folder, done) = unpacked(&edited, &lock);
        let error = done.unwrap_err();
        assert!(
            error.contains("two/a-1.0.0.crate is not the archive of a 1.0.0")
                && error.contains("cargo fetch"),
            "{error}"
        );
        assert!(!folder.path().join("into/a-1.0.0").exists());
        // Another registry has it whole.
        fs::write(folder.path().join("one/a-1.0.0.crate"), &good).unwrap();
        let caches = ["two", "one"].map(|name| folder.path().join(name));
        unpack(&lock, &caches, &folder.path().join("into")).unwrap();
        let error = unpack(&lock, &[], &folder.path().join("into"))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("no archive of 1 packages") && error.contains(": a 1.0.0;"),
            "{error}"
        );
    }

    #[test]
    fn a_package_that_is_not_of_crates_io_is_not_released() {
        let good = archive(&[("a-1.0.0/Cargo.toml", "[package]")]);
        for source in ["git+https://example.com/a", "registry+https://example.com/index"] {
            let error = unpacked(&good, &lock(source, &sha256(&good))).1.unwrap_err();
            assert!(error.contains(&format!("a 1.0.0 comes from {source}")), "{error}");
        }
    }

    #[test]
    fn an_archive_stays_in_its_folder() {
        for path in ["b-1.0.0/Cargo.toml", "a-1.0.0/../../x", "/etc/x", "a-1.0.01/x"] {
            let bad = archive(&[(path, "x")]);
            let (folder, done) = unpacked(&bad, &lock(REGISTRY, &sha256(&bad)));
            assert!(done.unwrap_err().contains("does not lie in a-1.0.0"), "{path}");
            assert!(!folder.path().join("x").exists());
        }
    }

    #[test]
    fn cargo_is_told_of_no_other_source() {
        let settings: toml::Table = toml::from_str(&settings(Path::new("/srv/a \"b\"")).unwrap()).unwrap();
        assert_eq!(
            settings["source"]["crates-io"]["replace-with"].as_str(),
            Some("unpacked")
        );
        assert_eq!(
            settings["source"]["unpacked"]["directory"].as_str(),
            Some("/srv/a \"b\"")
        );
        assert_eq!(settings["net"]["offline"].as_bool(), Some(true));
    }
}
