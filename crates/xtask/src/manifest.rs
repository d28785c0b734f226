//! Reads `manifests/` and adapts the objects to a destination.

use std::path::Path;

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::files;
use crate::images::BuiltImage;

/// Prefix of the image names in `manifests/` and in the demo operator's bundles.
pub const IMAGE_PREFIX: &str = "olm.local/";

/// Name of the ConfigMap with the registry configuration, and of its volume.
const REGISTRY_CONFIG: &str = "registry-config";
/// The file of the configuration, below its folder: that of all registries.
const HOSTS: &str = "_default/hosts.toml";
/// Path at which the catalog operator reads it.
const REGISTRY_CONFIG_PATH: &str = "/etc/olm/registries";

/// Returns all objects of the YAML files in `folder`, ordered by file name.
///
/// # Errors
/// A file cannot be read or parsed; the error names it.
pub fn read_folder(folder: &Path) -> anyhow::Result<Vec<Value>> {
    let mut objects = Vec::new();
    for (name, text) in files::yaml(folder)? {
        objects.extend(parse(&text).with_context(|| format!("{name} is not YAML"))?);
    }
    Ok(objects)
}

/// Returns the objects of a YAML text.
///
/// # Errors
/// It is not YAML.
pub(crate) fn parse(text: &str) -> anyhow::Result<Vec<Value>> {
    let mut objects = serde_saphyr::from_multiple::<Value>(text)?;
    objects.retain(|object| !object.is_null());
    Ok(objects)
}

/// Replaces the prefix of our image names in a text by `registry`.
pub(crate) fn rename_images_in_text(text: &str, registry: &str) -> String {
    text.replace(IMAGE_PREFIX, &format!("{}/", registry.trim_end_matches('/')))
}

/// Replaces the prefix of our image names everywhere in the objects by `registry`.
///
/// # Errors
/// `registry` has letters that no name has.
pub(crate) fn rename_images(objects: &[Value], registry: &str) -> anyhow::Result<Vec<Value>> {
    let text = serde_json::to_string(objects)?;
    Ok(serde_json::from_str(&rename_images_in_text(&text, registry))?)
}

/// Adds their digests to `images` wherever a text in the objects ends in the reference of one. With a tag alone, a running pod would
/// keep its earlier image.
///
/// # Errors
/// A digest has letters that none has.
pub(crate) fn pin_images(objects: &[Value], images: &[BuiltImage]) -> anyhow::Result<Vec<Value>> {
    let mut text = serde_json::to_string(objects)?;
    for BuiltImage {
        reference, digest, ..
    } in images
    {
        text = text.replace(&format!("{reference}\""), &format!("{reference}@{digest}\""));
    }
    Ok(serde_json::from_str(&text)?)
}

/// Gives the catalog operator the nodes' registry configuration. A ConfigMap with the `hosts.toml` in `folder` is mounted into its
/// Deployment. Returns the ConfigMap.
///
/// A hostPath volume would be shorter, but the namespace enforces the restricted profile.
///
/// # Errors
/// The file cannot be read, or the Deployment is missing or lacks a list.
pub(crate) fn mount_registry_config(objects: &mut [Value], folder: &Path) -> anyhow::Result<Value> {
    let hosts = files::read(&folder.join(HOSTS))?;
    let items = json!([{ "key": "_default.hosts.toml", "path": HOSTS }]);
    let operator = objects
        .iter_mut()
        .find(|object| object["kind"] == "Deployment" && object["metadata"]["name"] == "catalog-operator")
        .context("there is no Deployment catalog-operator")?;
    for (list, item) in [
        (
            "/volumes",
            json!({ "name": REGISTRY_CONFIG, "configMap": { "name": REGISTRY_CONFIG, "items": items } }),
        ),
        (
            "/containers/0/args",
            json!(format!("--registry-config={REGISTRY_CONFIG_PATH}")),
        ),
        (
            "/containers/0/volumeMounts",
            json!({ "name": REGISTRY_CONFIG, "mountPath": REGISTRY_CONFIG_PATH, "readOnly": true }),
        ),
    ] {
        operator
            .pointer_mut(&format!("/spec/template/spec{list}"))
            .and_then(Value::as_array_mut)
            .with_context(|| format!("the Deployment catalog-operator has no {list}"))?
            .push(item);
    }
    Ok(json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": REGISTRY_CONFIG, "namespace": "olm" },
        "data": { "_default.hosts.toml": hosts },
    }))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn the_registry_configuration_reaches_the_catalog_operator() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("_default")).unwrap();
        fs::write(
            folder.path().join(HOSTS),
            "server = \"http://example.com:5000\"\n",
        )
        .unwrap();
        let mut objects = read_folder(&crate::workspace::root().join("manifests/olm")).unwrap();
        let config = mount_registry_config(&mut objects, folder.path()).unwrap();
        assert_eq!(
            config["data"]["_default.hosts.toml"],
            "server = \"http://example.com:5000\"\n"
        );
        let deployment = objects
            .iter()
            .find(|o| o["kind"] == "Deployment" && o["metadata"]["name"] == "catalog-operator")
            .unwrap();
        let pod = &deployment["spec"]["template"]["spec"];
        let args = pod["containers"][0]["args"].as_array().unwrap();
        assert!(args.contains(&json!("--registry-config=/etc/olm/registries")));
        let volumes = pod["volumes"].as_array().unwrap();
        let volume = volumes
            .iter()
            .find(|volume| volume["name"] == REGISTRY_CONFIG)
            .unwrap();
        assert_eq!(volume["configMap"]["items"][0]["path"], HOSTS);
    }

    #[test]
    fn an_image_is_pinned_wherever_it_is_named_and_no_other() {
        let value =
            json!({"a": ["olm.local/olm:0.1.0", "--opmImage=olm.local/opm:0.1.0", "olm.local/olm:0.1.0-rc"]});
        let image = |reference: &str, digest: &str| BuiltImage {
            tar: PathBuf::new(),
            reference: reference.to_owned(),
            digest: digest.to_owned(),
        };
        let images = [
            image("olm.local/opm:0.1.0", "sha256:1"),
            image("olm.local/olm:0.1.0", "sha256:2"),
        ];
        assert_eq!(
            pin_images(&[value], &images).unwrap(),
            [
                json!({"a": ["olm.local/olm:0.1.0@sha256:2", "--opmImage=olm.local/opm:0.1.0@sha256:1", "olm.local/olm:0.1.0-rc"]})
            ]
        );
    }

    #[test]
    fn images_move_to_another_registry() {
        let value = json!({"a": ["olm.local/olm:0.1.0", "--opmImage=olm.local/opm:0.1.0", "other/olm:1"]});
        assert_eq!(
            rename_images(&[value], "registry.example.com/team/").unwrap(),
            [
                json!({"a": ["registry.example.com/team/olm:0.1.0", "--opmImage=registry.example.com/team/opm:0.1.0", "other/olm:1"]})
            ]
        );
    }
}
