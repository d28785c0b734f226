//! Queries on an index, with upstream's answers and error texts.
//!
//! Results are sorted where upstream has the order of a hash map. Rules: `docs/reference/registry.md`.

use go_compat::quote;
use olm_fbc::schema_name;

use crate::frame::Frame;
use crate::index::{EntryRecord, Index, PackageRecord, api_key};
use crate::proto;

/// A query has no answer.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// The catalog does not have what was asked for.
    #[error("{0}")]
    NotFound(String),
    /// The question is invalid.
    #[error("{0}")]
    Invalid(String),
}

impl Index {
    /// Returns the names of all packages, sorted.
    pub fn list_packages(&self) -> Vec<proto::PackageName> {
        let names = self.directory().packages.keys();
        names
            .map(|name| proto::PackageName { name: name.clone() })
            .collect()
    }

    /// Returns a package with its channels by name.
    ///
    /// # Errors
    /// The package is not in the catalog.
    pub fn package(&self, name: &str) -> Result<proto::Package, QueryError> {
        let record = self.package_record(name)?;
        Ok(proto::Package {
            name: name.to_owned(),
            channels: record
                .channels
                .iter()
                .map(|(name, channel)| proto::Channel {
                    name: name.clone(),
                    csv_name: channel.head.clone(),
                    deprecation: channel.deprecation.as_deref().map(Into::into),
                })
                .collect(),
            default_channel_name: record.default_channel.clone(),
            deprecation: record.deprecation.as_deref().map(Into::into),
        })
    }

    /// Returns a bundle with its content, without replaces and skips.
    ///
    /// # Errors
    /// The package, channel or bundle is not in the catalog.
    pub fn bundle(&self, package: &str, channel: &str, name: &str) -> Result<Frame, QueryError> {
        self.channel_head(package, channel)?;
        let entry = self.entry(package, channel, name).ok_or_else(|| {
            let (package, channel, bundle) = (quote(package), quote(channel), quote(name));
            QueryError::NotFound(format!(
                "package {package}, channel {channel}, bundle {bundle} not found"
            ))
        })?;
        Ok(self.content_frame(entry))
    }

    /// Returns the head of a channel, as in [`Index::bundle`].
    ///
    /// # Errors
    /// The package or channel is not in the catalog.
    pub fn head_bundle(&self, package: &str, channel: &str) -> Result<Frame, QueryError> {
        let head = self.channel_head(package, channel)?;
        self.bundle(package, channel, head)
    }

    /// Returns the entries that replace `name`, and one for each entry that skips it without replacing it.
    ///
    /// # Errors
    /// There is no such entry.
    pub fn entries_that_replace(&self, name: &str) -> Result<Vec<proto::ChannelEntry>, QueryError> {
        let entries: Vec<_> = self
            .directory()
            .entries
            .iter()
            .flat_map(|entry| {
                let replaces = usize::from(entry.replaces == name);
                let skips = entry
                    .skips
                    .iter()
                    .filter(|skip| *skip == name && **skip != entry.replaces)
                    .count();
                std::iter::repeat_n(entry, replaces + skips)
            })
            .map(|entry| channel_entry(entry, &entry.replaces))
            .collect();
        if entries.is_empty() {
            return Err(QueryError::NotFound(format!(
                "no channel entries found that replace {name}"
            )));
        }
        Ok(entries)
    }

    /// Returns the first bundle of a channel, by name, that replaces or skips `name`.
    ///
    /// # Errors
    /// The package or channel is not in the catalog, or nothing replaces the bundle.
    pub fn bundle_that_replaces(
        &self,
        name: &str,
        package: &str,
        channel: &str,
    ) -> Result<Frame, QueryError> {
        if !self.directory().packages.contains_key(package) {
            return Err(QueryError::NotFound(format!("package {package} not found")));
        }
        self.channel_head(package, channel)?;
        let entry = self
            .channel_entries(package, channel)
            .iter()
            .find(|entry| entry.replaces == name || entry.skips.iter().any(|skip| skip == name))
            .ok_or_else(|| {
                let (package, channel) = (quote(package), quote(channel));
                QueryError::NotFound(format!("no entry found for package {package}, channel {channel}"))
            })?;
        Ok(self.content_frame(entry))
    }

    /// Returns every entry whose bundle provides the API, with one more for each skip that differs from its
    /// replaces.
    ///
    /// # Errors
    /// There is no such entry.
    pub fn entries_that_provide(
        &self,
        api: &proto::GroupVersionKind,
    ) -> Result<Vec<proto::ChannelEntry>, QueryError> {
        let key = api_key(api);
        let entries: Vec<_> = self
            .directory()
            .entries
            .iter()
            .filter(|entry| self.provides(entry, &key))
            .flat_map(|entry| with_skips(entry, |_| true))
            .collect();
        if entries.is_empty() {
            return Err(nothing_provides(api));
        }
        Ok(entries)
    }

    /// Same as [`Index::entries_that_provide`] for channel heads only. A skip counts only if it is in the
    /// channel.
    ///
    /// # Errors
    /// There is no such entry.
    pub fn latest_entries_that_provide(
        &self,
        api: &proto::GroupVersionKind,
    ) -> Result<Vec<proto::ChannelEntry>, QueryError> {
        let key = api_key(api);
        let mut entries: Vec<_> = self
            .heads()
            .filter(|entry| self.provides(entry, &key))
            .flat_map(|entry| {
                with_skips(entry, |skip| {
                    self.entry(&entry.package, &entry.channel, skip).is_some()
                })
            })
            .collect();
        if entries.is_empty() {
            return Err(nothing_provides(api));
        }
        entries.sort_by(|a, b| (&a.package_name, &a.channel_name).cmp(&(&b.package_name, &b.channel_name)));
        Ok(entries)
    }

    /// Returns the head of a default channel that provides the API, of the first package by name.
    ///
    /// # Errors
    /// There is no such head.
    pub fn default_bundle_that_provides(&self, api: &proto::GroupVersionKind) -> Result<Frame, QueryError> {
        let entries = self.latest_entries_that_provide(api)?;
        let default = entries
            .iter()
            .find(|entry| {
                self.directory()
                    .packages
                    .get(&entry.package_name)
                    .is_some_and(|package| package.default_channel == entry.channel_name)
            })
            .ok_or_else(|| QueryError::NotFound(format!("no entry found that provides {}", api_text(api))))?;
        self.bundle(&default.package_name, &default.channel_name, &default.bundle_name)
    }

    /// Returns the number of messages of `ListBundles`.
    pub fn entry_count(&self) -> usize {
        self.directory().entries.len()
    }

    /// Returns the message of `ListBundles` at a position below [`Index::entry_count`], `None` above.
    pub fn listed_bundle(&self, position: usize) -> Option<Frame> {
        let entry = self.directory().entries.get(position)?;
        Some(self.list_frame(entry))
    }

    /// Returns the blobs of an unknown schema that belong to exactly this package, as encoded structs. An
    /// empty package selects blobs without one.
    ///
    /// # Errors
    /// No schema is named, or a name is invalid.
    pub fn custom_blobs(&self, schema: &str, package: &str) -> Result<Vec<Frame>, QueryError> {
        if schema.is_empty() {
            return Err(QueryError::Invalid("schema is required".to_owned()));
        }
        schema_name::check(schema, package)
            .map_err(|error| QueryError::Invalid(format!("invalid custom schema query: {error}")))?;
        let record = self
            .directory()
            .schemas
            .iter()
            .find(|record| record.schema == schema && record.package == package);
        match record {
            Some(record) => Ok(self.schema_blobs(record)),
            None => Ok(Vec::new()),
        }
    }

    fn package_record(&self, name: &str) -> Result<&PackageRecord, QueryError> {
        let packages = &self.directory().packages;
        packages
            .get(name)
            .ok_or_else(|| QueryError::NotFound(format!("package {} not found", quote(name))))
    }

    fn channel_head(&self, package: &str, channel: &str) -> Result<&str, QueryError> {
        let record = self.package_record(package)?;
        match record.channels.get(channel) {
            Some(channel) => Ok(&channel.head),
            None => Err(QueryError::NotFound(format!(
                "package {}, channel {} not found",
                quote(package),
                quote(channel)
            ))),
        }
    }

    /// Returns the entries of a channel, by name. Entries are sorted by channel, package, name.
    pub(crate) fn channel_entries(&self, package: &str, channel: &str) -> &[EntryRecord] {
        let entries = &self.directory().entries;
        let key =
            |entry: &EntryRecord| (entry.channel.as_str(), entry.package.as_str()).cmp(&(channel, package));
        let start = entries.partition_point(|entry| key(entry).is_lt());
        let length = entries[start..].partition_point(|entry| key(entry).is_eq());
        &entries[start..start + length]
    }

    fn entry(&self, package: &str, channel: &str, name: &str) -> Option<&EntryRecord> {
        let entries = self.channel_entries(package, channel);
        let position = entries
            .binary_search_by(|entry| entry.name.as_str().cmp(name))
            .ok()?;
        entries.get(position)
    }

    fn heads(&self) -> impl Iterator<Item = &EntryRecord> {
        self.directory()
            .packages
            .iter()
            .flat_map(move |(package, record)| {
                record
                    .channels
                    .iter()
                    .filter_map(move |(channel, head)| self.entry(package, channel, &head.head))
            })
    }

    fn provides(&self, entry: &EntryRecord, key: &str) -> bool {
        let bundle = self.directory().bundle(entry);
        bundle.provides.iter().any(|provided| provided == key)
    }
}

fn with_skips<'a>(
    entry: &'a EntryRecord,
    counts: impl Fn(&str) -> bool + 'a,
) -> impl Iterator<Item = proto::ChannelEntry> + 'a {
    std::iter::once(channel_entry(entry, &entry.replaces)).chain(
        entry
            .skips
            .iter()
            .filter(move |skip| **skip != entry.replaces && counts(skip))
            .map(|skip| channel_entry(entry, skip)),
    )
}

fn channel_entry(entry: &EntryRecord, replaces: &str) -> proto::ChannelEntry {
    proto::ChannelEntry {
        package_name: entry.package.clone(),
        channel_name: entry.channel.clone(),
        bundle_name: entry.name.clone(),
        replaces: replaces.to_owned(),
    }
}

fn nothing_provides(api: &proto::GroupVersionKind) -> QueryError {
    QueryError::NotFound(format!("no channel entries found that provide {}", api_text(api)))
}

fn api_text(api: &proto::GroupVersionKind) -> String {
    format!(
        "group:{} version:{} kind:{}",
        quote(&api.group),
        quote(&api.version),
        quote(&api.kind)
    )
}
