//! Status of a ClusterServiceVersion: phase, history, requirements.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::api_type::api_type;
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

api_type! {
    /// How far the install of an operator is.
    pub struct ClusterServiceVersionStatus {
        /// Where the install stands.
        #[serde(skip_serializing_if = "ClusterServiceVersionPhase::is_unset")]
        pub phase: ClusterServiceVersionPhase,
        /// Why the object is in this phase, in one word.
        pub reason: Option<String>,
        /// Why the object is in this phase, for people.
        pub message: Option<String>,
        /// When this status was last set.
        pub last_update_time: Option<Time>,
        /// When the phase last changed.
        pub last_transition_time: Option<Time>,
        /// The last twenty phases and reasons, oldest first.
        pub conditions: List<ClusterServiceVersionCondition>,
        /// What the operator requires, and whether it is there.
        pub requirement_status: List<RequirementStatus>,
        /// When serving certificates were last issued.
        pub certs_last_updated: Option<Time>,
        /// When serving certificates will be replaced.
        pub certs_rotate_at: Option<Time>,
        /// What is left to remove before the operator goes.
        pub cleanup: Option<CleanupStatus>,
    }
}

api_type! {
    /// One step of the history of an install.
    pub struct ClusterServiceVersionCondition {
        /// Where the install stood.
        #[serde(skip_serializing_if = "ClusterServiceVersionPhase::is_unset")]
        pub phase: ClusterServiceVersionPhase,
        /// Why, in one word.
        pub reason: Option<String>,
        /// Why, for people.
        pub message: Option<String>,
        /// When the status was set.
        pub last_update_time: Option<Time>,
        /// When the phase had last changed.
        pub last_transition_time: Option<Time>,
    }
}

api_type! {
    /// One requirement and whether it is met.
    pub struct RequirementStatus {
        /// Group of the required object, empty for the core group.
        pub group: String,
        /// Version of the required object's API.
        pub version: String,
        /// Kind of the required object.
        pub kind: String,
        /// Name of the required object.
        pub name: String,
        /// Present, NotPresent, PresentNotSatisfied or PresentNotAvailable; for an owned aggregated API also DeploymentFound
        /// or DeploymentNotFound.
        pub status: String,
        /// What was found.
        pub message: String,
        /// Uid of the object that was found.
        pub uuid: Option<String>,
        /// What the requirement consists of, for example the rules a ServiceAccount must have.
        pub dependents: List<DependentStatus>,
    }
}

api_type! {
    /// Part of a requirement.
    pub struct DependentStatus {
        /// Group of the part.
        pub group: String,
        /// Version of the part.
        pub version: String,
        /// Kind of the part.
        pub kind: String,
        /// Satisfied or NotSatisfied.
        pub status: String,
        /// Uid of the object that was found.
        pub uuid: Option<String>,
        /// What was found.
        pub message: Option<String>,
    }
}

api_type! {
    /// What is left to remove.
    pub struct CleanupStatus {
        /// Custom resources that have been deleted and are not gone yet, by kind.
        pub pending_deletion: List<ResourceList>,
    }
}

api_type! {
    /// Objects of one kind.
    pub struct ResourceList {
        /// Group of the kind.
        pub group: String,
        /// The kind.
        pub kind: String,
        /// The objects.
        pub instances: Vec<ResourceInstance>,
    }
}

api_type! {
    /// One object.
    pub struct ResourceInstance {
        /// Name of the object.
        pub name: String,
        /// Namespace of the object, absent for a cluster-wide one.
        pub namespace: Option<String>,
    }
}
