//! Messages as JSON, without empty fields.

use olm_registry::proto;
use serde_json::{Map, Value, json};

/// Returns an object of the fields that are not empty.
fn object<const N: usize>(fields: [(&str, Value); N]) -> Value {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    let kept = fields.into_iter().filter(|(_, value)| !is_empty(value));
    Value::Object(kept.map(|(name, value)| (name.to_owned(), value)).collect())
}

fn list<T>(items: &[T], to_json: impl Fn(&T) -> Value) -> Value {
    items.iter().map(to_json).collect()
}

fn deprecation(deprecation: Option<&proto::Deprecation>) -> Value {
    deprecation.map_or(Value::Null, |deprecation| json!({"message": deprecation.message}))
}

pub fn package(package: &proto::Package) -> Value {
    object([
        ("name", json!(package.name)),
        ("channels", list(&package.channels, channel)),
        ("defaultChannelName", json!(package.default_channel_name)),
        ("deprecation", deprecation(package.deprecation.as_ref())),
    ])
}

fn channel(channel: &proto::Channel) -> Value {
    object([
        ("name", json!(channel.name)),
        ("csvName", json!(channel.csv_name)),
        ("deprecation", deprecation(channel.deprecation.as_ref())),
    ])
}

pub fn entry(entry: &proto::ChannelEntry) -> Value {
    object([
        ("packageName", json!(entry.package_name)),
        ("channelName", json!(entry.channel_name)),
        ("bundleName", json!(entry.bundle_name)),
        ("replaces", json!(entry.replaces)),
    ])
}

fn api(api: &proto::GroupVersionKind) -> Value {
    object([
        ("group", json!(api.group)),
        ("version", json!(api.version)),
        ("kind", json!(api.kind)),
        ("plural", json!(api.plural)),
    ])
}

pub fn bundle(bundle: &proto::Bundle) -> Value {
    let dependency = |dependency: &proto::Dependency| json!([dependency.r#type, dependency.value]);
    let property = |property: &proto::Property| json!([property.r#type, property.value]);
    object([
        ("csvName", json!(bundle.csv_name)),
        ("packageName", json!(bundle.package_name)),
        ("channelName", json!(bundle.channel_name)),
        ("csvJson", json!(bundle.csv_json)),
        ("object", json!(bundle.object)),
        ("bundlePath", json!(bundle.bundle_path)),
        ("providedApis", list(&bundle.provided_apis, api)),
        ("requiredApis", list(&bundle.required_apis, api)),
        ("version", json!(bundle.version)),
        ("skipRange", json!(bundle.skip_range)),
        ("dependencies", list(&bundle.dependencies, dependency)),
        ("properties", list(&bundle.properties, property)),
        ("replaces", json!(bundle.replaces)),
        ("skips", json!(bundle.skips)),
        ("deprecation", deprecation(bundle.deprecation.as_ref())),
    ])
}

pub fn structure(structure: &prost_types::Struct) -> Value {
    let fields = structure.fields.iter();
    Value::Object(
        fields
            .map(|(name, field)| (name.clone(), value(field)))
            .collect::<Map<_, _>>(),
    )
}

fn value(from: &prost_types::Value) -> Value {
    use prost_types::value::Kind;
    match &from.kind {
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::NumberValue(number)) => json!(number),
        Some(Kind::StringValue(text)) => json!(text),
        Some(Kind::BoolValue(flag)) => json!(flag),
        Some(Kind::StructValue(fields)) => structure(fields),
        Some(Kind::ListValue(items)) => list(&items.values, value),
    }
}
