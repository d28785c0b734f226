//! Runs the real `opm` and creates input for it.

#![allow(dead_code, reason = "each test file uses its part")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Result of a run of `opm`.
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    pub fn ok(self) -> String {
        assert_eq!(self.code, 0, "stderr: {}", self.stderr);
        self.stdout
    }

    pub fn fails(self) -> String {
        assert_eq!(self.code, 1, "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        assert_eq!(self.stdout, "", "a failure writes no data");
        self.stderr
    }
}

pub fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_opm"));
    // The user's own registries and credentials must not affect a test.
    command
        .env_clear()
        .env("HOME", "/nonexistent")
        .env("COLUMNS", "100");
    command
}

pub fn opm(arguments: &[&str]) -> Ran {
    ran(&program().args(arguments).output().expect("opm runs"))
}

pub fn ran(output: &Output) -> Ran {
    Ran {
        code: output.status.code().expect("exit code"),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

pub fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Creates a bundle directory of package `demo` with one CRD and a Deployment.
pub fn bundle(root: &Path, version: &str) -> PathBuf {
    let dir = root.join(format!("demo-{version}"));
    for folder in ["manifests", "metadata"] {
        std::fs::create_dir_all(dir.join(folder)).expect("folder");
    }
    let csv = format!(
        r"apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata:
  name: demo.v{version}
spec:
  displayName: Demo
  description: Greets version {version}.
  icon: [{{base64data: PHN2Zy8+, mediatype: image/svg+xml}}]
  version: {version}
  customresourcedefinitions:
    owned:
      - {{name: things.demo.example.com, kind: Thing, version: v1}}
  installModes:
    - {{type: OwnNamespace, supported: true}}
  install:
    strategy: deployment
    spec:
      deployments:
        - name: demo
          spec:
            selector: {{matchLabels: {{app: demo}}}}
            template:
              metadata: {{labels: {{app: demo}}}}
              spec:
                containers:
                  - {{name: demo, image: 'quay.io/demo/operator:{version}'}}
"
    );
    let crd = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: things.demo.example.com
spec:
  group: demo.example.com
  names: {kind: Thing, plural: things, singular: thing, listKind: ThingList}
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object}}
";
    let annotations = "annotations:
  operators.operatorframework.io.bundle.mediatype.v1: registry+v1
  operators.operatorframework.io.bundle.manifests.v1: manifests/
  operators.operatorframework.io.bundle.metadata.v1: metadata/
  operators.operatorframework.io.bundle.package.v1: demo
  operators.operatorframework.io.bundle.channels.v1: stable
";
    std::fs::write(dir.join("manifests/demo.clusterserviceversion.yaml"), csv).expect("file");
    std::fs::write(dir.join("manifests/things.crd.yaml"), crd).expect("file");
    std::fs::write(dir.join("metadata/annotations.yaml"), annotations).expect("file");
    dir
}

/// Creates a catalog of that package with `opm init` and `opm render`, and its channel.
pub fn catalog(root: &Path, versions: &[&str]) -> PathBuf {
    let dir = root.join("catalog");
    std::fs::create_dir_all(&dir).expect("folder");
    let mut blobs = opm(&["init", "demo", "-c", "stable"]).ok();
    for version in versions {
        let bundle = bundle(root, version);
        let template = "quay.io/demo/bundle:v{{.Version}}";
        blobs += &opm(&["render", text(&bundle), "--alpha-image-ref-template", template]).ok();
    }
    let mut replaces = String::new();
    let mut entries = Vec::new();
    for version in versions {
        entries.push(format!(r#"{{"name": "demo.v{version}"{replaces}}}"#));
        replaces = format!(r#", "replaces": "demo.v{version}""#);
    }
    let entries = entries.join(",");
    blobs += &format!(
        r#"{{"schema": "olm.channel", "package": "demo", "name": "stable", "entries": [{entries}]}}"#
    );
    std::fs::write(dir.join("catalog.json"), blobs).expect("file");
    dir
}

/// Creates a folder of registry configuration below `dir`, in which the registry at `address` mirrors all others.
pub fn mirror(dir: &Path, address: &str) -> PathBuf {
    let folder = dir.join("hosts/_default");
    std::fs::create_dir_all(&folder).expect("folder");
    let hosts = format!("[host.\"http://{address}\"]\ncapabilities = [\"pull\", \"resolve\", \"push\"]\n");
    std::fs::write(folder.join("hosts.toml"), hosts).expect("file");
    dir.join("hosts")
}

/// Runs a line of bash in `dir`; `opm` in it is the program.
pub fn bash(dir: &Path, line: &str) -> Ran {
    let own = Path::new(env!("CARGO_BIN_EXE_opm")).parent().expect("folder");
    let output = Command::new("bash")
        .args(["-c", line])
        .current_dir(dir)
        .env_clear()
        .env("HOME", "/nonexistent")
        .env("PATH", format!("{}:/usr/bin:/bin", own.display()))
        .output();
    ran(&output.expect("bash runs"))
}
