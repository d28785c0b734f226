//! Reference data outside of the repository: recorded cluster objects and a corpus of real operators.
//!
//! The folder is `$OLM_SHARED`, by default `shared` beside the workspace. Tests also run without it: the tests that did not run are
//! reported with the reason. If the data is required, in CI (`CI` is set) or with `OLM_REQUIRE_SHARED=1`, missing data fails the test.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::UNIX_EPOCH;

/// Archives of the corpus: folder to unpack to, and name of the archive.
const ARCHIVES: [(&str, &str); 3] = [
    ("bundles", "community-bundles.tar.xz"),
    ("fbc", "community-fbc.tar.xz"),
    ("refused", "community-refused.tar.xz"),
];

/// Returns the folder with reference data; `None`, reported on stderr, if it does not exist.
///
/// # Panics
/// If it is missing although required.
pub fn shared_dir() -> Option<PathBuf> {
    let dir = configured_dir();
    dir.is_dir().then_some(dir.clone()).or_else(|| {
        report_missing(&format!("{} does not exist (set OLM_SHARED)", dir.display()));
        None
    })
}

/// Returns the path of a file or folder below [`shared_dir`]; `None` if it does not exist.
///
/// # Panics
/// If it is missing although required.
pub fn shared_path(relative: &str) -> Option<PathBuf> {
    let path = shared_dir()?.join(relative);
    if path.exists() {
        return Some(path);
    }
    report_missing(&format!("{} does not exist", path.display()));
    None
}

/// Returns the unpacked corpus: `bundles/<package>/<csv>/{manifests,metadata}`, `fbc/<package>/catalog.json` and
/// `refused/<package>/catalog.json`.
///
/// The archives are unpacked once, below the target folder, and again when they change. Concurrent tests and processes wait for each
/// other.
///
/// # Panics
/// If the archives are missing although required, or cannot be unpacked.
pub fn corpus_dir() -> Option<PathBuf> {
    let archives = shared_path("corpus")?;
    let target = target_dir().join("corpus");
    let unpacked = unpack_all(&archives, &target);
    assert!(
        unpacked.is_ok(),
        "failed to unpack the corpus to {}: {unpacked:?}",
        target.display()
    );
    Some(target)
}

fn configured_dir() -> PathBuf {
    std::env::var_os("OLM_SHARED").map_or_else(|| workspace_root().join("../shared"), PathBuf::from)
}

/// Reports a test that did not run, or fails it if the data is required.
fn report_missing(what: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    let required =
        std::env::var_os("CI").is_some() || std::env::var_os("OLM_REQUIRE_SHARED").is_some_and(|v| v == "1");
    assert!(!required, "{test} needs reference data: {what}");
    eprintln!("not run: {test} needs reference data: {what}");
}

fn unpack_all(archives: &Path, target: &Path) -> io::Result<()> {
    fs::create_dir_all(target)?;
    let lock = File::create(target.join(".lock"))?;
    lock.lock()?;
    for (folder, archive) in ARCHIVES {
        unpack(
            &archives.join(archive),
            &target.join(folder),
            &target.join(format!(".{folder}.stamp")),
        )?;
    }
    Ok(())
}

/// Unpacks to a temporary folder and renames it to `target`, so that an interrupted run leaves no partial result.
fn unpack(archive: &Path, target: &Path, stamp: &Path) -> io::Result<()> {
    let metadata = fs::metadata(archive).map_err(|error| named(archive, &error))?;
    let modified = metadata
        .modified()?
        .duration_since(UNIX_EPOCH)
        .map_err(io::Error::other)?;
    let wanted = format!("{} bytes, modified {}", metadata.len(), modified.as_secs());
    if target.is_dir() && fs::read_to_string(stamp).is_ok_and(|found| found == wanted) {
        return Ok(());
    }
    let partial = target.with_extension("partial");
    for leftover in [&partial, target] {
        if leftover.exists() {
            fs::remove_dir_all(leftover)?;
        }
    }
    fs::create_dir_all(&partial)?;
    let output = Command::new("tar")
        .arg("-xJf")
        .arg(archive)
        .arg("-C")
        .arg(&partial)
        .output()
        .map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("failed to run tar (install tar and xz): {error}"),
            )
        })?;
    if !output.status.success() {
        let told = String::from_utf8_lossy(&output.stderr);
        return Err(io::Error::other(format!(
            "tar failed on {} (it needs xz): {told}",
            archive.display()
        )));
    }
    fs::rename(&partial, target)?;
    fs::write(stamp, wanted)
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn workspace_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace_root().join("target"), PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corpus_is_unpacked_once() {
        let Some(corpus) = corpus_dir() else { return };
        let stamp = corpus.join(".bundles.stamp");
        let before = fs::metadata(&stamp).unwrap().modified().unwrap();
        assert!(corpus.join("bundles").read_dir().unwrap().count() > 100);
        assert_eq!(corpus_dir(), Some(corpus));
        assert_eq!(fs::metadata(&stamp).unwrap().modified().unwrap(), before);
    }

    #[test]
    fn damaged_archive_is_an_error_that_names_it() {
        let dir = std::env::temp_dir().join(format!("olm-testing-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let archive = dir.join("broken.tar.xz");
        fs::write(&archive, "not an archive").unwrap();
        let error = unpack(&archive, &dir.join("out"), &dir.join(".stamp"))
            .unwrap_err()
            .to_string();
        assert!(error.contains("broken.tar.xz"), "{error}");
        assert!(!dir.join("out").exists());
        fs::remove_dir_all(&dir).unwrap();
    }
}
