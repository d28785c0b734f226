//! Limits on what an image or its registry may cost a reader: every figure of this crate in one place.
//!
//! `docs/reference/limits.md` lists the limits that users meet; a test compares it with this file. Decision
//! 0019 has the reasons.

use std::time::Duration;

use tokio::time::Instant;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Maximum bytes of a token service's answer. Tokens are a few kilobytes.
pub const TOKEN_BYTES: u64 = 256 * KIB;
/// Maximum bytes read of the body of a refusal.
pub const ERROR_BYTES: usize = 16 << 10;
/// Maximum characters of such a body that our own error repeats.
pub const ERROR_CHARACTERS: usize = 200;
/// Maximum redirects followed for one request.
pub const REDIRECTS: usize = 5;
/// Bytes of a layer that is held in memory while it is verified; a larger one is held in the
/// [`crate::Spool`].
pub const LAYER_IN_MEMORY: usize = 1 << 20;
/// Layers decompressed at a time by the whole process.
pub const LAYER_DECODERS: usize = 2;
/// Largest window of a zstd layer as a power of two: 32 MiB. Go's encoder, which builds images, uses no
/// larger one at any level. Layers of `zstd --long` and `zstd --ultra -21` are rejected.
pub const ZSTD_WINDOW_LOG: u32 = 25;
/// Maximum bytes of the headers of one archive entry, long names and extended attributes included.
pub const ENTRY_HEADER_BYTES: u64 = MIB;
/// Maximum links that lead to one file, one after the other.
pub const LINKS: usize = 32;

/// Bounds for one pull. Any user may name an image, so every figure that an image or a registry controls has
/// a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a manifest, an index or an image configuration, each.
    pub document: u64,
    /// Number of layers.
    pub layers: usize,
    /// Bytes of one layer as the registry sends it (compressed).
    pub layer: u64,
    /// Bytes of all layers together as the registry sends them.
    pub transfer: u64,
    /// Bytes of all layers together after decompression, unwanted entries included.
    pub unpacked: u64,
    /// Entries (files, folders, links, whiteouts) of all layers together.
    pub entries: usize,
    /// Bytes of one wanted file.
    pub file: u64,
    /// Bytes of all wanted files together; they are held in memory.
    pub content: u64,
    /// Time to connect to a host, TLS included.
    pub connect: Duration,
    /// Longest pause within an answer.
    pub idle: Duration,
    /// Time for a manifest, a configuration or a token, from the request to the last byte, redirects
    /// included. For a layer it ends with the head of the answer.
    pub answer: Duration,
    /// Time after which a layer must arrive, or be sent, at [`Limits::floor`] on average. It counts from the
    /// head of the answer.
    pub grace: Duration,
    /// Lowest average rate of a layer, in bytes per second.
    pub floor: u64,
    /// Time for a pull as a whole.
    pub time: Duration,
}

impl Limits {
    /// Limits for bundle images: some manifests, rarely above a few MiB. Kubernetes itself rejects objects
    /// above about 1.5 MiB.
    pub const BUNDLE: Self = Self {
        document: 4 * MIB,
        layers: 128,
        layer: 64 * MIB,
        transfer: 256 * MIB,
        unpacked: 256 * MIB,
        entries: 20_000,
        file: 16 * MIB,
        content: 64 * MIB,
        connect: Duration::from_secs(10),
        idle: Duration::from_secs(30),
        answer: Duration::from_secs(60),
        grace: Duration::from_secs(30),
        floor: 16 * KIB,
        time: Duration::from_secs(10 * 60),
    };

    /// Limits for catalog images: they hold an `opm` binary and hundreds of MiB of declarative configuration.
    pub const CATALOG: Self = Self {
        layer: 2048 * MIB,
        transfer: 8192 * MIB,
        unpacked: 8192 * MIB,
        entries: 500_000,
        file: 1024 * MIB,
        content: 4096 * MIB,
        time: Duration::from_secs(4 * 60 * 60),
        ..Self::BUNDLE
    };

    /// Returns how an image of this many layers exceeds their limit; `None` if it does not.
    pub(crate) fn excess_of_layers(&self, layers: usize) -> Option<String> {
        (layers > self.layers).then(|| format!("{layers} layers exceed the limit of {}", self.layers))
    }

    /// Returns which limit is exceeded by a layer of `size` bytes, with `transfer` bytes of all layers.
    /// `None` if none is.
    pub(crate) fn excess(&self, size: u64, transfer: u64) -> Option<String> {
        if size > self.layer {
            return Some(format!("larger than the limit of {} bytes", self.layer));
        }
        (transfer > self.transfer)
            .then(|| format!("all layers together exceed the limit of {} bytes", self.transfer))
    }

    /// Returns the time in which `bytes` must have been sent.
    pub(crate) fn at_floor(&self, bytes: u64) -> Duration {
        let seconds = bytes.checked_div(self.floor).unwrap_or(0);
        self.grace.saturating_add(Duration::from_secs(seconds))
    }
}

/// Returns the end of a time that begins at `start`. Times too long to be added mean about never.
pub(crate) fn end(start: Instant, time: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);
    start.checked_add(time.min(FAR)).unwrap_or(start)
}

impl Default for Limits {
    fn default() -> Self {
        Self::BUNDLE
    }
}

#[cfg(test)]
mod tests {
    use olm_testing::limits::{assert_listed, bytes, seconds};

    use super::*;

    #[test]
    fn a_layer_has_time_by_its_size() {
        let limits = Limits {
            grace: Duration::from_secs(3),
            floor: 100,
            ..Limits::BUNDLE
        };
        assert_eq!(limits.at_floor(0), Duration::from_secs(3));
        assert_eq!(limits.at_floor(1_000), Duration::from_secs(13));
        let none = Limits { floor: 0, ..limits };
        assert_eq!(none.at_floor(u64::MAX), Duration::from_secs(3));
    }

    #[test]
    fn a_time_without_end_can_be_waited_for() {
        let now = Instant::now();
        assert_eq!(end(now, Duration::from_secs(3)), now + Duration::from_secs(3));
        let never = end(now, Duration::MAX);
        assert!(never > now + Duration::from_secs(1 << 27), "{never:?}");
    }

    #[test]
    fn the_reference_page_has_these_figures() {
        let (bundle, catalog) = (Limits::BUNDLE, Limits::CATALOG);
        let both = |of: fn(Limits) -> String| vec![of(bundle), of(catalog)];
        let window = bytes(1 << ZSTD_WINDOW_LOG);
        assert_listed(
            include_str!("../../../docs/reference/limits.md"),
            &[
                ("Layers of an image", both(|limits| limits.layers.to_string())),
                ("Size of one layer", both(|limits| bytes(limits.layer))),
                (
                    "All layers, compressed or not",
                    both(|limits| bytes(limits.transfer)),
                ),
                (
                    "All layers, compressed or not",
                    both(|limits| bytes(limits.unpacked)),
                ),
                (
                    "Files, folders and links",
                    both(|limits| limits.entries.to_string()),
                ),
                ("One file that is read", both(|limits| bytes(limits.file))),
                ("All files that are read", both(|limits| bytes(limits.content))),
                ("Window of a zstd layer", vec![window.clone(), window]),
                (
                    "Slowest transfer, after 30 s",
                    both(|limits| format!("{} a second", bytes(limits.floor))),
                ),
                ("Time for a pull", both(|limits| seconds(limits.time))),
            ],
        );
    }
}
