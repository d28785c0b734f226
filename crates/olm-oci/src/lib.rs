//! Container images as OLM needs them: pulled by digest, read as files, written and pushed.
//!
//! - [`Reference`], [`Digest`]: names.
//! - [`RegistryConfig`], [`Credentials`]: which hosts answer for a registry, and what they are shown.
//! - [`Puller`], [`Image`], [`ImageContent`], [`Limits`], [`Spool`], [`ContentCache`]: reading. [`PullError`] says what failed, where, and
//!   whether trying again or another way can help.
//! - [`ImageSpec`], [`ImageArchive`], [`Pusher`]: writing the same image from the same files every time, and pushing it.
//!
//! TLS is rustls with *ring*; if the program has not chosen a provider, the first pull installs it.

mod archive;
mod auth;
mod cache;
mod config;
mod content;
mod credential;
mod digest;
mod error;
mod helper;
mod layer;
pub mod limits;
mod manifest;
mod pull;
mod push;
mod reference;
mod registry_config;
mod spool;
mod transport;
mod write;

pub use archive::ImageArchive;
pub use auth::Credentials;
pub use cache::ContentCache;
pub use config::{Empty, ImageConfig, RootFs, RunConfig};
pub use content::{ImageContent, View};
pub use credential::{Credential, CredentialsError};
pub use digest::{Digest, DigestError, Hasher};
pub use error::{Attempt, PullError, PullErrorClass, WriteError};
pub use limits::Limits;
pub use pull::{Image, Puller};
pub use push::Pusher;
pub use reference::{DEFAULT_REGISTRY, DEFAULT_TAG, Reference, ReferenceError};
pub use registry_config::{Capabilities, Host, RegistryConfig, RegistryConfigError};
pub use spool::Spool;
pub use transport::install_tls_provider;
pub use write::{ImageSpec, LayerSpec};
