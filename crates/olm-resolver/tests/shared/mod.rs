//! Recorded answers, and catalogs read from files.

pub mod golden;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use go_compat::semver::{Range, Version};
use olm_fbc::entry::{BundleEntry, EntryProperty};
use olm_fbc::property::{Typed, kinds};
use olm_fbc::{load, schema};
use serde::Deserialize;
use serde_json::value::RawValue;

/// A blob of any schema. Flat, as a tagged enum could not keep property values as raw text.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Blob<'a> {
    schema: String,
    name: String,
    #[serde(default)]
    package: String,
    #[serde(default)]
    default_channel: String,
    #[serde(default)]
    entries: Vec<ChannelEntry>,
    #[serde(default)]
    image: String,
    #[serde(borrow, default)]
    properties: Vec<Published<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ChannelEntry {
    name: String,
    #[serde(default)]
    replaces: String,
    #[serde(default)]
    skips: Vec<String>,
    #[serde(default)]
    skip_range: String,
}

#[derive(Deserialize)]
struct Published<'a> {
    #[serde(rename = "type")]
    kind: String,
    #[serde(borrow)]
    value: &'a RawValue,
}

struct Bundle {
    image: String,
    version: Option<Version>,
    properties: Arc<[EntryProperty]>,
}

/// Content read so far.
#[derive(Default)]
struct Catalog {
    defaults: BTreeMap<String, String>,
    channels: Vec<(String, String, Vec<ChannelEntry>)>,
    bundles: BTreeMap<(String, String), Bundle>,
}

/// Reads a folder as catalog servers do (JSON or YAML, `.indexignore`), and returns the resolver's view of
/// it. The view has one entry per bundle and channel, without the content of bundles.
pub fn read_catalog(folder: &Path) -> Vec<BundleEntry> {
    let mut catalog = Catalog::default();
    for file in load::files(folder).unwrap_or_else(|e| panic!("{e}")) {
        if file.extension().is_some_and(|extension| extension == "json") {
            catalog.add_json(&folder.join(&file));
        } else {
            catalog.add_any(folder, &file);
        }
    }
    let Catalog {
        defaults,
        channels,
        bundles,
    } = catalog;
    let mut found = Vec::new();
    for (package, channel, entries) in channels {
        let default_channel = defaults.get(&package) == Some(&channel);
        for entry in entries {
            if let Some(bundle) = bundles.get(&(package.clone(), entry.name.clone())) {
                found.push(bundle_entry(&package, &channel, default_channel, entry, bundle));
            }
        }
    }
    found
}

impl Catalog {
    /// Adds a stream of JSON documents, without a tree of values in between: the corpus is large.
    fn add_json(&mut self, file: &Path) {
        let text = fs::read_to_string(file).unwrap();
        for blob in serde_json::Deserializer::from_str(&text).into_iter::<Blob<'_>>() {
            let blob = blob.unwrap_or_else(|e| panic!("{}: {e}", file.display()));
            match blob.schema.as_str() {
                "olm.package" => {
                    self.defaults.insert(blob.name, blob.default_channel);
                }
                "olm.channel" => self.channels.push((blob.package, blob.name, blob.entries)),
                "olm.bundle" => {
                    let properties = blob.properties.iter().map(|p| (p.kind.as_str(), p.value.get()));
                    let bundle = bundle(blob.image.clone(), properties);
                    self.bundles.insert((blob.package, blob.name), bundle);
                }
                _ => {}
            }
        }
    }

    fn add_any(&mut self, folder: &Path, file: &Path) {
        let mut visit = |blob: Result<schema::Blob, load::LoadError>, _: &load::Origin| {
            match blob? {
                schema::Blob::Package(package) => {
                    self.defaults.insert(package.name, package.default_channel);
                }
                schema::Blob::Channel(channel) => {
                    let entries = channel.entries.into_iter().map(|entry| ChannelEntry {
                        name: entry.name,
                        replaces: entry.replaces,
                        skips: entry.skips,
                        skip_range: entry.skip_range,
                    });
                    self.channels
                        .push((channel.package, channel.name, entries.collect()));
                }
                schema::Blob::Bundle(found) => {
                    let values: Vec<String> = found.properties.iter().map(|p| p.value.to_string()).collect();
                    let properties = found.properties.iter().zip(&values);
                    let properties = properties.map(|(p, value)| (p.kind.as_str(), value.as_str()));
                    let key = (found.package.clone(), found.name.clone());
                    self.bundles.insert(key, bundle(found.image.clone(), properties));
                }
                _ => {}
            }
            Ok::<(), load::LoadError>(())
        };
        load::read_file(folder, file, &mut visit).unwrap_or_else(|e| panic!("{e}"));
    }
}

fn bundle<'p>(image: String, published: impl Iterator<Item = (&'p str, &'p str)>) -> Bundle {
    let content = [kinds::BUNDLE_OBJECT, kinds::CSV_METADATA];
    let properties: Arc<[EntryProperty]> = published
        .filter(|(kind, _)| !content.contains(kind))
        .map(|(kind, value)| EntryProperty::new(kind, value))
        .collect();
    let version = properties.iter().find_map(|p| match p.parse() {
        Ok(Typed::Package(package)) => Version::parse_tolerant(&package.version).ok(),
        _ => None,
    });
    Bundle {
        image,
        version,
        properties,
    }
}

fn bundle_entry(
    package: &str,
    channel: &str,
    default_channel: bool,
    entry: ChannelEntry,
    bundle: &Bundle,
) -> BundleEntry {
    let some = |text: String| (!text.is_empty()).then(|| text.into());
    BundleEntry {
        name: entry.name.into(),
        package: package.into(),
        channel: channel.into(),
        default_channel,
        version: bundle.version.clone(),
        replaces: some(entry.replaces),
        skips: entry.skips.into_iter().map(Into::into).collect(),
        skip_range: Range::parse(&entry.skip_range).ok().map(Arc::new),
        properties: Arc::clone(&bundle.properties),
        bundle_path: some(bundle.image.clone()),
        ..BundleEntry::default()
    }
}
