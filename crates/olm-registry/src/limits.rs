//! How much a catalog's server may cost whoever reads it: every figure of the client in one place.
//!
//! `docs/reference/limits.md` lists those that users meet; a test compares it with this file. Decision 0019 says why.

use std::time::Duration;

/// Bytes of one message. Upstream's clients stop at 4 MiB, which drops big bundles.
pub const MESSAGE_BYTES: usize = 64 << 20;
/// Fields of one message. Two bytes make a field that takes a hundred in memory, so bytes alone bound nothing.
pub const MESSAGE_FIELDS: usize = 100_000;
/// Bytes of one dependency of a bundle, or of one property that resolution reads, which are parsed when the catalog is read. All
/// properties of a bundle together must go into annotations, which have room for as much.
pub const DEPENDENCY_BYTES: usize = 256 << 10;
/// Properties, dependencies and APIs of one bundle. Each is parsed and indexed for resolution; of real bundles the largest have some
/// hundreds.
pub const BUNDLE_PROPERTIES: usize = 5_000;
/// Bytes of all properties of one bundle, of whatever type: rules of other bundles may look at them, parsed. As much as upstream's
/// clients take of a bundle as a whole.
pub const PROPERTIES_BYTES: usize = 4 << 20;
/// Bytes of one package: names of channels and what is deprecated. As much as upstream's clients take.
pub const PACKAGE_BYTES: usize = 4 << 20;
/// Bytes of the names of all packages, where they are listed.
pub const PACKAGE_NAME_BYTES: usize = 4 << 20;
/// Packages that one read asks for at a time.
pub const PARALLEL_PACKAGES: usize = 8;
/// Characters of a server's error that are repeated in our own.
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
    /// Bytes of what is kept in memory, about: texts and lists once, and what becomes of properties.
    pub kept: usize,
    /// Time from the first request to the last byte.
    pub time: Duration,
}

impl ReadLimits {
    /// For catalogs of any kind. All of OperatorHub has 9,000 bundles in its channels, and takes some ten MiB when read.
    pub const CATALOG: Self = Self {
        bundles: 200_000,
        packages: 20_000,
        bytes: 2 << 30,
        kept: 256 << 20,
        time: Duration::from_secs(55),
    };
}

impl Default for ReadLimits {
    fn default() -> Self {
        Self::CATALOG
    }
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
            (
                "Properties, dependencies and APIs of a bundle",
                BUNDLE_PROPERTIES.to_string(),
            ),
            ("All properties of a bundle", bytes(PROPERTIES_BYTES as u64)),
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
