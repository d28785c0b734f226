//! A served catalog as the compact structure that resolution reads.
//!
//! Bundles are taken off the stream one by one. Common parts are stored once, and manifests are only hashed.
//! An unusable bundle is skipped and reported, so that it does not hide the catalog. Rules:
//! `docs/reference/registry.md`.

use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use go_compat::semver::Version;
use olm_fbc::entry::{
    BundleEntry, CatalogSnapshot, Deprecation, EntryProperty, ManifestDigest, PackageEntry,
};
use olm_fbc::property::{self, PropertyError, Typed, kinds};
use prost::Message as _;
use serde_json::{Value, json};
use tonic::Status;

use crate::cache;
use crate::client::Client;
use crate::index::Index;
use crate::limits::{DEPENDENCY_BYTES, ERROR_CHARACTERS, PARALLEL_PACKAGES, ReadLimits};
use crate::proto;

mod pool;
mod weight;

use self::pool::Pool;

/// A snapshot could not be read.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The call failed.
    #[error("failed to list bundles: {}", message(.0))]
    List(#[source] Status),
    /// The stream broke off.
    #[error("error encountered while listing bundles: {}", message(.0))]
    Stream(#[source] Status),
    /// The catalog exceeds a limit.
    #[error(
        "the catalog has more than {allowed} {of}, the limit `{limit}` of one catalog; remove packages or old versions, or split it into several catalogs"
    )]
    TooLarge {
        /// Field of [`ReadLimits`] that is exceeded.
        limit: &'static str,
        /// Value of the limit.
        allowed: u64,
        /// The counted items.
        of: &'static str,
    },
    /// Reading takes too long.
    #[error(
        "reading the catalog timed out after {} s, the limit `time` of one catalog; check why its server is slow, or remove packages",
        .0.as_secs_f32()
    )]
    TooSlow(Duration),
}

/// Returns a server's message, shortened to [`ERROR_CHARACTERS`].
pub fn message(status: &Status) -> String {
    status.message().chars().take(ERROR_CHARACTERS).collect()
}

/// A snapshot, and a report of the skipped parts.
#[derive(Debug, Default)]
pub struct Fetched {
    /// The snapshot.
    pub snapshot: CatalogSnapshot,
    /// One line for each skipped bundle or package.
    pub skipped: Vec<String>,
    /// Approximate bytes of both in memory.
    pub bytes: usize,
}

/// Reads a catalog: all bundles, then each package once, within [`ReadLimits::CATALOG`].
///
/// # Errors
/// Bundles cannot be listed, or a limit is exceeded. If a package cannot be read, only its bundles are
/// skipped.
pub async fn fetch(client: &Client) -> Result<Fetched, SnapshotError> {
    fetch_within(client, &ReadLimits::CATALOG).await
}

/// Same as [`fetch`], within the caller's limits. Dropping the future ends the call to the server.
///
/// # Errors
/// See [`fetch`].
pub async fn fetch_within(client: &Client, limits: &ReadLimits) -> Result<Fetched, SnapshotError> {
    let read = tokio::time::timeout(limits.time, read(client, limits)).await;
    read.unwrap_or(Err(SnapshotError::TooSlow(limits.time)))
}

async fn read(client: &Client, limits: &ReadLimits) -> Result<Fetched, SnapshotError> {
    let mut builder = Builder::default();
    let mut counted = Counted::default();
    let mut bundles = client.list_bundles().await.map_err(SnapshotError::List)?;
    while let Some(bundle) = bundles.next().await {
        let bundle = bundle.map_err(SnapshotError::Stream)?;
        counted.bundles += 1;
        counted.bytes += bundle.encoded_len() as u64;
        builder.add_bundle(bundle);
        counted.check(limits, &builder)?;
    }
    let names = builder.package_names();
    counted.packages = names.len();
    counted.check(limits, &builder)?;
    let mut packages = futures::stream::iter(names)
        .map(|name| {
            let client = client.clone();
            async move {
                let package = client.get_package(&name).await;
                (name, package)
            }
        })
        .buffered(PARALLEL_PACKAGES);
    while let Some((name, package)) = packages.next().await {
        match package {
            Ok(package) => {
                counted.bytes += package.encoded_len() as u64;
                builder.add_package(package);
            }
            Err(status) => builder.skip(format!("package {name:?}: {}", message(&status))),
        }
        counted.check(limits, &builder)?;
    }
    Ok(builder.finish())
}

/// Consumption of a read so far.
#[derive(Default)]
struct Counted {
    bundles: usize,
    packages: usize,
    bytes: u64,
}

impl Counted {
    /// Checks the consumption, with what the builder keeps.
    fn check(&self, limits: &ReadLimits, builder: &Builder) -> Result<(), SnapshotError> {
        let (bundles, packages) = (self.bundles as u64, self.packages as u64);
        let kept = builder.kept() as u64;
        let counts = [
            ("bundles", bundles, limits.bundles as u64, "bundles"),
            ("bytes", self.bytes, limits.bytes, "bytes"),
            ("packages", packages, limits.packages as u64, "packages"),
            ("kept", kept, limits.kept as u64, "bytes to keep in memory"),
        ];
        match counts.into_iter().find(|(_, found, allowed, _)| found > allowed) {
            Some((limit, _, allowed, of)) => Err(SnapshotError::TooLarge { limit, allowed, of }),
            None => Ok(()),
        }
    }
}

/// Reads an index as a client of its server would: the listed bundles, then each package once.
///
/// # Errors
/// The file of the index cannot be read.
pub fn of_index(index: &Index) -> io::Result<Fetched> {
    let mut builder = Builder::default();
    let mut position = 0;
    while let Some(frame) = index.listed_bundle(position) {
        builder.add_bundle(frame.decode()?);
        position = position.saturating_add(1);
    }
    for name in builder.package_names() {
        match index.package(&name) {
            Ok(package) => builder.add_package(package),
            Err(error) => builder.skip(format!("package {name:?}: {error}")),
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
    cause: Box<dyn Error + Send + Sync>,
}

/// Reads a catalog directory as a cluster would see it, through the answers of its server. Also returns the
/// index, for all other queries.
///
/// # Errors
/// The directory is not a valid catalog.
pub fn of_directory(directory: &Path) -> Result<(Index, Fetched), DirectoryError> {
    let read = || -> Result<_, Box<dyn Error + Send + Sync>> {
        let index = cache::open_temporary(directory, None)?;
        let fetched = of_index(&index)?;
        Ok((index, fetched))
    };
    read().map_err(|cause| DirectoryError {
        directory: directory.display().to_string(),
        cause,
    })
}

/// Returns what an index answers to `GetBundle`; `None` for an unknown bundle. For a bundle with an image the
/// ClusterServiceVersion is built from its metadata, and there may be no other objects.
pub fn bundle_of(index: &Index, package: &str, channel: &str, name: &str) -> Option<proto::Bundle> {
    index.bundle(package, channel, name).ok()?.decode().ok()
}

/// Returns the objects in the answer to `GetBundle`. Invalid JSON is skipped.
pub fn objects(bundle: &proto::Bundle) -> Vec<Value> {
    let texts = bundle.object.iter();
    texts.filter_map(|text| serde_json::from_str(text).ok()).collect()
}

/// Returns the ClusterServiceVersion in the answer to `GetBundle`.
pub fn csv(bundle: &proto::Bundle) -> Option<Value> {
    serde_json::from_str(&bundle.csv_json).ok()
}

/// Returns the identity of the manifests of a bundle without an image: [`BundleEntry::inline`].
pub fn manifest_digest(objects: &[String]) -> ManifestDigest {
    let mut hasher = blake3::Hasher::new();
    for object in objects {
        // The length is included, so that another division of the same text has another hash.
        hasher.update(&(object.len() as u64).to_le_bytes());
        hasher.update(object.as_bytes());
    }
    hasher.finalize().into()
}

/// Longer texts of a catalog are cut in messages.
const SHOWN_CHARS: usize = 100;

/// Collects bundles and packages into a snapshot.
#[derive(Default)]
pub struct Builder {
    pool: Pool,
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
                self.warn_of_skip_range(&bundle);
                let entry = self.entry(bundle, properties);
                self.entries.push(entry);
            }
            Err(reason) => self.skip(format!(
                "bundle {:?} of package {:?}, channel {:?}: {reason}",
                bundle.csv_name, bundle.package_name, bundle.channel_name
            )),
        }
    }

    /// Reports an unreadable range. It counts as none, so the upgrades that it promises never happen.
    fn warn_of_skip_range(&mut self, bundle: &proto::Bundle) {
        let range = &bundle.skip_range;
        if !range.is_empty() && self.pool.range(range).is_none() {
            let shown: String = range.chars().take(SHOWN_CHARS).collect();
            self.skip(format!(
                "invalid skipRange {shown:?} of bundle {:?} of package {:?}, channel {:?}: no version is upgraded by it",
                bundle.csv_name, bundle.package_name, bundle.channel_name
            ));
        }
    }

    fn skip(&mut self, text: String) {
        self.pool.keep(text.len());
        self.skipped.push(text);
    }

    /// Returns the approximate bytes of the kept content.
    fn kept(&self) -> usize {
        self.pool.kept()
    }

    fn keep_deprecation(&mut self, deprecation: Option<&proto::Deprecation>) {
        self.pool
            .keep(deprecation.map_or(0, |deprecation| deprecation.message.len()));
    }

    /// Returns the names of the packages of all added bundles.
    pub fn package_names(&self) -> Vec<Arc<str>> {
        let names: std::collections::BTreeSet<_> = self.entries.iter().map(|entry| &entry.package).collect();
        names.into_iter().cloned().collect()
    }

    /// Adds a package. Bundles of packages that are never added are skipped.
    pub fn add_package(&mut self, package: proto::Package) {
        let name = self.pool.text(&package.name);
        self.keep_deprecation(package.deprecation.as_ref());
        let mut deprecations = PackageDeprecations {
            package: package.deprecation.map(|deprecation| deprecation.message.into()),
            ..PackageDeprecations::default()
        };
        let mut entry = PackageEntry {
            name: Arc::clone(&name),
            default_channel: self.pool.text(&package.default_channel_name),
            channels: BTreeMap::new(),
        };
        for channel in package.channels {
            let channel_name = self.pool.text(&channel.name);
            self.keep_deprecation(channel.deprecation.as_ref());
            if let Some(deprecation) = channel.deprecation {
                deprecations
                    .channels
                    .insert(Arc::clone(&channel_name), deprecation.message.into());
            }
            let head = self.pool.text(&channel.csv_name);
            entry.channels.insert(channel_name, head);
        }
        self.package_deprecations.insert(Arc::clone(&name), deprecations);
        self.packages.insert(name, entry);
    }

    /// Returns the snapshot.
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
                    entry.deprecation = Some(self.pool.deprecation(Deprecation {
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
            bytes: self.pool.kept(),
        }
    }

    fn entry(&mut self, bundle: proto::Bundle, properties: Arc<[EntryProperty]>) -> BundleEntry {
        let pool = &mut self.pool;
        let version = Version::parse_tolerant(&bundle.version).ok();
        let parts = version.as_ref().map_or(0, |version| version.pre.len());
        pool.keep_entry(properties.len(), parts, bundle.version.len());
        let has_image = !bundle.bundle_path.is_empty();
        BundleEntry {
            name: pool.text(&bundle.csv_name),
            package: pool.text(&bundle.package_name),
            channel: pool.text(&bundle.channel_name),
            default_channel: false,
            version,
            replaces: (!bundle.replaces.is_empty()).then(|| pool.text(&bundle.replaces)),
            skips: pool.texts(&bundle.skips),
            // An unreadable range counts as none.
            skip_range: pool.range(&bundle.skip_range),
            properties,
            provided_apis: pool.apis(&bundle.provided_apis),
            required_apis: pool.apis(&bundle.required_apis),
            bundle_path: has_image.then(|| pool.text(&bundle.bundle_path)),
            inline: (!has_image).then(|| pool.digest(manifest_digest(&bundle.object))),
            deprecation: bundle.deprecation.map(|deprecation| {
                let message = pool.text(&deprecation.message);
                pool.deprecation(Deprecation {
                    bundle: Some(message),
                    ..Deprecation::default()
                })
            }),
        }
    }

    /// Returns properties, then dependencies as requirements, then the package if no property has it.
    fn properties(&mut self, bundle: &proto::Bundle) -> Result<Arc<[EntryProperty]>, String> {
        weight::check(bundle)?;
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
                kind: self.pool.text(&kind),
                value: self.pool.text(&value),
            })
            .collect();
        Ok(self.pool.properties(list))
    }
}

/// Returns properties from API lists, sorted by value. Key order is that of the type.
fn api_properties(kind: &str, apis: &[proto::GroupVersionKind]) -> Vec<(String, String)> {
    let mut values: Vec<String> = apis
        .iter()
        .map(|api| api_value(kind, &api.group, &api.kind, &api.version))
        .collect();
    values.sort();
    values.into_iter().map(|value| (kind.to_owned(), value)).collect()
}

/// Returns the value of an API property. `olm.gvk` has the order group, kind, version; `olm.gvk.required` has
/// group, version, kind.
fn api_value(kind: &str, group: &str, api_kind: &str, version: &str) -> String {
    let [group, api_kind, version] = [group, api_kind, version].map(|text| Value::from(text).to_string());
    if kind == kinds::GVK {
        format!(r#"{{"group":{group},"kind":{api_kind},"version":{version}}}"#)
    } else {
        format!(r#"{{"group":{group},"version":{version},"kind":{api_kind}}}"#)
    }
}

/// Returns a dependency as the equivalent requirement property; `None` for unknown types.
fn requirement(dependency: &proto::Dependency) -> Result<Option<(String, String)>, String> {
    if dependency.value.len() > DEPENDENCY_BYTES {
        return Err(format!("a dependency exceeds {DEPENDENCY_BYTES} bytes"));
    }
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
