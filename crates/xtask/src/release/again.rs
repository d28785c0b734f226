//! Another place, to make the same release once more.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context as _;

use super::compile::Place;
use crate::process;

/// Of cargo's home: packages, and how they are had.
const OF_CARGO_HOME: [&str; 4] = ["registry", "git", "config.toml", "credentials.toml"];

/// A copy of the checkout's files in `folder`, and another home for cargo, which has the same packages.
///
/// # Errors
/// When a file cannot be copied.
pub(super) fn move_to(first: &Place, folder: &Path) -> anyhow::Result<Place> {
    let place = Place {
        root: folder.join("sources"),
        cargo_home: folder.join("home-of-cargo"),
        target: folder.join("built"),
    };
    copy(&first.root, &place.root)?;
    fs::create_dir(&place.cargo_home)?;
    for name in OF_CARGO_HOME {
        let there = first.cargo_home.join(name);
        if there.exists() {
            symlink(&there, place.cargo_home.join(name))
                .with_context(|| format!("cannot link {}", there.display()))?;
        }
    }
    Ok(place)
}

/// Copies what git knows and what is new, without what it ignores.
fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    let mut command = Command::new("git");
    command
        .arg("-C")
        .arg(from)
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .stdin(Stdio::null());
    for name in process::output(command, None, "git ls-files")?.split('\0') {
        let (source, target) = (from.join(name), to.join(name));
        // What was deleted and not committed is still listed.
        if name.is_empty() || !source.is_file() {
            continue;
        }
        fs::create_dir_all(target.parent().unwrap_or(to))?;
        fs::copy(&source, &target).with_context(|| format!("cannot copy {}", source.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_place_has_the_sources_and_the_packages_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let (root, home) = (folder.path().join("w"), folder.path().join("h"));
        fs::create_dir_all(root.join("src")).unwrap();
        fs::create_dir_all(home.join("registry/src")).unwrap();
        for (name, text) in [
            ("src/a.rs", "code"),
            (".gitignore", "/target\n"),
            ("new.rs", "new"),
            ("target", "built"),
        ] {
            fs::write(root.join(name), text).unwrap();
        }
        let git = |arguments: &[&str]| {
            let done = Command::new("git")
                .arg("-C")
                .arg(&root)
                .args(arguments)
                .status()
                .unwrap();
            assert!(done.success());
        };
        git(&["init", "--quiet"]);
        git(&["add", "src", ".gitignore"]);
        let first = Place {
            root,
            cargo_home: home,
            target: folder.path().join("t"),
        };
        let other = folder.path().join("other");
        let place = move_to(&first, &other).unwrap_or_else(|error| panic!("{error:#}"));
        for name in ["src/a.rs", ".gitignore", "new.rs"] {
            assert!(place.root.join(name).is_file(), "{name}");
        }
        assert!(!place.root.join("target").exists());
        assert!(place.cargo_home.join("registry/src").is_dir());
        assert!(!place.cargo_home.join("config.toml").exists());
        for (one, another) in [
            (&first.root, &place.root),
            (&first.cargo_home, &place.cargo_home),
            (&first.target, &place.target),
        ] {
            assert_ne!(one, another);
        }
    }
}
