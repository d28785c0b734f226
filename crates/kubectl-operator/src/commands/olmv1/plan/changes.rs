//! Compares the objects of a bundle with those of a revision. Values are compared, and only the names of fields are shown. Pure.

use std::collections::{BTreeMap, BTreeSet};

use olm_api::labels;
use olm_api::plan_preview::{
    ImageChange, ObjectChange, PermissionChange, PlanPreview, Verb, Workload, image_changes,
};
use olm_api::rights::{self, Targets};
use operator_controller::apply::object::ObjectId;
use operator_controller::render::Endpoint;
use serde::Serialize;
use serde_json::Value;

use crate::preview;

/// Number of names in the path of a field.
const DEPTH: usize = 3;
/// Kinds that give rights.
const RBAC: [&str; 4] = ["Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"];

/// What a new revision changes.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::commands::olmv1) struct Changes {
    /// The ClusterObjectSet that the bundle is compared with; `None` if nothing is installed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub against: Option<String>,
    /// Objects that are created, changed or deleted.
    pub objects: Vec<ObjectChange>,
    /// Rules that accounts gain or lose.
    pub permissions: Vec<PermissionChange>,
    /// Images of containers that change.
    pub images: Vec<ImageChange>,
}

impl Changes {
    /// Returns a line for each change: what is lost first. Roles and bindings are left out. They have another name in each version,
    /// and the permissions say what they give.
    pub(super) fn lines(&self) -> Vec<String> {
        let is_told = |change: &&ObjectChange| !RBAC.contains(&change.kind.as_str());
        let preview = PlanPreview {
            objects: self.objects.iter().filter(is_told).cloned().collect(),
            permissions: self.permissions.clone(),
            ..PlanPreview::default()
        };
        let mut lines = preview::changes(&preview);
        lines.extend(self.images.iter().map(preview::image_line));
        lines
    }
}

/// Compares the objects of a revision with those of a bundle that is installed in `namespace`. Contents of certificates, which OLM
/// issues for the `endpoints`, do not count, nor does the version that each object has as an annotation. Also returns what is unknown.
pub(super) fn compare(
    old: &[Value],
    new: &[Value],
    namespace: &str,
    endpoints: &[Endpoint],
) -> (Changes, Vec<String>) {
    let (permissions, unknown) = permissions(old, new, namespace);
    let changes = Changes {
        against: None,
        objects: objects(old, new, endpoints),
        permissions,
        images: image_changes(old.iter().map(workload), new.iter().map(workload)),
    };
    (changes, unknown)
}

/// Returns the identity of an object. An object in another version of its API is the same.
fn identity(object: &Value) -> ObjectId {
    ObjectId {
        version: String::new(),
        ..ObjectId::of(object)
    }
}

fn objects(old: &[Value], new: &[Value], endpoints: &[Endpoint]) -> Vec<ObjectChange> {
    let by_id = |objects: &[Value]| -> BTreeMap<ObjectId, Value> {
        let objects = objects.iter();
        objects
            .map(|object| (identity(object), comparable(object, endpoints)))
            .collect()
    };
    let (old, new) = (by_id(old), by_id(new));
    let ids: BTreeSet<&ObjectId> = old.keys().chain(new.keys()).collect();
    let change = |id: &ObjectId| {
        let (verb, fields) = match (old.get(id), new.get(id)) {
            (Some(old), Some(new)) => {
                let mut fields = BTreeSet::new();
                add_fields(old, new, "", DEPTH, &mut fields);
                if fields.is_empty() {
                    return None;
                }
                (Verb::Change, fields)
            }
            (Some(_), None) => (Verb::Delete, BTreeSet::new()),
            (None, _) => (Verb::Create, BTreeSet::new()),
        };
        Some(ObjectChange {
            verb,
            kind: id.kind.clone(),
            name: id.name.clone(),
            namespace: id.namespace.clone(),
            fields: fields.into_iter().collect(),
            ..ObjectChange::default()
        })
    };
    ids.into_iter().filter_map(change).collect()
}

/// Returns an object without what differs in each revision.
fn comparable(object: &Value, endpoints: &[Endpoint]) -> Value {
    let mut object = object.clone();
    for (pointer, key) in [
        ("/metadata/annotations", labels::EXTENSION_BUNDLE_VERSION),
        ("/spec/template/metadata/annotations", labels::CA_HASH),
    ] {
        if let Some(annotations) = object.pointer_mut(pointer).and_then(Value::as_object_mut) {
            annotations.remove(key);
        }
    }
    let id = ObjectId::of(&object);
    let is_certificate = |endpoint: &Endpoint| {
        id.kind == "Secret" && id.name == endpoint.secret && id.namespace == endpoint.namespace
    };
    if endpoints.iter().any(is_certificate)
        && let Some(fields) = object.as_object_mut()
    {
        fields.remove("data");
    }
    let webhooks = object.get_mut("webhooks").and_then(Value::as_array_mut);
    for webhook in webhooks.into_iter().flatten() {
        remove_ca(webhook.get_mut("clientConfig"));
    }
    remove_ca(object.pointer_mut("/spec/conversion/webhook/clientConfig"));
    object
}

fn remove_ca(client_config: Option<&mut Value>) {
    if let Some(config) = client_config.and_then(Value::as_object_mut) {
        config.remove("caBundle");
    }
}

/// Adds the paths of the fields that differ, of at most `depth` more names each.
pub(in crate::commands::olmv1) fn add_fields(
    old: &Value,
    new: &Value,
    path: &str,
    depth: usize,
    fields: &mut BTreeSet<String>,
) {
    match (old, new) {
        _ if old == new => {}
        (Value::Object(before), Value::Object(after)) if depth > 0 => {
            let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
            for name in names {
                let (old, new) = (&old[name.as_str()], &new[name.as_str()]);
                let dot = if path.is_empty() { "" } else { "." };
                add_fields(old, new, &format!("{path}{dot}{name}"), depth - 1, fields);
            }
        }
        _ => {
            fields.insert(path.to_owned());
        }
    }
}

/// Returns what accounts gain and lose, in the whole cluster and in each namespace with Roles.
fn permissions(old: &[Value], new: &[Value], own: &str) -> (Vec<PermissionChange>, Vec<String>) {
    let is_rbac = |object: &&Value| RBAC.contains(&object["kind"].as_str().unwrap_or_default());
    let place = |object: &Value| {
        object["metadata"]["namespace"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let rbac = || old.iter().chain(new).filter(is_rbac);
    let mut places: BTreeSet<String> = rbac().map(place).filter(|place| !place.is_empty()).collect();
    places.insert(own.to_owned());
    let (mut changes, mut unknown) = (Vec::new(), Vec::new());
    for namespace in &places {
        let of = |objects: &[Value]| -> Vec<Value> {
            let found = objects.iter().filter(is_rbac).filter(|object| {
                let place = place(object);
                place.is_empty() || place == *namespace
            });
            found.cloned().collect()
        };
        let targets = Targets::Named(Vec::new());
        let (found, trouble) = rights::changes(&of(old), &of(new), namespace, &targets);
        // Cluster-wide rights are listed once.
        let is_told = |change: &PermissionChange| namespace == own || !change.namespace.is_empty();
        changes.extend(found.into_iter().filter(is_told));
        unknown.extend(trouble);
    }
    unknown.dedup();
    (changes, unknown)
}

/// Returns an object for the comparison of images.
fn workload(object: &Value) -> Workload<'_> {
    let kind = object["kind"].as_str().unwrap_or_default();
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    (kind, name, object)
}
