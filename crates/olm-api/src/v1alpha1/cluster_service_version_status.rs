//! Status of a ClusterServiceVersion: phase, history, requirements.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Extra;
use crate::decode::or_default;
use crate::open_enum::open_enum;
use crate::sparse::List;

open_enum! {
    /// Phase of a ClusterServiceVersion.
    pub enum ClusterServiceVersionPhase {
        /// Not processed yet.
        None = "",
        /// Requirements are being checked.
        Pending = "Pending",
        /// Requirements are met.
        InstallReady = "InstallReady",
        /// Components are installed but not all are healthy yet.
        Installing = "Installing",
        /// All components are healthy.
        Succeeded = "Succeeded",
        /// The install failed, or a component is no longer healthy.
        Failed = "Failed",
        /// The phase is unknown.
        Unknown = "Unknown",
        /// A successor is being installed.
        Replacing = "Replacing",
        /// The successor has succeeded; this object is deleted.
        Deleting = "Deleting",
    }
}

/// How far the install of an operator is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterServiceVersionStatus {
    /// Where the install stands.
    #[serde(
        skip_serializing_if = "ClusterServiceVersionPhase::is_unset",
        deserialize_with = "or_default"
    )]
    pub phase: ClusterServiceVersionPhase,
    /// Why the object is in this phase, in one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why the object is in this phase, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When this status was last set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
    /// When the phase last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// The last twenty phases and reasons, oldest first.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub conditions: List<ClusterServiceVersionCondition>,
    /// What the operator requires, and whether it is there.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub requirement_status: List<RequirementStatus>,
    /// When serving certificates were last issued.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certs_last_updated: Option<Time>,
    /// When serving certificates will be replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certs_rotate_at: Option<Time>,
    /// What is left to remove before the operator goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cleanup: Option<CleanupStatus>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// One step of the history of an install.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterServiceVersionCondition {
    /// Where the install stood.
    #[serde(
        skip_serializing_if = "ClusterServiceVersionPhase::is_unset",
        deserialize_with = "or_default"
    )]
    pub phase: ClusterServiceVersionPhase,
    /// Why, in one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When the status was set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
    /// When the phase had last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// One requirement and whether it is met.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RequirementStatus {
    /// Group of the required object, empty for the core group.
    #[serde(deserialize_with = "or_default")]
    pub group: String,
    /// Version of the required object's API.
    #[serde(deserialize_with = "or_default")]
    pub version: String,
    /// Kind of the required object.
    #[serde(deserialize_with = "or_default")]
    pub kind: String,
    /// Name of the required object.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// Present, NotPresent, PresentNotSatisfied or PresentNotAvailable; for an owned aggregated API also DeploymentFound
    /// or DeploymentNotFound.
    #[serde(deserialize_with = "or_default")]
    pub status: String,
    /// What was found.
    #[serde(deserialize_with = "or_default")]
    pub message: String,
    /// Uid of the object that was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// What the requirement consists of, for example the rules a ServiceAccount must have.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub dependents: List<DependentStatus>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// Part of a requirement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DependentStatus {
    /// Group of the part.
    #[serde(deserialize_with = "or_default")]
    pub group: String,
    /// Version of the part.
    #[serde(deserialize_with = "or_default")]
    pub version: String,
    /// Kind of the part.
    #[serde(deserialize_with = "or_default")]
    pub kind: String,
    /// Satisfied or NotSatisfied.
    #[serde(deserialize_with = "or_default")]
    pub status: String,
    /// Uid of the object that was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// What was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// What is left to remove.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CleanupStatus {
    /// Custom resources that have been deleted and are not gone yet, by kind.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub pending_deletion: List<ResourceList>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// Objects of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceList {
    /// Group of the kind.
    #[serde(deserialize_with = "or_default")]
    pub group: String,
    /// The kind.
    #[serde(deserialize_with = "or_default")]
    pub kind: String,
    /// The objects.
    #[serde(deserialize_with = "or_default")]
    pub instances: Vec<ResourceInstance>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// One object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceInstance {
    /// Name of the object.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// Namespace of the object, absent for a cluster-wide one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}
