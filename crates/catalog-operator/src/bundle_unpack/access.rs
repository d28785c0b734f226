//! Grants: which credentials have shown that they may pull an image.
//!
//! Pulled content stays on disk, so that it is not pulled twice. Its presence grants no access. It is only
//! returned for credentials that have pulled it themselves, or that have been shown the image's manifest, a
//! short time ago.

use std::collections::BTreeMap;
use std::time::Duration;

use olm_oci::{Credentials, Digest};
use olm_runtime::sync::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

/// Time for which a registry's grant counts without another request.
pub(crate) const FRESH: Duration = Duration::from_secs(600);
/// Time for which it counts while the registry does not respond.
pub(crate) const KNOWN: Duration = Duration::from_secs(24 * 3600);
/// Credentials and the identity of their owner, for comparisons.
#[derive(Clone, Default)]
pub(crate) struct Keys {
    /// Credentials to send to registries.
    pub credentials: Credentials,
    identity: Vec<Identity>,
}

/// Hash of one pull secret: equal secrets have equal access.
type Identity = [u8; 32];

impl Keys {
    /// Adds the credentials in a pull secret; `text` is its data.
    pub(crate) fn add(&mut self, credentials: Credentials, text: &[u8]) {
        self.credentials.merge(credentials);
        self.identity.push(Sha256::digest(text).into());
    }

    /// Adds other credentials; if both match equally well, the existing ones are tried first.
    pub(crate) fn merge(&mut self, other: Self) {
        self.credentials.merge(other.credentials);
        self.identity.extend(other.identity);
    }

    /// True when there is no pull secret, so that only public images can be pulled.
    pub(crate) fn is_empty(&self) -> bool {
        self.identity.is_empty()
    }
}

/// Grants by registries.
#[derive(Default)]
pub(crate) struct PullGrants {
    /// Time when the image with this digest was last shown for these secrets of this namespace.
    given: Mutex<BTreeMap<PullGrant, Instant>>,
}

type PullGrant = (String, String, Vec<Identity>);

fn consent(digest: &Digest, namespace: &str, keys: &Keys) -> PullGrant {
    (digest.to_string(), namespace.to_owned(), keys.identity.clone())
}

impl PullGrants {
    /// Records that a registry has just shown the image with this digest.
    pub(crate) fn note(&self, digest: &Digest, namespace: &str, keys: &Keys) {
        let now = Instant::now();
        let mut given = self.given.lock();
        given.retain(|_, at| now.saturating_duration_since(*at) < KNOWN);
        given.insert(consent(digest, namespace, keys), now);
    }

    /// Records that a registry refuses the image.
    pub(crate) fn withdraw(&self, digest: &Digest, namespace: &str, keys: &Keys) {
        let mut given = self.given.lock();
        given.remove(&consent(digest, namespace, keys));
    }

    /// True when the image was shown for these secrets within `age`.
    pub(crate) fn was_given(&self, digest: &Digest, namespace: &str, keys: &Keys, age: Duration) -> bool {
        let given = self.given.lock();
        given
            .get(&consent(digest, namespace, keys))
            .is_some_and(|at| at.elapsed() < age)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl PullGrants {
        /// Makes every grant older, for tests in which the clock advances by itself.
        pub fn age(&self, by: Duration) {
            let mut given = self.given.lock();
            given
                .values_mut()
                .for_each(|at| *at = at.checked_sub(by).unwrap());
        }
    }

    fn keys(secrets: &[&str]) -> Keys {
        let mut keys = Keys::default();
        for secret in secrets {
            keys.add(Credentials::anonymous(), secret.as_bytes());
        }
        keys
    }

    #[tokio::test(start_paused = true)]
    async fn a_consent_is_for_one_image_namespace_and_set_of_secrets_and_for_a_time() {
        let consents = PullGrants::default();
        let (one, other) = (Digest::sha256(b"1"), Digest::sha256(b"2"));
        consents.note(&one, "a", &keys(&["s"]));
        assert!(consents.was_given(&one, "a", &keys(&["s"]), FRESH));
        assert!(!consents.was_given(&other, "a", &keys(&["s"]), KNOWN));
        assert!(!consents.was_given(&one, "b", &keys(&["s"]), KNOWN));
        assert!(!consents.was_given(&one, "a", &keys(&[]), KNOWN));
        assert!(!consents.was_given(&one, "a", &keys(&["s", "t"]), KNOWN));
        tokio::time::advance(FRESH).await;
        assert!(!consents.was_given(&one, "a", &keys(&["s"]), FRESH));
        assert!(consents.was_given(&one, "a", &keys(&["s"]), KNOWN));
        consents.withdraw(&one, "a", &keys(&["s"]));
        assert!(!consents.was_given(&one, "a", &keys(&["s"]), KNOWN));
    }
}
