//! A ClusterServiceVersion built from the metadata that catalogs carry instead of manifests.
//!
//! The text equals upstream's. Upstream reads the metadata into structs and prints a CSV from them. So fields
//! are in the order of its types, unknown ones are dropped, some are written although empty, and keys match
//! without regard to case.

use go_compat::json::{self, Html};
use olm_fbc::property::CsvMetadata;
use olm_fbc::property::csv_metadata::Shape::{Any, Bool, List, Object, Text, TextMap, Texts};
use olm_fbc::property::csv_metadata::Written::{Always, IfSet};
use olm_fbc::property::csv_metadata::{
    API_SERVICES, CRDS, Fieldset, INSTALL_MODE, LINK, MAINTAINER, NATIVE_API, Shaped,
};
use olm_fbc::schema::{Package, RelatedImage};
use serde_json::{Value, json};

const CSV: Fieldset = &[
    ("kind", Text, Always),
    ("apiVersion", Text, Always),
    ("metadata", Object(METADATA), Always),
    ("spec", Object(SPEC), Always),
    ("status", Any, Always),
];

const METADATA: Fieldset = &[
    ("name", Text, IfSet),
    ("labels", TextMap, IfSet),
    ("annotations", TextMap, IfSet),
];

const SPEC: Fieldset = &[
    ("install", Object(INSTALL), Always),
    ("version", Text, Always),
    ("maturity", Text, IfSet),
    ("customresourcedefinitions", Object(CRDS), Always),
    ("apiservicedefinitions", Object(API_SERVICES), Always),
    ("nativeAPIs", List(NATIVE_API), IfSet),
    ("minKubeVersion", Text, IfSet),
    ("displayName", Text, Always),
    ("description", Text, IfSet),
    ("keywords", Texts, IfSet),
    ("maintainers", List(MAINTAINER), IfSet),
    ("provider", Object(LINK), Always),
    ("links", List(LINK), IfSet),
    ("icon", List(ICON), IfSet),
    ("installModes", List(INSTALL_MODE), IfSet),
    ("cleanup", Object(&[("enabled", Bool, Always)]), Always),
    ("relatedImages", List(IMAGE), IfSet),
];

/// Readers expect a strategy, so an empty one is written.
const INSTALL: Fieldset = &[("strategy", Text, Always), ("spec", Any, Always)];

const ICON: Fieldset = &[("base64data", Text, Always), ("mediatype", Text, Always)];

const IMAGE: Fieldset = &[("name", Text, Always), ("image", Text, Always)];

/// Returns the CSV without the parts of its package, for [`finish`]. Its install strategy is an empty
/// deployment strategy, as readers expect one.
pub(super) fn draft(
    name: &str,
    version: &str,
    metadata: &CsvMetadata,
    related_images: &[RelatedImage],
) -> Value {
    let field = |name: &str| metadata.get(name).cloned().unwrap_or_default();
    let related_images: Value = related_images
        .iter()
        .map(|related| json!({"name": related.name, "image": related.image}))
        .collect();
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": olm_fbc::manifest::CSV_KIND,
        "metadata": {"name": name, "labels": field("labels"), "annotations": field("annotations")},
        "spec": {
            "install": {"strategy": "deployment", "spec": {"deployments": null}},
            "version": version,
            "maturity": field("maturity"),
            "customresourcedefinitions": field("crdDescriptions"),
            "apiservicedefinitions": field("apiServiceDefinitions"),
            "nativeAPIs": field("nativeAPIs"),
            "minKubeVersion": field("minKubeVersion"),
            "displayName": field("displayName"),
            "description": field("description"),
            "keywords": field("keywords"),
            "maintainers": field("maintainers"),
            "provider": field("provider"),
            "links": field("links"),
            "installModes": field("installModes"),
            "cleanup": {"enabled": false},
            "relatedImages": related_images,
        },
        "status": {"cleanup": {}},
    })
}

/// Returns the CSV of a [`draft`] as JSON text. Its icon, and its description if the bundle has none, are the
/// package's.
pub(super) fn finish(mut draft: Value, package: &Package) -> String {
    let spec = &mut draft["spec"];
    if spec["description"].as_str().is_none_or(str::is_empty) {
        spec["description"] = json!(package.description);
    }
    if let Some(icon) = &package.icon {
        spec["icon"] = json!([{"base64data": icon.base64data, "mediatype": icon.mediatype}]);
    }
    // A JSON tree always has a JSON form.
    json::encode(&Shaped(Object(CSV), &draft), Html::Escaped).unwrap_or_default()
}
