//! No bytes make the reader of image archives panic or hang.

#![allow(
    clippy::panic,
    clippy::needless_pass_by_value,
    clippy::semicolon_if_nothing_returned,
    reason = "tests"
)]

#[path = "../../olm-fbc/tests/fuzzing/mod.rs"]
mod fuzzing;

use olm_oci::{ImageArchive, ImageSpec, LayerSpec, Reference, RunConfig};

#[test]
fn archives_of_any_kind() {
    let dir = tempfile::tempdir().expect("folder");
    let path = dir.path().join("image.tar");
    let mut layer = LayerSpec::new();
    layer
        .file("manifests/csv.yaml", "kind: ClusterServiceVersion\n", 0o644, 0)
        .expect("file");
    layer.link("manifests/link.yaml", "csv.yaml").expect("link");
    let image = ImageSpec {
        base: None,
        layers: vec![layer],
        config: RunConfig::default(),
    };
    let image = image.build().expect("image");
    let name: Reference = "quay.io/x/y:v1".parse().expect("reference");
    image.write(&path, Some(&name)).expect("written");
    let seeds = vec![std::fs::read(&path).expect("archive"), b"no archive".to_vec()];
    let words = [
        "\0\0\0\0",
        "ustar",
        "index.json",
        "oci-layout",
        "../",
        "7777777",
        "sha256:",
        "{}",
        "[]",
    ];
    fuzzing::fuzz("archive", &seeds, &words, |input| {
        std::fs::write(&path, input).expect("file");
        if let Ok(archive) = ImageArchive::read(&path) {
            let _ = archive.config();
            assert!(archive.size() < 1 << 24);
        }
    });
}
