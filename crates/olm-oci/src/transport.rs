//! Fetching manifests and blobs over HTTP: one [`Session`] a host, one [`Source`] for all hosts of an image.
//!
//! `oci-client` does the token exchange. Requests are our own because an image must not decide how much is read (a
//! manifest is bounded like everything else), and because mirrors need their own path, scheme and `ns` parameter.

mod client;
mod failure;
pub(crate) mod identity;

use std::io::{Seek, SeekFrom, Write};

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, HeaderValue};
use oci_client::secrets::RegistryAuth;
use oci_client::{Client, RegistryOperation};
use tempfile::SpooledTempFile;

use crate::auth::{Credential, Credentials};
use crate::digest::Digest;
use crate::error::{Attempt, PullError, PullErrorClass};
use crate::reference::Reference;
use crate::registry_config::{Host, RegistryConfig};

pub(crate) use client::build_client;
pub use client::install_tls_provider;
pub(crate) use client::{client_config, token_reference};
pub(crate) use failure::{Failure, registry_failure};
use failure::{
    accept_response, check_length, is_refusal, malformed, mismatch, told_digest, too_large, transport_failure,
};

/// Blobs up to this size are held in memory while they are verified, larger ones in a temporary file.
const SPOOL: usize = 1024 * 1024;

/// What is asked of a host.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Object<'a> {
    /// A manifest or index by tag or digest, with the media types that are understood.
    Manifest { selector: &'a str, accept: &'a str },
    /// A blob by digest.
    Blob(&'a Digest),
}

/// Tells what is wrong with a document.
pub(crate) type Check = fn(&[u8]) -> Result<(), String>;

/// Every host that may answer for an image; remembers which of them does.
#[derive(Debug)]
pub(crate) struct Source {
    image: Reference,
    sessions: Vec<Session>,
}

impl Source {
    /// # Errors
    /// An unusable registry configuration, told as an error of the image that needed it.
    pub(crate) fn new(
        image: &Reference,
        config: &RegistryConfig,
        credentials: &Credentials,
    ) -> Result<Self, PullError> {
        install_tls_provider();
        let hosts = config
            .hosts(image.registry())
            .map_err(|error| PullError::of_content(image, PullErrorClass::Malformed, error))?;
        let sessions = hosts
            .into_iter()
            .filter(|host| host.capabilities.pull)
            .map(|host| Session::new(host, image.clone(), credentials.clone()))
            .collect();
        Ok(Self {
            image: image.clone(),
            sessions,
        })
    }

    pub(crate) fn image(&self) -> &Reference {
        &self.image
    }

    /// A manifest, index or configuration: read whole, at most `limit` bytes, verified against `expected` if given.
    ///
    /// What does not pass `check` counts as not delivered: some proxies answer everything with a page of their own.
    pub(crate) async fn document(
        &mut self,
        object: Object<'_>,
        expected: Option<&Digest>,
        limit: u64,
        check: Check,
    ) -> Result<Bytes, PullError> {
        let mut attempts = Vec::new();
        for at in 0..self.sessions.len() {
            if expected.is_none() && !self.sessions[at].host.capabilities.resolve {
                continue;
            }
            let answer = self.sessions[at].document(object, expected, limit).await;
            match answer.and_then(|bytes| check(&bytes).map(|()| bytes).map_err(malformed)) {
                Ok(bytes) => {
                    self.prefer(at);
                    return Ok(bytes);
                }
                Err(failure) => attempts.push(self.note(at, failure)),
            }
        }
        Err(self.exhausted(attempts))
    }

    /// A layer, verified, rewound to its start.
    pub(crate) async fn blob(&mut self, digest: &Digest, limit: u64) -> Result<SpooledTempFile, PullError> {
        let mut attempts = Vec::new();
        for at in 0..self.sessions.len() {
            match self.sessions[at].blob(digest, limit).await {
                Ok(file) => {
                    self.prefer(at);
                    return Ok(file);
                }
                Err(failure) => attempts.push(self.note(at, failure)),
            }
        }
        Err(self.exhausted(attempts))
    }

    fn note(&self, at: usize, failure: Failure) -> Attempt {
        let attempt = failure.at(&self.sessions[at].host);
        tracing::debug!(image = %self.image, host = %attempt.host, detail = %attempt.detail, "trying next host");
        attempt
    }

    /// Whoever has answered is asked first for what follows, so that a silent mirror costs its timeout only once.
    fn prefer(&mut self, at: usize) {
        self.sessions[..=at].rotate_right(1);
    }

    fn exhausted(&self, mut attempts: Vec<Attempt>) -> PullError {
        if attempts.is_empty() {
            let detail = "no configured host may be used for pulling it".to_owned();
            attempts.push(Attempt {
                host: String::new(),
                class: PullErrorClass::Unreachable,
                detail,
            });
        }
        PullError::new(&self.image, attempts)
    }
}

/// Requests to one host for one image.
#[derive(Debug)]
struct Session {
    host: Host,
    image: Reference,
    credentials: Credentials,
    client: Option<reqwest::Client>,
    authorization: Option<HeaderValue>,
}

impl Session {
    fn new(host: Host, image: Reference, credentials: Credentials) -> Self {
        Self {
            host,
            image,
            credentials,
            client: None,
            authorization: None,
        }
    }

    async fn document(
        &mut self,
        object: Object<'_>,
        expected: Option<&Digest>,
        limit: u64,
    ) -> Result<Bytes, Failure> {
        let response = self.get(object).await?;
        let told = told_digest(&response);
        let body = read_whole(response, limit).await?;
        // A tag has no digest to check; then the registry's own word at least reveals damage on the way.
        if let Some(expected) = expected.or(told.as_ref())
            && !expected.matches(&body)
        {
            return Err(mismatch(expected, &Digest::sha256(&body)));
        }
        Ok(body.into())
    }

    async fn blob(&mut self, digest: &Digest, limit: u64) -> Result<SpooledTempFile, Failure> {
        let mut response = self.get(Object::Blob(digest)).await?;
        check_length(&response, limit)?;
        let local = |error: std::io::Error| {
            Failure::new(
                PullErrorClass::Unreachable,
                format!("cannot store a layer temporarily: {error}"),
            )
        };
        let mut file = SpooledTempFile::new(SPOOL);
        let mut hasher = digest.hasher();
        let mut length = 0u64;
        while let Some(chunk) = response
            .chunk()
            .await
            .map_err(|error| transport_failure(&error))?
        {
            length += chunk.len() as u64;
            if length > limit {
                return Err(too_large(limit));
            }
            hasher.update(&chunk);
            file.write_all(&chunk).map_err(local)?;
        }
        let actual = hasher.finish();
        if actual != *digest {
            return Err(mismatch(digest, &actual));
        }
        file.seek(SeekFrom::Start(0)).map_err(local)?;
        Ok(file)
    }

    /// Sends the request, and again with each credential that fits while the answer is "unauthorised".
    async fn get(&mut self, object: Object<'_>) -> Result<reqwest::Response, Failure> {
        let response = self.send(object, self.authorization.clone()).await?;
        if !is_refusal(response.status()) {
            return accept_response(response).await;
        }
        let candidates: Vec<Option<Credential>> = {
            let fitting = self
                .credentials
                .for_repository(&self.host.authority, self.image.repository());
            // Public images of registries with token service need an anonymous token, so no credential is one more.
            fitting.into_iter().cloned().map(Some).chain([None]).collect()
        };
        let mut refusal = accept_response(response).await.err();
        for candidate in candidates {
            let authorization = match self.authorize(candidate.as_ref()).await {
                Ok(Some(authorization)) => authorization,
                Ok(None) => continue,
                Err(failure) => {
                    refusal = Some(failure);
                    continue;
                }
            };
            let response = self.send(object, Some(authorization.clone())).await?;
            if !is_refusal(response.status()) {
                self.authorization = Some(authorization);
                return accept_response(response).await;
            }
            refusal = accept_response(response).await.err();
        }
        Err(refusal.unwrap_or_else(|| Failure::new(PullErrorClass::Unauthorized, "not authorised")))
    }

    async fn send(
        &mut self,
        object: Object<'_>,
        authorization: Option<HeaderValue>,
    ) -> Result<reqwest::Response, Failure> {
        let mut request = self.client()?.get(self.url(object)?);
        if let Object::Manifest { accept, .. } = object {
            request = request.header(ACCEPT, accept);
        }
        if let Some(authorization) = authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        request.send().await.map_err(|error| transport_failure(&error))
    }

    fn url(&self, object: Object<'_>) -> Result<reqwest::Url, Failure> {
        let (kind, selector) = match object {
            Object::Manifest { selector, .. } => ("manifests", selector),
            Object::Blob(digest) => ("blobs", digest.as_str()),
        };
        let base = format!("{}{}", self.host.origin(), self.host.path);
        let text = format!("{base}/{}/{kind}/{selector}", self.image.repository());
        let mut url = reqwest::Url::parse(&text).map_err(|error| {
            Failure::new(PullErrorClass::Malformed, format!("`{text}` is no URL: {error}"))
        })?;
        if self.host.mirror {
            url.query_pairs_mut().append_pair("ns", self.image.registry());
        }
        Ok(url)
    }

    /// The `Authorization` header for a credential; `None` when the host asks for none that this credential can give.
    async fn authorize(&mut self, credential: Option<&Credential>) -> Result<Option<HeaderValue>, Failure> {
        let auth = match credential {
            None => RegistryAuth::Anonymous,
            Some(Credential::Basic { username, password }) => {
                RegistryAuth::Basic(username.clone(), password.clone())
            }
            Some(Credential::Bearer(token)) => return header(&format!("Bearer {token}")).map(Some),
            Some(Credential::Identity(identity)) => {
                let client = self.client()?;
                let repository = self.image.repository();
                let token = identity::exchange(&client, &self.host, repository, "pull", identity).await?;
                return header(&format!("Bearer {token}")).map(Some);
            }
        };
        let client =
            Client::try_from(client_config(&self.host)?).map_err(|error| registry_failure(&error))?;
        let image = token_reference(&self.host, &self.image);
        let token = client
            .auth(&image, &auth, RegistryOperation::Pull)
            .await
            .map_err(|error| registry_failure(&error))?;
        match (token, credential) {
            (Some(token), _) => header(&format!("Bearer {token}")).map(Some),
            (None, Some(Credential::Basic { username, password })) => {
                use base64::Engine as _;
                let pair = base64::engine::general_purpose::STANDARD.encode(format!("{username}:{password}"));
                header(&format!("Basic {pair}")).map(Some)
            }
            (None, _) => Ok(None),
        }
    }

    fn client(&mut self) -> Result<reqwest::Client, Failure> {
        if let Some(client) = &self.client {
            return Ok(client.clone());
        }
        let client = build_client(&self.host)?;
        self.client = Some(client.clone());
        Ok(client)
    }
}

/// A body of at most `limit` bytes.
async fn read_whole(mut response: reqwest::Response, limit: u64) -> Result<Vec<u8>, Failure> {
    check_length(&response, limit)?;
    let mut body = Vec::new();
    while let Some(chunk) = response
        .chunk()
        .await
        .map_err(|error| transport_failure(&error))?
    {
        if body.len() as u64 + chunk.len() as u64 > limit {
            return Err(too_large(limit));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

fn header(text: &str) -> Result<HeaderValue, Failure> {
    let mut value = HeaderValue::from_str(text).map_err(|_| {
        Failure::new(
            PullErrorClass::Unauthorized,
            "a credential or token has invalid characters",
        )
    })?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::client::tests::host;

    #[test]
    fn urls_follow_the_configured_path_and_name_the_registry() {
        let image: Reference = "quay.io/a/b:v1".parse().expect("reference");
        let object = Object::Manifest {
            selector: image.selector(),
            accept: "",
        };
        for (path, expected) in [
            ("/v2", "https://m:5000/v2/a/b/manifests/v1?ns=quay.io"),
            ("/v2/cache", "https://m:5000/v2/cache/a/b/manifests/v1?ns=quay.io"),
            ("", "https://m:5000/a/b/manifests/v1?ns=quay.io"),
        ] {
            let session = Session::new(host(path), image.clone(), Credentials::anonymous());
            assert_eq!(session.url(object).expect("url").as_str(), expected);
        }
    }
}
