//! Names and labels of the ClusterRoles that let users work with the APIs that operators provide.
//!
//! There are two kinds. ClusterRoles of an API are aggregated to Kubernetes' own `admin`, `edit` and `view`. ClusterRoles of an
//! OperatorGroup aggregate those of the APIs that its operators provide. Names and labels are bit-identical to what clusters
//! have, because bindings refer to them.

use crate::{api_key::ApiKey, hash::sha224_base62};

/// Prefix of the label of an API's ClusterRole by which those of OperatorGroups select it.
const OPERATOR_GROUP_AGGREGATE_PREFIX: &str = "olm.opgroup.permissions/aggregate-to-";
/// Prefix of the label by which Kubernetes' own ClusterRoles for users select others.
pub const KUBERNETES_AGGREGATE_PREFIX: &str = "rbac.authorization.k8s.io/aggregate-to-";
/// Prefix of the name of an OperatorGroup's ClusterRole.
const GROUP_ROLE_PREFIX: &str = "olm.og.";
/// End of the name of the ClusterRole that lets users read the CustomResourceDefinition itself.
const CRD_VIEW: &str = "crdview";

/// Access level of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Full access.
    Admin,
    /// Change objects; [`Level::View`] covers reading them.
    Edit,
    /// Read objects.
    View,
}

impl Level {
    /// All levels.
    pub const ALL: [Self; 3] = [Self::Admin, Self::Edit, Self::View];

    /// Returns the verbs a user of this level has on the objects of an API.
    pub fn verbs(self) -> &'static [&'static str] {
        match self {
            Self::Admin => &["*"],
            Self::Edit => &["create", "update", "patch", "delete"],
            Self::View => &["get", "list", "watch"],
        }
    }

    /// Returns the label by which Kubernetes' ClusterRole of this level aggregates another.
    pub fn kubernetes_label(self) -> String {
        format!("{KUBERNETES_AGGREGATE_PREFIX}{}", self.as_str())
    }

    /// Returns the label by which an OperatorGroup's ClusterRole of this level aggregates that of an API.
    pub fn api_label(self, api: &ApiKey) -> String {
        format!(
            "{OPERATOR_GROUP_AGGREGATE_PREFIX}{}-{}",
            api.hash(),
            self.as_str()
        )
    }

    /// Returns the name of the ClusterRole of this level for an API. `api` is the name of its CustomResourceDefinition, or the
    /// plural of the resource an APIService serves.
    pub fn api_role_name(self, api: &str, version: &str) -> String {
        format!("{api}-{version}-{}", self.as_str())
    }

    /// Returns the name of the ClusterRole of this level of the OperatorGroup `name` in `namespace`. `name` must fit a label
    /// value.
    pub fn group_role_name(self, namespace: &str, name: &str) -> String {
        let level = self.as_str();
        let hash = sha224_base62(format!("{namespace}/{name}/{level}").as_bytes());
        format!("{GROUP_ROLE_PREFIX}{name}.{level}-{hash}")
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Edit => "edit",
            Self::View => "view",
        }
    }
}

/// Returns true if a label makes OperatorGroups' ClusterRoles aggregate the ClusterRole of an API.
pub fn is_api_label(label: &str) -> bool {
    label.starts_with(OPERATOR_GROUP_AGGREGATE_PREFIX)
}

/// Returns the name of the ClusterRole that lets users read the CustomResourceDefinition `crd` itself.
pub fn crd_view_name(crd: &str, version: &str) -> String {
    format!("{crd}-{version}-{CRD_VIEW}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rbac_001_names_of_a_groups_roles_agree_with_recorded_ones() {
        let names = Level::ALL.map(|level| level.group_role_name("operators", "global-operators"));
        assert_eq!(
            names,
            [
                "olm.og.global-operators.admin-5UD4U2IfBGbw51Qy2Jaefk1uawvkj2OJILlc3w",
                "olm.og.global-operators.edit-9ZbzBIwu1SlHO7KbWinNtOfyGaVjTWIYhNkNP",
                "olm.og.global-operators.view-6lzJtrbG08ne4wrZHGxP3h1MBUjq5e7nOF4gax",
            ]
        );
    }

    #[test]
    fn rbac_009_names_and_labels_of_an_apis_roles_agree_with_recorded_ones() {
        let api = ApiKey::new("example.com", "v1", "Demo");
        assert_eq!(
            Level::Edit.api_role_name("demos.example.com", "v1"),
            "demos.example.com-v1-edit"
        );
        assert_eq!(
            crd_view_name("demos.example.com", "v1"),
            "demos.example.com-v1-crdview"
        );
        assert_eq!(
            Level::Admin.api_label(&api),
            "olm.opgroup.permissions/aggregate-to-ddb619aba476937e-admin"
        );
        assert_eq!(
            Level::View.kubernetes_label(),
            "rbac.authorization.k8s.io/aggregate-to-view"
        );
    }
}
