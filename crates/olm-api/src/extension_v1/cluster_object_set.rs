//! ClusterObjectSet: the objects of one revision of a ClusterExtension. Called ClusterExtensionRevision in older versions of OLM v1.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use serde_json::Value;

use crate::api_type::{api_kind, api_type};
use crate::open_enum::open_enum;
use crate::sparse::List;

open_enum! {
    /// Whether the objects of a revision are kept.
    pub enum LifecycleState {
        /// They are applied and kept.
        Active = "Active",
        /// Those that no other revision has are deleted. There is no way back.
        Archived = "Archived",
    }
}

open_enum! {
    /// What happens to an object that exists already.
    pub enum CollisionProtection {
        /// Only objects that the revision has created are changed.
        Prevent = "Prevent",
        /// Objects without a controller are adopted.
        IfNoController = "IfNoController",
        /// Every object is adopted, also from another controller.
        None = "None",
    }
}

open_enum! {
    /// How a probe selects objects.
    pub enum ProbeSelectorType {
        /// By group and kind.
        GroupKind = "GroupKind",
        /// By labels.
        Label = "Label",
    }
}

open_enum! {
    /// What a probe compares.
    pub enum AssertionType {
        /// A condition with a status.
        ConditionEqual = "ConditionEqual",
        /// Two fields with each other.
        FieldsEqual = "FieldsEqual",
        /// A field with a value.
        FieldValue = "FieldValue",
    }
}

api_kind! {
    /// Objects of a revision, in the order they are applied.
    #[kube(
        group = "olm.operatorframework.io",
        version = "v1",
        kind = "ClusterObjectSet",
        plural = "clusterobjectsets",
        status = "ClusterObjectSetStatus",
        doc = "The objects of one revision of a ClusterExtension, applied phase by phase."
    )]
    pub struct ClusterObjectSetSpec {
        /// Active applies the objects and keeps them. Archived deletes those that no other revision has.
        pub lifecycle_state: LifecycleState,
        /// Number of the revision, from 1.
        pub revision: i64,
        /// Groups of objects. A phase is applied when all probes of the phase before pass.
        pub phases: List<ObjectSetPhase>,
        /// What happens to objects that exist already; phases and objects may say otherwise.
        pub collision_protection: CollisionProtection,
        /// Minutes after which a rollout counts as failed. Without it there is no limit.
        pub progress_deadline_minutes: Option<i32>,
        /// Checks that objects of a phase must pass before the next phase is applied.
        pub progression_probes: List<ProgressionProbe>,
    }
}

api_type! {
    /// Objects that are applied together.
    pub struct ObjectSetPhase {
        /// Name of the phase, unique in the revision.
        pub name: String,
        /// Objects of the phase.
        pub objects: Vec<ObjectSetObject>,
        /// What happens to objects that exist already.
        pub collision_protection: Option<CollisionProtection>,
    }
}

api_type! {
    /// An object, written here or in a Secret.
    pub struct ObjectSetObject {
        /// The object.
        pub object: Option<Value>,
        /// Place of the object in a Secret.
        #[serde(rename = "ref")]
        pub reference: Option<ObjectSourceReference>,
        /// What happens if the object exists already.
        pub collision_protection: Option<CollisionProtection>,
    }
}

api_type! {
    /// A key of a Secret whose value is an object as JSON.
    pub struct ObjectSourceReference {
        /// Name of the Secret.
        pub name: String,
        /// Namespace of the Secret; without it that of the controller.
        pub namespace: Option<String>,
        /// Key of the object.
        pub key: String,
    }
}

api_type! {
    /// A check of some objects.
    pub struct ProgressionProbe {
        /// Objects that are checked.
        pub selector: ProbeSelector,
        /// What must hold for each of them.
        pub assertions: Vec<Assertion>,
    }
}

api_type! {
    /// Selects the objects of a probe.
    pub struct ProbeSelector {
        /// Type of the selector.
        #[serde(rename = "type")]
        pub type_: ProbeSelectorType,
        /// Group and kind, for the type GroupKind.
        pub group_kind: Option<ProbeGroupKind>,
        /// Labels, for the type Label.
        pub label: Option<LabelSelector>,
    }
}

api_type! {
    /// A kind in any version.
    pub struct ProbeGroupKind {
        /// Group; empty for the core group.
        pub group: String,
        /// Kind.
        pub kind: String,
    }
}

api_type! {
    /// One comparison of a probe.
    pub struct Assertion {
        /// Type of the comparison.
        #[serde(rename = "type")]
        pub type_: AssertionType,
        /// For the type ConditionEqual.
        pub condition_equal: Option<ConditionEqual>,
        /// For the type FieldsEqual.
        pub fields_equal: Option<FieldsEqual>,
        /// For the type FieldValue.
        pub field_value: Option<FieldValue>,
    }
}

api_type! {
    /// A condition of the object has this status.
    pub struct ConditionEqual {
        /// Type of the condition.
        #[serde(rename = "type")]
        pub type_: String,
        /// Expected status.
        pub status: String,
    }
}

api_type! {
    /// Two fields of the object have the same value.
    pub struct FieldsEqual {
        /// Path of one field, for example `spec.replicas`.
        pub field_a: String,
        /// Path of the other field.
        pub field_b: String,
    }
}

api_type! {
    /// A field of the object has this value.
    pub struct FieldValue {
        /// Path of the field, for example `status.phase`.
        pub field_path: String,
        /// Expected value.
        pub value: String,
    }
}

api_type! {
    /// State of the revision.
    pub struct ClusterObjectSetStatus {
        /// Conditions Progressing, Available and Succeeded.
        pub conditions: List<Condition>,
        /// Digests of the phases as they were first applied, by which a changed Secret is noticed.
        pub observed_phases: List<ObservedPhase>,
    }
}

api_type! {
    /// Digest of a phase as it was first applied.
    pub struct ObservedPhase {
        /// Name of the phase.
        pub name: String,
        /// Digest of the objects, for example `sha256:` and hex digits.
        pub digest: String,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_field_is_read_and_written() {
        let object = json!({
            "apiVersion": crate::extension_v1::API_VERSION, "kind": "ClusterObjectSet", "metadata": {"name": "a-1"},
            "spec": {
                "lifecycleState": "Active", "revision": 1, "collisionProtection": "Prevent", "progressDeadlineMinutes": 10, "a": 1,
                "phases": [{
                    "name": "deploy", "collisionProtection": "None", "b": 1,
                    "objects": [
                        {"object": {"kind": "ConfigMap"}, "collisionProtection": "IfNoController", "c": 1},
                        {"ref": {"name": "s", "namespace": "olm", "key": "k", "d": 1}},
                    ],
                }],
                "progressionProbes": [
                    {
                        "selector": {"type": "GroupKind", "groupKind": {"group": "apps", "kind": "Deployment", "e": 1}, "f": 1},
                        "assertions": [
                            {"type": "ConditionEqual", "conditionEqual": {"type": "Available", "status": "True", "g": 1}, "h": 1},
                            {"type": "FieldsEqual", "fieldsEqual": {"fieldA": "spec.a", "fieldB": "status.a", "i": 1}},
                            {"type": "FieldValue", "fieldValue": {"fieldPath": "status.phase", "value": "Bound", "j": 1}},
                        ],
                        "k": 1,
                    },
                    {"selector": {"type": "Label", "label": {"matchLabels": {"a": "b"}}}, "assertions": []},
                ],
            },
            "status": {
                "conditions": [], "l": 1,
                "observedPhases": [{"name": "deploy", "digest": "sha256:00", "m": 1}],
            },
        });
        let set: ClusterObjectSet = serde_json::from_value(object.clone()).unwrap();
        assert_eq!(set.spec.lifecycle_state, LifecycleState::Active);
        assert_eq!(set.spec.collision_protection, CollisionProtection::Prevent);
        assert_eq!(set.spec.phases[0].objects.len(), 2);
        assert_eq!(set.spec.extra.keys().collect::<Vec<_>>(), ["a"]);
        assert_eq!(serde_json::to_value(&set).unwrap(), object);
    }
}
