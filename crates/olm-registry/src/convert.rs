//! Catalog blobs to messages of the contract.
//!
//! Rules: `docs/reference/registry.md`.

use base64::Engine as _;
use go_compat::json::{self, Html};
use olm_fbc::property::{self, CsvMetadata, PropertyError, Typed, kinds};
use olm_fbc::schema::{self, ChannelEntry, RelatedImage};
use olm_fbc::yaml;
use serde_json::Value;

use crate::proto;

mod csv;

pub use csv::PackageFacts;

/// A bundle as messages, apart from what depends on a channel.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Converted {
    /// Everything but content and what a channel adds.
    pub common: proto::Bundle,
    /// `csvJson` and `object` only.
    pub content: proto::Bundle,
    /// Set when the content must be made from the CSV metadata, which needs the package.
    pub metadata: Option<CsvMetadata>,
}

/// Why a bundle has no message.
#[derive(Debug, thiserror::Error)]
pub enum ConvertError {
    /// A property does not fit its type.
    #[error("bundle {bundle:?}: parse properties: property[{index}]")]
    Property {
        /// The bundle.
        bundle: String,
        /// Position of the property.
        index: usize,
        /// What is wrong.
        #[source]
        source: PropertyError,
    },
    /// Not the number of properties of a type that there must be.
    #[error("bundle {bundle:?}: parse properties: expected {expected} of type {kind:?}, found {found}")]
    Count {
        /// The bundle.
        bundle: String,
        /// `exactly 1 property` or `at most 1 property`.
        expected: &'static str,
        /// The type.
        kind: &'static str,
        /// How many there are.
        found: usize,
    },
    /// A bundle object is no object.
    #[error("bundle {bundle:?}: bundle object in property[{index}]: {reason}")]
    Object {
        /// The bundle.
        bundle: String,
        /// Position of the property.
        index: usize,
        /// What is wrong.
        reason: String,
    },
}

/// Converts a bundle.
///
/// # Errors
/// Properties that cannot be read, no or several `olm.package`, several `olm.csv.metadata`.
pub fn bundle(bundle: &schema::Bundle) -> Result<Converted, ConvertError> {
    let mut builder = Builder::new(bundle);
    for (index, property) in bundle.properties.iter().enumerate() {
        let typed = property.parse().map_err(|source| ConvertError::Property {
            bundle: bundle.name.clone(),
            index,
            source,
        })?;
        builder.add(index, property, typed)?;
    }
    builder.finish()
}

struct Builder<'a> {
    bundle: &'a schema::Bundle,
    out: Converted,
    packages: Vec<property::PackageProperty>,
    metadata: Vec<CsvMetadata>,
}

impl<'a> Builder<'a> {
    fn new(bundle: &'a schema::Bundle) -> Self {
        Self {
            bundle,
            out: Converted {
                common: proto::Bundle {
                    csv_name: bundle.name.clone(),
                    package_name: bundle.package.clone(),
                    bundle_path: bundle.image.clone(),
                    ..proto::Bundle::default()
                },
                ..Converted::default()
            },
            packages: Vec::new(),
            metadata: Vec::new(),
        }
    }

    fn add(&mut self, index: usize, property: &property::Property, typed: Typed) -> Result<(), ConvertError> {
        let common = &mut self.out.common;
        match typed {
            Typed::Gvk(gvk) => common.provided_apis.push(api(gvk)),
            Typed::GvkRequired(gvk) => {
                common.dependencies.push(proto::Dependency {
                    r#type: kinds::GVK.to_owned(),
                    value: json::to_string(&property.value, Html::Plain),
                });
                common.required_apis.push(api(gvk));
            }
            Typed::PackageRequired(required) => common.dependencies.push(proto::Dependency {
                r#type: kinds::PACKAGE.to_owned(),
                value: package_dependency(&required),
            }),
            Typed::Package(package) => self.packages.push(package),
            Typed::BundleObject(data) => return self.add_object(index, &data),
            Typed::CsvMetadata(metadata) => {
                self.metadata.push(*metadata);
                return Ok(());
            }
            Typed::Label(_)
            | Typed::LabelRequired(_)
            | Typed::Constraint(_)
            | Typed::Deprecated
            | Typed::Channel(_)
            | Typed::Other => {}
        }
        self.out.common.properties.push(proto::Property {
            r#type: property.kind.clone(),
            value: json::to_string(&property.value, Html::Plain),
        });
        Ok(())
    }

    fn add_object(&mut self, index: usize, data: &str) -> Result<(), ConvertError> {
        let wrap = |reason: String| ConvertError::Object {
            bundle: self.bundle.name.clone(),
            index,
            reason,
        };
        let bytes = base64::engine::general_purpose::STANDARD
            .decode(data)
            .map_err(|error| wrap(error.to_string()))?;
        let text = match String::from_utf8(bytes) {
            Ok(text) if is_json_object(&text) => text,
            Ok(text) => {
                let (value, _) =
                    yaml::parse_first(text.as_bytes()).map_err(|error| wrap(error.to_string()))?;
                json::to_string(&value, Html::Escaped)
            }
            Err(error) => return Err(wrap(error.to_string())),
        };
        let content = &mut self.out.content;
        if content.csv_json.is_empty() && is_csv(&text) {
            content.csv_json.clone_from(&text);
        }
        content.object.push(text);
        Ok(())
    }

    fn finish(mut self) -> Result<Converted, ConvertError> {
        let count = |expected, kind, found| ConvertError::Count {
            bundle: self.bundle.name.clone(),
            expected,
            kind,
            found,
        };
        let [package] = self.packages.as_slice() else {
            return Err(count("exactly 1 property", kinds::PACKAGE, self.packages.len()));
        };
        if self.metadata.len() > 1 {
            return Err(count(
                "at most 1 property",
                kinds::CSV_METADATA,
                self.metadata.len(),
            ));
        }
        self.out.common.version.clone_from(&package.version);
        if self.out.content.csv_json.is_empty() {
            self.out.metadata = self.metadata.pop();
        }
        Ok(self.out)
    }
}

/// The content of a bundle that carries CSV metadata instead of manifests.
pub fn content_from_metadata(
    bundle: &str,
    version: &str,
    metadata: &CsvMetadata,
    related_images: &[RelatedImage],
    package: &PackageFacts<'_>,
    mut content: proto::Bundle,
) -> proto::Bundle {
    content.csv_json = csv::synthesise(bundle, version, metadata, related_images, package);
    if content.object.is_empty() {
        content.object.push(content.csv_json.clone());
    }
    content
}

/// What a channel adds to a bundle, without its edges: channel, skip range, deprecation.
pub fn entry_head(channel: &str, entry: &ChannelEntry, deprecation: Option<&String>) -> proto::Bundle {
    proto::Bundle {
        channel_name: channel.to_owned(),
        skip_range: entry.skip_range.clone(),
        deprecation: deprecation.map(|message| proto::Deprecation {
            message: message.clone(),
        }),
        ..proto::Bundle::default()
    }
}

/// The edges of a channel entry: replaces and skips.
pub fn entry_edges(entry: &ChannelEntry) -> proto::Bundle {
    proto::Bundle {
        replaces: entry.replaces.clone(),
        skips: entry.skips.clone(),
        ..proto::Bundle::default()
    }
}

/// A JSON object as a protobuf struct; integers become doubles, as they do in JSON.
pub fn to_struct(value: &serde_json::Map<String, Value>) -> prost_types::Struct {
    prost_types::Struct {
        fields: value
            .iter()
            .map(|(key, value)| (key.clone(), to_value(value)))
            .collect(),
    }
}

fn to_value(value: &Value) -> prost_types::Value {
    use prost_types::value::Kind;
    let kind = match value {
        Value::Null => Kind::NullValue(0),
        Value::Bool(flag) => Kind::BoolValue(*flag),
        Value::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or_default()),
        Value::String(text) => Kind::StringValue(text.clone()),
        Value::Array(items) => Kind::ListValue(prost_types::ListValue {
            values: items.iter().map(to_value).collect(),
        }),
        Value::Object(map) => Kind::StructValue(to_struct(map)),
    };
    prost_types::Value { kind: Some(kind) }
}

fn api(gvk: property::Gvk) -> proto::GroupVersionKind {
    proto::GroupVersionKind {
        group: gvk.group,
        version: gvk.version,
        kind: gvk.kind,
        plural: String::new(),
    }
}

fn package_dependency(required: &property::PackageRequired) -> String {
    let value = serde_json::json!({"packageName": required.package_name, "version": required.version_range});
    json::to_string(&value, Html::Plain)
}

fn is_json_object(text: &str) -> bool {
    text.trim_start().starts_with('{') && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

fn is_csv(text: &str) -> bool {
    #[derive(serde::Deserialize)]
    struct Kind<'a> {
        #[serde(borrow, default)]
        kind: std::borrow::Cow<'a, str>,
    }
    serde_json::from_str::<Kind<'_>>(text).is_ok_and(|object| object.kind == olm_fbc::manifest::CSV_KIND)
}

#[cfg(test)]
mod tests;
