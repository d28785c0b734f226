//! `cargo xtask release`: builds the files of a release reproducibly.
//!
//! # Expected flow
//! The files of the commit are written to a new folder ([`source`]), where the programs are compiled ([`compile`]). Everything
//! else is made from the programs and these files ([`contents`]): archives, images, the chart, manifests, bills of materials,
//! licences, checksums. With `--verify` this is repeated in another folder, and both releases must have the same checksums.

mod archive;
mod compile;
mod contents;
mod installation;
mod krew;
mod notices;
mod packages;
mod sbom;
mod source;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use self::contents::Setting;
pub(crate) use self::source::commit;
use crate::args::ReleaseOptions;
use crate::progress::Progress;
use crate::{cluster, files, images, interrupt, workspace};

/// Programs of a release. Each is the only one in the package of its name.
const PROGRAMS: [&str; 4] = ["cpb", "kubectl-operator", "olm-controllers", "opm"];
/// Prefixes of the folders of the first and the second release. Their lengths differ, so that a path in a program would be
/// detected.
const PLACES: [&str; 2] = ["olm-release-", "olm-release-once-more-"];

/// Builds a release and prints the checksums of its files.
///
/// # Errors
/// Files differ from the commit, the compilation fails, or a program contains the path of its build. The image of the controllers
/// is too large, or a second release differs from the first.
pub(crate) fn run(options: &ReleaseOptions) -> anyhow::Result<()> {
    interrupt::watch()?;
    let progress = Progress::start();
    images::require_authorities()?;
    let root = workspace::root();
    let is_trial = options.programs.is_some();
    let source = source::read(&root, options.allow_dirty, is_trial)?;
    let out = match &options.out {
        Some(out) => std::path::absolute(out).context("--out")?,
        None => root
            .join("target/releases")
            .join(format!("{}-{}", source.version, contents::system())),
    };
    may_be_replaced(&out)?;
    progress.note(&format!(
        "OLM {} of commit {}, into {}",
        source.version,
        source.commit,
        out.display()
    ));
    let setting = Setting {
        source,
        helm: cluster::helm(&progress).context("helm renders the chart")?,
        registry: options.registry.clone(),
        download_url: options.download_url.clone(),
        is_trial,
    };
    let programs = options.programs.as_deref();
    let made = beside(&out, "partial");
    make(PLACES[0], &setting, programs, &made, &progress)?;
    if options.verify {
        progress.note("the same once more, at another place");
        let second = beside(&out, "second");
        make(PLACES[1], &setting, programs, &second, &progress)?;
        let diff = Command::new("diff")
            .arg("-rq")
            .args([&made, &second])
            .output()
            .context("cannot run diff")?;
        if !diff.status.success() {
            bail!(
                "the release cannot be made again:\n{}",
                String::from_utf8_lossy(&diff.stdout)
            );
        }
        files::remove(&second)?;
        progress.note("verified: a second release, made at another place, is the same to the byte");
    }
    files::remove(&out)?;
    fs::rename(&made, &out).with_context(|| format!("cannot write {}", out.display()))?;
    print!("{}", fs::read_to_string(out.join(contents::sums_file()))?);
    Ok(())
}

/// Builds a release from the programs in a folder, or from compiled ones, and writes it to `out`.
fn make(
    place: &str,
    setting: &Setting,
    programs: Option<&Path>,
    out: &Path,
    progress: &Progress,
) -> anyhow::Result<()> {
    files::renew(out)?;
    let temporary = tempfile::Builder::new().prefix(place).tempdir()?;
    // The path without links, as in compilers.
    let folder = temporary.path().canonicalize()?;
    let sources = folder.join("sources");
    progress.stage("sources of the commit written", || {
        source::export(&workspace::root(), &setting.source, &sources)
    })?;
    let programs = match programs {
        Some(given) => progress.stage("programs stripped", || {
            for program in PROGRAMS {
                images::strip(&given.join(program), &folder.join(program))?;
            }
            Ok(folder)
        })?,
        None => progress.stage("programs compiled", || {
            packages::fetch(&sources)?;
            compile::compile(&folder, &sources, &setting.source, progress)
        })?,
    };
    progress.stage("files of the release written", || {
        contents::write(&sources, setting, &programs, out)
    })
}

/// Returns a folder next to another one.
fn beside(folder: &Path, what: &str) -> PathBuf {
    let mut name = folder.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{what}"));
    folder.with_file_name(name)
}

/// # Errors
/// Fails if a folder contains anything but a release.
fn may_be_replaced(out: &Path) -> anyhow::Result<()> {
    let is_empty = fs::read_dir(out).map_or(true, |mut entries| entries.next().is_none());
    if !is_empty && !out.join(contents::summary_file()).is_file() {
        bail!(
            "{} holds files and no release; name another folder with --out, or empty it",
            out.display()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_release_or_nothing_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        assert!(may_be_replaced(&folder.path().join("new")).is_ok());
        assert!(may_be_replaced(folder.path()).is_ok(), "an empty folder");
        fs::write(folder.path().join("thesis.txt"), "mine").unwrap();
        let error = may_be_replaced(folder.path()).unwrap_err().to_string();
        assert!(error.contains("--out"), "{error}");
        fs::write(folder.path().join(contents::summary_file()), "{}").unwrap();
        assert!(may_be_replaced(folder.path()).is_ok());
    }
}
