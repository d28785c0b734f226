//! What is released: the commit, its time, and the version under which it goes out.

use std::path::Path;

use anyhow::{Context as _, bail};

use super::export;
use crate::process;

/// How many changed files are named when a tree is refused.
const NAMED: usize = 10;
/// Longest version: it is part of file names, tags and labels.
const MAX_VERSION: usize = 60;
/// Says the time instead of the commit; by <https://reproducible-builds.org/specs/source-date-epoch/>.
const TIME_VARIABLE: &str = "SOURCE_DATE_EPOCH";

/// What is released.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Source {
    /// The commit, in full.
    pub(super) commit: String,
    /// Whether files differ from it.
    pub(super) dirty: bool,
    /// Seconds since 1970 that stand for the time of everything in the release: the commit's, or SOURCE_DATE_EPOCH.
    pub(super) time: u64,
    /// The version, without `v`.
    pub(super) version: String,
}

impl Source {
    /// Its time as RFC 3339.
    ///
    /// # Errors
    /// When it lies beyond the year 9999.
    pub(super) fn date(&self) -> anyhow::Result<String> {
        let seconds = i64::try_from(self.time).context("the time of the release is too large")?;
        let time = jiff::Timestamp::from_second(seconds).context("the time of the release is none")?;
        Ok(time.to_string())
    }
}

/// What git says of the checkout at `root`. `trial` marks a release of programs that were not compiled for it.
///
/// # Errors
/// When it is no checkout, when files differ from the commit and that is not allowed, or when the version is none of `base`, which is the one in
/// `Cargo.toml`.
pub(super) fn read(
    root: &Path,
    base: &str,
    wanted: Option<&str>,
    allow_dirty: bool,
    trial: bool,
) -> anyhow::Result<Source> {
    let git = |arguments: &[&str]| {
        let mut command = export::git(root);
        command.args(arguments);
        process::output(command, None, &format!("git {}", arguments.join(" ")))
    };
    // From here on the commit is meant, whatever HEAD becomes.
    let commit = git(&["rev-parse", "HEAD"]).context("a release is made of a git checkout")?;
    let commit = commit.trim().to_owned();
    let changed = git(&["status", "--porcelain", "--untracked-files=all"])?;
    let dirty = !changed.trim().is_empty();
    if dirty && !allow_dirty {
        bail!("{}", refusal(&changed));
    }
    let time = match std::env::var(TIME_VARIABLE) {
        Ok(text) => text,
        Err(_) => git(&["log", "-1", "--format=%ct", &commit])?,
    };
    Ok(Source {
        commit,
        dirty,
        time: time
            .trim()
            .parse()
            .with_context(|| format!("{TIME_VARIABLE} is {time:?}, not seconds since 1970"))?,
        version: version(base, wanted, dirty, trial)?,
    })
}

fn refusal(changed: &str) -> String {
    let lines: Vec<&str> = changed.lines().collect();
    let mut text = "files differ from the commit, so nobody else could build this release:\n".to_owned();
    for line in lines.iter().take(NAMED) {
        text.push_str(&format!("  {line}\n"));
    }
    if lines.len() > NAMED {
        text.push_str(&format!("  and {} more\n", lines.len() - NAMED));
    }
    text + "commit or remove them; --allow-dirty goes on with the files that git knows (`git add`) as they are, and says `dirty` in the version"
}

/// The version of the release: `base`, which the programs say of themselves, or one of its pre-releases.
fn version(base: &str, wanted: Option<&str>, dirty: bool, trial: bool) -> anyhow::Result<String> {
    let wanted = wanted.map_or(base, |wanted| wanted.strip_prefix('v').unwrap_or(wanted));
    let pre_release = wanted
        .strip_prefix(base)
        .with_context(|| {
            format!("version {wanted:?} is not {base}, which the programs say, nor a pre-release of it such as {base}-rc.1; change `version` in Cargo.toml and charts/olm/Chart.yaml, and run `cargo xtask gen`")
        })?;
    let is_part = |part: &str| {
        !part.is_empty()
            && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
            && (part == "0" || !part.starts_with('0') || !part.chars().all(|c| c.is_ascii_digit()))
    };
    let fits = pre_release.is_empty()
        || pre_release
            .strip_prefix('-')
            .is_some_and(|parts| parts.split('.').all(is_part));
    if !fits || wanted.len() > MAX_VERSION {
        bail!(
            "version {wanted:?} is none: after {base} may stand a pre-release such as -rc.1, {MAX_VERSION} letters in all"
        );
    }
    let mut version = wanted.to_owned();
    for (mark, word) in [(dirty, "dirty"), (trial, "trial")] {
        if mark {
            version.push(if version.contains('-') { '.' } else { '-' });
            version.push_str(word);
        }
    }
    Ok(version)
}

#[cfg(test)]
mod tests {
    use super::super::export::tests::run as git;
    use super::*;

    #[test]
    fn a_tree_with_changes_is_refused_by_name_or_marked() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        git(root, &["init", "--quiet"]);
        std::fs::write(root.join("a"), "one").unwrap();
        git(root, &["add", "a"]);
        git(root, &["commit", "--quiet", "-m", "one"]);
        let clean = read(root, "1.2.3", None, false, false).unwrap();
        assert_eq!((clean.version.as_str(), clean.dirty), ("1.2.3", false));
        assert_eq!(clean.commit.len(), 40);
        if std::env::var_os(TIME_VARIABLE).is_none() {
            assert_eq!(clean.date().unwrap(), "2023-11-14T22:13:20Z");
        }
        for n in 0..12 {
            std::fs::write(root.join(format!("new-{n:02}")), "x").unwrap();
        }
        let error = read(root, "1.2.3", None, false, false).unwrap_err().to_string();
        assert!(error.contains("?? new-00\n"), "{error}");
        assert!(
            error.contains("and 2 more") && error.contains("--allow-dirty"),
            "{error}"
        );
        let marked = read(root, "1.2.3", None, true, false).unwrap();
        assert_eq!((marked.version.as_str(), marked.dirty), ("1.2.3-dirty", true));
    }

    #[test]
    fn what_is_no_checkout_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let error = format!(
            "{:#}",
            read(folder.path(), "1.2.3", None, true, false).unwrap_err()
        );
        assert!(error.contains("a git checkout"), "{error}");
    }

    #[test]
    fn a_version_is_the_programs_or_a_pre_release_of_it() {
        let of =
            |wanted, dirty, trial| version("1.2.3", wanted, dirty, trial).map_err(|error| error.to_string());
        assert_eq!(of(None, false, false).unwrap(), "1.2.3");
        assert_eq!(of(Some("v1.2.3"), false, false).unwrap(), "1.2.3");
        assert_eq!(
            of(Some("1.2.3-rc.1"), true, true).unwrap(),
            "1.2.3-rc.1.dirty.trial"
        );
        assert_eq!(of(None, false, true).unwrap(), "1.2.3-trial");
        let long = format!("1.2.3-{}", "a".repeat(MAX_VERSION));
        for wrong in [
            "1.2.4",
            "1.2.30",
            "1.2.3-",
            "1.2.3-a..b",
            "1.2.3-01",
            "1.2.3+x",
            "1.2.3-a b",
            "1.2.3-../x",
            &long,
        ] {
            assert!(of(Some(wrong), false, false).is_err(), "{wrong}");
        }
        let error = of(Some("1.3.0"), false, false).unwrap_err();
        assert!(error.contains("Cargo.toml"), "{error}");
    }
}
