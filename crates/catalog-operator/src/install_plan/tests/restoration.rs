//! A completed plan restores the accounts and RBAC that it created, and nothing else does.

use olm_testing::stage::normal::assert_same;

use super::*;

const KINDS: [&str; 5] = [
    "ServiceAccount",
    "Role",
    "RoleBinding",
    "ClusterRole",
    "ClusterRoleBinding",
];

fn completed() -> TestEnv {
    let mut env = TestEnv::with_plan(&[small()]);
    env.converge();
    env.assert_summary(PLAN, "Complete");
    env.writes.clear();
    env
}

/// Key of the only object of this kind.
fn only(env: &TestEnv, kind: &str) -> String {
    let [object] = &env.all(kind)[..] else {
        panic!("one {kind}")
    };
    test_env::key(object)
}

/// Deletes the only object of this kind, as another user.
fn take(env: &TestEnv, kind: &str) {
    env.delete(&only(env, kind));
}

/// Whether the operator writes anything.
fn writes(env: &mut TestEnv) -> bool {
    let before = env.writes.len();
    env.converge();
    env.writes.len() > before
}

/// The plan itself contains its rules, even if the bundle's image is gone.
#[test]
fn steps_of_accounts_and_rbac_carry_their_objects_and_others_refer_to_the_image() {
    let env = TestEnv::with_plan(&[rich()]);
    for step in env.plan(PLAN)["status"]["plan"].as_array().unwrap() {
        let resource = &step["resource"];
        let manifest: Value = serde_json::from_str(resource["manifest"].as_str().unwrap()).unwrap();
        let kind = resource["kind"].as_str().unwrap();
        if KINDS.contains(&kind) {
            assert_eq!(manifest["kind"], kind);
            assert_eq!(manifest["metadata"]["name"], resource["name"]);
        } else {
            assert_eq!(manifest["kind"], "BundleImage", "{kind}");
        }
    }
}

#[test]
fn a_plan_at_rest_writes_nothing() {
    let mut env = completed();
    assert!(!writes(&mut env), "{:?}", env.writes);
    env.stage.kill();
    assert!(!writes(&mut env), "{:?}", env.writes);
}

#[test]
fn a_deleted_account_role_or_binding_comes_back_as_it_was() {
    for kind in KINDS {
        let mut env = completed();
        let before = env.normalised();
        take(&env, kind);
        assert!(writes(&mut env), "{kind}");
        assert_same(&env.normalised(), &before, kind);
        assert_eq!(env.writes.len(), 1, "{:?}", env.writes);
        assert!(!writes(&mut env), "{kind}");
    }
}

#[test]
fn rules_and_subjects_that_were_changed_are_put_back() {
    for (kind, patch) in [
        ("Role", json!({"rules": []})),
        (
            "ClusterRole",
            json!({"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}),
        ),
        ("Role", Value::Null),
        ("RoleBinding", json!({"subjects": []})),
    ] {
        let mut env = completed();
        let before = env.normalised();
        env.change(&only(&env, kind), |object| match patch.as_object() {
            Some(patch) => object.as_object_mut().unwrap().extend(patch.clone()),
            None => object["rules"][0]["resourceNames"] = json!(["narrowed"]),
        });
        assert!(writes(&mut env), "{kind}");
        assert_same(&env.normalised(), &before, kind);
    }
}

/// Two operators of a namespace may bring RBAC of one name with different rules; their plans must not fight over it.
#[test]
fn rbac_that_bundles_name_themselves_is_made_again_but_not_changed_again() {
    let role = |verb: &str| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "leader-election"},
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": [verb]}]})
    };
    let mut env = TestEnv::with_plan(&[bundle("a.v1", vec![role("get")])]);
    env.converge();
    env.add_plan("install-2", &[bundle("b.v1", vec![role("list")])]);
    env.converge();
    assert!(!writes(&mut env), "{:?}", env.writes);
    env.writes.clear();
    env.delete("Role ns/leader-election");
    assert!(writes(&mut env));
    assert_eq!(env.writes, ["create Role ns/leader-election"]);
    assert!(!writes(&mut env), "{:?}", env.writes);
}

/// A restored object shows which plan's step restored it.
#[test]
fn the_newest_of_several_plans_restores() {
    for (generation, restorer) in [(2, Some("install-2")), (0, None)] {
        let mut env = completed();
        let mut plan = test_env::plan("install-2", &[small()]);
        plan["spec"]["generation"] = generation.into();
        let steps = plan["status"]["plan"].as_array_mut().unwrap();
        let is_account = |step: &&mut Value| step["resource"]["kind"] == "ServiceAccount";
        let manifest = &mut steps.iter_mut().find(is_account).unwrap()["resource"]["manifest"];
        let mut account: Value = serde_json::from_str(manifest.as_str().unwrap()).unwrap();
        account["metadata"]["annotations"] = json!({"of": "install-2"});
        *manifest = account.to_string().into();
        env.put(plan);
        env.converge();
        env.assert_summary("install-2", "Complete");
        env.writes.clear();
        take(&env, "ServiceAccount");
        env.converge();
        assert_eq!(env.writes, ["create ServiceAccount ns/demo"]);
        let account = env.object("ServiceAccount ns/demo");
        assert_eq!(account["metadata"]["annotations"]["of"].as_str(), restorer);
    }
}

/// Objects that are deleted with a ClusterServiceVersion must not return after its finalizer has run, and a later one of its name
/// must not bring back its predecessor's objects.
#[test]
fn nothing_comes_back_for_a_csv_that_goes_or_is_gone() {
    const CSV: &str = "ClusterServiceVersion ns/demo.v1";
    for stale in [false, true] {
        for (case, patch) in [
            (
                "deleting",
                json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
            ),
            (
                "another",
                json!({"metadata": {"uid": "another", "creationTimestamp": "2027-01-15T09:00:00Z"}}),
            ),
            ("gone", Value::Null),
            ("replaced", json!({"status": {"phase": "Replacing"}})),
        ] {
            if case == "replaced" && stale {
                continue;
            }
            let mut env = completed();
            if stale {
                env.cluster.hold("ClusterServiceVersion");
            }
            if patch.is_null() {
                env.delete(CSV);
            } else {
                env.change(CSV, |csv| olm_testing::patch::merge(csv, &patch));
            }
            // The store knows, unless its watch is held up.
            assert!(!writes(&mut env), "{case}, stale {stale}: {:?}", env.writes);
            take(&env, "ClusterRole");
            assert!(!writes(&mut env), "{case}, stale {stale}: {:?}", env.writes);
            env.cluster.release("ClusterServiceVersion");
            assert!(!writes(&mut env), "{case}, stale {stale}: {:?}", env.writes);
        }
    }
}

#[test]
fn restoring_uses_the_groups_current_account_and_reports_a_refusal() {
    let mut env = completed();
    let reference = json!({"kind": "ServiceAccount", "name": "scoped", "namespace": NAMESPACE});
    env.set_groups(&[group(
        json!({"serviceAccountName": "scoped"}),
        json!({"namespaces": [NAMESPACE], "serviceAccountRef": reference}),
    )]);
    env.refuse("create ClusterRole ", FailureClass::Forbidden);
    env.settle();
    take(&env, "ClusterRole");
    assert!(!writes(&mut env));
    let told = "RestorationFailed: error creating clusterrole demo.v1-";
    assert!(env.events[0].starts_with(told), "{:?}", env.events);
    let account = "\"system:serviceaccount:ns:scoped\" (account of OperatorGroup ns/og)";
    assert!(env.events[0].contains(account), "{:?}", env.events);
    env.allow();
    env.settle_for(60);
    assert_eq!(env.writes, ["create ClusterRole demo.v1-HASH as ns/scoped"]);
}

/// An account that the group names and that its status does not name yet means to wait, also for a plan that restores.
#[test]
fn an_account_that_the_status_does_not_name_yet_means_to_wait() {
    for status in [
        json!({"namespaces": [NAMESPACE]}),
        json!({"namespaces": [NAMESPACE], "serviceAccountRef": {"kind": "ServiceAccount", "name": "before", "namespace": NAMESPACE}}),
    ] {
        let waiting = vec![group(json!({"serviceAccountName": "scoped"}), status)];
        let mut env = completed();
        env.set_groups(&waiting);
        env.settle();
        take(&env, "Role");
        assert!(!writes(&mut env));

        let mut env = TestEnv::with_plan(&[small()]);
        env.set_groups(&waiting);
        env.converge();
        assert_eq!(env.writes, ["patch InstallPlan ns/install-1 status"]);
        env.assert_told(PLAN, "please make sure the service account exists. sa=scoped");
    }
}
