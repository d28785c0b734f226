//! The writes of a plan that may continue, their number, and the identity that makes them.

use olm_testing::cluster::{Fault, Refusal};

use super::*;

/// Two reconciles with writes, one write of the status.
#[test]
fn arch_005_ip_006_approved_plan_is_carried_out_with_few_writes() {
    let mut env = TestEnv::with_plan(&[rich()]);
    env.converge();
    insta::assert_snapshot!(env.writes.join("\n"), @r"
    create ClusterServiceVersion ns/demo.v1
    create CustomResourceDefinition demos.example.com
    create PriorityClass urgent
    create ClusterRole demo.v1-HASH
    create ClusterRoleBinding demo.v1-HASH
    create ConfigMap ns/config
    create Secret ns/secret
    create Service ns/service
    create PodDisruptionBudget ns/pdb
    create ServiceAccount ns/demo
    create Role ns/demo.v1-demo-HASH
    create RoleBinding ns/demo.v1-demo-HASH
    patch InstallPlan ns/install-1 status
    ");
    insta::assert_snapshot!(env.summary(PLAN), @r"
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
fn ip_007_ip_008_a_plan_that_is_done_says_since_when() {
    let mut env = TestEnv::with_plan(&[small()]);
    env.converge();
    let status = &env.plan(PLAN)["status"];
    let [condition] = &status["conditions"].as_array().unwrap()[..] else {
        panic!("{status}");
    };
    assert_eq!(
        (&condition["type"], &condition["status"]),
        (&json!("Installed"), &json!("True"))
    );
    for field in ["lastTransitionTime", "lastUpdateTime"] {
        assert!(
            condition[field]
                .as_str()
                .is_some_and(|time| time.starts_with("2026-01-01T")),
            "{condition}"
        );
    }
    assert!(status["catalogSources"].is_array());
}

#[test]
fn ocp_001_every_object_carries_label_namespace_and_owner() {
    let mut env = TestEnv::with_plan(&[rich()]);
    env.converge();
    let uid = env.object("ClusterServiceVersion ns/demo.v1")["metadata"]["uid"].clone();
    let ours =
        |object: &&Value| !["InstallPlan", "Namespace", "OperatorGroup"].contains(&object::kind(object));
    for object in env.objects().iter().filter(ours) {
        let (key, kind) = (test_env::key(object), object::kind(object));
        assert_eq!(object["metadata"]["labels"]["olm.managed"], "true", "{key}");
        match kind {
            "ClusterServiceVersion" => {}
            "CustomResourceDefinition" => {
                assert_eq!(
                    super::super::crd_upgrade::installed_alongside(object).collect::<Vec<_>>(),
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
    let csv = env.object("ClusterServiceVersion ns/demo.v1");
    assert_eq!(csv["spec"]["replaces"], "demo.v0");
    assert_eq!(
        csv["metadata"]["annotations"]["operatorframework.io/properties"],
        r#"{"properties":[{"type":"olm.package","value":{"packageName":"demo","version":"1.0.0"}}]}"#
    );
    assert_eq!(
        env.object("Secret ns/secret")["data"],
        json!({"password": "eA=="})
    );
}

/// What olm-operator would otherwise write first of all, for each install. Where it is not sure nothing is said.
#[test]
fn a_new_csv_says_from_the_beginning_of_which_group_it_is() {
    let made = |targets: &[&str], second: bool| {
        let mut env = TestEnv::with_plan(&[small()]);
        let mut og = group(json!({}), json!({"namespaces": targets}));
        let name = og["metadata"]["name"].clone();
        env.put(og.clone());
        if second {
            og["metadata"]["name"] = json!("second");
            og["status"] = json!({});
            env.put(og);
        }
        env.converge();
        let metadata = env.object("ClusterServiceVersion ns/demo.v1")["metadata"].clone();
        let annotation = |key: &str| metadata["annotations"][key].as_str().map(str::to_owned);
        let of_group = annotation("olm.operatorGroup");
        assert_eq!(of_group.is_some(), of_group.as_deref() == name.as_str());
        (
            of_group.is_some(),
            annotation("olm.operatorNamespace"),
            annotation("olm.targetNamespaces"),
            metadata["finalizers"].clone(),
        )
    };
    let finalizers = json!(["operators.coreos.com/csv-cleanup"]);
    let own = Some("ns".to_owned());
    for (targets, text) in [
        (&["ns"][..], "ns"),
        (&["two", "ns", "one"], "ns,one,two"),
        (&[""], ""),
    ] {
        let expected = (true, own.clone(), Some(text.to_owned()), finalizers.clone());
        assert_eq!(made(targets, false), expected, "{targets:?}");
    }
    assert_eq!(
        made(&["ns"], true),
        (false, None, None, Value::Null),
        "two groups"
    );
}

/// Pull secrets are copied, bundles in ConfigMaps of upstream are understood.
#[test]
fn pull_secret_is_copied_or_missed() {
    let mut env = TestEnv::with_plan(&[small()]);
    let step = json!([{"resolving": "demo.v1", "status": "Unknown",
        "resource": {"sourceName": "", "sourceNamespace": "", "group": "", "version": "v1", "kind": "Secret", "name": "s", "manifest": "{}"}}]);
    env.change_plan(PLAN, |plan| plan["status"]["plan"] = step);
    env.converge();
    env.assert_told(PLAN, "secret s does not exist - secrets \"s\" not found");
    env.put(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "olm", "annotations": {"x": "y"}}, "type": "t", "data": {"k": "dg=="}}));
    env.converge();
    assert_eq!(env.object("Secret ns/s")["data"], json!({"k": "dg=="}));
    assert_eq!(env.object("Secret ns/s")["type"], "t");
}

#[test]
fn upstreams_references_are_carried_out() {
    let bundle = small();
    let text = |object: &Value| object.to_string();
    let mut env = TestEnv::with_plan(std::slice::from_ref(&bundle));
    let reference = json!({"kind": "ConfigMap", "name": "18", "namespace": NAMESPACE, "catalogSourceName": "cat", "catalogSourceNamespace": NAMESPACE,
        "replaces": "demo.v0", "properties": r#"{"properties":[{"type":"olm.package","value":{"packageName":"demo","version":"1.0.0"}}]}"#}).to_string();
    assert!(serde_json::from_str::<ConfigMapReference>(&reference).is_ok());
    env.change_plan(PLAN, |plan| {
        for step in plan["status"]["plan"].as_array_mut().unwrap() {
            step["resource"]["manifest"] = reference.clone().into();
        }
    });
    env.converge();
    env.assert_told(PLAN, "error finding unpacked bundle configmap for ref ns/18");
    env.put(
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "18", "namespace": NAMESPACE},
        "data": {"csv.yaml": text(&bundle.csv), "crd.yaml": text(&bundle.objects[0].object)}}),
    );
    env.converge();
    env.assert_summary(PLAN, "Complete");
    assert_eq!(
        env.object("ClusterServiceVersion ns/demo.v1")["spec"]["replaces"],
        "demo.v0"
    );
}

/// Two operators in one plan: both ClusterServiceVersions are created in the first reconcile. An object of both, here their
/// ServiceAccount, is created once and shared.
#[test]
fn operators_of_one_plan_may_share_a_service_account() {
    let mut env = TestEnv::with_plan(&[
        bundle("demo.v1", vec![crd("demos.example.com")]),
        bundle("upper.v1", vec![crd("uppers.example.com")]),
    ]);
    env.converge();
    let told = env.messages(PLAN);
    assert!(!told.iter().any(|text| text.contains("retrying")), "{told:#?}");
    assert_eq!(env.count("patch InstallPlan"), 1);
    env.assert_summary(PLAN, "Complete");
    let account = env.object("ServiceAccount ns/demo");
    let owners = object::owner_references(&account).iter();
    let owners: Vec<_> = owners.map(|owner| owner["name"].clone()).collect();
    assert_eq!(owners, ["demo.v1", "upper.v1"]);
}

/// Upstream's generated Subscription lacks type and namespace labels; golden/06-dependency.
#[test]
fn generated_subscription_says_who_made_it() {
    let mut env = TestEnv::with_plan(&[small()]);
    let manifest = r#"{"metadata":{"name":"demo-stable-cat-ns","namespace":"ns"},"spec":{"source":"cat","sourceNamespace":"ns","name":"demo","channel":"stable","startingCSV":"demo.v1","installPlanApproval":"Automatic"},"status":{"lastUpdated":null}}"#;
    let step = json!({"resolving": "demo.v1", "status": "Unknown", "resource": {"sourceName": "cat", "sourceNamespace": "ns",
        "group": "operators.coreos.com", "version": "v1alpha1", "kind": "Subscription", "name": "demo-stable-cat-ns", "manifest": manifest}});
    env.change_plan(PLAN, |plan| {
        plan["status"]["plan"].as_array_mut().unwrap().insert(0, step);
    });
    env.converge();
    let subscription = env.object("Subscription ns/demo-stable-cat-ns");
    assert_eq!(
        subscription["metadata"]["annotations"],
        json!({"olm.generated-by": PLAN})
    );
    assert_eq!(
        subscription["metadata"]["labels"],
        json!({"olm.managed": "true", "operators.coreos.com/demo.ns": ""})
    );
    assert!(subscription.get("status").is_none() && object::owner_references(&subscription).is_empty());
}

/// Upstream takes both from the object; authors of a plan may leave them out of the step.
#[test]
fn group_and_version_of_a_step_are_those_of_its_object() {
    let mut env = TestEnv::with_plan(&[small()]);
    let manifest = r#"{"apiVersion":"policy/v1","kind":"PodDisruptionBudget","metadata":{"name":"by-hand"},"spec":{"minAvailable":1}}"#;
    let step = json!({"resolving": "demo.v1", "status": "Unknown", "resource": {"sourceName": "cat", "sourceNamespace": "ns",
        "group": "", "version": "v1", "kind": "PodDisruptionBudget", "name": "by-hand", "manifest": manifest}});
    env.change_plan(PLAN, |plan| {
        plan["status"]["plan"].as_array_mut().unwrap().push(step);
    });
    env.converge();
    env.object("PodDisruptionBudget ns/by-hand");
    env.assert_summary(PLAN, "Complete");
}

/// Everything but CustomResourceDefinitions is written as the ServiceAccount.
#[test]
fn scoped_plan_is_written_in_the_service_accounts_name() {
    let mut env = TestEnv::with_plan(&[rich()]);
    let reference = json!({"kind": "ServiceAccount", "name": "scoped", "namespace": NAMESPACE});
    env.set_groups(&[group(
        json!({"serviceAccountName": "scoped"}),
        json!({"namespaces": [NAMESPACE], "serviceAccountRef": reference}),
    )]);
    env.converge();
    for write in env
        .writes
        .iter()
        .filter(|write| !write.contains("InstallPlan") && !write.contains("CustomResourceDefinition"))
    {
        assert!(write.ends_with("as ns/scoped"), "{write}");
    }
    assert!(
        env.writes
            .contains(&"create CustomResourceDefinition demos.example.com".to_owned())
    );
    assert_eq!(env.plan(PLAN)["status"]["attenuatedServiceAccountRef"], reference);
    env.assert_summary(PLAN, "Complete");
}

/// Bundles often contain the ServiceAccount that their permissions imply: one write for both steps, no further reconcile.
#[test]
fn service_account_brought_twice_is_made_once() {
    let objects = vec![
        crd("demos.example.com"),
        core("ServiceAccount", "demo", json!({})),
    ];
    let mut env = TestEnv::with_plan(&[bundle("demo.v1", objects)]);
    env.converge();
    assert_eq!(env.count("create ServiceAccount"), 1);
    assert_eq!(env.count("patch ServiceAccount"), 0);
    assert_eq!(env.count("patch InstallPlan"), 1);
    env.assert_summary(PLAN, "Complete");
}

/// Bundles with an older version of a kind are written with the one that is served.
#[test]
fn old_version_of_a_known_kind_is_written_as_the_served_one() {
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1beta1", "kind": "Role", "metadata": {"name": "r"}, "rules": []});
    let mut env = TestEnv::with_plan(&[bundle("demo.v1", vec![role])]);
    env.converge();
    assert_eq!(
        env.object("Role ns/r")["apiVersion"],
        "rbac.authorization.k8s.io/v1"
    );
    env.assert_summary(PLAN, "Complete");
}

/// As Go's types read them.
#[test]
fn fields_of_a_role_in_other_capitals_are_the_fields_that_are_meant() {
    let rules = json!([{"apigroups": [""], "Resources": ["pods"], "verbs": ["get"]}]);
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r"}, "Rules": rules});
    let mut env = TestEnv::with_plan(&[bundle("demo.v1", vec![role])]);
    env.converge();
    let expected = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    assert_eq!(env.object("Role ns/r")["rules"], expected);
    env.assert_summary(PLAN, "Complete");
}

/// Upstream's case 66: one event for each step, at its place in the plan, for any number of reconciles and of writes in each.
#[test]
fn met_010_a_warning_of_the_api_server_is_reported_once_with_its_step() {
    let mut env = TestEnv::with_plan(&[rich()]);
    env.cluster.on_request(|request| {
        let text = request.text();
        let is_old = text.starts_with("create Service ") || text.starts_with("create PodDisruptionBudget ");
        (is_old && request.verb.writes()).then_some(Fault::Warn("its version is old"))
    });
    env.converge();
    env.settle_for(600);
    env.assert_summary(PLAN, "Complete");
    assert_eq!(
        env.events,
        [
            r#"AppliedWithWarnings: 1 warning(s) generated during installation of operator "demo.v1" (Service "service"): its version is old"#,
            r#"AppliedWithWarnings: 1 warning(s) generated during installation of operator "demo.v1" (PodDisruptionBudget "pdb"): its version is old"#
        ]
    );
    let steps = env.sent_events.iter();
    let steps: Vec<_> = steps.map(|event| &event["regarding"]["fieldPath"]).collect();
    assert_eq!(steps, ["status.plan[4]", "status.plan[5]"]);
}

/// An API server drops such a field from a created object, with a warning; it refuses the same field in server-side apply.
#[test]
fn a_field_that_the_schema_lacks_is_warned_of_and_fails_nothing() {
    let budget = |most: u64| {
        let spec = json!({"minAvailable": most, "nope": true});
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "pdb"}, "spec": spec})
    };
    let mut env = TestEnv::with_plan(&[bundle("demo.v1", vec![budget(1)])]);
    env.cluster.on_request(|request| {
        let text = request.text();
        let (verb, _) = text
            .split_once(" PodDisruptionBudget ")
            .filter(|_| request.verb.writes())?;
        Some(match verb {
            "apply" => Fault::Refuse(Refusal::new(
                500,
                "",
                "failed to create typed patch object: .spec.nope: field not declared in schema",
            )),
            _ => Fault::Warn("unknown field spec.nope"),
        })
    });
    env.converge();
    env.assert_summary(PLAN, "Complete");
    env.add_plan("install-2", &[bundle("demo.v2", vec![budget(2)])]);
    env.settle_for(600);
    env.assert_summary("install-2", "Complete");
    assert_eq!(
        env.object("PodDisruptionBudget ns/pdb")["spec"]["minAvailable"],
        2
    );
    let warned = |csv: &str| {
        format!(
            r#"AppliedWithWarnings: 1 warning(s) generated during installation of operator "{csv}" (PodDisruptionBudget "pdb"): unknown field spec.nope"#
        )
    };
    assert_eq!(env.events, [warned("demo.v1"), warned("demo.v2")]);
}

/// From one version of an operator to the next: its own keys follow its bundle, what others wrote stays.
#[test]
fn what_others_put_into_the_bundles_objects_survives_an_upgrade() {
    let objects = |data: Value, spec: Value| {
        vec![
            core("ConfigMap", "config", json!({"data": data})),
            core("Service", "service", json!({"spec": spec})),
        ]
    };
    let port = json!([{"port": 80}]);
    let old = objects(
        json!({"kept": "1", "dropped": "1"}),
        json!({"ports": port, "publishNotReadyAddresses": true}),
    );
    let mut env = TestEnv::with_plan(&[bundle("demo.v1", old)]);
    env.converge();
    env.change("ConfigMap ns/config", |config| {
        config["data"]["ca-bundle.crt"] = json!("PEM");
    });
    env.change("Service ns/service", |service| {
        service["spec"]["externalTrafficPolicy"] = json!("Local");
    });
    env.add_plan(
        "install-2",
        &[bundle(
            "demo.v2",
            objects(json!({"kept": "2"}), json!({"ports": port})),
        )],
    );
    env.converge();
    env.assert_summary("install-2", "Complete");
    assert_eq!(
        env.object("ConfigMap ns/config")["data"],
        json!({"kept": "2", "ca-bundle.crt": "PEM"})
    );
    assert_eq!(
        env.object("Service ns/service")["spec"],
        json!({"ports": port, "externalTrafficPolicy": "Local"})
    );
    env.add_plan(
        "install-3",
        &[bundle("demo.v3", objects(json!({}), json!({"ports": port})))],
    );
    env.converge();
    assert_eq!(
        env.object("ConfigMap ns/config")["data"],
        json!({"ca-bundle.crt": "PEM"})
    );
}
