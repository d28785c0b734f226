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
use serde_json::{Value, json};

/// Fields of the CSV that come from the package.
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

/// Writes `value`. A value of another shape becomes the empty value of this one.
fn write(shape: Shape, value: &Value, out: &mut String) {
    match (shape, value) {
        (Text, Value::String(_)) | (Integer, Value::Number(_)) | (Bool, Value::Bool(_)) | (Any, _) => {
            out.push_str(&json::to_string(value, Html::Escaped));
        }
        (Text, _) => out.push_str("\"\""),
        (Integer, _) => out.push('0'),
        (Bool, _) => out.push_str("false"),
        (Texts, Value::Array(items)) => {
            write_all(out, ['[', ']'], items.iter(), |item, out| write(Text, item, out));
        }
        (List(fields), Value::Array(items)) => {
            write_all(out, ['[', ']'], items.iter(), |item, out| {
                write(Object(fields), item, out);
            });
        }
        (Texts | List(_), _) => out.push_str("null"),
        (TextMap, Value::Object(map)) => {
            let sorted: std::collections::BTreeMap<_, _> = map.iter().collect();
            write_all(out, ['{', '}'], sorted.into_iter(), |(key, item), out| {
                write_key(key, out);
                write(Text, item, out);
            });
        }
        (TextMap, _) => out.push_str("{}"),
        (Object(fields), _) => {
            let found = fields.iter().map(|(name, shape, written)| {
                let object = value.as_object();
                let value = object.and_then(|object| json::field(object, name));
                (*name, *shape, *written, value)
            });
            let kept =
                found.filter(|(_, shape, written, value)| *written == Always || !is_empty(*shape, *value));
            write_all(out, ['{', '}'], kept, |(name, shape, _, value), out| {
                write_key(name, out);
                write(shape, value.unwrap_or(&Value::Null), out);
            });
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

fn write_key(key: &str, out: &mut String) {
    out.push_str(&json::to_string(&Value::from(key), Html::Escaped));
    out.push(':');
}

fn write_all<T>(
    out: &mut String,
    [open, close]: [char; 2],
    items: impl Iterator<Item = T>,
    mut write: impl FnMut(T, &mut String),
) {
    out.push(open);
    for (position, item) in items.enumerate() {
        if position > 0 {
            out.push(',');
        }
        write(item, out);
    }
    out.push(close);
}

/// Returns the CSV as JSON text. Its install strategy is an empty deployment strategy, as readers expect one.
pub(super) fn synthesise(
    name: &str,
    version: &str,
    metadata: &CsvMetadata,
    related_images: &[RelatedImage],
    package: &PackageFacts<'_>,
) -> String {
    let field = |name: &str| metadata.get(name).cloned().unwrap_or_default();
    let description = match field("description") {
        Value::String(own) if !own.is_empty() => own,
        _ => package.description.to_owned(),
    };
    let icon = package
        .icon
        .map(|(data, media_type)| json!([{"base64data": data, "mediatype": media_type}]));
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
    let mut out = String::new();
    write(Object(CSV), &csv, &mut out);
    out
}
