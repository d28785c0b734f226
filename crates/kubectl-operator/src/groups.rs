//! OperatorGroups, and the compatibility of operators with them. Pure.

use kube::ResourceExt as _;
use olm_api::api_key::ApiSet;
use olm_api::install_mode::check_install_modes;
use olm_api::intersection::{NamespaceSet, listed_apis};
use olm_api::v1::OperatorGroup;
use olm_api::v1alpha1::{InstallMode, InstallModeType};
use olm_resolver::objects::targets;
use serde_json::json;

/// Target that means all namespaces.
pub(crate) const ALL: &str = "";

/// Returns what to do in a namespace that has operators but no OperatorGroup. `install --create-operator-group` refuses a package that
/// has a Subscription already. `flags` select the cluster and the namespace.
pub(crate) fn create_one(namespace: &str, flags: &str) -> String {
    let group = json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
        "metadata": {"name": namespace, "namespace": namespace}, "spec": {"targetNamespaces": [namespace]}});
    format!(
        "create an OperatorGroup in namespace {namespace}, with spec {{}} for all namespaces, or for this one: \
         echo '{group}' | kubectl create -f - {flags}"
    )
}

/// Returns what to do in a namespace that has several OperatorGroups. `flags` select the cluster and the namespace.
pub(crate) fn keep_one(flags: &str) -> String {
    format!("delete all OperatorGroups but one: kubectl delete operatorgroup NAME {flags}")
}

/// An existing OperatorGroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    pub name: String,
    /// Target namespaces, [`ALL`] for all; `None` if unknown.
    pub targets: Option<Vec<String>>,
    /// ServiceAccount of its namespace that limits the permissions of operators; `None` also if unknown.
    pub account: Option<String>,
}

impl From<&OperatorGroup> for Group {
    /// Uses the targets in the status, else those that OLM will set. With a selector these are unknown, because they depend on
    /// the namespaces.
    fn from(group: &OperatorGroup) -> Self {
        Self {
            name: group.name_any(),
            targets: targets(group).map(|targets| targets.namespaces),
            account: group.spec.service_account().map(str::to_owned),
        }
    }
}

impl Group {
    /// Returns why an operator with these install modes does not support the group; `None` if it does, or if that is unknown.
    pub(crate) fn misfit(&self, operator: &str, modes: &[String], namespace: &str) -> Option<String> {
        let targets = self.targets.as_ref()?;
        let supported: Vec<InstallMode> = modes.iter().map(|mode| supported(mode)).collect();
        if supported.is_empty() || check_install_modes(&supported, namespace, targets).is_ok() {
            return None;
        }
        Some(format!(
            "{operator} supports install modes {}, but OperatorGroup {} of namespace {namespace} is {}",
            modes.join(", "),
            self.name,
            self.scope()
        ))
    }

    /// Describes the target namespaces.
    pub(crate) fn scope(&self) -> String {
        match self.targets.as_deref() {
            None => "for unknown namespaces".to_owned(),
            Some([all]) if all == ALL => "for all namespaces".to_owned(),
            Some(several) => format!("for {}", several.join(", ")),
        }
    }
}

/// Returns a text for each of these APIs that a group of another namespace lists, if it has a namespace in common with a group of
/// `namespace` that has these targets. OLM fails an operator with such an API, unless the group of its own namespace lists all of its
/// APIs already.
pub(crate) fn provided_elsewhere(
    apis: &ApiSet,
    namespace: &str,
    targets: &[String],
    groups: &[OperatorGroup],
) -> Vec<String> {
    let ours = NamespaceSet::of_group(namespace, targets);
    let (own, others): (Vec<_>, Vec<_>) = groups
        .iter()
        .partition(|group| group.namespace().as_deref() == Some(namespace));
    if own.iter().any(|group| apis.is_subset(&listed_apis(group))) {
        return Vec::new();
    }
    let shared = others.into_iter().flat_map(|group| {
        let of = group.namespace().unwrap_or_default();
        let targets = group.status.iter().flat_map(|status| status.namespaces.iter());
        let listed = match ours.intersects(&NamespaceSet::of_group(&of, targets)) {
            true => listed_apis(group),
            false => ApiSet::new(),
        };
        listed
            .intersection(apis)
            .map(|api| format!("{api} is provided by OperatorGroup {of}/{}", group.name_any()))
            .collect::<Vec<String>>()
    });
    shared.collect()
}

fn supported(mode: &str) -> InstallMode {
    InstallMode {
        type_: InstallModeType::from(mode),
        supported: true,
        ..InstallMode::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn the_targets_of_a_group_are_those_that_olm_noted_or_will_note() {
        let of = |spec: Value, noted: Value| {
            let object = json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
                "metadata": {"name": "og", "namespace": "shop"}, "spec": spec, "status": {"namespaces": noted, "lastUpdated": null}});
            Group::from(&serde_json::from_value::<OperatorGroup>(object).unwrap()).targets
        };
        let all = Some(vec![String::new()]);
        assert_eq!(of(json!({}), json!([])), all);
        assert_eq!(of(json!({}), json!([""])), all);
        assert_eq!(
            of(json!({"targetNamespaces": ["a"]}), json!([])),
            Some(vec!["a".to_owned()])
        );
        let selector = json!({"selector": {"matchLabels": {"a": "b"}}});
        assert_eq!(of(selector.clone(), json!([])), None);
        assert_eq!(of(selector, json!(["x"])), Some(vec!["x".to_owned()]));
    }

    #[test]
    fn an_api_is_provided_elsewhere_by_a_group_with_a_common_namespace() {
        let group = |namespace: &str, targets: &[&str], apis: &str| -> OperatorGroup {
            let object = json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
                "metadata": {"name": "og", "namespace": namespace, "annotations": {"olm.providedAPIs": apis}},
                "spec": {}, "status": {"namespaces": targets, "lastUpdated": null}});
            serde_json::from_value(object).unwrap()
        };
        let etcd = "Etcd.v1.example.com";
        let apis = olm_api::api_key::parse_api_set(etcd);
        let told = ["Etcd.v1.example.com is provided by OperatorGroup far/og"];
        for (targets, groups, expected) in [
            (&[""][..], vec![group("far", &["far"], etcd)], &told[..]),
            (&["a"], vec![group("far", &[""], etcd)], &told),
            (&["a"], vec![group("far", &["shop"], etcd)], &told),
            (&["a"], vec![group("far", &["b"], etcd)], &[]),
            (&[""], vec![group("far", &[""], "Etcd.v2.example.com")], &[]),
            // It is not processed yet.
            (&[""], vec![group("far", &[], etcd)], &[]),
            (
                &[""],
                vec![group("far", &[""], etcd), group("shop", &[""], etcd)],
                &[],
            ),
            (&[""], vec![group("shop", &[""], etcd)], &[]),
        ] {
            let targets: Vec<String> = targets.iter().map(|target| (*target).to_owned()).collect();
            assert_eq!(
                provided_elsewhere(&apis, "shop", &targets, &groups),
                expected,
                "{targets:?}"
            );
        }
    }

    #[test]
    fn an_empty_account_is_none() {
        for (account, expected) in [("installer", Some("installer")), ("", None)] {
            let object = json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
                "metadata": {"name": "og", "namespace": "shop"}, "spec": {"serviceAccountName": account}});
            let group = Group::from(&serde_json::from_value::<OperatorGroup>(object).unwrap());
            assert_eq!(group.account.as_deref(), expected);
        }
    }
}
