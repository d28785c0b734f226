//! How much an image may cost whoever reads it.

/// Bounds for one pull. Images come from whoever may name one, so every figure that an image controls has a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a manifest, an index or an image configuration, each.
    pub document: u64,
    /// Number of layers.
    pub layers: usize,
    /// Bytes of one layer as the registry sends it (compressed).
    pub layer: u64,
    /// Bytes of all layers together after decompression, entries nobody asked for included.
    pub unpacked: u64,
    /// Entries (files, folders, links, whiteouts) of all layers together.
    pub entries: usize,
    /// Bytes of one wanted file.
    pub file: u64,
    /// Bytes of all wanted files together; they are held in memory.
    pub content: u64,
}

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

impl Limits {
    /// For bundle images: some manifests, rarely above a few MiB. Kubernetes itself takes no object above 1.5 MiB or so.
    pub const BUNDLE: Self = Self {
        document: 4 * MIB,
        layers: 128,
        layer: 64 * MIB,
        unpacked: 256 * MIB,
        entries: 20_000,
        file: 16 * MIB,
        content: 64 * MIB,
    };

    /// For catalog images: they hold an `opm` binary and hundreds of MiB of declarative configuration.
    pub const CATALOG: Self = Self {
        document: 4 * MIB,
        layers: 128,
        layer: 2048 * MIB,
        unpacked: 8192 * MIB,
        entries: 500_000,
        file: 1024 * MIB,
        content: 4096 * MIB,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::BUNDLE
    }
}
