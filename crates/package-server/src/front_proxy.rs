//! Users that the API server vouches for: it authenticates a caller, and names the user in headers. Only its
//! certificate proves that a peer is the API server.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use http::HeaderMap;
use olm_runtime::review::User;
use percent_encoding::percent_decode_str;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

/// Namespace of the ConfigMap with the settings for recognising the API server.
pub const CONFIG_NAMESPACE: &str = "kube-system";
/// Name of that ConfigMap.
pub const CONFIG_NAME: &str = "extension-apiserver-authentication";

/// Settings for recognising the API server. The default recognises no peer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FrontProxy {
    /// Authorities that sign its certificate.
    pub authorities: Vec<CertificateDer<'static>>,
    /// Common names that it may have; empty means any.
    allowed_names: Vec<String>,
    name_headers: Vec<String>,
    uid_headers: Vec<String>,
    group_headers: Vec<String>,
    extra_prefixes: Vec<String>,
}

impl FrontProxy {
    /// Reads the values of the ConfigMap. Without authorities no peer is recognised.
    ///
    /// # Errors
    /// A value cannot be parsed.
    pub fn parse(data: &BTreeMap<String, String>) -> Result<Self, String> {
        let list = |key: &'static str| match data.get(key).map(String::as_str) {
            None | Some("") => Ok(Vec::new()),
            Some(text) => serde_json::from_str::<Vec<String>>(text)
                .map_err(|_| format!("{key} is not a JSON list of strings")),
        };
        let authorities = match data.get("requestheader-client-ca-file").map(String::as_str) {
            None | Some("") => Vec::new(),
            Some(pem) => {
                let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
                read.ok()
                    .filter(|read| !read.is_empty())
                    .ok_or("requestheader-client-ca-file has no readable certificate")?
            }
        };
        Ok(Self {
            authorities,
            allowed_names: list("requestheader-allowed-names")?,
            name_headers: list("requestheader-username-headers")?,
            uid_headers: list("requestheader-uid-headers")?,
            group_headers: list("requestheader-group-headers")?,
            extra_prefixes: list("requestheader-extra-headers-prefix")?,
        })
    }

    /// Returns whether a certificate is the API server's by its common name. One of
    /// [`authorities`](Self::authorities) must have signed it.
    pub fn is_proxy(&self, common_name: &str) -> bool {
        self.allowed_names.is_empty() || self.allowed_names.iter().any(|name| name == common_name)
    }

    /// Returns the user in the headers. Call it only for a peer that passed [`is_proxy`](Self::is_proxy).
    pub fn user(&self, headers: &HeaderMap) -> Option<User> {
        let name = self.values(&self.name_headers, headers).next()?;
        if name.is_empty() {
            return None;
        }
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (header, value) in headers {
            let Some(key) = self.extra_key(header.as_str()) else {
                continue;
            };
            if let Some(value) = text(value) {
                extra.entry(key).or_default().push(value);
            }
        }
        Some(User {
            name,
            uid: self.values(&self.uid_headers, headers).next().unwrap_or_default(),
            groups: self.values(&self.group_headers, headers).collect(),
            extra,
        })
    }

    fn values(&self, names: &[String], headers: &HeaderMap) -> impl Iterator<Item = String> {
        // The first configured header that is present counts, with all its values.
        let found = names.iter().find(|name| headers.contains_key(name.as_str()));
        let values = found.into_iter().flat_map(|name| headers.get_all(name.as_str()));
        let values: Vec<String> = values.filter_map(text).collect();
        values.into_iter()
    }

    /// Returns the key after a prefix. Headers cannot hold every character of a key, so it is
    /// percent-encoded.
    fn extra_key(&self, header: &str) -> Option<String> {
        let mut prefixes = self.extra_prefixes.iter();
        let key = prefixes.find_map(|prefix| header.strip_prefix(&prefix.to_ascii_lowercase()))?;
        let decoded = percent_decode_str(key).decode_utf8();
        Some(decoded.map_or_else(|_| key.to_owned(), Cow::into_owned))
    }
}

fn text(value: &http::HeaderValue) -> Option<String> {
    String::from_utf8(value.as_bytes().to_vec()).ok()
}

/// The current settings; `None` until the ConfigMap was read.
pub type FrontProxyConfig = Option<Arc<FrontProxy>>;

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn config() -> FrontProxy {
        let data = [
            ("requestheader-allowed-names", r#"["front-proxy-client"]"#),
            ("requestheader-extra-headers-prefix", r#"["X-Remote-Extra-"]"#),
            ("requestheader-group-headers", r#"["X-Remote-Group"]"#),
            ("requestheader-username-headers", r#"["X-Remote-User"]"#),
            ("requestheader-uid-headers", r#"["X-Remote-Uid"]"#),
        ];
        let data = data.map(|(key, value)| (key.to_owned(), value.to_owned()));
        FrontProxy::parse(&data.into()).unwrap()
    }

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn the_headers_name_the_user() {
        let user = config().user(&headers(&[
            ("x-remote-user", "ada"),
            ("x-remote-uid", "7"),
            ("x-remote-group", "a"),
            ("x-remote-group", "b"),
            ("x-remote-extra-scopes", "x"),
            ("x-remote-extra-authentication.kubernetes.io%2fpod-name", "p"),
        ]));
        let user = user.unwrap().authenticated();
        assert_eq!(user.name, "ada");
        assert_eq!(user.uid, "7");
        assert_eq!(user.groups, ["a", "b", "system:authenticated"]);
        assert_eq!(user.extra["scopes"], ["x"]);
        assert_eq!(user.extra["authentication.kubernetes.io/pod-name"], ["p"]);
    }

    #[test]
    fn nobody_is_named_without_the_header() {
        assert_eq!(
            config().user(&headers(&[("x-remote-group", "system:masters")])),
            None
        );
        assert_eq!(config().user(&headers(&[("x-remote-user", "")])), None);
    }

    #[test]
    fn only_the_names_that_are_allowed_vouch() {
        assert!(config().is_proxy("front-proxy-client"));
        assert!(!config().is_proxy("eve"));
        assert!(!config().is_proxy(""));
        let any = FrontProxy::default();
        assert!(any.is_proxy("whoever the authority signed"));
    }

    #[test]
    fn a_broken_config_is_reported() {
        let parse = |key: &str, value: &str| {
            FrontProxy::parse(&BTreeMap::from([(key.to_owned(), value.to_owned())])).unwrap_err()
        };
        assert_eq!(
            parse("requestheader-allowed-names", "x"),
            "requestheader-allowed-names is not a JSON list of strings"
        );
        assert_eq!(
            parse("requestheader-client-ca-file", "no certificate"),
            "requestheader-client-ca-file has no readable certificate"
        );
        assert_eq!(FrontProxy::parse(&BTreeMap::new()), Ok(FrontProxy::default()));
    }
}
