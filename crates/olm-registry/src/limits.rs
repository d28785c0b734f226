//! Limits on what a catalog's server may cost its readers: every figure of the client in one place.
//!
//! `docs/reference/limits.md` lists the limits that users meet; a test compares it with this file. Decision
//! 0019 has the reasons.

use std::time::Duration;

/// Maximum bytes of one message. Upstream's clients stop at 4 MiB, which drops big bundles.
pub const MESSAGE_BYTES: usize = 64 << 20;
/// Maximum fields of one message. A field of two bytes takes a hundred in memory, so a limit on bytes is not
/// enough.
pub const MESSAGE_FIELDS: usize = 100_000;
/// Maximum bytes of one dependency of a bundle, or of one property that resolution reads. They are parsed
/// when the catalog is read. All properties of a bundle together must fit into annotations, which have the
/// same limit.
pub const DEPENDENCY_BYTES: usize = 256 << 10;
/// Maximum bytes of one package: names of channels and deprecations. Upstream's clients have the same limit.
pub const PACKAGE_BYTES: usize = 4 << 20;
/// Maximum bytes of the names of all packages in a list.
pub const PACKAGE_NAME_BYTES: usize = 4 << 20;
/// Maximum packages that one read requests at a time.
pub const PARALLEL_PACKAGES: usize = 8;
/// Maximum characters of a server's error that our own error repeats.
pub const ERROR_CHARACTERS: usize = 1024;
/// Time to connect.
pub const CONNECT_TIME: Duration = Duration::from_secs(5);
/// Time for a call with one answer, and for the start of a stream.
pub const CALL_TIME: Duration = Duration::from_secs(30);
/// Time between two messages of a stream.
pub const STALL_TIME: Duration = Duration::from_secs(30);

/// Bounds for reading one catalog once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLimits {
    /// Bundles, each counted in every channel it is in.
    pub bundles: usize,
    /// Packages.
    pub packages: usize,
    /// Bytes of all messages together.
    pub bytes: u64,
    /// Approximate bytes kept in memory: texts and lists once, and the parsed properties.
    pub kept: usize,
    /// Time from the first request to the last byte.
    pub time: Duration,
}

impl ReadLimits {
    /// Limits for catalogs of any kind. All of OperatorHub has 9,000 bundles in its channels, and takes some
    /// ten MiB when read.
    pub const CATALOG: Self = Self {
        bundles: 200_000,
        packages: 20_000,
        bytes: 2 << 30,
        kept: 256 << 20,
        time: Duration::from_secs(55),
    };
}

#[cfg(test)]
mod tests {
    use olm_testing::limits::{assert_listed, bytes, seconds};

    use super::*;

    #[test]
    fn the_reference_page_has_these_figures() {
        let limits = ReadLimits::CATALOG;
        let rows = [
            (
                "Bundles of a catalog, counted in each channel",
                limits.bundles.to_string(),
            ),
            ("Packages of a catalog", limits.packages.to_string()),
            ("Memory for one catalog", bytes(limits.kept as u64)),
            ("Time to read a catalog", seconds(limits.time)),
            ("One message", bytes(MESSAGE_BYTES as u64)),
            ("Fields of one message", MESSAGE_FIELDS.to_string()),
            (
                "One property that resolution reads",
                bytes(DEPENDENCY_BYTES as u64),
            ),
            ("One package", bytes(PACKAGE_BYTES as u64)),
        ];
        assert_listed(
            include_str!("../../../docs/reference/limits.md"),
            &rows.map(|(limit, value)| (limit, vec![value])),
        );
    }
}
