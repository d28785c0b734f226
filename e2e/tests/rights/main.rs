//! The trials of docs/security.md: attacks by users with few rights through OLM. No Role, ClusterRole or binding appears or
//! widens beyond the rights of that user, or of the account of the OperatorGroup.

mod tenant;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::lab::{Lab, Namespace, PATIENCE, catalog_source, operator_group, subscription};
use e2e::variant::Variant;
use serde_json::{Value, json};
use tenant::{User, grants, may, rule, writes_csvs};
use xtask::cluster::audit::AuditTail;
use xtask::kubectl::text;

/// Time without a change after which nothing will happen: longer than any wait of OLM's that a trial could end.
const QUIET: Duration = Duration::from_secs(25);
const UNMET: &str = "RequirementsNotMet";

/// Checks that the namespace's rights do not change for a while.
fn stays(namespace: &Namespace<'_>, before: &BTreeMap<String, String>) -> anyhow::Result<()> {
    std::thread::sleep(QUIET);
    let after = grants(namespace)?;
    ensure!(after == *before, "rights changed from {before:#?} to {after:#?}");
    Ok(())
}

fn wait_unmet(namespace: &Namespace<'_>, csv: &str) -> anyhow::Result<Value> {
    namespace.wait_for("csv", csv, "unmet requirements", |csv| {
        text(csv, "/status/phase") == "Pending" && text(csv, "/status/reason") == UNMET
    })
}

/// Returns the messages of the requirements of a kind.
fn row_messages(csv: &Value, kind: &str) -> String {
    let rows = csv["status"]["requirementStatus"].as_array();
    rows.into_iter()
        .flatten()
        .filter(|row| row["kind"] == kind)
        .map(|row| text(row, "/message"))
        .collect()
}

/// Returns the report about rights that are missing beyond the namespace.
fn missing_rights(csv: &Value) -> String {
    row_messages(csv, "Role")
}

/// Returns the targets of an own and of a global group.
fn shapes<'a>(namespace: &'a Namespace<'_>) -> [Vec<&'a str>; 2] {
    [vec![namespace.name()], vec![]]
}

fn suffix(targets: &[&str]) -> &'static str {
    if targets.is_empty() { "global" } else { "own" }
}

/// Returns the name of a manually created ClusterServiceVersion, unique because one for all namespaces is copied to other trials.
fn trial(namespace: &Namespace<'_>) -> String {
    format!("trial-{}.v1.0.0", namespace.name())
}

/// Returns a ClusterServiceVersion that owns no API, so that a group for all namespaces causes no conflict.
fn hand_made(name: &str, permissions: &Value, cluster_permissions: &Value) -> Value {
    let modes = [
        "OwnNamespace",
        "SingleNamespace",
        "MultiNamespace",
        "AllNamespaces",
    ]
    .map(|mode| json!({"type": mode, "supported": true}));
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": name},
        "spec": {"displayName": "Trial", "version": "1.0.0", "installModes": modes, "install": {"strategy": "deployment", "spec": {
            "permissions": permissions, "clusterPermissions": cluster_permissions,
            "deployments": [{"name": "trial", "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "trial"}},
                "template": {"metadata": {"labels": {"app": "trial"}}, "spec": {"serviceAccountName": "trial", "containers": [
                    {"name": "c", "image": "olm.local/demo-operator:1.0.0"}]}}}}],
        }}},
    })
}

fn permission(account: &str, rule: &Value) -> Value {
    json!([{"serviceAccountName": account, "rules": [rule]}])
}

#[test]
fn a_user_who_only_creates_csvs_gets_no_rights_made() -> anyhow::Result<()> {
    let lab = Lab::shared()?;
    for shape in 0..2 {
        let namespace = lab.namespace(&format!("rights-create-{shape}"))?;
        let targets = &shapes(&namespace)[shape];
        namespace.apply(&[operator_group("group", targets)])?;
        let user = User::new(&namespace, &json!([writes_csvs()]))?;
        let all = permission("trial", &rule("*", &["*"], &["*"]));
        let name = trial(&namespace);
        user.create(&[hand_made(&name, &all, &all)])?;
        let csv = wait_unmet(&namespace, &name)?;
        let told = row_messages(&csv, "ServiceAccount");
        ensure!(told == "Service account does not exist", "{told}");
        stays(&namespace, &BTreeMap::new()).context(suffix(targets))?;
        ensure!(namespace.get("serviceaccount", "trial")?.is_none());
        ensure!(!may(&namespace, "trial", "*", "*", "default")?);
        ensure!(namespace.get("deployment", "trial")?.is_none());
    }
    Ok(())
}

fn install(name: &str, namespace: &Namespace<'_>, targets: &[&str]) -> anyhow::Result<Variant> {
    Variant::install(name, namespace, targets, |_| Ok(()))
}

#[test]
fn a_user_who_edits_an_installed_csv_widens_nothing() -> anyhow::Result<()> {
    let lab = Lab::shared()?;
    for shape in 0..2 {
        let name = format!("rights-edit-{shape}");
        let namespace = lab.namespace(&name)?;
        let targets = &shapes(&namespace)[shape];
        let variant = install(&name, &namespace, targets)?;
        namespace.wait_for_phase(&variant.csv(), "Succeeded")?;
        let before = grants(&namespace)?;
        ensure!(before.len() >= 4, "{before:?}");
        let user = User::new(&namespace, &json!([writes_csvs()]))?;
        let wide = permission(&name, &rule("", &["secrets"], &["*"]));
        let install = json!({"permissions": wide, "clusterPermissions": wide});
        user.patch(
            "csv",
            &variant.csv(),
            &json!({"spec": {"install": {"spec": install}}}),
        )?;
        wait_unmet(&namespace, &variant.csv())?;
        stays(&namespace, &before).context(suffix(targets))?;
        ensure!(!may(&namespace, &name, "get", "secrets", namespace.name())?);
        ensure!(!may(&namespace, &name, "get", "secrets", "default")?);
    }
    Ok(())
}

/// Returns a Role and its binding with all names and labels of OLM's own.
fn forged_role(namespace: &Namespace<'_>, name: &str, rule: &Value) -> [Value; 2] {
    let labels = json!({"olm.managed": "true", "olm.owner": trial(namespace), "olm.owner.namespace": namespace.name(),
        "olm.owner.kind": "ClusterServiceVersion", "olm.permissions.hash": "x"});
    let api = "rbac.authorization.k8s.io/v1";
    [
        json!({"apiVersion": api, "kind": "Role", "metadata": {"name": name, "labels": labels}, "rules": [rule]}),
        json!({"apiVersion": api, "kind": "RoleBinding", "metadata": {"name": name, "labels": labels},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": "trial", "namespace": namespace.name()}]}),
    ]
}

#[test]
fn a_user_who_makes_roles_with_forged_labels_gets_them_carried_nowhere() -> anyhow::Result<()> {
    let lab = Lab::shared()?;
    lab.demo_catalog()?;
    for shape in 0..2 {
        let namespace = lab.namespace(&format!("rights-forge-{shape}"))?;
        let targets = &shapes(&namespace)[shape];
        namespace.apply(&[operator_group("group", targets)])?;
        let held = rule("", &["configmaps"], &["get"]);
        let user = User::new(
            &namespace,
            &json!([
                writes_csvs(),
                held,
                rule("", &["serviceaccounts"], &["create"]),
                rule(
                    "rbac.authorization.k8s.io",
                    &["roles", "rolebindings"],
                    &["create", "update", "patch"]
                ),
            ]),
        )?;
        user.create(&[json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "trial"}})])?;
        let name = trial(&namespace);
        let mut role = forged_role(&namespace, &format!("{name}-trial-forged"), &held);
        let refused = user.create(&role);
        ensure!(
            refused.is_err_and(|error| format!("{error:#}").contains("olm-guarded-labels")),
            "nobody else sets OLM's labels"
        );
        for object in &mut role {
            object["metadata"]["labels"] = json!({"olm.managed": "true", "olm.permissions.hash": "x"});
        }
        user.create(&role)?;
        let wide = json!([rule("", &["secrets"], &["get"])]);
        let refused = user.create(&[
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": "too-wide"}, "rules": wide}),
        ]);
        ensure!(
            refused.is_err(),
            "the API server lets nobody grant what he may not do"
        );
        let before = grants(&namespace)?;
        user.create(&[hand_made(&name, &permission("trial", &held), &json!([]))])?;
        namespace.wait_for_phase(&name, "Succeeded")?;
        if targets.is_empty() {
            namespace.wait_for("csv", &name, "rights missing everywhere", |csv| {
                missing_rights(csv).contains("rights are missing in all namespaces")
            })?;
        }
        stays(&namespace, &before).context(suffix(targets))?;
        ensure!(may(&namespace, "trial", "get", "configmaps", namespace.name())?);
        ensure!(!may(&namespace, "trial", "get", "configmaps", "default")?);
    }
    Ok(())
}

/// Checks the account of a group: it may install operators that need no more than its own rights, in its namespace.
fn scoped(namespace: &Namespace<'_>, targets: &[&str]) -> anyhow::Result<()> {
    let api = "rbac.authorization.k8s.io/v1";
    let all = &["get", "list", "watch", "create", "update", "patch", "delete"];
    let mut group = operator_group("group", targets);
    group["spec"]["serviceAccountName"] = json!("scoped");
    namespace.apply(&[
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "scoped"}}),
        json!({"apiVersion": api, "kind": "Role", "metadata": {"name": "scoped"}, "rules": [
            rule("operators.coreos.com", &["clusterserviceversions", "subscriptions"], all),
            rule("", &["serviceaccounts", "configmaps"], all),
            rule("rbac.authorization.k8s.io", &["roles", "rolebindings"], all),
            rule("apps", &["deployments"], all),
            rule(&format!("{}.example.com", namespace.name()), &["*"], &["*"]),
        ]}),
        json!({"apiVersion": api, "kind": "RoleBinding", "metadata": {"name": "scoped"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "scoped"},
            "subjects": [{"kind": "ServiceAccount", "name": "scoped", "namespace": namespace.name()}]}),
        group,
    ])?;
    namespace.wait_for(
        "operatorgroup",
        "group",
        "its namespaces and its account",
        |group| {
            group["status"]["namespaces"].is_array()
                && group["status"]["serviceAccountRef"]["name"] == "scoped"
        },
    )?;
    Ok(())
}

#[test]
fn a_user_who_writes_catalogs_and_subscriptions_gets_no_more_than_the_groups_account_may()
-> anyhow::Result<()> {
    let lab = Lab::shared()?;
    lab.demo_catalog()?;
    for shape in 0..2 {
        let name = format!("rights-scoped-{shape}");
        let namespace = lab.namespace(&name)?;
        let targets = &shapes(&namespace)[shape];
        scoped(&namespace, targets)?;
        let before = grants(&namespace)?;
        // The user's own catalog: the operator requests rights on namespaces in the whole cluster.
        let (variant, catalog) = Variant::publish(&name, |_| Ok(()))?;
        let olm = rule(
            "operators.coreos.com",
            &["subscriptions", "catalogsources"],
            &["get", "create", "update", "patch"],
        );
        let user = User::new(&namespace, &json!([olm]))?;
        user.create(&[
            catalog_source("catalog", &catalog),
            subscription("wanted", &name, "stable", "catalog", namespace.name()),
        ])?;
        let plan = namespace.wait_for_plan(&variant.csv(), "Installing")?;
        namespace.wait_for("installplan", &plan, "a refusal of the ClusterRole", |plan| {
            let message = text(plan, "/status/message");
            message.contains("clusterrole") && message.contains("forbidden")
        })?;
        std::thread::sleep(QUIET);
        let after = grants(&namespace)?;
        for (binding, rules) in after.iter().filter(|(binding, _)| !before.contains_key(*binding)) {
            ensure!(!binding.starts_with("cluster"), "{binding}: {rules}");
            ensure!(
                binding.contains(&format!(" {}/", namespace.name())),
                "{binding}: {rules}"
            );
        }
        ensure!(!may(&namespace, &name, "list", "namespaces", "default")?);
        ensure!(!may(&namespace, &name, "get", "configmaps", "default")?);
        ensure!(
            namespace
                .wait_for("csv", &variant.csv(), "not to run", |csv| text(
                    csv,
                    "/status/phase"
                ) != "Succeeded")
                .is_ok()
        );
    }
    Ok(())
}

#[test]
fn a_deleted_cluster_role_comes_back_from_its_plan_and_goes_with_its_csv() -> anyhow::Result<()> {
    let lab = Lab::shared()?;
    let namespace = lab.namespace("rights-heal")?;
    let variant = install("rights-heal", &namespace, &[namespace.name()])?;
    namespace.wait_for_phase(&variant.csv(), "Succeeded")?;
    let before = grants(&namespace)?;
    let selector = format!("olm.owner.namespace={}", namespace.name());
    for kind in ["clusterrole", "clusterrolebinding"] {
        lab.kubectl().run(&["delete", kind, "-l", &selector])?;
    }
    for kind in ["role", "rolebinding"] {
        lab.kubectl()
            .run(&["delete", kind, "-n", namespace.name(), "-l", &selector])?;
    }
    lab.kubectl()
        .run(&["delete", "serviceaccount", "-n", namespace.name(), "rights-heal"])?;
    lab.kubectl().wait("the rights to be back", PATIENCE, |_| {
        let now = grants(&namespace)?;
        let account = namespace.get("serviceaccount", "rights-heal")?;
        Ok(if now == before && account.is_some() {
            Ok(())
        } else {
            Err(format!("{now:?}"))
        })
    })?;
    namespace.wait_for_phase(&variant.csv(), "Succeeded")?;
    // Without its Subscription it is not reinstalled.
    lab.kubectl()
        .run(&["delete", "subscription", "-n", namespace.name(), "wanted"])?;
    lab.kubectl()
        .run(&["delete", "csv", "-n", namespace.name(), &variant.csv()])?;
    lab.kubectl().wait("the rights to go", PATIENCE, |_| {
        let left = grants(&namespace)?;
        Ok(if left.is_empty() {
            Ok(())
        } else {
            Err(format!("{left:?}"))
        })
    })?;
    stays(&namespace, &BTreeMap::new())
}

#[test]
fn objects_that_stood_before_are_not_collected_with_the_csv() -> anyhow::Result<()> {
    let lab = Lab::shared()?;
    let namespace = lab.namespace("rights-before")?;
    namespace.apply(&[
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "rights-before", "labels": {"mine": "yes"}}}),
    ])?;
    let variant = install("rights-before", &namespace, &[namespace.name()])?;
    namespace.wait_for_phase(&variant.csv(), "Succeeded")?;
    let account = namespace
        .get("serviceaccount", "rights-before")?
        .context("the account is there")?;
    ensure!(account["metadata"]["ownerReferences"].is_null(), "{account}");
    lab.kubectl()
        .run(&["delete", "subscription", "-n", namespace.name(), "wanted"])?;
    lab.kubectl()
        .run(&["delete", "csv", "-n", namespace.name(), &variant.csv()])?;
    std::thread::sleep(QUIET);
    let account = namespace
        .get("serviceaccount", "rights-before")?
        .context("the account is still there")?;
    ensure!(account["metadata"]["labels"]["mine"] == "yes");
    Ok(())
}

#[test]
fn a_target_that_refuses_rights_is_named_and_stops_no_other() -> anyhow::Result<()> {
    let lab = Lab::shared()?;
    let (first, second) = (
        lab.namespace("rights-target-a")?,
        lab.namespace("rights-target-b")?,
    );
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "no-roles"},
        "spec": {"hard": {"count/roles.rbac.authorization.k8s.io": "0"}}});
    first.apply(&[quota])?;
    first.wait_for("resourcequota", "no-roles", "to count", |quota| {
        quota["status"]["hard"].is_object()
    })?;
    let namespace = lab.namespace("rights-targets")?;
    let targets = [namespace.name(), first.name(), second.name()];
    let variant = install("rights-targets", &namespace, &targets)?;
    namespace.wait_for_phase(&variant.csv(), "Succeeded")?;
    namespace.wait_for("csv", &variant.csv(), "a word about the namespace", |csv| {
        missing_rights(csv).contains(&format!("rights are missing in namespace {}", first.name()))
    })?;
    let bound = |namespace: &Namespace<'_>| -> anyhow::Result<bool> {
        let bindings = namespace.list("rolebinding")?;
        Ok(bindings
            .iter()
            .any(|binding| binding["metadata"]["labels"]["olm.owner"] == variant.csv()))
    };
    ensure!(bound(&second)?, "the other target has its rights");
    ensure!(
        namespace.get("deployment", "rights-targets")?.is_some(),
        "the operator runs where it may"
    );
    lab.kubectl()
        .run(&["delete", "resourcequota", "-n", first.name(), "no-roles"])?;
    namespace.wait_for("csv", &variant.csv(), "no word about the namespace", |csv| {
        missing_rights(csv).is_empty() && text(csv, "/status/phase") == "Succeeded"
    })?;
    ensure!(bound(&first)?);
    Ok(())
}

#[test]
fn a_global_group_that_is_narrowed_takes_rights_back_only_after_their_counterparts_are_there()
-> anyhow::Result<()> {
    let lab = Lab::shared()?;
    let target = lab.namespace("rights-narrow-b")?;
    let namespace = lab.namespace("rights-narrow")?;
    let variant = install("rights-narrow", &namespace, &[])?;
    namespace.wait_for_phase(&variant.csv(), "Succeeded")?;
    ensure!(may(
        &namespace,
        "rights-narrow",
        "create",
        "configmaps",
        target.name()
    )?);
    let mut tail = AuditTail::of_olm(&lab.cluster().audit_log())?;
    namespace.apply(&[operator_group("group", &[namespace.name(), target.name()])])?;
    lab.kubectl().wait("the promoted rights to go", PATIENCE, |_| {
        let everywhere = may(&namespace, "rights-narrow", "create", "configmaps", "default")?;
        Ok(if everywhere {
            Err("they are there".to_owned())
        } else {
            Ok(())
        })
    })?;
    lab.kubectl().wait("the rights in the target", PATIENCE, |_| {
        let there = may(&namespace, "rights-narrow", "create", "configmaps", target.name())?;
        Ok(there.then_some(()).ok_or_else(|| "not there".to_owned()))
    })?;
    namespace.wait_for_phase(&variant.csv(), "Succeeded")?;
    // The audit log is written in batches.
    std::thread::sleep(Duration::from_secs(5));
    let events = tail.read()?;
    let at = |verb: &str, resource: &str, namespace: &str| {
        events.iter().position(|event| {
            let object = event.object_ref.as_ref();
            event.is_write()
                && event.verb == verb
                && object.is_some_and(|object| {
                    object.resource == resource
                        && object.namespace == namespace
                        && object.name.starts_with("rights-narrow.v1")
                })
        })
    };
    let made = at("create", "rolebindings", target.name()).context("a counterpart was made")?;
    let taken = at("delete", "clusterrolebindings", "").context("the promoted binding was deleted")?;
    ensure!(
        made < taken,
        "rights were taken away before their counterparts were there"
    );
    Ok(())
}

/// Users with a level of access to a namespace get the same level for the APIs that operators provide, without any further
/// binding.
#[test]
fn rbac_013_users_of_a_namespace_get_the_rights_of_their_level_on_provided_apis() -> anyhow::Result<()> {
    const USERS: [&str; 3] = ["admin", "edit", "view"];
    let lab = Lab::shared()?;
    let namespace = lab.namespace("rights-users")?;
    let user = |level: &str| format!("rights-users-{level}");
    let bindings = USERS.map(|level| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": user(level)},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": level},
            "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user(level)}]})
    });
    namespace.apply(&bindings)?;
    let definition = "greetings.rights-users.example.com";
    let can = |level: &str, verb: &str, within: &str| {
        let who = format!("--as={}", user(level));
        lab.kubectl().can_i(&[verb, definition, "-n", within, &who])
    };
    let verbs = ["create", "update", "delete", "deletecollection", "get", "list"];
    for (level, verb) in USERS.iter().flat_map(|level| verbs.map(|verb| (level, verb))) {
        ensure!(
            !can(level, verb, namespace.name())?,
            "{level} may {verb} too early"
        );
    }
    let variant = install("rights-users", &namespace, &[namespace.name()])?;
    ensure!(variant.definition() == definition);
    namespace.wait_for_phase(&variant.csv(), "Succeeded")?;
    let reads = |verb: &str| ["get", "list"].contains(&verb);
    let expected = |level: &str, verb: &str| match level {
        "admin" => true,
        "edit" => verb != "deletecollection",
        _ => reads(verb),
    };
    lab.kubectl().wait("the rights of users", PATIENCE, |_| {
        for (level, verb) in USERS.iter().flat_map(|level| verbs.map(|verb| (level, verb))) {
            let may = can(level, verb, namespace.name())?;
            if may != expected(level, verb) {
                return Ok(Err(format!("{level} {verb}: {may}")));
            }
        }
        Ok(Ok(()))
    })?;
    for level in USERS {
        ensure!(!can(level, "get", "default")?, "{level} has a right elsewhere");
    }
    // Access checked with an object that a user creates.
    let object = json!({"apiVersion": "rights-users.example.com/v1", "kind": "Greeting", "metadata": {"name": "mine"},
        "spec": {"name": "world"}});
    let who = format!("--as={}", user("edit"));
    lab.kubectl().run_with_input(
        &["create", &who, "-n", namespace.name(), "-f", "-"],
        &object.to_string(),
    )?;
    Ok(())
}
