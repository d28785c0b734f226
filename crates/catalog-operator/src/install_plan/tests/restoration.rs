//! A completed plan brings back what it made of accounts and RBAC, and nothing else does.

use super::*;

const KINDS: [&str; 5] = [
    "ServiceAccount",
    "Role",
    "RoleBinding",
    "ClusterRole",
    "ClusterRoleBinding",
];

fn completed() -> Cluster {
    let mut cluster = Cluster::with_plan(&[small()]);
    cluster.converge(PLAN);
    assert!(cluster.summary(PLAN).starts_with("Complete"));
    cluster.writes.clear();
    cluster
}

fn take(cluster: &mut Cluster, kind: &str) -> Value {
    let key = cluster
        .objects
        .keys()
        .find(|key| key.starts_with(&format!("{kind} ")))
        .unwrap()
        .clone();
    cluster.objects.remove(&key).unwrap()
}

/// The plan itself says what it grants, whatever becomes of the bundle's image.
#[test]
fn steps_of_accounts_and_rbac_carry_their_objects_and_others_refer_to_the_image() {
    let cluster = Cluster::with_plan(&[rich()]);
    for step in cluster.plan(PLAN)["status"]["plan"].as_array().unwrap() {
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
    let mut cluster = completed();
    assert!(!cluster.restore(PLAN).0, "{:?}", cluster.writes);
}

#[test]
fn a_deleted_account_role_or_binding_comes_back_as_it_was() {
    for kind in KINDS {
        let mut cluster = completed();
        let before = cluster.state();
        take(&mut cluster, kind);
        assert!(cluster.restore(PLAN).0, "{kind}");
        assert_eq!(cluster.state(), before, "{kind}");
        assert_eq!(cluster.writes.len(), 1, "{:?}", cluster.writes);
        assert!(!cluster.restore(PLAN).0, "{kind}");
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
        let mut cluster = completed();
        let before = cluster.state();
        let mut object = take(&mut cluster, kind);
        match patch.as_object() {
            Some(patch) => object.as_object_mut().unwrap().extend(patch.clone()),
            None => object["rules"][0]["resourceNames"] = json!(["narrowed"]),
        }
        cluster.put(object);
        assert!(cluster.restore(PLAN).0, "{kind}");
        assert_eq!(cluster.state(), before, "{kind}");
    }
}

/// Two operators of a namespace may bring RBAC of one name with different rules; their plans must not fight over it.
#[test]
fn rbac_that_bundles_name_themselves_is_made_again_but_not_changed_again() {
    let role = |verb: &str| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "leader-election"},
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": [verb]}]})
    };
    let mut cluster = Cluster::with_plan(&[bundle("a.v1", vec![role("get")])]);
    cluster.converge(PLAN);
    cluster.add_plan("install-2", &[bundle("b.v1", vec![role("list")])]);
    cluster.converge("install-2");
    for plan in [PLAN, "install-2"] {
        assert!(!cluster.restore(plan).0, "{plan} {:?}", cluster.writes);
    }
    cluster.objects.remove("Role ns/leader-election").unwrap();
    assert!(cluster.restore(PLAN).0);
    assert!(!cluster.restore("install-2").0);
}

/// A Role with the label of derived ones, and this hash or that of its rules.
fn role(verb: &str, hash: Option<String>) -> Value {
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": [verb]}]);
    let typed = serde_json::from_value(rules.clone()).unwrap();
    let hash = hash.unwrap_or_else(|| super::super::restoration::content_hash(&Some(typed)));
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": "mine", "labels": {"olm.permissions.hash": hash}}, "rules": rules})
}

/// Each would put it right for ever otherwise.
#[test]
fn of_two_plans_with_an_object_of_one_name_the_newer_says_what_is_in_it() {
    let mut cluster = Cluster::with_plan(&[bundle("a.v1", vec![role("get", None)])]);
    cluster.converge(PLAN);
    cluster.add_plan("install-2", &[bundle("b.v1", vec![role("list", None)])]);
    cluster.plan_mut("install-2")["spec"]["generation"] = 2.into();
    cluster.converge("install-2");
    let verb = |cluster: &Cluster| cluster.objects["Role ns/mine"]["rules"][0]["verbs"][0].clone();
    let rest = |cluster: &mut Cluster| {
        for plan in [PLAN, "install-2", PLAN, "install-2"] {
            assert!(!cluster.restore(plan).0, "{plan} {:?}", cluster.writes);
        }
    };
    rest(&mut cluster);
    assert_eq!(verb(&cluster), "list");
    // Whoever comes first makes it again, and the newer has the last word.
    cluster.objects.remove("Role ns/mine").unwrap();
    assert!(cluster.restore(PLAN).0);
    assert!(cluster.restore("install-2").0);
    rest(&mut cluster);
    assert_eq!(verb(&cluster), "list");
    // An operator that is gone has none.
    cluster.objects.remove("ClusterServiceVersion ns/b.v1").unwrap();
    assert!(cluster.restore(PLAN).0);
    assert_eq!(verb(&cluster), "get");
    rest(&mut cluster);
}

/// A bundle may bring two objects of one name, with the label of derived ones on both: rights must not change hands for ever.
#[test]
fn steps_of_one_plan_do_not_fight_over_an_object() {
    for hash in [Some("any".to_owned()), None] {
        let twins = vec![role("get", hash.clone()), role("list", hash.clone())];
        let mut cluster = Cluster::with_plan(&[bundle("a.v1", twins)]);
        cluster.converge(PLAN);
        assert!(cluster.summary(PLAN).starts_with("Complete"));
        assert!(!cluster.restore(PLAN).0, "{hash:?}: {:?}", cluster.writes);
    }
    let of = |csv: &str, verb: &str| bundle(csv, vec![role(verb, Some("any".to_owned()))]);
    let mut cluster = Cluster::with_plan(&[of("a.v1", "get")]);
    cluster.converge(PLAN);
    cluster.add_plan("install-2", &[of("b.v1", "list")]);
    cluster.converge("install-2");
    assert!(
        !cluster.restore(PLAN).0,
        "a label that does not say what is in it"
    );
}

#[test]
fn of_several_plans_the_newest_restores() {
    let mut cluster = completed();
    cluster.add_plan("install-2", &[small()]);
    cluster.plan_mut("install-2")["spec"]["generation"] = 2.into();
    cluster.converge("install-2");
    cluster.writes.clear();
    take(&mut cluster, "Role");
    assert!(!cluster.restore(PLAN).0);
    assert!(cluster.restore("install-2").0);
}

/// What goes with a ClusterServiceVersion must not come back behind the back of its finalizer, and one of its name that somebody
/// makes later brings back nothing of what its forerunner had.
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
            let mut cluster = completed();
            if stale {
                cluster.stale_csvs = Some(cluster.observed(PLAN).csvs);
            }
            let csv = cluster.objects.get_mut(CSV).unwrap();
            for (field, value) in patch.as_object().into_iter().flatten() {
                for (key, value) in value.as_object().unwrap() {
                    object::map_mut(csv, field).insert(key.clone(), value.clone());
                }
            }
            if patch.is_null() {
                cluster.objects.remove(CSV);
            }
            take(&mut cluster, "ClusterRole");
            assert!(
                !cluster.restore(PLAN).0,
                "{case}, stale {stale}: {:?}",
                cluster.writes
            );
        }
    }
}

#[test]
fn restoring_is_done_as_the_groups_account_of_now_and_a_refusal_is_told() {
    let mut cluster = completed();
    let reference = json!({"kind": "ServiceAccount", "name": "scoped", "namespace": NAMESPACE});
    cluster.groups = vec![group(
        json!({"serviceAccountName": "scoped"}),
        json!({"namespaces": [NAMESPACE], "serviceAccountRef": reference}),
    )];
    take(&mut cluster, "ClusterRole");
    cluster
        .refused
        .insert("create ClusterRole ".into(), FailureClass::Forbidden);
    let (written, update) = cluster.restore(PLAN);
    assert!(!written);
    assert_eq!(update.events[0].reason, "RestorationFailed");
    assert!(
        update.events[0]
            .message
            .starts_with("error creating clusterrole demo.v1-"),
        "{}",
        update.events[0].message
    );
    cluster.refused.clear();
    cluster.restore(PLAN);
    assert_eq!(cluster.writes, ["create ClusterRole demo.v1-HASH as ns/scoped"]);
}

/// An account that the group names and that its status does not name yet means to wait, also for a plan that restores.
#[test]
fn an_account_that_the_status_does_not_name_yet_means_to_wait() {
    for status in [
        json!({"namespaces": [NAMESPACE]}),
        json!({"namespaces": [NAMESPACE], "serviceAccountRef": {"kind": "ServiceAccount", "name": "before", "namespace": NAMESPACE}}),
    ] {
        let waiting = vec![group(json!({"serviceAccountName": "scoped"}), status)];
        let mut cluster = completed();
        cluster.groups = waiting.clone();
        take(&mut cluster, "Role");
        assert!(!cluster.restore(PLAN).0);

        let mut cluster = Cluster::with_plan(&[small()]);
        cluster.groups = waiting;
        cluster.converge(PLAN);
        assert_eq!(cluster.writes, ["patch InstallPlan ns/install-1 status"]);
        assert!(
            cluster
                .summary(PLAN)
                .contains("please make sure the service account exists. sa=scoped"),
            "{}",
            cluster.summary(PLAN)
        );
    }
}
