//! Limits on what a catalog's server may cost its readers: every figure of the client in one place.
//!
//! `docs/reference/limits.md` lists the limits that users meet; a test compares it with this file. Decision
//! 0019 has the reasons.

use std::time::Duration;

/// Maximum bytes of one message. Upstream's clients stop at 4 MiB, which drops big bundles.
pub const MESSAGE_BYTES: usize = 64 << 20;
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
