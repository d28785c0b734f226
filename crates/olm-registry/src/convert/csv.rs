//! A ClusterServiceVersion built from the metadata that catalogs carry instead of manifests.
//!
//! The text equals upstream's. Upstream reads the metadata into structs and prints a CSV from them. So fields
//! are in the order of its types, unknown ones are dropped, some are written although empty, and keys match
//! without regard to case.

use go_compat::json::{self, Html};
use olm_fbc::property::CsvMetadata;
use olm_fbc::property::csv_metadata::Shape::{Any, Bool, Integer, List, Object, Text, TextMap, Texts};
use olm_fbc::property::csv_metadata::Written::{Always, IfSet};
use olm_fbc::property::csv_metadata::{
    API_SERVICES, CRDS, Fieldset, INSTALL_MODE, LINK, MAINTAINER, NATIVE_API, Shape,
};
use olm_fbc::schema::{Package, RelatedImage};
use serde::{Serialize, Serializer};
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

/// A value as it is written. A value of another shape becomes the empty value of this one.
struct Shaped<'a>(Shape, &'a Value);

impl Serialize for Shaped<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        match (self.0, self.1) {
            (Text, Value::String(_)) | (Integer, Value::Number(_)) | (Bool, Value::Bool(_)) | (Any, _) => {
                self.1.serialize(out)
            }
            (Text, _) => out.serialize_str(""),
            (Integer, _) => out.serialize_u8(0),
            (Bool, _) => out.serialize_bool(false),
            (Texts, Value::Array(items)) => out.collect_seq(items.iter().map(|item| Shaped(Text, item))),
            (List(fields), Value::Array(items)) => {
                out.collect_seq(items.iter().map(|item| Shaped(Object(fields), item)))
            }
            (Texts | List(_), _) => out.serialize_unit(),
            (TextMap, Value::Object(map)) => {
                let sorted: std::collections::BTreeMap<_, _> = map.iter().collect();
                out.collect_map(sorted.into_iter().map(|(key, item)| (key, Shaped(Text, item))))
            }
            (TextMap, _) => out.collect_map(std::iter::empty::<(&str, &str)>()),
            (Object(fields), value) => {
                let object = value.as_object();
                out.collect_map(fields.iter().filter_map(|(name, shape, written)| {
                    let value = object.and_then(|object| json::field(object, name));
                    let is_written = *written == Always || !is_empty(*shape, value);
                    is_written.then(|| (name, Shaped(*shape, value.unwrap_or(&Value::Null))))
                }))
            }
        }
    }
}

/// Returns whether a value is empty for upstream's type of this shape. Raw JSON never is, even null.
fn is_empty(shape: Shape, value: Option<&Value>) -> bool {
    match (shape, value) {
        (_, None) => true,
        (Any, Some(_)) => false,
        (_, Some(Value::Null)) => true,
        (_, Some(Value::String(text))) => text.is_empty(),
        (_, Some(Value::Array(items))) => items.is_empty(),
        (_, Some(Value::Object(map))) => map.is_empty(),
        (_, Some(Value::Number(number))) => number.as_f64() == Some(0.0),
        (_, Some(Value::Bool(flag))) => !flag,
    }
}

/// Returns the CSV as JSON text. Its icon, and its description if the bundle has none, are the package's. Its install strategy is an empty deployment strategy, as readers expect one.
pub(super) fn synthesise(
    name: &str,
    version: &str,
    metadata: &CsvMetadata,
    related_images: &[RelatedImage],
    package: &Package,
) -> String {
    let field = |name: &str| metadata.get(name).cloned().unwrap_or_default();
    let description = match field("description") {
        Value::String(own) if !own.is_empty() => own,
        _ => package.description.clone(),
    };
    let icon = package
        .icon
        .as_ref()
        .map(|icon| json!([{"base64data": icon.base64data, "mediatype": icon.mediatype}]));
    let related_images: Value = related_images
        .iter()
        .map(|related| json!({"name": related.name, "image": related.image}))
        .collect();
    let csv = json!({
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
            "description": description,
            "keywords": field("keywords"),
            "maintainers": field("maintainers"),
            "provider": field("provider"),
            "links": field("links"),
            "icon": icon,
            "installModes": field("installModes"),
            "cleanup": {"enabled": false},
            "relatedImages": related_images,
        },
        "status": {"cleanup": {}},
    });
    // A JSON tree always has a JSON form.
    json::encode(&Shaped(Object(CSV), &csv), Html::Escaped).unwrap_or_default()
}
