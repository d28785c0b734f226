//! A completed plan brings back what it made of accounts and RBAC, and nothing else does.

use olm_testing::stage::normal::assert_same;

use super::*;

const KINDS: [&str; 5] = [
    "ServiceAccount",
    "Role",
    "RoleBinding",
    "ClusterRole",
    "ClusterRoleBinding",
];

fn completed() -> World {
    let mut world = World::with_plan(&[small()]);
    world.converge();
    world.assert_summary(PLAN, "Complete");
    world.writes.clear();
    world
}

/// Key of the only object of this kind.
fn only(world: &World, kind: &str) -> String {
    let [object] = &world.all(kind)[..] else {
        panic!("one {kind}")
    };
    world::key(object)
}

/// Somebody deletes the only object of this kind.
fn take(world: &World, kind: &str) {
    world.delete(&only(world, kind));
}

/// Whether the operator writes anything.
fn writes(world: &mut World) -> bool {
    let before = world.writes.len();
    world.converge();
    world.writes.len() > before
}

/// The plan itself says what it grants, whatever becomes of the bundle's image.
#[test]
fn steps_of_accounts_and_rbac_carry_their_objects_and_others_refer_to_the_image() {
    let world = World::with_plan(&[rich()]);
    for step in world.plan(PLAN)["status"]["plan"].as_array().unwrap() {
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
    let mut world = completed();
    assert!(!writes(&mut world), "{:?}", world.writes);
    world.stage.kill();
    assert!(!writes(&mut world), "{:?}", world.writes);
}

#[test]
fn a_deleted_account_role_or_binding_comes_back_as_it_was() {
    for kind in KINDS {
        let mut world = completed();
        let before = world.normalised();
        take(&world, kind);
        assert!(writes(&mut world), "{kind}");
        assert_same(&world.normalised(), &before, kind);
        assert_eq!(world.writes.len(), 1, "{:?}", world.writes);
        assert!(!writes(&mut world), "{kind}");
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
        let mut world = completed();
        let before = world.normalised();
        world.change(&only(&world, kind), |object| match patch.as_object() {
            Some(patch) => object.as_object_mut().unwrap().extend(patch.clone()),
            None => object["rules"][0]["resourceNames"] = json!(["narrowed"]),
        });
        assert!(writes(&mut world), "{kind}");
        assert_same(&world.normalised(), &before, kind);
    }
}

/// Two operators of a namespace may bring RBAC of one name with different rules; their plans must not fight over it.
#[test]
fn rbac_that_bundles_name_themselves_is_made_again_but_not_changed_again() {
    let role = |verb: &str| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "leader-election"},
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": [verb]}]})
    };
    let mut world = World::with_plan(&[bundle("a.v1", vec![role("get")])]);
    world.converge();
    world.add_plan("install-2", &[bundle("b.v1", vec![role("list")])]);
    world.converge();
    assert!(!writes(&mut world), "{:?}", world.writes);
    world.writes.clear();
    world.delete("Role ns/leader-election");
    assert!(writes(&mut world));
    assert_eq!(world.writes, ["create Role ns/leader-election"]);
    assert!(!writes(&mut world), "{:?}", world.writes);
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
    let mut world = World::with_plan(&[bundle("a.v1", vec![role("get", None)])]);
    world.converge();
    world.add_plan("install-2", &[bundle("b.v1", vec![role("list", None)])]);
    world.change_plan("install-2", |plan| plan["spec"]["generation"] = 2.into());
    world.converge();
    let verb = |world: &World| world.object("Role ns/mine")["rules"][0]["verbs"][0].clone();
    let rest = |world: &mut World| {
        assert!(!writes(world), "{:?}", world.writes);
        world.stage.kill();
        assert!(!writes(world), "{:?}", world.writes);
    };
    rest(&mut world);
    assert_eq!(verb(&world), "list");
    // Whoever comes first makes it again, and the newer has the last word.
    world.delete("Role ns/mine");
    assert!(writes(&mut world));
    rest(&mut world);
    assert_eq!(verb(&world), "list");
    // An operator that is gone has none.
    world.delete("ClusterServiceVersion ns/b.v1");
    assert!(writes(&mut world));
    assert_eq!(verb(&world), "get");
    rest(&mut world);
}

/// A bundle may bring two objects of one name, with the label of derived ones on both: rights must not change hands for ever.
#[test]
fn steps_of_one_plan_do_not_fight_over_an_object() {
    for hash in [Some("any".to_owned()), None] {
        let twins = vec![role("get", hash.clone()), role("list", hash.clone())];
        let mut world = World::with_plan(&[bundle("a.v1", twins)]);
        world.converge();
        world.assert_summary(PLAN, "Complete");
        assert!(!writes(&mut world), "{hash:?}: {:?}", world.writes);
        world.stage.kill();
        assert!(!writes(&mut world), "{hash:?}: {:?}", world.writes);
    }
    let of = |csv: &str, verb: &str| bundle(csv, vec![role(verb, Some("any".to_owned()))]);
    let mut world = World::with_plan(&[of("a.v1", "get")]);
    world.converge();
    world.add_plan("install-2", &[of("b.v1", "list")]);
    world.converge();
    assert!(!writes(&mut world), "a label that does not say what is in it");
    world.stage.kill();
    assert!(!writes(&mut world), "a label that does not say what is in it");
}

/// What comes back tells whose step it is.
#[test]
fn of_several_plans_the_newest_restores() {
    for (generation, restorer) in [(2, Some("install-2")), (0, None)] {
        let mut world = completed();
        let mut plan = world::plan("install-2", &[small()]);
        plan["spec"]["generation"] = generation.into();
        let steps = plan["status"]["plan"].as_array_mut().unwrap();
        let is_account = |step: &&mut Value| step["resource"]["kind"] == "ServiceAccount";
        let manifest = &mut steps.iter_mut().find(is_account).unwrap()["resource"]["manifest"];
        let mut account: Value = serde_json::from_str(manifest.as_str().unwrap()).unwrap();
        account["metadata"]["annotations"] = json!({"of": "install-2"});
        *manifest = account.to_string().into();
        world.put(plan);
        world.converge();
        world.assert_summary("install-2", "Complete");
        world.writes.clear();
        take(&world, "ServiceAccount");
        world.converge();
        assert_eq!(world.writes, ["create ServiceAccount ns/demo"]);
        let account = world.object("ServiceAccount ns/demo");
        assert_eq!(account["metadata"]["annotations"]["of"].as_str(), restorer);
    }
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
            let mut world = completed();
            if stale {
                world.cluster.hold("ClusterServiceVersion");
            }
            if patch.is_null() {
                world.delete(CSV);
            } else {
                world.change(CSV, |csv| olm_testing::patch::merge(csv, &patch));
            }
            // The store knows, unless its watch is held up.
            assert!(!writes(&mut world), "{case}, stale {stale}: {:?}", world.writes);
            take(&world, "ClusterRole");
            assert!(!writes(&mut world), "{case}, stale {stale}: {:?}", world.writes);
            world.cluster.release("ClusterServiceVersion");
            assert!(!writes(&mut world), "{case}, stale {stale}: {:?}", world.writes);
        }
    }
}

#[test]
fn restoring_is_done_as_the_groups_account_of_now_and_a_refusal_is_told() {
    let mut world = completed();
    let reference = json!({"kind": "ServiceAccount", "name": "scoped", "namespace": NAMESPACE});
    world.set_groups(&[group(
        json!({"serviceAccountName": "scoped"}),
        json!({"namespaces": [NAMESPACE], "serviceAccountRef": reference}),
    )]);
    world.refuse("create ClusterRole ", FailureClass::Forbidden);
    world.settle();
    take(&world, "ClusterRole");
    assert!(!writes(&mut world));
    let told = "RestorationFailed: error creating clusterrole demo.v1-";
    assert!(world.events[0].starts_with(told), "{:?}", world.events);
    world.allow();
    world.settle_for(60);
    assert_eq!(world.writes, ["create ClusterRole demo.v1-HASH as ns/scoped"]);
}

/// An account that the group names and that its status does not name yet means to wait, also for a plan that restores.
#[test]
fn an_account_that_the_status_does_not_name_yet_means_to_wait() {
    for status in [
        json!({"namespaces": [NAMESPACE]}),
        json!({"namespaces": [NAMESPACE], "serviceAccountRef": {"kind": "ServiceAccount", "name": "before", "namespace": NAMESPACE}}),
    ] {
        let waiting = vec![group(json!({"serviceAccountName": "scoped"}), status)];
        let mut world = completed();
        world.set_groups(&waiting);
        world.settle();
        take(&world, "Role");
        assert!(!writes(&mut world));

        let mut world = World::with_plan(&[small()]);
        world.set_groups(&waiting);
        world.converge();
        assert_eq!(world.writes, ["patch InstallPlan ns/install-1 status"]);
        world.assert_told(PLAN, "please make sure the service account exists. sa=scoped");
    }
}
