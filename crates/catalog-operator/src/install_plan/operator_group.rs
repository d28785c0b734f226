//! Identity that executes a plan: the check of the namespace's OperatorGroups.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{ResourceExt, core::Selector};
use olm_api::names::service_account_user;
use olm_api::v1::OperatorGroup;
use olm_runtime::NamespacedName;
use olm_runtime::plan::Identity;

/// Why a plan cannot be carried out in its namespace. The texts are upstream's, users search for them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum GroupError {
    /// No group, or none with namespaces in its status yet; then the group and the reason follow a colon.
    #[error("no operator group found that is managing this namespace{0}")]
    NoGroup(String),
    /// More than one.
    #[error("more than one operator group(s) are managing this namespace count={0}")]
    SeveralGroups(usize),
    /// The group names a ServiceAccount that its status does not name (yet).
    #[error("please make sure the service account exists. sa={service_account} operatorgroup={group}")]
    ServiceAccountMissing {
        /// Name of the ServiceAccount.
        service_account: String,
        /// `namespace/name` of the group.
        group: String,
    },
}

/// The ServiceAccount whose rights an install is limited to; none when the one OperatorGroup names none.
///
/// # Errors
/// There is not exactly one OperatorGroup with namespaces, or its ServiceAccount is missing.
pub(crate) fn find_service_account(
    groups: &[Arc<OperatorGroup>],
) -> Result<Option<ObjectReference>, GroupError> {
    let managing: Vec<_> = managing(groups).collect();
    let [group] = managing[..] else {
        return Err(if managing.is_empty() {
            GroupError::NoGroup(why_none(groups))
        } else {
            GroupError::SeveralGroups(managing.len())
        });
    };
    let Some(wanted) = group
        .spec
        .service_account_name
        .as_deref()
        .filter(|name| !name.is_empty())
    else {
        return Ok(None);
    };
    // A status about the account named before does not apply to the current one; and a group cannot name an account of another
    // namespace.
    let found = group
        .status
        .as_ref()
        .and_then(|status| status.service_account_ref.clone())
        .filter(|found| found.name.as_deref() == Some(wanted))
        .filter(|found| found.namespace == group.namespace());
    found.map(Some).ok_or_else(|| GroupError::ServiceAccountMissing {
        service_account: wanted.to_owned(),
        group: NamespacedName::from_object(group.as_ref()).to_string(),
    })
}

/// The groups that have found their namespaces.
fn managing(groups: &[Arc<OperatorGroup>]) -> impl Iterator<Item = &Arc<OperatorGroup>> {
    groups.iter().filter(|group| {
        let status = group.status.as_ref();
        status.is_some_and(|status| !status.namespaces.is_empty())
    })
}

/// Reason why no group of the namespace manages it, to follow the text that none does; empty if there is no group.
fn why_none(groups: &[Arc<OperatorGroup>]) -> String {
    let Some(first) = groups.iter().min_by_key(|group| group.name_any()) else {
        return String::new();
    };
    let more = match groups.len() {
        1 => String::new(),
        all => format!(", and {} more", all.saturating_sub(1)),
    };
    format!(
        ": OperatorGroup {} {}{more}",
        NamespacedName::from_object(first.as_ref()),
        why_idle(first)
    )
}

/// Why a group that has found no namespace has none.
fn why_idle(group: &OperatorGroup) -> String {
    let status = group.status.as_ref();
    if status.is_none_or(|status| status.last_updated.is_none()) {
        return "has not been processed by olm-operator yet".to_owned();
    }
    format!("selects no namespace{}", shown_selector(group))
}

fn shown_selector(group: &OperatorGroup) -> String {
    let Some(wanted) = group.spec.selector.clone() else {
        return String::new();
    };
    Selector::try_from(wanted).map_or_else(
        |error| format!(" (invalid spec.selector: {error})"),
        |selector| format!(" (spec.selector {selector})"),
    )
}

/// Suffix for the refusal of a write that names the refused account. Empty if it is not the account of the namespace's group, but
/// the operator's own.
pub(crate) fn of_group(groups: &[Arc<OperatorGroup>], refusal: &str) -> String {
    let group = managing(groups).find(|group| {
        let account = group.spec.service_account_name.as_deref().unwrap_or_default();
        let namespace = group.namespace().unwrap_or_default();
        let user = format!("\"{}\"", service_account_user(&namespace, account));
        !account.is_empty() && refusal.contains(&user)
    });
    group.map_or_else(String::new, |group| {
        format!(
            " (account of OperatorGroup {})",
            NamespacedName::from_object(group.as_ref())
        )
    })
}

/// The identity that writes in a ServiceAccount's name.
pub(crate) fn identity(service_account: Option<&ObjectReference>) -> Identity {
    match service_account {
        None => Identity::Operator,
        Some(reference) => Identity::ServiceAccount {
            namespace: reference.namespace.clone().unwrap_or_default(),
            name: reference.name.clone().unwrap_or_default(),
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn groups(groups: &[(&str, Value, Value)]) -> Vec<Arc<OperatorGroup>> {
        let group = |(name, spec, status): &(&str, Value, Value)| {
            let object = json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
                "metadata": {"namespace": "ns", "name": name}, "spec": spec, "status": status});
            Arc::new(serde_json::from_value(object).unwrap())
        };
        groups.iter().map(group).collect()
    }

    #[track_caller]
    fn check(given: &[(&str, Value, Value)], behind: &str) {
        let error = find_service_account(&groups(given)).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("no operator group found that is managing this namespace{behind}")
        );
    }

    #[test]
    fn a_group_that_selects_nothing_is_named_with_its_selector() {
        let looked_at = json!({"lastUpdated": "2026-01-01T00:00:00Z"});
        let nobody = json!({"selector": {"matchLabels": {"team": "nobody"}}});
        check(&[], "");
        check(
            &[("sel", nobody.clone(), looked_at.clone())],
            ": OperatorGroup ns/sel selects no namespace (spec.selector team=nobody)",
        );
        check(
            &[("sel", nobody.clone(), Value::Null)],
            ": OperatorGroup ns/sel has not been processed by olm-operator yet",
        );
        let slip =
            json!({"selector": {"matchExpressions": [{"key": "team", "operator": "Inn", "values": ["a"]}]}});
        let error = find_service_account(&groups(&[("sel", slip, looked_at.clone())])).unwrap_err();
        let told = ": OperatorGroup ns/sel selects no namespace (invalid spec.selector: ";
        assert!(error.to_string().contains(told), "{error}");
        check(
            &[
                ("z", json!({}), Value::Null),
                ("sel", nobody, looked_at.clone()),
                ("y", json!({}), looked_at),
            ],
            ": OperatorGroup ns/sel selects no namespace (spec.selector team=nobody), and 2 more",
        );
    }

    #[test]
    fn an_account_of_another_namespace_is_never_the_groups() {
        let named = |namespace: &Value| {
            let found = json!({"namespaces": ["ns"], "serviceAccountRef": {"name": "scoped", "namespace": namespace}});
            find_service_account(&groups(&[("og", json!({"serviceAccountName": "scoped"}), found)]))
        };
        let ours = named(&json!("ns")).unwrap();
        assert_eq!(
            identity(ours.as_ref()),
            Identity::ServiceAccount {
                namespace: "ns".to_owned(),
                name: "scoped".to_owned()
            }
        );
        for namespace in [json!("kube-system"), json!(null)] {
            let error = named(&namespace).unwrap_err();
            assert!(
                matches!(error, GroupError::ServiceAccountMissing { .. }),
                "{error}"
            );
        }
    }

    #[test]
    fn a_refused_account_is_reported_with_its_group() {
        let found = json!({"namespaces": ["ns"]});
        let limited = groups(&[("lim", json!({"serviceAccountName": "limited"}), found.clone())]);
        let refusal =
            |user: &str| format!("csvs is forbidden: User \"system:serviceaccount:{user}\" cannot create");
        assert_eq!(
            of_group(&limited, &refusal("ns:limited")),
            " (account of OperatorGroup ns/lim)"
        );
        assert_eq!(of_group(&limited, &refusal("ns:limited2")), "");
        assert_eq!(of_group(&limited, &refusal("olm:catalog-operator")), "");
        assert_eq!(
            of_group(&groups(&[("og", json!({}), found)]), &refusal("ns:")),
            ""
        );
    }
}
