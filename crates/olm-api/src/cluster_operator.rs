//! What a part of a cluster reports of itself, as OpenShift has it: `clusteroperators.config.openshift.io`.
//!
//! Group and version are those of the [proxy](crate::proxy).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};

use crate::condition::{FALSE, TRUE};
use crate::sparse::List;

/// The kind.
pub const KIND: &str = "ClusterOperator";
/// Name of the CustomResourceDefinition.
pub const DEFINITION: &str = "clusteroperators.config.openshift.io";
/// Name under which the version of the whole release is told.
pub const RELEASE: &str = "operator";
/// Property of a bundle: the last minor version of OpenShift that it works with.
pub const MAX_OPENSHIFT_VERSION: &str = "olm.maxOpenShiftVersion";

/// The ClusterOperator of OLM, and the name under which OLM's version is told.
pub const OLM: &str = "operator-lifecycle-manager";
/// The ClusterOperator of the catalogs.
pub const CATALOG: &str = "operator-lifecycle-manager-catalog";

/// Condition: it works.
pub const AVAILABLE: &str = "Available";
/// Condition: it does not work as it should.
pub const DEGRADED: &str = "Degraded";
/// Condition: it is on its way to another version.
pub const PROGRESSING: &str = "Progressing";
/// Condition: the cluster may go to its next minor version.
pub const UPGRADEABLE: &str = "Upgradeable";

/// Reason: whether operators fit the next version could not be found out.
pub const ERROR_CHECKING_COMPATIBILITY: &str = "ErrorCheckingOperatorCompatibility";
/// Reason: operators do not fit the next version.
pub const INCOMPATIBLE_OPERATORS: &str = "IncompatibleOperatorsInstalled";
/// Reason: the ClusterServiceVersion that is reported on has succeeded.
pub const CSV_SUCCEEDED: &str = "ClusterServiceVersionSucceeded";
/// Reason: it has failed.
pub const CSV_NOT_SUCCEEDED: &str = "ClusterServiceVersionNotSucceeded";
/// Reason: it is gone.
pub const CSV_DELETED: &str = "ClusterServiceVersionDeleted";

/// Nothing was done yet that could be told.
pub const WAITING: &str = "Waiting for updates to take effect";
/// Nothing stands in the way of the next version.
pub const SAFE: &str = "Safe to upgrade";

/// The status, of which OLM's three ClusterOperators are each written by one program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterOperatorStatus {
    /// One of each type.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub conditions: List<ClusterOperatorCondition>,
    /// What runs, in no order.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub versions: List<OperandVersion>,
    /// What to look at when something is wrong.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub related_objects: List<RelatedObject>,
}

/// A condition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterOperatorCondition {
    /// What it is about.
    #[serde(rename = "type")]
    pub type_: String,
    /// True, False or Unknown.
    pub status: String,
    /// When the status became what it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// A word; empty for none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// A text for people; empty for none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// The version of something that runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct OperandVersion {
    /// What runs.
    pub name: String,
    /// Its version.
    pub version: String,
}

impl OperandVersion {
    /// That `name` runs in `version`.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            version: version.into(),
        }
    }
}

/// A reference.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RelatedObject {
    /// API group; empty for the core group.
    pub group: String,
    /// Name in paths.
    pub resource: String,
    /// Namespace; empty for what has none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name; empty for all.
    pub name: String,
}

impl RelatedObject {
    /// A reference to `resource` of `group`.
    pub fn new(group: &str, resource: &str, namespace: &str, name: &str) -> Self {
        Self {
            group: group.to_owned(),
            resource: resource.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }
}

impl ClusterOperatorStatus {
    /// The condition of a type.
    pub fn condition(&self, type_: &str) -> Option<&ClusterOperatorCondition> {
        self.conditions.iter().find(|known| known.type_ == type_)
    }

    /// Says that the condition `type_` `holds`, for `reason` and with `message`, which may be empty. Since when changes with the status
    /// alone; other conditions, and the order, stay.
    pub fn set_condition(&mut self, type_: &str, holds: bool, (reason, message): (&str, &str), now: &Time) {
        let status = if holds { TRUE } else { FALSE };
        let known = self.condition(type_).filter(|known| known.status == status);
        let since = known.and_then(|known| known.last_transition_time.clone());
        let condition = ClusterOperatorCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            last_transition_time: since.or_else(|| Some(now.clone())),
            reason: reason.to_owned(),
            message: message.to_owned(),
        };
        match self.conditions.iter_mut().find(|known| known.type_ == type_) {
            Some(known) => *known = condition,
            None => self.conditions.push(condition),
        }
    }

    /// Whether exactly these versions run; in which order they are told says nothing.
    pub fn has_versions(&self, wanted: &[OperandVersion]) -> bool {
        let sorted = |versions: &[OperandVersion]| {
            let mut versions = versions.to_vec();
            versions.sort();
            versions
        };
        sorted(&self.versions) == sorted(wanted)
    }

    /// Says which versions run, and leaves the list alone where it says so already.
    pub fn set_versions(&mut self, wanted: Vec<OperandVersion>) {
        if !self.has_versions(&wanted) {
            self.versions = wanted.into();
        }
    }

    /// The version of something that runs.
    pub fn version(&self, name: &str) -> Option<&str> {
        let known = self.versions.iter().find(|known| known.name == name);
        known.map(|known| known.version.as_str())
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::jiff::Timestamp;
    use serde_json::json;

    use super::*;

    fn at(second: i64) -> Time {
        Time(Timestamp::from_second(second).unwrap())
    }

    #[test]
    fn since_when_a_condition_holds_changes_with_its_status_alone() {
        let mut status = ClusterOperatorStatus::default();
        let since = |status: &ClusterOperatorStatus| {
            let condition = status.condition(UPGRADEABLE).unwrap();
            condition.last_transition_time.clone().unwrap()
        };
        status.set_condition(UPGRADEABLE, false, ("A", "a"), &at(1));
        status.set_condition(UPGRADEABLE, false, ("B", "b"), &at(2));
        assert_eq!(since(&status), at(1));
        assert_eq!(status.condition(UPGRADEABLE).unwrap().message, "b");
        status.set_condition(UPGRADEABLE, true, ("", ""), &at(3));
        assert_eq!(since(&status), at(3));
        assert_eq!(status.conditions.len(), 1);
    }

    #[test]
    fn versions_are_compared_as_a_collection_without_an_order() {
        let row = |name: &str| OperandVersion::new(name, "1");
        for (stored, wanted, equal) in [
            (json!({}), vec![], true),
            (json!({"versions": null}), vec![], true),
            (json!({"versions": []}), vec![], true),
            (
                json!({"versions": [{"name": "a", "version": "1"}, {"name": "b", "version": "1"}]}),
                vec![row("b"), row("a")],
                true,
            ),
            (
                json!({"versions": [{"name": "a", "version": "1"}]}),
                vec![row("a"), row("a")],
                false,
            ),
            (
                json!({"versions": [{"name": "a", "version": "2"}]}),
                vec![row("a")],
                false,
            ),
        ] {
            let mut status: ClusterOperatorStatus = serde_json::from_value(stored).unwrap();
            assert_eq!(status.has_versions(&wanted), equal, "{status:?}");
            let before = status.clone();
            status.set_versions(wanted);
            assert_eq!(status == before, equal);
        }
    }
}
