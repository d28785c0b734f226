//! `opm serve` as its own process: queries, cache, health, shutdown, and its files after a failed start.

mod support;

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use support::{Ran, catalog, opm, program, ran, text};

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .expect("port")
        .port()
}

/// A serving `opm`, killed when the test ends.
struct Serving {
    child: Child,
    port: u16,
}

impl Serving {
    fn start(arguments: &[&str]) -> Self {
        Self::start_as(program(), arguments)
    }

    fn start_as(program: Command, arguments: &[&str]) -> Self {
        Self::start_command(program, "serve", arguments)
    }

    fn start_command(mut program: Command, command: &str, arguments: &[&str]) -> Self {
        let port = free_port();
        let child = program
            .arg(command)
            .args(arguments)
            .args(["--port", &port.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("opm starts");
        let mut serving = Self { child, port };
        let deadline = Instant::now() + Duration::from_secs(30);
        while serving.probe(&[]).code != 0 {
            assert!(Instant::now() < deadline, "opm does not serve");
            assert!(serving.child.try_wait().expect("state").is_none(), "opm ended");
            std::thread::sleep(Duration::from_millis(20));
        }
        serving
    }

    fn probe(&self, more: &[&str]) -> Ran {
        let dir = tempfile::tempdir().expect("folder");
        let probe = dir.path().join("grpc_health_probe");
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_opm"), &probe).expect("link");
        let address = format!("-addr=:{}", self.port);
        ran(&Command::new(probe)
            .arg(address)
            .args(more)
            .output()
            .expect("probe runs"))
    }

    fn client(&self) -> olm_registry::client::Client {
        let address = format!("127.0.0.1:{}", self.port);
        olm_registry::client::Client::connect(&address).expect("client")
    }

    fn stop(mut self) -> i32 {
        let id = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-TERM", &id])
                .status()
                .expect("kill runs")
                .success()
        );
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            if let Some(status) = self.child.try_wait().expect("state") {
                return status.code().expect("ends by itself");
            }
            assert!(Instant::now() < deadline, "opm does not stop on SIGTERM");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the names of all bundles as `package/channel/name`.
async fn bundles(serving: &Serving) -> Vec<String> {
    use tokio_stream::StreamExt as _;
    let client = serving.client();
    let stream = client.list_bundles().await.expect("answered");
    let bundles: Vec<_> = stream.collect().await;
    let name = |bundle: Result<olm_registry::proto::Bundle, tonic::Status>| {
        let bundle = bundle.expect("bundle");
        format!(
            "{}/{}/{}",
            bundle.package_name, bundle.channel_name, bundle.csv_name
        )
    };
    bundles.into_iter().map(name).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rendered_catalog_is_served_until_sigterm() {
    let dir = tempfile::tempdir().expect("folder");
    let catalog = catalog(dir.path(), &["1.0.0", "1.1.0"]);
    let serving = Serving::start(&[text(&catalog)]);
    let client = serving.client();
    assert_eq!(client.list_packages().await.expect("answered"), ["demo"]);
    let package = client.get_package("demo").await.expect("answered");
    assert_eq!(package.default_channel_name, "stable");
    assert_eq!(package.channels[0].csv_name, "demo.v1.1.0");
    assert_eq!(
        bundles(&serving).await,
        ["demo/stable/demo.v1.0.0", "demo/stable/demo.v1.1.0"]
    );
    let bundle = client
        .get_bundle("demo", "stable", "demo.v1.1.0")
        .await
        .expect("answered");
    assert_eq!(bundle.bundle_path, "quay.io/demo/bundle:v1.1.0");
    assert_eq!(bundle.version, "1.1.0");
    assert!(bundle.csv_json.contains("ClusterServiceVersion"));
    let error = client.get_package("other").await.expect_err("absent");
    assert_eq!(error.message(), "package \"other\" not found");
    client.check().await.expect("healthy");
    assert_eq!(serving.stop(), 0);
}

#[test]
fn the_probe_tells_health_by_exit_code_and_text() {
    let dir = tempfile::tempdir().expect("folder");
    let catalog = catalog(dir.path(), &["1.0.0"]);
    let serving = Serving::start(&[text(&catalog)]);
    let ran = serving.probe(&[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "status: SERVING\n"));
    assert_eq!(serving.probe(&["-service=Registry"]).code, 0);
    assert_eq!(serving.probe(&["-nonsense=1"]).code, 1);
    let port = serving.port;
    assert_eq!(serving.stop(), 0);
    let silent = Serving {
        child: Command::new("true").spawn().expect("true runs"),
        port,
    };
    let ran = silent.probe(&[]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("failed to connect service"), "{}", ran.stderr);
}

#[test]
fn what_cannot_be_served_is_told_in_the_termination_log() {
    let dir = tempfile::tempdir().expect("folder");
    let catalog = catalog(dir.path(), &["1.0.0"]);
    std::fs::write(catalog.join("broken.yaml"), "schema: olm.channel\nname: [\n").expect("file");
    let log = dir.path().join("termination-log");
    std::fs::write(&log, "").expect("file");
    let error = opm(&["serve", text(&catalog), "--termination-log", text(&log)]).fails();
    assert!(error.contains("broken.yaml"), "{error}");
    let logged = std::fs::read_to_string(&log).expect("log");
    assert!(
        error.contains(logged.trim()) && logged.contains("broken.yaml"),
        "{logged}"
    );
    let absent = dir.path().join("absent-log");
    let error = opm(&["serve", "/nonexistent", "-t", text(&absent)]).fails();
    let logged = std::fs::read_to_string(&absent).expect("made as the flag names it");
    assert!(
        error.contains(logged.trim()) && logged.contains("/nonexistent"),
        "{logged}"
    );
    let nowhere = dir.path().join("no-folder/log");
    opm(&["serve", "/nonexistent", "-t", text(&nowhere)]).fails();
    assert!(!nowhere.exists());
}

#[test]
fn a_port_in_use_is_told() {
    let dir = tempfile::tempdir().expect("folder");
    let catalog = catalog(dir.path(), &["1.0.0"]);
    let taken = TcpListener::bind("[::]:0").expect("port");
    let port = taken.local_addr().expect("address").port().to_string();
    let error = opm(&["serve", text(&catalog), "-p", &port]).fails();
    assert!(
        error.contains(&format!("failed to listen on port {port}")),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cache_that_cannot_be_used_is_not_used_or_refused_as_the_flag_says() {
    let dir = tempfile::tempdir().expect("folder");
    let catalog = catalog(dir.path(), &["1.0.0"]);
    let cache = dir.path().join("cache");
    let cache_flag = format!("--cache-dir={}", text(&cache));
    let enforce = "--cache-enforce-integrity";
    let error = opm(&["serve", text(&catalog), &cache_flag, enforce]).fails();
    assert!(error.contains("integrity check failed"), "{error}");
    // A missing cache is not an error.
    let serving = Serving::start(&[text(&catalog), &cache_flag]);
    assert_eq!(bundles(&serving).await, ["demo/stable/demo.v1.0.0"]);
    assert_eq!(serving.stop(), 0);
    assert!(!cache.exists(), "left alone");
    opm(&["serve", text(&catalog), &cache_flag, "--cache-only"]).ok();
    let serving = Serving::start(&[text(&catalog), &cache_flag]);
    assert_eq!(bundles(&serving).await, ["demo/stable/demo.v1.0.0"]);
    assert_eq!(serving.stop(), 0);

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
    let serving = Serving::start(&[text(&catalog), &cache_flag]);
    assert_eq!(bundles(&serving).await, ["demo/stable/demo.v1.0.0"]);
    assert_eq!(serving.stop(), 0);
    assert!(std::fs::read(&index).expect("index") == stale, "left alone");
    let serving = Serving::start(&[text(&catalog), &cache_flag, "--cache-enforce-integrity=false"]);
    assert_eq!(bundles(&serving).await, ["demo/stable/demo.v1.0.0"]);
    assert_eq!(serving.stop(), 0);
    opm(&["serve", text(&catalog), "--cache-enforce-integrity"]).fails();
}

/// Writes the files of an image below a folder to `to`.
fn extract(archive: &olm_oci::ImageArchive, to: &Path) {
    let dir = tempfile::tempdir().expect("folder");
    for (digest, blob) in archive.blobs() {
        let path = dir.path().join(digest.hex());
        std::fs::write(&path, blob).expect("blob");
        // The configuration is the only blob that is not an archive.
        let _ = Command::new("tar")
            .arg("-xzf")
            .arg(&path)
            .arg("-C")
            .arg(to)
            .stderr(Stdio::null())
            .status();
    }
}

fn stand_in_for_an_opm_image(path: &Path) {
    let mut layer = olm_oci::LayerSpec::new();
    layer.folder("tmp", 0o1777, 0).expect("folder");
    layer.file("bin/opm", "program", 0o755, 0).expect("file");
    let spec = olm_oci::ImageSpec {
        layers: vec![layer],
        ..Default::default()
    };
    spec.build().expect("image").write(path, None).expect("written");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_catalog_image_holds_catalog_and_cache_and_starts_from_them() {
    let dir = tempfile::tempdir().expect("folder");
    let catalog = catalog(dir.path(), &["1.0.0", "1.1.0"]);
    let base = dir.path().join("opm.tar");
    stand_in_for_an_opm_image(&base);
    let tars = [dir.path().join("1.tar"), dir.path().join("2.tar")];
    for tar in &tars {
        let name = "quay.io/demo/catalog:v1";
        let arguments = [
            "alpha",
            "image",
            "catalog",
            text(&catalog),
            "--opm-image",
            text(&base),
            "-t",
            name,
            "-o",
            text(tar),
        ];
        let printed = opm(&arguments).ok();
        assert!(printed.starts_with("quay.io/demo/catalog@sha256:"), "{printed}");
    }
    assert_eq!(
        std::fs::read(&tars[0]).expect("file"),
        std::fs::read(&tars[1]).expect("file"),
        "same digest"
    );
    let archive = olm_oci::ImageArchive::read(&tars[0]).expect("archive");
    let config = archive.config().expect("config").config;
    assert_eq!(config.entrypoint, ["/bin/opm"]);
    assert_eq!(config.cmd, ["serve", "/configs", "--cache-dir=/tmp/cache"]);
    assert_eq!(config.user, "1001");
    assert_eq!(
        config.labels["operators.operatorframework.io.index.configs.v1"],
        "/configs"
    );

    let root = dir.path().join("root");
    std::fs::create_dir(&root).expect("folder");
    extract(&archive, &root);
    let cache = format!("--cache-dir={}", text(&root.join("tmp/cache")));
    let serving = Serving::start(&[text(&root.join("configs")), &cache]);
    assert_eq!(bundles(&serving).await.len(), 2);
    assert_eq!(serving.stop(), 0);
    // Upstream's opm uses it, too: the digest covers the files as they are in the image.
    let upstream = root.join("tmp/cache");
    let digest = std::fs::read_to_string(upstream.join("digest")).expect("digest");
    let computed = olm_registry::cache::upstream::digest(&root.join("configs"), &upstream.join("cache"));
    assert_eq!(digest, computed.expect("digest"));
}

#[test]
fn no_catalog_image_is_made_of_a_broken_catalog_or_around_a_dynamic_program() {
    let dir = tempfile::tempdir().expect("folder");
    let catalog = catalog(dir.path(), &["1.0.0"]);
    let tar = dir.path().join("out.tar");
    let mut arguments = vec![
        "alpha",
        "image",
        "catalog",
        text(&catalog),
        "-t",
        "quay.io/a/b:v1",
        "-o",
        text(&tar),
    ];
    if !cfg!(target_feature = "crt-static") {
        let error = opm(&arguments).fails();
        assert!(
            error.contains("linked dynamically") && error.contains("--opm-image"),
            "{error}"
        );
    }
    let base = dir.path().join("opm.tar");
    stand_in_for_an_opm_image(&base);
    arguments.extend(["--opm-image", text(&base)]);
    std::fs::write(
        catalog.join("broken.json"),
        r#"{"schema": "olm.channel", "name": "x", "package": "nope"}"#,
    )
    .expect("file");
    let error = opm(&arguments).fails();
    assert!(
        error.contains("unknown package \"nope\" for channel \"x\""),
        "{error}"
    );
    assert!(!tar.exists());
}

#[test]
fn a_damaged_cache_is_refused_or_rebuilt_as_the_flag_says() {
    let dir = tempfile::tempdir().expect("folder");
    let catalog = catalog(dir.path(), &["1.0.0"]);
    let cache = dir.path().join("cache");
    let flag = format!("--cache-dir={}", text(&cache));
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
    let serving = Serving::start_as(without_a_writable_folder(), &[text(&catalog)]);
    assert_eq!(bundles(&serving).await.len(), 2);
    assert_eq!(serving.stop(), 0);
    // Upstream's caches, in both of its layouts, as images contain them.
    for folders in [&["pogreb.v1/db"][..], &["cache"]] {
        let cache = dir.path().join(folders[0].replace('/', "-"));
        for folder in folders {
            std::fs::create_dir_all(cache.join(folder)).expect("folder");
        }
        std::fs::write(cache.join("digest"), "0123456789abcdef").expect("file");
        let before = files_of(&cache);
        let flag = format!("--cache-dir={}", text(&cache));
        let serving = Serving::start_as(without_a_writable_folder(), &[text(&catalog), &flag]);
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
        let serving = Serving::start_as(without_a_writable_folder(), arguments);
        assert_eq!(bundles(&serving).await.len(), 2);
        assert_eq!(serving.stop(), 0);
    }
    opm(&["serve", text(&catalog), flag, "--cache-only"]).fails();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cache_that_fits_is_only_read() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    let dir = tempfile::tempdir().expect("folder");
    let catalog = catalog(dir.path(), &["1.0.0"]);
    let cache = dir.path().join("cache");
    let flag = format!("--cache-dir={}", text(&cache));
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
        let serving = Serving::start_as(without_a_writable_folder(), &[text(&catalog), &flag, more]);
        assert_eq!(bundles(&serving).await, ["demo/stable/demo.v1.0.0"]);
        assert_eq!(serving.stop(), 0);
        opm(&["serve", text(&catalog), &flag, "--cache-only", more]).ok();
        assert_eq!(state(), before, "{more}");
    }
    std::fs::set_permissions(&cache, std::fs::Permissions::from_mode(0o755)).expect("mode");
}

#[test]
fn no_altered_byte_of_a_cache_is_served() {
    let dir = tempfile::tempdir().expect("folder");
    let catalog = catalog(dir.path(), &["1.0.0"]);
    let cache = dir.path().join("cache");
    let flag = format!("--cache-dir={}", text(&cache));
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
    let dir = tempfile::tempdir().expect("folder");
    let catalog = catalog(dir.path(), &["1.0.0"]);
    let cache = dir.path().join("cache");
    let flag = format!("--cache-dir={}", text(&cache));
    opm(&["serve", text(&catalog), &flag, "--cache-only"]).ok();
    let index = cache.join(olm_registry::cache::INDEX_FILE);
    let mut other = std::fs::read(&index).expect("index");
    other[8] += 1;
    std::fs::write(&index, &other).expect("index");
    let serving = Serving::start(&[text(&catalog), &flag]);
    assert_eq!(bundles(&serving).await, ["demo/stable/demo.v1.0.0"]);
    assert_eq!(serving.stop(), 0);
    assert_eq!(std::fs::read(&index).expect("index"), other, "left alone");
    // Images that only our program serves have no other cache.
    std::fs::remove_file(cache.join("digest")).expect("removed");
    let serving = Serving::start(&[text(&catalog), &flag]);
    assert_eq!(bundles(&serving).await, ["demo/stable/demo.v1.0.0"]);
    assert_eq!(serving.stop(), 0);
    let error = opm(&["serve", text(&catalog), &flag, "--cache-enforce-integrity"]).fails();
    assert!(
        error.contains("integrity check failed") && error.contains(&format!("has format {}", other[8])),
        "{error}"
    );
    opm(&["serve", text(&catalog), &flag, "--cache-only"]).ok();
    assert_ne!(std::fs::read(&index).expect("index")[8], other[8], "rebuilt");
}

/// Writes the keys of a ConfigMap as a node mounts them: links into a folder that is replaced as a whole.
fn mounted(root: &Path, texts: &[(&str, &str)]) {
    let hidden = root.join("..2026_11_22");
    std::fs::create_dir_all(&hidden).expect("folder");
    std::os::unix::fs::symlink("..2026_11_22", root.join("..data")).expect("link");
    for (key, content) in texts {
        std::fs::write(hidden.join(key), content).expect("file");
        std::os::unix::fs::symlink(Path::new("..data").join(key), root.join(key)).expect("link");
    }
}

const DEMO_CRDS: &str = "
- apiVersion: apiextensions.k8s.io/v1
  kind: CustomResourceDefinition
  metadata: {name: demos.example.com}
  spec:
    group: example.com
    names: {kind: Demo, plural: demos}
    versions: [{name: v1, served: true, storage: true}]
";

const DEMO_CSVS: &str = r#"
- apiVersion: operators.coreos.com/v1alpha1
  kind: ClusterServiceVersion
  metadata: {name: demo.v1.0.0}
  spec:
    version: 1.0.0
    customresourcedefinitions: {owned: [{name: demos.example.com, version: v1, kind: Demo}]}
- apiVersion: operators.coreos.com/v1alpha1
  kind: ClusterServiceVersion
  metadata: {name: demo.v1.1.0, annotations: {olm.skipRange: "<1.1.0"}}
  spec:
    version: 1.1.0
    replaces: demo.v1.0.0
    customresourcedefinitions: {owned: [{name: demos.example.com, version: v1, kind: Demo}]}
"#;

const DEMO_PACKAGES: &str = "
- packageName: demo
  channels: [{name: stable, currentCSV: demo.v1.1.0}]
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cat_009_the_catalog_of_a_mounted_config_map_is_served() {
    use tokio_stream::StreamExt as _;
    let dir = tempfile::tempdir().expect("folder");
    mounted(
        dir.path(),
        &[
            ("customResourceDefinitions", DEMO_CRDS),
            ("clusterServiceVersions", DEMO_CSVS),
            ("packages", DEMO_PACKAGES),
            ("other", "{{ nobody reads this"),
        ],
    );
    let serving = Serving::start_command(program(), "serve-configmap", &[text(dir.path())]);
    let client = serving.client();
    let package = client.get_package("demo").await.expect("answered");
    assert_eq!(package.default_channel_name, "stable");
    assert_eq!(package.channels[0].csv_name, "demo.v1.1.0");
    let listed: Vec<_> = client.list_bundles().await.expect("answered").collect().await;
    let listed: Vec<_> = listed.into_iter().map(|bundle| bundle.expect("bundle")).collect();
    let [first, second] = &listed[..] else {
        panic!("two bundles: {listed:?}")
    };
    assert_eq!(first.csv_name, "demo.v1.0.0");
    assert_eq!(second.replaces, "demo.v1.0.0");
    assert_eq!(second.skip_range, "<1.1.0");
    assert_eq!(second.bundle_path, "");
    assert_eq!(second.version, "1.1.0");
    assert_eq!(second.provided_apis[0].kind, "Demo");
    // The manifests are inline, because there is no image.
    assert!(second.csv_json.contains("demo.v1.1.0"));
    assert_eq!(second.object.len(), 2);
    assert_eq!(serving.stop(), 0);
}

#[test]
fn cat_009_a_config_map_that_is_no_catalog_is_told_in_the_termination_log() {
    let dir = tempfile::tempdir().expect("folder");
    mounted(
        dir.path(),
        &[
            ("customResourceDefinitions", ""),
            ("clusterServiceVersions", DEMO_CSVS),
        ],
    );
    let log = dir.path().join("log");
    let serve = || opm(&["serve-configmap", text(dir.path()), "-t", text(&log)]).fails();
    assert!(serve().contains("couldn't find expected key packages in configmap"));
    std::fs::write(dir.path().join("packages"), DEMO_PACKAGES).expect("file");
    let error = serve();
    let cause = "couldn't find owned CRD in crd list: demo.v1.0.0 owns demos.example.com/v1 (Demo)";
    assert!(error.contains(cause), "{error}");
    let logged = std::fs::read_to_string(&log).expect("log");
    assert!(
        logged.trim().ends_with(cause) && logged.lines().count() == 1,
        "{logged}"
    );
    let error = opm(&["serve-configmap", "/nonexistent", "-t", text(&log)]).fails();
    assert!(error.contains("/nonexistent is not a directory"), "{error}");
}
