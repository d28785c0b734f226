//! Objects as JSON, and minimal patches between them.

use kube::Resource;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{Action, Guard, Identity, Target};

/// Returns the JSON form of an API object.
///
/// Types of `k8s-openapi` and `olm-api` always serialize. A failure means that the value is not an API object; it yields `null`, which
/// every API server refuses.
pub fn to_value(object: &impl Serialize) -> Value {
    serde_json::to_value(object).unwrap_or(Value::Null)
}

/// Returns the smallest merge patch on `/status` that turns `old` into `new`; `None` if they are equal.
///
/// Lists are replaced completely. The patch contains the uid, so it never changes an object of the same name created after `old` was
/// read.
pub fn status_patch(
    target: Target,
    uid: Option<&str>,
    old: &impl Serialize,
    new: &impl Serialize,
) -> Option<Action> {
    let difference = merge_patch(&to_value(old), &to_value(new))?;
    Some(Action::Patch {
        target,
        patch: json!({ "status": difference }),
        subresource: Some("status"),
        guard: Guard::of_uid(uid.map(str::to_owned)),
        identity: Identity::Operator,
    })
}

/// Returns the [`status_patch`] of an object that was read.
pub fn status_of<K: Resource<DynamicType = ()>>(
    object: &K,
    old: &impl Serialize,
    new: &impl Serialize,
) -> Option<Action> {
    let uid = object.meta().uid.as_deref();
    status_patch(Target::of_object(object), uid, old, new)
}

/// Returns the JSON merge patch (RFC 7386) from `old` to `new`; `None` if they are equal.
pub fn merge_patch(old: &Value, new: &Value) -> Option<Value> {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let mut patch = Map::new();
            for key in old.keys().filter(|key| new.get(*key).is_none_or(Value::is_null)) {
                if !old[key].is_null() {
                    patch.insert(key.clone(), Value::Null);
                }
            }
            for (key, value) in new.iter().filter(|(_, value)| !value.is_null()) {
                let before = old.get(key).unwrap_or(&Value::Null);
                if let Some(difference) = merge_patch(before, value) {
                    patch.insert(key.clone(), difference);
                }
            }
            (!patch.is_empty()).then_some(Value::Object(patch))
        }
        (_, Value::Object(new)) => Some(without_nulls(new)),
        _ => (old != new).then(|| new.clone()),
    }
}

/// Returns an object as a merge patch onto nothing, without nulls, which would mean "remove".
fn without_nulls(object: &Map<String, Value>) -> Value {
    let kept = object
        .iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(key, value)| {
            let value = match value {
                Value::Object(inner) => without_nulls(inner),
                other => other.clone(),
            };
            (key.clone(), value)
        });
    Value::Object(kept.collect())
}
