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

fn catalog(name: &str, source: &str, state: &str) -> Value {
    json!({"metadata": {"namespace": "olm", "name": name}, "spec": {"sourceType": source},
        "status": {"connectionState": {"lastObservedState": state}}})
}

/// A cluster on which upstream's OLM runs, and nothing is on its way.
fn cluster() -> Migration {
    Migration {
        now: "2026-01-01T00:00:00Z".parse().unwrap(),
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
        catalogs: Ok(read(json!([catalog("cat", "grpc", "READY")]))),
        definitions: Ok(vec![
            (
                "operatorconditions.operators.coreos.com".to_owned(),
                vec!["v1".to_owned(), "v2".to_owned()],
            ),
            ("others.operators.coreos.com".to_owned(), vec!["v9".to_owned()]),
        ]),
        edits: Ok(Vec::new()),
    }
}

/// Severity, object and cause of all that is found, and the verdict.
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
        &["warning Deployment olm-operator: no Deployment"],
        "OLM can be replaced; the warnings",
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
        "not yet",
    );
    // One that is scaled away does nothing.
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
        "not yet",
    );
}

#[test]
fn flags_that_would_be_lost_are_told() {
    let with = |args: &[&str]| {
        let found = program("olm", "olm-operator", 1, &["/bin/olm"], args);
        move |cluster: &mut Migration| cluster.programs = Ok(read(json!([found])))
    };
    check(
        with(&["--watchedNamespaces=a,b"]),
        &["error Deployment olm/olm-operator: --watchedNamespaces is refused"],
        "not yet",
    );
    check(with(&["--watchedNamespaces", ""]), &[], "OLM can");
    check(
        with(&["--bundle-unpack-timeout", "30m", "--writeStatusName=olm"]),
        &[
            "warning Deployment olm/olm-operator: --bundle-unpack-timeout is set, to 30m",
            "warning Deployment olm/olm-operator: --writeStatusName is set, to olm",
        ],
        "OLM can be replaced; the warnings",
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
        "not yet",
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
        &["error InstallPlan shop/p: it is being carried out"],
        "not yet",
    );
    check(
        plans(""),
        &["warning InstallPlan shop/p: it has no phase"],
        "OLM can",
    );
}

#[test]
fn what_would_change_is_told() {
    check(
        |cluster| {
            cluster.catalogs = Ok(read(json!([
                catalog("c", "internal", "READY"),
                catalog("d", "grpc", "CONNECTING")
            ])));
        },
        &[
            "warning CatalogSource olm/c: it is made of a ConfigMap",
            "warning CatalogSource olm/d: it is not READY",
        ],
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
        "not yet",
    );
    check(
        |cluster| {
            cluster.csvs = Ok(read(json!([csv(
                "b.v1",
                &json!({"phase": "Succeeded", "certsRotateAt": "2026-01-01T12:00:00Z"})
            )])));
        },
        &["warning ClusterServiceVersion shop/b.v1: its certificates are renewed"],
        "OLM can",
    );
    check(
        |cluster| cluster.edits = Err("no right".to_owned()),
        &["not checked whether operators run as their authors wrote them: no right"],
        "not known",
    );
}

#[test]
fn edits_that_are_put_back_are_told_and_others_are_not() {
    let edited = |manager: &str, subresource: &str, spec: Value| {
        edit(&serde_json::from_value(json!({"metadata": {"namespace": "shop", "name": "d", "managedFields": [
            {"manager": "olm", "operation": "Update", "fieldsV1": {"f:spec": {"f:template": {"f:spec": {}}}}},
            {"manager": manager, "operation": "Update", "subresource": subresource, "fieldsV1": {"f:spec": spec}}]}}))
        .unwrap())
    };
    let image = json!({"f:template": {"f:spec": {"f:containers": {}}}});
    let found = edited("kubectl-edit", "", image.clone()).unwrap();
    assert_eq!(
        (found.deployment.1.as_str(), found.manager.as_str()),
        ("d", "kubectl-edit")
    );
    let restarted = json!({"f:template": {"f:metadata": {"f:annotations": {".": {}, "f:kubectl.kubernetes.io/restartedAt": {}}}}});
    for (manager, subresource, spec) in [
        ("olm", "", image.clone()),
        ("kube-controller-manager", "", image.clone()),
        ("hpa", "scale", image),
        ("kubectl", "", json!({"f:replicas": {}})),
        ("kubectl-rollout", "", restarted),
    ] {
        assert_eq!(edited(manager, subresource, spec), None, "{manager}");
    }
    check(
        |cluster| cluster.edits = Ok(vec![found]),
        &["warning Deployment shop/d: kubectl-edit changed it by hand"],
        "OLM can be replaced; the warnings",
    );
}
