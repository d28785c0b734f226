//! Compares the spec of a Deployment of another creator with the wanted one.
//!
//! The live spec contains defaults of the API server; any other addition makes the two differ.

use go_compat::quantity;
use olm_api::labels;
use serde_json::Value;

/// Default values of the API server, by field.
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
/// Fields with a default in one parent only; sidecar containers and host paths have such fields, too.
const OF_ONE_PARENT: [(&str, &str); 2] = [("restartPolicy", "spec"), ("path", "httpGet")];
/// Objects that the API server creates as defaults. Only their contents are checked for defaults.
const WHOLE: [&str; 7] = [
    "strategy",
    "rollingUpdate",
    "securityContext",
    "resources",
    "emptyDir",
    "metadata",
    "annotations",
];
/// Annotation that `kubectl rollout restart` adds to pods.
const RESTARTED: &str = "kubectl.kubernetes.io/restartedAt";
/// Annotations of pods that are not from the author. Upstream copies the last one from a
/// ClusterServiceVersion that was applied.
const NOT_OF_THE_SPEC: [&str; 3] = [RESTARTED, labels::CA_HASH, labels::LAST_APPLIED_CONFIGURATION];
/// Fields in which false, 0 or an empty text is equivalent to no value.
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

/// True when `live` contains all of `wanted`, and apart from that only defaults of the API server; `key` is
/// their location.
pub(super) fn agrees(wanted: &Value, live: &Value, key: &str) -> bool {
    match (wanted, live) {
        (Value::Object(wanted), Value::Object(live)) => {
            let is_there = wanted.iter().all(|(field, value)| {
                // Quantities of a container are below these keys, by resource.
                let is_amount =
                    matches!(key, "limits" | "requests") || matches!(field.as_str(), "sizeLimit" | "divisor");
                // Others may change the number of replicas.
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

/// True when the API server creates this value as a default; `parent` is the field that contains it.
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

/// True when a value of `field` is equivalent to no value.
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

/// A quantity of Kubernetes in billionths; `None` if it is invalid or too large. `500m` and `0.5` are equal.
fn amount(value: &Value) -> Option<i128> {
    match value {
        Value::String(text) => quantity::billionths(text),
        Value::Number(number) => quantity::billionths(&number.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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

    /// Unwanted fields are not defaults of the API server.
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

    /// A default in one place is a real value in another.
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
        for (one, other) in [(json!("0.5"), json!("500m")), (json!(1), json!("1"))] {
            assert!(
                amount(&one).is_some() && amount(&one) == amount(&other),
                "{one} {other}"
            );
        }
        for none in [json!("x"), json!(null)] {
            assert_eq!(amount(&none), None, "{none}");
        }
    }
}
