//! Contents of a plan's preview, composed from what was read.

use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use olm_api::v1alpha1::InstallPlan;
use olm_runtime::NamespacedName;
use olm_runtime::discovery::ServedKind;
use serde_json::json;

use super::*;
use crate::bundle_unpack::UnpackedBundle;
use crate::install_plan::custom_resources::{CheckRequest, CheckState, Misfit};
use crate::manifest::BundleImageReference;

fn known(kind: &str, object: Value, current: Option<Value>) -> StepState {
    let kind = StepKind::of(kind).unwrap();
    StepState::Known(Box::new(KnownStep {
        object,
        api: kind.api_resource().unwrap(),
        namespaced: kind.is_cluster_scoped() == Some(false),
        current,
    }))
}

#[allow(clippy::needless_pass_by_value)] // Written out in place by every caller.
fn composed(rows: Vec<(&str, &str, StepState)>) -> PlanPreview {
    composed_for(rows, None)
}

/// Where the OperatorGroup names this ServiceAccount.
#[allow(clippy::needless_pass_by_value)] // Written out in place by every caller.
fn composed_for(rows: Vec<(&str, &str, StepState)>, account: Option<&str>) -> PlanPreview {
    compose(&observed_for(rows, account), &Before::default(), Vec::new())
}

#[allow(clippy::needless_pass_by_value)] // Written out in place by every caller.
fn observed_for(rows: Vec<(&str, &str, StepState)>, account: Option<&str>) -> Observed {
    let step = |(kind, name, _): &(&str, &str, StepState)| json!({"resolving": "demo.v2", "status": "Unknown", "resource": {"sourceName": "", "sourceNamespace": "", "group": "", "version": "v1", "kind": kind, "name": name}});
    let steps: Vec<Value> = rows.iter().map(step).collect();
    let plan = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan", "metadata": {"name": "install-1", "namespace": "ns"},
        "spec": {"clusterServiceVersionNames": ["demo.v2"], "approval": "Manual", "approved": false},
        "status": {"phase": "RequiresApproval", "catalogSources": [], "plan": steps}});
    let plan: InstallPlan = serde_json::from_value(plan).unwrap();
    let group = json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": {"name": "g", "namespace": "ns"},
        "spec": {"serviceAccountName": account.unwrap_or_default()}});
    Observed {
        steps: rows.into_iter().map(|(_, _, state)| state).collect(),
        operator_groups: vec![Arc::new(serde_json::from_value(group).unwrap())],
        install_plan: Arc::new(plan),
        ..Observed::default()
    }
}

fn lines(preview: &PlanPreview) -> Vec<String> {
    let of_object = |object: &ObjectChange| {
        let foreign = if object.foreign { " foreign" } else { "" };
        let fields = object.fields.join(" ");
        format!(
            "{:?} {} {}{foreign} {fields}",
            object.verb, object.kind, object.name
        )
    };
    preview.objects.iter().map(of_object).collect()
}

/// These keys of the data are an earlier plan's.
fn by_a_plan(keys: &[&str]) -> Value {
    let keys: serde_json::Map<_, _> = keys.iter().map(|key| (format!("f:{key}"), json!({}))).collect();
    json!([{"manager": "olm", "operation": "Update", "fieldsV1": {"f:data": keys}}])
}

#[test]
fn objects_are_reported_by_name_and_field() {
    let owned = json!({"name": "config", "ownerReferences": [{"kind": "ClusterServiceVersion", "uid": "1"}]});
    let config = |data: Value| json!({"metadata": {"name": "config"}, "data": data});
    let mut current = config(json!({"a": "1", "gone": "1", "same": "1", "theirs": "1"}));
    current["metadata"] = owned;
    current["metadata"]["managedFields"] = by_a_plan(&["a", "gone", "same"]);
    let preview = composed(vec![
        (
            "ConfigMap",
            "new",
            known("ConfigMap", config(json!({"a": "1"})), None),
        ),
        (
            "ConfigMap",
            "config",
            known(
                "ConfigMap",
                config(json!({"a": "s3cret", "same": "1"})),
                Some(current.clone()),
            ),
        ),
        (
            "ConfigMap",
            "same",
            known("ConfigMap", current.clone(), Some(current)),
        ),
        (
            "ConfigMap",
            "theirs",
            known(
                "ConfigMap",
                config(json!({"a": "2"})),
                Some(config(json!({"a": "1"}))),
            ),
        ),
        (
            "ServiceMonitor",
            "m",
            StepState::NotServed("monitoring.coreos.com/v1".to_owned()),
        ),
    ]);
    assert_eq!(
        lines(&preview),
        [
            "Create ConfigMap new ",
            "Change ConfigMap config data.a data.gone",
            "Change ConfigMap theirs foreign data.a",
        ]
    );
    assert_eq!(preview.unknown, ["ServiceMonitor m: API not served"]);
    assert!(!preview.to_annotation().contains("s3cret"));
}

/// Users who may not read a Secret could otherwise guess its content with one plan for each guess.
#[test]
fn only_the_keys_of_a_secret_are_reported() {
    let of_csv = json!({"name": "s", "ownerReferences": [{"kind": "ClusterServiceVersion", "uid": "1"}]});
    let secret = |password: &str| json!({"metadata": of_csv, "data": {"password": password}});
    let told = |guess: Value| {
        lines(&composed(vec![(
            "BundleSecret",
            "s",
            known("BundleSecret", guess, Some(secret("czNjcmV0"))),
        )]))
    };
    let expected = ["Change Secret s data.password"];
    assert_eq!(told(secret("czNjcmV0")), expected);
    assert_eq!(told(secret("Z3Vlc3M=")), expected);
    assert_eq!(
        told(json!({"metadata": {"name": "s"}, "stringData": {"password": "s3cret"}})),
        expected
    );
}

/// OLM reads everything; authors of plans do not. A preview must not depend on values that they cannot read.
#[test]
fn values_that_the_plans_author_may_not_read_cannot_be_guessed() {
    let config = |data: Value, of_csv: bool| {
        let owners = json!([{"kind": "ClusterServiceVersion", "uid": "1"}]);
        let owners = if of_csv { owners } else { json!([]) };
        json!({"metadata": {"name": "c", "ownerReferences": owners, "managedFields": by_a_plan(&["theirs"])}, "data": data})
    };
    let role = |verb: &str| json!({"metadata": {"name": "r"}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": [verb]}]});
    let told = |kind: &str, guess: Value, current: Value, account| {
        composed_for(vec![(kind, "c", known(kind, guess, Some(current)))], account)
    };
    for (of_csv, account, is_told) in [
        (true, None, true),
        (false, None, false),
        (true, Some("limited"), false),
        (false, Some("limited"), false),
    ] {
        let current = config(json!({"key": "secret", "theirs": "x"}), of_csv);
        let guess = |value: &str| {
            let wanted = config(json!({"key": value}), false);
            told("ConfigMap", wanted, current.clone(), account)
        };
        let (right, wrong) = (guess("secret"), guess("other"));
        assert_eq!(right != wrong, is_told, "{of_csv} {account:?}");
        let text = right.to_annotation();
        assert_eq!(text.contains("theirs"), is_told, "{text}");
        if !is_told {
            let object = &right.objects[0];
            assert_eq!(
                (
                    object.fields.join(" ").as_str(),
                    object.keys_removed,
                    object.not_compared
                ),
                ("data.key", 1, true)
            );
        }
    }
    let (right, wrong) = (role("get"), role("list"));
    assert_eq!(
        told("Role", right.clone(), right.clone(), None),
        told("Role", wrong, right, None)
    );
}

/// The plan of the replaced version may still run when the next one is made.
#[test]
fn an_account_of_the_replaced_version_is_not_reported_as_new() {
    for (of_replaced, expected) in [("demo", vec![]), ("other", vec!["Create ServiceAccount demo "])] {
        let account = |name: &str| json!({"kind": "ServiceAccount", "metadata": {"name": name}});
        let step = known("ServiceAccount", account("demo"), None);
        let before = Before {
            rbac: vec![account(of_replaced)],
            ..Before::default()
        };
        let observed = observed_for(vec![("ServiceAccount", "demo", step)], None);
        assert_eq!(lines(&compose(&observed, &before, Vec::new())), expected);
    }
}

/// Execution keeps existing objects.
#[test]
fn existing_objects_are_not_reported_as_created() {
    let there = |kind: &str| {
        known(
            kind,
            json!({"metadata": {"name": "x"}}),
            Some(json!({"metadata": {"name": "x"}})),
        )
    };
    for account in [None, Some("limited")] {
        let kinds = ["Subscription", "Secret", "ServiceAccount"];
        let preview = composed_for(
            kinds.iter().map(|kind| (*kind, "x", there(kind))).collect(),
            account,
        );
        assert_eq!(lines(&preview), Vec::<String>::new());
    }
}

#[test]
fn the_last_of_two_steps_for_one_object_is_reported() {
    let owned = json!({"name": "c", "ownerReferences": [{"kind": "ClusterServiceVersion", "uid": "1"}]});
    let current = json!({"metadata": owned, "data": {"key": "0"}});
    let step = |key: &str| {
        let wanted = json!({"metadata": {"name": "c"}, "data": {"key": "0", key: "1"}});
        known("ConfigMap", wanted, Some(current.clone()))
    };
    let preview = composed(vec![
        ("ConfigMap", "c", step("first")),
        ("ConfigMap", "c", step("last")),
    ]);
    assert_eq!(lines(&preview), ["Change ConfigMap c data.last"]);
}

#[test]
fn a_definition_is_reported_by_its_versions_and_the_fields_it_loses() {
    let version = |name: &str, properties: Value| {
        json!({"name": name, "served": true, "storage": name == "v1",
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}}})
    };
    let crd = |versions: Vec<Value>| json!({"metadata": {"name": "demos.example.com"}, "spec": {"group": "example.com", "versions": versions}});
    let list = json!({"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}});
    let fewer =
        json!({"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}});
    let before = crd(vec![
        version("v1beta1", json!({})),
        version("v1", json!({"size": {"type": "integer"}, "list": list})),
    ]);
    let after = crd(vec![
        version("v1", json!({"list": fewer})),
        version("v2", json!({})),
    ]);
    let preview = composed(vec![(
        "CustomResourceDefinition",
        "demos.example.com",
        known("CustomResourceDefinition", after, Some(before.clone())),
    )]);
    let [change] = &preview.definitions[..] else {
        panic!("{preview:?}");
    };
    assert_eq!(change.versions_added, ["v2"]);
    assert_eq!(change.versions_removed, ["v1beta1"]);
    assert_eq!(change.fields_removed, ["v1: spec.list[].b", "v1: spec.size"]);
    assert_eq!(change.fields, Vec::<String>::new(), "everything is named");
    let told = |properties: Value| {
        let one = |properties: Value| crd(vec![version("v1", properties)]);
        let state = known(
            "CustomResourceDefinition",
            one(properties),
            Some(one(json!({"a": {"type": "string"}}))),
        );
        let mut preview = composed(vec![("CustomResourceDefinition", "demos.example.com", state)]);
        let change = preview.definitions.remove(0);
        (change.fields_added, change.fields)
    };
    let names = |names: &[&str]| -> Vec<String> { names.iter().map(|&name| name.to_owned()).collect() };
    let optional = json!({"a": {"type": "string"}, "size": {"type": "integer"}});
    assert_eq!(told(optional), (names(&["v1: spec.size"]), names(&[])));
    let with_more = json!({"a": {"type": "string", "maxLength": 3}, "size": {"type": "integer"}});
    assert_eq!(
        told(with_more),
        (names(&["v1: spec.size"]), names(&["spec.versions"]))
    );
    let same = composed(vec![(
        "CustomResourceDefinition",
        "demos.example.com",
        known("CustomResourceDefinition", before.clone(), Some(before)),
    )]);
    assert_eq!(same.definitions, []);
}

/// A user who approves sees which field becomes required, and which resource keeps OLM from making the change.
#[test]
fn required_fields_of_a_definition_and_the_resource_that_does_not_fit_are_reported() {
    let crd = |required: Value| {
        let spec =
            json!({"type": "object", "properties": {"size": {"type": "integer"}}, "required": required});
        let schema = json!({"type": "object", "properties": {"spec": spec}});
        json!({"metadata": {"name": "demos.example.com"}, "spec": {"group": "example.com", "names": {"kind": "Demo", "plural": "demos"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}})
    };
    let told = |check: CheckState, account: Option<&str>| {
        let known = known(
            "CustomResourceDefinition",
            crd(json!(["size"])),
            Some(crd(json!([]))),
        );
        let mut observed = observed_for(
            vec![("CustomResourceDefinition", "demos.example.com", known)],
            account,
        );
        observed.custom_resources.insert(0, check);
        let mut preview = compose(&observed, &Before::default(), Vec::new());
        (preview.definitions.remove(0), preview.unknown)
    };
    let resource = |namespace: &str, name: &str, others: Vec<Misfit>| Misfit {
        version: "v1".to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        fields: "spec.size: is required".to_owned(),
        others,
    };
    // Readers of the plan may not know what is in other namespaces.
    let others = vec![
        resource("elsewhere", "secret", Vec::new()),
        resource("ns", "b", Vec::new()),
    ];
    let misfit = CheckState::Misfit(resource("ns", "a", others));
    let (change, unknown) = told(misfit.clone(), None);
    assert_eq!(change.fields_required, ["v1: spec.size"]);
    assert!(
        change.refused.contains("Kind=Demo \"ns/a\"")
            && change
                .refused
                .ends_with("spec.size: is required; ns/b: spec.size: is required"),
        "{change:?}"
    );
    assert_eq!(unknown, Vec::<String>::new());
    assert_eq!(told(CheckState::Fits, None).0.refused, "");
    let (change, unknown) = told(CheckState::Unread("no answer".to_owned()), None);
    assert_eq!(change.refused, "");
    assert_eq!(
        unknown,
        ["whether custom resources fit demos.example.com: no answer"]
    );
    let (limited, _) = told(misfit, Some("limited"));
    assert!(limited.not_compared && limited.refused.is_empty() && limited.fields_required.is_empty());
}

/// If a ServiceAccount is named, only OLM reads the existing definition.
#[test]
fn nothing_is_reported_about_an_existing_definition() {
    let crd = |versions: &[&str], properties: Value| {
        let versions = versions.iter().map(|name| {
            json!({"name": name, "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}}})
        });
        let versions: Vec<Value> = versions.collect();
        json!({"metadata": {"name": "demos.example.com"}, "spec": {"group": "example.com", "versions": versions}})
    };
    let wanted = crd(&["v1"], json!({}));
    let told = |current: Value, account| {
        let known = known("CustomResourceDefinition", wanted.clone(), Some(current));
        composed_for(
            vec![("CustomResourceDefinition", "demos.example.com", known)],
            account,
        )
    };
    let (same, other) = (
        wanted.clone(),
        crd(&["v1", "v1alpha1"], json!({"size": {"type": "integer"}})),
    );
    assert_ne!(told(same.clone(), None), told(other.clone(), None));
    let limited = told(other, Some("limited"));
    assert_eq!(told(same, Some("limited")), limited);
    let [change] = &limited.definitions[..] else {
        panic!("{limited:?}");
    };
    assert!(
        change.not_compared && change.versions_added == ["v1"],
        "{change:?}"
    );
}

/// A cluster with one ClusterServiceVersion.
struct OneCsv(Value);

#[async_trait]
impl Reads for OneCsv {
    async fn get(&self, target: &Target) -> Result<Option<Value>, ObserveError> {
        Ok(Some(self.0.clone()).filter(|csv| object::name(csv) == target.name))
    }
    async fn find_kind(&self, _: &str, _: &str, _: &str) -> Result<Option<ServedKind>, ObserveError> {
        Ok(None)
    }
    async fn bundle(&self, _: &BundleImageReference, _: &InstallPlan) -> Result<UnpackedBundle, NoObject> {
        panic!("the catalog carries its bundles itself")
    }
    fn csv_exists(&self, _: &str) -> bool {
        false
    }
    fn converters(&self, _: &str, _: &str) -> Vec<String> {
        Vec::new()
    }
    fn crd_owners(&self, _: &str) -> Vec<NamespacedName> {
        Vec::new()
    }
    async fn check_custom_resources(&self, _: CheckRequest) -> CheckState {
        CheckState::Fits
    }
    fn global_namespace(&self) -> &str {
        "olm"
    }
}

/// The preview of an upgrade from demo.v1 to demo.v2 whose bundles are in the catalog itself, or of demo.v2 alone if demo.v1 does
/// not exist.
async fn inline_upgrade(is_installed: bool) -> PlanPreview {
    let csv = |name: &str, replaces: &str, verbs: &[&str]| {
        json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": name, "namespace": "ns"},
            "spec": {"replaces": replaces, "install": {"strategy": "deployment", "spec": {"deployments": [
                {"name": "demo", "spec": {"template": {"spec": {"containers": [{"name": "manager", "image": format!("{name}-image")}]}}}}], "permissions": [
                {"serviceAccountName": "demo", "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": verbs}]}]}}}})
    };
    let after = csv("demo.v2", "demo.v1", &["get", "list"]);
    let mut objects = vec![after.clone()];
    objects.extend(rbac_objects(&after, "ns").unwrap());
    let step = |object: &Value| {
        json!({"resolving": "demo.v2", "status": "Unknown", "resource": {"sourceName": "", "sourceNamespace": "", "group": "",
        "version": "v1", "kind": object["kind"], "name": object["metadata"]["name"], "manifest": object.to_string()}})
    };
    let plan = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan", "metadata": {"name": "install-1", "namespace": "ns"},
        "spec": {"clusterServiceVersionNames": ["demo.v2"], "approval": "Manual", "approved": false},
        "status": {"phase": "RequiresApproval", "catalogSources": [], "plan": objects.iter().map(step).collect::<Vec<_>>()}});
    let before = csv("demo.v1", "", &["get", "delete"]);
    let mut installed = vec![Arc::new(serde_json::from_value(before.clone()).unwrap())];
    installed.retain(|_| is_installed);
    let plan: InstallPlan = serde_json::from_value(plan).unwrap();
    let group = json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": {"name": "g", "namespace": "ns"},
        "spec": {"targetNamespaces": ["ns"]}});
    let groups = vec![Arc::new(serde_json::from_value(group).unwrap())];
    let observed = Observed {
        install_plan: Arc::new(plan),
        operator_groups: groups,
        csvs: installed,
        ..Observed::default()
    };
    let text = preview(&OneCsv(before), observed, &[], Timestamp::UNIX_EPOCH).await;
    let preview = PlanPreview::from_annotation(&text.unwrap()).unwrap();
    assert_eq!(preview.made_at, "1970-01-01T00:00:00Z");
    preview
}

/// They have no lookup, which names the replaced version of other bundles.
#[tokio::test]
async fn a_bundle_of_the_catalog_itself_is_compared_with_what_it_replaces() {
    let preview = inline_upgrade(true).await;
    assert_eq!(preview.operators[0].replaces, "demo.v1");
    assert_eq!(preview.unknown, Vec::<String>::new());
    let image = &preview.images[0];
    assert_eq!(
        (image.from.as_str(), image.to.as_str()),
        ("demo.v1-image", "demo.v2-image")
    );
    assert_eq!(lines(&preview)[0], "Change Deployment demo spec.template.spec");
    let [change] = &preview.permissions[..] else {
        panic!("{preview:?}");
    };
    let verbs = |rules: &[olm_api::plan_preview::Rule]| {
        rules
            .iter()
            .flat_map(|rule| rule.verbs.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (verbs(&change.gained), verbs(&change.lost)),
        (vec!["list".to_owned()], vec!["delete".to_owned()])
    );
}

/// A channel head replaces a version, which never existed if the head is installed first.
#[tokio::test]
async fn what_heads_replace_is_reported_where_it_is_installed() {
    assert_eq!(inline_upgrade(true).await.operators[0].replaces, "demo.v1");
    let first = inline_upgrade(false).await;
    assert_eq!(
        (
            first.operators[0].name.as_str(),
            first.operators[0].replaces.as_str()
        ),
        ("demo.v2", "")
    );
    assert_eq!(lines(&first)[0], "Create Deployment demo ");
}

/// Thousands of rules, or a schema of a MiB: reconciles, watches and leases are not delayed by them.
#[test]
fn previews_are_not_made_on_the_thread_of_the_rounds() {
    static STARTED: AtomicUsize = AtomicUsize::new(0);
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.on_thread_start(|| {
        STARTED.fetch_add(1, Ordering::Relaxed);
    });
    let runtime = runtime.enable_all().build().unwrap();
    let before = STARTED.load(Ordering::Relaxed);
    runtime.block_on(inline_upgrade(true));
    assert_eq!(STARTED.load(Ordering::Relaxed), before + 1);
}
