//! A ClusterServiceVersion alone grants no rights.

mod grants;
mod reads;
mod rows;
mod taking_back;
mod upstream;

use std::collections::BTreeSet;

use k8s_openapi::api::rbac::v1::PolicyRule;
use olm_api::permission::{self, Permission};
use serde_json::{Value, json};

use super::{prepared_for, succeeded};
use crate::test_env::{TestEnv, csv, decode, group, is_for_users, namespace_object, permission};

/// The demo's namespaced permission.
fn rules(resource: &str) -> Vec<PolicyRule> {
    decode(permission("demo", "", resource)["rules"].clone())
}

fn role_name(resource: &str) -> String {
    Permission::new("demo", &rules(resource)).role_name("a").unwrap()
}

/// A Role (or ClusterRole) and its binding to the demo's account, with all labels of OLM's own ones.
fn labelled(namespace: &str, name: &str, rules: Value, extra: &[(&str, &str)]) -> [Value; 2] {
    let kind = if namespace.is_empty() {
        "ClusterRole"
    } else {
        "Role"
    };
    let typed: Vec<PolicyRule> = decode(rules.clone());
    let counted = typed.split_last().filter(|_| namespace.is_empty());
    let hash = permission::rules_hash(counted.map_or(&typed[..], |(_, rest)| rest)).unwrap();
    let mut metadata = json!({"name": name, "labels": {
        "olm.managed": "true", "olm.owner": "a", "olm.owner.namespace": "ns",
        "olm.owner.kind": "ClusterServiceVersion", "olm.permissions.hash": hash}});
    for (key, value) in extra {
        metadata["labels"][*key] = json!(value);
    }
    if !namespace.is_empty() {
        metadata["namespace"] = json!(namespace);
    }
    let api = "rbac.authorization.k8s.io/v1";
    [
        json!({"apiVersion": api, "kind": kind, "metadata": metadata, "rules": rules}),
        json!({"apiVersion": api, "kind": format!("{kind}Binding"), "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": "demo", "namespace": "ns"}]}),
    ]
}

fn account() -> Value {
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": "ns", "name": "demo"}})
}

fn put_all(env: &mut TestEnv, objects: impl IntoIterator<Item = Value>) {
    objects.into_iter().for_each(|object| env.put(object));
}

/// The demo without cluster permissions.
fn demo() -> Value {
    let mut csv = csv("a", "");
    csv["spec"]["install"]["spec"]["clusterPermissions"] = json!([]);
    csv
}

/// The same objects as created by a user, without labels.
fn unlabelled(namespace: &str, name: &str, rules: Value) -> [Value; 2] {
    labelled(namespace, name, rules, &[]).map(|mut object| {
        object["metadata"]["labels"] = json!({});
        object
    })
}

/// The demo and its rights in `ns`, all created by a user, with or without OLM's labels.
pub(super) fn by_hand(targets: &[&str], is_labelled: bool) -> TestEnv {
    let mut env = prepared_for(targets);
    for target in targets.iter().filter(|target| **target != "ns") {
        env.put(namespace_object(target));
    }
    env.by_hand = true;
    env.put(account());
    let rules = configmaps();
    let made = match is_labelled {
        true => labelled("ns", "mine", rules, &[]),
        false => unlabelled("ns", "mine", rules),
    };
    put_all(&mut env, made);
    env.put(demo());
    env
}

fn configmaps() -> Value {
    permission("demo", "", "configmaps")["rules"].clone()
}

/// Returns the messages of the status about missing rights beyond the namespace.
fn missing(env: &TestEnv) -> Vec<String> {
    let status = &env.get("ClusterServiceVersion", "ns", "a").unwrap()["status"];
    let rows = status["requirementStatus"].as_array().into_iter().flatten();
    let messages = rows.filter_map(|row| row["message"].as_str());
    let messages = messages.filter(|message| message.starts_with("rights are missing "));
    messages.map(str::to_owned).collect()
}

fn events_of_missing(env: &TestEnv) -> usize {
    let events = env.events.iter();
    events.filter(|event| event.contains("RightsMissing")).count()
}

fn rbac_outside(env: &TestEnv) -> Vec<String> {
    let mut names = env.cluster_roles();
    names.extend(env.names("ClusterRoleBinding"));
    for kind in ["Role", "RoleBinding"] {
        names.extend(
            env.names(kind)
                .into_iter()
                .filter(|name| !name.starts_with("ns/")),
        );
    }
    names
}

#[track_caller]
fn account_row(env: &TestEnv) -> Value {
    let status = &env.get("ClusterServiceVersion", "ns", "a").unwrap()["status"];
    let rows = status["requirementStatus"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    rows.into_iter()
        .find(|row| row["kind"] == "ServiceAccount")
        .expect("a row of the account")
}

fn message(env: &TestEnv) -> String {
    account_row(env)["message"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

#[track_caller]
fn unmet(env: &TestEnv) {
    let told =
        "Pending RequirementsNotMet: one or more requirements couldn't be found: ServiceAccount demo (";
    assert!(env.status("a").starts_with(told), "{}", env.status("a"));
}

fn retarget(env: &mut TestEnv, targets: Value) {
    env.edit(
        "OperatorGroup",
        "ns",
        "og",
        json!({"spec": {"targetNamespaces": targets}}),
    );
    env.settle_for(5);
}

fn replicas(env: &TestEnv) -> Vec<String> {
    let names = env.names("RoleBinding").into_iter();
    names
        .filter(|name| !name.starts_with("ns/"))
        .map(|name| name.split('/').next().unwrap().to_owned())
        .collect()
}

fn installed_in(targets: &[&str]) -> TestEnv {
    let mut env = prepared_for(targets);
    for name in ["one", "two", "three"] {
        env.put(namespace_object(name));
    }
    env.put(demo());
    env.settle_for(10);
    succeeded(&env, "a");
    env
}

/// Makes the ClusterServiceVersion request other rules; its namespace has a Role with them that a tenant
/// created.
fn ask_for_secrets(env: &mut TestEnv) {
    let wide = permission("demo", "", "secrets");
    put_all(
        env,
        unlabelled("ns", &role_name("secrets"), wide["rules"].clone()),
    );
    env.edit(
        "ClusterServiceVersion",
        "ns",
        "a",
        json!({"spec": {"install": {"spec": {"permissions": [wide]}}}}),
    );
}

#[test]
fn arch_007_a_missing_account_or_right_is_reported_and_never_made() {
    for targets in [&["ns"][..], &[]] {
        let mut env = prepared_for(targets);
        env.by_hand = true;
        let mut csv = csv("a", "");
        let all = json!([{"serviceAccountName": "demo", "rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]}]);
        csv["spec"]["install"]["spec"]["clusterPermissions"] = all;
        env.put(csv);
        env.settle_for(90);
        unmet(&env);
        assert_eq!(message(&env), "Service account does not exist");
        env.put(account());
        env.settle_for(90);
        unmet(&env);
        let told = "Policy rule not satisfied for service account: namespaced rule:{";
        assert!(message(&env).starts_with(told), "{}", message(&env));
        assert!(message(&env).ends_with(" and 1 more"), "{}", message(&env));
        assert_eq!(
            env.names("Role"),
            ["ns/a"],
            "the OperatorCondition's, whose rules are not the ClusterServiceVersion's"
        );
        assert_eq!(env.names("ServiceAccount"), ["ns/demo"]);
        assert!(rbac_outside(&env).is_empty(), "{:?}", rbac_outside(&env));
        assert!(env.names("Deployment").is_empty());
    }
}

#[test]
fn arch_006_a_manually_applied_csv_runs_once_its_rights_exist_from_any_source() {
    let mut env = prepared_for(&["ns"]);
    env.by_hand = true;
    env.put(demo());
    env.settle_for(40);
    unmet(&env);
    env.put(account());
    let [mut role, mut binding] = labelled(
        "ns",
        "mine",
        permission("demo", "", "configmaps")["rules"].clone(),
        &[],
    );
    for object in [&mut role, &mut binding] {
        object["metadata"]["labels"] = json!({});
    }
    put_all(&mut env, [role, binding]);
    env.settle_for(20);
    succeeded(&env, "a");
}

/// Checks all accounts and RBAC that this operator creates in every story. Each takes no rules from a
/// ClusterServiceVersion, or is a counterpart of an object of an InstallPlan.
#[test]
fn arch_004_accounts_and_rbac_are_made_only_where_they_take_no_rules_from_a_csv() {
    /// Fixed shapes; only the name comes from a ClusterServiceVersion.
    const FIXED: [&str; 2] = [
        "of an OperatorCondition: get, update, patch on that one object",
        "for users: verbs of a level on an API that is there; OLM binds nobody to it",
    ];
    // Also fixed, but not created for the demo, which serves nothing: the Role and bindings of serving
    // certificates.
    let mut seen = BTreeSet::new();
    for targets in [&["ns"][..], &["ns", "one"], &[]] {
        for by_hand in [false, true] {
            let mut env = prepared_for(targets).with(namespace_object("one"));
            env.by_hand = by_hand;
            env.put(csv("a", ""));
            env.settle_for(20);
            env.put(csv("b", "a"));
            env.settle_for(20);
            let makes = |write: &&String| {
                let verbs = ["apply ", "create ", "patch "];
                let kinds = [
                    "ServiceAccount ",
                    "Role ",
                    "RoleBinding ",
                    "ClusterRole ",
                    "ClusterRoleBinding ",
                ];
                verbs.iter().any(|verb| {
                    kinds
                        .iter()
                        .any(|kind| write.starts_with(&format!("{verb}{kind}")))
                })
            };
            for write in env.writes.iter().filter(makes) {
                let name = write.rsplit(['/', ' ']).next().unwrap();
                let is_condition = env
                    .writes
                    .iter()
                    .any(|other| *other == format!("apply OperatorCondition ns/{name}"));
                if is_for_users(write) {
                    seen.insert(FIXED[1]);
                    continue;
                }
                let is_counterpart = !by_hand && (write.contains("Cluster") || write.contains(" one/"));
                assert!(
                    is_condition || is_counterpart,
                    "{targets:?}, by hand {by_hand}: {write}"
                );
                seen.insert(if is_condition { FIXED[0] } else { "counterpart" });
            }
        }
    }
    assert_eq!(seen, BTreeSet::from([FIXED[0], FIXED[1], "counterpart"]));
}

/// The rights of the deployed program match.
#[test]
fn arch_007_the_deployed_program_may_not_write_service_accounts() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../manifests/olm/30-olm-operator.yaml"
    );
    let text = std::fs::read_to_string(path).unwrap();
    let role = text
        .split("---")
        .find(|document| document.contains("kind: ClusterRole\n"))
        .unwrap();
    let rules: Vec<&str> = role.split("- apiGroups:").collect();
    let named: Vec<&&str> = rules
        .iter()
        .filter(|rule| rule.contains("serviceaccounts"))
        .collect();
    assert!(!named.is_empty());
    for rule in named {
        for verb in ["create", "update", "patch", "delete", "\"*\""] {
            assert!(!rule.contains(verb), "{rule}");
        }
    }
}

/// A Role with the labels is replicated under its own name, as in upstream; an admission policy restricts the
/// labels.
#[test]
fn labelled_roles_made_by_hand_are_carried_wherever_the_group_sends_the_operator() {
    for (targets, outside) in [
        (&["ns"][..], &[][..]),
        (&[], &["/mine", "/mine"]),
        (&["ns", "one"], &["one/mine", "one/mine"]),
        (&["one", "two"], &["one/mine", "two/mine", "one/mine", "two/mine"]),
    ] {
        let mut env = by_hand(targets, true);
        env.settle_for(20);
        succeeded(&env, "a");
        assert_eq!(rbac_outside(&env), outside);
        assert_eq!(missing(&env), [""; 0]);
        env.settle_for(90);
        assert_eq!(events_of_missing(&env), 0);
    }
}

#[test]
fn rbac_made_by_hand_without_labels_satisfies_and_what_is_missing_elsewhere_is_reported() {
    for (targets, place) in [
        (&["ns"][..], None),
        (&[], Some("in all namespaces")),
        (&["ns", "one"], Some("in namespace one")),
        (&["one", "two"], Some("in namespaces one, two")),
    ] {
        let mut env = by_hand(targets, false);
        env.settle_for(20);
        succeeded(&env, "a");
        assert_eq!(rbac_outside(&env), [""; 0], "nothing is made of it");
        let reported = missing(&env);
        assert_eq!(reported.len(), usize::from(place.is_some()), "{reported:?}");
        for (message, place) in reported.iter().zip(place) {
            let begins = format!("rights are missing {place}: service account demo has no permissions there");
            assert!(message.starts_with(&begins), "{message}");
        }
        env.settle_for(200);
        assert_eq!(events_of_missing(&env), reported.len(), "each once");
    }
}

#[test]
fn rights_that_an_administrator_made_elsewhere_are_not_missing() {
    for (targets, place) in [(&["ns", "one"][..], "one"), (&[], "")] {
        let mut env = by_hand(targets, false);
        env.settle_for(20);
        assert_eq!(missing(&env).len(), 1);
        put_all(&mut env, unlabelled(place, "elsewhere", configmaps()));
        env.settle_for(90);
        succeeded(&env, "a");
        assert_eq!(missing(&env), [""; 0]);
        assert_eq!(rbac_outside(&env).len(), 2);
    }
}

/// An installed operator of a global group, edited by a tenant who created the Role for it in the tenant's
/// own namespace.
#[test]
fn new_rules_of_an_edited_csv_are_not_promoted() {
    let mut env = prepared_for(&[]).with(demo());
    env.settle_for(10);
    succeeded(&env, "a");
    let before = rbac_outside(&env);
    env.by_hand = true;
    ask_for_secrets(&mut env);
    env.settle_for(60);
    succeeded(&env, "a");
    assert_eq!(rbac_outside(&env), before);
    assert_eq!(missing(&env).len(), 1, "{:?}", missing(&env));
}
