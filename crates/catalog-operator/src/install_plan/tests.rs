mod cluster;
mod golden;

use std::time::Duration;

use olm_runtime::outcome::FailureClass;
use olm_runtime::plan::Requeue;
use serde_json::{Value, json};

use self::cluster::{Cluster, NAMESPACE, group};
use super::decide;
use super::manifest::ConfigMapReference;
use super::object;
use super::observe::BundleContent;
use crate::bundle_unpack::UnpackedBundle;
use crate::bundle_unpack::content::BundleFile;

const PLAN: &str = "install-1";

fn crd(name: &str) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name, "creationTimestamp": null},
        "spec": {"group": "example.com", "versions": [{"name": "v1", "served": true, "storage": true}]}, "status": {"conditions": null}})
}

#[allow(clippy::needless_pass_by_value)] // Written out in place by every caller.
fn core(kind: &str, name: &str, rest: Value) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
    object
        .as_object_mut()
        .unwrap()
        .extend(rest.as_object().unwrap().clone());
    object
}

fn bundle(name: &str, objects: Vec<Value>) -> UnpackedBundle {
    let rules = json!([{"serviceAccountName": "demo", "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}]);
    let csv = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": name},
        "spec": {"displayName": "Demo", "customresourcedefinitions": {"owned": [{"name": "demos.example.com", "version": "v1", "kind": "Demo"}]},
            "install": {"strategy": "deployment", "spec": {"deployments": [], "permissions": rules, "clusterPermissions": rules}}}});
    let objects = objects
        .into_iter()
        .map(|object| BundleFile {
            name: format!("{}.yaml", object::name(&object)),
            object,
        })
        .collect();
    UnpackedBundle {
        image: format!("r/{name}@sha256:00"),
        csv,
        objects,
    }
}

/// A bundle with something of everything.
fn rich() -> UnpackedBundle {
    bundle(
        "demo.v1",
        vec![
            core("ConfigMap", "config", json!({"data": {"a": "1"}})),
            crd("demos.example.com"),
            core("Secret", "secret", json!({"stringData": {"password": "x"}})),
            core("Service", "service", json!({"spec": {"ports": [{"port": 80}]}})),
            json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "pdb"}, "spec": {"minAvailable": 1}}),
            json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}, "value": 1}),
        ],
    )
}

fn small() -> UnpackedBundle {
    bundle("demo.v1", vec![crd("demos.example.com")])
}

/// Cases 43, 60, 64, 67: two rounds of writes, three writes of the status.
#[test]
fn approved_plan_is_carried_out_with_few_writes() {
    let mut cluster = Cluster::with_plan(&[rich()]);
    cluster.converge(PLAN);
    insta::assert_snapshot!(cluster.writes.join("\n"), @r"
    create ClusterServiceVersion ns/demo.v1 (keep)
    create CustomResourceDefinition demos.example.com
    apply PriorityClass urgent
    create ClusterRole demo.v1-HASH
    create ClusterRoleBinding demo.v1-HASH
    patch InstallPlan ns/install-1 status
    create ConfigMap ns/config
    create Secret ns/secret
    apply Service ns/service
    apply PodDisruptionBudget ns/pdb
    create ServiceAccount ns/demo
    create Role ns/demo.v1-demo-HASH
    create RoleBinding ns/demo.v1-demo-HASH
    patch InstallPlan ns/install-1 status
    ");
    insta::assert_snapshot!(cluster.summary(PLAN), @r"
    Complete -
    Installed=True - -
    ClusterServiceVersion/demo.v1 Created
    ConfigMap/config Created
    CustomResourceDefinition/demos.example.com Created
    BundleSecret/secret Created
    Service/service Created
    PodDisruptionBudget/pdb Created
    PriorityClass/urgent Created
    ServiceAccount/demo Created
    Role/demo.v1-demo-HASH Created
    RoleBinding/demo.v1-demo-HASH Created
    ClusterRole/demo.v1-HASH Created
    ClusterRoleBinding/demo.v1-HASH Created
    ");
}

#[test]
fn every_object_carries_label_namespace_and_owner() {
    let mut cluster = Cluster::with_plan(&[rich()]);
    cluster.converge(PLAN);
    let uid = cluster.objects["ClusterServiceVersion ns/demo.v1"]["metadata"]["uid"].clone();
    for (key, object) in cluster
        .objects
        .iter()
        .filter(|(key, _)| !key.starts_with("InstallPlan"))
    {
        assert_eq!(object["metadata"]["labels"]["olm.managed"], "true", "{key}");
        let kind = object::kind(object);
        match kind {
            "ClusterServiceVersion" => {}
            "CustomResourceDefinition" => {
                assert_eq!(
                    super::crd_upgrade::installed_alongside(object).collect::<Vec<_>>(),
                    ["ns/demo.v1"]
                );
                assert!(object::owner_references(object).is_empty());
            }
            "PriorityClass" | "ClusterRole" | "ClusterRoleBinding" => {
                let labels = &object["metadata"]["labels"];
                assert_eq!(
                    (&labels["olm.owner"], &labels["olm.owner.namespace"]),
                    (&json!("demo.v1"), &json!(NAMESPACE)),
                    "{key}"
                );
            }
            _ => {
                let [owner] = object::owner_references(object) else {
                    panic!("{key}: {object}")
                };
                assert_eq!(
                    (&owner["name"], &owner["uid"]),
                    (&json!("demo.v1"), &uid),
                    "{key}"
                );
            }
        }
    }
    let csv = &cluster.objects["ClusterServiceVersion ns/demo.v1"];
    assert_eq!(csv["spec"]["replaces"], "demo.v0");
    assert_eq!(
        csv["metadata"]["annotations"]["operatorframework.io/properties"],
        r#"{"properties":[{"type":"olm.package","value":{"packageName":"demo","version":"1.0.0"}}]}"#
    );
    assert_eq!(
        cluster.objects["Secret ns/secret"]["data"],
        json!({"password": "eA=="})
    );
}

/// Law: deciding on the converged state gives an empty plan, and carrying out everything once more as well.
#[test]
fn converged_plan_is_at_rest() {
    let mut cluster = Cluster::with_plan(&[rich()]);
    cluster.converge(PLAN);
    let writes = cluster.writes.len();
    assert!(decide::decide(&cluster.observed(PLAN)).0.is_empty());
    assert_eq!(cluster.round(PLAN), (false, Requeue::AwaitChange));
    // The same plan again, as after a restore: everything is found as it should be.
    let status = &mut cluster.plan_mut(PLAN)["status"];
    status["phase"] = "Installing".into();
    status["plan"]
        .as_array_mut()
        .unwrap()
        .iter_mut()
        .for_each(|step| step["status"] = "Unknown".into());
    cluster.writes.clear();
    cluster.converge(PLAN);
    let repeated: Vec<_> = cluster
        .writes
        .iter()
        .filter(|write| !write.starts_with("apply") && !write.contains("InstallPlan"))
        .collect();
    assert!(repeated.is_empty(), "{repeated:?} of {writes}");
    assert!(cluster.summary(PLAN).starts_with("Complete"));
}

/// Law: killed after any write and started again, the plan ends in the same state.
#[test]
fn plan_killed_after_any_write_converges() {
    let upgrade = |cluster: &mut Cluster| {
        let mut new = bundle(
            "demo.v2",
            vec![
                core("ConfigMap", "config", json!({"data": {"b": "2"}})),
                crd("demos.example.com"),
            ],
        );
        new.objects[1].object["spec"]["versions"][0]["schema"] =
            json!({"openAPIV3Schema": {"type": "object"}});
        cluster.add_plan("install-2", &[new]);
    };
    let mut reference = Cluster::with_plan(&[rich()]);
    reference.converge(PLAN);
    upgrade(&mut reference);
    reference.converge("install-2");
    let total = reference.writes.len();
    assert!(reference.summary("install-2").starts_with("Complete"));
    for killed_after in 0..total {
        let mut cluster = Cluster::with_plan(&[rich()]);
        cluster.budget = Some(killed_after);
        for name in [PLAN, "install-2"] {
            if name != PLAN {
                upgrade(&mut cluster);
            }
            for _ in 0..20 {
                cluster.round(name);
                if cluster.budget == Some(0) {
                    cluster.budget = None;
                }
            }
        }
        assert_eq!(
            cluster.state(),
            reference.state(),
            "killed after write {killed_after}"
        );
        // A write whose status was lost is found, not repeated; only applies are sent again.
        let creates = |cluster: &Cluster| {
            cluster
                .writes
                .iter()
                .filter(|write| write.starts_with("create"))
                .count()
        };
        assert_eq!(
            creates(&cluster),
            creates(&reference),
            "killed after write {killed_after}"
        );
    }
}

/// Case 53.
#[test]
fn plan_waits_for_approval() {
    let mut cluster = Cluster::with_plan(&[small()]);
    cluster.plan_mut(PLAN)["status"]["phase"] = "RequiresApproval".into();
    cluster.plan_mut(PLAN)["spec"]["approved"] = false.into();
    assert_eq!(cluster.round(PLAN), (false, Requeue::AwaitChange));
    cluster.plan_mut(PLAN)["spec"]["approved"] = true.into();
    cluster.converge(PLAN);
    assert!(cluster.summary(PLAN).starts_with("Complete"));
}

/// W1: Complete only when the API is served; until then the status names what is missing.
#[test]
fn plan_is_not_complete_before_its_crd_is_served() {
    let mut cluster = Cluster::with_plan(&[small()]);
    cluster.establishes = false;
    cluster.converge(PLAN);
    insta::assert_snapshot!(cluster.summary(PLAN), @r"
    Installing waiting for CustomResourceDefinition demos.example.com to be established
    ClusterServiceVersion/demo.v1 Created
    CustomResourceDefinition/demos.example.com WaitingForApi
    ServiceAccount/demo Created
    Role/demo.v1-demo-HASH Created
    RoleBinding/demo.v1-demo-HASH Created
    ClusterRole/demo.v1-HASH Created
    ClusterRoleBinding/demo.v1-HASH Created
    ");
    cluster.establish();
    cluster.converge(PLAN);
    assert!(
        cluster
            .summary(PLAN)
            .starts_with("Complete -\nInstalled=True - -"),
        "{}",
        cluster.summary(PLAN)
    );
}

#[test]
fn crd_that_vanishes_while_waited_for_is_made_again() {
    let mut cluster = Cluster::with_plan(&[small()]);
    cluster.establishes = false;
    cluster.converge(PLAN);
    cluster
        .objects
        .remove("CustomResourceDefinition demos.example.com");
    cluster.establishes = true;
    cluster.converge(PLAN);
    assert!(cluster.summary(PLAN).starts_with("Complete"));
    assert!(
        cluster
            .objects
            .contains_key("CustomResourceDefinition demos.example.com")
    );
}

/// Case 52, IP-014, IP-015, IP-017: nothing is created, the condition says why, and a valid group clears it.
#[test]
fn groups_that_do_not_fit_stop_the_plan() {
    let named = group(
        json!({"serviceAccountName": "scoped"}),
        json!({"namespaces": [NAMESPACE]}),
    );
    let two = vec![
        group(json!({}), json!({"namespaces": ["a"]})),
        group(json!({}), json!({"namespaces": ["b"]})),
    ];
    let rows = [
        (vec![], "no operator group found that is managing this namespace"),
        (
            vec![group(json!({}), json!({}))],
            "no operator group found that is managing this namespace",
        ),
        (
            two,
            "more than one operator group(s) are managing this namespace count=2",
        ),
        (
            vec![named],
            "please make sure the service account exists. sa=scoped operatorgroup=ns/og",
        ),
    ];
    for (groups, text) in rows {
        let mut cluster = Cluster::with_plan(&[small()]);
        let good = std::mem::replace(&mut cluster.groups, groups);
        cluster.converge(PLAN);
        assert_eq!(cluster.writes, ["patch InstallPlan ns/install-1 status"]);
        let summary = cluster.summary(PLAN);
        assert!(
            summary.starts_with(&format!(
                "Installing -\nInstalled=False InstallCheckFailed {text}\n"
            )),
            "{summary}"
        );
        cluster.groups = good;
        cluster.converge(PLAN);
        assert!(
            cluster
                .summary(PLAN)
                .starts_with("Complete -\nInstalled=True - -")
        );
    }
}

/// §5.4 step 3: the failed check is over although the plan still waits.
#[test]
fn check_that_no_longer_fails_leaves_reason_unknown() {
    let mut cluster = Cluster::with_plan(&[small()]);
    cluster.plan_mut(PLAN)["status"]["phase"] = "RequiresApproval".into();
    cluster.plan_mut(PLAN)["spec"]["approved"] = false.into();
    let good = std::mem::take(&mut cluster.groups);
    cluster.converge(PLAN);
    cluster.groups = good;
    cluster.converge(PLAN);
    assert!(
        cluster
            .summary(PLAN)
            .starts_with("RequiresApproval -\nInstalled=False Unknown -"),
        "{}",
        cluster.summary(PLAN)
    );
}

/// Case 54: a lasting error is retried for the window, then the plan fails.
#[test]
fn lasting_error_fails_the_plan_after_the_window() {
    let mut cluster = Cluster::with_plan(&[small()]);
    cluster
        .refused
        .insert("create ClusterServiceVersion".into(), FailureClass::Invalid);
    let (_, requeue) = cluster.round(PLAN);
    assert_eq!(
        requeue,
        Requeue::After {
            delay: Duration::from_secs(5),
            reason: "retry of a failed step"
        }
    );
    let message = "error creating csv demo.v1: server says Invalid";
    assert!(
        cluster.summary(PLAN).starts_with(&format!(
            "Installing retrying execution due to error: {message}\nClusterServiceVersion/demo.v1 Unknown"
        )),
        "{}",
        cluster.summary(PLAN)
    );
    assert_eq!(cluster.plan(PLAN)["status"]["startTime"], "2027-01-15T08:00:00Z");
    cluster.now += Duration::from_secs(58);
    let (_, requeue) = cluster.round(PLAN);
    assert_eq!(
        requeue,
        Requeue::After {
            delay: Duration::from_secs(2),
            reason: "retry of a failed step"
        }
    );
    cluster.now += Duration::from_secs(2);
    cluster.round(PLAN);
    assert!(
        cluster.summary(PLAN).starts_with(&format!(
            "Failed {message}\nInstalled=False InstallComponentFailed {message}"
        )),
        "{}",
        cluster.summary(PLAN)
    );
}

/// Decision 7 and case 73: what may pass never makes a plan fail, and the same plan completes once it has passed.
#[test]
fn passing_errors_never_fail_the_plan() {
    for class in [
        FailureClass::Retry,
        FailureClass::Forbidden,
        FailureClass::Terminating,
    ] {
        for refused in [
            "create ClusterServiceVersion",
            "create CustomResourceDefinition",
            "create ServiceAccount",
            "create ClusterRole ",
        ] {
            let mut cluster = Cluster::with_plan(&[small()]);
            cluster.refused.insert(refused.into(), class);
            cluster.converge(PLAN);
            cluster.now += Duration::from_secs(86_400);
            cluster.round(PLAN);
            let summary = cluster.summary(PLAN);
            assert!(
                summary.starts_with("Installing retrying execution due to error: error creating "),
                "{class:?} {summary}"
            );
            assert!(!summary.contains("Installed="), "{class:?} {summary}");
            let writes = cluster.writes.len();
            cluster.round(PLAN);
            assert_eq!(cluster.writes.len(), writes, "the same error is told once");
            cluster.refused.clear();
            cluster.converge(PLAN);
            assert!(cluster.summary(PLAN).starts_with("Complete"), "{class:?}");
        }
    }
}

/// An observation that is out of date is made anew and told to nobody.
#[test]
fn stale_observation_is_no_error() {
    for class in [FailureClass::Conflict, FailureClass::AlreadyExists] {
        let mut cluster = Cluster::with_plan(&[small()]);
        cluster.refused.insert("create ServiceAccount".into(), class);
        cluster.converge(PLAN);
        cluster.now += Duration::from_secs(86_400);
        let (_, requeue) = cluster.round(PLAN);
        assert_eq!(
            requeue,
            Requeue::After {
                delay: Duration::from_millis(100),
                reason: "an object had changed"
            }
        );
        assert!(
            cluster.summary(PLAN).starts_with("Installing -\n"),
            "{}",
            cluster.summary(PLAN)
        );
        cluster.refused.clear();
        cluster.converge(PLAN);
        assert!(cluster.summary(PLAN).starts_with("Complete"), "{class:?}");
    }
}

/// What is on its way out is waited for instead of changed.
#[test]
fn object_being_deleted_is_waited_out() {
    for name in [
        "CustomResourceDefinition demos.example.com",
        "ServiceAccount ns/demo",
    ] {
        let mut cluster = Cluster::with_plan(&[small()]);
        cluster.converge(PLAN);
        let mut going = cluster.objects[name].clone();
        going["metadata"]["deletionTimestamp"] = "2027-01-15T08:00:00Z".into();
        let mut cluster = Cluster::with_plan(&[small()]);
        cluster.put(going);
        cluster.converge(PLAN);
        let summary = cluster.summary(PLAN);
        assert!(
            summary.contains("which is being deleted, to be gone"),
            "{summary}"
        );
        assert!(matches!(cluster.round(PLAN), (false, Requeue::After { .. })));
        cluster.objects.remove(name);
        cluster.converge(PLAN);
        assert!(
            cluster.summary(PLAN).starts_with("Complete"),
            "{}",
            cluster.summary(PLAN)
        );
    }
}

/// Case 55: an owner that does not exist fails the plan after the window, or the plan completes when it comes in time.
#[test]
fn missing_owner_is_waited_for_within_the_window() {
    let inline = |cluster: &mut Cluster| {
        let manifest = core("ConfigMap", "config", json!({"data": {}})).to_string();
        cluster.plan_mut(PLAN)["status"]["plan"] = json!([{"resolving": "demo.v1", "status": "Unknown",
            "resource": {"sourceName": "", "sourceNamespace": "", "group": "", "version": "v1", "kind": "ConfigMap", "name": "config", "manifest": manifest}}]);
    };
    let text = "error generating ownerrefs for configmap: config: clusterserviceversions.operators.coreos.com \"demo.v1\" not found";
    let mut cluster = Cluster::with_plan(&[small()]);
    inline(&mut cluster);
    cluster.converge(PLAN);
    assert!(
        cluster
            .summary(PLAN)
            .starts_with(&format!("Installing retrying execution due to error: {text}")),
        "{}",
        cluster.summary(PLAN)
    );
    let mut csv = small().csv;
    csv["metadata"]["namespace"] = NAMESPACE.into();
    cluster.put(csv);
    cluster.converge(PLAN);
    assert!(
        cluster.summary(PLAN).starts_with("Complete"),
        "{}",
        cluster.summary(PLAN)
    );

    let mut cluster = Cluster::with_plan(&[small()]);
    inline(&mut cluster);
    cluster.round(PLAN);
    cluster.now += Duration::from_secs(60);
    cluster.round(PLAN);
    assert!(cluster.summary(PLAN).starts_with(&format!("Failed {text}")));
}

/// Case 56.
#[test]
fn plan_without_steps_or_lookups_is_ignored() {
    let mut cluster = Cluster::with_plan(&[]);
    assert_eq!(cluster.round(PLAN), (false, Requeue::AwaitChange));
}

/// Case 63: nothing behind the unsupported step is done.
#[test]
fn unsupported_kind_is_marked() {
    let mut cluster = Cluster::with_plan(&[bundle("demo.v1", vec![core("Pod", "pod", json!({}))])]);
    cluster.converge(PLAN);
    insta::assert_snapshot!(cluster.summary(PLAN), @r"
    Installing retrying execution due to error: the InstallPlan contains invalid data
    ClusterServiceVersion/demo.v1 Created
    Pod/pod UnsupportedResource
    ServiceAccount/demo Unknown
    Role/demo.v1-demo-HASH Unknown
    RoleBinding/demo.v1-demo-HASH Unknown
    ClusterRole/demo.v1-HASH Unknown
    ClusterRoleBinding/demo.v1-HASH Unknown
    ");
    cluster.now += Duration::from_secs(60);
    cluster.round(PLAN);
    assert!(
        cluster.summary(PLAN).starts_with(
            "Failed the InstallPlan contains invalid data\nInstalled=False InstallComponentFailed"
        )
    );
}

/// Case 65.
#[test]
fn missing_api_is_told_and_waited_for() {
    let scaler = json!({"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "metadata": {"name": "vpa"}});
    let mut cluster = Cluster::with_plan(&[bundle("demo.v1", vec![scaler])]);
    cluster.converge(PLAN);
    let summary = cluster.summary(PLAN);
    insta::assert_snapshot!(summary.lines().next().unwrap(), @"Installing retrying execution due to error: api-server resource not found installing VerticalPodAutoscaler vpa: GroupVersionKind autoscaling.k8s.io/v1, Kind=VerticalPodAutoscaler not found on the cluster. This API may have been deprecated and removed, see https://kubernetes.io/docs/reference/using-api/deprecation-guide/ for more information.");
    cluster.served.push(("VerticalPodAutoscaler", true));
    cluster.converge(PLAN);
    assert!(cluster.summary(PLAN).starts_with("Complete"));
}

/// A CRD that no server takes is told before anything is applied.
#[test]
fn old_crd_stops_the_plan_before_anything_is_applied() {
    let mut old = crd("demos.example.com");
    old["apiVersion"] = "apiextensions.k8s.io/v1beta1".into();
    let mut cluster = Cluster::with_plan(&[bundle("demo.v1", vec![old.clone()])]);
    cluster.converge(PLAN);
    assert_eq!(cluster.writes, ["patch InstallPlan ns/install-1 status"]);
    assert!(
        cluster.summary(PLAN).contains(
            "GroupVersionKind apiextensions.k8s.io/v1beta1, Kind=CustomResourceDefinition not found"
        ),
        "{}",
        cluster.summary(PLAN)
    );
    old["apiVersion"] = "apiextensions.k8s.io/v2".into();
    let mut cluster = Cluster::with_plan(&[bundle("demo.v1", vec![old])]);
    cluster.converge(PLAN);
    assert!(
        cluster
            .summary(PLAN)
            .contains("CRD APIVersion from manifest not supported: v2"),
        "{}",
        cluster.summary(PLAN)
    );
}

/// Case 70.
#[test]
fn crd_that_would_lose_data_is_not_touched() {
    let mut cluster = Cluster::with_plan(&[small()]);
    let mut existing = crd("demos.example.com");
    existing["status"] = json!({"storedVersions": ["v1alpha1", "v1"], "conditions": []});
    cluster.put(existing);
    cluster.converge(PLAN);
    assert!(
        cluster
            .summary(PLAN)
            .contains("risk of data loss updating \"demos.example.com\": new CRD removes version v1alpha1"),
        "{}",
        cluster.summary(PLAN)
    );
    assert!(
        !cluster
            .writes
            .iter()
            .any(|write| write.contains("CustomResourceDefinition"))
    );
}

/// Case 67: a second operator's plan only adds its note to a CRD that is the same.
#[test]
fn shared_crd_gets_a_second_note() {
    let mut cluster = Cluster::with_plan(&[small()]);
    cluster.converge(PLAN);
    cluster.writes.clear();
    cluster.add_plan("install-2", &[bundle("other.v1", vec![crd("demos.example.com")])]);
    cluster.converge("install-2");
    let crd = &cluster.objects["CustomResourceDefinition demos.example.com"];
    let mut noted: Vec<_> = super::crd_upgrade::installed_alongside(crd).collect();
    noted.sort_unstable();
    assert_eq!(noted, ["ns/demo.v1", "ns/other.v1"]);
    assert!(
        cluster
            .summary("install-2")
            .contains("CustomResourceDefinition/demos.example.com Present")
    );
}

/// Cases 57 and 43: pull secrets are copied, bundles in ConfigMaps of upstream are understood.
#[test]
fn pull_secret_is_copied_or_missed() {
    let mut cluster = Cluster::with_plan(&[small()]);
    cluster.plan_mut(PLAN)["status"]["plan"] = json!([{"resolving": "demo.v1", "status": "Unknown",
        "resource": {"sourceName": "", "sourceNamespace": "", "group": "", "version": "v1", "kind": "Secret", "name": "s", "manifest": "{}"}}]);
    cluster.converge(PLAN);
    assert!(
        cluster
            .summary(PLAN)
            .contains("secret s does not exist - secrets \"s\" not found"),
        "{}",
        cluster.summary(PLAN)
    );
    cluster.put(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "olm", "annotations": {"x": "y"}}, "type": "t", "data": {"k": "dg=="}}));
    cluster.converge(PLAN);
    assert_eq!(cluster.objects["Secret ns/s"]["data"], json!({"k": "dg=="}));
    assert_eq!(cluster.objects["Secret ns/s"]["type"], "t");
}

#[test]
fn upstreams_references_are_carried_out() {
    let bundle = small();
    let text = |object: &Value| object.to_string();
    let mut cluster = Cluster::with_plan(std::slice::from_ref(&bundle));
    let reference = json!({"kind": "ConfigMap", "name": "18", "namespace": NAMESPACE, "catalogSourceName": "cat", "catalogSourceNamespace": NAMESPACE,
        "replaces": "demo.v0", "properties": r#"{"properties":[{"type":"olm.package","value":{"packageName":"demo","version":"1.0.0"}}]}"#}).to_string();
    assert!(serde_json::from_str::<ConfigMapReference>(&reference).is_ok());
    for step in cluster.plan_mut(PLAN)["status"]["plan"].as_array_mut().unwrap() {
        step["resource"]["manifest"] = reference.clone().into();
    }
    cluster.converge(PLAN);
    assert!(
        cluster
            .summary(PLAN)
            .contains("error finding unpacked bundle configmap for ref ns/18"),
        "{}",
        cluster.summary(PLAN)
    );
    cluster.put(
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "18", "namespace": NAMESPACE},
        "data": {"csv.yaml": text(&bundle.csv), "crd.yaml": text(&bundle.objects[0].object)}}),
    );
    cluster.converge(PLAN);
    assert!(
        cluster.summary(PLAN).starts_with("Complete"),
        "{}",
        cluster.summary(PLAN)
    );
    assert_eq!(
        cluster.objects["ClusterServiceVersion ns/demo.v1"]["spec"]["replaces"],
        "demo.v0"
    );
}

/// A bundle that has to be fetched again is waited for; one that cannot be had is told.
#[test]
fn bundle_content_is_waited_for() {
    let mut cluster = Cluster::with_plan(&[small()]);
    let image = small().image;
    let ready = cluster
        .bundles
        .insert(
            image.clone(),
            BundleContent::Fetching {
                message: "fetching bundle image i".into(),
                quiet: None,
            },
        )
        .unwrap();
    assert_eq!(cluster.round(PLAN).1, Requeue::AwaitChange);
    assert!(
        cluster
            .summary(PLAN)
            .starts_with("Installing fetching bundle image i\n")
    );
    cluster.bundles.insert(
        image.clone(),
        BundleContent::Failed {
            message: "registry refuses".into(),
            lasting: false,
        },
    );
    cluster.now += Duration::from_secs(3600);
    cluster.round(PLAN);
    assert!(
        cluster
            .summary(PLAN)
            .starts_with("Installing retrying execution due to error: registry refuses")
    );
    cluster.bundles.insert(image, ready);
    cluster.converge(PLAN);
    assert!(cluster.summary(PLAN).starts_with("Complete"));
}

/// A bundle that is there in a moment costs no status.
#[test]
fn short_fetch_is_not_told() {
    let mut cluster = Cluster::with_plan(&[small()]);
    let quiet = Some(Duration::from_secs(2));
    let ready = cluster
        .bundles
        .insert(
            small().image,
            BundleContent::Fetching {
                message: "m".into(),
                quiet,
            },
        )
        .unwrap();
    assert_eq!(
        cluster.round(PLAN),
        (
            false,
            Requeue::After {
                delay: Duration::from_secs(2),
                reason: "tell what is being fetched"
            }
        )
    );
    cluster.bundles.insert(small().image, ready);
    cluster.converge(PLAN);
    assert!(cluster.summary(PLAN).starts_with("Complete"));
}

/// Two operators in one plan: both get their ClusterServiceVersion in the first round. What both bring, here their
/// ServiceAccount, is made once and shared.
#[test]
fn operators_of_one_plan_may_share_a_service_account() {
    let mut cluster = Cluster::with_plan(&[
        bundle("demo.v1", vec![crd("demos.example.com")]),
        bundle("upper.v1", vec![crd("uppers.example.com")]),
    ]);
    for _ in 0..4 {
        cluster.round(PLAN);
        assert!(
            !cluster.summary(PLAN).contains("retrying"),
            "{}",
            cluster.summary(PLAN)
        );
    }
    assert_eq!(
        cluster
            .writes
            .iter()
            .filter(|write| write.contains("InstallPlan"))
            .count(),
        3
    );
    assert!(cluster.summary(PLAN).starts_with("Complete"));
    let owners = object::owner_references(&cluster.objects["ServiceAccount ns/demo"])
        .iter()
        .map(|owner| owner["name"].clone());
    assert_eq!(owners.collect::<Vec<_>>(), ["demo.v1", "upper.v1"]);
}

/// Upstream's generated Subscription lacks type and namespace labels; golden/06-dependency.
#[test]
fn generated_subscription_says_who_made_it() {
    let mut cluster = Cluster::with_plan(&[small()]);
    let manifest = r#"{"metadata":{"name":"demo-stable-cat-ns","namespace":"ns"},"spec":{"source":"cat","sourceNamespace":"ns","name":"demo","channel":"stable","startingCSV":"demo.v1","installPlanApproval":"Automatic"},"status":{"lastUpdated":null}}"#;
    let step = json!({"resolving": "demo.v1", "status": "Unknown", "resource": {"sourceName": "cat", "sourceNamespace": "ns",
        "group": "operators.coreos.com", "version": "v1alpha1", "kind": "Subscription", "name": "demo-stable-cat-ns", "manifest": manifest}});
    cluster.plan_mut(PLAN)["status"]["plan"]
        .as_array_mut()
        .unwrap()
        .insert(0, step);
    cluster.converge(PLAN);
    let subscription = &cluster.objects["Subscription ns/demo-stable-cat-ns"];
    assert_eq!(
        subscription["metadata"]["annotations"],
        json!({"olm.generated-by": PLAN})
    );
    assert_eq!(subscription["metadata"]["labels"], json!({"olm.managed": "true"}));
    assert!(subscription.get("status").is_none() && object::owner_references(subscription).is_empty());
}

/// Cases 73 and 74: everything but CustomResourceDefinitions is written in the ServiceAccount's name.
#[test]
fn scoped_plan_is_written_in_the_service_accounts_name() {
    let mut cluster = Cluster::with_plan(&[rich()]);
    let reference = json!({"kind": "ServiceAccount", "name": "scoped", "namespace": NAMESPACE});
    cluster.groups = vec![group(
        json!({"serviceAccountName": "scoped"}),
        json!({"namespaces": [NAMESPACE], "serviceAccountRef": reference}),
    )];
    cluster.converge(PLAN);
    for write in cluster
        .writes
        .iter()
        .filter(|write| !write.contains("InstallPlan") && !write.contains("CustomResourceDefinition"))
    {
        assert!(write.ends_with("as ns/scoped"), "{write}");
    }
    assert!(
        cluster
            .writes
            .contains(&"create CustomResourceDefinition demos.example.com".to_owned())
    );
    assert_eq!(
        cluster.plan(PLAN)["status"]["attenuatedServiceAccountRef"],
        reference
    );
    assert!(cluster.summary(PLAN).starts_with("Complete"));
}

/// Case 72.
#[test]
fn csv_nobody_asked_for_does_not_take_an_api_away() {
    let mut cluster = Cluster::with_plan(&[small()]);
    cluster.plan_mut(PLAN)["spec"]["clusterServiceVersionNames"] = json!([]);
    let other = |name: &str| {
        let mut csv = bundle(name, vec![]).csv;
        csv["metadata"]["namespace"] = NAMESPACE.into();
        csv
    };
    cluster.put(other("other.v1"));
    cluster.converge(PLAN);
    assert!(
        cluster
            .summary(PLAN)
            .contains("pre-existing CRD owners found for owned CRD(s) of dependent CSV demo.v1"),
        "{}",
        cluster.summary(PLAN)
    );
    cluster.put(other("third.v1"));
    cluster.converge(PLAN);
    let text = "error checking crd owners for: demo.v1: Existing CSVs [other.v1 third.v1] in namespace ns all claim to own CRD demos.example.com";
    assert!(cluster.summary(PLAN).contains(text), "{}", cluster.summary(PLAN));
}

/// Bundles often bring the ServiceAccount their permissions imply: one write for both steps, no further round.
#[test]
fn service_account_brought_twice_is_made_once() {
    let objects = vec![
        crd("demos.example.com"),
        core("ServiceAccount", "demo", json!({})),
    ];
    let mut cluster = Cluster::with_plan(&[bundle("demo.v1", objects)]);
    cluster.converge(PLAN);
    assert_eq!(
        cluster
            .writes
            .iter()
            .filter(|write| write.contains("ServiceAccount"))
            .count(),
        1
    );
    assert_eq!(
        cluster
            .writes
            .iter()
            .filter(|write| write.contains("InstallPlan"))
            .count(),
        2
    );
    assert!(cluster.summary(PLAN).starts_with("Complete"));
}

/// A namesake on its way out would take what it owns along.
#[test]
fn csv_being_deleted_is_waited_out() {
    let mut cluster = Cluster::with_plan(&[small()]);
    let mut csv = small().csv;
    csv["metadata"]["namespace"] = NAMESPACE.into();
    csv["metadata"]["deletionTimestamp"] = "2027-01-15T08:00:00Z".into();
    cluster.put(csv);
    cluster.converge(PLAN);
    assert!(
        cluster
            .summary(PLAN)
            .starts_with("Installing waiting for ClusterServiceVersion demo.v1, which is being deleted")
    );
    cluster.objects.remove("ClusterServiceVersion ns/demo.v1");
    cluster.converge(PLAN);
    assert!(cluster.summary(PLAN).starts_with("Complete"));
}

/// Bundles with an older version of a kind are written with the one that is served.
#[test]
fn old_version_of_a_known_kind_is_written_as_the_served_one() {
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1beta1", "kind": "Role", "metadata": {"name": "r"}, "rules": []});
    let mut cluster = Cluster::with_plan(&[bundle("demo.v1", vec![role])]);
    cluster.converge(PLAN);
    assert_eq!(
        cluster.objects["Role ns/r"]["apiVersion"],
        "rbac.authorization.k8s.io/v1"
    );
    assert!(cluster.summary(PLAN).starts_with("Complete"));
}
