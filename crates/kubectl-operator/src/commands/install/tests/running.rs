//! Tests of what runs or is offered beside the package: versions without a Subscription, and providers of what it needs.

use super::*;
use crate::operators::tests::{csv, subscription};

/// Decides for the package etcd beside these versions and providers.
fn decided_beside(more: &[&str], unsubscribed: &[Unsubscribed], provided: &[&str]) -> anyhow::Result<Wanted> {
    let there = There {
        namespace: "shop",
        packages: &[package("etcd", "cat")],
        preferred: None,
        groups: &[group_for(&["shop"])],
        all_groups: &[],
        subscriptions: &[],
        unsubscribed,
        provided: &provided.iter().map(|name| (*name).to_owned()).collect(),
    };
    decide(&install_args(more), there)
}

fn running(version: &str) -> Unsubscribed {
    Unsubscribed {
        name: format!("etcd.v{version}"),
        version: version.to_owned(),
        has_failed: false,
        former: None,
    }
}

/// OLM adopts the version that runs, and finds a conflict with any other.
#[test]
fn a_version_without_subscription_is_adopted_or_in_the_way() {
    let decided = |more: &[&str]| decided_beside(more, &[running("0.9.0")], &[]);
    // The catalog may no longer have it.
    for version in ["0.9.0", "v0.9.0", "etcd.v0.9.0"] {
        let wanted = decided(&["-v", version]).unwrap();
        let spec = wanted.subscription.spec;
        assert_eq!(
            (spec.starting_csv(), spec.channel()),
            (Some("etcd.v0.9.0"), Some("stable")),
            "{version}"
        );
        assert_eq!(
            wanted.notes[0],
            "etcd.v0.9.0 has no Subscription; this Subscription adopts it"
        );
    }
    for more in [&[][..], &["-v", "1.0.0"]] {
        assert_eq!(
            error(decided(more)),
            "cannot install etcd: etcd.v0.9.0 is in namespace shop without a Subscription; subscribe to it with \
             `kubectl operator install etcd --version etcd.v0.9.0 -n shop`, or remove it first with \
             `kubectl operator uninstall etcd.v0.9.0 -n shop`"
        );
    }
}

/// Its Subscription was deleted during the upgrade: the failed version does not run, and the older one cannot be adopted.
#[test]
fn a_failed_upgrade_without_subscription_is_adopted_and_then_rolled_back() {
    let failed = Unsubscribed {
        has_failed: true,
        former: Some("etcd.v0.9.0".to_owned()),
        ..running("1.0.0")
    };
    let decided = |version: &str| decided_beside(&["-v", version], std::slice::from_ref(&failed), &[]);
    assert_eq!(
        decided("1.0.0").unwrap().notes[0],
        "etcd.v1.0.0, which failed to replace etcd.v0.9.0, has no Subscription; this Subscription adopts it"
    );
    assert_eq!(
        error(decided("0.9.0")),
        "cannot install etcd: etcd.v1.0.0, which failed to replace etcd.v0.9.0, is in namespace shop without a Subscription; \
         subscribe to it with `kubectl operator install etcd --version etcd.v1.0.0 -n shop` and go back with `kubectl operator \
         rollback etcd -n shop`, or remove it first with `kubectl operator uninstall etcd.v1.0.0 -n shop`"
    );
}

#[test]
fn only_the_newest_version_of_the_package_that_nobody_has_is_without_subscription() {
    let of_package = |version: &str, package: &str, replaces: &str| -> ClusterServiceVersion {
        let package = json!({"type": "olm.package", "value": {"packageName": package, "version": version}});
        let properties = json!({"properties": [package]}).to_string();
        let mut csv = csv(version, "Succeeded", "");
        csv["metadata"]["annotations"] = json!({olm_api::labels::PROPERTIES: properties});
        csv["spec"]["replaces"] = json!(replaces);
        serde_json::from_value(csv).unwrap()
    };
    let mut going = of_package("4.0.0", "etcd", "");
    going.metadata.deletion_timestamp = Some(serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap());
    let csvs = [
        going,
        of_package("1.0.0", "etcd", ""),
        of_package("2.0.0", "etcd", "etcd.v1.0.0"),
        of_package("3.0.0", "other", ""),
    ];
    let csvs = BTreeMap::from(csvs.map(|csv| (("shop".to_owned(), csv.name_any()), csv)));
    let newest = Unsubscribed {
        former: Some("etcd.v1.0.0".to_owned()),
        ..running("2.0.0")
    };
    for (installed, expected) in [("", &[newest][..]), ("etcd.v2.0.0", &[])] {
        let status = json!({"installedCSV": installed, "currentCSV": installed});
        let subscribed = serde_json::from_value(subscription("db", &status)).unwrap();
        let gathered = Gathered {
            subscriptions: vec![subscribed],
            csvs: csvs.clone(),
            ..Gathered::default()
        };
        assert_eq!(unsubscribed("etcd", &gathered), expected, "{installed}");
    }
}

/// A namespace that does not exist has no packages either, and a list of catalogs would not help.
#[tokio::test(start_paused = true)]
async fn a_namespace_that_does_not_exist_is_the_obstacle() {
    let cluster = served();
    let (client, _link) = cluster.connect();
    let here = Cluster::of(client, "shop");
    let of = async |more: &[&str]| {
        let args = install_args(more);
        let error = wanted(&here, &args).await.unwrap_err();
        obstacle(&here, &args, error).await.to_string()
    };
    assert_eq!(
        of(&[]).await,
        "namespace shop does not exist; create it with --create-namespace"
    );
    let text = of(&["--create-namespace"]).await;
    assert!(text.contains("package etcd"), "{text}");
    cluster.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}));
    let text = of(&[]).await;
    assert!(text.contains("package etcd"), "{text}");
}

/// As with upstream's plugin, which asks for none.
#[tokio::test(start_paused = true)]
async fn an_account_that_may_not_list_versions_can_install() {
    let cluster = served();
    cluster.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}));
    cluster.put(manifest("etcd", "cat"));
    for (code, reason, is_installed) in [(500, "InternalError", false), (403, "Forbidden", true)] {
        cluster.clear_hooks();
        cluster.on_request(move |request| {
            let lists_versions = request.kind.kind == "ClusterServiceVersion";
            lists_versions.then(|| Fault::Refuse(Refusal::new(code, reason, "no")))
        });
        let (_, result) = installed(&cluster, &["-C"]).await;
        assert_eq!(result.is_ok(), is_installed, "{result:?}");
    }
    assert!(cluster.get("Subscription", "shop", "etcd").is_some());
}

#[test]
fn what_no_catalog_provides_is_said_before() {
    for (provided, expected) in [
        (
            &["Disk (disks.example.com)"][..],
            "it needs Disk (disks.example.com); OLM installs operators that provide the missing ones",
        ),
        (
            &["Tape (tapes.example.com)"],
            "it needs Disk (disks.example.com), which no channel head of the catalogs provides; OLM cannot install it unless an \
             operator of namespace shop does",
        ),
    ] {
        let notes = decided_beside(&[], &[], provided).unwrap().notes;
        assert_eq!(notes, [expected]);
    }
}

/// OLM would set the ClusterServiceVersion to Failed.
#[test]
fn an_api_that_another_group_with_a_common_namespace_provides_is_not_installed() {
    let other: OperatorGroup = serde_json::from_value(json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
        "metadata": {"name": "og", "namespace": "far", "annotations": {"olm.providedAPIs": "Etcd.v1.example.com"}},
        "spec": {}, "status": {"namespaces": [""], "lastUpdated": null}}))
    .unwrap();
    let decided = |more: &[&str], all_groups: &[OperatorGroup]| {
        let there = There {
            namespace: "shop",
            packages: &[package("etcd", "cat")],
            preferred: None,
            groups: &[],
            all_groups,
            subscriptions: &[],
            unsubscribed: &[],
            provided: &BTreeSet::new(),
        };
        decide(&install_args(more), there)
    };
    decided(&["-C"], &[]).unwrap();
    // The APIs of an older version are unknown.
    decided(&["-C", "-v", "1.0.0"], std::slice::from_ref(&other)).unwrap();
    assert_eq!(
        error(decided(&["-C"], &[other])),
        "cannot install etcd.v1.1.0 in namespace shop: Etcd.v1.example.com is provided by OperatorGroup far/og, which has a namespace in \
         common with the OperatorGroup of this one, so OLM would report InterOperatorGroupOwnerConflict; uninstall the other operator, \
         or change the targets of a group so that the groups have no namespace in common"
    );
}

/// The error is a line on a terminal.
#[test]
fn only_some_of_many_apis_of_other_groups_are_named() {
    let apis: Vec<String> = (10..40)
        .map(|number| format!("Etcd{number}.v1.example.com"))
        .collect();
    let other: OperatorGroup = serde_json::from_value(
        json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
        "metadata": {"name": "og", "namespace": "far", "annotations": {"olm.providedAPIs": apis.join(",")}},
        "spec": {}, "status": {"namespaces": [""], "lastUpdated": null}}),
    )
    .unwrap();
    let mut large = package("etcd", "cat");
    for channel in &mut large.channels {
        channel.apis = olm_api::api_key::parse_api_set(&apis.join(","));
    }
    let there = There {
        namespace: "shop",
        packages: &[large],
        preferred: None,
        groups: &[],
        all_groups: &[other],
        subscriptions: &[],
        unsubscribed: &[],
        provided: &BTreeSet::new(),
    };
    let text = error(decide(&install_args(&["-C"]), there));
    assert_eq!(text.matches("is provided by").count(), 10, "{text}");
    assert!(text.contains("OperatorGroup far/og and 20 more, which"), "{text}");
}

/// The groups of other namespaces only serve a check.
#[tokio::test(start_paused = true)]
async fn without_the_groups_of_other_namespaces_it_is_installed_with_a_warning() {
    for (code, warnings) in [(403, 0), (500, 1)] {
        let cluster = served();
        cluster.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}));
        cluster.put(manifest("etcd", "cat"));
        cluster.on_request(move |request| {
            let is_asked = request.kind.kind == "OperatorGroup" && request.namespace.is_empty();
            is_asked.then(|| Fault::Refuse(Refusal::new(code, "Nope", "it broke")))
        });
        let (client, _link) = cluster.connect();
        let here = Cluster::of(client, "shop");
        let found = wanted(&here, &install_args(&["-C"])).await.unwrap();
        let told = found.notes.iter().filter(|note| {
            note.contains("it broke") && note.ends_with("another OperatorGroup may provide the same APIs")
        });
        assert_eq!(told.count(), warnings, "{code}: {:?}", found.notes);
    }
}

/// Between READY and the list of package-server are some seconds, in which a script would fail.
#[tokio::test(start_paused = true)]
async fn the_packages_of_a_catalog_that_just_became_ready_are_waited_for() {
    for (state, listed_after, seconds) in [
        ("READY", Some(4), 4..6),
        ("READY", None, 10..12),
        ("CONNECTING", None, 0..1),
    ] {
        let cluster = served();
        cluster.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}));
        cluster.put(
            json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
            "metadata": {"name": "cat", "namespace": "olm"}, "spec": {"sourceType": "grpc"},
            "status": {"connectionState": {"lastObservedState": state}}}),
        );
        let (client, _link) = cluster.connect();
        let (here, args) = (Cluster::of(client, "shop"), install_args(&["-C"]));
        let change = async {
            if let Some(after) = listed_after {
                tokio::time::sleep(std::time::Duration::from_secs(after)).await;
                cluster.put(manifest("etcd", "cat"));
            }
        };
        let start = tokio::time::Instant::now();
        let (found, ()) = tokio::join!(wanted(&here, &args), change);
        assert_eq!(found.is_ok(), listed_after.is_some(), "{found:?}");
        assert!(
            seconds.contains(&start.elapsed().as_secs()),
            "{state} {listed_after:?}"
        );
    }
}
