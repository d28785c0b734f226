//! Credentials for registries: a global pull secret, and the pull secrets of this process's own ServiceAccount.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use olm_oci::{Credentials, CredentialsError};
use olm_runtime::error::{ObserveError, with_causes};
use olm_runtime::{NamespacedName, pull_secrets};
use serde_json::Value;

/// Reads pull secrets at each pull.
#[derive(Clone)]
pub struct PullSecrets {
    client: Client,
    global: Option<NamespacedName>,
    account: Option<NamespacedName>,
}

impl PullSecrets {
    /// Reads the secret `global` and those of `account`.
    pub fn new(client: Client, global: Option<NamespacedName>, account: Option<NamespacedName>) -> Self {
        Self {
            client,
            global,
            account,
        }
    }

    /// Returns the credentials in all secrets. Secrets that do not exist are skipped, as kubelets do.
    ///
    /// # Errors
    /// The API server does not answer, or a secret is malformed; the text names the object.
    pub async fn credentials(&self) -> Result<Credentials, String> {
        let unread = |error: ObserveError| with_causes(&error);
        let mut secrets: Vec<NamespacedName> = self.global.iter().cloned().collect();
        if let Some(account) = &self.account {
            let named = pull_secrets::of_account(&self.client, account).await;
            secrets.extend(named.map_err(unread)?);
        }
        let mut credentials = Credentials::anonymous();
        for (key, secret) in pull_secrets::read(&self.client, secrets).await.map_err(unread)? {
            let read = read_secret(&secret, &format!("Secret {key}"));
            credentials.merge(read.map_err(|error| error.to_string())?);
        }
        Ok(credentials)
    }
}

/// Returns the credentials in a pull secret of either type; none in other secrets.
fn read_secret(secret: &Secret, origin: &str) -> Result<Credentials, CredentialsError> {
    let data = |key: &str| Some(secret.data.as_ref()?.get(key)?.0.as_slice());
    Credentials::from_secret(data, origin)
}

/// Returns the ServiceAccount that a token of Kubernetes belongs to. The token is our own, so its signature does not matter.
pub(super) fn account_of(token: &str) -> Option<NamespacedName> {
    let claims = token.split('.').nth(1)?;
    let claims = URL_SAFE_NO_PAD.decode(claims.trim_end_matches('=')).ok()?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    let mut parts = claims["sub"].as_str()?.split(':');
    let names = match (
        parts.next(),
        parts.next(),
        parts.next(),
        parts.next(),
        parts.next(),
    ) {
        (Some("system"), Some("serviceaccount"), Some(namespace), Some(name), None) => [namespace, name],
        _ => return None,
    };
    let [namespace, name] = names;
    (!namespace.is_empty() && !name.is_empty()).then(|| NamespacedName::new(namespace, name))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

    use super::*;

    #[test]
    fn the_account_of_a_token_is_its_subject() {
        let token = |claims: &str| format!("e30.{}.sig", URL_SAFE_NO_PAD.encode(claims));
        let of = |claims: &str| account_of(&token(claims)).map(|key| key.to_string());
        assert_eq!(
            of(r#"{"sub":"system:serviceaccount:olmv1-system:catalogd"}"#).as_deref(),
            Some("olmv1-system/catalogd")
        );
        for claims in [
            r#"{"sub":"system:node:a"}"#,
            r#"{"sub":"system:serviceaccount:a:b:c"}"#,
            r#"{"sub":"system:serviceaccount::b"}"#,
            r#"{"sub":1}"#,
            "[",
        ] {
            assert_eq!(of(claims), None, "{claims}");
        }
        for token in ["", "a", "a.%.c"] {
            assert_eq!(account_of(token), None, "{token}");
        }
    }

    #[test]
    fn both_types_of_pull_secret_are_read_and_errors_show_none_of_it() {
        let secret = |key: &str, text: &str| Secret {
            data: Some([(key.to_owned(), ByteString(text.as_bytes().to_vec()))].into()),
            ..Secret::default()
        };
        let auth = r#"{"quay.io": {"username": "u", "password": "p"}}"#;
        let config = format!("{{\"auths\": {auth}}}");
        for (key, text, expected) in [
            (".dockerconfigjson", config.as_str(), 1),
            (".dockercfg", auth, 1),
            ("other", "x", 0),
        ] {
            let credentials = read_secret(&secret(key, text), "Secret a/b").unwrap();
            assert_eq!(
                credentials.for_repository("quay.io", "a/b").len(),
                expected,
                "{key}"
            );
        }
        let broken = secret(".dockerconfigjson", "{\"auths\": hunter2}");
        let error = read_secret(&broken, "Secret a/b").unwrap_err().to_string();
        assert!(
            error.contains("Secret a/b") && !error.contains("hunter2"),
            "{error}"
        );
    }
}
