//! Catalogs in ConfigMaps, as file-based catalogs.
//!
//! Such a ConfigMap has three keys, each with a YAML list: ClusterServiceVersions, the CustomResourceDefinitions that they own,
//! and packages. The channels of a package name their newest version; older ones are found by `spec.replaces`. The result is the
//! blobs of a file-based catalog whose bundles contain their manifests. They may break rules of such catalogs (equal versions,
//! names): input that upstream's loader accepts is accepted, and input that it rejects is rejected. Rules:
//! `docs/reference/registry.md`.

use std::collections::BTreeSet;

use olm_api::config_map_catalog as keys;
use olm_fbc::load::Origin;
use olm_fbc::schema::{Blob, Channel, ChannelEntry, Package};

use crate::Error;
use crate::bundle::BundleContent;

mod content;

use content::{Content, Csv, PackageList};

/// Maximum size of the manifests of all bundles and the entries of all channels together, in bytes. A definition is copied into
/// each bundle that owns it, and a version's references into each of its channels.
pub const MAX_CONTENT_BYTES: usize = 64 << 20;
/// Maximum number of entries of all channels and of the names they skip. A version is an entry of each channel it is in.
pub const MAX_ENTRIES: usize = 20_000;

/// A catalog read from a ConfigMap.
#[derive(Debug)]
pub struct Converted {
    /// Packages, channels and bundles, each with the key and index of its item.
    pub blobs: Vec<(Blob, Origin)>,
    /// Skipped data, with the reason.
    pub warnings: Vec<String>,
}

/// Reads the catalog from the texts of a ConfigMap.
///
/// # Errors
/// The first fault: a missing key, a text that is not a list of the expected items, or items that do not match.
pub fn convert<'a>(text: impl Fn(&str) -> Option<&'a [u8]>) -> Result<Converted, Error> {
    let mut content = Content::read(text)?;
    let warnings = std::mem::take(&mut content.warnings);
    let mut catalog = Builder {
        content: &content,
        blobs: Vec::new(),
        warnings,
        used: BTreeSet::new(),
        entries: 0,
        bytes: 0,
    };
    for package in &content.packages {
        catalog.add_package(package)?;
    }
    Ok(catalog.finish())
}

struct Builder<'a> {
    content: &'a Content,
    blobs: Vec<(Blob, Origin)>,
    warnings: Vec<String>,
    /// ClusterServiceVersions that are in a channel.
    used: BTreeSet<&'a str>,
    entries: usize,
    bytes: usize,
}

fn origin(key: &str, index: usize) -> Origin {
    Origin {
        file: key.into(),
        document: index + 1,
    }
}

impl<'a> Builder<'a> {
    fn add_package(&mut self, package: &'a PackageList) -> Result<(), Error> {
        let (name, index) = (&package.name, package.index);
        let default_channel = match package.channels.as_slice() {
            // The only channel is the default, even if the package names another.
            [only] => &only.name,
            several
                if several
                    .iter()
                    .any(|channel| channel.name == package.default_channel) =>
            {
                &package.default_channel
            }
            _ => return Err(format!("no default channel specified for {name}").into()),
        };
        let blob = Package {
            name: name.clone(),
            default_channel: default_channel.clone(),
            ..Package::default()
        };
        self.blobs
            .push((Blob::Package(blob), origin(keys::PACKAGES, index)));
        let mut bundles = BTreeSet::new();
        for channel in &package.channels {
            self.add_bytes(name.len() + channel.name.len())?;
            let entries = self.entries(name, &channel.name, &channel.current_csv)?;
            for entry in &entries {
                bundles.extend(self.content.csvs.get_key_value(&entry.name).map(|(name, _)| name));
            }
            let blob = Channel {
                name: channel.name.clone(),
                package: name.clone(),
                entries,
                ..Channel::default()
            };
            self.blobs
                .push((Blob::Channel(blob), origin(keys::PACKAGES, index)));
        }
        let bytes = bundles
            .iter()
            .map(|csv| name.len() + self.bundle_bytes(&self.content.csvs[*csv]));
        self.add_bytes(bytes.sum())?;
        for csv in bundles {
            self.used.insert(csv);
            self.add_bundle(name, &self.content.csvs[csv])?;
        }
        Ok(())
    }

    fn bundle_bytes(&self, csv: &Csv) -> usize {
        let crds = csv.owned.iter().map(|index| self.content.crds[*index].bytes);
        csv.bytes + crds.sum::<usize>()
    }

    fn add_bytes(&mut self, bytes: usize) -> Result<(), Error> {
        self.bytes += bytes;
        if self.bytes > MAX_CONTENT_BYTES {
            return Err(format!(
                "the bundles of the configmap are larger than {MAX_CONTENT_BYTES} bytes together"
            )
            .into());
        }
        Ok(())
    }

    /// Counts an entry before it is created, because thousands of channels may repeat the references of one version.
    fn add_entry(&mut self, csv: &Csv) -> Result<(), Error> {
        self.entries += 1 + csv.skips.len();
        if self.entries > MAX_ENTRIES {
            return Err(format!(
                "the channels of the configmap have more than {MAX_ENTRIES} entries and skipped names together"
            )
            .into());
        }
        let skips = csv.skips.iter().map(String::len);
        self.add_bytes(csv.name.len() + csv.replaces.len() + csv.skip_range.len() + skips.sum::<usize>())
    }

    /// Returns the entries of a channel, its newest version first: the chain of `replaces`, then the existing versions that the
    /// chain skips.
    fn entries(
        &mut self,
        package: &str,
        channel: &str,
        current_csv: &str,
    ) -> Result<Vec<ChannelEntry>, Error> {
        let csvs = &self.content.csvs;
        let Some(mut csv) = csvs.get(current_csv) else {
            return Err(format!(
                "package {package}, channel {channel}: couldn't find currentCSV {current_csv} in csv list"
            )
            .into());
        };
        let mut seen = BTreeSet::new();
        let mut chain = Vec::new();
        loop {
            self.add_entry(csv)?;
            seen.insert(&csv.name);
            chain.push(csv);
            if csv.replaces.is_empty() {
                break;
            }
            let Csv { name, replaces, .. } = csv;
            if seen.contains(replaces) {
                return Err(format!("Cycle detected, {name} replaces {replaces}").into());
            }
            let Some(next) = csvs.get(replaces) else {
                return Err(format!("Invalid bundle {name}, replaces nonexistent bundle {replaces}").into());
            };
            csv = next;
        }
        let mut entries: Vec<ChannelEntry> = chain.iter().map(|csv| entry(csv)).collect();
        for skipped in chain.iter().flat_map(|csv| &csv.skips) {
            if let Some(skipped) = csvs.get(skipped)
                && seen.insert(&skipped.name)
            {
                self.add_entry(skipped)?;
                entries.push(entry(skipped));
            }
        }
        Ok(entries)
    }

    fn add_bundle(&mut self, package: &str, csv: &Csv) -> Result<(), Error> {
        let crds = csv.owned.iter().map(|index| &self.content.crds[*index]);
        let csv_object = (csv.place.clone(), csv.object.clone());
        let others = crds.map(|crd| (crd.place.clone(), crd.object.clone()));
        let bundle = BundleContent::of_objects(package, csv_object, others);
        let blob = bundle.to_blob("")?;
        self.blobs
            .push((Blob::Bundle(blob), origin(keys::CSVS, csv.index)));
        Ok(())
    }

    fn finish(mut self) -> Converted {
        let names = self.content.csvs.keys().map(String::as_str);
        let unused: Vec<&str> = names.filter(|name| !self.used.contains(name)).collect();
        if !unused.is_empty() {
            self.warnings.push(format!(
                "skipped, because no channel leads to them: {}",
                unused.join(", ")
            ));
        }
        Converted {
            blobs: self.blobs,
            warnings: self.warnings,
        }
    }
}

fn entry(csv: &Csv) -> ChannelEntry {
    ChannelEntry {
        name: csv.name.clone(),
        replaces: csv.replaces.clone(),
        skips: csv.skips.clone(),
        skip_range: csv.skip_range.clone(),
        ..ChannelEntry::default()
    }
}

#[cfg(test)]
mod tests;
