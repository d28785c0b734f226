//! Fetching manifests and blobs over HTTP: one [`Session`] a host, one [`Source`] for all hosts of an image.
//!
//! `oci-client` does the token exchange. Requests are our own because an image must not decide how much is read (a
//! manifest is bounded like everything else), and because mirrors need their own path, scheme and `ns` parameter.

use std::io::{Seek, SeekFrom, Write};
use std::sync::Once;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, HeaderValue};
use http::{HeaderMap, HeaderName, StatusCode};
use oci_client::client::{ClientConfig, ClientProtocol};
use oci_client::secrets::RegistryAuth;
use oci_client::{Client, RegistryOperation};
use tempfile::SpooledTempFile;

use crate::auth::{Credential, Credentials};
use crate::digest::Digest;
use crate::error::{Attempt, PullError, PullErrorClass};
use crate::reference::Reference;
use crate::registry_config::{Host, RegistryConfig};

/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the other side may stay silent.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// Blobs up to this size are held in memory while they are verified, larger ones in a temporary file.
const SPOOL: usize = 1024 * 1024;
/// Name of the header in which registries tell a manifest's digest.
const CONTENT_DIGEST: &str = "docker-content-digest";
/// How much of a registry's error text is worth repeating.
const MAX_ERROR_TEXT: usize = 200;

pub(crate) const USER_AGENT: &str = concat!("olm-oci/", env!("CARGO_PKG_VERSION"));

/// What went wrong at one host.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) class: PullErrorClass,
    pub(crate) detail: String,
}

impl Failure {
    pub(crate) fn new(class: PullErrorClass, detail: impl Into<String>) -> Self {
        Self {
            class,
            detail: detail.into(),
        }
    }

    pub(crate) fn at(self, host: &Host) -> Attempt {
        Attempt {
            host: host.origin(),
            class: self.class,
            detail: self.detail,
        }
    }
}

/// What is asked of a host.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Object<'a> {
    /// A manifest or index by tag or digest, with the media types that are understood.
    Manifest { selector: &'a str, accept: &'a str },
    /// A blob by digest.
    Blob(&'a Digest),
}

/// Makes *ring* the process's TLS implementation, unless the program chose one already.
pub(crate) fn install_tls_provider() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Err means that there is one, which is all that is needed.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

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
    pub(crate) async fn document(
        &mut self,
        object: Object<'_>,
        expected: Option<&Digest>,
        limit: u64,
    ) -> Result<Bytes, PullError> {
        let mut attempts = Vec::new();
        for at in 0..self.sessions.len() {
            if expected.is_none() && !self.sessions[at].host.capabilities.resolve {
                continue;
            }
            match self.sessions[at].document(object, expected, limit).await {
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
        let mut response = self.get(object).await?;
        check_length(&response, limit)?;
        let told = told_digest(&response);
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
    async fn authorize(&self, credential: Option<&Credential>) -> Result<Option<HeaderValue>, Failure> {
        let auth = match credential {
            None => RegistryAuth::Anonymous,
            Some(Credential::Basic { username, password }) => {
                RegistryAuth::Basic(username.clone(), password.clone())
            }
            Some(Credential::Bearer(token)) => return header(&format!("Bearer {token}")).map(Some),
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

fn build_client(host: &Host) -> Result<reqwest::Client, Failure> {
    let mut builder = reqwest::Client::builder()
        .user_agent(USER_AGENT)
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(READ_TIMEOUT)
        .tls_danger_accept_invalid_certs(host.skip_verify);
    let mut headers = HeaderMap::new();
    for (name, values) in &host.headers {
        let unusable = || {
            Failure::new(
                PullErrorClass::Malformed,
                format!("configured header `{name}` is invalid"),
            )
        };
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| unusable())?;
        for value in values {
            headers.append(
                name.clone(),
                HeaderValue::from_str(value).map_err(|_| unusable())?,
            );
        }
    }
    builder = builder.default_headers(headers);
    let mut roots = Vec::new();
    for path in &host.ca {
        roots.extend(
            reqwest::Certificate::from_pem_bundle(&read_pem(path)?).map_err(|e| unusable_pem(path, &e))?,
        );
    }
    builder = builder.tls_certs_merge(roots);
    if let Some((certificate, key)) = host.client.first() {
        let mut pem = read_pem(certificate)?;
        if let Some(key) = key {
            pem.push(b'\n');
            pem.extend(read_pem(key)?);
        }
        builder = builder
            .identity(reqwest::Identity::from_pem(&pem).map_err(|error| unusable_pem(certificate, &error))?);
    }
    builder.build().map_err(|error| {
        Failure::new(
            PullErrorClass::Unreachable,
            format!("cannot set up TLS: {}", told_chain(&error)),
        )
    })
}

fn read_pem(path: &std::path::Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|error| {
        Failure::new(
            PullErrorClass::Malformed,
            format!("cannot read certificate {}: {error}", path.display()),
        )
    })
}

fn unusable_pem(path: &std::path::Path, error: &reqwest::Error) -> Failure {
    let detail = format!(
        "certificate {} cannot be used: {}",
        path.display(),
        told_chain(error)
    );
    Failure::new(PullErrorClass::Malformed, detail)
}

/// The settings of [`build_client`] in the words of `oci-client`, for token exchange and pushing.
pub(crate) fn client_config(host: &Host) -> Result<ClientConfig, Failure> {
    let mut roots = Vec::new();
    for path in &host.ca {
        let encoding = oci_client::client::CertificateEncoding::Pem;
        roots.push(oci_client::client::Certificate {
            encoding,
            data: read_pem(path)?,
        });
    }
    Ok(ClientConfig {
        protocol: if host.plain_http {
            ClientProtocol::Http
        } else {
            ClientProtocol::Https
        },
        accept_invalid_certificates: host.skip_verify,
        extra_root_certificates: roots,
        read_timeout: Some(READ_TIMEOUT),
        connect_timeout: Some(CONNECT_TIMEOUT),
        user_agent: USER_AGENT,
        ..ClientConfig::default()
    })
}

/// The image as `oci-client` must see it, so that its requests go to this host and below this host's path.
///
/// `oci-client` always asks `<registry>/v2/<repository>`; what a configured path has before `/v2` becomes part of the
/// registry, what it has behind becomes part of the repository.
pub(crate) fn token_reference(host: &Host, image: &Reference) -> oci_client::Reference {
    let (before, behind) = match host.path.split_once("/v2") {
        Some((before, behind)) if behind.is_empty() || behind.starts_with('/') => (before, behind),
        _ => (host.path.as_str(), ""),
    };
    let repository = match behind.trim_matches('/') {
        "" => image.repository().to_owned(),
        prefix => format!("{prefix}/{}", image.repository()),
    };
    let registry = format!("{}{before}", host.authority);
    match image.tag() {
        Some(tag) => oci_client::Reference::with_tag(registry, repository, tag.to_owned()),
        None => oci_client::Reference::with_digest(registry, repository, image.selector().to_owned()),
    }
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

fn is_refusal(status: StatusCode) -> bool {
    status == StatusCode::UNAUTHORIZED || status == StatusCode::FORBIDDEN
}

/// The response if it is a success, else what its status and text say.
async fn accept_response(response: reqwest::Response) -> Result<reqwest::Response, Failure> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let (class, word) = match status {
        StatusCode::NOT_FOUND => (PullErrorClass::NotFound, "not found"),
        StatusCode::UNAUTHORIZED => (PullErrorClass::Unauthorized, "unauthorised"),
        StatusCode::FORBIDDEN => (PullErrorClass::Unauthorized, "access denied"),
        StatusCode::TOO_MANY_REQUESTS => (PullErrorClass::Unreachable, "too many requests"),
        status if status.is_server_error() => (PullErrorClass::Unreachable, "server error"),
        _ => (PullErrorClass::Malformed, "unexpected answer"),
    };
    let mut detail = format!("{word} (HTTP {})", status.as_u16());
    if let Some(text) = error_text(response).await {
        detail.push_str(": ");
        detail.push_str(&text);
    }
    Err(Failure::new(class, detail))
}

/// The messages of a registry's error body, shortened. Bodies of any other form (proxies send HTML) are left out.
async fn error_text(mut response: reqwest::Response) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Body {
        errors: Vec<Entry>,
    }
    #[derive(serde::Deserialize)]
    struct Entry {
        #[serde(default)]
        code: String,
        #[serde(default)]
        message: String,
    }
    let mut body = Vec::new();
    while body.len() < 16 * 1024 {
        match response.chunk().await {
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            _ => break,
        }
    }
    let body: Body = serde_json::from_slice(&body).ok()?;
    let texts = body
        .errors
        .iter()
        .map(|entry| match (entry.message.as_str(), entry.code.as_str()) {
            ("", code) => code.to_owned(),
            (message, _) => message.to_owned(),
        });
    let text: String = texts
        .collect::<Vec<_>>()
        .join(", ")
        .chars()
        .take(MAX_ERROR_TEXT)
        .collect();
    (!text.is_empty()).then_some(text)
}

fn told_digest(response: &reqwest::Response) -> Option<Digest> {
    response
        .headers()
        .get(CONTENT_DIGEST)?
        .to_str()
        .ok()?
        .parse()
        .ok()
}

fn check_length(response: &reqwest::Response, limit: u64) -> Result<(), Failure> {
    match response.content_length() {
        Some(length) if length > limit => Err(too_large(limit)),
        _ => Ok(()),
    }
}

fn too_large(limit: u64) -> Failure {
    Failure::new(
        PullErrorClass::TooLarge,
        format!("larger than the allowed {limit} bytes"),
    )
}

fn mismatch(expected: &Digest, actual: &Digest) -> Failure {
    Failure::new(
        PullErrorClass::DigestMismatch,
        format!("content of {expected} has digest {actual}"),
    )
}

fn transport_failure(error: &reqwest::Error) -> Failure {
    Failure::new(PullErrorClass::Unreachable, told_chain(error))
}

pub(crate) fn registry_failure(error: &oci_client::errors::OciDistributionError) -> Failure {
    use oci_client::errors::OciDistributionError as E;
    let class = match error {
        E::AuthenticationFailure(_) | E::UnauthorizedError { .. } => PullErrorClass::Unauthorized,
        E::ServerError { code: 401 | 403, .. } => PullErrorClass::Unauthorized,
        E::ServerError { code: 404, .. } | E::ImageManifestNotFoundError(_) => PullErrorClass::NotFound,
        E::RequestError(_) | E::IoError(_) | E::ServerError { .. } => PullErrorClass::Unreachable,
        E::RegistryError { envelope, .. } => envelope_class(envelope),
        _ => PullErrorClass::Malformed,
    };
    let detail = match error {
        E::AuthenticationFailure(_) => "the registry's token service refused the credentials".to_owned(),
        error => told_chain(error),
    };
    Failure::new(class, detail)
}

fn envelope_class(envelope: &oci_client::errors::OciEnvelope) -> PullErrorClass {
    use oci_client::errors::OciErrorCode as Code;
    match envelope.errors.first().map(|error| &error.code) {
        Some(Code::Unauthorized | Code::Denied) => PullErrorClass::Unauthorized,
        Some(Code::NotFound | Code::NameUnknown | Code::ManifestUnknown | Code::BlobUnknown) => {
            PullErrorClass::NotFound
        }
        Some(Code::Toomanyrequests) => PullErrorClass::Unreachable,
        _ => PullErrorClass::Malformed,
    }
}

/// An error with its causes in one line. HTTP libraries tell the interesting part ("connection refused") last.
fn told_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.ends_with(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry_config::Capabilities;

    fn host(path: &str) -> Host {
        Host {
            plain_http: false,
            authority: "m:5000".into(),
            path: path.into(),
            capabilities: Capabilities::ALL,
            skip_verify: false,
            ca: Vec::new(),
            client: Vec::new(),
            headers: Default::default(),
            mirror: true,
        }
    }

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

    #[test]
    fn token_reference_splits_the_path_at_the_api_version() {
        let image: Reference = "quay.io/a/b:v1".parse().expect("reference");
        for (path, expected) in [
            ("/v2", "m:5000/a/b:v1"),
            ("/v2/cache", "m:5000/cache/a/b:v1"),
            ("/proxy/v2", "m:5000/proxy/a/b:v1"),
        ] {
            assert_eq!(token_reference(&host(path), &image).to_string(), expected);
        }
    }
}
