//! Access to content on disk: two catalogs, one of them with a secret, and a registry that requires
//! credentials.

#[allow(dead_code, clippy::all, reason = "the helpers of another crate's tests")]
#[path = "../../../../../olm-oci/tests/support/mod.rs"]
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use kube::client::Body;
use olm_oci::{ImageArchive, ImageSpec, LayerSpec, RunConfig};
use serde_json::{Value, json};

use self::support::{Answer, Server};
use super::super::*;

const CSV: &str =
    "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata: {name: a.v1}\n";

/// An API server with one pull secret in each namespace, and a ServiceAccount `by-account` that names it.
fn client(secret: &Value) -> Client {
    let secret = secret.to_string();
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let path = request.uri().path();
        let (status, text) = if path.ends_with("/secrets/pull") {
            (200, secret.clone())
        } else if path.ends_with("/serviceaccounts/by-account") {
            let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "by-account"},
                "imagePullSecrets": [{"name": "pull"}]});
            (200, account.to_string())
        } else {
            let gone = json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404, "message": "gone"});
            (404, gone.to_string())
        };
        let response = http::Response::builder()
            .status(status)
            .body(Body::from(text.into_bytes()));
        async move { response }
    });
    Client::new(service, "default")
}

fn catalog(namespace: &str, name: &str, secrets: &Value) -> CatalogSource {
    serde_json::from_value(json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": {"name": name, "namespace": namespace, "uid": format!("{namespace}-{name}"), "resourceVersion": "1"},
        "spec": {"sourceType": "grpc", "image": "i", "secrets": secrets},
    }))
    .unwrap()
}

fn image() -> ImageArchive {
    let mut layer = LayerSpec::new();
    layer.file("manifests/csv.yaml", CSV, 0o644, 0).unwrap();
    ImageSpec {
        base: None,
        layers: vec![layer],
        config: RunConfig::default(),
    }
    .build()
    .unwrap()
}

struct Rig {
    source: ImageBundleSource,
    registry: Server,
    /// Status code that the registry returns instead; 0 for none.
    refusing: Arc<AtomicU16>,
    pinned: String,
    store: Arc<BundleStore>,
}

impl Rig {
    /// Creates two catalogs in `ns`, one with a secret, and one with the secret in `other`.
    async fn new() -> Self {
        let image = image();
        let served = Server::registry_script("team/a", &image);
        let refusing = Arc::new(AtomicU16::new(0));
        let told = Arc::clone(&refusing);
        let expected = format!("Basic {}", olm_fbc::base64::encode("user:password"));
        let registry = Server::start(move |seen| match told.load(Ordering::SeqCst) {
            0 if seen.authorization == expected => served(seen),
            0 => Answer::status(401).header("www-authenticate", "Basic realm=\"test\""),
            status => Answer::status(status),
        })
        .await;
        let auths =
            json!({"auths": {registry.address.to_string(): {"username": "user", "password": "password"}}});
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pull"},
            "data": {".dockerconfigjson": olm_fbc::base64::encode(auths.to_string())}});
        let catalogs = Store::new();
        catalogs.put(catalog("ns", "private", &json!(["pull"])));
        catalogs.put(catalog("ns", "public", &json!([])));
        catalogs.put(catalog("ns", "by-account", &json!([])));
        catalogs.put(catalog("other", "private", &json!(["pull"])));
        let store = Arc::new(BundleStore::new(None));
        let source = ImageBundleSource::new(
            client(&secret),
            catalogs,
            RegistryConfig::default(),
            None,
            Arc::clone(&store),
        );
        let pinned = format!("{}/team/a@{}", registry.address, image.digest().as_str());
        Self {
            source,
            registry,
            refusing,
            pinned,
            store,
        }
    }

    /// Returns `Ok`, or the class of the failure, and the number of requests to the registry for blobs.
    async fn fetch(&self, namespace: &str, name: &str) -> (Result<(), UnpackClass>, usize) {
        let before = self.registry.seen().len();
        let catalog = NamespacedName::new(namespace, name);
        let fetched = self.source.fetch(&self.pinned, &catalog).await;
        if let Ok(bundle) = &fetched {
            self.store.put(namespace, bundle, true).unwrap();
        }
        let seen = self.registry.seen();
        let blobs = seen[before..]
            .iter()
            .filter(|seen| !seen.authorization.is_empty() && seen.path.contains("/blobs/"));
        (fetched.map(drop).map_err(|error| error.class), blobs.count())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn private_content_on_disk_is_not_for_a_catalog_without_the_secret() {
    let rig = Rig::new().await;
    let (fetched, pulled) = rig.fetch("ns", "private").await;
    assert_eq!(fetched, Ok(()));
    // It is on disk now, and only its layers are not pulled again.
    let again = async || {
        let (fetched, blobs) = rig.fetch("ns", "private").await;
        assert_eq!(fetched, Ok(()));
        assert!(blobs < pulled, "{blobs} {pulled}");
    };
    again().await;
    assert_eq!(rig.fetch("ns", "public").await.0, Err(UnpackClass::Unauthorized));
    assert_eq!(rig.fetch("ns", "gone").await.0, Err(UnpackClass::Unauthorized));
    again().await;
    // Another namespace pulls for itself, although it has the same password.
    let (fetched, blobs) = rig.fetch("other", "private").await;
    assert_eq!(fetched, Ok(()));
    assert!(blobs > 0);
}

/// One catalog has access with its own secrets, and one with those of its ServiceAccount.
#[tokio::test(flavor = "multi_thread")]
async fn content_on_disk_is_returned_only_after_an_answer_of_the_registry() {
    for name in ["private", "by-account"] {
        let rig = Rig::new().await;
        for (status, expected) in [
            (0, Ok(())),
            (503, Err(UnpackClass::Unreachable)),
            (403, Err(UnpackClass::Unauthorized)),
            (0, Ok(())),
        ] {
            rig.refusing.store(status, Ordering::SeqCst);
            assert_eq!(rig.fetch("ns", name).await.0, expected, "{name} {status}");
        }
    }
}
