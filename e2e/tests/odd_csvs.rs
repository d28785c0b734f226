//! Unusual ClusterServiceVersions, and clusters in which their requirements do not work: each gets a status, and others are not
//! affected.

use std::collections::BTreeSet;
use std::time::Duration;

use e2e::lab::{Lab, Namespace, operator_group};
use serde_json::{Value, json};
use xtask::kubectl::text;

/// Returns a ClusterServiceVersion for manual creation, without requirements and Deployments.
fn empty_csv(name: &str) -> Value {
    let modes = [
        "OwnNamespace",
        "SingleNamespace",
        "MultiNamespace",
        "AllNamespaces",
    ]
    .map(|mode| json!({"type": mode, "supported": true}));
    json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": name},
        "spec": {"displayName": name, "installModes": modes,
            "install": {"strategy": "deployment", "spec": {"deployments": []}}}})
}

/// Adds one Deployment whose pods need no image of their own; their annotations are those of the ClusterServiceVersion.
fn with_deployment(mut csv: Value, name: &str) -> Value {
    csv["spec"]["install"]["spec"]["deployments"] = json!([{"name": name, "spec": {"replicas": 0,
        "selector": {"matchLabels": {"app": name}}, "template": {"metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "c", "image": "olm.local/demo-operator:1.0.0"}]}}}}]);
    csv
}

fn rows(csv: &Value) -> Vec<String> {
    let rows = csv["status"]["requirementStatus"].as_array();
    rows.into_iter()
        .flatten()
        .map(|row| {
            format!(
                "{} {}: {}",
                text(row, "/name"),
                text(row, "/status"),
                text(row, "/message")
            )
        })
        .collect()
}

fn has_row(csv: &Value, start: &str) -> bool {
    rows(csv).iter().any(|row| row.starts_with(start))
}

fn provided_apis(namespace: &Namespace<'_>) -> anyhow::Result<String> {
    let group = namespace.get("operatorgroup", "group")?.unwrap_or_default();
    Ok(group["metadata"]["annotations"]["olm.providedAPIs"]
        .as_str()
        .unwrap_or_default()
        .to_owned())
}

/// In the list of a group's provided APIs such a version would parse as another API.
#[test]
fn a_version_that_is_none_gets_a_status_and_stays_out_of_the_groups_list() -> anyhow::Result<()> {
    for (name, targets) in [
        ("odd-version-own", &["odd-version-own"][..]),
        ("odd-version-all", &[]),
    ] {
        let namespace = Lab::shared()?.namespace(name)?;
        let mut csv = empty_csv("odd.v1.0.0");
        csv["spec"]["customresourcedefinitions"]["owned"] = json!([{"name": "insgflfzs.cluster.com", "version": "apiextensions.k8s.io/v1alpha1", "kind": "Insgflfz"}]);
        namespace.apply(&[operator_group("group", targets), csv])?;
        // The status is Pending before, while requirements are unknown.
        let found = namespace.wait_for("csv", "odd.v1.0.0", "requirements that are not met", |csv| {
            text(csv, "/status/reason") == "RequirementsNotMet"
        })?;
        assert_eq!(text(&found, "/status/phase"), "Pending");
        assert!(
            has_row(&found, "insgflfzs.cluster.com NotPresent: CRD "),
            "{:?}",
            rows(&found)
        );
        assert_eq!(provided_apis(&namespace)?, "");
    }
    Ok(())
}

/// Names that cannot be part of a request: looking them up failed, and no status was written.
#[test]
fn names_that_nothing_can_have_are_rows() -> anyhow::Result<()> {
    let namespace = Lab::shared()?.namespace("odd-names")?;
    let mut csv = empty_csv("names.v1.0.0");
    let rule = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]});
    csv["spec"]["install"]["spec"]["permissions"] = json!([{"serviceAccountName": "", "rules": [rule]}, {"serviceAccountName": "a b/../c", "rules": [rule]}]);
    csv["spec"]["nativeAPIs"] = json!([{"group": "a b", "version": "v1?x", "kind": "K"}, {"group": "..", "version": "v1", "kind": "K"}]);
    namespace.apply(&[operator_group("group", &[namespace.name()]), csv])?;
    // The rows arrive one by one: native APIs may be looked up when the accounts are already known.
    namespace.wait_for(
        "csv",
        "names.v1.0.0",
        "rows about its accounts and native APIs",
        |csv| {
            [
                "a b/../c NotPresent: Service account does not exist",
                "v1?x.a b NotPresent: Native API does not exist",
            ]
            .iter()
            .all(|row| has_row(csv, row))
        },
    )?;
    Ok(())
}

/// No label accepts such a name, and the missing label must not block its deletion.
#[test]
fn a_name_longer_than_a_label_gets_a_status_and_can_be_deleted() -> anyhow::Result<()> {
    let namespace = Lab::shared()?.namespace("odd-long-name")?;
    let name = format!("{}.v1.0.0", "long-".repeat(14) + "name");
    namespace.apply(&[
        operator_group("group", &[namespace.name()]),
        with_deployment(empty_csv(&name), "odd-long"),
    ])?;
    namespace.wait_for("csv", &name, "a status", |csv| {
        !text(csv, "/status/phase").is_empty()
    })?;
    let deleted =
        Lab::shared()?
            .kubectl()
            .run(&["delete", "csv", &name, "-n", namespace.name(), "--timeout=180s"]);
    deleted.map(drop)
}

/// An aggregated API of a Service without endpoints: its discovery returns 503.
#[test]
fn an_unavailable_aggregated_api_blocks_nothing() -> anyhow::Result<()> {
    let lab = Lab::shared()?;
    let namespace = lab.namespace("odd-dead-api")?;
    let group = "dead.odd-dead-api.example.com";
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "dead"},
        "spec": {"selector": {"app": "nobody"}, "ports": [{"port": 443}]}});
    namespace.apply(&[operator_group("group", &[namespace.name()]), service])?;
    let api_service = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": format!("v1.{group}")}, "spec": {"group": group, "version": "v1", "groupPriorityMinimum": 1000,
            "versionPriority": 15, "insecureSkipTLSVerify": true,
            "service": {"namespace": namespace.name(), "name": "dead", "port": 443}}});
    lab.kubectl().apply(&[api_service])?;
    let remove = || {
        lab.kubectl().run(&[
            "delete",
            "apiservice",
            &format!("v1.{group}"),
            "--ignore-not-found",
        ])
    };
    let verdict = dead_api(&namespace, group);
    // A dead APIService delays the deletion of every namespace.
    remove()?;
    verdict
}

fn dead_api(namespace: &Namespace<'_>, group: &str) -> anyhow::Result<()> {
    let mut native = empty_csv("native.v1.0.0");
    native["spec"]["nativeAPIs"] = json!([{"group": group, "version": "v1", "kind": "Dead"}]);
    let mut required = empty_csv("required.v1.0.0");
    required["spec"]["apiservicedefinitions"]["required"] =
        json!([{"group": group, "version": "v1", "kind": "Dead", "name": "deads"}]);
    namespace.apply(&[native, required])?;
    namespace.wait_for(
        "csv",
        "native.v1.0.0",
        "a row that says what discovery answers",
        |csv| {
            has_row(
                csv,
                &format!("v1.{group} NotPresent: discovery of {group}/v1: the API server answers 503"),
            )
        },
    )?;
    namespace.wait_for(
        "csv",
        "required.v1.0.0",
        "a row that says why it is not available",
        |csv| {
            has_row(
                csv,
                &format!("v1.{group} NotPresent: APIService is not available: "),
            )
        },
    )?;
    // Other operators can be installed beside them.
    namespace.apply(&[with_deployment(empty_csv("other.v1.0.0"), "odd-other")])?;
    namespace.wait_for_phase("other.v1.0.0", "Succeeded")?;
    Ok(())
}

/// A policy of the cluster removes an annotation from the pods; before the fix each cycle wrote two history entries and two
/// events.
#[test]
fn a_deployment_that_a_policy_changes_is_reported_and_does_not_flap() -> anyhow::Result<()> {
    let lab = Lab::shared()?;
    let namespace = lab.namespace("odd-policy")?;
    let policy = json!({"apiVersion": "admissionregistration.k8s.io/v1beta1", "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": "odd-policy"}, "spec": {"failurePolicy": "Fail", "reinvocationPolicy": "Never",
            "matchConstraints": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "odd-policy"}},
                "resourceRules": [{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
                    "resources": ["deployments"]}]},
            "matchConditions": [{"name": "annotated", "expression":
                "has(object.spec.template.metadata.annotations) && 'stripped' in object.spec.template.metadata.annotations"}],
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression":
                "[JSONPatch{op: 'remove', path: '/spec/template/metadata/annotations/stripped'}]"}}]}});
    let binding = json!({"apiVersion": "admissionregistration.k8s.io/v1beta1", "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": "odd-policy"}, "spec": {"policyName": "odd-policy"}});
    lab.kubectl().apply(&[policy, binding])?;
    let verdict = policy_flaps(lab, &namespace);
    for kind in ["mutatingadmissionpolicybinding", "mutatingadmissionpolicy"] {
        lab.kubectl()
            .run(&["delete", kind, "odd-policy", "--ignore-not-found"])?;
    }
    verdict
}

fn policy_flaps(lab: &Lab, namespace: &Namespace<'_>) -> anyhow::Result<()> {
    // Created before the CSV, which would be Failed for a moment if the operator saw the group later.
    namespace.apply(&[operator_group("group", &[namespace.name()])])?;
    // A policy takes effect some time after its creation, so the test waits until a Deployment shows it.
    let probe = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "probe"}, "spec": {"replicas": 0,
        "selector": {"matchLabels": {"app": "probe"}}, "template": {"metadata": {"labels": {"app": "probe"},
            "annotations": {"stripped": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    lab.kubectl()
        .wait("the policy takes effect", e2e::lab::PATIENCE, |_| {
            namespace.apply(std::slice::from_ref(&probe))?;
            let found = namespace.get("deployment", "probe")?.unwrap_or_default();
            let stripped = found["spec"]["template"]["metadata"]["annotations"]["stripped"].is_null();
            lab.kubectl().run(&[
                "delete",
                "deployment",
                "probe",
                "-n",
                namespace.name(),
                "--wait=true",
            ])?;
            Ok(if stripped {
                Ok(())
            } else {
                Err("the annotation stays".to_owned())
            })
        })?;
    let mut csv = with_deployment(empty_csv("policy.v1.0.0"), "odd-policy");
    csv["metadata"]["annotations"] = json!({"stripped": "x"});
    namespace.apply(&[csv])?;
    let told = namespace.wait_for_phase("policy.v1.0.0", "Failed")?;
    assert!(
        text(&told, "/status/message").contains("probably by a policy or a webhook of the cluster"),
        "{}",
        text(&told, "/status/message")
    );
    // The state is stable: the history has no new entries, and nothing is written.
    std::thread::sleep(Duration::from_secs(15));
    let later = namespace.get("csv", "policy.v1.0.0")?.unwrap_or_default();
    assert_eq!(told["status"]["conditions"], later["status"]["conditions"]);
    let versions: BTreeSet<&str> = [&told, &later]
        .map(|csv| text(csv, "/metadata/resourceVersion"))
        .into();
    assert_eq!(versions.len(), 1, "written again");
    Ok(())
}
