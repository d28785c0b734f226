//! Reads packages from the server of a ClusterCatalog's content.

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use olm_api::condition::{TRUE, cluster_catalog as of_catalog};
use olm_api::extension_v1::ClusterCatalog;
use olm_fbc::schema::schemas;
use olm_oci::{certificate_files, install_tls_provider};
use olm_runtime::error::with_causes;
use olm_runtime::isolation;
use reqwest::{Certificate, Client, StatusCode, Url};

use crate::resolve::PackageContent;

/// Time for a connection to the server.
const CONNECT_TIME: Duration = Duration::from_secs(5);
/// Time for a whole answer.
const ANSWER_TIME: Duration = Duration::from_secs(60);
/// Maximum bytes of an answer. The catalog with the most content that is known has 103 MB.
const ANSWER_BYTES: usize = 256 << 20;

/// Where the contents of ClusterCatalogs come from.
#[async_trait]
pub trait CatalogContents: Send + Sync {
    /// Returns a package of the catalog whose content is served at `base`; `None` if the catalog does not have it.
    ///
    /// # Errors
    /// The server does not answer, or the content cannot be read.
    async fn package(&self, base: &str, package: &str) -> Result<Option<PackageContent>, String>;
}

/// Reads contents over HTTP.
pub struct ServedContents {
    /// Folder with certificates of the authorities that sign those of servers, besides those of the system.
    pub authorities: Option<PathBuf>,
}

impl ServedContents {
    /// Returns a client that trusts the authorities that are in the folder now.
    fn client(&self) -> Result<Client, String> {
        install_tls_provider();
        let mut roots = Vec::new();
        for path in certificate_files(self.authorities.as_deref())? {
            let unread = |error: &dyn std::fmt::Display| format!("cannot use {}: {error}", path.display());
            let pem = std::fs::read(&path).map_err(|error| unread(&error))?;
            roots.extend(Certificate::from_pem_bundle(&pem).map_err(|error| unread(&error))?);
        }
        Client::builder()
            .connect_timeout(CONNECT_TIME)
            .timeout(ANSWER_TIME)
            .tls_certs_merge(roots)
            .build()
            .map_err(|error| format!("cannot set up TLS: {}", with_causes(&error)))
    }
}

#[async_trait]
impl CatalogContents for ServedContents {
    async fn package(&self, base: &str, package: &str) -> Result<Option<PackageContent>, String> {
        let client = self.client()?;
        let metas = format!("{base}/api/v1/metas");
        let of_package = [("schema", schemas::PACKAGE), ("name", package)];
        let bytes = match get(&client, &metas, &of_package).await? {
            Some(mut bytes) => {
                // The other documents name the package in a field of their own.
                let others = get(&client, &metas, &[("package", package)]).await?;
                bytes.extend(others.ok_or_else(|| not_found(&metas))?);
                bytes
            }
            // Upstream's server has this address only if a feature is on.
            None => {
                let all = format!("{base}/api/v1/all");
                get(&client, &all, &[]).await?.ok_or_else(|| not_found(&all))?
            }
        };
        let package = package.to_owned();
        let read = isolation::blocking(move || {
            let content = PackageContent::read(&bytes, &package)?;
            Ok(content.map(PackageContent::without_unused_properties))
        });
        read.await.map_err(|panicked| panicked.to_string())?
    }
}

/// Returns the URL of a catalog's content, and its digest; `None` if it is not served.
pub fn served(catalog: &ClusterCatalog) -> Option<(&str, &str)> {
    let status = catalog.status.as_ref()?;
    let serving = catalog.condition(of_catalog::SERVING);
    let is_served = serving.is_some_and(|serving| serving.status == TRUE);
    let base = &status.urls.as_ref()?.base;
    let digest = &status.resolved_source.as_ref()?.image.reference;
    is_served.then_some((base.as_str(), digest.as_str()))
}

/// True if the catalog has failed before it served anything. So it has no package that could be missed.
pub fn never_had_content(catalog: &ClusterCatalog) -> bool {
    let progressing = catalog.condition(of_catalog::PROGRESSING);
    let has_failed = progressing
        .is_some_and(|found| [of_catalog::RETRYING, of_catalog::BLOCKED].contains(&found.reason.as_str()));
    has_failed && catalog.condition(of_catalog::SERVING).is_none()
}

fn not_found(url: &str) -> String {
    format!("error fetching catalog contents: GET {url}: 404 Not Found")
}

/// Returns the error of a request without an answer. A proxy that cannot be used is named as by Go, and so by upstream.
fn unanswered(error: &str) -> String {
    error.replace("tunnel error: ", "proxyconnect tcp: ")
}

/// Returns the body of an answer; `None` if the server does not know the address.
async fn get(client: &Client, url: &str, query: &[(&str, &str)]) -> Result<Option<Vec<u8>>, String> {
    let failed =
        |error: &dyn std::fmt::Display| format!("error fetching catalog contents: GET {url}: {error}");
    let address = Url::parse_with_params(url, query).map_err(|error| failed(&error))?;
    let sent = client.get(address).send().await;
    let mut response = sent.map_err(|error| failed(&unanswered(&with_causes(&error.without_url()))))?;
    match response.status() {
        StatusCode::OK => {}
        StatusCode::NOT_FOUND => return Ok(None),
        status => return Err(failed(&status)),
    }
    let mut bytes = Vec::new();
    loop {
        let chunk = response.chunk().await;
        let Some(chunk) = chunk.map_err(|error| failed(&with_causes(&error.without_url())))? else {
            return Ok(Some(bytes));
        };
        bytes.extend_from_slice(&chunk);
        if bytes.len() > ANSWER_BYTES {
            return Err(failed(&format!("the answer has more than {ANSWER_BYTES} bytes")));
        }
    }
}

#[cfg(test)]
mod tests {
    use reqwest::Proxy;

    use super::*;

    /// Nothing listens on port 1.
    #[tokio::test]
    async fn a_proxy_that_does_not_answer_is_named_as_upstream_names_it() {
        install_tls_provider();
        let proxy = Proxy::https("http://127.0.0.1:1").unwrap();
        let builder = Client::builder().proxy(proxy).tls_certs_only([]);
        let client = builder.build().unwrap();
        let error = get(&client, "https://catalogd.example.com/api/v1/all", &[]).await;
        let error = error.unwrap_err();
        assert!(error.contains("proxyconnect tcp: "), "{error}");
    }
}
