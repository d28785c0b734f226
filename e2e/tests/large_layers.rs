//! Installs a bundle image with a layer far above the limit in memory, with the operator as it is deployed. Its root is
//! read-only, and its only folder is that of its cache.

use e2e::lab::{Lab, catalog_source, condition, operator_group, subscription};
use e2e::operator::{Operator, assert_no_restart};
use e2e::variant::Variant;
use xtask::kubectl::text;

/// Characters of the large file; six bits of each are random, so it has 20 MB compressed.
const CHARACTERS: usize = 27_000_000;

fn noise() -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(ALPHABET[(state >> 58) as usize])
    })
    .take(CHARACTERS)
    .collect()
}

#[test]
fn a_bundle_image_with_a_layer_of_20_mb_is_installed() -> anyhow::Result<()> {
    const NAME: &str = "large-layer";
    let lab = Lab::shared()?;
    let before = Operator::all(lab.kubectl())?;
    let home = lab.folder(NAME)?;
    let described = Variant::new(NAME, &home.join("described"))?;
    let pushed = described.copy_to(&home.join("pushed"))?;
    // Beside the manifests, where published images have tests and documents.
    pushed.add("notes.txt", &noise())?;
    let image = described.image("v1");
    let tar = home.join("bundle.tar");
    pushed.write_image(&tar)?;
    let bytes = std::fs::metadata(&tar)?.len();
    assert!(bytes > 20_000_000, "the image has {bytes} bytes only");
    lab.cluster().load(&tar, std::slice::from_ref(&image))?;

    let catalog = format!("olm.local/{NAME}-catalog:v1");
    let folder = home.join("catalog");
    lab.opm().write_catalog(&[described.package(&image)], &folder)?;
    let tar = home.join("catalog.tar");
    lab.opm()
        .catalog_image(&folder, lab.opm_image(), &catalog, &tar)?;
    lab.cluster().load(&tar, std::slice::from_ref(&catalog))?;

    let namespace = lab.namespace(NAME)?;
    namespace.apply(&[
        catalog_source("catalog", &catalog),
        operator_group("group", &[namespace.name()]),
        subscription("wanted", NAME, "stable", "catalog", namespace.name()),
    ])?;
    let installed = namespace.wait_for_phase(&described.csv(), "Succeeded");
    let seen = namespace.get("subscription", "wanted")?.unwrap_or_default();
    let failure =
        condition(&seen, "BundleUnpackFailed").map(|condition| text(condition, "/message").to_owned());
    assert_eq!(failure, None);
    installed?;
    let _ = lab.kubectl().run(&[
        "delete",
        "crd",
        &described.definition(),
        "--ignore-not-found",
        "--wait=false",
    ]);
    assert_no_restart(lab.kubectl(), &before)
}
