//! From the object in the cluster and the object of a step to the write between them, if any.
//!
//! Upstream replaces what it finds, and with that removes other people's labels, annotations and pull secrets. Here a step only
//! changes what it speaks of, and writes nothing when nothing would change (decision record 0004).

use olm_runtime::plan::merge_patch;
use serde_json::{Map, Value};

use crate::object;
use crate::step_kind::StepKind;

/// The write that a step needs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Write {
    /// The object is not there.
    Create(Value),
    /// It is there and differs: a merge patch, to be guarded by the resourceVersion it was computed from.
    Patch(Value),
    /// Server-side apply of the whole object; it may turn out to change nothing.
    Apply(Value),
    /// It is there and says all the step says.
    Nothing,
}

/// How a step's object, complete with labels and owners, gets into the cluster where `current` is found.
///
/// CustomResourceDefinitions have rules of their own, see [`super::crd_upgrade`].
pub(crate) fn write_for(kind: StepKind, current: Option<&Value>, wanted: Value) -> Write {
    let Some(current) = current else {
        return match kind {
            StepKind::Service | StepKind::Dynamic => Write::Apply(wanted),
            _ => Write::Create(wanted),
        };
    };
    let merged = match kind {
        // Created or left alone; what is defined changes by rules of its own.
        StepKind::ClusterServiceVersion
        | StepKind::Subscription
        | StepKind::Secret
        | StepKind::CustomResourceDefinition => return Write::Nothing,
        // What upstream wrote stays its own when we apply, so a port that the bundle has no more would never go.
        StepKind::Service if has_other_ports(current, &wanted) => merged_service(current, &wanted),
        StepKind::Service | StepKind::Dynamic => return Write::Apply(wanted),
        StepKind::Role | StepKind::ClusterRole => {
            merged_fields(current, &wanted, &["rules"], &["aggregationRule"])
        }
        StepKind::RoleBinding | StepKind::ClusterRoleBinding => {
            merged_fields(current, &wanted, &["subjects"], &["roleRef"])
        }
        StepKind::ConfigMap => merged_fields(current, &wanted, &["data", "binaryData"], &["immutable"]),
        StepKind::BundleSecret => merged_fields(current, &wanted, &["data"], &["type", "immutable"]),
        StepKind::ServiceAccount => merged_service_account(current, &wanted),
    };
    merge_patch(current, &merged).map_or(Write::Nothing, Write::Patch)
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
            Some(value) => set_unless_covered(map, field, value),
            None => {
                map.remove(*field);
            }
        }
    }
    for field in set {
        if let Some(value) = wanted.get(*field) {
            set_unless_covered(map, field, value);
        }
    }
    merged
}

/// Lists are taken over when they differ in more than defaults; maps of data only when they are equal key by key.
fn set_unless_covered(map: &mut Map<String, Value>, field: &str, value: &Value) {
    let same = match (map.get(field), value) {
        (Some(Value::Object(current)), Value::Object(wanted)) if field != "roleRef" => current == wanted,
        // The API server adds nothing to a rule, and every further field narrows it.
        (Some(current), wanted) if field == "rules" => without_empty(current) == without_empty(wanted),
        (Some(current), wanted) => object::covers(current, wanted),
        (None, _) => false,
    };
    if !same {
        map.insert(field.to_owned(), value.clone());
    }
}

/// Rules without their empty lists, which mean the same as absent ones.
fn without_empty(rules: &Value) -> Vec<Value> {
    let mut rules = rules.as_array().cloned().unwrap_or_default();
    for fields in rules.iter_mut().filter_map(Value::as_object_mut) {
        fields.retain(|_, value| !object::is_empty(value));
    }
    rules
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

/// What a port of a Service is known by.
fn port_key(port: &Value) -> (Option<u64>, &str) {
    let protocol = port.get("protocol").and_then(Value::as_str).unwrap_or("TCP");
    (port.get("port").and_then(Value::as_u64), protocol)
}

fn ports(service: &Value) -> &[Value] {
    let ports = service.pointer("/spec/ports").and_then(Value::as_array);
    ports.map_or(&[], Vec::as_slice)
}

fn has_other_ports(current: &Value, wanted: &Value) -> bool {
    let is_wanted = |port: &Value| {
        ports(wanted)
            .iter()
            .any(|wanted| port_key(wanted) == port_key(port))
    };
    !ports(wanted).is_empty() && !ports(current).iter().all(is_wanted)
}

/// The Service with the fields and the ports of the bundle, and no other ports; what the API server added to a port stays.
fn merged_service(current: &Value, wanted: &Value) -> Value {
    let mut merged = with_metadata_of(current, wanted);
    let mut list = ports(wanted).to_vec();
    for port in &mut list {
        let known = ports(current)
            .iter()
            .find(|known| port_key(known) == port_key(port));
        if let (Some(Value::Object(known)), Value::Object(port)) = (known, port) {
            for (field, value) in known {
                port.entry(field.clone()).or_insert_with(|| value.clone());
            }
        }
    }
    let spec = object::map_mut(&mut merged, "spec");
    for (field, value) in wanted
        .get("spec")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        set_unless_covered(spec, field, value);
    }
    spec.insert("ports".to_owned(), list.into());
    merged
}

/// A ServiceAccount belongs to its users too: nothing they or the cluster put there is taken away.
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
        assert_eq!(
            write_for(StepKind::ConfigMap, None, wanted.clone()),
            Write::Create(wanted.clone())
        );
        assert_eq!(
            write_for(StepKind::Service, None, wanted.clone()),
            Write::Apply(wanted)
        );
    }

    /// Of a Service that upstream made, ports that the bundle has no more would stay upstream's.
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
        // More ports than before are applied.
        let more =
            wanted(json!([{"port": 80}, {"port": 80, "protocol": "UDP"}, {"port": 443}, {"port": 8443}]));
        assert_eq!(
            write_for(StepKind::Service, Some(&current), more.clone()),
            Write::Apply(more)
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

    /// The new bundle's data stands, keys it dropped are gone, foreign labels stay.
    #[test]
    fn config_map_data_is_the_bundles() {
        check(
            StepKind::ConfigMap,
            json!({"metadata": {"labels": {"mine": "1"}}, "data": {"a": "1", "gone": "1"}, "binaryData": {"b": "AA=="}}),
            json!({"metadata": {"labels": {"olm.managed": "true"}}, "data": {"a": "2"}}),
            Some(
                json!({"metadata": {"labels": {"olm.managed": "true"}}, "data": {"a": "2", "gone": null}, "binaryData": null}),
            ),
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
