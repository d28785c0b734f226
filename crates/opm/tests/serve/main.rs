//! `opm serve` as its own process: queries, cache, health, shutdown, and its files after a failed start.

mod cache;
mod config_map;
#[path = "../support/mod.rs"]
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
        Self::start_command(program(), "serve", arguments)
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
        let endpoint = tonic::transport::Endpoint::from_shared(format!("http://127.0.0.1:{}", self.port));
        olm_registry::client::Client::new(endpoint.expect("address").connect_lazy())
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
fn the_probe_reports_health_by_exit_code_and_text() {
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
fn what_cannot_be_served_is_reported_in_the_termination_log() {
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
fn a_port_in_use_is_reported() {
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
