//! PackageManifests, built from a registry's data about a package.
//!
//! The parts that do not depend on the request are written as JSON once, when the catalog is read, and copied
//! afterwards. A list of all packages has some megabytes, which are not encoded again. Channels with the same
//! head share its description. Rules: `docs/reference/packages.md`.

mod description;
mod icon;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use go_compat::semver::Version;
use olm_api::labels::package_manifest::{PROVIDER, PROVIDER_URL};
use olm_api::packages::{ChannelEntry, Deprecation};
use olm_api::v1alpha1::AppLink;
use olm_fbc::property::kinds;
use olm_registry::proto;
use serde::Serialize;

pub use self::description::Head;
pub use self::icon::Icon;
use crate::json;
use crate::limits::PACKAGE_MANIFEST_BYTES;

/// One package of one catalog, ready to be served.
#[derive(Debug, Clone)]
pub struct Package {
    /// Name of the package.
    pub name: Box<str>,
    /// Labels that come from the package itself: of its provider, and of the head of its default channel.
    pub labels: BTreeMap<String, String>,
    /// Icon of its default channel's head.
    pub icon: Option<PackageIcon>,
    /// Members of `status` from `provider` on, without the catalog's members: JSON without braces.
    pub content: Vec<Bytes>,
}

/// The icon of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageIcon {
    /// Version of the icon: package, channel and ClusterServiceVersion.
    pub tag: String,
    /// The icon itself.
    pub icon: Icon,
}

/// A channel, as input for its package.
#[derive(Debug, Clone)]
pub struct Channel {
    /// The channel's head.
    pub head: Arc<Head>,
    /// The channel's versions.
    pub entries: Entries,
}

/// The versions of a channel, newest first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Entries(Vec<ChannelEntry>);

/// Error of a package in which no channel has a readable head.
const NO_CHANNELS: &str = "packagemanifest has no valid channels";

/// The versions of all channels, by package and channel; collected from the stream of all bundles.
#[derive(Debug, Default)]
pub struct EntryLists {
    lists: BTreeMap<String, BTreeMap<String, Vec<ChannelEntry>>>,
}

impl EntryLists {
    /// Adds one message of the stream and returns the bytes that are kept. Deprecated bundles are not
    /// entries.
    pub fn add(&mut self, bundle: proto::Bundle) -> usize {
        if bundle
            .properties
            .iter()
            .any(|property| property.r#type == kinds::DEPRECATED)
        {
            return 0;
        }
        let deprecated = bundle
            .deprecation
            .as_ref()
            .map_or(0, |deprecation| deprecation.message.len());
        let mut kept = bundle.csv_name.len() + bundle.version.len() + deprecated + ENTRY_BYTES;
        let entry = ChannelEntry {
            name: bundle.csv_name,
            version: (!bundle.version.is_empty()).then_some(bundle.version),
            deprecation: bundle.deprecation.map(deprecation),
            ..ChannelEntry::default()
        };
        // An entry in a new channel or package takes many times the memory of one more in a list.
        let (package, channel) = (bundle.package_name.len(), bundle.channel_name.len());
        let channels = self.lists.entry(bundle.package_name).or_insert_with(|| {
            kept += package + MAP_BYTES;
            BTreeMap::new()
        });
        let list = channels.entry(bundle.channel_name).or_insert_with(|| {
            kept += channel + ENTRY_BYTES;
            Vec::new()
        });
        let before = list.capacity();
        list.push(entry);
        kept + (list.capacity() - before) * size_of::<ChannelEntry>()
    }

    /// Removes and returns the versions of a channel.
    pub fn take(&mut self, package: &str, channel: &str) -> Entries {
        let channels = self.lists.get_mut(package);
        let mut entries = channels
            .and_then(|channels| channels.remove(channel))
            .unwrap_or_default();
        // An invalid version counts as the lowest; names decide between equals, so that the order is stable.
        let version = |entry: &ChannelEntry| {
            let text = entry.version.as_deref().unwrap_or_default();
            Version::parse(text).unwrap_or_else(|_| Version::new(0, 0, 0))
        };
        entries.sort_by_cached_key(|entry| (std::cmp::Reverse(version(entry)), entry.name.clone()));
        Entries(entries)
    }
}

/// Approximate bytes of an entry beside its texts, in a map or for texts on the heap.
const ENTRY_BYTES: usize = 128;
/// Approximate bytes of a kept piece of JSON, beside its text.
const PIECE_BYTES: usize = size_of::<Bytes>() + 48;
/// Approximate bytes of a map: its first node has room for eleven entries.
const MAP_BYTES: usize = 11 * size_of::<(String, Vec<ChannelEntry>)>() + ENTRY_BYTES;

impl Package {
    /// Builds a package. Channels missing from `channels` could not be read and are skipped. If that affects
    /// the default channel, the first remaining one replaces it.
    ///
    /// # Errors
    /// No channel is left, or the package exceeds a limit.
    pub fn new(package: proto::Package, channels: &BTreeMap<String, Channel>) -> Result<Self, String> {
        let mut deprecations: BTreeMap<String, Option<Deprecation>> = BTreeMap::new();
        for channel in package.channels {
            if channels.contains_key(&channel.name) {
                let told = deprecations.entry(channel.name);
                told.or_insert_with(|| channel.deprecation.map(deprecation));
            }
        }
        let first = deprecations.keys().next().cloned().ok_or(NO_CHANNELS)?;
        let default = if deprecations.contains_key(&package.default_channel_name) {
            package.default_channel_name.clone()
        } else if package.default_channel_name.is_empty() {
            String::new()
        } else {
            first.clone()
        };
        // If a catalog names no default channel, the first one describes the package.
        let speaking = if default.is_empty() { &first } else { &default };
        let head = &channels.get(speaking).ok_or(NO_CHANNELS)?.head;
        let content = content(
            &package.name,
            package.deprecation.map(deprecation).as_ref(),
            &head.provider,
            &default,
            deprecations.iter().filter_map(|(name, deprecation)| {
                Some((name.as_str(), deprecation.as_ref(), channels.get(name)?))
            }),
        );
        let length: usize = content.iter().map(Bytes::len).sum();
        if length > PACKAGE_MANIFEST_BYTES {
            return Err(format!(
                "its PackageManifest has {length} bytes, the limit is {PACKAGE_MANIFEST_BYTES}"
            ));
        }
        let icon = (!default.is_empty()).then(|| head.icon.clone()).flatten();
        Ok(Self {
            labels: labels(head),
            icon: icon.map(|icon| PackageIcon {
                tag: format!("{}.{default}.{}", package.name, head.name),
                icon,
            }),
            name: package.name.into(),
            content,
        })
    }

    /// Returns the approximate bytes in memory; parts that channels share are counted once.
    pub fn bytes(&self) -> usize {
        let mut seen = BTreeSet::new();
        let own = self
            .content
            .iter()
            .filter(|piece| seen.insert(piece.as_ptr().addr()));
        let content = own.map(Bytes::len).sum::<usize>() + self.content.len() * PIECE_BYTES;
        let labels: usize = self
            .labels
            .iter()
            .map(|(key, value)| key.len() + value.len() + ENTRY_BYTES)
            .sum();
        let icon = self
            .icon
            .as_ref()
            .map_or(0, |icon| icon.icon.data.len() + icon.icon.media_type.len());
        content + labels + icon + self.name.len() + ENTRY_BYTES
    }
}

/// Returns a package's labels. Labels of the ClusterServiceVersion override that of its provider.
fn labels(head: &Head) -> BTreeMap<String, String> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let mut labels = BTreeMap::from([
        (PROVIDER.to_owned(), text(&head.provider.name)),
        (PROVIDER_URL.to_owned(), text(&head.provider.url)),
    ]);
    labels.extend(
        head.labels
            .iter()
            .map(|(key, value)| (key.clone(), value.clone())),
    );
    labels
}

/// Returns the members of `status` from the package itself, in the order of the API.
fn content<'a>(
    name: &str,
    deprecation: Option<&Deprecation>,
    provider: &AppLink,
    default_channel: &str,
    channels: impl Iterator<Item = (&'a str, Option<&'a Deprecation>, &'a Channel)>,
) -> Vec<Bytes> {
    let mut out = JsonBuilder::default();
    out.member("\"provider\":", provider);
    out.member(",\"packageName\":", name);
    if let Some(deprecation) = deprecation {
        out.member(",\"deprecation\":", deprecation);
    }
    out.text(",\"channels\":[");
    for (index, (name, deprecation, channel)) in channels.enumerate() {
        out.text(if index == 0 { "{" } else { ",{" });
        out.member("\"name\":", name);
        out.member(",\"currentCSV\":", channel.head.name.as_str());
        out.text(",\"currentCSVDesc\":");
        out.share(&channel.head.description);
        if let Some(deprecation) = deprecation {
            out.member(",\"deprecation\":", deprecation);
        }
        match channel.entries.0.as_slice() {
            // Clients expect null here.
            [] => out.text(",\"entries\":null"),
            entries => out.member(",\"entries\":", entries),
        }
        out.text("}");
    }
    out.text("]");
    out.member(",\"defaultChannel\":", default_channel);
    out.finish()
}

/// JSON in pieces, some of which are shared.
#[derive(Default)]
struct JsonBuilder {
    done: Vec<Bytes>,
    open: Vec<u8>,
}

impl JsonBuilder {
    fn text(&mut self, text: &str) {
        json::text(&mut self.open, text);
    }

    fn member<T: Serialize + ?Sized>(&mut self, before: &str, value: &T) {
        self.text(before);
        json::value(&mut self.open, value);
    }

    fn share(&mut self, piece: &Bytes) {
        self.close();
        self.done.push(piece.clone());
    }

    fn close(&mut self) {
        if !self.open.is_empty() {
            self.done
                .push(std::mem::take(&mut self.open).into_boxed_slice().into());
        }
    }

    fn finish(mut self) -> Vec<Bytes> {
        self.close();
        self.done.shrink_to_fit();
        self.done
    }
}

fn deprecation(deprecation: proto::Deprecation) -> Deprecation {
    Deprecation {
        message: deprecation.message,
        ..Deprecation::default()
    }
}

#[cfg(test)]
mod tests;
