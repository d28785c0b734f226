//! Bundles: fetched by this process, checked, and kept on disk.
//!
//! Upstream starts a Job for each bundle and stores the content in a ConfigMap. Here the image is pulled in
//! process, so there is no pod to wait for and no size limit (decision record 0003). If only a node can pull
//! an image, such a Job is used ([`job`]).
//!
//! # Expected flow
//! Resolution calls [`Unpacker::request`] for each bundle of a solution and gets a state at once: ready,
//! unpacking, or failed. When that state changes, the subscriber is triggered. A reconcile reads the content of
//! an available bundle from disk ([`bundle_store`]). The InstallPlan reconciler requests the bundle again, by
//! digest, when it executes the plan; if its file is removed by then, it is fetched again. A bundle without an
//! image is fetched from its catalog in the same way, because a plan contains its manifests.
//!
//! # Guarantees
//! - A tag is resolved once per unpack; all later steps use the digest ([`UnpackedBundle::image`]).
//! - For one catalog there is one fetch of an image at a time, for any number of subscribers.
//! - A failure answers the requests of a subscriber at most until its retry time. Attempts that an
//!   unresponsive registry fails are repeated without a new request.
//! - A catalog's credentials are only used for images that the catalog names, and access of one catalog
//!   grants nothing to another. Content on disk is only returned to a catalog after the registry has shown the
//!   image for the catalog's own secrets.
//! - Memory contains a bundle only while a reconcile reads it. Bundles on disk have a limit in bytes.
//! - A bundle that a Job unpacked is only for its catalog.
//! - Namespaces of catalogs take turns. None but the global one uses more than half of the fetches. It leaves
//!   one to the others, and they leave one to it.

pub(crate) mod bundle_store;
pub(crate) mod config_map;
pub(crate) mod content;
pub(crate) mod error;
pub(crate) mod image_source;
pub(crate) mod job;
pub(crate) mod preflight;
pub(crate) mod pull_secrets;
pub(crate) mod retry;
pub(crate) mod unpacker;

pub(crate) use bundle_store::{BundleStore, StoredBundle};
pub(crate) use content::UnpackedBundle;
pub use error::UnpackError;
pub(crate) use image_source::ImageBundleSource;
pub(crate) use unpacker::{
    BundleSource, InlineBundle, Subscriber, UnpackRequest, UnpackState, Unpacker, UnpackerConfig,
};
