//! A served catalog as the compact structure that resolution reads.
//!
//! Bundles are taken off the stream one by one; equal texts are stored once. A bundle that cannot be used is left out and
//! named, as one broken bundle must not hide a catalog. Source: section 3 of the resolver's specification.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::Path;
use std::sync::Arc;

use olm_fbc::entry::{BundleEntry, CatalogSnapshot, Deprecation, EntryProperty, InlineBundle, PackageEntry};
use olm_fbc::property::{self, Gvk, PropertyError, Typed, kinds};
use olm_fbc::version::{Range, Version};
use prost::Message as _;
use serde_json::{Value, json};
use tokio_stream::StreamExt as _;
use tonic::Status;

use crate::cache::{self, CacheError};
use crate::client::Client;
use crate::index::Index;
use crate::proto;

/// Why there is no snapshot.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The call failed.
    #[error("failed to list bundles: {}", .0.message())]
    List(#[source] Status),
    /// The stream broke off.
    #[error("error encountered while listing bundles: {}", .0.message())]
    Stream(#[source] Status),
}

/// A snapshot and what was left out of it.
#[derive(Debug, Default)]
pub struct Fetched {
    /// The snapshot.
    pub snapshot: CatalogSnapshot,
    /// One line for each bundle or package left out.
    pub skipped: Vec<String>,
}

/// Reads a catalog: all bundles, then each package once.
///
/// # Errors
/// Bundles cannot be listed. A package that cannot be read only leaves its bundles out.
pub async fn fetch(client: &Client) -> Result<Fetched, SnapshotError> {
    let mut builder = Builder::default();
    let mut bundles = client.list_bundles().await.map_err(SnapshotError::List)?;
    while let Some(bundle) = bundles.next().await {
        builder.add_bundle(bundle.map_err(SnapshotError::Stream)?);
    }
    for name in builder.package_names() {
        match client.get_package(&name).await {
            Ok(package) => builder.add_package(package),
            Err(status) => builder
                .skipped
                .push(format!("package {name:?}: {}", status.message())),
        }
    }
    Ok(builder.finish())
}

/// Reads an index as a client of its server would: what is listed, then each package once.
///
/// # Errors
/// The file of the index cannot be read.
pub fn of_index(index: &Index) -> io::Result<Fetched> {
    let mut builder = Builder::default();
    let mut position = 0;
    while let Some(frame) = index.listed_bundle(position) {
        let bundle = proto::Bundle::decode(frame.to_bytes()?.as_slice());
        builder.add_bundle(bundle.map_err(io::Error::other)?);
        position += 1;
    }
    for name in builder.package_names() {
        match index.package(&name) {
            Ok(package) => builder.add_package(package),
            Err(error) => builder.skipped.push(format!("package {name:?}: {error}")),
        }
    }
    Ok(builder.finish())
}

/// A catalog directory cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("catalog {directory}")]
pub struct DirectoryError {
    directory: String,
    #[source]
    cause: DirectoryCause,
}

#[derive(Debug, thiserror::Error)]
enum DirectoryCause {
    #[error(transparent)]
    Invalid(#[from] CacheError),
    #[error(transparent)]
    Read(#[from] io::Error),
}

/// Reads a catalog directory the way a cluster does: what its server would list. The index answers for the rest.
///
/// # Errors
/// The directory is no valid catalog.
pub fn of_directory(directory: &Path) -> Result<(Index, Fetched), DirectoryError> {
    let read = || -> Result<_, DirectoryCause> {
        let index = cache::open_temporary(directory)?;
        let fetched = of_index(&index)?;
        Ok((index, fetched))
    };
    read().map_err(|cause| DirectoryError {
        directory: directory.display().to_string(),
        cause,
    })
}

/// The ClusterServiceVersion of a bundle as an index has it; of a bundle with an image that is what its metadata tell.
pub fn csv_of(index: &Index, package: &str, channel: &str, name: &str) -> Option<Value> {
    let frame = index.bundle(package, channel, name).ok()?;
    csv(&proto::Bundle::decode(frame.to_bytes().ok()?.as_slice()).ok()?)
}

/// The ClusterServiceVersion in the answer to `GetBundle`.
pub fn csv(bundle: &proto::Bundle) -> Option<Value> {
    serde_json::from_str(&bundle.csv_json).ok()
}

/// Collects bundles and packages into a snapshot.
#[derive(Default)]
pub struct Builder {
    texts: HashSet<Arc<str>>,
    property_lists: HashSet<Arc<[EntryProperty]>>,
    entries: Vec<BundleEntry>,
    packages: BTreeMap<Arc<str>, PackageEntry>,
    /// Deprecation messages of packages and channels, which bundles do not carry.
    package_deprecations: BTreeMap<Arc<str>, PackageDeprecations>,
    skipped: Vec<String>,
}

#[derive(Default)]
struct PackageDeprecations {
    package: Option<Arc<str>>,
    channels: BTreeMap<Arc<str>, Arc<str>>,
}

impl Builder {
    /// Adds a message of `ListBundles`.
    pub fn add_bundle(&mut self, bundle: proto::Bundle) {
        match self.properties(&bundle) {
            Ok(properties) => {
                let entry = self.entry(bundle, properties);
                self.entries.push(entry);
            }
            Err(reason) => self.skipped.push(format!(
                "bundle {:?} of package {:?}, channel {:?}: {reason}",
                bundle.csv_name, bundle.package_name, bundle.channel_name
            )),
        }
    }

    /// Names of the packages that bundles were added of.
    pub fn package_names(&self) -> Vec<Arc<str>> {
        let names: std::collections::BTreeSet<_> = self.entries.iter().map(|entry| &entry.package).collect();
        names.into_iter().cloned().collect()
    }

    /// Adds a package; bundles of packages that are never added are left out.
    pub fn add_package(&mut self, package: proto::Package) {
        let name = self.intern(&package.name);
        let mut deprecations = PackageDeprecations {
            package: package.deprecation.map(|deprecation| deprecation.message.into()),
            ..PackageDeprecations::default()
        };
        let mut entry = PackageEntry {
            name: Arc::clone(&name),
            default_channel: self.intern(&package.default_channel_name),
            channels: BTreeMap::new(),
        };
        for channel in package.channels {
            let channel_name = self.intern(&channel.name);
            if let Some(deprecation) = channel.deprecation {
                deprecations
                    .channels
                    .insert(Arc::clone(&channel_name), deprecation.message.into());
            }
            let head = self.intern(&channel.csv_name);
            entry.channels.insert(channel_name, head);
        }
        self.package_deprecations.insert(Arc::clone(&name), deprecations);
        self.packages.insert(name, entry);
    }

    /// The snapshot.
    pub fn finish(mut self) -> Fetched {
        self.entries.retain_mut(|entry| {
            let Some(package) = self.packages.get(&entry.package) else {
                return false;
            };
            entry.default_channel = package.default_channel == entry.channel;
            if let Some(known) = self.package_deprecations.get(&entry.package) {
                let channel = known.channels.get(&entry.channel);
                if known.package.is_some() || channel.is_some() {
                    let own = entry.deprecation.take();
                    entry.deprecation = Some(Arc::new(Deprecation {
                        package: known.package.clone(),
                        channel: channel.cloned(),
                        bundle: own.and_then(|own| own.bundle.clone()),
                    }));
                }
            }
            true
        });
        Fetched {
            snapshot: CatalogSnapshot::new(self.packages, self.entries),
            skipped: self.skipped,
        }
    }

    fn intern(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return Arc::clone(known);
        }
        let new: Arc<str> = text.into();
        self.texts.insert(Arc::clone(&new));
        new
    }

    fn entry(&mut self, bundle: proto::Bundle, properties: Arc<[EntryProperty]>) -> BundleEntry {
        let inline = bundle.bundle_path.is_empty().then(|| {
            Arc::new(InlineBundle {
                csv_json: bundle.csv_json,
                objects: bundle.object,
            })
        });
        BundleEntry {
            name: self.intern(&bundle.csv_name),
            package: self.intern(&bundle.package_name),
            channel: self.intern(&bundle.channel_name),
            default_channel: false,
            version: Version::parse_tolerant(&bundle.version).ok(),
            replaces: (!bundle.replaces.is_empty()).then(|| self.intern(&bundle.replaces)),
            skips: bundle.skips.iter().map(|skip| self.intern(skip)).collect(),
            // A broken range counts as none.
            skip_range: Range::parse(&bundle.skip_range).ok().map(Arc::new),
            properties,
            provided_apis: sorted_apis(&bundle.provided_apis),
            required_apis: sorted_apis(&bundle.required_apis),
            bundle_path: (!bundle.bundle_path.is_empty()).then(|| bundle.bundle_path.as_str().into()),
            inline,
            deprecation: bundle.deprecation.map(|deprecation| {
                Arc::new(Deprecation {
                    bundle: Some(deprecation.message.into()),
                    ..Deprecation::default()
                })
            }),
        }
    }

    /// Properties, then dependencies as requirements, then the package if no property has it.
    fn properties(&mut self, bundle: &proto::Bundle) -> Result<Arc<[EntryProperty]>, String> {
        let mut list: Vec<(String, String)> = bundle
            .properties
            .iter()
            .map(|property| (property.r#type.clone(), property.value.clone()))
            .collect();
        if list.is_empty() {
            list.extend(api_properties(kinds::GVK, &bundle.provided_apis));
        }
        if bundle.dependencies.is_empty() {
            list.extend(api_properties(kinds::GVK_REQUIRED, &bundle.required_apis));
        }
        for dependency in &bundle.dependencies {
            list.extend(requirement(dependency)?);
        }
        if !list.iter().any(|(kind, _)| kind == kinds::PACKAGE) {
            let value = json!({"packageName": bundle.package_name, "version": bundle.version});
            list.push((kinds::PACKAGE.to_owned(), value.to_string()));
        }
        let list: Arc<[EntryProperty]> = list
            .into_iter()
            .map(|(kind, value)| EntryProperty {
                kind: self.intern(&kind),
                value: self.intern(&value),
            })
            .collect();
        if let Some(known) = self.property_lists.get(&list) {
            return Ok(Arc::clone(known));
        }
        self.property_lists.insert(Arc::clone(&list));
        Ok(list)
    }
}

fn sorted_apis(apis: &[proto::GroupVersionKind]) -> Arc<[Gvk]> {
    let mut list: Vec<Gvk> = apis
        .iter()
        .map(|api| Gvk {
            group: api.group.clone(),
            kind: api.kind.clone(),
            version: api.version.clone(),
        })
        .collect();
    list.sort();
    list.dedup();
    list.into()
}

/// Properties made of API lists, sorted by value. Key order is that of the type.
fn api_properties(kind: &str, apis: &[proto::GroupVersionKind]) -> Vec<(String, String)> {
    let mut values: Vec<String> = apis
        .iter()
        .map(|api| api_value(kind, &api.group, &api.kind, &api.version))
        .collect();
    values.sort();
    values.into_iter().map(|value| (kind.to_owned(), value)).collect()
}

/// `olm.gvk` is written group, kind, version; `olm.gvk.required` group, version, kind.
fn api_value(kind: &str, group: &str, api_kind: &str, version: &str) -> String {
    let [group, api_kind, version] = [group, api_kind, version].map(|text| Value::from(text).to_string());
    if kind == kinds::GVK {
        format!(r#"{{"group":{group},"kind":{api_kind},"version":{version}}}"#)
    } else {
        format!(r#"{{"group":{group},"version":{version},"kind":{api_kind}}}"#)
    }
}

/// A dependency as the requirement property it stands for; of unknown types there is none.
fn requirement(dependency: &proto::Dependency) -> Result<Option<(String, String)>, String> {
    let parse = |what: &str| -> Result<Typed, String> {
        let wrap = |reason: String| format!("failed to unmarshal legacy '{what}' dependency: {reason}");
        let value: Value =
            serde_json::from_str(&dependency.value).map_err(|error| wrap(error.to_string()))?;
        let (kind, value) = if what == kinds::PACKAGE {
            let range = value.get("version").cloned().unwrap_or_default();
            let name = value.get("packageName").cloned().unwrap_or_default();
            (
                kinds::PACKAGE_REQUIRED,
                json!({"packageName": name, "versionRange": range}),
            )
        } else {
            (kinds::GVK_REQUIRED, value)
        };
        property::parse(kind, &value).map_err(|error: PropertyError| wrap(error.to_string()))
    };
    Ok(match dependency.r#type.as_str() {
        kinds::GVK => match parse(kinds::GVK)? {
            Typed::GvkRequired(gvk) => {
                let value = api_value(kinds::GVK_REQUIRED, &gvk.group, &gvk.kind, &gvk.version);
                Some((kinds::GVK_REQUIRED.to_owned(), value))
            }
            _ => None,
        },
        kinds::PACKAGE => match parse(kinds::PACKAGE)? {
            Typed::PackageRequired(required) => {
                let value = serde_json::to_string(&required).map_err(|error| error.to_string())?;
                Some((kinds::PACKAGE_REQUIRED.to_owned(), value))
            }
            _ => None,
        },
        kinds::LABEL => Some((kinds::LABEL_REQUIRED.to_owned(), dependency.value.clone())),
        kinds::CONSTRAINT => Some((kinds::CONSTRAINT.to_owned(), dependency.value.clone())),
        _ => None,
    })
}

#[cfg(test)]
mod tests;
