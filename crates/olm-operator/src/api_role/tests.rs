//! The ClusterRoles of provided APIs, compared with recordings of upstream and in the model cluster.

use std::collections::BTreeMap;

use k8s_openapi::api::rbac::v1::ClusterRole;
use olm_api::api_key::ApiKey;
use olm_runtime::{plan::Action, store::Index};
use serde_json::{Value, json};

use super::{Observed, ProvidedApi, ServedBy, decide::decide, observe};
use crate::{
    stores::Stores,
    test_env::{TestEnv, crd, csv, decode, golden_roles, group, is_for_users, namespace_object},
};

const CRD: &str = "demos.example.com";

fn own(env: &TestEnv) -> Vec<String> {
    let names = env.names("ClusterRole").into_iter();
    names
        .filter(|name| is_for_users(name) && !name.starts_with("/olm.og."))
        .collect()
}

#[track_caller]
fn role<'a>(env: &'a TestEnv, name: &str) -> &'a Value {
    env.get("ClusterRole", "", name)
        .unwrap_or_else(|| panic!("{name} in {:?}", own(env)))
}

/// The definition after an InstallPlan created it.
fn brought() -> Value {
    let mut crd = crd(CRD);
    crd["metadata"]["annotations"] = json!({"operatorframework.io/installed-alongside-1": "ns/a"});
    crd
}

/// The demo, installed.
fn installed(targets: &[&str]) -> TestEnv {
    let mut env = TestEnv::new()
        .with(group("ns", "og", targets))
        .with(brought())
        .with(csv("a", ""));
    env.settle_for(5);
    env
}

/// Returns the names created for an API when nothing exists yet.
fn created(
    served_by: ServedBy,
    uid: &str,
    name: &str,
    resource: &str,
    key: ApiKey,
) -> BTreeMap<String, Value> {
    let observed = Observed {
        served_by,
        uid: uid.to_owned(),
        apis: vec![ProvidedApi {
            name: name.to_owned(),
            resource: resource.to_owned(),
            key,
        }],
        found: BTreeMap::new(),
        former: Vec::new(),
        provider: Default::default(),
    };
    let actions = decide(&observed, None).0.actions.into_iter();
    let objects = actions.map(|action| match action {
        Action::Create { target, object, .. } => (target.name, object),
        other => panic!("{other}"),
    });
    objects.collect()
}

/// Asserts equality with the recorded one, except for the kind of its owner, which upstream writes in lower
/// case.
#[track_caller]
fn agrees(ours: &BTreeMap<String, Value>, golden: &BTreeMap<String, Value>, name: &str) {
    let (ours, mut recorded) = (&ours[name], golden[name].clone());
    let kind = &mut recorded["metadata"]["ownerReferences"][0]["kind"];
    if kind == "customresourcedefinition" {
        *kind = json!("CustomResourceDefinition");
    }
    for field in ["name", "labels", "ownerReferences"] {
        assert_eq!(
            ours["metadata"][field], recorded["metadata"][field],
            "{name} {field}"
        );
    }
    assert_eq!(ours["rules"], recorded["rules"], "{name}");
}

#[track_caller]
fn agrees_on_crd(end: &str) {
    let Some(golden) = golden_roles("05-all-namespaces/cluster-rbac.yaml") else {
        return;
    };
    let name = format!("{CRD}-v1-{end}");
    let uid = golden[&name]["metadata"]["ownerReferences"][0]["uid"]
        .as_str()
        .unwrap();
    let served_by = ServedBy::CustomResourceDefinition(CRD.to_owned());
    let ours = created(
        served_by,
        uid,
        CRD,
        "demos",
        ApiKey::new("example.com", "v1", "Demo"),
    );
    assert_eq!(ours.len(), 4);
    agrees(&ours, &golden, &name);
}

#[test]
fn rbac_005_admin_of_a_definition_may_everything_and_rbac_009_is_taken_up() {
    agrees_on_crd("admin");
}

#[test]
fn rbac_006_edit_of_a_definition_may_change_and_rbac_010_is_taken_up() {
    agrees_on_crd("edit");
}

#[test]
fn rbac_007_view_of_a_definition_may_read_and_rbac_011_is_taken_up() {
    agrees_on_crd("view");
}

#[test]
fn rbac_008_crdview_may_get_the_definition_and_rbac_011_is_taken_up() {
    agrees_on_crd("crdview");
}

#[test]
fn rbac_012_an_api_service_has_the_same_roles_without_crdview() {
    let Some(golden) = golden_roles("10-apiservice/cluster-clusterroles.yaml") else {
        return;
    };
    let uid = golden["hats-v1-admin"]["metadata"]["ownerReferences"][0]["uid"]
        .as_str()
        .unwrap();
    let served_by = ServedBy::ApiService("v1.hats.example.com".to_owned());
    let ours = created(
        served_by,
        uid,
        "hats",
        "hats",
        ApiKey::new("hats.example.com", "v1", "Hat"),
    );
    assert_eq!(ours.len(), 3);
    for name in ours.keys() {
        agrees(&ours, &golden, name);
    }
}

#[test]
fn rbac_004_the_roles_come_once_the_operator_runs_whatever_its_group_targets() {
    for targets in [&[][..], &["ns"], &["ns", "one"]] {
        let mut env = TestEnv::new()
            .with(namespace_object("one"))
            .with(group("ns", "og", targets));
        env.put(crd(CRD));
        let unavailable = json!([{"type": "Available", "status": "False", "message": "no pods"}]);
        env.sick.insert("demo".into(), unavailable);
        env.put(csv("a", ""));
        env.settle_for(20);
        assert_eq!(own(&env), [""; 0], "{}", env.status("a"));
        env.sick.clear();
        env.settle_for(20);
        let made = ["admin", "crdview", "edit", "view"].map(|end| format!("/{CRD}-v1-{end}"));
        assert_eq!(own(&env), made, "{}", env.status("a"));
        let writes = |env: &TestEnv| -> Vec<String> {
            let writes = env.writes.iter();
            writes.filter(|write| write.contains("-v1-")).cloned().collect()
        };
        assert_eq!(writes(&env).len(), 4, "each once: {:#?}", writes(&env));
        env.settle_for(60);
        assert_eq!(writes(&env).len(), 4);
    }
}

/// Custom resources outlive their operator, and so do the rights to delete them; recorded as
/// 04-after-csv-deleted.
#[test]
fn the_roles_stay_without_the_operator_and_go_with_the_definition() {
    let mut env = installed(&["ns"]);
    env.delete("ClusterServiceVersion", "ns", "a");
    env.settle_for(60);
    assert_eq!(env.status("a"), "gone");
    assert_eq!(own(&env).len(), 4);
    env.delete("OperatorGroup", "ns", "og");
    env.settle_for(60);
    assert_eq!(own(&env).len(), 4);
    env.delete("CustomResourceDefinition", "", CRD);
    env.settle_for(60);
    assert_eq!(own(&env), [""; 0]);
}

/// A user who can write ClusterServiceVersions claims a definition of others: that claim is the only source
/// of these roles.
#[test]
fn roles_by_a_mere_claim_go_with_the_last_that_makes_it() {
    let mut env = TestEnv::new()
        .with(group("ns", "og", &["ns"]))
        .with(crd(CRD))
        .with(csv("a", ""));
    env.settle_for(5);
    let made = own(&env);
    assert_eq!(made.len(), 4, "{made:?}");
    // A ClusterServiceVersion that is not healthy still claims it.
    env.delete("Deployment", "ns", "demo");
    env.refused
        .insert("Deployment".into(), olm_runtime::outcome::FailureClass::Forbidden);
    env.settle_for(120);
    assert!(!env.status("a").starts_with("Succeeded"), "{}", env.status("a"));
    assert_eq!(own(&env), made);
    env.refused.clear();
    // Its deletion may be missed.
    env.kill();
    env.edit(
        "ClusterServiceVersion",
        "ns",
        "a",
        json!({"metadata": {"finalizers": null}}),
    );
    env.delete("ClusterServiceVersion", "ns", "a");
    env.settle_for(5);
    assert_eq!(own(&env), [""; 0]);

    env.put(csv("b", ""));
    env.settle_for(5);
    assert_eq!(own(&env), made);
    env.delete("ClusterServiceVersion", "ns", "b");
    env.settle_for(5);
    assert_eq!(own(&env), [""; 0]);
    env.writes.clear();
    env.settle_for(60);
    assert_eq!(env.writes, [""; 0]);
}

#[test]
fn what_is_edited_or_deleted_comes_back_and_labels_of_others_stay() {
    let mut env = installed(&["ns"]);
    let name = format!("{CRD}-v1-edit");
    let before = role(&env, &name).clone();
    for edit in [
        json!({"metadata": {"labels": {"mine": "yes", "rbac.authorization.k8s.io/aggregate-to-edit": null}}}),
        json!({"rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]}),
    ] {
        env.edit("ClusterRole", "", &name, edit);
        env.settle();
        let mut after = role(&env, &name).clone();
        let labels = after["metadata"]["labels"].as_object_mut().unwrap();
        assert_eq!(labels.remove("mine").unwrap(), "yes");
        assert_eq!(after["metadata"]["labels"], before["metadata"]["labels"]);
        assert_eq!(after["rules"], before["rules"]);
    }
    env.delete("ClusterRole", "", &name);
    env.settle();
    assert_eq!(role(&env, &name)["rules"], before["rules"]);
}

/// Garbage collection does not know the kind `customresourcedefinition`, so such a ClusterRole outlived its
/// definition.
#[test]
fn a_role_of_upstreams_gets_an_owner_that_collects_it() {
    let mut env = installed(&["ns"]);
    let name = format!("{CRD}-v1-view");
    env.kill();
    let mut owner = role(&env, &name)["metadata"]["ownerReferences"][0].clone();
    owner["kind"] = json!("customresourcedefinition");
    env.edit(
        "ClusterRole",
        "",
        &name,
        json!({"metadata": {"ownerReferences": [owner]}}),
    );
    let writes = env.writes.len();
    env.settle_for(60);
    let kind = &role(&env, &name)["metadata"]["ownerReferences"][0]["kind"];
    assert_eq!(kind, "CustomResourceDefinition");
    let mended: Vec<&String> = env.writes[writes..]
        .iter()
        .filter(|write| write.contains("-v1-"))
        .collect();
    assert_eq!(mended.len(), 1, "{mended:#?}");
}

/// Neither a ClusterRole without OLM's label nor one of another definition.
#[test]
fn a_role_of_another_user_is_left_alone_and_reported_once() {
    let rules = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["nodes"]}]);
    let theirs = |end: &str, metadata: Value| {
        let mut theirs = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": metadata, "rules": rules});
        theirs["metadata"]["name"] = json!(format!("{CRD}-v1-{end}"));
        theirs
    };
    let owner = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "name": "others.example.com", "uid": "o"});
    let mut env = TestEnv::new();
    let mut others = crd("others.example.com");
    others["metadata"]["uid"] = json!("o");
    env.put(others);
    env.put(theirs("admin", json!({})));
    env.put(theirs("edit", json!({"labels": {"olm.managed": "true"}})));
    env.put(theirs(
        "view",
        json!({"labels": {"olm.managed": "true"}, "ownerReferences": [owner]}),
    ));
    env.put(group("ns", "og", &["ns"]));
    env.put(crd(CRD));
    env.put(csv("a", ""));
    env.settle_for(120);
    for end in ["admin", "edit", "view"] {
        assert_eq!(role(&env, &format!("{CRD}-v1-{end}"))["rules"], rules, "{end}");
    }
    role(&env, &format!("{CRD}-v1-crdview"));
    let told: Vec<&String> = env
        .events
        .iter()
        .filter(|event| event.contains("NameTaken"))
        .collect();
    assert_eq!(told.len(), 1, "{told:?}");
    for end in ["admin", "edit", "view"] {
        assert!(told[0].contains(&format!("{CRD}-v1-{end}")), "{told:?}");
    }
    let writes = env.writes.len();
    env.settle_for(120);
    assert_eq!(env.writes.len(), writes);
}

/// Two operators that provide one definition to different namespaces share one set of ClusterRoles, and
/// neither reverts the other's writes.
#[test]
fn two_providers_share_the_roles_of_their_definition_whatever_kind_they_claim() {
    let mut other = csv("a", "");
    other["metadata"]["namespace"] = json!("two");
    other["spec"]["customresourcedefinitions"]["owned"][0]["kind"] = json!("Secret");
    let mut env = installed(&["ns"])
        .with(namespace_object("two"))
        .with(group("two", "og", &["two"]))
        .with(other);
    env.settle_for(20);
    let phase = &env.get("ClusterServiceVersion", "two", "a").unwrap()["status"]["phase"];
    assert_eq!(phase, "Succeeded");
    assert_eq!(own(&env).len(), 4);
    let labels = &role(&env, &format!("{CRD}-v1-view"))["metadata"]["labels"];
    assert_eq!(
        labels["olm.opgroup.permissions/aggregate-to-ddb619aba476937e-view"],
        "true"
    );
    assert_eq!(labels.as_object().unwrap().len(), 3, "{labels}");
    let writes = env.writes.len();
    env.settle_for(60);
    assert_eq!(env.writes.len(), writes);
}

/// Observes while no ClusterRole exists.
fn observed(stores: &Stores, key: &ServedBy) -> Option<Observed> {
    observe::observe(stores, &observe::by_owner(stores), key)
}

/// The definition determines its versions; a ClusterServiceVersion may name any.
#[test]
fn a_version_that_the_definition_has_not_gets_no_roles() {
    let stores = Stores::default();
    let mut providing = csv("a", "");
    providing["spec"]["customresourcedefinitions"]["owned"] = json!([
        {"name": CRD, "version": "v1", "kind": "Demo"}, {"name": CRD, "version": "v1-admin", "kind": "Demo"}]);
    providing["status"] = json!({"phase": "Succeeded"});
    stores.csvs.put(decode(providing));
    let mut definition = crd(CRD);
    definition["metadata"]["uid"] = json!("u");
    stores.crds.put(decode(definition));
    let observed = observed(&stores, &ServedBy::CustomResourceDefinition(CRD.to_owned())).unwrap();
    let versions: Vec<&str> = observed.apis.iter().map(|api| api.key.version.as_str()).collect();
    assert_eq!(versions, ["v1"]);
}

/// Users who can write OperatorGroups or CatalogSources act with OLM's rights.
#[test]
fn olms_own_objects_are_opened_to_no_account() {
    let name = "operatorgroups.operators.coreos.com";
    let stores = Stores::default();
    let mut claiming = csv("a", "");
    claiming["spec"]["customresourcedefinitions"]["owned"] =
        json!([{"name": name, "version": "v1", "kind": "OperatorGroup"}]);
    claiming["status"] = json!({"phase": "Succeeded"});
    stores.csvs.put(decode(claiming));
    let mut definition = crd(name);
    definition["metadata"]["uid"] = json!("u");
    stores.crds.put(decode(definition));
    let key = ServedBy::CustomResourceDefinition(name.to_owned());
    assert!(observed(&stores, &key).is_none());
}

/// A running operator that claims to serve `owned` with the APIService `v1.things.example.com`.
fn serving(owned: &Value) -> Stores {
    let stores = Stores::default();
    let mut serving = csv("a", "");
    serving["spec"]["apiservicedefinitions"] = json!({"owned": owned});
    serving["status"] = json!({"phase": "Succeeded"});
    stores.csvs.put(decode(serving));
    let labels =
        json!({"olm.owner": "a", "olm.owner.namespace": "ns", "olm.owner.kind": "ClusterServiceVersion"});
    stores.api_services.put(decode(
        json!({"metadata": {"name": "v1.things.example.com", "uid": "u", "labels": labels}}),
    ));
    stores
}

fn described(name: &str, kind: &str) -> Value {
    json!({"name": name, "group": "things.example.com", "version": "v1", "kind": kind, "deploymentName": "demo"})
}

fn resources(stores: &Stores) -> Vec<String> {
    let key = ServedBy::ApiService("v1.things.example.com".to_owned());
    let observed = observed(stores, &key);
    let apis = observed.into_iter().flat_map(|observed| observed.apis);
    apis.map(|api| api.resource).collect()
}

/// The kinds of an APIService are only claimed by the author: such a claim grants no rights on everything.
#[test]
fn rbac_012_only_words_that_can_be_plurals_count() {
    let all = json!([
        described("things", "Thing"),
        described("*", "All"),
        described("things/status", "Sub"),
        described("", "None"),
        described("toys", "A,B")
    ]);
    assert_eq!(resources(&serving(&all)), ["things"]);
}

/// Rights do not depend on versions: an operator that serves one version of a group could otherwise grant
/// rights on others' versions.
#[test]
fn a_group_that_others_serve_too_gets_no_roles_from_an_api_service() {
    let owned = json!([described("things", "Thing")]);
    let with = |name: &str, labels: Value| {
        let stores = serving(&owned);
        stores.api_services.put(decode(
            json!({"metadata": {"name": name, "uid": "x", "labels": labels}}),
        ));
        resources(&stores).len()
    };
    let of = |namespace: &str| json!({"olm.owner": "b", "olm.owner.namespace": namespace, "olm.owner.kind": "ClusterServiceVersion"});
    assert_eq!(with("v1beta1.things.example.com", json!({})), 0);
    assert_eq!(with("v1beta1.things.example.com", of("elsewhere")), 0);
    assert_eq!(
        with("v1beta1.things.example.com", of("ns")),
        1,
        "its own other version"
    );
    assert_eq!(with("v1.example.com", json!({})), 1, "another group");
}

/// An APIService of others does not belong to an operator that claims it.
#[test]
fn an_api_service_that_is_not_the_operators_gets_no_roles() {
    let stores = serving(&json!([described("things", "Thing")]));
    assert_eq!(resources(&stores), ["things"]);
    stores.api_services.put(decode(
        json!({"metadata": {"name": "v1.things.example.com", "uid": "u"}}),
    ));
    assert_eq!(resources(&stores), [""; 0]);
}

const THINGS: &str = "v1.things.example.com";

/// Returns the names of created and of deleted objects for that APIService.
fn writes(stores: &Stores, made: &Index<ClusterRole>) -> (Vec<String>, Vec<String>) {
    let key = ServedBy::ApiService(THINGS.to_owned());
    let observed = observe::observe(stores, made, &key);
    let actions = observed.map(|observed| decide(&observed, None).0.actions);
    let (deleted, created): (Vec<Action>, Vec<Action>) = actions
        .into_iter()
        .flatten()
        .partition(|action| matches!(action, Action::Delete { .. }));
    let names = |actions: Vec<Action>| {
        actions
            .iter()
            .map(|action| action.target().name.clone())
            .collect()
    };
    (names(created), names(deleted))
}

/// An operator that serves `things`, with its ClusterRoles and one that an administrator created.
fn with_roles() -> (Stores, Index<ClusterRole>) {
    let stores = serving(&json!([described("things", "Thing")]));
    let made = observe::by_owner(&stores);
    let observed = observe::observe(&stores, &made, &ServedBy::ApiService(THINGS.to_owned())).unwrap();
    for action in decide(&observed, None).0.actions {
        let Action::Create { object, .. } = action else {
            panic!("{action}")
        };
        stores.cluster_roles.put(decode(object));
    }
    let owner =
        json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "name": THINGS, "uid": "u"});
    stores.cluster_roles.put(decode(
        json!({"metadata": {"name": "mine", "ownerReferences": [owner],
        "labels": {"olm.managed": "true"}}}),
    ));
    assert_eq!(writes(&stores, &made), (vec![], vec![]));
    (stores, made)
}

const OF_THINGS: [&str; 3] = ["things-v1-admin", "things-v1-edit", "things-v1-view"];

fn strings(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn roles_of_an_api_service_go_when_it_is_another_operators_that_serves_other_kinds() {
    let (stores, made) = with_roles();
    let mut other = csv("b", "");
    other["spec"]["apiservicedefinitions"] = json!({"owned": [described("toys", "Toy")]});
    stores.csvs.put(decode(other.clone()));
    let labels =
        json!({"olm.owner": "b", "olm.owner.namespace": "ns", "olm.owner.kind": "ClusterServiceVersion"});
    stores.api_services.put(decode(
        json!({"metadata": {"name": THINGS, "uid": "u", "labels": labels}}),
    ));
    assert_eq!(writes(&stores, &made), (vec![], vec![]), "until it has succeeded");
    other["status"] = json!({"phase": "Succeeded"});
    stores.csvs.put(decode(other.clone()));
    let of_toys = ["toys-v1-admin", "toys-v1-edit", "toys-v1-view"];
    assert_eq!(
        writes(&stores, &made),
        (strings(&of_toys), strings(&OF_THINGS)),
        "and `mine` stays"
    );
    other["spec"]["apiservicedefinitions"] = json!({"owned": [described("things", "Thing")]});
    stores.csvs.put(decode(other));
    assert_eq!(writes(&stores, &made), (vec![], vec![]), "they follow");
}

#[test]
fn roles_of_an_api_service_go_when_others_serve_its_group_too() {
    let (stores, made) = with_roles();
    stores.api_services.put(decode(
        json!({"metadata": {"name": "v2.things.example.com", "uid": "x"}}),
    ));
    assert_eq!(writes(&stores, &made), (vec![], strings(&OF_THINGS)));
    // The second time there is nothing to delete or create.
    for name in OF_THINGS {
        let mut gone = ClusterRole::default();
        gone.metadata.name = Some(name.to_owned());
        stores.cluster_roles.put(gone);
    }
    assert_eq!(writes(&stores, &made), (vec![], vec![]));
}

#[test]
fn roles_of_an_api_service_stay_while_its_operator_has_trouble() {
    let (stores, made) = with_roles();
    let mut failed = csv("a", "");
    failed["spec"]["apiservicedefinitions"] = json!({"owned": []});
    failed["status"] = json!({"phase": "Failed"});
    stores.csvs.put(decode(failed));
    assert_eq!(writes(&stores, &made), (vec![], vec![]));
}
