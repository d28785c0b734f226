//! Sources of a release: the commit, its time, its files, and the released version.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

use crate::images::VERSION;
use crate::process;

/// Sources of a release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Source {
    /// Full hash of the commit.
    pub(super) commit: String,
    /// Git object with the files: the commit or, if files differ, a commit of these on no branch.
    pub(super) files: String,
    /// Time of all files in the release, in seconds since 1970: that of the commit.
    pub(super) time: u64,
    /// Version, without `v`.
    pub(super) version: String,
}

impl Source {
    /// Returns the time as RFC 3339.
    ///
    /// # Errors
    /// The time is after the year 9999.
    pub(super) fn date(&self) -> anyhow::Result<String> {
        let seconds = i64::try_from(self.time).context("the time of the release is too large")?;
        Ok(jiff::Timestamp::from_second(seconds)
            .context("the time of the release is too large")?
            .to_string())
    }
}

fn git(root: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    let mut command = Command::new("git");
    command.arg("-C").arg(root).args(arguments);
    Ok(process::run(&mut command)?.trim().to_owned())
}

/// Returns the full hash of the commit that is checked out at `root`.
///
/// # Errors
/// `root` is no checkout.
pub(crate) fn commit(root: &Path) -> anyhow::Result<String> {
    git(root, &["rev-parse", "HEAD"])
}

/// Reads the checkout at `root` with git. `is_trial` marks a release of programs that were not compiled for it.
///
/// # Errors
/// `root` is no checkout, or files differ from the commit without permission.
pub(super) fn read(root: &Path, allow_dirty: bool, is_trial: bool) -> anyhow::Result<Source> {
    let commit = commit(root).context("a release is made of a git checkout")?;
    let changed = git(root, &["status", "--porcelain"])?;
    let is_dirty = !changed.is_empty();
    if is_dirty && !allow_dirty {
        bail!(
            "files differ from the commit, so nobody else could build this release:\n{changed}\ncommit or remove them; --allow-dirty goes on \
             with the files that git knows (`git add`) as they are, and puts `dirty` into the version"
        );
    }
    let mut files = commit.clone();
    if is_dirty {
        let identity = ["-c", "user.name=xtask", "-c", "user.email=xtask@localhost"];
        let stash = git(root, &[&identity[..], &["stash", "create"]].concat())?;
        // Empty if only files differ that git does not track.
        if !stash.is_empty() {
            files = stash;
        }
    }
    let time = git(root, &["log", "-1", "--format=%ct", &commit])?;
    Ok(Source {
        files,
        time: time.parse().context("git has no time of the commit")?,
        version: full_version(VERSION, is_dirty, is_trial),
        commit,
    })
}

/// Returns the version, with suffixes for everything that is no real release.
fn full_version(wanted: &str, is_dirty: bool, is_trial: bool) -> String {
    let mut version = wanted.to_owned();
    for (is_marked, word) in [(is_dirty, "dirty"), (is_trial, "trial")] {
        if is_marked {
            version.push(if version.contains('-') { '.' } else { '-' });
            version.push_str(word);
        }
    }
    version
}

/// Writes the files of the release to the new folder `to`.
///
/// # Errors
/// git fails, or a file cannot be written.
pub(super) fn export(root: &Path, source: &Source, to: &Path) -> anyhow::Result<()> {
    let mut child = Command::new("git")
        .arg("-C")
        .arg(root)
        .args(["archive", "--format=tar", &source.files])
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run git archive")?;
    let output = child.stdout.take().context("git's output was not captured")?;
    let unpacked = tar::Archive::new(output).unpack(to);
    if !child.wait().context("lost git archive")?.success() {
        bail!("`git archive {}` failed", source.files);
    }
    unpacked.with_context(|| format!("cannot write the sources to {}", to.display()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_sources_are_those_of_the_commit_or_when_allowed_those_that_git_knows() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let run = |arguments: &[&str]| {
            let identity = ["-c", "user.name=A", "-c", "user.email=a@example.com"];
            git(root, &[&identity[..], arguments].concat()).unwrap()
        };
        run(&["init", "--quiet"]);
        fs::write(root.join("a"), "one").unwrap();
        run(&["add", "a"]);
        run(&["commit", "--quiet", "-m", "one"]);
        let clean = read(root, false, false).unwrap();
        assert_eq!((clean.version.as_str(), &clean.files), (VERSION, &clean.commit));
        fs::write(root.join("a"), "two").unwrap();
        fs::write(root.join("added"), "new").unwrap();
        fs::write(root.join("unknown"), "new").unwrap();
        run(&["add", "added"]);
        let error = read(root, false, false).unwrap_err().to_string();
        assert!(
            error.contains("?? unknown") && error.contains("--allow-dirty"),
            "{error}"
        );
        let dirty = read(root, true, false).unwrap();
        assert_eq!(
            (dirty.version, &dirty.commit),
            (format!("{VERSION}-dirty"), &clean.commit)
        );
        let to = tempfile::tempdir().unwrap();
        let (first, second) = (to.path().join("clean"), to.path().join("dirty"));
        export(root, &clean, &first).unwrap();
        export(root, &read(root, true, false).unwrap(), &second).unwrap();
        let text = |file: &Path| fs::read_to_string(file).unwrap();
        assert_eq!(
            (text(&first.join("a")), text(&second.join("a"))),
            ("one".into(), "two".into())
        );
        assert!(
            !first.join("added").exists()
                && second.join("added").exists()
                && !second.join("unknown").exists()
        );
    }

    #[test]
    fn what_is_no_real_release_says_so_in_its_version() {
        for (wanted, is_dirty, is_trial, version) in [
            ("0.1.0", false, false, "0.1.0"),
            ("0.1.0", false, true, "0.1.0-trial"),
            ("0.1.0-rc.1", true, true, "0.1.0-rc.1.dirty.trial"),
        ] {
            assert_eq!(full_version(wanted, is_dirty, is_trial), version);
        }
    }
}
