//! Pushing an image, with the same hosts and credentials as pulling.

use crate::archive::ImageArchive;
use crate::auth::Credentials;
use crate::error::{PullError, PullErrorClass};
use crate::limits::Limits;
use crate::reference::Reference;
use crate::registry_config::RegistryConfig;
use crate::transport::{Failure, Session, install_tls_provider};

/// Pushes images to the first host that may be pushed to.
#[derive(Debug, Clone, Default)]
pub struct Pusher {
    config: RegistryConfig,
}

impl Pusher {
    /// Returns a pusher that finds hosts through `config`.
    pub fn new(config: RegistryConfig) -> Self {
        Self { config }
    }

    /// Uploads the blobs that the registry does not have and sets the image's tag. Returns the reference by
    /// digest.
    ///
    /// # Errors
    /// [`PullError`], reported as one of a push. A reference without tag is malformed here: registries delete
    /// untagged images.
    pub async fn push(
        &self,
        archive: &ImageArchive,
        name: &Reference,
        credentials: &Credentials,
    ) -> Result<Reference, PullError> {
        install_tls_provider();
        let of_content =
            |class, detail: &dyn std::fmt::Display| PullError::of_content(name, class, detail).pushing();
        let tag = name
            .tag()
            .ok_or_else(|| of_content(PullErrorClass::Malformed, &"a push requires a tag"))?;
        let host = self
            .config
            .push_host(name)
            .map_err(|error| of_content(PullErrorClass::Malformed, &error))?
            .ok_or_else(|| of_content(PullErrorClass::Unreachable, &"no configured host allows push"))?;
        let mut session = Session::new(
            host,
            name.clone(),
            credentials.clone(),
            "pull,push",
            Limits::CATALOG,
        );
        upload(&mut session, archive, tag)
            .await
            .map_err(|failure| PullError::new(name, vec![session.attempt(failure)]).pushing())?;
        Ok(name.pinned(archive.digest().clone()))
    }
}

async fn upload(session: &mut Session, archive: &ImageArchive, tag: &str) -> Result<(), Failure> {
    for (digest, blob) in archive.blobs() {
        session.push_blob(digest, blob).await?;
    }
    session
        .push_manifest(tag, archive.manifest(), archive.media_type())
        .await
}
