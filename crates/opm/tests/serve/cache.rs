//! Caches: made ahead, damaged, of another version or where nothing can be written.

use std::path::PathBuf;

use super::*;

/// Returns a catalog with one bundle in a temporary folder, the folder of its cache, which does not exist yet, and the flag for it.
fn catalog_with_cache() -> (tempfile::TempDir, PathBuf, PathBuf, String) {
    let dir = tempfile::tempdir().expect("folder");
    let catalog = catalog(dir.path(), &["1.0.0"]);
    let cache = dir.path().join("cache");
    let flag = format!("--cache-dir={}", text(&cache));
    (dir, catalog, cache, flag)
}

/// Starts `opm serve`, which must serve this number of bundles, and stops it.
async fn serves(program: Command, arguments: &[&str], count: usize) {
    let serving = Serving::start_command(program, "serve", arguments);
    let expected = ["demo/stable/demo.v1.0.0", "demo/stable/demo.v1.1.0"];
    assert_eq!(bundles(&serving).await, expected[..count]);
    assert_eq!(serving.stop(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cache_that_cannot_be_used_is_not_used_or_refused_as_the_flag_says() {
    let (_dir, catalog, cache, cache_flag) = catalog_with_cache();
    let enforce = "--cache-enforce-integrity";
    let error = opm(&["serve", text(&catalog), &cache_flag, enforce]).fails();
    assert!(error.contains("integrity check failed"), "{error}");
    // A missing cache is not an error.
    serves(program(), &[text(&catalog), &cache_flag], 1).await;
    assert!(!cache.exists(), "left alone");
    opm(&["serve", text(&catalog), &cache_flag, "--cache-only"]).ok();
    serves(program(), &[text(&catalog), &cache_flag], 1).await;

    let file = catalog.join("catalog.json");
    let changed = std::fs::read_to_string(&file).expect("file") + "\n";
    std::fs::write(&file, changed).expect("file");
    let error = opm(&["serve", text(&catalog), &cache_flag, enforce]).fails();
    assert!(
        error.contains("integrity check failed") && error.contains("cache requires rebuild"),
        "{error}"
    );
    let index = cache.join(olm_registry::cache::INDEX_FILE);
    let stale = std::fs::read(&index).expect("index");
    serves(program(), &[text(&catalog), &cache_flag], 1).await;
    assert!(std::fs::read(&index).expect("index") == stale, "left alone");
    serves(
        program(),
        &[text(&catalog), &cache_flag, "--cache-enforce-integrity=false"],
        1,
    )
    .await;
    opm(&["serve", text(&catalog), "--cache-enforce-integrity"]).fails();
}

#[test]
fn a_damaged_cache_is_refused_or_rebuilt_as_the_flag_says() {
    let (_dir, catalog, cache, flag) = catalog_with_cache();
    let sync = |more: &[&str]| opm(&[&["serve", text(&catalog), &flag, "--cache-only"], more].concat());
    let error = sync(&["--cache-enforce-integrity"]).fails();
    assert!(
        error.contains("integrity check failed"),
        "there is no cache yet: {error}"
    );
    sync(&[]).ok();
    sync(&["--cache-enforce-integrity=true"]).ok();
    let index = cache.join(olm_registry::cache::INDEX_FILE);
    let good = std::fs::read(&index).expect("index");
    let mut altered = good.clone();
    *altered.last_mut().expect("byte") ^= 1;
    let versions = [
        altered,
        good[..good.len() / 2].to_vec(),
        b"not an index".to_vec(),
        Vec::new(),
    ];
    for damaged in versions {
        std::fs::write(&index, damaged).expect("index");
        let error = sync(&["--cache-enforce-integrity=true"]).fails();
        assert!(error.contains("integrity check failed"), "{error}");
        sync(&["--cache-enforce-integrity=false"]).ok();
        assert!(std::fs::read(&index).expect("index") == good, "rebuilt as it was");
    }
    let error = opm(&["serve", text(&catalog), "--cache-enforce-integrity"]).fails();
    assert!(
        error.contains("--cache-dir must be specified with --cache-enforce-integrity"),
        "{error}"
    );
}

/// Returns the files of a cache created with `--cache-only`, sorted.
fn files_of(cache: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(cache).expect("folder");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn a_cache_made_ahead_is_for_upstreams_program_too_unless_told_otherwise() {
    let dir = tempfile::tempdir().expect("folder");
    let catalog = catalog(dir.path(), &["1.0.0", "1.1.0"]);
    let sync = |name: &str, more: &[&str]| {
        let cache = dir.path().join(name);
        let flag = format!("--cache-dir={}", text(&cache));
        opm(&[&["serve", text(&catalog), &flag, "--cache-only"], more].concat()).ok();
        cache
    };
    let both = sync("both", &[]);
    assert_eq!(files_of(&both), ["cache", "digest", "olm-index.v1"]);
    let digest = std::fs::read_to_string(both.join("digest")).expect("digest");
    let computed = olm_registry::cache::upstream::digest(&catalog, &both.join("cache")).expect("digest");
    assert_eq!(digest, computed);
    assert_eq!(
        files_of(&both.join("cache")),
        [
            "demo_stable_demo.v1.0.0.json",
            "demo_stable_demo.v1.1.0.json",
            "packages.json"
        ]
    );
    assert_eq!(
        files_of(&sync("ours", &["--cache-upstream=false"])),
        ["olm-index.v1"]
    );
    // An invalid change of the catalog keeps the previous cache and its digest.
    std::fs::write(catalog.join("broken.json"), r#"{"schema": "olm.channel"}"#).expect("file");
    let flag = format!("--cache-dir={}", text(&both));
    opm(&["serve", text(&catalog), &flag, "--cache-only"]).fails();
    assert_eq!(
        std::fs::read_to_string(both.join("digest")).expect("digest"),
        digest
    );
    std::fs::write(catalog.join("broken.json"), r#"{"schema": "custom"}"#).expect("file");
    opm(&["serve", text(&catalog), &flag, "--cache-only"]).ok();
    assert_ne!(
        std::fs::read_to_string(both.join("digest")).expect("digest"),
        digest
    );
}

/// Returns a program without a writable folder: neither for temporary files nor as working directory.
fn without_a_writable_folder() -> Command {
    let mut command = program();
    command.env("TMPDIR", "/proc/no-such-folder").current_dir("/proc");
    command
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_need_be_writable() {
    let dir = tempfile::tempdir().expect("folder");
    let catalog = catalog(dir.path(), &["1.0.0", "1.1.0"]);
    serves(without_a_writable_folder(), &[text(&catalog)], 2).await;
    // Upstream's caches, in both of its layouts, as images contain them.
    for folders in [&["pogreb.v1/db"][..], &["cache"]] {
        let cache = dir.path().join(folders[0].replace('/', "-"));
        for folder in folders {
            std::fs::create_dir_all(cache.join(folder)).expect("folder");
        }
        std::fs::write(cache.join("digest"), "0123456789abcdef").expect("file");
        let before = files_of(&cache);
        let flag = format!("--cache-dir={}", text(&cache));
        let enforce = "--cache-enforce-integrity";
        let error = opm(&["serve", text(&catalog), &flag, "--cache-only", enforce]).fails();
        assert!(error.contains("integrity check failed"), "{error}");
        let serving = Serving::start_command(without_a_writable_folder(), "serve", &[text(&catalog), &flag]);
        assert_eq!(bundles(&serving).await.len(), 2);
        let client = serving.client();
        let bundle = client
            .get_bundle("demo", "stable", "demo.v1.0.0")
            .await
            .expect("bundle");
        assert!(bundle.csv_json.contains("ClusterServiceVersion"));
        assert_eq!(serving.stop(), 0);
        assert_eq!(files_of(&cache), before, "left alone");
    }
    // A cache of our own that does not match, where a new one cannot be written.
    let flag = "--cache-dir=/proc/no-such-folder";
    let enforced = opm(&["serve", text(&catalog), flag, "--cache-enforce-integrity"]).fails();
    assert!(enforced.contains("integrity check failed"), "{enforced}");
    for arguments in [
        &[text(&catalog), flag][..],
        &[text(&catalog), flag, "--cache-enforce-integrity=false"],
    ] {
        serves(without_a_writable_folder(), arguments, 2).await;
    }
    opm(&["serve", text(&catalog), flag, "--cache-only"]).fails();
}

/// The volume of the cache may be the only place that a pod with a read-only root can write to.
#[test]
fn an_index_is_built_on_the_volume_of_the_cache() {
    let (dir, source, cache, flag) = catalog_with_cache();
    // Metadata instead of manifests: their text is written to a second file during the build.
    let catalog = dir.path().join("migrated");
    let level = "--migrate-level=bundle-object-to-csv-metadata";
    opm(&["migrate", text(&source), text(&catalog), level]).ok();
    std::fs::create_dir(&cache).expect("folder");
    let log = dir.path().join("log");
    let logging = || {
        let mut command = Command::new("sh");
        command
            .args(["-c", r#"exec "$0" "$@" 2>"$LOG""#, env!("CARGO_BIN_EXE_opm")])
            .env("LOG", &log)
            .env("TMPDIR", "/proc/no-such-folder")
            .current_dir("/proc");
        command
    };
    let logged = || std::fs::read_to_string(&log).expect("log");

    let serving = Serving::start_command(logging(), "serve", &[text(&catalog), &flag, "--debug"]);
    assert_eq!(serving.stop(), 0);
    assert!(
        logged().contains("building an index for this run") && !logged().contains("using memory"),
        "{}",
        logged()
    );
    assert!(files_of(&cache).is_empty(), "left alone");

    let made = logging()
        .args(["serve", text(&catalog), flag.as_str(), "--cache-only", "--debug"])
        .status();
    assert!(made.expect("opm runs").success(), "{}", logged());
    assert!(
        logged().contains("rebuilding the catalog index") && !logged().contains("using memory"),
        "{}",
        logged()
    );
    assert_eq!(files_of(&cache), ["cache", "digest", "olm-index.v1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cache_that_fits_is_only_read() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    let (_dir, catalog, cache, flag) = catalog_with_cache();
    opm(&["serve", text(&catalog), &flag, "--cache-only"]).ok();
    let state = || {
        let names = [".", "olm-index.v1", "digest", "cache/packages.json"];
        names.map(|name| {
            let metadata = std::fs::metadata(cache.join(name)).expect("file");
            (
                metadata.ino(),
                metadata.mtime_nsec(),
                metadata.ctime_nsec(),
                metadata.len(),
            )
        })
    };
    std::fs::set_permissions(&cache, std::fs::Permissions::from_mode(0o555)).expect("mode");
    let before = state();
    for more in [
        "--cache-enforce-integrity=true",
        "--cache-enforce-integrity=false",
    ] {
        serves(without_a_writable_folder(), &[text(&catalog), &flag, more], 1).await;
        opm(&["serve", text(&catalog), &flag, "--cache-only", more]).ok();
        assert_eq!(state(), before, "{more}");
    }
    std::fs::set_permissions(&cache, std::fs::Permissions::from_mode(0o755)).expect("mode");
}

#[test]
fn no_altered_byte_of_a_cache_is_served() {
    let (_dir, catalog, cache, flag) = catalog_with_cache();
    opm(&[
        "serve",
        text(&catalog),
        &flag,
        "--cache-only",
        "--cache-upstream=false",
    ])
    .ok();
    let index = cache.join(olm_registry::cache::INDEX_FILE);
    let good = std::fs::read(&index).expect("index");
    // The four bytes after the version are unused; a change of any other byte is detected.
    for at in (0..good.len())
        .step_by(good.len() / 400 + 1)
        .filter(|at| !(12..16).contains(at))
    {
        for flip in [1, 0x80] {
            let mut altered = good.clone();
            altered[at] ^= flip;
            std::fs::write(&index, altered).expect("index");
            let opened = olm_registry::cache::open_checked(&catalog, &cache);
            assert!(opened.is_err(), "byte {at} of {}", good.len());
        }
    }
    for length in (0..good.len()).step_by(good.len() / 100 + 1) {
        std::fs::write(&index, &good[..length]).expect("index");
        assert!(
            olm_registry::cache::open_checked(&catalog, &cache).is_err(),
            "{length} bytes"
        );
    }
    std::fs::write(&index, [&good[..], b"x"].concat()).expect("index");
    assert!(
        olm_registry::cache::open_checked(&catalog, &cache).is_err(),
        "one more byte"
    );
    std::fs::write(&index, &good).expect("index");
    assert!(olm_registry::cache::open_checked(&catalog, &cache).is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_of_another_version_is_not_used() {
    let (_dir, catalog, cache, flag) = catalog_with_cache();
    opm(&["serve", text(&catalog), &flag, "--cache-only"]).ok();
    let index = cache.join(olm_registry::cache::INDEX_FILE);
    let mut other = std::fs::read(&index).expect("index");
    other[8] += 1;
    std::fs::write(&index, &other).expect("index");
    serves(program(), &[text(&catalog), &flag], 1).await;
    assert_eq!(std::fs::read(&index).expect("index"), other, "left alone");
    // Images that only our program serves have no other cache.
    std::fs::remove_file(cache.join("digest")).expect("removed");
    serves(program(), &[text(&catalog), &flag], 1).await;
    let error = opm(&["serve", text(&catalog), &flag, "--cache-enforce-integrity"]).fails();
    assert!(
        error.contains("integrity check failed") && error.contains(&format!("has format {}", other[8])),
        "{error}"
    );
    opm(&["serve", text(&catalog), &flag, "--cache-only"]).ok();
    assert_ne!(std::fs::read(&index).expect("index")[8], other[8], "rebuilt");
}
