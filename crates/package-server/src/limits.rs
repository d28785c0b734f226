//! Limits on what callers and catalogs may cost this process: every figure in one place.
//!
//! `docs/reference/limits.md` lists the limits that users meet; a test compares it with this file.

use std::time::Duration;

/// Catalogs read at once; those of the global namespace and all others leave each other one. The catalogs of
/// another namespace are read one after the other.
pub const PARALLEL_READS: usize = 8;
/// Time to read a catalog.
pub const READ_TIME: Duration = Duration::from_secs(120);
/// Bytes of one message of a registry: a head with the other objects of its bundle. It has the
/// ClusterServiceVersion twice.
pub const REGISTRY_MESSAGE_BYTES: usize = 4 * CSV_BYTES;
/// Heads of all catalogs that are parsed at once.
pub const PARALLEL_HEADS: usize = 2;
/// Approximate bytes kept of one catalog in the global namespace. The catalogs of a large distribution have
/// thousands of channels, each with a description of tens of KiB.
pub const GLOBAL_CATALOG_BYTES: usize = 256 << 20;
/// Approximate bytes kept of all catalogs in one other namespace.
pub const NAMESPACE_BYTES: usize = 64 << 20;
/// Approximate bytes kept of the catalogs in all namespaces but the global one.
pub const TENANT_BYTES: usize = 512 << 20;
/// Time until a catalog without room is read again.
pub const READ_AGAIN_WHEN_FULL: Duration = Duration::from_secs(300);
/// Skipped packages and channels that one read logs individually.
pub const TOLD_LEFT_OUT: usize = 20;
/// Bytes of one ClusterServiceVersion; a channel with a larger one is skipped. The API server accepts less
/// than half of it.
pub const CSV_BYTES: usize = 4 << 20;
/// Bytes of one icon; a larger one is dropped.
pub const ICON_BYTES: usize = 1 << 20;
/// Bytes of the `status` of one PackageManifest; a package with more is skipped.
pub const PACKAGE_MANIFEST_BYTES: usize = 8 << 20;
/// Time that readiness waits for the first read of slow or unreachable catalogs.
pub const FIRST_READS: Duration = Duration::from_secs(3);

/// Open connections, including unfinished handshakes.
pub const CONNECTIONS: usize = 256;
/// Time for the head of a request.
pub const HEAD_TIME: Duration = Duration::from_secs(10);
/// Bytes of the head of a request.
pub const HEAD_BYTES: u32 = 32 << 10;
/// Bytes of the head of a request from the API server, which has the same limit. It names all groups of a
/// user there. HTTP/2 counts 32 more for each header.
pub const PROXY_HEAD_BYTES: u32 = 1 << 20;
/// Time until the response to a request begins.
pub const ANSWER_TIME: Duration = Duration::from_secs(15);
/// Time from the head of an HTTP/2 request to the last byte of its response. The API server waits as long for
/// one.
pub const REQUEST_TIME: Duration = Duration::from_secs(60);
/// Requests at once on one connection.
pub const STREAMS: u32 = 4;
/// Requests at once on one connection of the API server's.
pub const PROXY_STREAMS: u32 = 100;
/// Bytes of a response that wait on one HTTP/2 stream for a slow client.
pub const SEND_BYTES: usize = 64 << 10;
/// Requirements of a selector. Each is compared with each package while one of [`PARALLEL_LISTS`] is taken.
pub const SELECTOR_REQUIREMENTS: usize = 64;
/// Lists that are assembled at once. Other requests are not delayed: a client with many lists waits for its
/// own.
pub const PARALLEL_LISTS: usize = 2;

#[cfg(test)]
mod tests {
    use olm_testing::limits::{assert_listed, bytes, seconds};

    use super::*;

    #[test]
    fn the_reference_page_has_these_figures() {
        let rows = [
            (
                "One catalog of the global namespace",
                bytes(GLOBAL_CATALOG_BYTES as u64),
            ),
            ("Catalogs of one other namespace", bytes(NAMESPACE_BYTES as u64)),
            ("Catalogs of all other namespaces", bytes(TENANT_BYTES as u64)),
            ("Time to read one catalog", seconds(READ_TIME)),
            ("ClusterServiceVersion of a channel head", bytes(CSV_BYTES as u64)),
            ("Icon", bytes(ICON_BYTES as u64)),
            (
                "Status of one PackageManifest",
                bytes(PACKAGE_MANIFEST_BYTES as u64),
            ),
        ];
        assert_listed(
            include_str!("../../../docs/reference/limits.md"),
            &rows.map(|(limit, value)| (limit, vec![value])),
        );
    }
}
