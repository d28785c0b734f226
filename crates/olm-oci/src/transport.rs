//! Fetching and sending manifests and blobs over HTTP: one [`Session`] per host, one [`Source`] for all hosts
//! of an image.
//!
//! The client is our own because an image must not decide how much is read, nor a registry how long that
//! takes. Mirrors also need their own path, scheme and `ns` parameter.

mod client;
mod failure;
mod status;
mod token;
mod wire;

use std::io::{Seek, Write};

use bytes::Bytes;
use http::header::{HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use reqwest::Url;

use crate::auth::Credentials;
use crate::credential::Credential;
use crate::digest::Digest;
use crate::error::{Attempt, PullError, PullErrorClass};
use crate::host::Host;
use crate::limits::Limits;
use crate::manifest::ACCEPT;
use crate::reference::Reference;
use crate::registry_config::RegistryConfig;
use crate::spool::{Spool, SpooledLayer};

pub use client::install_tls_provider;
pub(crate) use failure::Failure;
use failure::{malformed, mismatch};
use status::{accept, announced_digest, is_refusal};
use token::Scope;
use wire::{Request, Response, Wire, parse_url};

/// An object that is requested from a host.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Object<'a> {
    /// A manifest or index by tag or digest.
    Manifest(&'a str),
    /// A blob by digest.
    Blob(&'a Digest),
}

/// Every host that may answer for an image, the last one that answered first.
#[derive(Debug)]
pub(crate) struct Source {
    image: Reference,
    sessions: Vec<Session>,
}

impl Source {
    /// Returns the hosts of an image.
    ///
    /// # Errors
    /// An unusable registry configuration, reported as an error of the image that needed it.
    pub(crate) fn new(
        image: &Reference,
        config: &RegistryConfig,
        credentials: &Credentials,
        limits: Limits,
    ) -> Result<Self, PullError> {
        install_tls_provider();
        let hosts = config
            .hosts(image)
            .map_err(|error| PullError::of_content(image, PullErrorClass::Malformed, error))?;
        let sessions = hosts
            .into_iter()
            .filter(|host| host.capabilities.pull)
            .map(|host| Session::new(host, image.clone(), credentials.clone(), "pull", limits))
            .collect();
        Ok(Self {
            image: image.clone(),
            sessions,
        })
    }

    pub(crate) fn image(&self) -> &Reference {
        &self.image
    }

    /// Fetches a manifest, index or configuration: at most `limit` bytes, verified against `expected` if
    /// given. Returns it as delivered and as parsed.
    ///
    /// A document that `parse` refuses counts as not delivered: some proxies answer everything with a page of
    /// their own.
    pub(crate) async fn document<T>(
        &mut self,
        object: Object<'_>,
        expected: Option<&Digest>,
        limit: u64,
        parse: fn(&[u8]) -> Result<T, String>,
    ) -> Result<(Bytes, T), PullError> {
        let mut attempts = Vec::new();
        for at in 0..self.sessions.len() {
            let session = &mut self.sessions[at];
            if expected.is_none() && !session.host.capabilities.resolve {
                continue;
            }
            let answer = session.document(object, expected, limit, parse).await;
            if let Some(document) = self.outcome(at, answer, &mut attempts)? {
                return Ok(document);
            }
        }
        Err(self.exhausted(attempts))
    }

    /// Returns a manifest's current digest as reported by the first host that answers; `None` if that host
    /// reports none.
    pub(crate) async fn reported_digest(&mut self, object: Object<'_>) -> Result<Option<Digest>, PullError> {
        let mut attempts = Vec::new();
        for at in 0..self.sessions.len() {
            let session = &mut self.sessions[at];
            if !session.host.capabilities.resolve {
                continue;
            }
            let answer = session.reported_digest(object).await;
            if let Some(digest) = self.outcome(at, answer, &mut attempts)? {
                return Ok(digest);
            }
        }
        Err(self.exhausted(attempts))
    }

    /// Fetches a layer of `size` bytes, as in its manifest, verified and rewound to its start.
    pub(crate) async fn blob(
        &mut self,
        digest: &Digest,
        size: u64,
        spool: &Spool,
    ) -> Result<SpooledLayer, PullError> {
        let room = spool.layer(size).await;
        let mut file =
            room.map_err(|detail| PullError::of_content(&self.image, PullErrorClass::Storage, detail))?;
        let mut attempts = Vec::new();
        for at in 0..self.sessions.len() {
            let answer = self.sessions[at].blob(digest, size, &mut file, spool).await;
            if self.outcome(at, answer, &mut attempts)?.is_some() {
                return Ok(file);
            }
        }
        Err(self.exhausted(attempts))
    }

    /// Returns what the host at `at` delivered, and moves the host to the front, so that a silent mirror costs
    /// its timeout only once. `None` if it failed and the next one is to be asked; `attempts` has the reason.
    ///
    /// # Errors
    /// There is no room for the content here, whichever host it comes from.
    fn outcome<T>(
        &mut self,
        at: usize,
        answer: Result<T, Failure>,
        attempts: &mut Vec<Attempt>,
    ) -> Result<Option<T>, PullError> {
        let image = &self.image;
        match answer {
            Ok(content) => {
                self.sessions[..=at].rotate_right(1);
                Ok(Some(content))
            }
            Err(failure) if failure.class == PullErrorClass::Storage => {
                Err(PullError::of_content(image, failure.class, failure.detail))
            }
            Err(failure) => {
                let attempt = self.sessions[at].attempt(failure);
                tracing::debug!(%image, host = %attempt.host, detail = %attempt.detail, "pull from host failed, trying the next one");
                attempts.push(attempt);
                Ok(None)
            }
        }
    }

    fn exhausted(&self, attempts: Vec<Attempt>) -> PullError {
        if attempts.is_empty() {
            let detail = "no configured host allows pull";
            return PullError::of_content(&self.image, PullErrorClass::Unreachable, detail);
        }
        PullError::new(&self.image, attempts)
    }
}

impl Object<'_> {
    /// Returns the path below the repository.
    fn path(self) -> String {
        match self {
            Object::Manifest(selector) => format!("manifests/{selector}"),
            Object::Blob(digest) => format!("blobs/{digest}"),
        }
    }

    /// Returns the accepted media types.
    fn accept(self) -> Option<&'static str> {
        match self {
            Object::Manifest(_) => Some(ACCEPT),
            Object::Blob(_) => None,
        }
    }
}

/// Requests to one host for one image.
#[derive(Debug)]
pub(crate) struct Session {
    host: Host,
    image: Reference,
    credentials: Credentials,
    actions: &'static str,
    limits: Limits,
    wire: Option<Wire>,
    authorization: Option<HeaderValue>,
    /// Reason for plain http, if that is not the configured scheme.
    without_tls: Option<String>,
}

impl Session {
    /// Returns a session without a connection. `actions` is the scope of its tokens: `pull` or `pull,push`.
    pub(crate) fn new(
        host: Host,
        image: Reference,
        credentials: Credentials,
        actions: &'static str,
        limits: Limits,
    ) -> Self {
        Self {
            host,
            image,
            credentials,
            actions,
            limits,
            wire: None,
            authorization: None,
            without_tls: None,
        }
    }

    /// Returns a failure of this host, with the sources of credentials, the reason for plain http or the way to it
    /// added.
    pub(crate) fn attempt(&self, mut failure: Failure) -> Attempt {
        if failure.class == PullErrorClass::Unauthorized
            && let Some(asked) = self.credentials.asked(self.host.registry())
        {
            failure.detail = format!("{}; {asked}", failure.detail);
        }
        if let Some(why) = self
            .without_tls
            .as_ref()
            .filter(|_| failure.class <= PullErrorClass::Unreachable)
        {
            failure.detail = format!("{}; over https: {why}", failure.detail);
        }
        // Only a side that answered a TLS connection with something else is untrusted and speaks no TLS.
        if failure.class == PullErrorClass::Untrusted && !failure.speaks_tls {
            failure.detail = format!(
                "{}; the host does not speak TLS: if it serves plain HTTP, set `insecure = true` for it in \
                 registries.conf, or give it an http:// address in hosts.toml",
                failure.detail
            );
        }
        failure.at(&self.host)
    }

    /// Decides between https and plain http before anything secret is sent. Plain http is used only if the
    /// host was found to speak no TLS.
    async fn settle(&mut self) -> Result<(), Failure> {
        if let Some(refusal) = &self.host.refusal {
            return Err(Failure::new(PullErrorClass::Unreachable, refusal.clone()));
        }
        if !self.host.http_fallback || self.host.plain_http {
            return Ok(());
        }
        let address = parse_url(&format!("{}{}/", self.host.origin(), self.host.path))?;
        let answer = self.wire()?.send(&Request::get(address), None).await;
        match answer {
            Err(failure) if !failure.speaks_tls => {
                self.without_tls = Some(failure.detail);
                self.host.plain_http = true;
                self.wire = None;
            }
            _ => self.host.http_fallback = false,
        }
        Ok(())
    }

    fn repository(&self) -> &str {
        let own = self.host.repository.as_deref();
        own.unwrap_or_else(|| self.image.repository())
    }

    async fn document<T>(
        &mut self,
        object: Object<'_>,
        expected: Option<&Digest>,
        limit: u64,
        parse: fn(&[u8]) -> Result<T, String>,
    ) -> Result<(Bytes, T), Failure> {
        let answer = self.fetch(object, expected.is_some()).await?;
        let announced = announced_digest(&answer);
        let body = answer.whole(limit).await?;
        // A tag has no digest to check. The digest in the registry's header at least reveals damage in
        // transit.
        if let Some(expected) = expected.or(announced.as_ref())
            && !expected.matches(&body)
        {
            let actual = Digest::sha256(&body);
            return Err(mismatch(expected, &format!("has digest {actual}")));
        }
        let parsed = parse(&body).map_err(malformed)?;
        Ok((body.into(), parsed))
    }

    async fn reported_digest(&mut self, object: Object<'_>) -> Result<Option<Digest>, Failure> {
        self.settle().await?;
        let head = Request {
            method: Method::HEAD,
            accept: object.accept(),
            ..Request::get(self.url(&object.path())?)
        };
        let answer = self.request(&head).await?;
        // Some registries reject HEAD requests but answer GET.
        if matches!(
            answer.status(),
            StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED
        ) {
            return Ok(None);
        }
        Ok(announced_digest(&accept(answer).await?))
    }

    async fn blob(
        &mut self,
        digest: &Digest,
        size: u64,
        file: &mut SpooledLayer,
        spool: &Spool,
    ) -> Result<(), Failure> {
        let of_storage =
            |error: std::io::Error| Failure::new(PullErrorClass::Storage, spool.unusable(&error));
        // The data of a previous host is overwritten; a verified layer never has more than its size.
        file.content.rewind().map_err(of_storage)?;
        let mut answer = self.fetch(Object::Blob(digest), true).await?;
        // The size in the manifest is part of what its digest promises.
        let of_size = |failure: Failure| match failure.class {
            PullErrorClass::TooLarge => {
                mismatch(digest, &format!("exceeds the {size} bytes in the manifest"))
            }
            _ => failure,
        };
        answer.check_length(size).map_err(of_size)?;
        let mut hasher = digest.hasher();
        let mut received = 0_u64;
        while let Some(chunk) = answer.chunk(size).await.map_err(of_size)? {
            received = received.saturating_add(chunk.len() as u64);
            hasher.update(&chunk);
            file.content.write_all(&chunk).map_err(of_storage)?;
        }
        let actual = hasher.finish();
        if actual != *digest {
            return Err(mismatch(digest, &format!("has digest {actual}")));
        }
        if received != size {
            return Err(mismatch(
                digest,
                &format!("has {received} bytes, expected {size}"),
            ));
        }
        file.content.rewind().map_err(of_storage)
    }

    async fn fetch(&mut self, object: Object<'_>, is_verified: bool) -> Result<Response, Failure> {
        self.settle().await?;
        let request = Request {
            accept: object.accept(),
            is_verified,
            ..Request::get(self.url(&object.path())?)
        };
        accept(self.request(&request).await?).await
    }

    /// Sends a request, and again with each credential that fits while the answer is "unauthorised". The last
    /// refusal is returned as an answer.
    async fn request(&mut self, request: &Request) -> Result<Response, Failure> {
        let known = self.authorization.clone();
        let mut answer = self.wire()?.send(request, known.as_ref()).await?;
        // Credentials belong to the host itself, so a redirect's target gets none even if it asks.
        if !is_refusal(answer.status()) || !self.wire()?.is_home(answer.url()) {
            return Ok(answer);
        }
        let candidates: Vec<Option<Credential>> = {
            let fitting = self
                .credentials
                .for_repository(&self.host.authority, self.repository());
            // Public images of registries with a token service need an anonymous token, so "no credential" is
            // tried too.
            fitting.into_iter().cloned().map(Some).chain([None]).collect()
        };
        let challenge: HeaderMap = answer.headers().clone();
        let mut failed = None;
        for candidate in candidates {
            let authorization = match self.authorize(&challenge, candidate.as_ref()).await {
                Ok(Some(authorization)) => authorization,
                Ok(None) => continue,
                Err(failure) => {
                    failed = Some(failure);
                    continue;
                }
            };
            answer = self.wire()?.send(request, Some(&authorization)).await?;
            failed = None;
            if !is_refusal(answer.status()) {
                self.authorization = Some(authorization);
                return Ok(answer);
            }
        }
        failed.map_or(Ok(answer), Err)
    }

    async fn authorize(
        &mut self,
        challenge: &HeaderMap,
        credential: Option<&Credential>,
    ) -> Result<Option<HeaderValue>, Failure> {
        let own = self.host.repository.as_deref();
        let scope = Scope {
            host: &self.host,
            repository: own.unwrap_or_else(|| self.image.repository()),
            actions: self.actions,
        };
        let wire = wire(&mut self.wire, &self.host, self.limits)?;
        token::authorization(wire, scope, challenge, credential).await
    }

    /// Returns the address of a path below the repository.
    fn url(&self, path: &str) -> Result<Url, Failure> {
        let (origin, root) = (self.host.origin(), &self.host.path);
        let mut url = parse_url(&format!("{origin}{root}/{}/{path}", self.repository()))?;
        if self.host.mirror {
            url.query_pairs_mut().append_pair("ns", self.image.registry());
        }
        Ok(url)
    }

    fn wire(&mut self) -> Result<&Wire, Failure> {
        wire(&mut self.wire, &self.host, self.limits)
    }

    /// Uploads a blob unless the registry has it.
    pub(crate) async fn push_blob(&mut self, digest: &Digest, blob: &Bytes) -> Result<(), Failure> {
        self.settle().await?;
        let head = Request {
            method: Method::HEAD,
            is_verified: true,
            ..Request::get(self.url(&format!("blobs/{digest}"))?)
        };
        if self.request(&head).await?.status().is_success() {
            return Ok(());
        }
        let kind = HeaderValue::from_static("application/octet-stream");
        let begin = Request::sending(
            Method::POST,
            self.url("blobs/uploads/")?,
            Bytes::new(),
            kind.clone(),
        );
        let begun = accept(self.request(&begin).await?).await?;
        let location = begun
            .headers()
            .get(http::header::LOCATION)
            .ok_or_else(|| malformed("the response has no Location to upload to".to_owned()))?;
        let mut url = wire::join(begun.url(), location)?;
        url.query_pairs_mut().append_pair("digest", digest.as_str());
        self.send_whole(&Request::sending(Method::PUT, url, blob.clone(), kind))
            .await
    }

    /// Sends a manifest under a tag.
    pub(crate) async fn push_manifest(
        &mut self,
        tag: &str,
        manifest: &Bytes,
        media_type: &str,
    ) -> Result<(), Failure> {
        self.settle().await?;
        let kind = HeaderValue::from_str(media_type)
            .map_err(|_| malformed("the manifest's media type is not a valid header value".to_owned()))?;
        let url = self.url(&format!("manifests/{tag}"))?;
        self.send_whole(&Request::sending(Method::PUT, url, manifest.clone(), kind))
            .await
    }

    /// Sends with credentials to the host itself, and without them to another host that it names for uploads.
    async fn send_whole(&mut self, request: &Request) -> Result<(), Failure> {
        let answer = match self.wire()?.is_home(&request.url) {
            true => self.request(request).await?,
            false => self.wire()?.send(request, None).await?,
        };
        accept(answer).await.map(drop)
    }
}

fn wire<'a>(wire: &'a mut Option<Wire>, host: &Host, limits: Limits) -> Result<&'a Wire, Failure> {
    match wire {
        Some(wire) => Ok(wire),
        none => Ok(none.insert(Wire::new(host, limits)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::client::tests::host;

    #[test]
    fn a_failed_host_leads_to_the_next_one_and_missing_room_to_none() {
        let image: Reference = "quay.io/a/b:v1".parse().expect("reference");
        let sessions = ["/first", "/second"].map(|path| {
            let anonymous = Credentials::anonymous();
            Session::new(host(path), image.clone(), anonymous, "pull", Limits::BUNDLE)
        });
        let mut source = Source {
            image,
            sessions: Vec::from(sessions),
        };
        let mut attempts = Vec::new();
        let failed = |class| Err::<(), _>(Failure::new(class, "reason"));
        let answer = source.outcome(0, failed(PullErrorClass::NotFound), &mut attempts);
        assert_eq!(answer, Ok(None));
        assert_eq!(attempts.len(), 1);
        let error = source
            .outcome(1, failed(PullErrorClass::Storage), &mut attempts)
            .expect_err("no room");
        assert_eq!(error.class(), PullErrorClass::Storage);
        assert_eq!(error.to_string(), "cannot pull image `quay.io/a/b:v1`: reason");
        let answer = source.outcome(1, Ok("content"), &mut attempts);
        assert_eq!(answer, Ok(Some("content")));
        assert_eq!(
            source.sessions[0].host.path, "/second",
            "it is asked first from now on"
        );
    }

    #[test]
    fn urls_follow_the_configured_path_and_name_the_registry() {
        let image: Reference = "quay.io/a/b:v1".parse().expect("reference");
        let object = Object::Manifest(image.selector());
        for (path, expected) in [
            ("/v2", "https://m:5000/v2/a/b/manifests/v1?ns=quay.io"),
            ("/v2/cache", "https://m:5000/v2/cache/a/b/manifests/v1?ns=quay.io"),
            ("", "https://m:5000/a/b/manifests/v1?ns=quay.io"),
        ] {
            let session = Session::new(
                host(path),
                image.clone(),
                Credentials::anonymous(),
                "pull",
                Limits::BUNDLE,
            );
            assert_eq!(session.url(&object.path()).expect("url").as_str(), expected);
        }
    }
}
