use std::slice::from_ref;
use std::sync::Arc;

use clap::Parser as _;
use olm_api::extension_v1::METADATA_NAME_LABEL;
use olm_api::plan_preview::ImageChange;
use olm_api::v1alpha1::{InstallMode, InstallModeType};
use olm_fbc::bundle_files::BundleFile;
use olm_testing::cluster::FakeCluster;
use operator_controller::render::Endpoint;
use operator_controller::resolve::{Candidate, PackageContent, PackageResult, UnusedCatalog};
use serde_json::json;

use super::super::Managed as _;
use super::super::tests::{cluster, condition, object};
use super::*;
use crate::args::olmv1::Olmv1Command;
use crate::args::{Args, Command};

/// A package with an upgrade of two steps, and one that skips the second.
const CONTENT: &str = r#"
{"schema":"olm.package","name":"etcd","defaultChannel":"stable"}
{"schema":"olm.channel","package":"etcd","name":"stable","entries":[{"name":"etcd.v1.0.0"},{"name":"etcd.v1.1.0","replaces":"etcd.v1.0.0"},{"name":"etcd.v1.2.0","replaces":"etcd.v1.1.0","skips":["etcd.v1.0.0"]}]}
{"schema":"olm.bundle","package":"etcd","name":"etcd.v1.0.0","image":"registry/bundle:v1.0.0","properties":[{"type":"olm.package","value":{"packageName":"etcd","version":"1.0.0"}}]}
{"schema":"olm.bundle","package":"etcd","name":"etcd.v1.1.0","image":"registry/bundle:v1.1.0","properties":[{"type":"olm.package","value":{"packageName":"etcd","version":"1.1.0"}}]}
{"schema":"olm.bundle","package":"etcd","name":"etcd.v1.2.0","image":"registry/bundle:v1.2.0","properties":[{"type":"olm.package","value":{"packageName":"etcd","version":"1.2.0"}}]}
{"schema":"olm.deprecations","package":"etcd","entries":[{"reference":{"schema":"olm.package"},"message":"use quay"}]}
"#;

fn args(more: &[&str]) -> PlanExtensionArgs {
    let words = ["kubectl-operator", "olmv1", "plan", "etcd"];
    match Args::try_parse_from(words.iter().chain(more)).unwrap().command {
        Command::Olmv1(Olmv1Command::Plan(args)) => args,
        other => panic!("{other:?}"),
    }
}

fn catalogs() -> Vec<Catalog> {
    let content = PackageContent::read(CONTENT.as_bytes(), "etcd").unwrap().unwrap();
    let catalog = |name: &str, package| Catalog {
        name: name.to_owned(),
        labels: [(METADATA_NAME_LABEL.to_owned(), name.to_owned())].into(),
        package,
        ..Catalog::default()
    };
    vec![
        catalog("community", PackageResult::Found(Arc::new(content))),
        catalog("other", PackageResult::Absent),
    ]
}

fn deployment(image: &str) -> Value {
    json!({"selector": {"matchLabels": {"app": "etcd"}}, "template": {"metadata": {"labels": {"app": "etcd"}},
        "spec": {"serviceAccountName": "etcd", "containers": [{"name": "manager", "image": image}]}}})
}

fn bundle() -> Bundle {
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    let csv = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": "etcd.v1.2.0"},
        "spec": {"version": "1.2.0", "installModes": [{"type": "AllNamespaces", "supported": true}],
            "install": {"strategy": "deployment", "spec": {
                "clusterPermissions": [{"serviceAccountName": "etcd", "rules": rules}],
                "deployments": [{"name": "etcd", "spec": deployment("registry/etcd:v2")}]}}}});
    Bundle {
        package: "etcd".to_owned(),
        csv: olm_api::decode_csv_manifest(csv).unwrap(),
        ..Bundle::default()
    }
}

/// Returns a cluster with the ClusterExtension `etcd` at version 1.0.0.
fn installed() -> FakeCluster {
    let cluster = cluster();
    cluster.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}));
    let source = json!({"sourceType": "Catalog", "catalog": {"packageName": "etcd"}});
    let spec = json!({"namespace": "shop", "source": source});
    let status = json!({"install": {"bundle": {"name": "etcd.v1.0.0", "version": "1.0.0"}}});
    let mut extension = object("ClusterExtension", "etcd", &spec, &status);
    extension["metadata"]["uid"] = json!("1");
    cluster.put(extension);
    let objects = json!([
        {"object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "old", "namespace": "shop"}}},
        {"object": {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "etcd", "namespace": "shop"},
            "spec": deployment("registry/etcd:v1")}},
    ]);
    let spec = json!({"lifecycleState": "Active", "revision": 1, "collisionProtection": "Prevent",
        "phases": [{"name": "deploy", "objects": objects}]});
    let status = json!({"conditions": [condition("Succeeded", "True", "Succeeded", "")]});
    let mut set = object("ClusterObjectSet", "etcd-1", &spec, &status);
    set["metadata"]["labels"] = json!({labels::EXTENSION_OWNER_NAME: "etcd"});
    set["metadata"]["annotations"] = json!({labels::EXTENSION_BUNDLE_NAME: "etcd.v1.0.0",
        labels::EXTENSION_BUNDLE_VERSION: "1.0.0", labels::EXTENSION_BUNDLE_REFERENCE: "registry/bundle:v1.0.0",
        labels::EXTENSION_PACKAGE_NAME: "etcd"});
    cluster.put(set);
    cluster
}

async fn planned(
    cluster: &FakeCluster,
    more: &[&str],
    pulled: &Result<Bundle, String>,
) -> anyhow::Result<Plan> {
    let (client, _link) = cluster.connect();
    let here = Cluster::of(client, "default");
    let catalogs = async |_: &CatalogFilter| anyhow::Ok(catalogs());
    let pull = async |_: &str| pulled.clone();
    plan(&here, &args(more), &catalogs, &pull).await
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_is_reported_with_its_rivals_and_changes() {
    let plan = planned(&installed(), &[], &Ok(bundle())).await.unwrap();
    assert!(plan.problems.is_empty(), "{:?}", plan.problems);
    let text = plan.text();
    let (choice, changes) = text.split_once("\nchanges").unwrap();
    insta::assert_snapshot!(choice, @r"
    ClusterExtension etcd in namespace shop, package etcd
      upgrade  etcd.v1.0.0 to etcd.v1.2.0 from ClusterCatalog community

    CANDIDATE     VERSION   CATALOG     RESULT
    etcd.v1.2.0   1.2.0     community   chosen
    etcd.v1.1.0   1.1.0     community   is not the newest candidate, which is etcd.v1.2.0
    etcd.v1.0.0   1.0.0     community   installed; is not the newest candidate, which is etcd.v1.2.0

    catalog other does not have the package
    ");
    for line in [
        " against ClusterObjectSet etcd-1\n",
        "\n  - ConfigMap shop/old\n",
        "\n  + ServiceAccount etcd in the whole cluster: get pods\n",
        "\n  + ServiceAccount shop/etcd\n",
        "\n  ~ image registry/etcd:v1 to registry/etcd:v2 (Deployment etcd, container manager)\n",
        "\nnote: the package is deprecated: use quay\n",
    ] {
        assert!(changes.contains(line), "{line}: {changes}");
    }
    // The permissions say what a role gives.
    assert!(!changes.contains("ClusterRole"), "{changes}");
    let document = serde_json::to_value(&plan).unwrap();
    let objects = document["changes"]["objects"].as_array().unwrap();
    assert!(
        objects
            .iter()
            .any(|found| found["kind"] == "ClusterRole" && found["verb"] == "create")
    );
    assert!(
        objects
            .iter()
            .any(|found| found["name"] == "old" && found["verb"] == "delete")
    );
}

/// The catalogs are still of use where the registry is out of reach.
#[tokio::test(start_paused = true)]
async fn without_the_image_only_the_choice_is_reported() {
    let plan = planned(&installed(), &[], &Err("no such host".to_owned()))
        .await
        .unwrap();
    assert_eq!((plan.problems.len(), &plan.changes), (0, &None));
    assert_eq!(plan.chosen.as_ref().unwrap().name, "etcd.v1.2.0");
    let text = plan.text();
    let note = "note: the changes by etcd.v1.2.0 are unknown, because its image registry/bundle:v1.2.0 cannot be read from here: no such host";
    assert!(text.contains(note), "{text}");
}

#[tokio::test(start_paused = true)]
async fn flags_are_planned_as_if_they_were_fields() {
    let cluster = installed();
    for (flags, chosen, problem) in [
        (&["--version", "1.1.0"][..], Some("etcd.v1.1.0"), ""),
        (
            &["--version", "9.9.9"],
            None,
            "error upgrading from currently installed version \"1.0.0\": no bundles found for package \"etcd\" matching version \"9.9.9\"",
        ),
        (
            &["--channels", "beta"],
            None,
            "error upgrading from currently installed version \"1.0.0\": no bundles found for package \"etcd\" in channels [beta]",
        ),
        (
            &["-l", "team=shop", "--version", "1.0.0"],
            Some("etcd.v1.0.0"),
            "",
        ),
    ] {
        let plan = planned(&cluster, flags, &Ok(bundle())).await.unwrap();
        let name = plan.chosen.as_ref().map(|chosen| chosen.name.as_str());
        assert_eq!(name, chosen, "{flags:?}");
        assert_eq!(plan.problems.concat(), problem, "{flags:?}");
    }
    for flags in [["-p", "other"], ["-n", "elsewhere"]] {
        let error = planned(&cluster, &flags, &Ok(bundle()))
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains("which cannot be changed"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_extension_is_reported_with_its_obstacles() {
    let cluster = cluster();
    let error = planned(&cluster, &[], &Ok(bundle()))
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("use --package-name"), "{error}");
    let mut with_definition = bundle();
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "demos.example.com"},
        "spec": {"group": "example.com", "names": {"kind": "Demo", "plural": "demos"}, "scope": "Namespaced",
            "versions": [{"name": "v1", "served": true, "storage": true}]}});
    cluster.put(definition.clone());
    with_definition.crds.push(BundleFile {
        name: "crd.yaml".to_owned(),
        object: definition,
    });
    let flags = ["-p", "etcd", "-n", "shop"];
    let plan = planned(&cluster, &flags, &Ok(with_definition)).await.unwrap();
    assert!(
        plan.text()
            .contains("\n  install  etcd.v1.2.0 from ClusterCatalog community\n")
    );
    let [namespace, collision] = plan.problems.as_slice() else {
        panic!("{:?}", plan.problems);
    };
    assert!(
        namespace.starts_with("namespace shop does not exist"),
        "{namespace}"
    );
    assert!(
        collision.starts_with("CustomResourceDefinition demos.example.com exists already"),
        "{collision}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_bundle_that_cannot_be_rendered_is_refused() {
    let plan = planned(&installed(), &[], &Ok(Bundle::default())).await.unwrap();
    let problem = plan.problems.concat();
    assert!(
        problem.starts_with(
            "error for resolved bundle \"etcd.v1.2.0\" with version \"1.2.0\": unsupported bundle"
        ),
        "{problem}"
    );
}

/// Without the image the status says it, as long as it is about this bundle and the current fields.
#[tokio::test(start_paused = true)]
async fn a_missing_namespace_to_watch_is_a_problem_with_its_way_out() {
    let text = "error for resolved bundle \"etcd.v1.2.0\" with version \"1.2.0\": invalid ClusterExtension configuration: \
                invalid configuration: required field \"watchNamespace\" is missing";
    let way_out = "; set spec.config.inline.watchNamespace to the namespace that the operator should watch, for example: \
                   kubectl patch clusterextension etcd --type merge -p \
                   '{\"spec\":{\"config\":{\"configType\":\"Inline\",\"inline\":{\"watchNamespace\":\"shop\"}}}}'";
    let mut own = bundle();
    own.csv.spec.install_modes = [InstallMode {
        type_: InstallModeType::OwnNamespace,
        supported: true,
        ..InstallMode::default()
    }]
    .into_iter()
    .collect();
    let plan = planned(&installed(), &[], &Ok(own)).await.unwrap();
    assert_eq!(plan.problems, [format!("{text}{way_out}")]);
    for (observed, version, is_refused) in [(1, "1.2.0", true), (0, "1.2.0", false), (1, "1.1.0", false)] {
        let cluster = installed();
        let mut refused = condition("Progressing", "False", "InvalidConfiguration", text);
        refused["observedGeneration"] = json!(observed);
        let change = json!({"status": {"conditions": [refused]}});
        assert!(cluster.edit("ClusterExtension", "", "etcd", &change));
        let pulled = Err("no such host".to_owned());
        let plan = planned(&cluster, &["--version", version], &pulled).await.unwrap();
        let expected = is_refused.then(|| format!("{text}{way_out}"));
        assert_eq!(plan.problems, Vec::from_iter(expected), "{observed} {version}");
    }
}

/// A configuration that only has to be corrected gets no example.
#[test]
fn an_extension_says_where_its_configuration_is_corrected() {
    let text = "invalid ClusterExtension configuration: invalid configuration: unknown field \"a\"";
    let status = json!({"conditions": [condition("Progressing", "False", "InvalidConfiguration", text)]});
    let spec =
        json!({"namespace": "shop", "source": {"sourceType": "Catalog", "catalog": {"packageName": "etcd"}}});
    let extension = object("ClusterExtension", "etcd", &spec, &status);
    let extension: ClusterExtension = serde_json::from_value(extension).unwrap();
    assert_eq!(
        extension.progress().0.message,
        format!("{text}; correct the field below spec.config.inline: kubectl edit clusterextension etcd")
    );
}

/// Certificates and the annotation with the version are others in each revision.
#[test]
fn what_differs_in_each_revision_is_no_change() {
    let endpoint = Endpoint {
        deployment: "etcd".to_owned(),
        service: "etcd-service".to_owned(),
        secret: "etcd-service-cert".to_owned(),
        namespace: "shop".to_owned(),
    };
    let secret = |name: &str, data: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "shop"}, "data": {"tls.crt": data}});
    let webhook = |ca: &str, path: &str| {
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration", "metadata": {"name": "a"},
            "webhooks": [{"clientConfig": {"caBundle": ca, "service": {"path": path}}}]})
    };
    let labelled = |version: &str, label: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "shop", "labels": {"a.b/c": label},
            "annotations": {labels::EXTENSION_BUNDLE_VERSION: version}}})
    };
    for (old, new, expected) in [
        (
            secret("etcd-service-cert", "a"),
            secret("etcd-service-cert", "b"),
            None,
        ),
        (secret("other", "a"), secret("other", "b"), Some("data.tls.crt")),
        (webhook("a", "/"), webhook("b", "/"), None),
        (webhook("a", "/"), webhook("a", "/b"), Some("webhooks")),
        (labelled("1", "a"), labelled("2", "a"), None),
        (
            labelled("1", "a"),
            labelled("2", "b"),
            Some("metadata.labels.a.b/c"),
        ),
    ] {
        let endpoints = from_ref(&endpoint);
        let (changes, _) = changes::compare(from_ref(&old), from_ref(&new), "shop", endpoints);
        let fields: Vec<&str> = changes
            .objects
            .iter()
            .flat_map(|change| &change.fields)
            .map(String::as_str)
            .collect();
        assert_eq!(fields.first().copied(), expected, "{old}");
        assert_eq!(changes.objects.len(), usize::from(expected.is_some()), "{old}");
    }
}

#[test]
fn rights_are_reported_in_each_namespace_and_once_for_the_cluster() {
    let role = |kind: &str, namespace: Option<&str>, resource: &str| {
        let rules = json!([{"apiGroups": [""], "resources": [resource], "verbs": ["get"]}]);
        let subjects = json!([{"kind": "ServiceAccount", "name": "etcd", "namespace": "shop"}]);
        let metadata = json!({"name": resource, "namespace": namespace});
        [
            json!({"kind": kind, "metadata": metadata, "rules": rules}),
            json!({"kind": format!("{kind}Binding"), "metadata": metadata, "subjects": subjects,
                "roleRef": {"kind": kind, "name": resource}}),
        ]
    };
    let old = role("ClusterRole", None, "nodes");
    let new = [
        role("ClusterRole", None, "pods"),
        role("Role", Some("watched"), "secrets"),
    ]
    .concat();
    let (changes, unknown) = changes::compare(&old, &new, "shop", &[]);
    assert!(unknown.is_empty(), "{unknown:?}");
    assert_eq!(
        changes.lines(),
        [
            "- ServiceAccount etcd in the whole cluster: get nodes",
            "+ ServiceAccount etcd in the whole cluster: get pods",
            "+ ServiceAccount shop/etcd in namespace watched: get secrets",
        ]
    );
}

#[test]
fn no_text_of_a_catalog_or_a_user_looks_like_one_of_ours() {
    let evil = || "x\u{1b}[2J\nnote: all is well".to_owned();
    let plan = Plan {
        extension: evil(),
        namespace: evil(),
        package: evil(),
        installed: Some(Chosen {
            name: evil(),
            ..Chosen::default()
        }),
        chosen: Some(Chosen {
            name: evil() + "2",
            catalog: evil(),
            ..Chosen::default()
        }),
        candidates: vec![Candidate {
            bundle: evil(),
            version: evil(),
            catalog: evil(),
            ruled_out: vec![evil()],
            ..Candidate::default()
        }],
        unused_catalogs: vec![UnusedCatalog {
            name: evil(),
            reason: "is switched off",
        }],
        changes: Some(changes::Changes {
            against: Some(evil()),
            images: vec![ImageChange {
                kind: evil(),
                name: evil(),
                container: evil(),
                from: evil(),
                to: evil(),
            }],
            ..changes::Changes::default()
        }),
        problems: vec![evil()],
        notes: vec![evil()],
        ..Plan::default()
    };
    let text = plan.text();
    assert!(!text.contains('\u{1b}'), "{text}");
    let notes = text.lines().filter(|line| line.starts_with("note: "));
    assert_eq!(notes.count(), 1, "{text}");
}
