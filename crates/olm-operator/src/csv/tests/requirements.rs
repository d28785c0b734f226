//! Requirement rows: existing and missing objects, and the messages.

use olm_api::api_key::ApiKey;
use serde_json::{Value, json};

use super::{changed, installed, prepared, rests, succeeded};
use crate::{
    csv::requirements::evaluate,
    test_env::{TestEnv, api_service, crd, csv, csv_key, group, is_for_users, permission},
};

/// `kind name status message` of each row, after some time to settle.
fn rows(env: &mut TestEnv, csv: Value) -> Vec<String> {
    let name = csv["metadata"]["name"].as_str().unwrap().to_owned();
    env.put(csv);
    env.settle_for(6);
    let rows = &env.get("ClusterServiceVersion", "ns", &name).unwrap()["status"]["requirementStatus"];
    let text = |row: &Value, field: &str| row[field].as_str().unwrap_or_default().to_owned();
    rows.as_array()
        .map(Vec::as_slice)
        .unwrap_or_default()
        .iter()
        .map(|row| {
            format!(
                "{} {} {} {}",
                text(row, "kind"),
                text(row, "name"),
                text(row, "status"),
                text(row, "message")
            )
        })
        .collect()
}

fn only_crd(version: &str) -> impl Fn(&mut Value) {
    let version = version.to_owned();
    move |spec: &mut Value| {
        spec["install"]["spec"]["permissions"] = json!([]);
        spec["install"]["spec"]["clusterPermissions"] = json!([]);
        spec["customresourcedefinitions"]["owned"][0]["version"] = json!(version);
    }
}

#[test]
fn csv_003_crd_rows_follow_what_the_cluster_serves() {
    let established = |established: &str, accepted: &str| {
        let mut crd = crd("demos.example.com");
        crd["status"]["conditions"] = json!([{"type": "Established", "status": established}, {"type": "NamesAccepted", "status": accepted}]);
        crd
    };
    let unavailable =
        "PresentNotAvailable CRD is present but the Established condition is False (not available)";
    let cases = [
        (None, "v1", "NotPresent CRD is not present"),
        (
            Some(established("True", "True")),
            "v1",
            "Present CRD is present and Established condition is true",
        ),
        (
            Some(established("True", "True")),
            "v2",
            "NotPresent CRD version not served",
        ),
        (Some(established("True", "False")), "v1", unavailable),
        (Some(established("False", "True")), "v1", unavailable),
    ];
    for (crd, version, expected) in cases {
        let mut env = TestEnv::new();
        env.put(group("ns", "og", &["ns"]));
        crd.into_iter().for_each(|crd| env.put(crd));
        let rows = rows(&mut env, changed("a", only_crd(version)));
        assert_eq!(
            rows,
            [format!("CustomResourceDefinition demos.example.com {expected}")]
        );
    }
}

#[test]
fn an_owned_crd_that_came_with_an_ancestor_has_to_come_with_this_one_too() {
    let mut env = prepared();
    let alongside = |csv: &str| json!({"metadata": {"annotations": {format!("operatorframework.io/installed-alongside-{csv}"): format!("ns/{csv}")}}});
    env.put(csv("a", ""));
    env.settle_for(5);
    env.edit(
        "CustomResourceDefinition",
        "",
        "demos.example.com",
        alongside("a"),
    );
    let mut newer = changed("b", only_crd("v1"));
    newer["spec"]["replaces"] = json!("a");
    let waiting = rows(&mut env, newer);
    assert_eq!(
        waiting,
        [
            "CustomResourceDefinition demos.example.com PresentNotSatisfied CRD installed alongside other CSV(s): a"
        ]
    );
    env.edit(
        "CustomResourceDefinition",
        "",
        "demos.example.com",
        alongside("b"),
    );
    env.settle_for(3);
    succeeded(&env, "b");
}

fn needs_native_api(spec: &mut Value) {
    only_crd("v1")(spec);
    spec["nativeAPIs"] = json!([{"group": "g.example.com", "version": "v1", "kind": "G"}]);
}

/// The API it needs.
fn native_kind() -> ApiKey {
    ApiKey {
        group: "g.example.com".into(),
        version: "v1".into(),
        kind: "G".into(),
    }
}

#[test]
fn an_api_whose_server_is_down_is_a_row_and_no_reason_to_say_nothing() {
    let mut env = prepared();
    env.served.insert(native_kind());
    env.settle();
    env.cluster.set_dead("g.example.com", true);
    let found = rows(&mut env, changed("a", needs_native_api));
    assert_eq!(
        found[1],
        "G v1.g.example.com NotPresent discovery of g.example.com/v1: the API server answers 503"
    );
    let writes = env.writes.len();
    env.settle_for(120);
    assert_eq!(env.writes.len(), writes, "told once");
    env.cluster.set_dead("g.example.com", false);
    env.settle_for(60);
    succeeded(&env, "a");
}

#[test]
fn an_operator_that_runs_is_not_failed_for_an_answer_that_did_not_come() {
    let mut env = prepared();
    env.served.insert(native_kind());
    env.put(changed("a", needs_native_api));
    env.settle_for(5);
    succeeded(&env, "a");
    env.cluster.set_dead("g.example.com", true);
    // A new process has no cache of served kinds.
    env.kill();
    env.settle_for(60);
    succeeded(&env, "a");
    let unknown = &env.get("ClusterServiceVersion", "ns", "a").unwrap()["status"]["requirementStatus"][1];
    assert_eq!(unknown["status"], "NotPresent", "its row says so");
    env.delete("Deployment", "ns", "demo");
    env.settle_for(5);
    assert!(!env.status("a").starts_with("Succeeded"), "{}", env.status("a"));
    env.cluster.set_dead("g.example.com", false);
    env.settle_for(60);
    succeeded(&env, "a");
}

#[test]
fn an_api_service_that_is_not_available_says_why() {
    let mut env = prepared();
    let mut down = api_service("v1.m.k8s.io", "False");
    down["status"]["conditions"][0]["reason"] = json!("MissingEndpoints");
    env.put(down);
    let needing = changed("a", |spec| {
        only_crd("v1")(spec);
        spec["apiservicedefinitions"] =
            json!({"required": [{"group": "m.k8s.io", "version": "v1", "kind": "M", "name": "ms"}]});
    });
    assert_eq!(
        rows(&mut env, needing)[1],
        "APIService v1.m.k8s.io NotPresent APIService is not available: MissingEndpoints"
    );
}

#[test]
fn csv_003_kubernetes_versions_are_compared_strictly() {
    let with = |wanted: &str| {
        changed("a", |spec| {
            only_crd("v1")(spec);
            spec["minKubeVersion"] = json!(wanted);
        })
    };
    let cases = [
        (
            "999.999.999",
            "PresentNotSatisfied CSV version requirement not met: minKubeVersion (999.999.999) > server version (1.34.4)",
        ),
        ("a.b.c", "PresentNotSatisfied CSV version parsing error"),
        (
            "1.34.4",
            "Present CSV minKubeVersion (1.34.4) less than server version (v1.34.4)",
        ),
        (
            "v1.0.0",
            "Present CSV minKubeVersion (v1.0.0) less than server version (v1.34.4)",
        ),
    ];
    for (wanted, expected) in cases {
        let mut env = prepared();
        assert_eq!(
            rows(&mut env, with(wanted))[0],
            format!("ClusterServiceVersion a {expected}")
        );
    }
    let mut env = prepared();
    assert_eq!(
        rows(&mut env, with("")).len(),
        1,
        "an empty version is no requirement"
    );
    let mut env = prepared();
    env.server_version = "v1.33.0-gke.100+build".into();
    let row = &rows(&mut env, with("1.33.0"))[0];
    assert_eq!(
        row,
        "ClusterServiceVersion a Present CSV minKubeVersion (1.33.0) less than server version (v1.33.0-gke.100+build)"
    );
}

fn served(env: &mut TestEnv, group: &str, version: &str, kind: &str) {
    env.served.insert(ApiKey {
        group: group.into(),
        version: version.into(),
        kind: kind.into(),
    });
}

#[test]
fn csv_003_native_and_required_aggregated_apis_have_to_be_served() {
    let csv = changed("a", |spec| {
        only_crd("v1")(spec);
        spec["nativeAPIs"] = json!([{"group": "apps", "version": "v1", "kind": "Deployment"}, {"group": "x", "version": "v1", "kind": "X"}]);
        spec["apiservicedefinitions"] =
            json!({"required": [{"name": "metrics", "group": "m.k8s.io", "version": "v1", "kind": "M"}]});
    });
    let mut env = prepared();
    served(&mut env, "apps", "v1", "Deployment");
    env.put(api_service("v1.m.k8s.io", "False"));
    let before = rows(&mut env, csv);
    assert_eq!(
        before[1..],
        [
            "APIService v1.m.k8s.io NotPresent APIService is not available",
            "Deployment v1.apps Present Native API exists",
            "X v1.x NotPresent Native API does not exist",
        ]
    );
    served(&mut env, "x", "v1", "X");
    served(&mut env, "m.k8s.io", "v1", "M");
    env.settle_for(3);
    assert!(
        env.status("a").starts_with("Pending RequirementsNotMet"),
        "an unavailable APIService does not do"
    );
    env.edit(
        "APIService",
        "",
        "v1.m.k8s.io",
        json!({"status": {"conditions": [{"type": "Available", "status": "True"}]}}),
    );
    env.settle_for(3);
    succeeded(&env, "a");
}

#[test]
fn rows_are_written_although_the_phase_stays_the_same() {
    let mut env = TestEnv::new();
    env.put(group("ns", "og", &["ns"]));
    let before = rows(
        &mut env,
        changed("a", |spec| {
            only_crd("v1")(spec);
            spec["customresourcedefinitions"]["required"] =
                json!([{"name": "others.example.com", "version": "v1", "kind": "Other"}]);
        }),
    );
    assert_eq!(
        before[0],
        "CustomResourceDefinition demos.example.com NotPresent CRD is not present"
    );
    env.put(crd("demos.example.com"));
    env.settle_for(3);
    assert_eq!(
        env.status("a"),
        "Pending RequirementsNotMet: one or more requirements couldn't be found: CustomResourceDefinition others.example.com (CRD is not present)"
    );
    let row = &env.get("ClusterServiceVersion", "ns", "a").unwrap()["status"]["requirementStatus"][0];
    assert_eq!(row["status"], "Present");
}

#[test]
fn csv_003_account_rows_hang_their_rules_below_them() {
    let env = installed();
    let mut rows =
        env.get("ClusterServiceVersion", "ns", "a").unwrap()["status"]["requirementStatus"].clone();
    rows[0]["uuid"] = json!("uid");
    insta::assert_json_snapshot!(rows, @r#"
    [
      {
        "group": "apiextensions.k8s.io",
        "kind": "CustomResourceDefinition",
        "message": "CRD is present and Established condition is true",
        "name": "demos.example.com",
        "status": "Present",
        "uuid": "uid",
        "version": "v1"
      },
      {
        "dependents": [
          {
            "group": "rbac.authorization.k8s.io",
            "kind": "PolicyRule",
            "message": "namespaced rule:{\"verbs\":[\"*\"],\"apiGroups\":[\"\"],\"resources\":[\"configmaps\"]}",
            "status": "Satisfied",
            "version": "v1"
          },
          {
            "group": "rbac.authorization.k8s.io",
            "kind": "PolicyRule",
            "message": "cluster rule:{\"verbs\":[\"*\"],\"apiGroups\":[\"example.com\"],\"resources\":[\"demos\"]}",
            "status": "Satisfied",
            "version": "v1"
          }
        ],
        "group": "",
        "kind": "ServiceAccount",
        "message": "",
        "name": "demo",
        "status": "Present",
        "version": "v1"
      }
    ]
    "#);
}

#[test]
fn a_rule_of_both_kinds_is_invalid_and_does_not_oscillate() {
    let mut env = prepared();
    rests(
        &mut env,
        changed("a", |spec| {
            spec["install"]["spec"]["permissions"] = json!([{"serviceAccountName": "demo",
                "rules": [{"verbs": ["get"], "resources": ["pods"], "nonResourceURLs": ["/x"]}]}]);
        }),
        "Failed InvalidInstallStrategy: install strategy invalid: rule invalid: rule cannot apply to both regular resources and non-resource URLs (permissions of service account demo)",
    );
    let writes = env.writes.len();
    env.settle_for(10);
    assert_eq!(env.writes.len(), writes);
}

fn account(owners: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": "ns", "name": "demo", "ownerReferences": owners}})
}

fn account_row(owners: Value) -> String {
    let mut env = prepared();
    // An object must have the owner's uid, or the account is garbage collected.
    env.put(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "ns", "name": "x", "uid": "x"}}));
    env.by_hand = true;
    env.put(account(owners));
    let rows = rows(&mut env, csv("a", ""));
    rows.last().unwrap().clone()
}

const UNSATISFIED: &str = r#"ServiceAccount demo PresentNotSatisfied Policy rule not satisfied for service account: namespaced rule:{"verbs":["*"],"apiGroups":[""],"resources":["configmaps"]} and 1 more"#;

#[test]
fn an_account_of_another_csv_is_not_used_and_one_of_nobody_is() {
    let owner = |kind: &str, api: &str| json!([{"apiVersion": api, "kind": kind, "name": "x", "uid": "x"}]);
    assert_eq!(
        account_row(owner("ClusterServiceVersion", "operators.coreos.com/v1alpha1")),
        "ServiceAccount demo PresentNotSatisfied Service account is owned by another ClusterServiceVersion"
    );
    assert_eq!(account_row(owner("ConfigMap", "v1")), UNSATISFIED);
    assert_eq!(
        account_row(json!([])),
        UNSATISFIED,
        "it may be used, but may do nothing"
    );
}

fn role(kind: &str, name: &str, resource: &str) -> [Value; 2] {
    let namespace = if kind == "Role" { json!("ns") } else { Value::Null };
    let metadata = json!({"name": name, "namespace": namespace});
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata,
        "rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": [resource]}]});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": format!("{kind}Binding"), "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": "demo", "namespace": "ns"}]});
    [role, binding]
}

fn cleaned(mut object: Value) -> Value {
    if object["metadata"]["namespace"].is_null() {
        object["metadata"].as_object_mut().unwrap().remove("namespace");
    }
    object
}

#[test]
fn manually_created_rights_suffice_and_nothing_is_added_to_them() {
    let mut env = prepared();
    env.by_hand = true;
    env.put(account(json!([])));
    for object in role("Role", "mine", "configmaps")
        .into_iter()
        .chain(role("ClusterRole", "mine", "demos"))
    {
        env.put(cleaned(object));
    }
    env.put(csv("a", ""));
    env.settle_for(5);
    succeeded(&env, "a");
    assert_eq!(
        env.names("Role"),
        ["ns/a", "ns/mine"],
        "`a` is the OperatorCondition's"
    );
    assert_eq!(env.cluster_roles(), ["/mine"]);
}

#[test]
fn one_rule_that_is_not_covered_is_reported_while_the_others_are_satisfied() {
    let mut env = prepared();
    env.by_hand = true;
    env.put(account(json!([])));
    let mut observed_csv = csv("a", "");
    observed_csv["spec"]["install"]["spec"]["permissions"][0]["rules"]
        .as_array_mut()
        .unwrap()
        .push(permission("demo", "", "secrets")["rules"][0].clone());
    for object in role("Role", "mine", "configmaps")
        .into_iter()
        .chain(role("ClusterRole", "mine", "demos"))
    {
        env.put(cleaned(object));
    }
    env.put(observed_csv);
    env.settle_namespace_and_group();
    env.advance(60);
    let observed = env.observe(&csv_key("a")).unwrap();
    let row = evaluate(&observed).unwrap().rows.pop().unwrap();
    assert_eq!(row.status, "PresentNotSatisfied");
    let words: Vec<&str> = row
        .dependents
        .iter()
        .map(|dependent| dependent.status.as_str())
        .collect();
    assert_eq!(words, ["Satisfied", "NotSatisfied", "Satisfied"]);
    env.settle_for(3);
    assert_eq!(
        env.status("a"),
        r#"Pending RequirementsNotMet: one or more requirements couldn't be found: ServiceAccount demo (Policy rule not satisfied for service account: namespaced rule:{"verbs":["*"],"apiGroups":[""],"resources":["secrets"]})"#
    );
    for object in role("Role", "more", "secrets") {
        env.put(cleaned(object));
    }
    env.settle_for(3);
    succeeded(&env, "a");
}

#[test]
fn a_deleted_account_or_role_of_a_running_operator_is_reported_until_its_plan_has_made_it_again() {
    for kind in [
        "ServiceAccount",
        "Role",
        "RoleBinding",
        "ClusterRole",
        "ClusterRoleBinding",
    ] {
        let mut env = installed();
        let before = env.normalised();
        let mut names = env.names(kind).into_iter();
        let name = names.find(|name| name != "ns/a" && !is_for_users(name)).unwrap();
        let (namespace, name) = name.split_once('/').unwrap();
        env.log.clear();
        env.delete(kind, namespace, name);
        env.settle();
        let told = "a: Failed (RequirementsNotMet) requirements no longer met: ServiceAccount demo (";
        let first = env.log.first().map(String::as_str).unwrap_or_default();
        assert!(first.starts_with(told), "{kind}: {first}");
        env.settle_for(60);
        assert!(
            env.status("a").starts_with("Pending RequirementsNotMet"),
            "{kind}: nobody else makes it"
        );
        env.restore_plans();
        env.settle_for(3);
        assert_eq!(env.normalised(), before, "{kind}");
    }
}

#[test]
fn a_role_narrowed_by_hand_is_reported_until_its_plan_has_widened_it_again() {
    let mut env = installed();
    let before = env.normalised();
    let name = env
        .cluster_roles()
        .pop()
        .unwrap()
        .trim_start_matches('/')
        .to_owned();
    env.edit(
        "ClusterRole",
        "",
        &name,
        json!({"rules": [{"verbs": ["get"], "apiGroups": ["example.com"], "resources": ["demos"]}]}),
    );
    env.settle_for(20);
    assert!(
        env.status("a").starts_with("Pending RequirementsNotMet"),
        "{}",
        env.status("a")
    );
    env.restore_plans();
    env.settle_for(3);
    assert_eq!(env.normalised(), before);
}

#[test]
fn a_crd_deleted_and_made_again_brings_the_operator_back() {
    let mut env = installed();
    env.log.clear();
    env.delete("CustomResourceDefinition", "", "demos.example.com");
    env.settle();
    assert!(
        env.status("a").starts_with("Pending RequirementsNotMet"),
        "{}",
        env.status("a")
    );
    assert_eq!(
        env.log[0],
        "a: Failed (RequirementsNotMet) requirements no longer met: CustomResourceDefinition demos.example.com (CRD is not present)"
    );
    env.put(crd("demos.example.com"));
    env.settle_for(3);
    succeeded(&env, "a");
}
