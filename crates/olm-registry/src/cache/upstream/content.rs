//! Files of the layout, written from an index one bundle at a time, and from the packages of its catalog.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use go_compat::json::{self, Html};
use olm_fbc::load;
use olm_fbc::schema::{Blob, Icon, Package};
use serde::Serialize;
use serde_json::ser::Serializer;
use serde_json::{Map, Value};

use super::{Fnv, UpstreamError, make_folder, write_file};
use crate::index::{Index, PackageRecord};
use crate::proto;

/// Longest file name, in bytes.
const LONGEST_NAME: usize = 255;

/// Writes all of `index` below `folder`. `catalog` is its source.
pub(super) fn write(index: &Index, catalog: &Path, folder: &Path) -> Result<(), UpstreamError> {
    for entry in &index.directory().entries {
        let name = format!("{}_{}_{}.json", entry.package, entry.channel, entry.name);
        if name.contains(['/', '\0']) || name.len() > LONGEST_NAME {
            return Err(UpstreamError::Name { name });
        }
        let bundle: proto::Bundle = index.whole_frame(entry).decode().map_err(UpstreamError::Index)?;
        write_json(&folder.join(name), &bundle)?;
    }
    write_custom_schemas(index, &folder.join("metas"))?;
    let mut packages = BTreeMap::new();
    load::read(catalog, |blob, _| -> Result<(), UpstreamError> {
        if let Blob::Package(blob) = blob?
            && let Some((name, record)) = index.directory().packages.get_key_value(&blob.name)
        {
            packages.insert(name.as_str(), package(index, name, record, blob));
        }
        Ok(())
    })?;
    write_json(&folder.join("packages.json"), &packages)
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<(), UpstreamError> {
    write_file(path, |out| {
        let mut serializer = Serializer::with_formatter(out, json::Compact(Html::Escaped));
        value.serialize(&mut serializer).map_err(io::Error::from)
    })
}

/// Writes each blob to a file named by its hash; equal blobs share one.
fn write_custom_schemas(index: &Index, folder: &Path) -> Result<(), UpstreamError> {
    for record in &index.directory().schemas {
        let folder = folder.join(&record.schema).join(&record.package);
        make_folder(&folder)?;
        for blob in index.schema_blobs(record) {
            let blob = blob.decode().map_err(UpstreamError::Index)?;
            let text = json::to_string(&Value::Object(fields(blob)), Html::Plain) + "\n";
            let mut hash = Fnv::default();
            hash.update(text.as_bytes());
            let path = folder.join(format!("{:x}.json", hash.value()));
            write_file(&path, |out| out.write_all(text.as_bytes()))?;
        }
    }
    Ok(())
}

fn fields(of: prost_types::Struct) -> Map<String, Value> {
    let fields = of.fields.into_iter();
    fields.map(|(name, field)| (name, value(field))).collect()
}

fn value(from: prost_types::Value) -> Value {
    use prost_types::value::Kind;
    match from.kind {
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::NumberValue(number)) => Value::from(number),
        Some(Kind::StringValue(text)) => Value::String(text),
        Some(Kind::BoolValue(flag)) => Value::Bool(flag),
        Some(Kind::StructValue(of)) => Value::Object(fields(of)),
        Some(Kind::ListValue(items)) => items.values.into_iter().map(value).collect(),
    }
}

fn package<'a>(index: &'a Index, name: &'a str, record: &'a PackageRecord, blob: Package) -> PackageFile<'a> {
    let channels = record.channels.iter().map(|(channel, head)| {
        let entries = index.channel_entries(name, channel).iter().map(|entry| {
            let file = EntryFile {
                package: name,
                channel,
                name: &entry.name,
                replaces: &entry.replaces,
                skips: (!entry.skips.is_empty()).then_some(entry.skips.as_slice()),
            };
            (entry.name.as_str(), file)
        });
        let file = ChannelFile {
            name: channel,
            head: &head.head,
            bundles: entries.collect(),
            deprecation: head.deprecation.as_deref().map(Into::into),
        };
        (channel.as_str(), file)
    });
    PackageFile {
        name,
        description: blob.description,
        // Upstream knows no other fields.
        icon: blob.icon.map(|icon| Icon {
            extra: Map::new(),
            ..icon
        }),
        default_channel: &record.default_channel,
        channels: channels.collect(),
        deprecation: record.deprecation.as_deref().map(Into::into),
    }
}

#[derive(Serialize)]
struct PackageFile<'a> {
    name: &'a str,
    description: String,
    icon: Option<Icon>,
    #[serde(rename = "defaultChannel")]
    default_channel: &'a str,
    #[serde(rename = "Channels")]
    channels: BTreeMap<&'a str, ChannelFile<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deprecation: Option<proto::Deprecation>,
}

#[derive(Serialize)]
struct ChannelFile<'a> {
    #[serde(rename = "Name")]
    name: &'a str,
    #[serde(rename = "Head")]
    head: &'a str,
    #[serde(rename = "Bundles")]
    bundles: BTreeMap<&'a str, EntryFile<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deprecation: Option<proto::Deprecation>,
}

#[derive(Serialize)]
struct EntryFile<'a> {
    package: &'a str,
    channel: &'a str,
    name: &'a str,
    replaces: &'a str,
    skips: Option<&'a [String]>,
}
