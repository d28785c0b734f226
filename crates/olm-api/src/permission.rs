//! Names and hashes of the RBAC objects made from the permissions of a ClusterServiceVersion.
//!
//! Bit-identical to what clusters have: see [`crate::hash`].

use k8s_openapi::api::rbac::v1::{PolicyRule, RoleRef, Subject};
use serde::Serialize;

use crate::hash::{generate_name, hash_without_newline};

/// Name of the Role, and of its RoleBinding, for a permission of the ClusterServiceVersion `csv`.
///
/// # Errors
/// None in practice; see [`go_compat::json::encode`].
pub fn role_name(
    csv: &str,
    service_account: &str,
    rules: &[PolicyRule],
) -> Result<String, serde_json::Error> {
    let object = Named {
        name: csv,
        namespace: None,
        permission: Permission::new(service_account, rules),
    };
    generate_name(&format!("{csv}-{service_account}"), &object)
}

/// Name of the ClusterRole, and of its ClusterRoleBinding, for a cluster permission of the ClusterServiceVersion `csv` in
/// `namespace`.
///
/// # Errors
/// None in practice; see [`go_compat::json::encode`].
pub fn cluster_role_name(
    csv: &str,
    namespace: &str,
    service_account: &str,
    rules: &[PolicyRule],
) -> Result<String, serde_json::Error> {
    let object = Named {
        name: csv,
        namespace: Some(namespace),
        permission: Permission::new(service_account, rules),
    };
    generate_name(csv, &object)
}

/// Name of the ClusterRole that a Role of the ClusterServiceVersion `csv` in `namespace` is promoted to, of its counterparts in
/// other namespaces, and of their bindings.
///
/// Unlike upstream's, which is the Role's own, it is derived from the namespace, too: two ClusterServiceVersions of one name never
/// share such an object. It differs from a [`cluster_role_name`] for the same permission.
///
/// # Errors
/// None in practice; see [`go_compat::json::encode`].
pub fn promoted_role_name(
    csv: &str,
    namespace: &str,
    service_account: &str,
    rules: &[PolicyRule],
) -> Result<String, serde_json::Error> {
    #[derive(Serialize)]
    struct Promoted<'a> {
        promoted: Named<'a>,
    }
    let promoted = Named {
        name: csv,
        namespace: Some(namespace),
        permission: Permission::new(service_account, rules),
    };
    generate_name(&format!("{csv}-{service_account}"), &Promoted { promoted })
}

/// Permissions hash of a Role or ClusterRole.
///
/// # Errors
/// None in practice; see [`go_compat::json::encode`].
pub fn rules_hash(rules: &[PolicyRule]) -> Result<String, serde_json::Error> {
    hash_without_newline(&rules.iter().map(Rule::from).collect::<Vec<_>>())
}

/// Permissions hash of a RoleBinding or ClusterRoleBinding.
///
/// # Errors
/// None in practice; see [`go_compat::json::encode`].
pub fn binding_hash(role: &RoleRef, subjects: &[Subject]) -> Result<String, serde_json::Error> {
    hash_without_newline(&Binding {
        role: BindingRole {
            api_group: &role.api_group,
            kind: &role.kind,
            name: &role.name,
        },
        subjects: subjects.iter().map(BindingSubject::from).collect(),
    })
}

// The structs below exist for the order of their fields and for what they leave out.

#[derive(Serialize)]
struct Named<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'a str>,
    permission: Permission<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Permission<'a> {
    service_account_name: &'a str,
    rules: Vec<Rule<'a>>,
}

impl<'a> Permission<'a> {
    fn new(service_account_name: &'a str, rules: &'a [PolicyRule]) -> Self {
        Self {
            service_account_name,
            rules: rules.iter().map(Rule::from).collect(),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Rule<'a> {
    verbs: &'a [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    api_groups: &'a [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    resources: &'a [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    resource_names: &'a [String],
    #[serde(rename = "nonResourceURLs", skip_serializing_if = "<[String]>::is_empty")]
    non_resource_urls: &'a [String],
}

impl<'a> From<&'a PolicyRule> for Rule<'a> {
    fn from(rule: &'a PolicyRule) -> Self {
        Self {
            verbs: &rule.verbs,
            api_groups: rule.api_groups.as_deref().unwrap_or_default(),
            resources: rule.resources.as_deref().unwrap_or_default(),
            resource_names: rule.resource_names.as_deref().unwrap_or_default(),
            non_resource_urls: rule.non_resource_urls.as_deref().unwrap_or_default(),
        }
    }
}

#[derive(Serialize)]
struct Binding<'a> {
    #[serde(rename = "RoleRef")]
    role: BindingRole<'a>,
    #[serde(rename = "Subjects")]
    subjects: Vec<BindingSubject<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BindingRole<'a> {
    api_group: &'a str,
    kind: &'a str,
    name: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BindingSubject<'a> {
    kind: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    api_group: &'a str,
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'a str,
}

impl<'a> From<&'a Subject> for BindingSubject<'a> {
    fn from(subject: &'a Subject) -> Self {
        Self {
            kind: &subject.kind,
            api_group: subject.api_group.as_deref().unwrap_or_default(),
            name: &subject.name,
            namespace: subject.namespace.as_deref().unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(group: &str, resource: &str) -> PolicyRule {
        PolicyRule {
            verbs: vec!["*".into()],
            api_groups: Some(vec![group.into()]),
            resources: Some(vec![resource.into()]),
            ..PolicyRule::default()
        }
    }

    fn binding(kind: &str, name: &str) -> (RoleRef, Vec<Subject>) {
        let role = RoleRef {
            api_group: "rbac.authorization.k8s.io".into(),
            kind: kind.into(),
            name: name.into(),
        };
        let subject = Subject {
            kind: "ServiceAccount".into(),
            name: "demo".into(),
            namespace: Some("golden".into()),
            ..Subject::default()
        };
        (role, vec![subject])
    }

    #[test]
    fn role_of_a_recorded_install() {
        let rules = [rule("", "configmaps")];
        let name = "demo.v1.0.0-demo-37qESDd0KBt6dNrSG9rayqj7oeQh8bsKO50dxQ";
        assert_eq!(role_name("demo.v1.0.0", "demo", &rules).unwrap(), name);
        assert_eq!(
            rules_hash(&rules).unwrap(),
            "cSd3g0vXrUNxTA2ev1HX3CPpuvv5nZAXbcoZMJ"
        );
        let (role, subjects) = binding("Role", name);
        assert_eq!(
            binding_hash(&role, &subjects).unwrap(),
            "2eBh2KEk4MoIhFePmWWX8sD3VfE8NOcAFKWwRS"
        );
    }

    /// Two ClusterServiceVersions of one name in two namespaces, and the two kinds of permission of one, never meet in a name.
    #[test]
    fn promoted_names_differ_by_namespace_and_from_all_other_names() {
        let rules = [rule("", "configmaps")];
        let csv = "an-operator-with-a-long-name.v1.0.0";
        let names = std::collections::BTreeSet::from([
            promoted_role_name(csv, "one", "demo", &rules).unwrap(),
            promoted_role_name(csv, "two", "demo", &rules).unwrap(),
            promoted_role_name(csv, "one", "other", &rules).unwrap(),
            cluster_role_name(csv, "one", "demo", &rules).unwrap(),
            role_name(csv, "demo", &rules).unwrap(),
        ]);
        assert_eq!(names.len(), 5, "{names:?}");
        assert!(names.iter().all(|name| name.len() <= 64), "{names:?}");
    }

    #[test]
    fn cluster_role_of_a_recorded_install() {
        let rules = [rule("example.com", "demos")];
        let name = "demo.v1.0.0-89YgvU582s40bAWGY2ZAe9Al7i63ZZkWx9IMxN";
        assert_eq!(
            cluster_role_name("demo.v1.0.0", "golden", "demo", &rules).unwrap(),
            name
        );
        assert_eq!(
            rules_hash(&rules).unwrap(),
            "4f9nGTRWTCToXAjVCXmntlJyHMHK5bTqfIulTf"
        );
        let (role, subjects) = binding("ClusterRole", name);
        assert_eq!(
            binding_hash(&role, &subjects).unwrap(),
            "3RlQSiNFxBiUNqLsY5FKJun4iyGGqJIUueSJg3"
        );
    }
}
