//! `opm generate catalog`: a whole catalog from bundle directories and the channels in `package.json`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use olm_fbc::misspelling::misspelt_keys;
use olm_fbc::schema::{Blob, Channel, ChannelEntry, Package};
use serde_json::Value;

use crate::args::GenerateCatalogArgs;
use crate::commands::imageless;
use crate::commands::render::{fill_image, migration_level, print};
use crate::image_template::ImageTemplate;
use crate::source::{bundle_blob, check_directory, entries, read, read_bundle_directory};

/// File with data that bundles lack: default channel and upgrade edges.
const PACKAGE_FILE: &str = "package.json";

pub(crate) fn run(args: &GenerateCatalogArgs) -> anyhow::Result<()> {
    let template = ImageTemplate::parse(&args.image_ref_template)?;
    let level = migration_level(args.migrate_level.as_deref())?;
    let mut blobs = Vec::new();
    for package in package_directories(&args.directory)? {
        let start = blobs.len();
        blobs.extend(
            package_blobs(&package).with_context(|| format!("package directory {}", package.display()))?,
        );
        for blob in &mut blobs[start..] {
            if let Blob::Bundle(bundle) = blob {
                fill_image(bundle, &template);
            }
        }
    }
    level.apply(&mut blobs);
    print(&mut blobs, args.output)?;
    let without_image: Vec<String> = blobs.iter().filter_map(imageless::name).collect();
    imageless::warn(&without_image, "--image-ref-template");
    Ok(())
}

/// Returns the directory itself if it is a package's, else all package directories in it.
fn package_directories(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if root.join(PACKAGE_FILE).is_file() {
        return Ok(vec![root.to_owned()]);
    }
    let found: Vec<PathBuf> = subdirectories(root)?
        .into_iter()
        .filter(|path| path.join(PACKAGE_FILE).is_file())
        .collect();
    if found.is_empty() {
        bail!("no {PACKAGE_FILE} in {} or a directory in it", root.display());
    }
    Ok(found)
}

fn subdirectories(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    check_directory(root)?;
    let mut found = entries(root)?;
    found.retain(|path| path.is_dir());
    Ok(found)
}

fn package_blobs(directory: &Path) -> anyhow::Result<Vec<Blob>> {
    let path = directory.join(PACKAGE_FILE);
    let document = parse_package(&read(&path)?).with_context(|| path.display().to_string())?;
    let mut blobs = graph_blobs(&document).with_context(|| path.display().to_string())?;
    for bundle in subdirectories(directory)? {
        blobs.push(bundle_blob(&read_bundle_directory(&bundle)?, "")?);
    }
    Ok(blobs)
}

/// Parses a package file. YAML is accepted, too, because JSON is a part of it; other text is YAML, but not an object.
fn parse_package(text: &[u8]) -> anyhow::Result<Value> {
    let expected = "expected an object with \"package\", \"defaultChannel\" and \"channels\"";
    match olm_fbc::yaml::parse(text) {
        Ok(document @ Value::Object(_)) => Ok(document),
        Ok(other) => bail!("not JSON: {expected}, found {}", go_compat::json::kind_of(&other)),
        Err(error) => bail!("not JSON: {expected}: {error}"),
    }
}

/// Returns the package and its channels.
fn graph_blobs(document: &Value) -> anyhow::Result<Vec<Blob>> {
    let text = |key: &str| document[key].as_str().unwrap_or_default().to_owned();
    check_keys(
        document,
        &["package", "defaultChannel", "description", "channels"],
    )?;
    let package = text("package");
    if package.is_empty() {
        bail!("\"package\" must be set");
    }
    let mut blobs = vec![Blob::Package(Package {
        name: package.clone(),
        default_channel: text("defaultChannel"),
        description: text("description"),
        ..Package::default()
    })];
    let channels = document["channels"]
        .as_object()
        .context("\"channels\" must map names of channels to lists of entries")?;
    for (name, entries) in channels.iter().collect::<BTreeMap<_, _>>() {
        let entries = entries
            .as_array()
            .with_context(|| format!("channel {name:?} must be a list of entries"))?;
        for entry in entries {
            check_keys(entry, &["name", "replaces", "skips", "skipRange"])
                .with_context(|| format!("channel {name:?}, entry {}", entry["name"]))?;
        }
        blobs.push(Blob::Channel(Channel {
            name: name.clone(),
            package: package.clone(),
            entries: entries.iter().map(entry).collect::<Option<_>>().with_context(|| {
                format!("channel {name:?}: an entry needs a name; replaces, skips and skipRange are optional texts")
            })?,
            ..Channel::default()
        }));
    }
    Ok(blobs)
}

/// Rejects keys that resemble a key of `known`. Only this command reads the file, so they are misspellings that would lose edges.
fn check_keys(value: &Value, known: &[&'static str]) -> anyhow::Result<()> {
    let misspelt = value
        .as_object()
        .and_then(|object| misspelt_keys(object, known).into_iter().next());
    match misspelt {
        Some((key, meant)) => bail!("unknown key {key:?}: did you mean {meant:?}?"),
        None => Ok(()),
    }
}

fn entry(value: &Value) -> Option<ChannelEntry> {
    let text = |key: &str| match &value[key] {
        Value::Null => Some(String::new()),
        Value::String(text) => Some(text.clone()),
        _ => None,
    };
    let skips = match &value["skips"] {
        Value::Null => Vec::new(),
        Value::Array(skips) => skips
            .iter()
            .map(|skip| skip.as_str().map(str::to_owned))
            .collect::<Option<_>>()?,
        _ => return None,
    };
    let name = text("name").filter(|name| !name.is_empty())?;
    Some(ChannelEntry {
        name,
        replaces: text("replaces")?,
        skips,
        skip_range: text("skipRange")?,
        ..ChannelEntry::default()
    })
}
