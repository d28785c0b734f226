//! What another writer's `Update` owns of a Deployment that we apply, and how it becomes ours.
//!
//! Upstream's OLM, and patches of ours, write as the field manager `olm` by `Update`. An apply takes away only what nobody else owns,
//! so what such an entry holds would stay for ever. As `kubectl apply --server-side` does with what client-side apply left, the entry
//! becomes part of the one of our own apply: the next apply takes away what it no longer has.

use k8s_openapi::{
    api::apps::v1::Deployment,
    apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry},
};
use kube::ResourceExt;
use olm_api::labels;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{entries, is_own_apply, is_patched};
use crate::owner;

/// Stands in the annotations of a pruned Deployment alone: an [`Adoption`]. There until it is carried out.
const ADOPTION: &str = "//adoption";
/// Bytes of each of its parts: whoever may write Deployments may write large ones.
const MAX_BYTES: usize = 32 << 10;
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
/// What `kubectl rollout restart` leaves in the annotations of pods.
const RESTARTED: &str = "kubectl.kubernetes.io/restartedAt";
/// Fields in which false, 0 or an empty text is the same as nothing.
const NOTHING_IF_ZERO: [&str; 22] = [
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
];

/// What makes the fields of another entry ours.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Adoption {
    /// All entries as they are to be.
    pub(crate) managed_fields: Vec<ManagedFieldsEntry>,
    /// The live spec, where we never applied any: whether it is the wanted one, no hash of ours tells.
    spec: Option<Value>,
}

/// What the annotation says of a Deployment that is not pruned yet; `None` where nothing is to be adopted.
pub(super) fn note(deployment: &Deployment) -> Option<(String, String)> {
    let metadata = &deployment.metadata;
    // Nobody would ever adopt it.
    owner::references(metadata).next()?;
    let other = entries(metadata).find(|entry| is_patched(entry))?;
    let own = entries(metadata).find(|entry| is_own_apply(entry));
    // Fields of one version are not those of another.
    if own.is_some_and(|own| own.api_version != other.api_version) {
        return None;
    }
    let fields = [own, Some(other)].into_iter().flatten();
    let fields = fields.filter_map(|entry| Some(entry.fields_v1.as_ref()?.0.clone()));
    let united = ManagedFieldsEntry {
        manager: Some(labels::FIELD_MANAGER_CSV.to_owned()),
        operation: Some("Apply".to_owned()),
        fields_v1: Some(FieldsV1(fields.fold(Value::Object(Map::new()), union))),
        ..other.clone()
    };
    let rest = entries(metadata).filter(|entry| *entry != other && !is_own_apply(entry));
    let adoption = Adoption {
        managed_fields: std::iter::once(united).chain(rest.cloned()).collect(),
        spec: match own {
            Some(_) => None,
            None => serde_json::to_value(&deployment.spec)
                .ok()
                .filter(|spec| spec.to_string().len() <= MAX_BYTES),
        },
    };
    let text = serde_json::to_string(&adoption).ok()?;
    (text.len() <= 2 * MAX_BYTES).then(|| (ADOPTION.to_owned(), text))
}

/// Whether anything of a pruned Deployment is to be adopted.
pub(crate) fn is_due(deployment: &Deployment) -> bool {
    deployment.annotations().contains_key(ADOPTION)
}

/// What is to be adopted of a pruned Deployment.
pub(crate) fn of(deployment: &Deployment) -> Option<Adoption> {
    serde_json::from_str(deployment.annotations().get(ADOPTION)?).ok()
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
        self.spec.is_some()
    }
}

/// Both, as `fieldsV1`.
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
                        || is_filled_in(field, value)
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

fn is_filled_in(field: &str, value: &Value) -> bool {
    let default = DEFAULTS.iter().find(|(name, _)| *name == field);
    let is_default = default.is_some_and(|(_, values)| values.contains(&value.to_string().as_str()));
    let members = value.as_object();
    is_default
        || [RESTARTED, labels::CA_HASH].contains(&field)
        || says_nothing(field, value)
        || members.is_some_and(|members| members.iter().all(|(field, value)| is_filled_in(field, value)))
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
        note(&live(entries)).map(|(_, text)| serde_json::from_str(&text).unwrap())
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
        assert_eq!(note(&found), None);
        let mut found = live(&entries);
        let long = "a".repeat(MAX_BYTES);
        found.spec.as_mut().unwrap().template.metadata =
            serde_json::from_value(json!({"labels": {"a": long}})).unwrap();
        let (_, text) = note(&found).unwrap();
        let kept: Adoption = serde_json::from_str(&text).unwrap();
        assert!(!kept.is_of_another() && text.len() < 1000, "{text}");
        let many: Value = (0..4000)
            .map(|at| (format!("f:{at:0>20}"), json!({})))
            .collect::<Map<_, _>>()
            .into();
        assert_eq!(
            note(&live(&json!([entry("olm", "Update", json!({"f:spec": many}))]))),
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
            json!([entry("kubectl-edit", "Update", spec.clone())]),
            json!([entry("olm", "Apply", spec.clone())]),
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
