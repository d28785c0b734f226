//! The shared folder with corpus and recorded answers, and catalogs read from files.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use olm_fbc::entry::{BundleEntry, EntryProperty};
use olm_fbc::property::{Typed, kinds};
use olm_fbc::version::{Range, Version};
use serde::Deserialize;
use serde_json::value::RawValue;

/// The folder named by `OLM_SHARED`, by default beside the workspace; none if it is not there.
pub fn folder() -> Option<PathBuf> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let shared = std::env::var_os("OLM_SHARED").map_or_else(|| workspace.join("../shared"), PathBuf::from);
    let shared = if shared.is_relative() {
        workspace.join(shared)
    } else {
        shared
    };
    shared.join("golden").is_dir().then_some(shared)
}

/// The corpus catalog, unpacked once under the build folder.
pub fn corpus_catalog(shared: &Path) -> PathBuf {
    let archive = shared.join("corpus/community-fbc.tar.xz");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("resolver-corpus");
    if !target.is_dir() {
        // Unpacked aside and renamed, so that an interrupted run leaves nothing half done in its place.
        let aside = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let status = Command::new("tar")
            .arg("-xJf")
            .arg(&archive)
            .arg("-C")
            .arg(aside.path())
            .status()
            .unwrap();
        assert!(status.success(), "unpack {}", archive.display());
        match fs::rename(aside.keep(), &target) {
            Err(_) if target.is_dir() => {} // another test process was faster
            outcome => outcome.unwrap(),
        }
    }
    target
}

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

/// Reads every `.json` file under a folder as a stream of catalog blobs, and turns it into what a catalog server tells
/// the resolver: one entry for a bundle and channel, without the content of bundles.
pub fn read_catalog(folder: &Path) -> Vec<BundleEntry> {
    let mut defaults = BTreeMap::new();
    let mut channels = Vec::new();
    let mut bundles: BTreeMap<(String, String), Bundle> = BTreeMap::new();
    for file in json_files(folder) {
        let text = fs::read_to_string(&file).unwrap();
        for blob in serde_json::Deserializer::from_str(&text).into_iter::<Blob<'_>>() {
            let blob = blob.unwrap_or_else(|e| panic!("{}: {e}", file.display()));
            match blob.schema.as_str() {
                "olm.package" => {
                    defaults.insert(blob.name, blob.default_channel);
                }
                "olm.channel" => channels.push((blob.package, blob.name, blob.entries)),
                "olm.bundle" => {
                    bundles.insert((blob.package, blob.name), bundle(blob.image, &blob.properties));
                }
                _ => {}
            }
        }
    }
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

fn bundle(image: String, published: &[Published<'_>]) -> Bundle {
    let content = [kinds::BUNDLE_OBJECT, kinds::CSV_METADATA];
    let properties: Arc<[EntryProperty]> = published
        .iter()
        .filter(|p| !content.contains(&p.kind.as_str()))
        .map(|p| EntryProperty::new(p.kind.as_str(), p.value.get()))
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
        provided_apis: Arc::default(),
        required_apis: Arc::default(),
        bundle_path: some(bundle.image.clone()),
        inline: None,
        deprecation: None,
    }
}

fn json_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(json_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "json") {
            found.push(path);
        }
    }
    found.sort();
    found
}
