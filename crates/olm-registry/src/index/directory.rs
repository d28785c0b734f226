//! The part of an index that a server keeps in memory.

use std::collections::BTreeMap;

use crate::frame::Span;

/// Everything but the messages.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Directory {
    /// Packages by name.
    #[prost(btree_map = "string, message", tag = "1")]
    pub(crate) packages: BTreeMap<String, PackageRecord>,
    /// Bundles in the order they were read.
    #[prost(message, repeated, tag = "2")]
    pub(crate) bundles: Vec<BundleRecord>,
    /// Entries sorted by channel, package, name.
    #[prost(message, repeated, tag = "3")]
    pub(crate) entries: Vec<EntryRecord>,
    /// Blobs of unknown schemas.
    #[prost(message, repeated, tag = "4")]
    pub(crate) schemas: Vec<SchemaRecord>,
    /// CRC-32 of everything between header and directory.
    #[prost(fixed32, tag = "5")]
    pub(crate) body: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PackageRecord {
    #[prost(string, tag = "1")]
    pub(crate) default_channel: String,
    #[prost(btree_map = "string, message", tag = "2")]
    pub(crate) channels: BTreeMap<String, ChannelRecord>,
    #[prost(string, optional, tag = "3")]
    pub(crate) deprecation: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ChannelRecord {
    #[prost(string, tag = "1")]
    pub(crate) head: String,
    #[prost(string, optional, tag = "2")]
    pub(crate) deprecation: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct BundleRecord {
    /// The message without content and channel.
    #[prost(message, required, tag = "1")]
    pub(crate) common: Span,
    /// CSV and objects.
    #[prost(message, required, tag = "2")]
    pub(crate) content: Span,
    #[prost(bool, tag = "3")]
    pub(crate) has_image: bool,
    /// Provided APIs as `group/version/kind`.
    #[prost(string, repeated, tag = "4")]
    pub(crate) provides: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct EntryRecord {
    #[prost(string, tag = "1")]
    pub(crate) package: String,
    #[prost(string, tag = "2")]
    pub(crate) channel: String,
    #[prost(string, tag = "3")]
    pub(crate) name: String,
    #[prost(string, tag = "4")]
    pub(crate) replaces: String,
    #[prost(string, repeated, tag = "5")]
    pub(crate) skips: Vec<String>,
    /// Position in [`Directory::bundles`].
    #[prost(uint32, tag = "6")]
    pub(crate) bundle: u32,
    /// The channel's part of the message, without edges.
    #[prost(message, required, tag = "7")]
    pub(crate) head: Span,
    /// Bytes of the edges, directly after `head`.
    #[prost(uint64, tag = "8")]
    pub(crate) edges: u64,
}

impl EntryRecord {
    /// Returns the range of head and edges.
    pub(crate) fn message(&self) -> Span {
        Span {
            offset: self.head.offset,
            length: self.head.length + self.edges,
        }
    }
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct SchemaRecord {
    #[prost(string, tag = "1")]
    pub(crate) schema: String,
    #[prost(string, tag = "2")]
    pub(crate) package: String,
    /// Encoded structs in the order they were read.
    #[prost(message, repeated, tag = "3")]
    pub(crate) blobs: Vec<Span>,
}

impl Directory {
    /// Returns the bundle of an entry. `is_consistent` has checked that it exists.
    pub(crate) fn bundle(&self, entry: &EntryRecord) -> &BundleRecord {
        &self.bundles[entry.bundle as usize]
    }

    /// Returns whether every range ends at or before `end` and every entry has its bundle.
    pub(crate) fn is_consistent(&self, end: u64) -> bool {
        let inside = |span: Span| {
            span.offset
                .checked_add(span.length)
                .is_some_and(|last| last <= end)
        };
        self.bundles
            .iter()
            .all(|bundle| inside(bundle.common) && inside(bundle.content))
            && self.entries.iter().all(|entry| {
                (entry.bundle as usize) < self.bundles.len()
                    && entry.head.length.checked_add(entry.edges).is_some()
                    && inside(entry.message())
            })
            && self
                .schemas
                .iter()
                .all(|schema| schema.blobs.iter().copied().all(inside))
    }
}
