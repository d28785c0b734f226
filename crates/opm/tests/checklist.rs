//! Promises of the documents about `opm`, one test per promise.

#![allow(
    clippy::panic,
    clippy::needless_pass_by_value,
    clippy::semicolon_if_nothing_returned,
    reason = "tests"
)]

#[path = "../../olm-oci/tests/support/mod.rs"]
mod registry;
mod support;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use registry::Registry;
use support::{catalog, mirror, opm, program, ran, text};

/// Pushes a catalog image without a program; returns its name with digest.
fn push_catalog(dir: &Path, catalog: &Path, name: &str, hosts: &Path) -> String {
    let tar = dir.join("catalog.tar");
    let mut layer = olm_oci::LayerSpec::new();
    layer.tree("configs", catalog).expect("files");
    let label = "operators.operatorframework.io.index.configs.v1";
    let image = olm_oci::ImageSpec {
        base: None,
        layers: vec![layer],
        config: olm_oci::RunConfig {
            labels: [(label.to_owned(), "/configs".to_owned())].into(),
            ..Default::default()
        },
    };
    image.build().expect("image").write(&tar, None).expect("written");
    let pushed = opm(&[
        "alpha",
        "image",
        "push",
        text(&tar),
        name,
        "--registry-config",
        text(hosts),
    ])
    .ok();
    pushed.trim().to_owned()
}

#[test]
fn opm_001_render_writes_the_catalog_of_an_image_also_by_digest() {
    let Some(registry) = Registry::start(None) else {
        return;
    };
    let dir = tempfile::tempdir().expect("folder");
    let hosts = mirror(dir.path(), &registry.address);
    let catalog = catalog(dir.path(), &["1.0.0"]);
    let name = "quay.io/demo/catalog:latest";
    let pinned = push_catalog(dir.path(), &catalog, name, &hosts);
    assert!(pinned.starts_with("quay.io/demo/catalog@sha256:"), "{pinned}");
    let expected = opm(&["render", text(&catalog)]).ok();
    for reference in [name, &pinned] {
        let rendered = opm(&["render", reference, "--registry-config", text(&hosts)]).ok();
        assert_eq!(rendered, expected, "{reference}");
    }
}

/// Executes the instructions of a Dockerfile in a folder instead of an image, and returns the command to run.
fn build_by_hand(dockerfile: &str, context: &Path, root: &Path) -> Vec<String> {
    let place = |path: &str| root.join(path.trim_start_matches('/'));
    let words = |list: &str| -> Vec<String> { serde_json::from_str(list).expect("list of words") };
    let mapped = |words: &[String]| -> Vec<String> {
        words
            .iter()
            .map(|word| match word.split_once('/') {
                Some((flag, path)) => format!("{flag}{}", place(path).display()),
                None => word.clone(),
            })
            .collect()
    };
    let (mut entrypoint, mut command) = (Vec::new(), Vec::new());
    for line in dockerfile.lines() {
        match line.split_once(' ') {
            Some(("ADD", rest)) => {
                let (from, to) = rest.split_once(' ').expect("two paths");
                let copied = Command::new("cp")
                    .arg("-r")
                    .arg(context.join(from))
                    .arg(place(to))
                    .status();
                assert!(copied.expect("cp runs").success());
            }
            Some(("RUN", list)) => {
                let words = words(list);
                assert_eq!(words[0], "/bin/opm");
                ran(&program().args(mapped(&words[1..])).output().expect("opm runs")).ok();
            }
            Some(("ENTRYPOINT", list)) => entrypoint = words(list),
            Some(("CMD", list)) => command = mapped(&words(list)),
            // Both stages are one folder here, so files copied between them are already in place.
            Some(("FROM" | "COPY" | "LABEL" | "#", _)) | None => {}
            Some((other, _)) => panic!("unknown instruction {other}"),
        }
    }
    assert_eq!(entrypoint, ["/bin/opm"]);
    command
}

/// A process that is killed at the end of the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opm_002_the_generated_dockerfile_gives_an_image_that_serves_the_catalog() {
    let dir = tempfile::tempdir().expect("folder");
    let catalog = catalog(dir.path(), &["1.0.0", "1.1.0"]);
    opm(&["generate", "dockerfile", text(&catalog)]).ok();
    let dockerfile = std::fs::read_to_string(dir.path().join("catalog.Dockerfile")).expect("Dockerfile");
    let root = tempfile::tempdir().expect("folder");
    std::fs::create_dir(root.path().join("tmp")).expect("folder");
    let command = build_by_hand(&dockerfile, dir.path(), root.path());
    // A container's root is read-only.
    let readonly = Command::new("chmod")
        .args(["-R", "a-w"])
        .arg(root.path())
        .status();
    assert!(readonly.expect("chmod runs").success());
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .expect("port")
        .port();
    let mut serving = program();
    serving
        .args(&command)
        .args(["--port", &port.to_string()])
        .stderr(Stdio::null());
    let mut serving = Running(serving.spawn().expect("opm runs"));
    let endpoint = tonic::transport::Endpoint::from_shared(format!("http://127.0.0.1:{port}"));
    let client = olm_registry::client::Client::new(endpoint.expect("address").connect_lazy());
    let deadline = Instant::now() + Duration::from_secs(30);
    let packages = loop {
        if let Ok(packages) = client.list_packages().await {
            break packages;
        }
        assert!(
            Instant::now() < deadline && serving.0.try_wait().expect("state").is_none(),
            "opm does not serve"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(packages, ["demo"]);
    assert_eq!(
        client.get_package("demo").await.expect("package").channels[0].csv_name,
        "demo.v1.1.0"
    );
    let _ = Command::new("chmod")
        .args(["-R", "u+w"])
        .arg(root.path())
        .status();
}

/// The script of the documents, word for word; only the tools around `opm` are replaced.
const SCRIPT: &str = r#"set -e
name=$(yq eval '.name' catalog.yaml)
mkdir "$name"
yq eval '.name + "/" + .references[].name' catalog.yaml | xargs mkdir
for l in $(yq e '.name as $catalog | .references[] | .image + "|" + $catalog + "/" + .name + "/index.yaml"' catalog.yaml); do
  image=$(echo $l | cut -d'|' -f1)
  file=$(echo $l | cut -d'|' -f2)
  opm render "$image" > "$file"
done
opm generate dockerfile "$name"
indexImage=$(yq eval '.repo + ":" + .tag' catalog.yaml)
docker build -t "$indexImage" -f "$name.Dockerfile" .
docker push "$indexImage"
"#;

/// Answers the script's queries for one reference, from the lines of the configuration.
const YQ: &str = r#"#!/bin/sh
value() { sed -n "s/^ *-* *$1: //p" catalog.yaml | sed -n "$2p"; }
case "$2" in
  .name) value name 1 ;;
  '.name + "/" + '*) echo "$(value name 1)/$(value name 2)" ;;
  '.name as '*) echo "$(value image 1)|$(value name 1)/$(value name 2)/index.yaml" ;;
  .repo*) echo "$(value repo 1):$(value tag 1)" ;;
  *) echo "unknown question $2" >&2; exit 1 ;;
esac
"#;

#[test]
fn opm_003_the_example_script_works_unchanged() {
    use std::os::unix::fs::PermissionsExt as _;
    let Some(registry) = Registry::start(None) else {
        return;
    };
    let dir = tempfile::tempdir().expect("folder");
    let hosts = mirror(dir.path(), &registry.address);
    let source = catalog(dir.path(), &["1.0.0"]);
    let image = push_catalog(dir.path(), &source, "quay.io/demo/index:latest", &hosts);
    let tools = dir.path().join("tools");
    std::fs::create_dir(&tools).expect("folder");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_opm"), tools.join("opm")).expect("link");
    for (name, script) in [("yq", YQ), ("docker", "#!/bin/sh\necho \"$@\" >> docker.log\n")] {
        std::fs::write(tools.join(name), script).expect("tool");
        std::fs::set_permissions(tools.join(name), std::fs::Permissions::from_mode(0o755)).expect("mode");
    }
    let work = dir.path().join("work");
    std::fs::create_dir(&work).expect("folder");
    let configuration = format!(
        "name: operatorhub\nrepo: quay.io/operatorhubio/catalog\ntag: latest\nreferences:\n- name: demo-operator\n  image: {image}\n"
    );
    std::fs::write(work.join("catalog.yaml"), configuration).expect("configuration");
    let output = Command::new("sh")
        .args(["-c", SCRIPT])
        .current_dir(&work)
        .env_clear()
        .env("PATH", format!("{}:/usr/bin:/bin", tools.display()))
        .env("HOME", "/nonexistent")
        .env("OPM_REGISTRY_CONFIG", &hosts)
        .output()
        .expect("sh runs");
    ran(&output).ok();
    assert_eq!(
        std::fs::read_to_string(work.join("operatorhub/demo-operator/index.yaml")).expect("catalog"),
        opm(&["render", text(&source)]).ok()
    );
    assert_eq!(opm(&["validate", text(&work.join("operatorhub"))]).ok(), "");
    assert_eq!(
        std::fs::read_to_string(work.join("docker.log")).expect("docker was called"),
        "build -t quay.io/operatorhubio/catalog:latest -f operatorhub.Dockerfile .\npush quay.io/operatorhubio/catalog:latest\n"
    );
    assert!(work.join("operatorhub.Dockerfile").is_file());
}

#[test]
fn opm_004_validate_reports_by_exit_code() {
    let dir = tempfile::tempdir().expect("folder");
    let catalog = catalog(dir.path(), &["1.0.0"]);
    assert_eq!(opm(&["validate", text(&catalog)]).code, 0);
    std::fs::write(catalog.join("more.yaml"), "schema: olm.package\nname: other\n").expect("file");
    let invalid = opm(&["validate", text(&catalog)]);
    assert_eq!(invalid.code, 1);
    assert!(
        invalid.stderr.contains("invalid package \"other\""),
        "{}",
        invalid.stderr
    );
}

#[test]
fn opm_005_validate_fails_on_duplicate_packages_and_bundles() {
    let dir = tempfile::tempdir().expect("folder");
    let catalog = catalog(dir.path(), &["1.0.0"]);
    let blobs = std::fs::read_to_string(catalog.join("catalog.json")).expect("catalog");
    std::fs::write(catalog.join("copy.json"), blobs).expect("copy");
    let error = opm(&["validate", text(&catalog)]).fails();
    for expected in [
        "duplicate package \"demo\"",
        "has duplicate bundle \"demo.v1.0.0\"",
        "duplicate channel \"stable\"",
    ] {
        assert!(error.contains(expected), "{expected} is missing in {error}");
    }
}
