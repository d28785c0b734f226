//! Catalog blobs to messages of the contract.
//!
//! Rules: `docs/reference/registry.md`.

use go_compat::json::{self, Html};
use olm_fbc::bundle_object;
use olm_fbc::property::{self, CsvMetadata, Typed, kinds};
use olm_fbc::schema::{self, ChannelEntry};
use serde_json::Value;

use crate::proto;

mod csv;

/// A bundle as messages, apart from the parts that depend on a channel.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Converted {
    /// Everything but the content and the channel's parts.
    pub common: proto::Bundle,
    /// `csvJson` and `object` only.
    pub content: proto::Bundle,
    /// CSV of a bundle that carries CSV metadata instead of manifests. It needs the package, see
    /// [`content_of_draft`].
    pub draft: Option<Value>,
}

/// Converts a bundle. Faults are left to validation. A property that does not fit its type is passed on
/// unchanged, and a manifest that cannot be decoded is skipped. If a property may occur only once, the first
/// one counts.
pub fn bundle(bundle: &schema::Bundle) -> Converted {
    let mut out = Converted {
        common: proto::Bundle {
            csv_name: bundle.name.clone(),
            package_name: bundle.package.clone(),
            bundle_path: bundle.image.clone(),
            ..proto::Bundle::default()
        },
        ..Converted::default()
    };
    let mut metadata = None;
    for property in &bundle.properties {
        add(&mut out, &mut metadata, property);
    }
    if out.content.csv_json.is_empty() {
        let version = &out.common.version;
        out.draft =
            metadata.map(|metadata| csv::draft(&bundle.name, version, &metadata, &bundle.related_images));
    }
    out
}

fn add(out: &mut Converted, metadata: &mut Option<CsvMetadata>, property: &property::Property) {
    let common = &mut out.common;
    match property.parse() {
        Ok(Typed::Gvk(gvk)) => common.provided_apis.push(api(gvk)),
        Ok(Typed::GvkRequired(gvk)) => {
            common.dependencies.push(proto::Dependency {
                r#type: kinds::GVK.to_owned(),
                value: json::to_string(&property.value, Html::Plain),
            });
            common.required_apis.push(api(gvk));
        }
        Ok(Typed::PackageRequired(required)) => common.dependencies.push(proto::Dependency {
            r#type: kinds::PACKAGE.to_owned(),
            value: package_dependency(&required),
        }),
        Ok(Typed::Package(package)) if common.version.is_empty() => common.version = package.version,
        Ok(Typed::BundleObject(data)) => {
            if let Ok(object) = bundle_object::decode(&data) {
                add_object(&mut out.content, object.text);
            }
            return;
        }
        Ok(Typed::CsvMetadata(found)) => {
            metadata.get_or_insert(*found);
            return;
        }
        _ => {}
    }
    out.common.properties.push(proto::Property {
        r#type: property.kind.clone(),
        value: json::to_string(&property.value, Html::Plain),
    });
}

fn add_object(content: &mut proto::Bundle, text: String) {
    if content.csv_json.is_empty() && is_csv(&text) {
        content.csv_json.clone_from(&text);
    }
    content.object.push(text);
}

/// Returns the content of a bundle with a draft of its CSV. `objects` are its manifests, from
/// [`Converted::content`].
pub fn content_of_draft(draft: Value, mut objects: Vec<String>, package: &schema::Package) -> proto::Bundle {
    let csv_json = csv::finish(draft, package);
    if objects.is_empty() {
        objects.push(csv_json.clone());
    }
    proto::Bundle {
        csv_json,
        object: objects,
        ..proto::Bundle::default()
    }
}

/// Returns a channel's additions to a bundle, without its edges: channel, skip range, deprecation.
pub fn entry_head(channel: &str, entry: &ChannelEntry, deprecation: Option<&String>) -> proto::Bundle {
    proto::Bundle {
        channel_name: channel.to_owned(),
        skip_range: entry.skip_range.clone(),
        deprecation: deprecation.map(|message| message.as_str().into()),
        ..proto::Bundle::default()
    }
}

/// Returns the edges of a channel entry: replaces and skips.
pub fn entry_edges(entry: &ChannelEntry) -> proto::Bundle {
    proto::Bundle {
        replaces: entry.replaces.clone(),
        skips: entry.skips.clone(),
        ..proto::Bundle::default()
    }
}

/// Converts a JSON object to a protobuf struct. Integers become doubles, as in JSON.
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
