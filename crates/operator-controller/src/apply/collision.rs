//! Decides whether an object that exists may be changed. No I/O.
//!
//! Source of the rules: `ObjectEngine` of upstream's library `boxcutter`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use olm_api::extension_v1::{ClusterObjectSetSpec, CollisionProtection, ObjectSetObject, ObjectSetPhase};
use olm_api::labels;
use serde_json::Value;

use super::object::{ObjectId, is_definition, owners, revision_of};

/// The revision that wants an object, and the others of the same extension.
#[derive(Debug, Clone, Copy)]
pub(super) struct Claimant<'a> {
    /// Uid of the ClusterObjectSet.
    pub(super) uid: &'a str,
    /// Number of the revision.
    pub(super) number: i64,
    /// Uids of the other active revisions.
    pub(super) siblings: &'a [&'a str],
    /// Name of the extension; empty if there is none.
    pub(super) extension: &'a str,
}

/// Treatment of an object that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Treatment {
    /// The revision controls it.
    Keep,
    /// The revision takes control of it.
    Adopt,
    /// A newer revision controls it. That is as good as done.
    Leave,
    /// It must not be changed.
    Refuse,
}

/// Returns the treatment of `object`, as it is in the cluster.
pub(super) fn treatment(
    claimant: &Claimant<'_>,
    protection: &CollisionProtection,
    id: &ObjectId,
    object: &Value,
) -> Treatment {
    let Some(controller) = controller(object) else {
        if is_definition(id) && left_by(object) == Some(claimant.extension) {
            return Treatment::Adopt;
        }
        // The garbage collector may be about to delete an object that lost its revision as the controller.
        let was_ours = object["metadata"]["annotations"][labels::REVISION].is_string();
        let is_protected = is_prevented(protection) || was_ours;
        return if is_protected {
            Treatment::Refuse
        } else {
            Treatment::Adopt
        };
    };
    if controller.uid == claimant.uid {
        return Treatment::Keep;
    }
    if claimant.siblings.contains(&controller.uid.as_str()) {
        let revision = revision_of(object);
        return match revision.cmp(&claimant.number) {
            std::cmp::Ordering::Less => Treatment::Adopt,
            std::cmp::Ordering::Greater => Treatment::Leave,
            // Two revisions with one number.
            std::cmp::Ordering::Equal => Treatment::Refuse,
        };
    }
    if *protection == CollisionProtection::None {
        Treatment::Adopt
    } else {
        Treatment::Refuse
    }
}

/// Returns the name of the extension that left an object without a controller, as it does with definitions that have custom resources.
/// Nothing deletes it, and the extension of this name is to have it again when it is installed again. `None` if no extension left it.
fn left_by(object: &Value) -> Option<&str> {
    let metadata = &object["metadata"];
    let extension = metadata["labels"][labels::EXTENSION_OWNER_NAME].as_str();
    extension.filter(|name| !name.is_empty() && metadata["annotations"][labels::REVISION].is_string())
}

/// Unknown words protect as the strictest one.
fn is_prevented(protection: &CollisionProtection) -> bool {
    !matches!(
        protection,
        CollisionProtection::IfNoController | CollisionProtection::None
    )
}

/// Returns the controller of an object.
pub(super) fn controller(object: &Value) -> Option<OwnerReference> {
    owners(object)
        .into_iter()
        .find(|owner| owner.controller == Some(true))
}

/// Returns the protection of an object: its own, else that of its phase, else that of the revision.
pub(super) fn protection_of(
    spec: &ClusterObjectSetSpec,
    phase: &ObjectSetPhase,
    object: &ObjectSetObject,
) -> CollisionProtection {
    let own = object
        .collision_protection
        .as_ref()
        .filter(|word| !word.is_unset());
    let of_phase = phase
        .collision_protection
        .as_ref()
        .filter(|word| !word.is_unset());
    own.or(of_phase).unwrap_or(&spec.collision_protection).clone()
}

/// Returns the text about an object that must not be changed. `probed` are the lines of its probes, `object` is as in the cluster.
/// Upstream's text also lists the fields of other managers. If another extension left the object, the text ends with the command that
/// hands it over to this `extension`.
pub(super) fn collision_text(extension: &str, id: &ObjectId, probed: &str, object: Option<&Value>) -> String {
    let controller = object.and_then(controller);
    let owner = controller
        .as_ref()
        .map_or_else(|| "nil".to_owned(), reference_text);
    let left = object.filter(|_| controller.is_none() && is_definition(id) && !extension.is_empty());
    let left = left.and_then(|object| left_by(object).map(|other| left_text(extension, &id.name, other)));
    format!(
        "{}\nAction: \"Collision\"\n{probed}Conflicting Owner: {owner}{}\n",
        id.title(),
        left.unwrap_or_default()
    )
}

/// Returns the text about a definition that the extension `other` left.
fn left_text(extension: &str, definition: &str, other: &str) -> String {
    format!(
        "; left by ClusterExtension {other}; to take it over: kubectl label crd {definition} {}={extension} --overwrite",
        labels::EXTENSION_OWNER_NAME
    )
}

/// Returns an owner reference as Go prints it.
fn reference_text(owner: &OwnerReference) -> String {
    let flag = |flag: Option<bool>| flag.map_or_else(|| "nil".to_owned(), |flag| format!("*{flag}"));
    format!(
        "&OwnerReference{{Kind:{},Name:{},UID:{},APIVersion:{},Controller:{},BlockOwnerDeletion:{},}}",
        owner.kind,
        owner.name,
        owner.uid,
        owner.api_version,
        flag(owner.controller),
        flag(owner.block_owner_deletion)
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// One row per situation: controller (`""` for none), revision on the object, and the treatment under Prevent, IfNoController, None.
    #[test]
    fn treatment_depends_on_the_controller_the_revision_and_the_protection() {
        let claimant = Claimant {
            uid: "own",
            number: 2,
            siblings: &["sibling"],
            extension: "e",
        };
        let rows = [
            ("own", "2", ["keep", "keep", "keep"]),
            ("own", "", ["keep", "keep", "keep"]),
            ("sibling", "1", ["adopt", "adopt", "adopt"]),
            ("sibling", "", ["adopt", "adopt", "adopt"]),
            ("sibling", "3", ["leave", "leave", "leave"]),
            ("sibling", "2", ["refuse", "refuse", "refuse"]),
            ("other", "", ["refuse", "refuse", "adopt"]),
            ("", "", ["refuse", "adopt", "adopt"]),
            ("", "1", ["refuse", "refuse", "refuse"]),
        ];
        let protections = [
            CollisionProtection::Prevent,
            CollisionProtection::IfNoController,
            CollisionProtection::None,
        ];
        for (controller, revision, expected) in rows {
            let mut object = json!({"metadata": {"ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": "user", "uid": "user"},
            ]}});
            if !controller.is_empty() {
                let owner = json!({"apiVersion": "a/v1", "kind": "A", "name": "a", "uid": controller, "controller": true});
                let user = object["metadata"]["ownerReferences"][0].clone();
                object["metadata"]["ownerReferences"] = json!([user, owner]);
            }
            if !revision.is_empty() {
                object["metadata"]["annotations"] = json!({labels::REVISION: revision});
            }
            let texts = protections.each_ref().map(|protection| {
                match treatment(&claimant, protection, &ObjectId::default(), &object) {
                    Treatment::Keep => "keep",
                    Treatment::Adopt => "adopt",
                    Treatment::Leave => "leave",
                    Treatment::Refuse => "refuse",
                }
            });
            assert_eq!(texts, expected, "{controller} {revision}");
        }
    }

    /// One row per object: kind, extension in the label, revision in the annotation, and whether the extension `e` takes it.
    #[test]
    fn a_definition_that_was_left_is_taken_again_by_the_extension_of_its_name() {
        for (kind, extension, revision, is_adopted) in [
            ("CustomResourceDefinition", "e", json!("7"), true),
            ("CustomResourceDefinition", "other", json!("7"), false),
            ("CustomResourceDefinition", "e", json!(null), false),
            ("ClusterRole", "e", json!("7"), false),
        ] {
            let object = json!({
                "apiVersion": if kind == "ClusterRole" { "rbac.authorization.k8s.io/v1" } else { "apiextensions.k8s.io/v1" },
                "kind": kind,
                "metadata": {
                    "name": "a", "labels": {labels::EXTENSION_OWNER_NAME: extension}, "annotations": {labels::REVISION: revision},
                },
            });
            let claimant = Claimant {
                uid: "own",
                number: 1,
                siblings: &[],
                extension: "e",
            };
            let found = treatment(
                &claimant,
                &CollisionProtection::Prevent,
                &ObjectId::of(&object),
                &object,
            );
            assert_eq!(found == Treatment::Adopt, is_adopted, "{object}");
        }
    }

    #[test]
    fn an_object_overrides_its_phase_and_the_phase_the_revision() {
        let spec = ClusterObjectSetSpec {
            collision_protection: CollisionProtection::Prevent,
            ..ClusterObjectSetSpec::default()
        };
        let (adopts, takes) = (CollisionProtection::IfNoController, CollisionProtection::None);
        let rows = [
            (None, None, CollisionProtection::Prevent),
            (Some(adopts.clone()), None, adopts.clone()),
            (Some(adopts), Some(takes.clone()), takes),
        ];
        for (of_phase, own, expected) in rows {
            let phase = ObjectSetPhase {
                collision_protection: of_phase,
                ..ObjectSetPhase::default()
            };
            let object = ObjectSetObject {
                collision_protection: own,
                ..ObjectSetObject::default()
            };
            assert_eq!(protection_of(&spec, &phase, &object), expected);
        }
    }

    #[test]
    fn the_text_names_the_controller_as_upstream_does() {
        let id = ObjectId {
            version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            namespace: "ns".to_owned(),
            name: "a".to_owned(),
            ..ObjectId::default()
        };
        let owner = OwnerReference {
            api_version: "apps/v1".to_owned(),
            kind: "ReplicaSet".to_owned(),
            name: "r".to_owned(),
            uid: "u".to_owned(),
            controller: Some(true),
            block_owner_deletion: None,
        };
        let object = json!({"metadata": {"ownerReferences": [owner]}});
        assert_eq!(
            collision_text("e", &id, "", Some(&object)),
            "Object ConfigMap.v1 ns/a\nAction: \"Collision\"\nConflicting Owner: \
             &OwnerReference{Kind:ReplicaSet,Name:r,UID:u,APIVersion:apps/v1,Controller:*true,BlockOwnerDeletion:nil,}\n"
        );
        assert_eq!(
            collision_text("e", &id, "", None),
            "Object ConfigMap.v1 ns/a\nAction: \"Collision\"\nConflicting Owner: nil\n"
        );
    }

    /// One row per object without a controller: kind, extension in the label, revision in the annotation, extension that wants it, and
    /// what the text adds.
    #[test]
    fn the_text_says_how_a_definition_of_another_extension_is_taken_over() {
        let command = "; left by ClusterExtension old; to take it over: kubectl label crd demos.example.com \
             olm.operatorframework.io/owner-name=new --overwrite";
        let crd = "CustomResourceDefinition";
        for (kind, old, revision, extension, expected) in [
            (crd, json!("old"), json!("3"), "new", command),
            (crd, json!("old"), json!("3"), "", ""),
            (crd, json!("old"), json!(null), "new", ""),
            (crd, json!(null), json!("3"), "new", ""),
            ("Other", json!("old"), json!("3"), "new", ""),
        ] {
            let object = json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": kind,
                "metadata": {
                    "name": "demos.example.com", "labels": {labels::EXTENSION_OWNER_NAME: old},
                    "annotations": {labels::REVISION: revision},
                },
            });
            let text = collision_text(extension, &ObjectId::of(&object), "", Some(&object));
            let end = format!("\nConflicting Owner: nil{expected}\n");
            assert!(text.ends_with(&end), "{text}");
        }
    }
}
