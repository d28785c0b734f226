//! Teams in one cluster: permission to subscribe, visibility of catalogs, and one operator in several namespaces. The guides
//! `who-may-install.md` and `multi-tenancy.md` describe it.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::demo::{FIRST, SECOND, greet, install};
use e2e::lab::{Lab, Namespace, PATIENCE, catalog_source, operator_group, subscription};
use e2e::variant::Variant;
use serde_json::{Value, json};
use xtask::demo::PACKAGE;
use xtask::kubectl::text;

/// Time without a change after which nothing will happen: a Subscription with a catalog is planned within seconds.
const QUIET: Duration = Duration::from_secs(20);
const RBAC: &str = "rbac.authorization.k8s.io";

/// Binds a user to a ClusterRole in a namespace.
fn bind(namespace: &Namespace<'_>, user: &str, role: &str) -> anyhow::Result<()> {
    namespace.apply(&[json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding", "metadata": {"name": format!("{user}-{role}")},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "User", "apiGroup": RBAC, "name": user}],
    })])
}

/// Creates an object as a user; returns true if it was allowed. Any other failure is an error.
fn creates(namespace: &Namespace<'_>, user: &str, object: &Value) -> anyhow::Result<bool> {
    let (who, mut object) = (format!("--as={user}"), object.clone());
    object["metadata"]["namespace"] = json!(namespace.name());
    let words = ["create", &who, "-n", namespace.name(), "-f", "-"];
    let kubectl = Lab::shared()?.kubectl();
    match kubectl.run_with_input(&words, &object.to_string()) {
        Ok(_) => Ok(true),
        Err(error) if format!("{error:#}").contains("is forbidden") => Ok(false),
        Err(error) => Err(error),
    }
}

/// Creates an object as a user who has just got the right: it reaches the API server's authorizer a moment later.
fn has_the_right(namespace: &Namespace<'_>, user: &str, object: &Value) -> anyhow::Result<()> {
    let what = format!("the right of {user} in {}", namespace.name());
    Lab::shared()?.kubectl().wait(&what, PATIENCE, |_| {
        Ok(if creates(namespace, user, object)? {
            Ok(())
        } else {
            Err("it is refused".to_owned())
        })
    })
}

fn wanted(name: &str, source: &str, namespace: &str) -> Value {
    let mut wanted = subscription(name, PACKAGE, "stable", source, namespace);
    wanted["spec"]["installPlanApproval"] = json!("Manual");
    wanted
}

#[test]
fn sub_010_only_who_was_given_the_right_creates_subscriptions() -> anyhow::Result<()> {
    let namespace = Lab::shared()?.namespace("tenants-who")?;
    // Kubernetes' roles for teams, and a right for a single user.
    for (user, role) in [
        ("tenants-ada", "admin"),
        ("tenants-eve", "edit"),
        ("tenants-vic", "view"),
    ] {
        bind(&namespace, user, role)?;
    }
    let api = format!("{RBAC}/v1");
    namespace.apply(&[
        json!({"apiVersion": api, "kind": "Role", "metadata": {"name": "subscriber"},
            "rules": [{"apiGroups": ["operators.coreos.com"], "resources": ["subscriptions"], "verbs": ["create"]}]}),
        json!({"apiVersion": api, "kind": "RoleBinding", "metadata": {"name": "subscriber"},
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "subscriber"},
            "subjects": [{"kind": "User", "apiGroup": RBAC, "name": "tenants-sue"}]}),
    ])?;
    // A controller aggregates roles soon after their creation.
    let rows = [
        ("tenants-ada", true),
        ("tenants-eve", true),
        ("tenants-vic", false),
        ("tenants-sue", true),
        ("tenants-nobody", false),
    ];
    for (user, may) in rows {
        let object = wanted(user, "none", namespace.name());
        if may {
            has_the_right(&namespace, user, &object)?;
        } else {
            ensure!(!creates(&namespace, user, &object)?, "{user}");
        }
        ensure!(
            namespace.get("subscription", user)?.is_some() == may,
            "{user}: {may}"
        );
    }
    // None of them may subscribe elsewhere, nor create OperatorGroups and catalogs, nor approve plans.
    let elsewhere = Lab::shared()?.namespace("tenants-elsewhere")?;
    for (user, _) in rows {
        let object = wanted(user, "none", elsewhere.name());
        ensure!(!creates(&elsewhere, user, &object)?, "{user}");
        ensure!(
            !creates(&namespace, user, &operator_group("group", &[]))?,
            "{user}"
        );
        ensure!(
            !creates(
                &namespace,
                user,
                &catalog_source("catalog", "example.com/none:v1")
            )?,
            "{user}"
        );
        let approves = [
            "patch",
            "installplans.operators.coreos.com",
            "-n",
            namespace.name(),
            "--as",
            user,
        ];
        ensure!(!Lab::shared()?.kubectl().can_i(&approves)?, "{user}");
    }
    Ok(())
}

/// A catalog in a namespace is only for that namespace: others neither see its packages nor install from it.
#[test]
fn arch_016_a_catalog_is_for_the_namespaces_that_an_administrator_puts_it_in() -> anyhow::Result<()> {
    let lab = Lab::shared()?;
    let (chosen, other) = (lab.namespace("tenants-chosen")?, lab.namespace("tenants-other")?);
    let (variant, catalog) = Variant::publish("tenants-catalog", |_| Ok(()))?;
    let package = variant.package_name();
    for namespace in [&chosen, &other] {
        bind(namespace, "tenants-dora", "edit")?;
        namespace.apply(&[operator_group("group", &[namespace.name()])])?;
    }
    chosen.apply(&[catalog_source("catalog", &catalog)])?;
    for namespace in [&chosen, &other] {
        let object = subscription("wanted", package, "stable", "catalog", chosen.name());
        has_the_right(namespace, "tenants-dora", &object)?;
    }
    chosen.wait_for_phase(&variant.csv(), "Succeeded")?;
    chosen.wait_for("packagemanifest", package, "to be shown", |_| true)?;
    let told = other.wait_for_condition("wanted", "ResolutionFailed")?;
    let message = text(&told, "/message");
    ensure!(message.contains(chosen.name()), "{message}");
    std::thread::sleep(QUIET);
    ensure!(other.own_csvs()?.is_empty() && other.list("installplan")?.is_empty());
    ensure!(other.get("packagemanifest", package)?.is_none());
    Ok(())
}

/// The same operator for two teams, and an older version for one of them.
#[test]
fn mt_001_one_operator_is_installed_in_two_namespaces_and_works_in_each() -> anyhow::Result<()> {
    let lab = Lab::shared()?;
    let (red, blue, late) = (
        lab.namespace("tenants-red")?,
        lab.namespace("tenants-blue")?,
        lab.namespace("tenants-late")?,
    );
    for namespace in [&red, &blue] {
        install(namespace, &[namespace.name()], |_| {})?;
    }
    install(&late, &[late.name()], |wanted| {
        wanted["spec"]["installPlanApproval"] = json!("Manual");
        wanted["spec"]["startingCSV"] = json!(FIRST);
    })?;
    late.approve(&late.wait_for_plan(FIRST, "RequiresApproval")?)?;
    for (namespace, csv, release) in [
        (&red, SECOND, "1.1.0"),
        (&blue, SECOND, "1.1.0"),
        (&late, FIRST, "1.0.0"),
    ] {
        namespace.wait_for_phase(csv, "Succeeded")?;
        greet(namespace, release)?;
    }
    // One is deleted, the others remain.
    let kubectl = lab.kubectl();
    kubectl.run(&["delete", "subscription", "demo", "-n", red.name()])?;
    kubectl.run(&["delete", "csv", SECOND, "-n", red.name()])?;
    kubectl.wait("the Deployment to go", PATIENCE, |_| {
        Ok(match red.get("deployment", "demo-operator")? {
            None => Ok(()),
            Some(found) => Err(found["metadata"].to_string()),
        })
    })?;
    for (namespace, csv, release) in [(&blue, SECOND, "1.1.0"), (&late, FIRST, "1.0.0")] {
        // The operator still works.
        kubectl.run(&[
            "delete",
            "greetings.demo.example.com",
            "ada",
            "-n",
            namespace.name(),
        ])?;
        greet(namespace, release)?;
        let csv = namespace.get("csv", csv)?.context("the operator is gone")?;
        ensure!(text(&csv, "/status/phase") == "Succeeded", "{}", csv["status"]);
    }
    Ok(())
}

/// An operator with a namespace of its own does not wait for approvals elsewhere, and serves all namespaces.
#[test]
fn mt_008_a_global_operator_in_a_namespace_of_its_own_is_free_of_the_approvals_of_others()
-> anyhow::Result<()> {
    let lab = Lab::shared()?;
    let (own, team) = (lab.namespace("tenants-global")?, lab.namespace("tenants-team")?);
    install(&team, &[team.name()], |wanted| {
        wanted["spec"]["installPlanApproval"] = json!("Manual");
    })?;
    let waiting = team.wait_for_plan(SECOND, "RequiresApproval")?;
    let variant = Variant::install("tenants-global", &own, &[], |_| Ok(()))?;
    own.wait_for_phase(&variant.csv(), "Succeeded")?;
    team.wait_for_phase(&variant.csv(), "Succeeded")?;
    bind(&team, "tenants-tom", "edit")?;
    let kinds = variant.definition();
    let may = ["create", &kinds, "-n", team.name(), "--as", "tenants-tom"];
    lab.kubectl()
        .wait("the team to have the operator's API", PATIENCE, |kubectl| {
            Ok(kubectl.can_i(&may)?.then_some(()).ok_or_else(|| kinds.clone()))
        })?;
    let plan = team.get("installplan", &waiting)?.context("the plan is gone")?;
    ensure!(
        text(&plan, "/status/phase") == "RequiresApproval",
        "{}",
        plan["status"]
    );
    ensure!(team.own_csvs()?.is_empty());
    // Deleted before the namespace, so that no copy conflicts with other tests.
    lab.kubectl()
        .run(&["delete", "subscription", "wanted", "-n", own.name()])?;
    lab.kubectl()
        .run(&["delete", "csv", &variant.csv(), "-n", own.name()])?;
    lab.kubectl().wait("the copy to go", PATIENCE, |_| {
        Ok(match team.get("csv", &variant.csv())? {
            None => Ok(()),
            Some(copy) => Err(copy["metadata"].to_string()),
        })
    })
}

/// Returns true if a user's request is rejected by the policy that guards OLM's labels, or earlier because it changes a Role
/// beyond the user's rights. Any other failure is an error.
fn is_guarded(user: &str, words: &[&str], input: &str) -> anyhow::Result<bool> {
    let who = format!("--as={user}");
    let words: Vec<&str> = words.iter().copied().chain([who.as_str()]).collect();
    match Lab::shared()?.kubectl().run_with_input(&words, input) {
        Ok(_) => Ok(false),
        Err(error)
            if [
                "olm-guarded-labels",
                "attempting to grant RBAC permissions not currently held",
            ]
            .iter()
            .any(|refusal| format!("{error:#}").contains(refusal)) =>
        {
            Ok(true)
        }
        Err(error) => Err(error),
    }
}

/// Returns a Role that a namespace's admin may create.
fn role(name: &str, labels: &Value) -> Value {
    json!({"apiVersion": format!("{RBAC}/v1"), "kind": "Role", "metadata": {"name": name, "labels": labels},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]})
}

/// Returns the first object of a kind with the owner labels of a ClusterServiceVersion.
fn owned(namespace: &Namespace<'_>, kind: &str, csv: &str) -> anyhow::Result<Value> {
    let what = format!("a {kind} of {csv} in {}", namespace.name());
    Lab::shared()?.kubectl().wait(&what, PATIENCE, |_| {
        let mut all = namespace.list(kind)?.into_iter();
        let found = all.find(|found| found["metadata"]["labels"]["olm.owner"] == csv);
        Ok(found.ok_or_else(|| "none is there".to_owned()))
    })
}

fn missing_rights(csv: &Value) -> String {
    let rows = csv["status"]["requirementStatus"].as_array();
    let rows = rows.into_iter().flatten();
    rows.filter(|row| row["kind"] == "Role")
        .map(|row| text(row, "/message").to_owned())
        .collect()
}

/// OLM copies Roles with these labels to other namespaces. An admin of one namespace cannot set them, nor change or delete
/// objects that have them. A Role under the name of the next copy is not filled.
#[test]
fn the_labels_that_olm_trusts_are_set_by_olm_alone() -> anyhow::Result<()> {
    const MALLORY: &str = "tenants-mallory";
    let lab = Lab::shared()?;
    let (own, near, late) = (
        lab.namespace("tenants-guard")?,
        lab.namespace("tenants-guard-near")?,
        lab.namespace("tenants-guard-late")?,
    );
    let variant = Variant::install("tenants-guard", &own, &[own.name(), near.name()], |_| Ok(()))?;
    let csv = variant.csv();
    own.wait_for_phase(&csv, "Succeeded")?;
    for namespace in [&own, &near, &late] {
        bind(namespace, MALLORY, "admin")?;
        has_the_right(namespace, MALLORY, &role("mine", &json!({})))?;
        let labels = [
            json!({"olm.owner": csv}),
            json!({"olm.owner.namespace": own.name()}),
            json!({"olm.copiedFrom": own.name()}),
        ];
        for labels in labels {
            let object = role("forged", &labels).to_string();
            let words = ["create", "-n", namespace.name(), "-f", "-"];
            ensure!(is_guarded(MALLORY, &words, &object)?, "{labels}");
        }
        let words = ["label", "role", "mine", "-n", namespace.name(), "olm.owner=x"];
        ensure!(
            is_guarded(MALLORY, &words, "")?,
            "a label of a Role that is there"
        );
    }
    let name = text(&owned(&near, "role", &csv)?, "/metadata/name").to_owned();
    owned(&near, "rolebinding", &csv)?;
    for namespace in [&own, &near] {
        for words in [
            &["delete", "role", &name][..],
            &["delete", "rolebinding", &name],
            &["label", "role", &name, "olm.owner-"],
            &["label", "role", &name, "more=x"],
            &["patch", "role", &name, "--type=merge", "-p", r#"{"rules": []}"#],
            &[
                "patch",
                "rolebinding",
                &name,
                "--type=merge",
                "-p",
                r#"{"subjects": []}"#,
            ],
        ] {
            let words: Vec<&str> = words.iter().copied().chain(["-n", namespace.name()]).collect();
            ensure!(is_guarded(MALLORY, &words, "")?, "{words:?}");
        }
    }

    // She creates the next counterpart herself, and a binding to it.
    ensure!(creates(&late, MALLORY, &role(&name, &json!({})))?);
    let binding = json!({"apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding", "metadata": {"name": "mine"},
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": name},
        "subjects": [{"kind": "User", "apiGroup": RBAC, "name": MALLORY}]});
    ensure!(creates(&late, MALLORY, &binding)?);
    own.apply(&[operator_group("group", &[own.name(), near.name(), late.name()])])?;
    let told = format!("rights are missing in namespace {}", late.name());
    own.wait_for("csv", &csv, "a word about the namespace", |csv| {
        missing_rights(csv).contains(&told) && text(csv, "/status/phase") == "Succeeded"
    })?;
    let found = late.get("role", &name)?.context("her Role is gone")?;
    ensure!(found["rules"] == role(&name, &json!({}))["rules"], "{found}");
    let kubectl = lab.kubectl();
    kubectl.run(&["delete", "role", &name, "-n", late.name()])?;
    std::thread::sleep(QUIET);
    ensure!(
        late.get("role", &name)?.is_none(),
        "her binding would give her the operator's rights"
    );
    kubectl.run(&["delete", "rolebinding", "mine", "-n", late.name()])?;
    owned(&late, "role", &csv)?;
    own.wait_for("csv", &csv, "nothing to be missing", |csv| {
        missing_rights(csv).is_empty()
    })?;

    // Cleanup is allowed: the deletion of a namespace, and of objects of a deleted ClusterServiceVersion.
    kubectl.run(&["delete", "namespace", near.name(), "--timeout=120s"])?;
    kubectl.run(&["delete", "subscription", "wanted", "-n", own.name()])?;
    kubectl.run(&["delete", "csv", &csv, "-n", own.name()])?;
    for namespace in [&own, &late] {
        kubectl.wait("its Roles to go", PATIENCE, |_| {
            let roles = namespace.list("role")?;
            let left = roles
                .iter()
                .find(|found| found["metadata"]["labels"]["olm.owner"] == csv);
            Ok(left.map_or(Ok(()), |left| Err(left["metadata"].to_string())))
        })?;
    }
    Ok(())
}

/// OLM sets its labels on objects it writes as the account of a group; the account itself cannot set them.
#[test]
fn an_account_of_a_group_installs_what_it_may_and_sets_no_labels_of_olm() -> anyhow::Result<()> {
    let lab = Lab::shared()?;
    let (own, near) = (
        lab.namespace("tenants-scoped")?,
        lab.namespace("tenants-scoped-near")?,
    );
    let api = format!("{RBAC}/v1");
    let verbs = ["get", "list", "watch", "create", "update", "patch", "delete"];
    // Everything but the right to grant more than one has.
    lab.kubectl().apply(&[
        json!({"apiVersion": api, "kind": "ClusterRole", "metadata": {"name": "tenants-scoped"},
            "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": verbs}]}),
        json!({"apiVersion": api, "kind": "ClusterRoleBinding", "metadata": {"name": "tenants-scoped"},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "tenants-scoped"},
            "subjects": [{"kind": "ServiceAccount", "name": "installer", "namespace": own.name()}]}),
    ])?;
    let (variant, catalog) = Variant::publish("tenants-scoped", |_| Ok(()))?;
    let csv = variant.csv();
    let mut group = operator_group("group", &[own.name(), near.name()]);
    group["spec"]["serviceAccountName"] = json!("installer");
    own.apply(&[
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "installer"}}),
        group,
        catalog_source("catalog", &catalog),
        subscription("wanted", "tenants-scoped", "stable", "catalog", own.name()),
    ])?;
    own.wait_for_phase(&csv, "Succeeded")?;
    for namespace in [&own, &near] {
        owned(namespace, "role", &csv)?;
        owned(namespace, "rolebinding", &csv)?;
    }
    let account = format!("system:serviceaccount:{}:installer", own.name());
    let object = role("forged", &json!({"olm.owner": csv})).to_string();
    let words = ["create", "-n", own.name(), "-f", "-"];
    ensure!(is_guarded(&account, &words, &object)?);
    let kubectl = lab.kubectl();
    kubectl.run(&["delete", "subscription", "wanted", "-n", own.name()])?;
    kubectl.run(&["delete", "csv", &csv, "-n", own.name()])?;
    kubectl.run(&["delete", "clusterrolebinding,clusterrole", "tenants-scoped"])?;
    Ok(())
}

/// The namespace is `operators` here; on OpenShift it is `openshift-operators`, set by the chart's value `operator_namespace`.
#[test]
fn mt_010_the_namespace_for_global_operators_is_there_from_the_start() -> anyhow::Result<()> {
    let found = Lab::shared()?
        .kubectl()
        .get(&["operatorgroup", "-n", "operators"])?;
    let groups = found.unwrap_or_default();
    let groups = groups["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    let [group] = groups else {
        anyhow::bail!("there is not exactly one group: {groups:?}");
    };
    ensure!(
        group["status"]["namespaces"] == json!([""]),
        "{}",
        group["status"]
    );
    Ok(())
}
