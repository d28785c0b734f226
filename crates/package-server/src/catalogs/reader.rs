//! Reads a catalog from its registry: the versions of all channels, then package by package the heads of its
//! channels.
//!
//! One head is in memory at a time, of which only the description is kept. All catalogs together parse at
//! most [`PARALLEL_HEADS`](crate::limits::PARALLEL_HEADS). A channel with an unreadable head is skipped and
//! counted, as is a package without channels: one broken bundle must not hide a catalog. A stream that ends
//! early is not a catalog, and nothing of it is used.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::{StreamExt as _, pin_mut};
use olm_registry::client::Client;
use olm_registry::limits::{ERROR_CHARACTERS, ReadLimits};
use olm_registry::proto;
use olm_runtime::isolation;
use tokio::sync::Semaphore;
use tonic::transport::Channel as Connection;
use tonic::{Code, Status};

use crate::index::Packages;
use crate::limits::{REGISTRY_MESSAGE_BYTES, TOLD_LEFT_OUT};
use crate::package_manifest::{Channel, EntryLists, Head, Package};

/// The registry that is read.
struct Registry<'a> {
    client: Client,
    parsing: &'a Arc<Semaphore>,
}

/// Content of a catalog.
#[derive(Debug, Default)]
pub(super) struct Read {
    pub(super) packages: Packages,
    /// Number of channels and packages that could not be read.
    pub(super) left_out: usize,
    /// Approximate bytes of the packages.
    pub(super) bytes: usize,
}

/// A catalog could not be read.
#[derive(Debug)]
pub struct ReadError {
    /// The cause, for users.
    pub(super) text: String,
    /// True if there is no room for the catalog. A retry helps only if catalogs change.
    pub(super) is_full: bool,
}

impl ReadError {
    /// A call failed, there is no connection, or reading did not end well. An address in the text can be
    /// arbitrarily long.
    pub(super) fn new(text: &str) -> Self {
        Self {
            text: short(text),
            is_full: false,
        }
    }

    /// The catalog exceeds a limit.
    fn too_large(of: &str, allowed: usize) -> Self {
        Self {
            text: format!("the catalog has more than {allowed} {of}, the limit"),
            is_full: true,
        }
    }
}

impl Read {
    /// Counts a skipped channel or package. Only the first [`TOLD_LEFT_OUT`] of a catalog are logged.
    fn leave_out(&mut self, package: &str, channel: Option<&str>, error: &str) {
        if self.left_out < TOLD_LEFT_OUT {
            // Catalogs can make each of these texts arbitrarily long.
            let (package, channel, error) = (short(package), channel.map(short), short(error));
            tracing::warn!(package, channel, error, "package or channel skipped");
        }
        self.left_out += 1;
    }
}

/// Returns the error of a call.
fn failed(what: &'static str) -> impl Fn(Status) -> ReadError + Copy {
    move |status| ReadError::new(&format!("cannot {what}: {}", message(&status)))
}

fn message(status: &Status) -> String {
    short(status.message())
}

fn short(text: &str) -> String {
    text.chars().take(ERROR_CHARACTERS).collect()
}

/// Returns the error of a catalog for which other catalogs leave only `allowed` bytes.
pub(super) fn too_large(allowed: usize) -> ReadError {
    ReadError::too_large("bytes in memory beside other catalogs", allowed)
}

/// Reads everything, within `room` bytes. Heads are parsed as `parsing` has permits.
///
/// # Errors
/// The catalog exceeds a limit, or its stream ends early.
pub(super) async fn read(
    connection: &Connection,
    room: usize,
    parsing: &Arc<Semaphore>,
) -> Result<Read, ReadError> {
    let client = Client::new(connection.clone()).with_message_bytes(REGISTRY_MESSAGE_BYTES);
    let registry = Registry { client, parsing };
    let client = &registry.client;
    let limits = ReadLimits::CATALOG;
    let mut entries = entries(client, room, &limits).await?;
    let names = client.list_packages().await.map_err(failed("list packages"))?;
    // Duplicates in the list count once.
    let names: BTreeSet<String> = names.into_iter().collect();
    let mut read = Read::default();
    for name in names {
        let package = match client.get_package(&name).await {
            Ok(package) if package.name != name => {
                read.leave_out(&name, None, "the registry returned a different package");
                continue;
            }
            Ok(package) => package,
            Err(status) if is_transient(&status) => return Err(failed("read a package")(status)),
            Err(status) => {
                read.leave_out(&name, None, &message(&status));
                continue;
            }
        };
        let channels = channels(&registry, &package, &mut entries, &mut read, room).await?;
        match Package::new(package, &channels) {
            Ok(package) => {
                read.bytes = read.bytes.saturating_add(package.bytes());
                read.packages.insert(package.name.clone(), Arc::new(package));
            }
            Err(error) => {
                read.leave_out(&name, None, &error);
            }
        }
        if read.bytes > room {
            return Err(too_large(room));
        }
    }
    Ok(read)
}

async fn entries(client: &Client, room: usize, limits: &ReadLimits) -> Result<EntryLists, ReadError> {
    let failed = failed("list bundles");
    let mut entries = EntryLists::default();
    let (mut bundles, mut kept) = (0_usize, 0_usize);
    let stream = client.list_bundles().await.map_err(failed)?;
    pin_mut!(stream);
    while let Some(bundle) = stream.next().await {
        bundles += 1;
        if bundles > limits.bundles {
            return Err(ReadError::too_large("bundles", limits.bundles));
        }
        kept = kept.saturating_add(entries.add(bundle.map_err(failed)?));
        if kept > room {
            return Err(too_large(room));
        }
    }
    Ok(entries)
}

/// Returns the channels of a package whose heads can be read. Several channels may have the same head.
async fn channels(
    registry: &Registry<'_>,
    package: &proto::Package,
    entries: &mut EntryLists,
    read: &mut Read,
    room: usize,
) -> Result<BTreeMap<String, Channel>, ReadError> {
    let mut heads: BTreeMap<&str, Result<Arc<Head>, String>> = BTreeMap::new();
    let mut channels = BTreeMap::new();
    let mut seen = BTreeSet::new();
    // A package may have any number of channels, and all their heads are in memory until it is complete.
    let mut bytes = read.bytes;
    for channel in &package.channels {
        // The first of two channels with one name counts.
        if !seen.insert(channel.name.as_str()) {
            continue;
        }
        let name = channel.csv_name.as_str();
        let head = match heads.get(name).cloned() {
            Some(known) => known,
            None => {
                let found = head(registry, &package.name, channel).await?.map(Arc::new);
                if let Ok(head) = &found {
                    bytes = bytes.saturating_add(head.bytes());
                    if bytes > room {
                        return Err(too_large(room));
                    }
                }
                heads.insert(name, found.clone());
                found
            }
        };
        match head {
            Ok(head) => {
                let entries = entries.take(&package.name, &channel.name);
                channels.insert(channel.name.clone(), Channel { head, entries });
            }
            Err(error) => read.leave_out(&package.name, Some(&channel.name), &error),
        }
    }
    Ok(channels)
}

/// Returns the head of a channel. The inner error is permanent: the head cannot be read at any time.
async fn head(
    registry: &Registry<'_>,
    package: &str,
    channel: &proto::Channel,
) -> Result<Result<Head, String>, ReadError> {
    let bundle = registry
        .client
        .get_bundle(package, &channel.name, &channel.csv_name)
        .await;
    let csv = match bundle {
        Ok(bundle) => bundle.csv_json,
        Err(status) if is_transient(&status) => return Err(failed("read the head of a channel")(status)),
        Err(status) => return Ok(Err(message(&status))),
    };
    // Parsing takes a while and must not delay requests, so it runs on a blocking thread. A panic affects
    // that head alone. It continues without a waiting task, and keeps its permit, because it keeps its memory
    // too.
    let permit = Arc::clone(registry.parsing).acquire_owned().await;
    let parsed = isolation::blocking(move || {
        let head = Head::parse(&csv);
        drop(permit);
        head
    });
    let parsed = parsed.await;
    Ok(match parsed {
        Ok(Ok(head)) => Ok(head),
        Ok(Err(error)) => Err(error),
        Err(panicked) => Err(panicked.to_string()),
    })
}

/// Returns whether a retry may succeed. A registry reports missing objects with an unknown cause. If the
/// connection or the stream broke, the status has a source.
fn is_transient(status: &Status) -> bool {
    let codes = [
        Code::Unavailable,
        Code::DeadlineExceeded,
        Code::Cancelled,
        Code::Aborted,
        Code::ResourceExhausted,
    ];
    codes.contains(&status.code()) || std::error::Error::source(status).is_some()
}
