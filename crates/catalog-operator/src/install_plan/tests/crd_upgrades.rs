//! Definitions that are changed: what exists must fit the new schema, and others must not lose what they use.

use std::sync::{Arc, Mutex};

use olm_testing::cluster::{Fault, Refusal, Verb};

use super::*;

const CRD: &str = "CustomResourceDefinition demos.example.com";

fn version(name: &str, served: bool, storage: bool, spec: &Value) -> Value {
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    json!({"name": name, "served": served, "storage": storage, "schema": {"openAPIV3Schema": schema}})
}

#[allow(clippy::needless_pass_by_value)] // Written out in place by every caller.
fn defined(versions: Vec<Value>) -> Value {
    let mut crd = crd("demos.example.com");
    crd["spec"]["scope"] = "Namespaced".into();
    crd["spec"]["names"] =
        json!({"kind": "Demo", "plural": "demos", "listKind": "DemoList", "singular": "demo"});
    crd["spec"]["versions"] = versions.into();
    crd
}

/// Sizes up to this.
fn sizes(most: u64) -> Value {
    json!({"type": "object", "properties": {"size": {"type": "integer", "maximum": most}}})
}

fn of_sizes(most: u64) -> Value {
    defined(vec![version("v1", true, true, &sizes(most))])
}

fn demo(namespace: &str, name: &str, size: u64) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Demo", "metadata": {"namespace": namespace, "name": name}, "spec": {"size": size}})
}

/// A cluster with a definition that Kubernetes has established, and what was asked of its objects since.
fn installed(mut definition: Value) -> (TestEnv, Arc<Mutex<Vec<String>>>) {
    let mut env = TestEnv::new();
    env.put(group(json!({}), json!({"namespaces": [""]})));
    let established = ["Established", "NamesAccepted"].map(|name| json!({"type": name, "status": "True"}));
    definition["status"] = json!({"conditions": established, "storedVersions": ["v1"]});
    env.put(definition);
    env.converge();
    let lists = Arc::<Mutex<Vec<String>>>::default();
    let seen = Arc::clone(&lists);
    env.cluster.on_request(move |request| {
        if request.verb == Verb::List && request.kind.kind == "Demo" {
            seen.lock().unwrap().push(request.param("limit").to_owned());
        }
        None
    });
    (env, lists)
}

fn upgrade(env: &mut TestEnv, definition: Value) {
    env.add_plan(PLAN, &[bundle("demo.v2", vec![definition])]);
    env.converge();
}

#[test]
fn crd_003_mt_004_a_resource_that_does_not_fit_stops_the_upgrade_until_it_is_fixed() {
    let (mut env, lists) = installed(of_sizes(9));
    env.put(demo("tenant", "fits", 1));
    env.put(demo("tenant", "large", 7));
    env.writes.clear();
    upgrade(&mut env, of_sizes(3));
    env.assert_told(
        PLAN,
        "error validating existing CRs against new CRD's schema for \"demos.example.com\": error validating example.com/v1, Kind=Demo \
         \"tenant/large\": updated validation is too restrictive: spec.size: must be less than or equal to 3",
    );
    env.assert_summary(PLAN, "Installing");
    // No operator replaces another one without the definition it needs.
    assert_eq!(env.count("create"), 0, "{:?}", env.writes);
    let asked = lists.lock().unwrap().clone();
    // Each try reads no further than to what is in the way.
    assert!(
        asked.len() > 1 && asked.iter().all(|one| one == "500"),
        "{asked:?}"
    );
    env.put(demo("tenant", "large", 2));
    env.converge();
    env.assert_summary(PLAN, "Complete");
    assert_eq!(env.object(CRD)["spec"], of_sizes(3)["spec"]);
}

/// Authors of a plan could otherwise find out the contents of resources that they may not read, by trying one schema after the
/// other.
#[test]
fn nothing_is_reported_about_a_resource_that_the_plans_author_may_not_read() {
    let targets = |namespace: &str| group(json!({}), json!({"namespaces": [namespace]}));
    let limited = || {
        let of_account = json!({"namespaces": [""], "serviceAccountRef": {"kind": "ServiceAccount", "name": "limited", "namespace": "ns"}});
        group(json!({"serviceAccountName": "limited"}), of_account)
    };
    let fields = "spec.size: must be less than or equal to 3";
    let hidden = "see the log of catalog-operator for the fields";
    for (group, namespace, named, told) in [
        (targets("ns"), "ns", true, fields),
        (targets("tenant"), "tenant", true, fields),
        (targets("ns"), "tenant", false, hidden),
        (limited(), "ns", true, hidden),
        (limited(), "tenant", false, hidden),
    ] {
        let (mut env, _) = installed(of_sizes(9));
        env.put(group.clone());
        env.put(demo(namespace, "large", 7));
        upgrade(&mut env, of_sizes(3));
        env.assert_told(PLAN, &format!("updated validation is too restrictive: {told}"));
        let name = format!("\"{namespace}/large\"");
        assert_eq!(env.summary(PLAN).contains(&name), named, "{}", env.summary(PLAN));
    }
}

#[test]
fn crd_003_a_resource_that_stays_as_it_is_makes_the_plan_fail() {
    let (mut env, _) = installed(of_sizes(9));
    env.put(demo("tenant", "large", 7));
    upgrade(&mut env, of_sizes(3));
    env.settle_for(120);
    env.assert_summary(PLAN, "Failed error validating existing CRs");
    assert_eq!(env.object(CRD)["spec"], of_sizes(9)["spec"]);
}

/// After a migration of the stored objects the plan goes on. With fail forward it fails instead, so that the next version can replace it.
#[test]
fn a_stored_version_that_would_go_is_waited_for_and_fails_where_failing_forward_is_allowed() {
    let without_v1 = || defined(vec![version("v2", true, true, &sizes(9))]);
    for fails_forward in [false, true] {
        let (mut env, _) = installed(of_sizes(9));
        if fails_forward {
            let spec = json!({"upgradeStrategy": "TechPreviewUnsafeFailForward"});
            env.set_groups(&[group(spec, json!({"namespaces": [""]}))]);
        }
        upgrade(&mut env, without_v1());
        env.settle_for(1800);
        let status = &env.plan(PLAN)["status"];
        let expected = if fails_forward { "Failed" } else { "Installing" };
        assert_eq!(status["phase"], expected, "{status:#}");
        env.change(CRD, |crd| crd["status"]["storedVersions"] = json!(["v2"]));
        env.settle_for(120);
        let is_upgraded = env.object(CRD)["spec"]["versions"] == without_v1()["spec"]["versions"];
        assert_eq!(is_upgraded, !fails_forward);
    }
}

#[test]
fn crd_001_mt_004_the_definition_of_one_operator_is_upgraded_at_once() {
    let schema = json!({"type": "object"});
    let both = defined(vec![
        version("v1beta1", true, false, &schema),
        version("v1", true, true, &schema),
    ]);
    let only_new = || defined(vec![version("v1", true, true, &schema)]);
    let owner = |namespace: &str, name: &str| {
        let mut csv = bundle(name, vec![]).csv;
        csv["metadata"]["namespace"] = namespace.into();
        csv
    };
    // Owners of the definition, and the removal of a version without stored objects. The plan's lookup says that it replaces
    // demo.v0. A claim that the definition does not confirm blocks nothing: any user may make it.
    let rows = [
        (vec![], true, true),
        (vec![("ns", "demo.v0")], true, true),
        (vec![("ns", "demo.v0"), ("elsewhere", "demo.v0")], true, false),
        (vec![("elsewhere", "other.v1")], true, false),
        (vec![("elsewhere", "other.v1")], false, true),
    ];
    for (owners, noted, goes) in rows {
        let mut both = both.clone();
        for (namespace, name) in owners.iter().filter(|_| noted) {
            crate::install_plan::crd_upgrade::note_installed_alongside(&mut both, namespace, name);
        }
        let (mut env, _) = installed(both);
        for (namespace, name) in &owners {
            env.put(owner(namespace, name));
        }
        upgrade(&mut env, only_new());
        let versions = env.object(CRD)["spec"]["versions"].as_array().unwrap().len();
        if goes {
            env.assert_summary(PLAN, "Complete");
            assert_eq!(versions, 1, "{owners:?}");
        } else {
            env.assert_told(
                PLAN,
                "new CRD removes version v1beta1 that is served by the existing CRD",
            );
            assert_eq!(versions, 2, "{owners:?}");
        }
    }
}

/// A bundle that the catalog carries itself has no lookup: its manifest says what it replaces.
#[test]
fn crd_001_a_version_replaced_by_a_manifest_does_not_count_either() {
    let schema = json!({"type": "object"});
    let mut both = defined(vec![
        version("v1beta1", true, false, &schema),
        version("v1", true, true, &schema),
    ]);
    crate::install_plan::crd_upgrade::note_installed_alongside(&mut both, "ns", "demo.v0");
    for (replaces, goes) in [("demo.v0", true), ("demo.v00", false)] {
        let (mut env, _) = installed(both.clone());
        let mut owner = bundle("demo.v0", vec![]).csv;
        owner["metadata"]["namespace"] = "ns".into();
        env.put(owner);
        let only_new = defined(vec![version("v1", true, true, &schema)]);
        let next = bundle("demo.v1", vec![only_new]);
        env.add_plan(PLAN, std::slice::from_ref(&next));
        env.change_plan(PLAN, |plan| {
            let mut csv = next.csv.clone();
            csv["spec"]["replaces"] = replaces.into();
            let steps = &mut plan["status"]["plan"];
            steps[0]["resource"]["manifest"] = csv.to_string().into();
            steps[1]["resource"]["manifest"] = next.objects[0].object.to_string().into();
            plan["status"]["bundleLookups"] = json!([]);
        });
        env.converge();
        let phase = if goes { "Complete" } else { "Installing" };
        env.assert_summary(PLAN, phase);
    }
}

#[test]
fn a_definition_that_asks_for_the_same_lists_nothing() {
    let (mut env, lists) = installed(of_sizes(9));
    env.put(demo("tenant", "large", 7));
    let mut described = of_sizes(9);
    described["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = "Better words.".into();
    described["spec"]["versions"][0]["additionalPrinterColumns"] =
        json!([{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}]);
    upgrade(&mut env, described.clone());
    env.assert_summary(PLAN, "Complete");
    assert_eq!(env.object(CRD)["spec"], described["spec"]);
    assert_eq!(*lists.lock().unwrap(), Vec::<String>::new());
}

#[test]
fn crd_003_resources_are_read_page_by_page_and_anew_when_the_server_forgets() {
    let (mut env, lists) = installed(of_sizes(9));
    for number in 0..1000 {
        env.put(demo("tenant", &format!("d{number:03}"), 1));
    }
    env.put(demo("zz", "last", 7));
    let cluster = env.cluster.clone();
    let mut pages = 0;
    env.cluster.on_request(move |request| {
        if request.verb == Verb::List && !request.param("continue").is_empty() {
            pages += 1;
            if pages == 2 {
                cluster.forget_history();
            }
        }
        None
    });
    upgrade(&mut env, of_sizes(3));
    env.assert_told(PLAN, "\"zz/last\": updated validation is too restrictive");
    let asked = lists.lock().unwrap().clone();
    // Two pages and the refusal of the third, then all three.
    assert!(
        asked.len() >= 6 && asked.iter().all(|one| one == "500"),
        "{asked:?}"
    );
}

/// A conversion webhook that hangs holds up the plans of its namespace for a while, and never for good.
#[test]
fn resources_that_are_not_answered_hold_up_no_other_plan_for_good() {
    let (mut env, _) = installed(of_sizes(9));
    env.put(demo("tenant", "large", 7));
    env.cluster.on_request(|request| {
        (request.verb == Verb::List && request.kind.kind == "Demo").then_some(Fault::Hang)
    });
    for number in 1..=6 {
        let name = format!("hangs-{number}");
        env.add_plan(
            &name,
            &[bundle(&format!("demo.v{number}"), vec![of_sizes(number)])],
        );
    }
    env.add_plan(
        PLAN,
        &[bundle(
            "other.v1",
            vec![core("ConfigMap", "config", json!({"data": {"a": "1"}}))],
        )],
    );
    env.settle_for(200);
    env.assert_summary(PLAN, "Complete");
    env.settle_for(600);
    // The error passes as soon as a user has fixed the cause.
    env.assert_told(
        "hangs-1",
        "error listing example.com/v1, Resource=demos: no answer within 30 s",
    );
    env.assert_summary("hangs-1", "Installing");
}

/// An error that is not the resources' fault never makes the plan fail.
#[test]
fn crd_003_what_cannot_be_read_is_waited_for() {
    let (mut env, _) = installed(of_sizes(9));
    env.put(demo("tenant", "fits", 1));
    env.cluster.on_request(|request| {
        let refused = Refusal::forbidden("s3cret of the server");
        (request.verb == Verb::List && request.kind.kind == "Demo").then_some(Fault::Refuse(refused))
    });
    upgrade(&mut env, of_sizes(3));
    env.settle_for(3600);
    env.assert_summary(PLAN, "Installing");
    env.assert_told(PLAN, "the API server answers 403 Forbidden");
    assert!(!env.summary(PLAN).contains("s3cret"));
    env.cluster.clear_hooks();
    env.settle_for(60);
    env.assert_summary(PLAN, "Complete");
}

/// A webhook may convert the resource into one that fits, so there is only a warning.
#[test]
fn crd_003_a_definition_with_a_conversion_webhook_is_upgraded_with_a_warning() {
    let converted = |most: u64| {
        let mut crd = of_sizes(most);
        crd["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"],
            "clientConfig": {"service": {"name": "demo", "namespace": "ns"}}}});
        crd
    };
    let (mut env, _) = installed(of_sizes(9));
    env.put(demo("tenant", "large", 7));
    upgrade(&mut env, converted(3));
    env.assert_summary(PLAN, "Complete");
    let told: Vec<_> = env
        .events
        .iter()
        .filter(|event| event.starts_with("CRDValidation"))
        .collect();
    assert_eq!(told.len(), 1, "{:?}", env.events);
    assert!(told[0].contains("\"tenant/large\""), "{told:?}");
}
