//! What other writers own of a Deployment that we apply, and how it becomes ours.
//!
//! An apply takes away only what nobody else owns: what upstream's OLM set (as the field manager `olm`, by `Update`) would stay for ever,
//! what somebody added by hand too, and a probe or volume of another kind would stand beside the wanted one, which the API server refuses. As `kubectl apply --server-side` does with what client-side apply left, such fields
//! become part of the entry of our own apply: the next apply takes away what it no longer has, in one rollout.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::apps::v1::Deployment,
    apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry},
};
use kube::ResourceExt;
use olm_api::labels;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{OF_OTHERS, entries, is_foreign, is_own_apply, is_patched};
use crate::owner;

/// Stands in the annotations of a pruned Deployment alone: an [`Adoption`]. There until it is carried out.
const ADOPTION: &str = "//adoption";
/// Stands there as well where the spec is kept: this is asked in every round.
const DUE: &str = "//adoption-as-it-is";
/// Bytes of a spec that is kept: whoever may write Deployments may write large ones.
const MAX_SPEC_BYTES: usize = 32 << 10;
/// Bytes of all that is kept.
const MAX_BYTES: usize = 128 << 10;
/// What the API server fills in where nothing is said, by field.
const DEFAULTS: [(&str, &[&str]); 24] = [
    ("progressDeadlineSeconds", &["600"]),
    ("revisionHistoryLimit", &["10", "1"]),
    ("maxSurge", &["\"25%\""]),
    ("maxUnavailable", &["\"25%\""]),
    ("type", &["\"RollingUpdate\"", "\"\""]),
    ("terminationMessagePath", &["\"/dev/termination-log\""]),
    ("terminationMessagePolicy", &["\"File\""]),
    ("dnsPolicy", &["\"ClusterFirst\""]),
    ("restartPolicy", &["\"Always\""]),
    ("schedulerName", &["\"default-scheduler\""]),
    ("terminationGracePeriodSeconds", &["30"]),
    ("imagePullPolicy", &["\"Always\"", "\"IfNotPresent\""]),
    ("protocol", &["\"TCP\""]),
    ("apiVersion", &["\"v1\""]),
    ("defaultMode", &["420"]),
    ("successThreshold", &["1"]),
    ("failureThreshold", &["3"]),
    ("periodSeconds", &["10"]),
    ("timeoutSeconds", &["1"]),
    ("scheme", &["\"HTTP\""]),
    ("divisor", &["\"0\""]),
    ("replicas", &["1"]),
    ("expirationSeconds", &["3600"]),
    ("path", &["\"/\""]),
];
/// Those of them that have their default in one place alone: a container that is to run beside the others and a folder of the node have such fields, too.
const OF_ONE_PARENT: [(&str, &str); 2] = [("restartPolicy", "spec"), ("path", "httpGet")];
/// Objects that the API server makes where nothing is said. Of no other does it matter what is in it.
const WHOLE: [&str; 7] = [
    "strategy",
    "rollingUpdate",
    "securityContext",
    "resources",
    "emptyDir",
    "metadata",
    "annotations",
];
/// What `kubectl rollout restart` leaves in the annotations of pods.
const RESTARTED: &str = "kubectl.kubernetes.io/restartedAt";
/// Annotations of pods that are not the author's: the last is copied there by upstream from a ClusterServiceVersion that was applied.
const NOT_OF_THE_SPEC: [&str; 3] = [RESTARTED, labels::CA_HASH, labels::LAST_APPLIED_CONFIGURATION];
/// Fields in which false, 0 or an empty text is the same as nothing.
const NOTHING_IF_ZERO: [&str; 23] = [
    "hostNetwork",
    "hostPID",
    "hostIPC",
    "hostPort",
    "readOnly",
    "readOnlyRootFilesystem",
    "runAsNonRoot",
    "privileged",
    "stdin",
    "stdinOnce",
    "tty",
    "paused",
    "optional",
    "initialDelaySeconds",
    "minReadySeconds",
    "value",
    "subPath",
    "hostname",
    "subdomain",
    "priorityClassName",
    "medium",
    "workingDir",
    "service",
];

/// What makes the fields of another entry ours.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Adoption {
    /// All entries as they are to be.
    pub(crate) managed_fields: Vec<ManagedFieldsEntry>,
    /// Whether one of them was of our own apply before.
    is_applied: bool,
    /// The live spec, where we never applied any and it is not too large: whether it is the wanted one, no hash of ours tells.
    spec: Option<Value>,
}

/// What the annotations say of a Deployment that is not pruned yet: an [`Adoption`], and whether it has the spec. None where nothing is to be adopted.
pub(super) fn notes(deployment: &Deployment) -> impl Iterator<Item = (String, String)> + use<> {
    let adoption = of_live(deployment);
    let is_due = adoption.as_ref().is_some_and(|adoption| adoption.spec.is_some());
    let text = adoption.and_then(|adoption| serde_json::to_string(&adoption).ok());
    let note = text
        .filter(|text| text.len() <= MAX_BYTES)
        .map(|text| (ADOPTION.to_owned(), text));
    let due = note
        .as_ref()
        .filter(|_| is_due)
        .map(|_| (DUE.to_owned(), String::new()));
    note.into_iter().chain(due)
}

fn of_live(deployment: &Deployment) -> Option<Adoption> {
    let metadata = &deployment.metadata;
    // Nobody would ever adopt it.
    owner::references(metadata).next()?;
    let own = entries(metadata).find(|entry| is_own_apply(entry));
    let is_taken = |entry: &&ManagedFieldsEntry| is_patched(entry) || is_foreign(entry);
    // Fields of one version are not those of another.
    let model = own.or_else(|| entries(metadata).find(is_taken))?;
    let is_taken = |entry: &&ManagedFieldsEntry| is_taken(entry) && entry.api_version == model.api_version;
    entries(metadata).find(is_taken)?;

    let mut fields = fields_of(own);
    let mut rest = Vec::new();
    for entry in entries(metadata).filter(|entry| !is_own_apply(entry)) {
        let (taken, left) = match entry {
            _ if !is_taken(&entry) => (Value::Null, Some(entry.clone())),
            _ if is_patched(entry) => (fields_of(Some(entry)), None),
            _ => of_foreign(entry),
        };
        fields = union(fields, taken);
        rest.extend(left);
    }
    let united = ManagedFieldsEntry {
        manager: Some(labels::FIELD_MANAGER_CSV.to_owned()),
        operation: Some("Apply".to_owned()),
        fields_v1: Some(FieldsV1(fields)),
        ..model.clone()
    };
    Some(Adoption {
        managed_fields: std::iter::once(united).chain(rest).collect(),
        is_applied: own.is_some(),
        spec: match own {
            Some(_) => None,
            None => serde_json::to_value(&deployment.spec)
                .ok()
                .filter(|spec| spec.to_string().len() <= MAX_SPEC_BYTES),
        },
    })
}

fn fields_of(entry: Option<&ManagedFieldsEntry>) -> Value {
    let fields = entry.and_then(|entry| Some(entry.fields_v1.as_ref()?.0.clone()));
    fields.unwrap_or_else(|| Value::Object(Map::new()))
}

/// The fields of the spec that somebody set by hand, and the entry without them: what is for others to set, labels and annotations
/// of the Deployment stay theirs. No entry where nothing is left.
fn of_foreign(entry: &ManagedFieldsEntry) -> (Value, Option<ManagedFieldsEntry>) {
    let mut fields = fields_of(Some(entry));
    let spec = fields.as_object_mut().and_then(|fields| fields.remove("f:spec"));
    let (taken, left) = split(spec.unwrap_or_default(), &mut Vec::new());
    if let Some(left) = left {
        fields["f:spec"] = left;
    }
    let is_empty = fields.as_object().is_some_and(Map::is_empty);
    let left = ManagedFieldsEntry {
        fields_v1: Some(FieldsV1(fields)),
        ..entry.clone()
    };
    let taken = taken.map(|spec| Value::Object(Map::from_iter([("f:spec".to_owned(), spec)])));
    (taken.unwrap_or_default(), (!is_empty).then_some(left))
}

/// What of these fields is ours to set, and what is for others; `path` is where they are.
fn split(fields: Value, path: &mut Vec<String>) -> (Option<Value>, Option<Value>) {
    if OF_OTHERS.contains(&path.iter().map(String::as_str).collect::<Vec<_>>().as_slice()) {
        return (None, Some(fields));
    }
    let children = match fields {
        Value::Object(children) if !children.is_empty() => children,
        leaf => return (Some(leaf), None),
    };
    let (mut ours, mut theirs) = (Map::new(), Map::new());
    for (key, child) in children {
        path.push(key.clone());
        let (our, their) = split(child, path);
        path.pop();
        ours.extend(our.map(|our| (key.clone(), our)));
        theirs.extend(their.map(|their| (key, their)));
    }
    let some = |fields: Map<String, Value>| (!fields.is_empty()).then_some(Value::Object(fields));
    (some(ours), some(theirs))
}

/// Whether a pruned Deployment, which somebody else made, may be the wanted one as it is.
pub(crate) fn is_due(deployment: &Deployment) -> bool {
    deployment.annotations().contains_key(DUE)
}

/// What is to be adopted of a pruned Deployment.
pub(crate) fn of(deployment: &Deployment) -> Option<Adoption> {
    read(deployment.annotations())
}

/// The same from the annotations.
pub(super) fn read(annotations: &BTreeMap<String, String>) -> Option<Adoption> {
    serde_json::from_str(annotations.get(ADOPTION)?).ok()
}

impl Adoption {
    /// Fields of the spec that will be ours.
    pub(super) fn own_fields(&self) -> Option<&Value> {
        let own = self.managed_fields.first()?;
        own.fields_v1.as_ref()?.0.get("f:spec")
    }

    /// Whether somebody else made the Deployment, and just as `wanted`: to apply that would change no pod. Where it cannot be told, it is not.
    pub(crate) fn is_as(&self, wanted: &Value) -> bool {
        self.spec.as_ref().is_some_and(|live| agrees(wanted, live, ""))
    }

    /// Whether nobody of ours applied it yet: then its hash says nothing.
    pub(crate) fn is_of_another(&self) -> bool {
        !self.is_applied
    }
}

/// Both, as `fieldsV1`; nothing is `Null`.
fn union(one: Value, other: Value) -> Value {
    match (one, other) {
        (Value::Object(mut one), Value::Object(other)) => {
            for (key, value) in other {
                let both = match one.remove(&key) {
                    Some(known) => union(known, value),
                    None => value,
                };
                one.insert(key, both);
            }
            Value::Object(one)
        }
        (one, _) => one,
    }
}

/// Whether `live` has all that `wanted` says, and nothing else but what the API server fills in; `key` is where they are.
fn agrees(wanted: &Value, live: &Value, key: &str) -> bool {
    match (wanted, live) {
        (Value::Object(wanted), Value::Object(live)) => {
            let is_there = wanted.iter().all(|(field, value)| {
                // The amounts of a container stand below these, by resource.
                let is_amount =
                    matches!(key, "limits" | "requests") || matches!(field.as_str(), "sizeLimit" | "divisor");
                // How many there are is others' to say.
                let is_open = key.is_empty() && field == "replicas";
                match live.get(field) {
                    Some(_) if is_open => true,
                    Some(live) if is_amount => {
                        value == live || amount(value).is_some_and(|one| amount(live) == Some(one))
                    }
                    Some(live) => agrees(value, live, field),
                    None => says_nothing(field, value),
                }
            });
            let account = wanted.get("serviceAccountName");
            is_there
                && live.iter().all(|(field, value)| {
                    wanted.contains_key(field)
                        || is_filled_in(key, field, value)
                        || (field == "serviceAccount" && account == Some(value))
                })
        }
        (Value::Array(wanted), Value::Array(live)) => {
            wanted.len() == live.len()
                && wanted
                    .iter()
                    .zip(live)
                    .all(|(one, other)| agrees(one, other, key))
        }
        (wanted, live) => wanted == live,
    }
}

/// Whether the API server makes this of nothing; `parent` is the field that it is in.
fn is_filled_in(parent: &str, field: &str, value: &Value) -> bool {
    let of = OF_ONE_PARENT.iter().find(|(name, _)| *name == field);
    let is_there = of.is_none_or(|(_, only)| *only == parent);
    let default = DEFAULTS.iter().find(|(name, _)| *name == field);
    let is_default = default.is_some_and(|(_, values)| values.contains(&value.to_string().as_str()));
    let members = value.as_object().filter(|_| WHOLE.contains(&field));
    (is_default && is_there)
        || NOT_OF_THE_SPEC.contains(&field)
        || says_nothing(field, value)
        || members.is_some_and(|members| {
            members
                .iter()
                .all(|(name, value)| is_filled_in(field, name, value))
        })
}

/// Whether a value of `field` is the same as none.
fn says_nothing(field: &str, value: &Value) -> bool {
    let is_zero = match value {
        Value::Null => return true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => return items.is_empty(),
        Value::Object(fields) => return fields.iter().all(|(field, value)| says_nothing(field, value)),
    };
    is_zero && NOTHING_IF_ZERO.contains(&field)
}

/// A quantity of Kubernetes in billionths; `None` where it is none or too large. `500m` and `0.5` are one.
fn amount(value: &Value) -> Option<i128> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
    let (digits, unit) = text.split_at(end.unwrap_or(text.len()));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let decimals = u32::try_from(fraction.len())
        .ok()
        .filter(|decimals| *decimals <= 9)?;
    let number: i128 = format!("{whole}{fraction}").parse().ok()?;
    let billionths = number.checked_mul(10_i128.pow(9 - decimals))?;
    let decimal = |power| billionths.checked_mul(10_i128.pow(power));
    let binary = |power| billionths.checked_mul(1024_i128.pow(power));
    match unit {
        "n" => Some(billionths / 1_000_000_000),
        "u" => Some(billionths / 1_000_000),
        "m" => Some(billionths / 1000),
        "" => Some(billionths),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        _ => decimal(
            unit.strip_prefix(['e', 'E'])?
                .parse()
                .ok()
                .filter(|power| *power <= 18)?,
        ),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(manager: &str, operation: &str, fields: Value) -> Value {
        json!({"manager": manager, "operation": operation, "apiVersion": "apps/v1", "time": "2026-01-01T00:00:00Z",
            "fieldsType": "FieldsV1", "fieldsV1": fields})
    }

    fn adoption(entries: &Value) -> Option<Adoption> {
        noted(&live(entries)).map(|text| serde_json::from_str(&text).unwrap())
    }

    fn noted(deployment: &Deployment) -> Option<String> {
        notes(deployment).next().map(|(_, text)| text)
    }

    fn live(entries: &Value) -> Deployment {
        let owner = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "name": "a", "uid": "u"});
        let metadata = json!({"name": "d", "managedFields": entries, "ownerReferences": [owner]});
        let spec = json!({"replicas": 2, "selector": {}, "template": {}});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
    }

    /// Whoever may write Deployments may write any number of them.
    #[test]
    fn little_is_kept_and_of_nobodys_nothing() {
        let entries = json!([entry(
            "olm",
            "Update",
            json!({"f:spec": {"f:minReadySeconds": {}}})
        )]);
        let mut found = live(&entries);
        found.metadata.owner_references = None;
        assert_eq!(noted(&found), None);
        let mut found = live(&entries);
        let long = "a".repeat(MAX_BYTES);
        found.spec.as_mut().unwrap().template.metadata =
            serde_json::from_value(json!({"labels": {"a": long}})).unwrap();
        let text = noted(&found).unwrap();
        assert_eq!(notes(&found).count(), 1);
        assert_eq!(notes(&live(&entries)).count(), 2);
        let kept: Adoption = serde_json::from_str(&text).unwrap();
        assert!(kept.is_of_another() && !kept.is_as(&json!({})), "{text}");
        assert!(text.len() < 1000, "{text}");
        let many: Value = (0..10_000)
            .map(|at| (format!("f:{at:0>20}"), json!({})))
            .collect::<Map<_, _>>()
            .into();
        assert_eq!(
            noted(&live(&json!([entry("olm", "Update", json!({"f:spec": many}))]))),
            None
        );
    }

    #[test]
    fn what_upstream_owns_becomes_ours_and_what_others_own_stays_theirs() {
        let theirs = json!({"f:spec": {"f:replicas": {}, "f:template": {"f:a": {}}}, "f:metadata": {"f:labels": {".": {}, "f:l": {}}}});
        let controller = entry(
            "kube-controller-manager",
            "Update",
            json!({"f:metadata": {"f:annotations": {"f:r": {}}}}),
        );
        let found = adoption(&json!([entry("olm", "Update", theirs.clone()), controller])).unwrap();
        let told = serde_json::to_value(&found.managed_fields).unwrap();
        assert_eq!(
            told,
            json!([entry("olm-operator/csv", "Apply", theirs.clone()), controller])
        );
        assert_eq!(found.own_fields(), Some(&theirs["f:spec"]));
        assert!(found.is_as(&json!({"replicas": 2})));

        let ours = entry(
            "olm-operator/csv",
            "Apply",
            json!({"f:spec": {"f:paused": {}, "f:template": {"f:b": {}}}}),
        );
        let found = adoption(&json!([ours, entry("olm", "Update", theirs)])).unwrap();
        assert_eq!(
            found.own_fields(),
            Some(&json!({"f:replicas": {}, "f:paused": {}, "f:template": {"f:a": {}, "f:b": {}}}))
        );
        assert_eq!(found.managed_fields.len(), 1);
        assert!(
            !found.is_as(&json!({"replicas": 2})),
            "of one that we applied the hash tells"
        );
    }

    #[test]
    fn without_anything_to_adopt_there_is_no_note() {
        let spec = json!({"f:spec": {"f:minReadySeconds": {}}});
        for entries in [
            json!([]),
            json!([entry("olm-operator/csv", "Apply", spec.clone())]),
            json!([entry("olm", "Apply", spec.clone())]),
            json!([entry("hpa", "Update", json!({"f:spec": {"f:replicas": {}}}))]),
            json!([entry(
                "olm",
                "Update",
                json!({"f:metadata": {"f:labels": {"f:olm.deployment-spec-hash": {}}}})
            )]),
        ] {
            assert_eq!(adoption(&entries), None, "{entries}");
        }
        let mut older = entry("olm", "Update", spec.clone());
        older["apiVersion"] = json!("extensions/v1beta1");
        assert_eq!(
            adoption(&json!([entry("olm-operator/csv", "Apply", spec), older])),
            None
        );
    }

    /// What is for others to set, and what is not of the spec, stays theirs.
    #[test]
    fn of_what_others_set_the_spec_alone_becomes_ours() {
        let ours = entry("olm-operator/csv", "Apply", json!({"f:spec": {"f:selector": {}}}));
        let labels = json!({"f:labels": {".": {}, "f:mine": {}}});
        let annotations = |keys: Value| json!({"f:metadata": {"f:annotations": keys}});
        let edited = entry(
            "kubectl-edit",
            "Update",
            json!({"f:metadata": labels, "f:spec": {"f:replicas": {}, "f:minReadySeconds": {},
                "f:template": annotations(json!({".": {}, "f:more": {}, "f:kubectl.kubernetes.io/restartedAt": {}}))}}),
        );
        let posing = json!({"manager": "olm-operator/csv", "operation": "Apply", "apiVersion": "apps/v1", "subresource": "scale",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}}});
        let scaled = json!({"manager": "hpa", "operation": "Update", "apiVersion": "apps/v1", "subresource": "scale",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}}});
        let added = entry(
            "helm",
            "Apply",
            json!({"f:spec": {"f:template": {"f:spec": {"f:hostNetwork": {}}}}}),
        );
        let found = adoption(&json!([posing, ours, edited, scaled, added])).unwrap();
        assert!(!found.is_of_another());
        assert_eq!(
            found.own_fields(),
            Some(&json!({"f:selector": {}, "f:minReadySeconds": {}, "f:template": {
                "f:metadata": {"f:annotations": {".": {}, "f:more": {}}}, "f:spec": {"f:hostNetwork": {}}}}))
        );
        let left = serde_json::to_value(&found.managed_fields[1..]).unwrap();
        let restarted = annotations(json!({"f:kubectl.kubernetes.io/restartedAt": {}}));
        let fields = json!({"f:metadata": labels, "f:spec": {"f:replicas": {}, "f:template": restarted}});
        assert_eq!(
            left,
            json!([posing, entry("kubectl-edit", "Update", fields), scaled])
        );
    }

    #[test]
    fn a_spec_agrees_with_what_the_api_server_made_of_it() {
        let live = json!({"replicas": 1, "progressDeadlineSeconds": 600, "template": {"spec": {
            "containers": [{"name": "c", "env": [{"name": "A"}], "terminationMessagePath": "/dev/termination-log",
                "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}}}],
            "serviceAccountName": "a", "serviceAccount": "a", "dnsPolicy": "ClusterFirst", "securityContext": {},
            "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1Mi"}}]}}});
        let wanted = |change: fn(&mut Value)| {
            let mut wanted = json!({"replicas": 1, "template": {"metadata": {"creationTimestamp": null}, "spec": {
                "containers": [{"name": "c", "env": [{"name": "A", "value": ""}],
                    "resources": {"limits": {"cpu": 0.5, "memory": "1024Mi"}}}],
                "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1024Ki"}}]}}});
            change(&mut wanted);
            wanted["template"]["spec"]["serviceAccountName"] = json!("a");
            agrees(&wanted, &live, "")
        };
        assert!(wanted(|_| ()));
        assert!(wanted(|wanted| wanted["replicas"] = json!(2)), "it was scaled");
        assert!(wanted(
            |wanted| wanted["template"]["spec"]["hostNetwork"] = json!(false)
        ));
        let changes: [fn(&mut Value); 8] = [
            |wanted| wanted["template"]["spec"]["nodeSelector"] = json!({"infra": ""}),
            |wanted| wanted["template"]["spec"]["automountServiceAccountToken"] = json!(false),
            |wanted| {
                wanted["template"]["spec"]["containers"][0]["securityContext"] =
                    json!({"allowPrivilegeEscalation": false});
            },
            |wanted| wanted["paused"] = json!(true),
            |wanted| wanted["template"]["spec"]["containers"][0]["env"][0]["value"] = json!("1"),
            |wanted| wanted["template"]["spec"]["containers"][0]["env"] = json!([]),
            |wanted| {
                wanted["template"]["spec"]["containers"][0]["resources"]["limits"]["cpu"] = json!("501m");
            },
            |wanted| wanted["template"]["spec"]["containers"][0]["env"][0]["name"] = json!("B"),
        ];
        for (at, change) in changes.into_iter().enumerate() {
            assert!(!wanted(change), "{at}");
        }
    }

    /// What nobody wants is no default of the API server's.
    #[test]
    fn a_spec_with_more_than_is_wanted_is_another() {
        let wanted = json!({"template": {"spec": {"containers": [{"name": "c"}]}}});
        let agrees = |more: &Value| {
            let mut live = wanted.clone();
            olm_testing::patch::merge(&mut live, more);
            agrees(&wanted, &live, "")
        };
        let pod = |more: Value| json!({"template": {"spec": more}});
        assert!(agrees(
            &json!({"progressDeadlineSeconds": 600, "template": {"metadata": {"annotations": {RESTARTED: "now"}}}})
        ));
        assert!(agrees(&pod(
            json!({"dnsPolicy": "ClusterFirst", "terminationGracePeriodSeconds": 30})
        )));
        for more in [
            pod(json!({"hostNetwork": true})),
            pod(json!({"dnsPolicy": "Default"})),
            pod(json!({"nodeSelector": {"disk": ""}})),
            pod(json!({"serviceAccount": "admin"})),
            pod(json!({"initContainers": [{"name": "i"}]})),
            pod(json!({"containers": [{"name": "c", "command": ["sh"]}]})),
            pod(json!({"containers": [{"name": "c", "securityContext": {"privileged": true}}]})),
            json!({"paused": true}),
            json!({"template": {"metadata": {"labels": {"more": "1"}}}}),
        ] {
            assert!(!agrees(&more), "{more}");
        }
    }

    /// What is a default in one place says something in another.
    #[test]
    fn a_default_is_one_in_its_place_alone() {
        let pod = |more: Value| json!({"template": {"spec": more}});
        let volume = |source: Value| pod(json!({"volumes": [source]}));
        let wanted = volume(json!({"name": "v", "emptyDir": {}}));
        for (live, is_same) in [
            (json!({"name": "v", "emptyDir": {}}), true),
            (json!({"name": "v", "hostPath": {"path": "/", "type": ""}}), false),
            (json!({"name": "v", "configMap": {"defaultMode": 420}}), false),
        ] {
            assert_eq!(agrees(&wanted, &volume(live.clone()), ""), is_same, "{live}");
        }
        let init = |more: Value| pod(json!({"initContainers": [more], "restartPolicy": "Always"}));
        let wanted = pod(json!({"initContainers": [{"name": "i"}]}));
        assert!(agrees(&wanted, &init(json!({"name": "i"})), ""));
        assert!(!agrees(
            &wanted,
            &init(json!({"name": "i", "restartPolicy": "Always"})),
            ""
        ));
        let probe = |more: Value| pod(json!({"containers": [{"name": "c", "livenessProbe": more}]}));
        for (wanted, live) in [
            (
                json!({"httpGet": {"port": 1}}),
                json!({"httpGet": {"port": 1, "path": "/", "scheme": "HTTP"}}),
            ),
            (
                json!({"grpc": {"port": 1}}),
                json!({"grpc": {"port": 1, "service": ""}}),
            ),
        ] {
            assert!(agrees(&probe(wanted), &probe(live.clone()), ""), "{live}");
        }
    }

    #[test]
    fn amounts_are_compared_by_what_they_are() {
        for (one, other) in [
            (json!("0.5"), json!("500m")),
            (json!(1), json!("1")),
            (json!("1Ki"), json!("1024")),
            (json!("1e3"), json!("1k")),
            (json!("1E"), json!("1000P")),
            (json!("5u"), json!("5000n")),
        ] {
            assert!(
                amount(&one).is_some() && amount(&one) == amount(&other),
                "{one} {other}"
            );
        }
        for none in [
            json!("x"),
            json!(""),
            json!("1.2.3"),
            json!("1Xi"),
            json!("1e99"),
            json!("0.12345678901"),
            json!(null),
        ] {
            assert_eq!(amount(&none), None, "{none}");
        }
    }
}
