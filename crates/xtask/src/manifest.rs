//! Reads `manifests/` and adapts the objects to a destination.

use std::path::Path;

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::files;

/// Prefix of the image names in `manifests/` and in the demo operator's bundles.
pub const IMAGE_PREFIX: &str = "olm.local/";

/// Name of the ConfigMap with the registry configuration, and of its volume.
const REGISTRY_CONFIG: &str = "registry-config";
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

/// Replaces the prefix of our image names everywhere in `value` by `registry`.
pub(crate) fn rename_images(value: &mut Value, registry: &str) {
    match value {
        Value::String(text) => *text = rename_images_in_text(text, registry),
        Value::Array(items) => items.iter_mut().for_each(|item| rename_images(item, registry)),
        Value::Object(fields) => fields
            .values_mut()
            .for_each(|field| rename_images(field, registry)),
        _ => {}
    }
}

/// Adds the digest to `image` wherever `value` names it. With a tag alone, a running pod would keep its earlier image.
pub(crate) fn pin_image(value: &mut Value, image: &str, digest: &str) {
    match value {
        Value::String(text) if text.ends_with(image) => *text = format!("{text}@{digest}"),
        Value::Array(items) => items.iter_mut().for_each(|item| pin_image(item, image, digest)),
        Value::Object(fields) => fields
            .values_mut()
            .for_each(|field| pin_image(field, image, digest)),
        _ => {}
    }
}

/// Gives the catalog operator the nodes' registry configuration. A ConfigMap with the `hosts.toml` files below `folder` is
/// mounted into its Deployment. Returns the ConfigMap.
///
/// A hostPath volume would be shorter, but the namespace enforces the restricted profile.
///
/// # Errors
/// The folder cannot be read.
pub(crate) fn mount_registry_config(objects: &mut [Value], folder: &Path) -> anyhow::Result<Value> {
    let mut data = serde_json::Map::new();
    let mut items = Vec::new();
    for (path, file) in files::below(folder)? {
        let Some(host) = path.strip_suffix("/hosts.toml") else {
            continue;
        };
        // Keys of a ConfigMap may contain neither `/` nor `:`.
        let key = format!("{}.hosts.toml", host.replace(':', "_"));
        items.push(json!({ "key": key, "path": path }));
        data.insert(key, Value::String(files::read(&file)?));
    }
    for object in objects
        .iter_mut()
        .filter(|object| object["kind"] == "Deployment" && object["metadata"]["name"] == "catalog-operator")
    {
        let pod = &mut object["spec"]["template"]["spec"];
        push(
            &mut pod["volumes"],
            json!({ "name": REGISTRY_CONFIG, "configMap": { "name": REGISTRY_CONFIG, "items": items } }),
        );
        let container = &mut pod["containers"][0];
        push(
            &mut container["args"],
            json!(format!("--registry-config={REGISTRY_CONFIG_PATH}")),
        );
        push(
            &mut container["volumeMounts"],
            json!({ "name": REGISTRY_CONFIG, "mountPath": REGISTRY_CONFIG_PATH, "readOnly": true }),
        );
    }
    Ok(json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": REGISTRY_CONFIG, "namespace": "olm" },
        "data": data,
    }))
}

fn push(list: &mut Value, item: Value) {
    match list {
        Value::Array(items) => items.push(item),
        other => *other = Value::Array(vec![item]),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_registry_configuration_reaches_the_catalog_operator() {
        let folder = tempfile::tempdir().unwrap();
        let host = folder.path().join("example.com:5000");
        fs::create_dir(&host).unwrap();
        fs::write(host.join("hosts.toml"), "server = \"http://example.com:5000\"\n").unwrap();
        let mut objects = read_folder(&crate::workspace::root().join("manifests/olm")).unwrap();
        let config = mount_registry_config(&mut objects, folder.path()).unwrap();
        assert_eq!(
            config["data"]["example.com_5000.hosts.toml"],
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
        assert_eq!(
            volume["configMap"]["items"][0]["path"],
            "example.com:5000/hosts.toml"
        );
    }

    #[test]
    fn an_image_is_pinned_wherever_it_is_named_and_no_other() {
        let mut value =
            json!({"a": ["olm.local/olm:0.1.0", "--opmImage=olm.local/opm:0.1.0", "olm.local/olm:0.1.0-rc"]});
        pin_image(&mut value, "olm.local/opm:0.1.0", "sha256:1");
        pin_image(&mut value, "olm.local/olm:0.1.0", "sha256:2");
        assert_eq!(
            value,
            json!({"a": ["olm.local/olm:0.1.0@sha256:2", "--opmImage=olm.local/opm:0.1.0@sha256:1", "olm.local/olm:0.1.0-rc"]})
        );
    }

    #[test]
    fn images_move_to_another_registry() {
        let mut value =
            json!({"a": ["olm.local/olm:0.1.0", "--opmImage=olm.local/opm:0.1.0", "other/olm:1"]});
        rename_images(&mut value, "registry.example.com/team/");
        assert_eq!(
            value,
            json!({"a": ["registry.example.com/team/olm:0.1.0", "--opmImage=registry.example.com/team/opm:0.1.0", "other/olm:1"]})
        );
    }
}
