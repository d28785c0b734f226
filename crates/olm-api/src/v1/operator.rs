//! Operator: all components of one package in one namespace.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};

use crate::api_type::{api_kind, api_type};
use crate::decode::absent_means_default;
use crate::sparse::List;

api_kind! {
    /// Nothing to be set.
    #[kube(
        group = "operators.coreos.com",
        version = "v1",
        kind = "Operator",
        plural = "operators",
        status = "OperatorStatus",
        doc = "All objects that belong to one package installed in one namespace. It is made and kept by the lifecycle manager."
    )]
    #[serde(remote = "Self")]
    pub struct OperatorSpec {}
}

absent_means_default!(OperatorSpec);

api_type! {
    /// What belongs to the operator.
    pub struct OperatorStatus {
        /// The objects, and how they are found.
        pub components: Option<Components>,
    }
}

api_type! {
    /// Objects that belong to an operator.
    pub struct Components {
        /// Labels by which the objects are found.
        pub label_selector: LabelSelector,
        /// The objects.
        pub refs: List<RichReference>,
    }
}

api_type! {
    /// An object and its conditions.
    pub struct RichReference {
        /// Group and version of the object.
        pub api_version: Option<String>,
        /// Kind of the object.
        pub kind: Option<String>,
        /// Name of the object.
        pub name: Option<String>,
        /// Namespace of the object, absent for a cluster-wide one.
        pub namespace: Option<String>,
        /// Uid of the object.
        pub uid: Option<String>,
        /// Version of the object.
        pub resource_version: Option<String>,
        /// Part of the object that is meant.
        pub field_path: Option<String>,
        /// Conditions of the object.
        pub conditions: List<ComponentCondition>,
    }
}

api_type! {
    /// One condition of a component.
    pub struct ComponentCondition {
        /// What it is about.
        #[serde(rename = "type")]
        pub type_: String,
        /// True, False or Unknown.
        pub status: String,
        /// Why, in one word.
        pub reason: Option<String>,
        /// Why, for people.
        pub message: Option<String>,
        /// When the condition was last written.
        pub last_update_time: Option<Time>,
        /// When its status last changed.
        pub last_transition_time: Option<Time>,
    }
}
