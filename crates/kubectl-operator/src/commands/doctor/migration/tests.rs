use serde_json::{Value, json};

use super::*;

fn read<T: serde::de::DeserializeOwned>(objects: Value) -> Vec<T> {
    serde_json::from_value(objects).unwrap()
}

fn program(namespace: &str, name: &str, replicas: i32, command: &[&str], args: &[&str]) -> Value {
    json!({"metadata": {"namespace": namespace, "name": name, "labels": {"app": name}},
        "spec": {"replicas": replicas, "selector": {}, "template": {"spec": {"containers": [
            {"name": name, "command": command, "args": args}]}}}})
}

fn csv(name: &str, status: &Value) -> Value {
    json!({"metadata": {"namespace": "shop", "name": name}, "spec": {"displayName": "", "install": {"strategy": "deployment"}}, "status": status})
}

fn plan(name: &str, phase: &str) -> Value {
    json!({"metadata": {"namespace": "shop", "name": name},
        "spec": {"approval": "Manual", "approved": false, "clusterServiceVersionNames": ["a.v1"]},
        "status": {"phase": phase, "catalogSources": []}})
}

fn catalog(name: &str, source: &str) -> Value {
    json!({"metadata": {"namespace": "olm", "name": name}, "spec": {"sourceType": source}})
}

/// Returns a cluster with upstream's OLM and no operation in progress.
fn cluster() -> Migration {
    Migration {
        programs: Ok(read(json!([
            program(
                "olm",
                "olm-operator",
                1,
                &["/bin/olm"],
                &["--namespace", "olm", "--writeStatusName", ""]
            ),
            program(
                "olm",
                "catalog-operator",
                1,
                &["/bin/catalog"],
                &["--namespace", "olm", "--opmImage=x"]
            ),
        ]))),
        csvs: Ok(read(json!([csv(
            "a.v1",
            &json!({"phase": "Succeeded", "certsRotateAt": "2027-01-01T00:00:00Z"})
        )]))),
        plans: Ok(read(json!([
            plan("done", "Complete"),
            plan("waits", "RequiresApproval")
        ]))),
        catalogs: Ok(read(json!([catalog("cat", "grpc")]))),
        definitions: Ok(vec![
            (
                "operatorconditions.operators.coreos.com".to_owned(),
                vec!["v1".to_owned(), "v2".to_owned()],
            ),
            ("others.operators.coreos.com".to_owned(), vec!["v9".to_owned()]),
        ]),
        edits: Ok(Vec::new()),
        unreadable: Vec::new(),
    }
}

/// Compares severity, object and cause of all findings, and the verdict.
#[track_caller]
fn check(change: impl FnOnce(&mut Migration), expected: &[&str], told: &str) {
    let mut observed = cluster();
    change(&mut observed);
    let diagnosis = diagnose(&observed);
    let found: Vec<String> = diagnosis
        .findings
        .iter()
        .map(|finding| {
            format!(
                "{} {}: {}",
                finding.severity.as_str(),
                finding.object,
                finding.cause
            )
        })
        .collect();
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(expected), "{found}\nis not {expected}");
    }
    assert!(verdict(&diagnosis).starts_with(told), "{}", verdict(&diagnosis));
    assert!(
        diagnosis
            .findings
            .iter()
            .all(|finding| !finding.remedy.is_empty())
    );
}

#[test]
fn a_cluster_at_rest_can_be_taken_over() {
    check(|_| (), &[], "OLM can be replaced; no operator is restarted");
    assert_eq!(diagnose(&cluster()).fine.len(), 8);
}

#[test]
fn whose_olm_runs_and_how_often() {
    let ours = |replicas| {
        program(
            "olm",
            "olm-operator",
            replicas,
            &["/bin/olm-operator"],
            &["--namespace=olm"],
        )
    };
    check(
        |cluster| cluster.programs = Ok(read(json!([ours(1)]))),
        &[
            "warning Deployment olm-operator: no Deployment",
            "not checked whether no flag is lost: no Deployment of upstream's OLM was found",
        ],
        "unknown whether",
    );
    check(
        |cluster| {
            cluster
                .programs
                .as_mut()
                .unwrap()
                .extend(read::<Deployment>(json!([ours(1)])));
        },
        &["error Deployment olm/olm-operator: it runs beside upstream's"],
        "OLM cannot be replaced yet",
    );
    // A Deployment with zero replicas has no effect.
    check(
        |cluster| {
            cluster
                .programs
                .as_mut()
                .unwrap()
                .extend(read::<Deployment>(json!([ours(0)])));
        },
        &[],
        "OLM can be replaced",
    );
    let twice = program("olm2", "olm-operator", 1, &["/bin/olm"], &["--namespace", "olm"]);
    check(
        |cluster| {
            cluster
                .programs
                .as_mut()
                .unwrap()
                .extend(read::<Deployment>(json!([twice])));
        },
        &[
            "error Deployment olm/catalog-operator: OLM runs in 2",
            "error Deployment olm/olm-operator: OLM runs in 2",
            "error Deployment olm2/olm-operator: OLM runs in 2",
            "warning Deployment olm2/olm-operator: OLM runs in namespace olm2",
        ],
        "OLM cannot be replaced yet",
    );
}

#[test]
fn flags_that_would_be_lost_are_reported() {
    let with = |args: &[&str]| {
        let found = program("olm", "olm-operator", 1, &["/bin/olm"], args);
        move |cluster: &mut Migration| cluster.programs = Ok(read(json!([found])))
    };
    check(
        with(&["--watchedNamespaces=a,b"]),
        &["error Deployment olm/olm-operator: --watchedNamespaces is not supported"],
        "OLM cannot be replaced yet",
    );
    check(with(&["--watchedNamespaces", ""]), &[], "OLM can");
    check(
        with(&["--bundle-unpack-timeout", "30m", "--writeStatusName=olm"]),
        &[
            "warning Deployment olm/olm-operator: --bundle-unpack-timeout is set to 30m",
            "warning Deployment olm/olm-operator: --writeStatusName is set to olm",
        ],
        "OLM can be replaced; the warnings",
    );
    check(
        with(&["--writePackageServerStatusName=p"]),
        &["warning Deployment olm/olm-operator: --writePackageServerStatusName is set to p"],
        "OLM can be replaced; the warnings",
    );
    check(with(&["--writePackageServerStatusName", ""]), &[], "OLM can");
}

#[test]
fn another_namespace_of_global_catalogs_is_reported() {
    let with = |args: &[&str], variables: Value| {
        let mut found = program("olm", "catalog-operator", 1, &["/bin/catalog"], args);
        found["spec"]["template"]["spec"]["containers"][0]["env"] = variables;
        move |cluster: &mut Migration| cluster.programs = Ok(read(json!([found])))
    };
    let named = |value: &str| json!([{"name": "GLOBAL_CATALOG_NAMESPACE", "value": value}]);
    let elsewhere =
        "warning Deployment olm/catalog-operator: catalogs for all namespaces are in namespace market";
    for (args, variables) in [
        (&["--namespace", "market"][..], json!([])),
        (&["--namespace=market"], named("")),
        (&["--namespace=olm"], named("market")),
    ] {
        check(
            with(args, variables),
            &[elsewhere],
            "OLM can be replaced; the warnings",
        );
    }
    let from = json!([{"name": "GLOBAL_CATALOG_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}]);
    for (args, variables) in [
        (&["--namespace=olm"][..], json!([])),
        (&[], json!([])),
        (&["--namespace=market"], named("olm")),
        (&["--namespace=market"], from),
    ] {
        check(with(args, variables), &[], "OLM can be replaced; no operator");
    }
    // For olm-operator the flag is its own namespace.
    let other = program("olm", "olm-operator", 1, &["/bin/olm"], &["--namespace=market"]);
    check(
        |cluster| cluster.programs = Ok(read(json!([other]))),
        &[],
        "OLM can be replaced; no operator",
    );
}

#[test]
fn what_is_on_its_way_is_waited_for() {
    let phase = |phase: &str| {
        let found = csv("b.v1", &json!({"phase": phase}));
        move |cluster: &mut Migration| cluster.csvs = Ok(read(json!([found])))
    };
    check(
        phase("Installing"),
        &["error ClusterServiceVersion shop/b.v1: it is Installing"],
        "OLM cannot be replaced yet",
    );
    check(
        phase("Failed"),
        &["warning ClusterServiceVersion shop/b.v1: it is Failed"],
        "OLM can",
    );
    let plans = |phase: &str| {
        let found = plan("p", phase);
        move |cluster: &mut Migration| cluster.plans = Ok(read(json!([found])))
    };
    check(
        plans("Installing"),
        &["error InstallPlan shop/p: it is in progress"],
        "OLM cannot be replaced yet",
    );
    check(
        plans(""),
        &["warning InstallPlan shop/p: it has no phase"],
        "OLM can",
    );
}

#[test]
fn changes_are_reported() {
    check(
        |cluster| {
            cluster.catalogs = Ok(read(json!([catalog("c", "internal"), catalog("d", "grpc")])));
        },
        &["warning CatalogSource olm/c: it is a ConfigMap catalog"],
        "OLM can",
    );
    check(
        |cluster| {
            let stored = vec!["v1alpha1".to_owned()];
            cluster.definitions = Ok(vec![("operatorgroups.operators.coreos.com".to_owned(), stored)]);
        },
        &[
            "error CustomResourceDefinition operatorgroups.operators.coreos.com: objects are stored in v1alpha1",
        ],
        "OLM cannot be replaced yet",
    );
    check(
        |cluster| cluster.edits = Err("no right".to_owned()),
        &["not checked whether Deployments match their ClusterServiceVersions: no right"],
        "unknown whether",
    );
}

/// Returns what would be changed in a Deployment.
fn edits_of(metadata: &Value) -> Vec<String> {
    let mut deployment = json!({"metadata": metadata});
    deployment["metadata"]["namespace"] = json!("shop");
    deployment["metadata"]["name"] = json!("d");
    let found = deployments::edits(&serde_json::from_value(deployment).unwrap());
    let found = found.into_iter();
    found
        .map(|edit| format!("{}: {}", edit.object, edit.cause))
        .collect()
}

#[test]
fn edits_that_are_put_back_are_reported_and_others_are_not() {
    let edited = |manager: &str, subresource: &str, spec: Value| {
        let entries = json!([
            {"manager": "olm", "operation": "Update", "fieldsV1": {"f:spec": {"f:template": {"f:spec": {}}}}},
            {"manager": manager, "operation": "Update", "subresource": subresource, "fieldsV1": {"f:spec": spec}}]);
        edits_of(&json!({"labels": {"olm.managed": "true"}, "managedFields": entries}))
    };
    let image = json!({"f:template": {"f:spec": {"f:containers": {}}}});
    assert_eq!(
        edited("kubectl-edit", "", image.clone()),
        [
            "Deployment shop/d: it was changed by hand with kubectl-edit: this OLM restores it from its ClusterServiceVersion, which \
             replaces its pods"
        ]
    );
    let restarted = json!({"f:template": {"f:metadata": {"f:annotations": {".": {}, "f:kubectl.kubernetes.io/restartedAt": {}}}}});
    for (manager, subresource, spec) in [
        ("olm", "", image.clone()),
        ("kube-controller-manager", "", image.clone()),
        ("hpa", "scale", image),
        ("kubectl", "", json!({"f:replicas": {}})),
        ("kubectl-rollout", "", restarted),
    ] {
        assert_eq!(edited(manager, subresource, spec), [""; 0], "{manager}");
    }
    let found = Finding::warning(
        "Deployment shop/d".to_owned(),
        "it was changed by hand",
        "nothing",
    );
    check(
        |cluster| cluster.edits = Ok(vec![found]),
        &["warning Deployment shop/d: it was changed by hand"],
        "OLM can be replaced; the warnings",
    );
}

#[test]
fn a_deployment_without_the_label_that_it_is_found_by_is_reported() {
    let told = "Deployment shop/d: it lacks the label olm.managed=true: this OLM reinstalls it";
    for (labels, expected) in [
        (json!({"olm.managed": "true"}), vec![]),
        (json!({}), vec![told]),
        (json!({"olm.managed": "false"}), vec![told]),
    ] {
        assert_eq!(edits_of(&json!({"labels": labels})), expected, "{labels}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_is_reported() {
    let cluster = olm_testing::cluster::FakeCluster::new();
    let mut broken = csv("b.v1", &json!({"phase": "Succeeded"}));
    broken["spec"] = json!("none");
    broken["apiVersion"] = json!("operators.coreos.com/v1alpha1");
    broken["kind"] = json!("ClusterServiceVersion");
    cluster.put(broken);
    let (client, _link) = cluster.connect();
    let reader = Reader::new(&client, std::time::Duration::from_secs(60));
    let diagnosis = diagnose(&observe(&reader).await);
    let mut findings = diagnosis.findings.iter();
    let found = findings.find(|finding| finding.object == "ClusterServiceVersion shop/b.v1");
    let found = found.map(|finding| finding.severity);
    assert_eq!(found, Some(Severity::Error), "{diagnosis:#?}");
}
