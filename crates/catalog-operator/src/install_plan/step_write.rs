//! From the object in the cluster and the object of a step to the write between them, if any.
//!
//! Upstream replaces what it finds, and with that removes other people's labels, annotations and pull secrets. Here a step only
//! changes what it speaks of, and writes nothing when nothing would change (decision record 0004).

use std::collections::BTreeSet;

use olm_api::{labels, permission};
use olm_runtime::plan::merge_patch;
use serde_json::{Map, Value};

use crate::object;
use crate::step_kind::StepKind;

/// Who wrote what is there in the name of a plan: this operator by patches, by what it once applied, and upstream's.
const OWN_MANAGERS: [&str; 3] = [
    labels::FIELD_MANAGER_PATCH,
    labels::FIELD_MANAGER_PLAN,
    labels::FIELD_MANAGER_UPSTREAM_CATALOG,
];
/// Fields whose keys are the author's own words.
pub(crate) const DATA: [&str; 2] = ["data", "binaryData"];
/// Fields that mean the same as no value where they have this one: the API server fills them in.
const DEFAULTS: [(&str, &str); 8] = [
    ("apiGroup", ""),
    ("apiGroup", permission::API_GROUP),
    ("internalTrafficPolicy", "Cluster"),
    ("namespace", ""),
    ("preemptionPolicy", "PreemptLowerPriority"),
    ("protocol", "TCP"),
    ("sessionAffinity", "None"),
    ("type", "ClusterIP"),
];

/// The write that a step needs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Write {
    /// The object is not there.
    Create(Value),
    /// It is there and differs: a merge patch, to be guarded by the resourceVersion it was computed from.
    Patch(Value),
    /// It is there and says all the step says.
    Nothing,
}

/// How a step's object, complete with labels and owners, gets into the cluster where `current` is found.
///
/// CustomResourceDefinitions have rules of their own, see [`super::crd_upgrade`].
pub(crate) fn write_for(kind: StepKind, current: Option<&Value>, wanted: Value) -> Write {
    let Some(current) = current else {
        return Write::Create(wanted);
    };
    let merged = match kind {
        // Created or left alone; what is defined changes by rules of its own.
        StepKind::ClusterServiceVersion
        | StepKind::Subscription
        | StepKind::Secret
        | StepKind::CustomResourceDefinition => return Write::Nothing,
        StepKind::Role | StepKind::ClusterRole => {
            merged_fields(current, &wanted, &["rules"], &["aggregationRule"])
        }
        StepKind::RoleBinding | StepKind::ClusterRoleBinding => {
            merged_fields(current, &wanted, &["subjects"], &["roleRef"])
        }
        StepKind::ConfigMap | StepKind::BundleSecret | StepKind::Dynamic => merged_keys(current, &wanted),
        StepKind::Service => merged_keys(current, &with_known_ports(current, wanted)),
        StepKind::ServiceAccount => merged_service_account(current, &wanted),
    };
    merge_patch(current, &merged).map_or(Write::Nothing, Write::Patch)
}

/// `current` with the metadata of `wanted` added and the keys of its fields (of `data`, of `spec`) as in `wanted`. Keys that
/// `wanted` does not have stay, unless an earlier plan wrote them: then they are the old bundle's, and go.
fn merged_keys(current: &Value, wanted: &Value) -> Value {
    let mut merged = with_metadata_of(current, wanted);
    for (field, key) in dropped_keys(current, wanted) {
        let Some(Value::Object(keys)) = merged.get_mut(field) else {
            continue;
        };
        keys.remove(key);
        let is_empty = keys.is_empty();
        if let (true, Value::Object(map)) = (is_empty, &mut merged) {
            map.remove(field);
        }
    }
    let Value::Object(map) = &mut merged else {
        return merged;
    };
    for (field, value) in contents(wanted) {
        match (map.get_mut(field), value) {
            (Some(Value::Object(found)), Value::Object(keys)) if DATA.contains(&field) => {
                found.extend(keys.clone());
            }
            (Some(Value::Object(found)), Value::Object(keys)) => {
                for (key, value) in keys {
                    set_unless_same(found, key, value);
                }
            }
            (None, value) if object::is_empty(value) => {}
            _ => set_unless_same(map, field, value),
        }
    }
    merged
}

/// The keys of fields of `current` that an earlier plan wrote and that `wanted` does not have: what is left of the old bundle. What
/// others wrote is theirs.
pub(crate) fn dropped_keys<'a>(current: &'a Value, wanted: &Value) -> BTreeSet<(&'a str, &'a str)> {
    let entries = current.pointer("/metadata/managedFields");
    let entries = entries.and_then(Value::as_array).into_iter().flatten();
    let text = |entry: &'a Value, field: &str| entry.get(field).and_then(Value::as_str).unwrap_or_default();
    let own = entries.filter(|entry| {
        OWN_MANAGERS.contains(&text(entry, "manager")) && text(entry, "subresource").is_empty()
    });
    let fields = own
        .filter_map(|entry| entry.get("fieldsV1")?.as_object())
        .flatten();
    let keys = fields.filter_map(|(field, keys)| Some((field.strip_prefix("f:")?, keys.as_object()?)));
    let keys = keys.flat_map(|(field, keys)| {
        keys.keys()
            .filter_map(move |key| Some((field, key.strip_prefix("f:")?)))
    });
    let is_dropped = |(field, key): &(&str, &str)| {
        let found = contents(current).find(|(name, _)| name == field);
        let value = found.and_then(|(_, keys)| keys.get(*key));
        let is_wanted = wanted.get(*field).is_some_and(|keys| keys.get(*key).is_some());
        !is_wanted && value.is_some_and(|value| DATA.contains(field) || !is_default(key, value))
    };
    keys.filter(is_dropped).collect()
}

/// The fields of an object, without those that identify it and its status.
fn contents(object: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let fields = object.as_object().into_iter().flatten();
    fields
        .map(|(field, value)| (field.as_str(), value))
        .filter(|(field, _)| !["apiVersion", "kind", "metadata", "status"].contains(field))
}

fn set_unless_same(map: &mut Map<String, Value>, field: &str, value: &Value) {
    let same = match map.get(field) {
        Some(found) => object::is_same(found, value, is_default),
        None => is_default(field, value),
    };
    if !same {
        map.insert(field.to_owned(), value.clone());
    }
}

fn is_default(field: &str, value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::String(text) => DEFAULTS.contains(&(field, text)),
        _ => value.is_null(),
    }
}

/// `current` with the metadata of `wanted` added, the `replaced` fields as in `wanted` (absent there means absent) and the
/// `set` fields as in `wanted` if it has them.
fn merged_fields(current: &Value, wanted: &Value, replaced: &[&str], set: &[&str]) -> Value {
    let mut merged = with_metadata_of(current, wanted);
    let Value::Object(map) = &mut merged else {
        return merged;
    };
    for field in replaced {
        match wanted.get(*field).filter(|value| !object::is_empty(value)) {
            Some(value) => set_unless_same(map, field, value),
            None => {
                map.remove(*field);
            }
        }
    }
    for field in set {
        if let Some(value) = wanted.get(*field) {
            set_unless_same(map, field, value);
        }
    }
    merged
}

/// Labels and annotations united, the step's winning; owner references united by uid.
pub(crate) fn with_metadata_of(current: &Value, wanted: &Value) -> Value {
    let mut merged = current.clone();
    for field in ["labels", "annotations"] {
        for (key, value) in object::metadata_entries(wanted, field) {
            object::metadata_map_mut(&mut merged, field).insert(key.to_owned(), value.into());
        }
    }
    let mut owners = object::owner_references(current).to_vec();
    let missing: Vec<_> = object::owner_references(wanted)
        .iter()
        .filter(|wanted| !owners.iter().any(|owner| owner.get("uid") == wanted.get("uid")))
        .cloned()
        .collect();
    if !missing.is_empty() {
        owners.extend(missing);
        object::map_mut(&mut merged, "metadata").insert("ownerReferences".to_owned(), owners.into());
    }
    merged
}

/// Fields that identify a port of a Service.
fn port_key(port: &Value) -> (Option<u64>, &str) {
    let protocol = port.get("protocol").and_then(Value::as_str).unwrap_or("TCP");
    (port.get("port").and_then(Value::as_u64), protocol)
}

fn ports(service: &Value) -> &[Value] {
    let ports = service.pointer("/spec/ports").and_then(Value::as_array);
    ports.map_or(&[], Vec::as_slice)
}

/// The Service with what the API server added to ports that it has already.
fn with_known_ports(current: &Value, mut wanted: Value) -> Value {
    let list = wanted.pointer_mut("/spec/ports").and_then(Value::as_array_mut);
    for port in list.into_iter().flatten() {
        let known = ports(current)
            .iter()
            .find(|known| port_key(known) == port_key(port));
        if let (Some(Value::Object(known)), Value::Object(port)) = (known, port) {
            for (field, value) in known {
                port.entry(field.clone()).or_insert_with(|| value.clone());
            }
        }
    }
    wanted
}

/// A ServiceAccount belongs to its users too: nothing that they or the cluster added is removed.
fn merged_service_account(current: &Value, wanted: &Value) -> Value {
    let mut merged = merged_fields(current, wanted, &[], &["automountServiceAccountToken"]);
    for field in ["secrets", "imagePullSecrets"] {
        let mut entries = current
            .get(field)
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        let before = entries.len();
        for entry in wanted.get(field).and_then(Value::as_array).into_iter().flatten() {
            if !entries
                .iter()
                .any(|present| present.get("name") == entry.get("name"))
            {
                entries.push(entry.clone());
            }
        }
        if entries.len() > before {
            object::set(&mut merged, field, entries.into());
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // Rows read better with their objects written out in place.
    #[allow(clippy::needless_pass_by_value)]
    fn check(kind: StepKind, current: Value, wanted: Value, expected: Option<Value>) {
        let found = match write_for(kind, Some(&current), wanted) {
            Write::Patch(patch) => Some(patch),
            Write::Nothing => None,
            other => panic!("{other:?}"),
        };
        assert_eq!(found, expected, "{kind:?}");
    }

    #[test]
    fn an_absent_object_is_created() {
        let wanted = json!({"metadata": {"name": "x"}});
        for kind in [StepKind::ConfigMap, StepKind::Service, StepKind::Dynamic] {
            assert_eq!(
                write_for(kind, None, wanted.clone()),
                Write::Create(wanted.clone())
            );
        }
    }

    /// Who wrote which keys, as the API server notes it.
    fn written(manager: &str, field: &str, keys: &[&str]) -> Value {
        let keys: Map<String, Value> = keys.iter().map(|key| (format!("f:{key}"), json!({}))).collect();
        let field = format!("f:{field}");
        json!({"manager": manager, "operation": "Update", "fieldsV1": {field: keys, "f:metadata": {"f:labels": {}}}})
    }

    #[test]
    fn ports_that_a_bundle_has_no_more_go() {
        let metadata = json!({"labels": {"kept": "yes"}, "ownerReferences": [{"uid": "1"}]});
        let current = json!({"metadata": metadata, "spec": {"clusterIP": "10.0.0.1", "selector": {"app": "old"}, "ports": [
            {"port": 80, "protocol": "TCP", "targetPort": 80, "nodePort": 30080},
            {"port": 80, "protocol": "UDP", "targetPort": 80},
            {"port": 443, "protocol": "TCP", "targetPort": 443}]}});
        let wanted = |ports: Value| json!({"metadata": {"ownerReferences": [{"uid": "1"}]}, "spec": {"selector": {"app": "new"}, "ports": ports}});
        check(
            StepKind::Service,
            current.clone(),
            wanted(json!([{"port": 80, "targetPort": "web"}, {"port": 8443}])),
            Some(json!({"spec": {"selector": {"app": "new"}, "ports": [
                {"port": 80, "protocol": "TCP", "targetPort": "web", "nodePort": 30080}, {"port": 8443}]}})),
        );
        // What the API server added is no difference.
        let same = json!([{"port": 80, "targetPort": 80}, {"port": 80, "protocol": "UDP"}, {"port": 443}]);
        let mut same = wanted(same);
        same["spec"]["selector"] = json!({"app": "old"});
        check(StepKind::Service, current, same, None);
    }

    /// Of an operator's own kinds, too: what the old bundle had and the new one has not goes, what others or the API server wrote
    /// stays.
    #[test]
    fn fields_that_a_bundle_has_no_more_go() {
        let others = written("admin", "spec", &["theirs"]);
        for manager in ["olm", "catalog", "catalog-operator/install-plan"] {
            let own = written(manager, "spec", &["ours", "dropped", "sessionAffinity"]);
            let current = json!({"metadata": {"managedFields": [own, others]},
                "spec": {"ours": [{"a": 1, "b": 2}], "dropped": 1, "theirs": 2, "sessionAffinity": "None"}});
            check(
                StepKind::Dynamic,
                current,
                json!({"spec": {"ours": [{"a": 1}], "new": {}}}),
                Some(json!({"spec": {"ours": [{"a": 1}], "dropped": null, "new": {}}})),
            );
        }
        // An object that a plan made and the API server completed.
        check(
            StepKind::Dynamic,
            json!({"value": 5, "preemptionPolicy": "PreemptLowerPriority"}),
            json!({"value": 5, "globalDefault": null}),
            None,
        );
    }

    #[test]
    fn csv_and_subscription_are_left_untouched() {
        let current = json!({"metadata": {"name": "x"}, "spec": {"edited": true}});
        for kind in [StepKind::ClusterServiceVersion, StepKind::Subscription] {
            assert_eq!(
                write_for(kind, Some(&current), json!({"spec": {}})),
                Write::Nothing
            );
        }
    }

    /// Secrets and old annotations survive, new annotations win, both owners are there.
    #[test]
    fn service_account_keeps_what_others_put_there() {
        check(
            StepKind::ServiceAccount,
            json!({"metadata": {"annotations": {"old": "1", "both": "old"}, "ownerReferences": [{"name": "a.v1", "uid": "1"}]},
                   "secrets": [{"name": "token"}], "imagePullSecrets": [{"name": "users"}]}),
            json!({"metadata": {"annotations": {"both": "new"}, "ownerReferences": [{"name": "a.v2", "uid": "2"}]}, "imagePullSecrets": [{"name": "bundle"}]}),
            Some(
                json!({"metadata": {"annotations": {"both": "new"}, "ownerReferences": [{"name": "a.v1", "uid": "1"}, {"name": "a.v2", "uid": "2"}]},
                   "imagePullSecrets": [{"name": "users"}, {"name": "bundle"}]}),
            ),
        );
    }

    /// An object that already says it all costs no write.
    #[test]
    fn equal_objects_cost_no_write() {
        check(
            StepKind::ServiceAccount,
            json!({"metadata": {"resourceVersion": "5", "uid": "u", "labels": {"olm.managed": "true", "x": "y"}, "ownerReferences": [{"uid": "1"}]}}),
            json!({"metadata": {"labels": {"olm.managed": "true"}, "ownerReferences": [{"uid": "1"}]}}),
            None,
        );
        check(
            StepKind::RoleBinding,
            json!({"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
                   "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "u"}]}),
            json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "User", "name": "u"}]}),
            None,
        );
    }

    /// The new bundle's data stands, keys that the old one brought are gone; keys, labels and whole fields of others stay.
    #[test]
    fn config_map_data_is_the_bundles() {
        let managers = json!([
            written("olm", "data", &["a", "gone"]),
            written("ca-injector", "data", &["ca-bundle.crt"]),
            written("ca-injector", "binaryData", &["b"]),
        ]);
        check(
            StepKind::ConfigMap,
            json!({"metadata": {"labels": {"mine": "1"}, "managedFields": managers},
                "data": {"a": "1", "gone": "1", "ca-bundle.crt": "PEM"}, "binaryData": {"b": "AA=="}}),
            json!({"metadata": {"labels": {"olm.managed": "true"}}, "data": {"a": "2", "empty": "", "protocol": "TCP"}}),
            Some(
                json!({"metadata": {"labels": {"olm.managed": "true"}}, "data": {"a": "2", "empty": "", "protocol": "TCP", "gone": null}}),
            ),
        );
        // The old bundle's last key.
        check(
            StepKind::BundleSecret,
            json!({"metadata": {"managedFields": [written("olm", "data", &["a"])]}, "type": "Opaque", "data": {"a": "AA=="}}),
            json!({}),
            Some(json!({"data": null})),
        );
    }

    /// A platform fills such a ConfigMap with its trusted authorities, and pods need it when they start.
    #[test]
    fn a_config_map_without_data_is_for_others_to_fill() {
        let managers = json!([written("network-operator", "data", &["ca-bundle.crt"])]);
        let label = json!({"config.openshift.io/inject-trusted-cabundle": "true"});
        check(
            StepKind::ConfigMap,
            json!({"metadata": {"labels": label, "managedFields": managers}, "data": {"ca-bundle.crt": "PEM"}}),
            json!({"metadata": {"labels": label}, "data": {}}),
            None,
        );
    }

    /// Rules shrink as well as grow.
    #[test]
    fn rules_are_exactly_the_new_ones() {
        let rule = |verb: &str| json!({"verbs": [verb], "resources": ["pods"], "apiGroups": [""]});
        check(
            StepKind::Role,
            json!({"rules": [rule("get"), rule("delete")]}),
            json!({"rules": [rule("get")]}),
            Some(json!({"rules": [rule("get")]})),
        );
        check(
            StepKind::ClusterRole,
            json!({"rules": [rule("get")]}),
            json!({"rules": []}),
            Some(json!({"rules": null})),
        );
    }

    #[test]
    fn a_rule_that_somebody_narrowed_is_another_rule() {
        let rule = json!({"verbs": ["get"], "resources": ["pods"], "apiGroups": [""]});
        let mut narrowed = rule.clone();
        narrowed["resourceNames"] = json!(["x"]);
        check(
            StepKind::Role,
            json!({"rules": [narrowed]}),
            json!({"rules": [rule]}),
            Some(json!({"rules": [rule]})),
        );
        let mut verbose = rule.clone();
        verbose["resourceNames"] = json!([]);
        check(
            StepKind::Role,
            json!({"rules": [rule]}),
            json!({"rules": [verbose]}),
            None,
        );
    }

    #[test]
    fn secret_type_is_only_set_when_the_bundle_has_one() {
        check(
            StepKind::BundleSecret,
            json!({"type": "Opaque", "data": {"a": "AA=="}}),
            json!({"data": {"a": "AA=="}}),
            None,
        );
    }
}
