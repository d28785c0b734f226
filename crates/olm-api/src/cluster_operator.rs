//! Status that a component of the cluster reports, as on OpenShift: `clusteroperators.config.openshift.io`.
//!
//! Group and version are those of the [proxy](crate::proxy).

use std::fmt;

use go_compat::semver::Version;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};

use crate::condition::{FALSE, TRUE};
use crate::sparse::List;

/// Kind of these objects.
pub const KIND: &str = "ClusterOperator";
/// Name of the CustomResourceDefinition.
pub const DEFINITION: &str = "clusteroperators.config.openshift.io";
/// Name of the version entry for the whole release.
pub const RELEASE: &str = "operator";
/// Bundle property: the last minor version of OpenShift that the bundle supports.
pub const MAX_OPENSHIFT_VERSION: &str = "olm.maxOpenShiftVersion";

/// Name of OLM's ClusterOperator, and of the version entry for OLM.
pub const OLM: &str = "operator-lifecycle-manager";
/// Name of the ClusterOperator for catalogs.
pub const CATALOG: &str = "operator-lifecycle-manager-catalog";

/// Condition: the component works.
pub const AVAILABLE: &str = "Available";
/// Condition: the component does not work as it should.
pub const DEGRADED: &str = "Degraded";
/// Condition: the component is moving to another version.
pub const PROGRESSING: &str = "Progressing";
/// Condition: the cluster may be upgraded to its next minor version.
pub const UPGRADEABLE: &str = "Upgradeable";

/// Reason: the check whether operators support the next version failed.
pub const ERROR_CHECKING_COMPATIBILITY: &str = "ErrorCheckingOperatorCompatibility";
/// Reason: installed operators do not support the next version.
pub const INCOMPATIBLE_OPERATORS: &str = "IncompatibleOperatorsInstalled";
/// Reason: the reported ClusterServiceVersion has succeeded.
pub const CSV_SUCCEEDED: &str = "ClusterServiceVersionSucceeded";
/// Reason: the reported ClusterServiceVersion has failed.
pub const CSV_NOT_SUCCEEDED: &str = "ClusterServiceVersionNotSucceeded";
/// Reason: the reported ClusterServiceVersion was deleted.
pub const CSV_DELETED: &str = "ClusterServiceVersionDeleted";

/// Message: there is no progress to report yet.
pub const WAITING: &str = "Waiting for updates to take effect";
/// Message: nothing prevents an upgrade to the next version.
pub const SAFE: &str = "Safe to upgrade";

/// Status of a ClusterOperator. Each of OLM's three ClusterOperators has exactly one writer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterOperatorStatus {
    /// Conditions, one per type.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub conditions: List<ClusterOperatorCondition>,
    /// Versions of the running components, in no particular order.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub versions: List<OperandVersion>,
    /// Objects to look at when something is wrong.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub related_objects: List<RelatedObject>,
}

/// A condition of a ClusterOperator.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterOperatorCondition {
    /// Type of the condition.
    #[serde(rename = "type")]
    pub type_: String,
    /// True, False or Unknown.
    pub status: String,
    /// Time of the last change of the status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// Reason, one word; empty for none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Human-readable message; empty for none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// Version of a running component.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct OperandVersion {
    /// Name of the component.
    pub name: String,
    /// Version of the component.
    pub version: String,
}

impl OperandVersion {
    /// Creates the entry: `name` runs in `version`.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            version: version.into(),
        }
    }
}

/// Reference to an object, or to all objects of a resource.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RelatedObject {
    /// API group; empty for the core group.
    pub group: String,
    /// Plural resource name, as in paths.
    pub resource: String,
    /// Namespace; empty for cluster-scoped objects.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name; empty for all.
    pub name: String,
}

impl RelatedObject {
    /// Creates a reference to `resource` of `group`.
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
    /// Returns the condition of this type.
    pub fn condition(&self, type_: &str) -> Option<&ClusterOperatorCondition> {
        self.conditions.iter().find(|known| known.type_ == type_)
    }

    /// Sets the condition `type_` to `holds`, with `reason` and `message`, which may be empty. The transition time changes only
    /// with the status. Other conditions, and the order, are kept.
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

    /// Returns true if exactly these versions are reported, in any order.
    pub fn has_versions(&self, wanted: &[OperandVersion]) -> bool {
        let sorted = |versions: &[OperandVersion]| {
            let mut versions = versions.to_vec();
            versions.sort();
            versions
        };
        sorted(&self.versions) == sorted(wanted)
    }

    /// Sets the reported versions. A list that already has them keeps its order.
    pub fn set_versions(&mut self, wanted: Vec<OperandVersion>) {
        if !self.has_versions(&wanted) {
            self.versions = wanted.into();
        }
    }

    /// Returns the reported version of a component.
    pub fn version(&self, name: &str) -> Option<&str> {
        let known = self.versions.iter().find(|known| known.name == name);
        known.map(|known| known.version.as_str())
    }
}

/// The last minor version of major version 4 of OpenShift; it is the same as 5.0.
pub const LAST_OF_FOUR: Minor = Minor { major: 4, minor: 23 };
/// The first minor version of major version 5 of OpenShift.
pub const FIRST_OF_FIVE: Minor = Minor { major: 5, minor: 0 };

/// A major and minor version of OpenShift, without patch and pre-release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Minor {
    major: u64,
    minor: u64,
}

impl Minor {
    /// Returns the minor version that a version belongs to.
    pub fn of(version: &Version) -> Self {
        Self {
            major: version.major,
            minor: version.minor,
        }
    }

    /// Returns the canonical form of two equivalent versions.
    #[must_use]
    pub fn normalised(self) -> Self {
        if self == LAST_OF_FOUR { FIRST_OF_FIVE } else { self }
    }

    /// Returns the minor version that follows.
    #[must_use]
    pub fn next(self) -> Self {
        let Self { major, minor } = self.normalised();
        Self {
            major,
            minor: minor.saturating_add(1),
        }
    }

    /// True when an operator that supports versions up to this one supports the minor version after `current`.
    pub fn allows_after(self, current: Self) -> bool {
        self.normalised() >= current.next()
    }
}

impl fmt::Display for Minor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
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
