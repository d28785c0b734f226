//! Pushing an image, with the same hosts and credentials as pulling.

use oci_client::secrets::RegistryAuth;
use oci_client::{Client, RegistryOperation};

use crate::archive::ImageArchive;
use crate::auth::{Credential, Credentials};
use crate::error::{Attempt, PullError, PullErrorClass};
use crate::reference::Reference;
use crate::registry_config::{Host, RegistryConfig};
use crate::transport::{
    Failure, build_client, client_config, identity, install_tls_provider, registry_failure, token_reference,
};

/// Pushes images to the first host that may be pushed to.
#[derive(Debug, Clone, Default)]
pub struct Pusher {
    config: RegistryConfig,
}

impl Pusher {
    /// A pusher that finds hosts through `config`.
    pub fn new(config: RegistryConfig) -> Self {
        Self { config }
    }

    /// Uploads what the registry does not have and gives the image its tag. Returns the reference by digest.
    ///
    /// # Errors
    /// [`PullError`] (told as one of pushing). A reference without tag is malformed here: registries drop what has none.
    pub async fn push(
        &self,
        archive: &ImageArchive,
        name: &Reference,
        credentials: &Credentials,
    ) -> Result<Reference, PullError> {
        install_tls_provider();
        let fail = |host: &Host, failure: Failure| PullError::new(name, vec![failure.at(host)]).pushing();
        let of_content = |class, detail: &dyn std::fmt::Display| {
            PullError::new(
                name,
                vec![Attempt {
                    host: String::new(),
                    class,
                    detail: detail.to_string(),
                }],
            )
            .pushing()
        };
        if name.tag().is_none() {
            return Err(of_content(
                PullErrorClass::Malformed,
                &"a tag is needed to push to",
            ));
        }
        let hosts = self
            .config
            .hosts(name.registry())
            .map_err(|error| of_content(PullErrorClass::Malformed, &error))?;
        let host = hosts
            .into_iter()
            .find(|host| host.capabilities.push)
            .ok_or_else(|| {
                of_content(
                    PullErrorClass::Unreachable,
                    &"no configured host may be pushed to",
                )
            })?;
        upload(&host, archive, name, credentials)
            .await
            .map_err(|failure| fail(&host, failure))?;
        Ok(name.pinned(archive.digest().clone()))
    }
}

/// Tries each credential that fits, then none, as long as the answer is "unauthorised".
async fn upload(
    host: &Host,
    archive: &ImageArchive,
    name: &Reference,
    credentials: &Credentials,
) -> Result<(), Failure> {
    let image = token_reference(host, name);
    let fitting = credentials.for_repository(&host.authority, name.repository());
    let mut refusal = None;
    for credential in fitting.into_iter().map(Some).chain([None]) {
        let result = match registry_auth(host, name, credential).await {
            Ok(auth) => upload_as(host, archive, &image, &auth).await,
            Err(failure) => Err(failure),
        };
        match result {
            Err(failure) if failure.class == PullErrorClass::Unauthorized => {
                refusal = refusal.or(Some(failure));
            }
            result => return result,
        }
    }
    refusal.map_or(Ok(()), Err)
}

async fn registry_auth(
    host: &Host,
    name: &Reference,
    credential: Option<&Credential>,
) -> Result<RegistryAuth, Failure> {
    Ok(match credential {
        None => RegistryAuth::Anonymous,
        Some(Credential::Basic { username, password }) => {
            RegistryAuth::Basic(username.clone(), password.clone())
        }
        Some(Credential::Bearer(token)) => RegistryAuth::Bearer(token.clone()),
        Some(Credential::Identity(identity)) => {
            let client = build_client(host)?;
            let token = identity::exchange(&client, host, name.repository(), "pull,push", identity).await?;
            RegistryAuth::Bearer(token)
        }
    })
}

async fn upload_as(
    host: &Host,
    archive: &ImageArchive,
    image: &oci_client::Reference,
    auth: &RegistryAuth,
) -> Result<(), Failure> {
    let client = Client::try_from(client_config(host)?).map_err(|error| registry_failure(&error))?;
    client
        .auth(image, auth, RegistryOperation::Push)
        .await
        .map_err(|error| registry_failure(&error))?;
    for (digest, blob) in archive.blobs() {
        let digest = digest.as_str();
        if !client
            .blob_exists(image, digest)
            .await
            .map_err(|error| registry_failure(&error))?
        {
            client
                .push_blob(image, blob.clone(), digest)
                .await
                .map_err(|error| registry_failure(&error))?;
        }
    }
    let media_type = http::HeaderValue::from_str(archive.media_type()).map_err(|_| {
        Failure::new(
            PullErrorClass::Malformed,
            "the manifest's media type is no header value",
        )
    })?;
    client
        .push_manifest_raw(image, archive.manifest().clone(), media_type)
        .await
        .map_err(|error| registry_failure(&error))?;
    Ok(())
}
