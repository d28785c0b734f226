mod redact;

use std::io::Read as _;
use std::time::Duration;

use olm_api::labels;
use olm_testing::cluster::{FakeCluster, Fault, Kind, Refusal};
use serde_json::{Value, json};

use self::redact::{SECRET, SECRET_START, object_with_secrets};
use super::*;
use crate::commands::doctor::tests::{cluster, own};
use crate::global::OlmNamespaces;
use crate::operators::tests::plan;

/// Returns the parts of a packed bundle by name.
fn unpacked(bytes: &[u8]) -> Vec<(String, String)> {
    let mut tar = tar::Archive::new(flate2::read::GzDecoder::new(bytes));
    let parts = tar.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        assert_eq!(entry.header().mode().unwrap(), 0o600);
        let path = entry.path().unwrap().to_string_lossy().into_owned();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        (path, text)
    });
    parts.collect()
}

async fn bundle_of(
    cluster: &FakeCluster,
    namespace: Option<&str>,
) -> (Archive, Vec<(String, String)>, String) {
    bundle_with(cluster, namespace, &own("olm"), true).await
}

async fn bundle_with(
    cluster: &FakeCluster,
    namespace: Option<&str>,
    own: &OlmNamespaces,
    with_logs: bool,
) -> (Archive, Vec<(String, String)>, String) {
    let (client, _link) = cluster.connect();
    let reader = Reader::new(&client, Duration::from_secs(300));
    let mut archive = Archive::default();
    Box::pin(collect(&reader, namespace, own, with_logs, &mut archive)).await;
    let summary = archive.finish().unwrap();
    let parts = unpacked(&archive.packed().unwrap());
    (archive, parts, summary)
}

fn part<'a>(parts: &'a [(String, String)], name: &str) -> &'a str {
    let path = format!("olm-support-bundle/{name}");
    let found = parts.iter().find(|(known, _)| *known == path);
    &found
        .unwrap_or_else(|| {
            panic!(
                "{name}: {:?}",
                parts.iter().map(|(name, _)| name).collect::<Vec<_>>()
            )
        })
        .1
}

/// Returns a pod of an OLM program. The in-memory cluster returns the pod when its log is requested.
fn pod(namespace: &str, name: &str, app: &str, said: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": namespace, "name": name, "labels": {"app": app},
        "annotations": {"said": said}}, "spec": {"containers": [{"name": app, "image": "i"}]}, "status": {"phase": "Running"}})
}

/// Returns a Deployment with the label of an OLM program.
fn program(namespace: &str, name: &str, app: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": namespace, "name": name, "labels": {"app": app}},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": app}}, "template": {}}, "status": {"availableReplicas": 1}})
}

#[tokio::test(start_paused = true)]
async fn a_bundle_has_what_a_maintainer_needs_and_asks_for_no_secret() {
    let cluster = cluster();
    cluster.put(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "shop", "name": "s"}, "stringData": {"any": SECRET}}));
    let mut waits = plan("install-1", "RequiresApproval", false);
    waits["status"]["plan"] = object_with_secrets()["status"]["plan"].clone();
    cluster.put(waits);
    let status = json!({"status": {"connectionState": {"lastObservedState": "TRANSIENT_FAILURE"}}});
    assert!(cluster.edit("CatalogSource", "olm", "cat", &status));
    cluster.put(program("olm", "catalog-operator", "catalog-operator"));
    cluster.put(pod(
        "olm",
        "catalog-operator-1",
        "catalog-operator",
        "said\u{202e} next",
    ));
    cluster.put(json!({"apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"namespace": "olm", "name": "unpack", "labels": {labels::BUNDLE_UNPACK_REF: "unpack"}}}));
    for namespace in [None, Some("shop")] {
        drop(cluster.take_log());
        let (archive, parts, _) = bundle_of(&cluster, namespace).await;
        let log = cluster.log();
        assert!(
            !log.counts.keys().any(|(_, kind)| kind == "Secret"),
            "{:?}",
            log.counts
        );
        assert!(log.writes.is_empty(), "{:?}", log.writes);
        let text: Vec<&str> = parts.iter().map(|(_, text)| text.as_str()).collect();
        let text = text.join("\n");
        for hidden in [SECRET_START, "\u{202e}"] {
            assert!(!text.contains(hidden), "{hidden:?}: {text}");
        }
        assert_eq!(archive.no_answer(), None);
        let manifest: Value = serde_json::from_str(part(&parts, "manifest.json")).unwrap();
        // The in-memory cluster does not serve Events; a kind that a cluster does not have is not missing.
        assert_eq!(manifest["notRead"], json!([]));
        assert!(
            manifest["note"]
                .as_str()
                .is_some_and(|note| note.contains("Secrets are not read")),
            "{manifest}"
        );
        for (name, expected) in [
            ("objects/catalogsources.json", "\"cat\""),
            ("objects/subscriptions.json", "\"db\""),
            ("objects/installplans.json", "\"install-1\""),
            ("objects/clusterserviceversions.json", "\"etcd.v1.0.0\""),
            ("objects/operatorgroups.json", "\"og\""),
            ("objects/jobs.json", "\"unpack\""),
            ("objects/deployments.json", "\"catalog-operator\""),
            ("objects/pods.json", "\"catalog-operator-1\""),
            (
                "logs/olm/catalog-operator-1/catalog-operator.log",
                "said\\u{202e} next",
            ),
            ("doctor.txt", "CatalogSource olm/cat: it is TRANSIENT_FAILURE"),
            ("doctor.json", "\"severity\""),
            ("status.txt", "Subscription shop/db"),
            ("versions.json", "\"kubernetes\": \"v"),
        ] {
            assert!(
                part(&parts, name).contains(expected),
                "{name}: {}",
                part(&parts, name)
            );
        }
        assert!(!part(&parts, "objects/clusterserviceversions.json").contains("\"other\""));
    }
}

#[tokio::test(start_paused = true)]
async fn logs_are_read_only_on_request() {
    let cluster = cluster();
    cluster.put(program("olm", "olm-operator", "olm-operator"));
    cluster.put(pod("olm", "olm-operator-1", "olm-operator", "said"));
    for (with_logs, expected) in [(false, 0), (true, 1)] {
        let (_, parts, _) = bundle_with(&cluster, None, &own("olm"), with_logs).await;
        let logs = parts.iter().filter(|(path, _)| path.contains("/logs/"));
        assert_eq!(logs.count(), expected, "{with_logs}");
        assert!(part(&parts, "objects/pods.json").contains("olm-operator-1"));
    }
}

/// The most useful parts are read first. Users who may create Deployments can set OLM's labels on their own.
#[tokio::test(start_paused = true)]
async fn no_log_of_a_tenant_takes_the_place_of_olms() {
    let cluster = cluster();
    cluster.put(program("aaa", "x", "olm-operator"));
    cluster.put(pod("aaa", "x-1", "olm-operator", "mine"));
    cluster.put(program("olm", "olm-operator", "olm-operator"));
    cluster.put(pod("olm", "olm-operator-1", "olm-operator", "ours"));
    let (_, parts, _) = bundle_of(&cluster, None).await;
    let paths: Vec<&str> = parts.iter().map(|(path, _)| path.as_str()).collect();
    let at = |wanted: &str| paths.iter().position(|path| path.contains(wanted)).unwrap();
    assert!(!paths.iter().any(|path| path.contains("logs/aaa")), "{paths:?}");
    for later in [
        "objects/catalogsources.json",
        "objects/subscriptions.json",
        "objects/pods.json",
    ] {
        for first in ["versions.json", "logs/olm/", "doctor.txt", "status.txt"] {
            assert!(at(first) < at(later), "{paths:?}");
        }
    }
}

#[test]
fn lines_have_nothing_that_a_terminal_obeys() {
    let mut archive = Archive::default();
    archive.lines("log", "\u{1b}[31mred\u{1b}[0m \u{1b}]0;title\u{7} \u{202e}x\n2\n");
    archive.objects("objects", vec![json!({"a": "\u{9b}x\u{202e}"})]);
    let parts = unpacked(&archive.packed().unwrap());
    assert_eq!(
        part(&parts, "log"),
        "\\u{1b}[31mred\\u{1b}[0m \\u{1b}]0;title\\u{7} \\u{202e}x\n2\n"
    );
    assert!(
        part(&parts, "objects").contains(r"\u009bx\u202e"),
        "{}",
        part(&parts, "objects")
    );
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_read_is_listed() {
    let cluster = cluster();
    cluster.on_request(|request| {
        (request.kind.kind == "InstallPlan")
            .then(|| Fault::Refuse(Refusal::new(403, "Forbidden", "it is forbidden")))
    });
    let (archive, parts, summary) = bundle_of(&cluster, Some("shop")).await;
    assert!(!archive.is_whole());
    assert_eq!(archive.no_answer(), None);
    let manifest: Value = serde_json::from_str(part(&parts, "manifest.json")).unwrap();
    let unread = manifest["notRead"].to_string();
    assert!(
        unread.contains("all installplans in namespace shop") && unread.contains("it is forbidden"),
        "{unread}"
    );
    assert!(
        summary.contains("not read: all installplans in namespace shop"),
        "{summary}"
    );

    cluster.on_request(|_| Some(Fault::Refuse(Refusal::new(403, "Forbidden", "all is forbidden"))));
    let (archive, ..) = bundle_of(&cluster, Some("shop")).await;
    assert!(
        archive
            .no_answer()
            .is_some_and(|cause| cause.contains("all is forbidden"))
    );
}

/// Objects may be large, so a page has few of them.
#[tokio::test(start_paused = true)]
async fn an_error_in_a_later_page_names_the_whole_kind() {
    let cluster = cluster();
    for number in 0..60 {
        cluster.put(plan(&format!("install-{number}"), "Complete", true));
    }
    let (_, parts, _) = bundle_of(&cluster, None).await;
    assert_eq!(
        part(&parts, "objects/installplans.json")
            .matches("\"name\": \"install-")
            .count(),
        60
    );
    cluster.on_request(|request| {
        let is_later = request.kind.kind == "InstallPlan" && !request.param("continue").is_empty();
        is_later.then(|| Fault::Refuse(Refusal::new(403, "Forbidden", "it is forbidden")))
    });
    let (_, parts, summary) = bundle_of(&cluster, None).await;
    assert!(
        summary.contains("not read: all installplans in all namespaces"),
        "{summary}"
    );
    assert!(
        !parts
            .iter()
            .any(|(path, _)| path.contains("objects/installplans"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_does_not_answer_is_given_up() {
    let cluster = cluster();
    cluster.on_request(|_| Some(Fault::Hang));
    let start = tokio::time::Instant::now();
    let (archive, ..) = bundle_of(&cluster, None).await;
    assert!(
        start.elapsed() < Duration::from_secs(310),
        "{:?}",
        start.elapsed()
    );
    assert!(archive.no_answer().is_some());
}

#[cfg(unix)]
#[test]
fn the_file_is_its_owners_whole_and_never_written_over_unasked() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bundle.tar.gz");
    let mut archive = Archive::default();
    archive.lines("a.txt", "one");
    archive.write(&path, false).unwrap();
    assert_eq!(
        std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert_eq!(
        unpacked(&std::fs::read(&path).unwrap()),
        [("olm-support-bundle/a.txt".to_owned(), "one".to_owned())]
    );

    std::fs::write(&path, "mine").unwrap();
    let error = is_free(&path, false).unwrap_err().to_string();
    assert!(error.contains("--force"), "{error}");
    // A file that was created after the check is kept, too.
    assert!(archive.write(&path, false).is_err());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    is_free(&path, true).unwrap();
    archive.write(&path, true).unwrap();
    assert_ne!(std::fs::read(&path).unwrap(), b"mine");
    assert!(archive.write(&folder.path().join("no/bundle"), false).is_err());
    // No temporary file remains.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn no_part_makes_the_bundle_endless() {
    let mut archive = Archive::default();
    archive.lines("small", "x");
    archive.part("large", "x".repeat(archive::MAX_BYTES));
    assert!(!archive.is_whole());
    let parts = unpacked(&archive.packed().unwrap());
    let paths: Vec<&str> = parts.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(paths, ["olm-support-bundle/small"]);
}

#[tokio::test(start_paused = true)]
async fn a_bundle_of_a_namespace_has_what_is_of_olm_also_where_catalogs_are_elsewhere() {
    let cluster = cluster();
    for name in ["catalog-operator", "olm-operator"] {
        cluster.put(program("system", name, name));
    }
    cluster.put(pod("system", "catalog-operator-1", "catalog-operator", "said"));
    cluster.put(
        json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
        "metadata": {"namespace": "system", "name": "of-olm"}, "spec": {}}),
    );
    let (_archive, parts, _summary) = bundle_with(&cluster, Some("shop"), &own("system"), true).await;
    assert!(part(&parts, "logs/system/catalog-operator-1/catalog-operator.log").contains("said"));
    assert!(part(&parts, "objects/operatorgroups.json").contains("\"of-olm\""));
    assert!(part(&parts, "objects/catalogsources.json").contains("\"cat\""));
    assert!(part(&parts, "versions.json").contains("\"olmNamespace\": \"system\""));
    assert!(!part(&parts, "doctor.txt").contains("OLM is not installed"));
}

#[tokio::test(start_paused = true)]
async fn a_bundle_has_olm_v1_where_the_cluster_has_it_and_no_values_of_its_secrets() {
    let cluster = cluster();
    let (_, parts, _) = bundle_of(&cluster, None).await;
    assert!(
        !parts
            .iter()
            .any(|(path, _)| path.contains("objects/clustercatalogs"))
    );
    for (kind, plural) in [
        ("ClusterCatalog", "clustercatalogs"),
        ("ClusterExtension", "clusterextensions"),
        ("ClusterObjectSet", "clusterobjectsets"),
    ] {
        cluster.serve(Kind {
            group: "olm.operatorframework.io".to_owned(),
            versions: vec!["v1".to_owned()],
            kind: kind.to_owned(),
            plural: plural.to_owned(),
            namespaced: false,
            status: true,
            custom: true,
        });
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"any": SECRET}});
        let spec = json!({"phases": [{"name": "deploy", "objects": [{"object": secret}]}]});
        cluster.put(json!({"apiVersion": "olm.operatorframework.io/v1", "kind": kind, "metadata": {"name": "etcd-1"}, "spec": spec}));
    }
    cluster.put(program("olm", "catalogd", "catalogd"));
    cluster.put(pod("olm", "catalogd-1", "catalogd", "said"));
    let (_, parts, _) = bundle_of(&cluster, Some("shop")).await;
    for plural in ["clustercatalogs", "clusterextensions", "clusterobjectsets"] {
        let text = part(&parts, &format!("objects/{plural}.json"));
        assert!(text.contains("etcd-1") && !text.contains(SECRET_START), "{text}");
    }
    assert!(part(&parts, "logs/olm/catalogd-1/catalogd.log").contains("said"));
}
