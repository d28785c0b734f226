//! The `manifest` of a plan step: an object in JSON, or a reference to where the object is found.
//!
//! Plans made here refer to the bundle image by digest, see decision record 0003; plans made by upstream's operator refer to a
//! ConfigMap; plans made by hand carry the object itself.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// `kind` of a reference to a bundle image.
const BUNDLE_IMAGE: &str = "BundleImage";
/// `kind` of a reference to a ConfigMap with an unpacked bundle.
const CONFIG_MAP: &str = "ConfigMap";

/// What the text in `status.plan[].resource.manifest` means.
#[derive(Debug, Clone, PartialEq)]
pub enum Manifest {
    /// The object itself.
    Inline(Value),
    /// The object of this name in a bundle image.
    BundleImage(BundleImageReference),
    /// The object of this name in a ConfigMap that upstream's operator left.
    ConfigMap(ConfigMapReference),
}

/// Where to find a step's object: in which bundle, by digest.
///
/// `replaces` and the properties are not repeated in every step: they are in the plan's bundle lookup with the same identifier.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BundleImageReference {
    /// Always `BundleImage`.
    kind: String,
    /// The bundle image, pinned to the digest that was read when the plan was made.
    pub image: String,
    /// Name of the ClusterServiceVersion in the bundle.
    pub identifier: String,
    /// CatalogSource that named the image; its credentials are used to fetch it again.
    pub catalog_source_name: String,
    /// Namespace of the CatalogSource.
    pub catalog_source_namespace: String,
}

/// Upstream's reference: ConfigMap of an unpacked bundle, with what the resolver adds to it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMapReference {
    /// Always `ConfigMap`.
    kind: String,
    /// Name of the ConfigMap.
    pub name: String,
    /// Namespace of the ConfigMap.
    pub namespace: String,
    /// CatalogSource the bundle came from.
    pub catalog_source_name: String,
    /// Namespace of that CatalogSource.
    pub catalog_source_namespace: String,
    /// Name of the ClusterServiceVersion that the bundle's one replaces; may be empty.
    #[serde(default)]
    pub replaces: String,
    /// Properties to project onto the ClusterServiceVersion, a JSON text.
    #[serde(default)]
    pub properties: String,
}

impl BundleImageReference {
    /// A reference into `image`, which must be pinned by digest.
    pub fn new(image: &str, identifier: &str, catalog_name: &str, catalog_namespace: &str) -> Self {
        Self {
            kind: BUNDLE_IMAGE.to_owned(),
            image: image.to_owned(),
            identifier: identifier.to_owned(),
            catalog_source_name: catalog_name.to_owned(),
            catalog_source_namespace: catalog_namespace.to_owned(),
        }
    }

    /// The text that goes into the step.
    pub fn to_manifest(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl Manifest {
    /// Whether an object would be taken for a reference where its text stands in a step.
    pub fn is_posing(object: &Value) -> bool {
        is_bundle_image(object) || is_config_map(object)
    }

    /// Reads the text of a step.
    ///
    /// A ConfigMap object of a bundle and upstream's reference to a ConfigMap share their `kind`; only a text with all four names
    /// filled at the top level is a reference (upstream's rule).
    ///
    /// # Errors
    /// The text is not JSON.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        let value: Value = serde_json::from_str(text)?;
        Ok(if is_bundle_image(&value) {
            Self::BundleImage(serde_json::from_value(value)?)
        } else if is_config_map(&value) {
            Self::ConfigMap(serde_json::from_value(value)?)
        } else {
            Self::Inline(value)
        })
    }
}

fn is_bundle_image(value: &Value) -> bool {
    let names = [
        "image",
        "identifier",
        "catalogSourceName",
        "catalogSourceNamespace",
    ];
    is_reference(value, BUNDLE_IMAGE, names)
}

fn is_config_map(value: &Value) -> bool {
    let names = ["name", "namespace", "catalogSourceName", "catalogSourceNamespace"];
    is_reference(value, CONFIG_MAP, names)
}

fn is_reference(value: &Value, kind: &str, names: [&str; 4]) -> bool {
    let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default();
    text("kind") == kind && names.iter().all(|name| !text(name).is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bundle_reference_survives_the_way_through_the_plan() {
        let reference = BundleImageReference::new("quay.io/a/b@sha256:00", "a.v1", "cat", "olm");
        let text = reference.to_manifest();
        insta::assert_snapshot!(text, @r#"{"kind":"BundleImage","image":"quay.io/a/b@sha256:00","identifier":"a.v1","catalogSourceName":"cat","catalogSourceNamespace":"olm"}"#);
        assert_eq!(Manifest::parse(&text).unwrap(), Manifest::BundleImage(reference));
    }

    #[test]
    fn upstream_reference_is_distinguished_from_a_config_map_object() {
        let reference = r#"{"kind":"ConfigMap","name":"18","namespace":"golden","catalogSourceName":"cat","catalogSourceNamespace":"golden","replaces":"","properties":"{}"}"#;
        assert!(
            matches!(Manifest::parse(reference).unwrap(), Manifest::ConfigMap(found) if found.name == "18" && found.properties == "{}")
        );
        let object =
            r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","namespace":"y"},"data":{}}"#;
        assert!(matches!(Manifest::parse(object).unwrap(), Manifest::Inline(_)));
        let incomplete = r#"{"kind":"ConfigMap","name":"18","namespace":"","catalogSourceName":"cat","catalogSourceNamespace":"golden"}"#;
        assert!(matches!(
            Manifest::parse(incomplete).unwrap(),
            Manifest::Inline(_)
        ));
    }

    #[test]
    fn broken_json_is_an_error() {
        assert!(Manifest::parse("{").is_err());
    }
}
