//! Names and hashes of the RBAC objects made from the permissions of a ClusterServiceVersion.
//!
//! Bit-identical to what clusters have: see [`crate::hash`].

use k8s_openapi::api::rbac::v1::{PolicyRule, RoleRef, Subject};
use serde::{Deserialize, Serialize};

use crate::hash::{generate_name, hash_without_newline};

/// API group of Roles, ClusterRoles and their bindings.
pub const API_GROUP: &str = "rbac.authorization.k8s.io";

/// An entry of `permissions` or `clusterPermissions`, in the form used for names and hashes. Fields have the order of upstream's
/// types, and an absent list (written as `null`) differs from an empty one.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Permission {
    /// ServiceAccount that gets the permission.
    pub service_account_name: String,
    /// Rules of the permission; `None` if absent.
    #[serde(default)]
    pub rules: Option<Vec<Rule>>,
}

/// A policy rule of a [`Permission`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    #[serde(default)]
    verbs: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "is_empty")]
    api_groups: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "is_empty")]
    resources: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "is_empty")]
    resource_names: Option<Vec<String>>,
    #[serde(default, rename = "nonResourceURLs", skip_serializing_if = "is_empty")]
    non_resource_urls: Option<Vec<String>>,
}

fn is_empty(list: &Option<Vec<String>>) -> bool {
    list.as_ref().is_none_or(Vec::is_empty)
}

impl From<&PolicyRule> for Rule {
    fn from(rule: &PolicyRule) -> Self {
        Self {
            verbs: Some(rule.verbs.clone()),
            api_groups: rule.api_groups.clone(),
            resources: rule.resources.clone(),
            resource_names: rule.resource_names.clone(),
            non_resource_urls: rule.non_resource_urls.clone(),
        }
    }
}

impl Permission {
    /// Creates the permission with these rules.
    pub fn new(service_account: &str, rules: &[PolicyRule]) -> Self {
        Self {
            service_account_name: service_account.to_owned(),
            rules: Some(rules.iter().map(Rule::from).collect()),
        }
    }

    /// Returns the name of its Role and RoleBinding for the ClusterServiceVersion `csv`.
    ///
    /// # Errors
    /// None in practice; see [`go_compat::json::encode`].
    pub fn role_name(&self, csv: &str) -> Result<String, serde_json::Error> {
        let object = self.named(csv, None);
        generate_name(&format!("{csv}-{}", self.service_account_name), &object)
    }

    /// Returns the name of its ClusterRole and ClusterRoleBinding for the ClusterServiceVersion `csv` in `namespace`.
    ///
    /// # Errors
    /// None in practice; see [`go_compat::json::encode`].
    pub fn cluster_role_name(&self, csv: &str, namespace: &str) -> Result<String, serde_json::Error> {
        generate_name(csv, &self.named(csv, Some(namespace)))
    }

    /// Returns the permissions hash of its Role or ClusterRole.
    ///
    /// # Errors
    /// None in practice; see [`go_compat::json::encode`].
    pub fn rules_hash(&self) -> Result<String, serde_json::Error> {
        hash_without_newline(&self.rules)
    }

    fn named<'a>(&'a self, csv: &'a str, namespace: Option<&'a str>) -> Named<'a> {
        Named {
            name: csv,
            namespace,
            permission: self,
        }
    }
}

/// Returns an alternative to the name `name` of a Role or binding of `namespace` that another operator's object already has. Two
/// ClusterServiceVersions with the same name never share such an object.
pub fn name_beside(name: &str, namespace: &str) -> String {
    #[derive(Serialize)]
    struct Beside<'a> {
        name: &'a str,
        namespace: &'a str,
    }
    // Two texts always have a JSON form.
    generate_name(name, &Beside { name, namespace }).unwrap_or_else(|_| name.to_owned())
}

/// Returns the permissions hash of a Role or ClusterRole.
///
/// # Errors
/// None in practice; see [`go_compat::json::encode`].
pub fn rules_hash(rules: &[PolicyRule]) -> Result<String, serde_json::Error> {
    Permission::new("", rules).rules_hash()
}

/// Returns the permissions hash of a RoleBinding or ClusterRoleBinding.
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

/// Returns the role reference of a permission's binding: the Role or ClusterRole (`kind`) of this name.
pub fn role_ref(kind: &str, name: &str) -> RoleRef {
    RoleRef {
        api_group: API_GROUP.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
    }
}

/// Returns the subject of a permission's binding.
pub fn service_account_subject(namespace: &str, name: &str) -> Subject {
    Subject {
        kind: "ServiceAccount".to_owned(),
        name: name.to_owned(),
        namespace: Some(namespace.to_owned()),
        ..Subject::default()
    }
}

// The structs below exist for the order of their fields and for the fields they omit.

#[derive(Serialize)]
struct Named<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'a str>,
    permission: &'a Permission,
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
        (
            role_ref(kind, name),
            vec![service_account_subject("golden", "demo")],
        )
    }

    #[test]
    fn role_of_a_recorded_install() {
        let rules = [rule("", "configmaps")];
        let name = "demo.v1.0.0-demo-37qESDd0KBt6dNrSG9rayqj7oeQh8bsKO50dxQ";
        assert_eq!(
            Permission::new("demo", &rules).role_name("demo.v1.0.0").unwrap(),
            name
        );
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

    /// Go writes an absent list as `null`.
    #[test]
    fn rules_that_are_absent_are_not_rules_that_are_empty() {
        let read = |text: &str| serde_json::from_str::<Permission>(text).unwrap();
        let absent = read(r#"{"serviceAccountName": "a"}"#);
        let empty = read(r#"{"serviceAccountName": "a", "rules": []}"#);
        assert_eq!(empty.rules_hash().unwrap(), rules_hash(&[]).unwrap());
        assert_ne!(absent.rules_hash().unwrap(), empty.rules_hash().unwrap());
        assert_eq!(
            empty.role_name("csv").unwrap(),
            Permission::new("a", &[]).role_name("csv").unwrap()
        );
        assert_ne!(absent.role_name("csv").unwrap(), empty.role_name("csv").unwrap());
    }

    #[test]
    fn names_beside_others_differ_by_namespace_and_from_all_other_names() {
        let rules = [rule("", "configmaps")];
        let csv = "an-operator-with-a-long-name.v1.0.0";
        let permission = Permission::new("demo", &rules);
        let role = permission.role_name(csv).unwrap();
        let names = std::collections::BTreeSet::from([
            name_beside(&role, "one"),
            name_beside(&role, "two"),
            name_beside("other", "one"),
            permission.cluster_role_name(csv, "one").unwrap(),
            role,
        ]);
        assert_eq!(names.len(), 5, "{names:?}");
        assert!(names.iter().all(|name| name.len() <= 64), "{names:?}");
    }

    #[test]
    fn cluster_role_of_a_recorded_install() {
        let rules = [rule("example.com", "demos")];
        let name = "demo.v1.0.0-89YgvU582s40bAWGY2ZAe9Al7i63ZZkWx9IMxN";
        assert_eq!(
            Permission::new("demo", &rules)
                .cluster_role_name("demo.v1.0.0", "golden")
                .unwrap(),
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
