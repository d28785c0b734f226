//! Bundles: fetched by this process, checked, and kept as long as somebody needs them.
//!
//! Upstream starts a Job for each bundle and stores the content in a ConfigMap. Here the image is pulled in process, so there is
//! no pod to wait for and no size limit (decision record 0003); what this process cannot have and a node may is left to such a
//! Job ([`job`]).
//!
//! # Expected flow
//! Resolution asks [`Unpacker::request`] for each bundle of a solution and gets an answer at once: ready, on its way, or failed.
//! When that answer changes, whoever asked is woken. The InstallPlan reconciler asks again, by digest, when it carries out the
//! plan; by then the content is in memory or in the cache on disk, or is fetched again. A bundle without an image comes from its
//! catalog in the same way, once, as a plan carries its manifests along.
//!
//! # Guarantees
//! - A tag is resolved once per unpack; everything after uses the digest ([`UnpackedBundle::image`]).
//! - One image is fetched once at a time for one catalog, however many ask.
//! - A failure is never remembered for longer than its retry time, and a registry that does not answer is asked again without
//!   anybody asking for it.
//! - A catalog's credentials only ever fetch what that catalog names: what one may see says nothing about another. Content
//!   on disk is handed to a catalog only after its registry has shown the image for that catalog's own secrets ([`access`]).
//! - Bundles in memory are bounded in bytes, and one that a waiting round needs stays until the round has it ([`unpacker::eviction`]).
//! - What a Job unpacked is for its catalog alone, and on no disk.
//! - Namespaces take turns, and none of them keeps more than half of the fetches or takes another's place on disk.

pub(crate) mod access;
pub(crate) mod bundle_cache;
pub(crate) mod config_map;
pub(crate) mod content;
pub(crate) mod error;
pub(crate) mod image_source;
pub(crate) mod job;
pub(crate) mod packed;
pub(crate) mod preflight;
pub(crate) mod pull_secrets;
pub(crate) mod reading;
pub(crate) mod retry;
pub(crate) mod unpacker;

pub(crate) use content::UnpackedBundle;
pub use error::UnpackError;
pub(crate) use image_source::ImageBundleSource;
pub(crate) use packed::PackedBundle;
pub(crate) use unpacker::{
    BundleSource, InlineBundle, Known, UnpackRequest, UnpackState, Unpacker, UnpackerConfig, Waiter,
};
