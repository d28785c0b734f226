//! Bundle and catalog images through a real registry.

#[path = "../../olm-oci/tests/support/mod.rs"]
mod registry;
mod support;

use registry::Registry;
use support::{bundle, catalog, mirror, opm, text};

#[test]
fn a_bundle_image_renders_like_its_directory() {
    let Some(registry) = Registry::start(None) else {
        return;
    };
    let dir = tempfile::tempdir().expect("folder");
    let bundle = bundle(dir.path(), "1.0.0");
    let name = "quay.io/demo/bundle:v1";
    let hosts = mirror(dir.path(), &registry.address);
    let pushed = opm(&[
        "alpha",
        "image",
        "bundle",
        text(&bundle),
        "-t",
        name,
        "--push",
        "--registry-config",
        text(&hosts),
    ])
    .ok();
    assert!(pushed.starts_with("quay.io/demo/bundle@sha256:"), "{pushed}");

    for reference in [name, pushed.trim()] {
        let output = opm(&["render", reference, "--registry-config", text(&hosts)]).ok();
        let blob: serde_json::Value = serde_json::from_str(&output).expect("one JSON document");
        assert_eq!(blob["image"], reference);
        let images: Vec<&str> = blob["relatedImages"]
            .as_array()
            .expect("list")
            .iter()
            .filter_map(|i| i["image"].as_str())
            .collect();
        assert!(
            images.contains(&reference) && images.contains(&"quay.io/demo/operator:1.0.0"),
            "{images:?}"
        );
        let directory: serde_json::Value =
            serde_json::from_str(&opm(&["render", text(&bundle)]).ok()).expect("one JSON document");
        assert_eq!(blob["properties"], directory["properties"]);
    }
}

#[test]
fn images_that_hold_neither_bundle_nor_catalog_are_told() {
    let Some(registry) = Registry::start(None) else {
        return;
    };
    let dir = tempfile::tempdir().expect("folder");
    let cases = [
        (None, "has no labels"),
        (
            Some("maintainer"),
            "image type could not be determined, found labels maintainer",
        ),
        (
            Some("operators.operatorframework.io.index.database.v1"),
            "is no catalog: it has no table package",
        ),
    ];
    for (number, (label, expected)) in cases.into_iter().enumerate() {
        let tar = dir.path().join("image.tar");
        let labels = label
            .map(|label| (label.to_owned(), "x".to_owned()))
            .into_iter()
            .collect();
        let config = olm_oci::RunConfig {
            labels,
            ..Default::default()
        };
        let mut layer = olm_oci::LayerSpec::new();
        layer.file("x", "x", 0o644, 0).expect("file");
        let image = olm_oci::ImageSpec {
            base: None,
            layers: vec![layer],
            config,
        }
        .build()
        .expect("image");
        image.write(&tar, None).expect("written");
        let name = format!("{}/x/y:v{number}", registry.address);
        opm(&["alpha", "image", "push", text(&tar), &name]).ok();
        let error = opm(&["render", &name]).fails();
        assert!(error.contains(expected) && error.contains(&name), "{error}");
    }
    let missing = format!("{}/x/y:none", registry.address);
    let error = opm(&["render", &missing]).fails();
    assert!(
        error.contains("not found (HTTP 404): manifest unknown") && error.contains(&missing),
        "{error}"
    );
}

#[test]
fn a_catalog_image_renders_like_its_directory() {
    let Some(registry) = Registry::start(None) else {
        return;
    };
    let dir = tempfile::tempdir().expect("folder");
    let catalog = catalog(dir.path(), &["1.0.0", "1.1.0"]);
    let base = dir.path().join("opm.tar");
    let mut layer = olm_oci::LayerSpec::new();
    layer.file("bin/opm", "program", 0o755, 0).expect("file");
    let image = olm_oci::ImageSpec {
        layers: vec![layer],
        ..Default::default()
    }
    .build()
    .expect("image");
    image.write(&base, None).expect("written");
    let name = format!("{}/demo/catalog:v1", registry.address);
    opm(&[
        "alpha",
        "image",
        "catalog",
        text(&catalog),
        "--opm-image",
        text(&base),
        "-t",
        &name,
        "--push",
    ])
    .ok();
    assert_eq!(
        opm(&["render", &name]).ok(),
        opm(&["render", text(&catalog)]).ok()
    );
}
