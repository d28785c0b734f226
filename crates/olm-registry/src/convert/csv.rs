//! A ClusterServiceVersion built from the metadata that catalogs carry instead of manifests.
//!
//! The text equals upstream's. Upstream reads the metadata into structs and prints a CSV from them. So fields
//! are in the order of its types, unknown ones are dropped, some are written although empty, and keys match
//! without regard to case.

use go_compat::json::{self, Html};
use olm_fbc::property::CsvMetadata;
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

/// Type of a field in the CSV.
enum Shape {
    /// A text.
    Text,
    /// A number.
    Number,
    /// A boolean.
    Flag,
    /// Any JSON, unchanged.
    Raw,
    /// A list.
    List(&'static Shape),
    /// An object whose values are texts.
    Texts,
    /// An object with these fields, in this order.
    Object(&'static [Field]),
}

/// A field of an object.
struct Field {
    name: &'static str,
    shape: Shape,
    /// True if the field is written even when it is empty.
    always: bool,
}

const fn always(name: &'static str, shape: Shape) -> Field {
    Field {
        name,
        shape,
        always: true,
    }
}

const fn filled(name: &'static str, shape: Shape) -> Field {
    Field {
        name,
        shape,
        always: false,
    }
}

const CSV: Shape = Shape::Object(&[
    always("kind", Shape::Text),
    always("apiVersion", Shape::Text),
    always(
        "metadata",
        Shape::Object(&[
            filled("name", Shape::Text),
            filled("labels", Shape::Texts),
            filled("annotations", Shape::Texts),
        ]),
    ),
    always("spec", Shape::Object(SPEC)),
    always("status", Shape::Raw),
]);

const SPEC: &[Field] = &[
    always("install", INSTALL),
    always("version", Shape::Text),
    filled("maturity", Shape::Text),
    always("customresourcedefinitions", DEFINITIONS),
    always("apiservicedefinitions", SERVICES),
    filled(
        "nativeAPIs",
        Shape::List(&Shape::Object(&[
            always("group", Shape::Text),
            always("version", Shape::Text),
            always("kind", Shape::Text),
        ])),
    ),
    filled("minKubeVersion", Shape::Text),
    always("displayName", Shape::Text),
    filled("description", Shape::Text),
    filled("keywords", Shape::List(&Shape::Text)),
    filled(
        "maintainers",
        Shape::List(&Shape::Object(&[
            filled("name", Shape::Text),
            filled("email", Shape::Text),
        ])),
    ),
    always("provider", LINK),
    filled("links", Shape::List(&LINK)),
    filled(
        "icon",
        Shape::List(&Shape::Object(&[
            always("base64data", Shape::Text),
            always("mediatype", Shape::Text),
        ])),
    ),
    filled(
        "installModes",
        Shape::List(&Shape::Object(&[
            always("type", Shape::Text),
            always("supported", Shape::Flag),
        ])),
    ),
    always("cleanup", Shape::Object(&[always("enabled", Shape::Flag)])),
    filled(
        "relatedImages",
        Shape::List(&Shape::Object(&[
            always("name", Shape::Text),
            always("image", Shape::Text),
        ])),
    ),
];

/// Readers expect a strategy, so an empty one is written.
const INSTALL: Shape = Shape::Object(&[always("strategy", Shape::Text), always("spec", Shape::Raw)]);

const LINK: Shape = Shape::Object(&[filled("name", Shape::Text), filled("url", Shape::Text)]);

const DEFINITIONS: Shape = Shape::Object(&[
    filled("owned", Shape::List(&DEFINITION)),
    filled("required", Shape::List(&DEFINITION)),
]);

const DEFINITION: Shape = Shape::Object(&[
    always("name", Shape::Text),
    always("version", Shape::Text),
    always("kind", Shape::Text),
    filled("displayName", Shape::Text),
    filled("description", Shape::Text),
    filled("resources", Shape::List(&RESOURCE)),
    filled("statusDescriptors", Shape::List(&DESCRIPTOR)),
    filled("specDescriptors", Shape::List(&DESCRIPTOR)),
    filled("actionDescriptors", Shape::List(&DESCRIPTOR)),
]);

const SERVICES: Shape = Shape::Object(&[
    filled("owned", Shape::List(&SERVICE)),
    filled("required", Shape::List(&SERVICE)),
]);

const SERVICE: Shape = Shape::Object(&[
    always("name", Shape::Text),
    always("group", Shape::Text),
    always("version", Shape::Text),
    always("kind", Shape::Text),
    filled("deploymentName", Shape::Text),
    filled("containerPort", Shape::Number),
    filled("displayName", Shape::Text),
    filled("description", Shape::Text),
    filled("resources", Shape::List(&RESOURCE)),
    filled("statusDescriptors", Shape::List(&DESCRIPTOR)),
    filled("specDescriptors", Shape::List(&DESCRIPTOR)),
    filled("actionDescriptors", Shape::List(&DESCRIPTOR)),
]);

const RESOURCE: Shape = Shape::Object(&[
    always("name", Shape::Text),
    always("kind", Shape::Text),
    always("version", Shape::Text),
]);

const DESCRIPTOR: Shape = Shape::Object(&[
    always("path", Shape::Text),
    filled("displayName", Shape::Text),
    filled("description", Shape::Text),
    filled("x-descriptors", Shape::List(&Shape::Text)),
    filled("value", Shape::Raw),
]);

impl Shape {
    /// Writes `value`. A value of another type becomes the empty value of this one.
    fn write(&self, value: &Value, out: &mut String) {
        match (self, value) {
            (Self::Text, Value::String(_))
            | (Self::Number, Value::Number(_))
            | (Self::Flag, Value::Bool(_))
            | (Self::Raw, _) => {
                out.push_str(&json::to_string(value, Html::Escaped));
            }
            (Self::Text, _) => out.push_str("\"\""),
            (Self::Number, _) => out.push('0'),
            (Self::Flag, _) => out.push_str("false"),
            (Self::List(shape), Value::Array(items)) => {
                write_all(out, ['[', ']'], items.iter(), |item, out| shape.write(item, out));
            }
            (Self::List(_), _) => out.push_str("null"),
            (Self::Texts, Value::Object(map)) => {
                let sorted: std::collections::BTreeMap<_, _> = map.iter().collect();
                write_all(out, ['{', '}'], sorted.into_iter(), |(key, item), out| {
                    write_key(key, out);
                    Self::Text.write(item, out);
                });
            }
            (Self::Texts, _) => out.push_str("{}"),
            (Self::Object(fields), _) => {
                let found = fields.iter().map(|field| (field, field.of(value)));
                let kept = found.filter(|(field, value)| field.always || !field.shape.is_empty(value));
                write_all(out, ['{', '}'], kept, |(field, value), out| {
                    write_key(field.name, out);
                    field.shape.write(value.unwrap_or(&Value::Null), out);
                });
            }
        }
    }

    /// Returns whether a value is empty for upstream's type of this shape. Raw JSON never is, even null.
    fn is_empty(&self, value: &Option<&Value>) -> bool {
        match (self, value) {
            (_, None) => true,
            (Self::Raw, Some(_)) => false,
            (_, Some(Value::Null)) => true,
            (_, Some(Value::String(text))) => text.is_empty(),
            (_, Some(Value::Array(items))) => items.is_empty(),
            (_, Some(Value::Object(map))) => map.is_empty(),
            (_, Some(Value::Number(number))) => number.as_f64() == Some(0.0),
            (_, Some(Value::Bool(flag))) => !flag,
        }
    }
}

impl Field {
    /// Returns the field's value in `object`.
    fn of<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        json::field(object.as_object()?, self.name)
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
    CSV.write(&csv, &mut out);
    out
}
