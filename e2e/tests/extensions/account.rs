//! The ServiceAccount of an extension, with the rights that the status lists and no others.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, bail, ensure};
use e2e::olm_v1::{is, message, object};
use serde_json::{Value, json};
use xtask::cluster::audit::OLM_ACCOUNTS;

use crate::{Versions, extension, installed, setup};

/// Resources of the bundle's objects.
const WRITTEN: [&str; 5] = [
    "clusterrolebindings",
    "clusterroles",
    "customresourcedefinitions",
    "deployments",
    "serviceaccounts",
];

/// Reads a line of the message about missing rights: the namespace, which is empty for the whole cluster, and the rule.
fn rule(line: &str) -> anyhow::Result<(String, Value)> {
    let mut namespace = String::new();
    let mut rule = json!({});
    for word in line.split_whitespace() {
        let field = word.split_once(':');
        let (field, value) = field.with_context(|| format!("{word} is no field: {line}"))?;
        let list: Vec<&str> = value.trim_matches(['[', ']']).split(',').collect();
        let field = match field {
            "Namespace" => {
                namespace = value.trim_matches('"').to_owned();
                continue;
            }
            "APIGroups" => "apiGroups",
            "Resources" => "resources",
            "ResourceNames" => "resourceNames",
            "NonResourceURLs" => "nonResourceURLs",
            "Verbs" => "verbs",
            other => bail!("{other} is no field of a rule: {line}"),
        };
        rule[field] = json!(list);
    }
    Ok((namespace, rule))
}

/// Returns a role with these rules in a namespace, or in the whole cluster if it is empty, and its binding to the account `installer`.
fn grant(name: &str, namespace: &str, rules: &[Value]) -> [Value; 2] {
    let api = "rbac.authorization.k8s.io/v1";
    let kind = if namespace.is_empty() {
        "ClusterRole"
    } else {
        "Role"
    };
    let metadata = json!({"name": format!("{name}-installer"), "namespace": namespace});
    [
        json!({"apiVersion": api, "kind": kind, "metadata": metadata, "rules": rules}),
        json!({"apiVersion": api, "kind": format!("{kind}Binding"), "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": format!("{name}-installer")},
            "subjects": [{"kind": "ServiceAccount", "name": "installer", "namespace": name}]}),
    ]
}

#[test]
fn v1_002_an_account_installs_once_it_has_the_rights_that_the_status_lists() -> anyhow::Result<()> {
    let setup = setup()?;
    let (lab, name) = (&setup.lab, "heron");
    let kubectl = lab.kubectl();
    let namespace = lab.namespace(name)?;
    let versions = Versions::new(lab, name)?;
    versions.publish_in_order(1, &["1.0.0"], "stable")?;
    let mut wanted = extension(name, name, &json!({}));
    wanted["spec"]["serviceAccount"] = json!({"name": "installer"});
    kubectl.apply(&[wanted])?;
    let retrying = |text: &str| {
        let what = format!("ClusterExtension {name}: {text}");
        object(kubectl, &["clusterextension", name], &what, |it| {
            is(it, "Progressing", "True", "Retrying") && message(it, "Progressing").contains(text)
        })
    };
    retrying("service account \"installer\" not found in namespace \"heron\"")?;
    namespace
        .apply(&[json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "installer"}})])?;
    let lacking = retrying("pre-authorization failed: service account requires the following permissions")?;
    let lacking = message(&lacking, "Progressing");
    let mut rules: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for line in lacking.lines().skip(1) {
        let (place, rule) = rule(line)?;
        rules.entry(place).or_default().push(rule);
    }
    for resource in WRITTEN.iter().chain(&["greetings", "configmaps"]) {
        ensure!(lacking.contains(resource), "{resource} is missing: {lacking}");
    }
    ensure!(
        kubectl.get(&["clusterobjectset", "heron-1"])?.is_none(),
        "a revision was made without rights"
    );

    // These rights and no others are enough.
    for (place, rules) in &rules {
        kubectl.apply(&grant(name, place, rules))?;
    }
    kubectl.run(&["annotate", "clusterextension", name, "look=again"])?;
    installed(kubectl, name, "1.0.0")?;
    namespace.wait_for("deployment", name, "to be available", |it| {
        it["status"]["availableReplicas"] == 1
    })?;

    let account = format!("system:serviceaccount:{name}:installer");
    let controller = format!("{OLM_ACCOUNTS}operator-controller-controller-manager");
    let mut written = BTreeSet::new();
    for event in lab.cluster().audit_events()? {
        let Some(object) = event.object_ref.as_ref() else {
            continue;
        };
        let is_of_bundle = object.namespace == name
            || object.name.contains(name) && WRITTEN.contains(&object.resource.as_str());
        if event.user.username != controller || !event.is_write() || !is_of_bundle {
            continue;
        }
        let writer = event.impersonated_user.as_ref();
        ensure!(
            writer.is_some_and(|writer| writer.username == account),
            "not written as {account}: {event:?}"
        );
        written.insert(object.resource.clone());
    }
    ensure!(
        written.iter().map(String::as_str).eq(WRITTEN),
        "written: {written:?}"
    );
    Ok(())
}
