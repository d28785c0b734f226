//! Connection, reader and snapshots together, against the real registry server.

use std::sync::Arc;
use std::time::Duration;

use olm_registry::{cache, server};
use olm_runtime::NamespacedName;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use super::*;
use crate::catalog_source::connection::testing;
use crate::catalog_source::connection::{ConnectionState, Connections, Endpoint};
use crate::snapshots::{Content, ContentState, Snapshots};

fn catalog(versions: &[&str]) -> String {
    let mut text = "schema: olm.package\nname: demo\ndefaultChannel: stable\n---\nschema: olm.channel\npackage: demo\nname: stable\nentries:\n".to_owned();
    for (index, version) in versions.iter().enumerate() {
        text.push_str(&format!("- name: demo.v{version}\n"));
        if index > 0 {
            text.push_str(&format!("  replaces: demo.v{}\n", versions[index - 1]));
        }
    }
    for version in versions {
        text.push_str(&format!(
            "---\nschema: olm.bundle\npackage: demo\nname: demo.v{version}\nimage: quay.io/x/demo:v{version}\nproperties:\n\
             - type: olm.package\n  value:\n    packageName: demo\n    version: {version}\n\
             - type: olm.gvk\n  value: {{group: example.com, version: v1, kind: Demo}}\n"
        ));
    }
    text.push_str("---\nschema: olm.deprecations\npackage: demo\nentries:\n- reference: {schema: olm.bundle, name: demo.v1.0.0}\n  message: take 1.1\n");
    text
}

/// Serves until the sender is dropped.
fn serve(listener: TcpListener, versions: &[&str]) -> (oneshot::Sender<()>, tokio::task::JoinHandle<()>) {
    serve_text(listener, &catalog(versions))
}

fn serve_text(listener: TcpListener, catalog: &str) -> (oneshot::Sender<()>, tokio::task::JoinHandle<()>) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("catalog.yaml"), catalog).unwrap();
    let index = Arc::new(cache::open_temporary(folder.path(), None).unwrap());
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(async move {
        let ended = async {
            let _ = stopped.await;
        };
        server::serve(index, listener, ended).await.unwrap();
    });
    (stop, task)
}

struct Rig {
    key: NamespacedName,
    port: u16,
    connections: Connections,
    snapshots: Snapshots,
}

impl Rig {
    fn new(port: u16) -> Self {
        let connections = Connections::new(|_: &NamespacedName| {});
        let snapshots = Snapshots::new(
            connections.clone(),
            Arc::new(GrpcCatalogReader),
            "olm",
            |_: &str| {},
        );
        Self {
            key: NamespacedName::new("ns", "cat"),
            port,
            connections,
            snapshots,
        }
    }

    fn state(&self) -> ConnectionState {
        let endpoint = Endpoint {
            address: format!("cat.ns.svc:{}", self.port),
            dial: format!("127.0.0.1:{}", self.port),
            epoch: "1".to_owned(),
            may_change: false,
        };
        self.connections.set_endpoint(&self.key, Some(endpoint))
    }

    async fn read(&self, unlike: Option<&Content>) -> (Content, Vec<String>) {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let (state, known) = (self.state(), self.snapshots.get(&self.key, "ns"));
            assert!(Instant::now() < deadline, "{state:?} {known:?}");
            if let ContentState::Known(content) = known
                && Some(&content) != unlike
            {
                let mut names: Vec<String> = content
                    .snapshot
                    .entries()
                    .iter()
                    .map(|entry| entry.name.to_string())
                    .collect();
                names.sort();
                return (content, names);
            }
            sleep(Duration::from_millis(5)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_served_catalog_is_connected_read_and_read_again_when_it_comes_back_changed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (stop, task) = serve(listener, &["1.0.0", "1.1.0"]);
    let rig = Rig::new(port);
    let (first, names) = rig.read(None).await;
    assert_eq!(names, ["demo.v1.0.0", "demo.v1.1.0"]);
    let oldest = first
        .snapshot
        .entries()
        .iter()
        .find(|entry| *entry.name == *"demo.v1.0.0")
        .unwrap();
    assert_eq!(
        oldest.deprecation.as_ref().unwrap().bundle.as_deref(),
        Some("take 1.1")
    );
    assert_eq!(oldest.bundle_path.as_deref(), Some("quay.io/x/demo:v1.0.0"));
    assert!(oldest.default_channel);

    drop(stop);
    task.await.unwrap();
    let deadline = Instant::now() + Duration::from_secs(5);
    while matches!(rig.state(), ConnectionState::Ready(_)) {
        assert!(Instant::now() < deadline, "the end of the server goes unnoticed");
        sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(rig.read(None).await.0, first, "the last good content stands");

    let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
    let (_stop, _task) = serve(listener, &["1.0.0", "1.1.0", "1.2.0"]);
    let (_, names) = rig.read(Some(&first)).await;
    assert_eq!(names, ["demo.v1.0.0", "demo.v1.1.0", "demo.v1.2.0"]);
}

/// The limits of memory use this count.
#[tokio::test(flavor = "multi_thread")]
async fn the_message_of_a_deprecation_counts_as_memory_too() {
    let message = format!("take 1.1{}", "x".repeat(100_000));
    let text = catalog(&["1.0.0"]).replace("take 1.1", &message);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let rig = Rig::new(listener.local_addr().unwrap().port());
    let (_stop, _task) = serve_text(listener, &text);
    rig.read(None).await;
    let bytes = rig.snapshots.total_bytes();
    assert!(bytes > message.len(), "{bytes}");
}

/// A gRPC server that is no registry: the connection succeeds, and its response is reported.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_registry_cannot_be_read() {
    let (_server, port) = testing::answer_anywhere().await;
    let rig = Rig::new(port);
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let state = rig.state();
        let known = rig.snapshots.get(&rig.key, "ns");
        if let ContentState::Failed(text) = &known {
            assert!(text.starts_with("failed to list bundles"), "{text}");
            return;
        }
        assert!(Instant::now() < deadline, "{known:?} {state:?}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// Of manifests in the catalog a hash is kept; what the server sends when they are needed has that hash.
#[tokio::test(flavor = "multi_thread")]
async fn manifests_in_the_catalog_are_fetched_when_they_are_needed() {
    let csv = r#"{"apiVersion":"operators.coreos.com/v1alpha1","kind":"ClusterServiceVersion","metadata":{"name":"demo.v1.0.0"}}"#;
    let data = olm_fbc::base64::encode(csv);
    let inline = format!("properties:\n- type: olm.bundle.object\n  value: {{data: {data}}}\n");
    let text = catalog(&["1.0.0"])
        .replace("image: quay.io/x/demo:v1.0.0\n", "")
        .replace("properties:\n", &inline);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let rig = Rig::new(listener.local_addr().unwrap().port());
    let (_stop, _task) = serve_text(listener, &text);
    let (content, _) = rig.read(None).await;
    let entry = &content.snapshot.entries()[0];
    assert_eq!(entry.bundle_path, None);
    let bundle = InlineBundle {
        package: "demo".to_owned(),
        channel: "stable".to_owned(),
        name: "demo.v1.0.0".to_owned(),
        digest: *entry.inline.as_deref().unwrap(),
    };
    let objects = rig.snapshots.manifests(&rig.key, &bundle).await.unwrap();
    assert_eq!(objects, [csv]);
    let missing = InlineBundle {
        name: "demo.v2.0.0".to_owned(),
        ..bundle
    };
    let error = rig.snapshots.manifests(&rig.key, &missing).await.unwrap_err();
    assert!(
        error.starts_with("cannot read demo.v2.0.0 from catalog ns/cat: "),
        "{error}"
    );
}
