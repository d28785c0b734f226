//! Reads a catalog from its registry: the versions of all channels, then package by package the heads of its channels.
//!
//! One head is in memory at a time, and [`PARALLEL_HEADS`](crate::limits::PARALLEL_HEADS) of all catalogs are parsed; what is kept of it is its description. A channel whose head cannot be read is left out and
//! counted, and so is a package without channels: one broken bundle must not hide a catalog. But what ends before its end is no
//! catalog, and nothing of it is used.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::{StreamExt as _, pin_mut};
use olm_registry::client::{Client, Timeouts};
use olm_registry::limits::{ERROR_CHARACTERS, ReadLimits};
use olm_registry::proto;
use olm_runtime::isolation;
use tokio::sync::Semaphore;
use tonic::transport::Channel as Connection;
use tonic::{Code, Status};

use super::memory_quota::MemoryQuota;
use crate::index::Packages;
use crate::limits::{REGISTRY_MESSAGE_BYTES, TOLD_LEFT_OUT};
use crate::package_manifest::{Channel, EntryLists, Head, Package};

/// What is read from.
struct Registry<'a> {
    client: Client,
    parsing: &'a Arc<Semaphore>,
}

/// What was read.
#[derive(Debug, Default)]
pub(super) struct Read {
    pub(super) packages: Packages,
    /// Channels and packages that could not be read.
    pub(super) left_out: usize,
    /// Bytes that the packages take, about.
    pub(super) bytes: usize,
}

/// Why a catalog could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A call failed.
    #[error("cannot {what}: {}", message(.status))]
    Call {
        /// What was tried.
        what: &'static str,
        /// What the server said.
        status: Box<Status>,
    },
    /// The catalog is larger than catalogs may be.
    #[error("the catalog has more than {allowed} {of}, which is the limit")]
    TooLarge {
        /// What is counted.
        of: &'static str,
        /// The limit.
        allowed: usize,
    },
    /// There is no memory for it.
    #[error("the catalog takes more memory than there is: {0}")]
    NoRoom(MemoryQuota),
}

impl Read {
    /// One more cannot be read. Of a catalog with many such not each is told.
    fn leave_out(&mut self, package: &str, channel: Option<&str>, error: &str) {
        if self.left_out < TOLD_LEFT_OUT {
            // Each is as long as the catalog likes.
            let (package, channel, error) = (short(package), channel.map(short), short(error));
            tracing::warn!(package, channel, error, "left out");
        }
        self.left_out += 1;
    }
}

fn message(status: &Status) -> String {
    short(status.message())
}

fn short(text: &str) -> String {
    text.chars().take(ERROR_CHARACTERS).collect()
}

/// Reads everything, of which no more may be kept than there is `room`. Heads are parsed as `parsing` has permits.
///
/// # Errors
/// There is too much of it, or it ends before its end.
pub(super) async fn read(
    connection: &Connection,
    room: MemoryQuota,
    parsing: &Arc<Semaphore>,
) -> Result<Read, ReadError> {
    let client =
        Client::new(connection.clone(), Timeouts::default()).with_message_bytes(REGISTRY_MESSAGE_BYTES);
    let registry = Registry { client, parsing };
    let client = &registry.client;
    let limits = ReadLimits::CATALOG;
    let mut entries = entries(client, room, &limits).await?;
    let failed = |what| {
        move |status| ReadError::Call {
            what,
            status: Box::new(status),
        }
    };
    let names = client.list_packages().await.map_err(failed("list packages"))?;
    // One that is listed twice is one.
    let names: BTreeSet<String> = names.into_iter().collect();
    let mut read = Read::default();
    for name in names {
        let package = match client.get_package(&name).await {
            Ok(package) if package.name != name => {
                read.leave_out(&name, None, "another package is answered with");
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
                read.leave_out(&name, None, &error.to_string());
            }
        }
        if read.bytes > room.for_packages() {
            return Err(ReadError::NoRoom(room));
        }
    }
    Ok(read)
}

async fn entries(client: &Client, room: MemoryQuota, limits: &ReadLimits) -> Result<EntryLists, ReadError> {
    let failed = |status| ReadError::Call {
        what: "list bundles",
        status: Box::new(status),
    };
    let mut entries = EntryLists::default();
    let (mut bundles, mut kept) = (0_usize, 0_usize);
    let stream = client.list_bundles().await.map_err(failed)?;
    pin_mut!(stream);
    while let Some(bundle) = stream.next().await {
        bundles += 1;
        if bundles > limits.bundles {
            let (of, allowed) = ("bundles", limits.bundles);
            return Err(ReadError::TooLarge { of, allowed });
        }
        kept = kept.saturating_add(entries.add(bundle.map_err(failed)?));
        if kept > room.for_packages() {
            return Err(ReadError::NoRoom(room));
        }
    }
    Ok(entries)
}

/// The channels of a package whose heads can be read. Several channels may have the same head.
async fn channels(
    registry: &Registry<'_>,
    package: &proto::Package,
    entries: &mut EntryLists,
    read: &mut Read,
    room: MemoryQuota,
) -> Result<BTreeMap<String, Channel>, ReadError> {
    let mut heads: BTreeMap<&str, Option<Arc<Head>>> = BTreeMap::new();
    let mut channels = BTreeMap::new();
    let mut seen = BTreeSet::new();
    // A package may have any number of channels, and all their heads are in memory until it is put together.
    let mut bytes = read.bytes;
    for channel in &package.channels {
        // Of two of one name the first counts.
        if !seen.insert(channel.name.as_str()) {
            continue;
        }
        let name = channel.csv_name.as_str();
        let known = heads.get(name).cloned();
        let head = match known {
            Some(head) => head,
            None => match head(registry, &package.name, channel).await? {
                Ok(head) => {
                    bytes = bytes.saturating_add(head.bytes());
                    if bytes > room.for_packages() {
                        return Err(ReadError::NoRoom(room));
                    }
                    heads.entry(name).or_insert(Some(Arc::new(head))).clone()
                }
                Err(error) => {
                    read.leave_out(&package.name, Some(&channel.name), &error);
                    heads.insert(name, None);
                    continue;
                }
            },
        };
        let entries = entries.take(&package.name, &channel.name);
        match head {
            Some(head) => {
                channels.insert(channel.name.clone(), Channel { head, entries });
            }
            None => read.leave_out(&package.name, Some(&channel.name), "its head cannot be read"),
        }
    }
    Ok(channels)
}

/// The head of a channel, or why it cannot be read, whenever it is tried.
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
        Err(status) if is_transient(&status) => {
            return Err(ReadError::Call {
                what: "read the head of a channel",
                status: Box::new(status),
            });
        }
        Err(status) => return Ok(Err(message(&status))),
    };
    // Reading takes a while, and whoever asks for something meanwhile is not to wait. A fault of ours in it is that head's alone.
    // It goes on when nobody waits for it any more, and so does what it takes in memory.
    let permit = Arc::clone(registry.parsing).acquire_owned().await;
    let parsed = isolation::blocking(move || {
        let head = Head::parse(&csv);
        drop(permit);
        head
    });
    let parsed = parsed.await;
    Ok(match parsed {
        Ok(Ok(head)) => Ok(head),
        Ok(Err(error)) => Err(error.to_string()),
        Err(panicked) => Err(panicked.to_string()),
    })
}

/// Whether it may be answered when it is tried again. A registry says of what is not there that the cause is unknown; where it said
/// nothing, because the connection or the stream broke, the status has a source.
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
