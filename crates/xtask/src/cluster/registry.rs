//! OCI registry of the cluster: plain HTTP on the node's address, without authentication.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::address::REGISTRY;
use super::layout::Layout;
use super::processes::Program;
use super::{config_file, network};
use crate::process;

/// Maximum number of attempts to push an image.
const PUSHES: usize = 3;

/// Writes the registry's configuration.
///
/// # Errors
/// The file cannot be written.
pub(super) fn configure(layout: &Layout) -> anyhow::Result<()> {
    config_file::write_json(&config_path(layout), &render_config(layout))
}

pub(super) fn program(layout: &Layout) -> Program {
    Program::new(
        "docker-registry",
        [
            "docker-registry".to_owned(),
            "serve".to_owned(),
            config_path(layout).display().to_string(),
        ],
    )
}

fn config_path(layout: &Layout) -> PathBuf {
    // The registry reads YAML, and JSON is valid YAML.
    layout.config().join("registry.yml")
}

fn render_config(layout: &Layout) -> Value {
    json!({
        "version": 0.1,
        "log": { "level": "warn", "accesslog": { "disabled": true } },
        "storage": {
            "filesystem": { "rootdirectory": layout.state().join("registry") },
            "delete": { "enabled": true },
        },
        "http": { "addr": REGISTRY },
    })
}

/// Pushes an image tar (OCI layout or `docker save`) under each of `references`.
///
/// # Errors
/// The tar holds not exactly one image, a reference is malformed, or the push fails.
pub(super) fn push(layout: &Layout, tar: &Path, references: &[String]) -> anyhow::Result<()> {
    // `docker save` writes no manifest, so there is no digest to preserve.
    let (transport, preserve) = if is_oci_layout(tar) {
        ("oci-archive", Some("--preserve-digests"))
    } else {
        ("docker-archive", None)
    };
    for reference in references {
        let mut skopeo = network::enter(layout, "skopeo");
        skopeo
            .args(["--insecure-policy", "copy", "--quiet", "--all"])
            .arg("--dest-tls-verify=false")
            .args(preserve)
            .arg(format!("{transport}:{}", tar.display()))
            .arg(format!("docker://{REGISTRY}/{}", repository_path(reference)))
            .env_remove("HTTP_PROXY")
            .env_remove("http_proxy");
        // With concurrent pushes the registry sometimes does not find a blob that was just pushed to another repository.
        let mut pushed = process::run(&mut skopeo);
        for _ in 1..PUSHES {
            if pushed.is_err() {
                pushed = process::run(&mut skopeo);
            }
        }
        pushed.with_context(|| format!("cannot push {} as {reference}", tar.display()))?;
    }
    Ok(())
}

/// Returns true for the tar of an OCI layout.
fn is_oci_layout(tar: &Path) -> bool {
    let mut list = Command::new("tar");
    list.arg("--list")
        .arg("--file")
        .arg(tar)
        .args(["--wildcards", "*oci-layout"]);
    process::run(&mut list).is_ok()
}

/// Returns the path in the cluster's registry of an image that pods request as `reference`. It is the path without the registry's
/// name, with Docker's rules for short names.
fn repository_path(reference: &str) -> String {
    let (first, rest) = reference.split_once('/').unwrap_or(("", reference));
    let is_registry = first.contains(['.', ':']) || first == "localhost";
    match (is_registry, first) {
        (true, "docker.io") if !rest.contains('/') => format!("library/{rest}"),
        (true, _) => rest.to_owned(),
        (false, "") => format!("library/{rest}"),
        (false, _) => reference.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn registry_names_are_dropped_from_references() {
        for (reference, path) in [
            (
                "quay.io/operatorhubio/catalog:latest",
                "operatorhubio/catalog:latest",
            ),
            ("docker.io/bitnami/nginx:1", "bitnami/nginx:1"),
            ("docker.io/nginx", "library/nginx"),
            ("nginx:1.27", "library/nginx:1.27"),
            ("bitnami/nginx", "bitnami/nginx"),
            ("localhost:5000/a/b/c", "a/b/c"),
            ("localhost/a", "a"),
            ("ghcr.io/a/b@sha256:00", "a/b@sha256:00"),
        ] {
            assert_eq!(repository_path(reference), path, "{reference}");
        }
    }

    #[test]
    fn the_kind_of_an_image_is_determined_by_its_files() {
        let folder = tempfile::tempdir().unwrap();
        for (name, is_oci) in [
            ("oci-layout", true),
            ("./oci-layout", true),
            ("manifest.json", false),
        ] {
            let path = folder.path().join("x.tar");
            let mut archive = tar::Builder::new(fs::File::create(&path).unwrap());
            let mut header = tar::Header::new_gnu();
            header.set_size(0);
            archive.append_data(&mut header, name, &b""[..]).unwrap();
            archive.finish().unwrap();
            assert_eq!(is_oci_layout(&path), is_oci, "{name}");
        }
    }
}
