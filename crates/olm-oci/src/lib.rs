//! Container images as OLM needs them: pulled by digest, read as files, written and pushed.
//!
//! - [`Reference`], [`Digest`]: names.
//! - [`RegistryConfig`], [`Credentials`]: the hosts of a registry, and the credentials for them.
//!   [`ContainerTools`] and [`AuthPlaces`] find a user's configuration for podman, skopeo and Docker.
//! - [`Puller`], [`Image`], [`ImageContent`], [`Limits`], [`Spool`]: reading. [`PullError`]
//!   reports the failure, its host, and whether a retry or another way can help.
//! - [`ImageSpec`], [`ImageArchive`], [`Pusher`]: writing the same image from the same files every time, and
//!   pushing it.
//!
//! TLS is rustls with *ring*; if the program has not chosen a provider, the first pull installs it.

mod archive;
mod asked;
mod auth;
mod certificate_files;
mod config;
mod containers;
mod content;
mod credential;
mod digest;
mod error;
mod helper;
mod host;
mod layer;
pub mod limits;
mod manifest;
mod policy;
mod pull;
mod push;
mod reference;
mod registry_config;
mod spool;
mod transport;
mod user_credentials;
mod write;

pub use archive::ImageArchive;
pub use auth::Credentials;
pub use certificate_files::certificate_files;
pub use config::{Empty, ImageConfig, RootFs, RunConfig};
pub use containers::ContainerTools;
pub use content::{ImageContent, View};
pub use credential::{Credential, CredentialsError};
pub use digest::{Digest, DigestError, Hasher};
pub use error::{Attempt, PullError, PullErrorClass, WriteError};
pub use host::{Capabilities, Host, RegistryConfigError};
pub use limits::Limits;
pub use pull::{Image, Puller};
pub use push::Pusher;
pub use reference::{DEFAULT_REGISTRY, DEFAULT_TAG, Reference, ReferenceError};
pub use registry_config::RegistryConfig;
pub use spool::Spool;
pub use transport::install_tls_provider;
pub use user_credentials::AuthPlaces;
pub use write::{ImageSpec, LayerSpec};
