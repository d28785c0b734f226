//! A ClusterServiceVersion made from the metadata that catalogs carry instead of manifests.

use olm_fbc::property::CsvMetadata;
use olm_fbc::schema::{Package, RelatedImage};
use serde_json::{Map, Value, json};

/// What the CSV takes from the package.
#[derive(Clone, Copy, Debug, Default)]
pub struct PackageFacts<'a> {
    /// Icon as base64 text and media type.
    pub icon: Option<(&'a str, &'a str)>,
    /// Description, used when the bundle has none.
    pub description: &'a str,
}

impl<'a> From<&'a Package> for PackageFacts<'a> {
    fn from(package: &'a Package) -> Self {
        Self {
            icon: package
                .icon
                .as_ref()
                .map(|icon| (icon.base64data.as_str(), icon.mediatype.as_str())),
            description: &package.description,
        }
    }
}

/// The CSV. Its install strategy is an empty deployment strategy, as readers expect one.
pub(super) fn synthesise(
    name: &str,
    version: &str,
    metadata: &CsvMetadata,
    related_images: &[RelatedImage],
    package: &PackageFacts<'_>,
) -> Value {
    let mut object_meta = Map::new();
    object_meta.insert("name".to_owned(), json!(name));
    for field in ["labels", "annotations"] {
        if let Some(value) = metadata.get(field) {
            object_meta.insert(field.to_owned(), value.clone());
        }
    }
    let mut spec = json!({
        "apiservicedefinitions": metadata.get("apiServiceDefinitions").cloned().unwrap_or_else(|| json!({})),
        "customresourcedefinitions": metadata.get("crdDescriptions").cloned().unwrap_or_else(|| json!({})),
        "displayName": metadata.get("displayName").cloned().unwrap_or_else(|| json!("")),
        "install": {"strategy": "deployment", "spec": {"deployments": null}},
        "provider": metadata.get("provider").cloned().unwrap_or_else(|| json!({})),
        "version": version,
    });
    for field in [
        "description",
        "installModes",
        "keywords",
        "links",
        "maintainers",
        "maturity",
        "minKubeVersion",
        "nativeAPIs",
    ] {
        if let Some(value) = metadata.get(field) {
            spec[field] = value.clone();
        }
    }
    if spec.get("description").is_none() && !package.description.is_empty() {
        spec["description"] = json!(package.description);
    }
    if let Some((data, media_type)) = package.icon {
        spec["icon"] = json!([{"base64data": data, "mediatype": media_type}]);
    }
    if !related_images.is_empty() {
        spec["relatedImages"] = related_images
            .iter()
            .map(|related| json!({"name": related.name, "image": related.image}))
            .collect();
    }
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": olm_fbc::bundle::CSV_KIND,
        "metadata": object_meta,
        "spec": spec,
    })
}
