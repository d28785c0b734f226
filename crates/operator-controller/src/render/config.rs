//! Checks `spec.config.inline` of a ClusterExtension against what the bundle accepts.
//!
//! Upstream does it with a JSON schema and a library for them. Its texts are those of the conditions, so this module words every
//! defect as that library does. Where the library reports defects in the order of a Go map, they are sorted here.

use go_compat::quote;
use olm_api::v1alpha1::{InstallModeType, SubscriptionConfig};
use serde_json::{Map, Value};

use super::bundle::Bundle;

/// The property with the namespace to watch.
const WATCH_NAMESPACE: &str = "watchNamespace";
/// The property with changes of the Deployments.
const DEPLOYMENT_CONFIG: &str = "deploymentConfig";
/// Field of a Subscription's configuration that a deploymentConfig does not have.
const SELECTOR: &str = "selector";
/// Longest name of a namespace, in characters.
const MAX_NAMESPACE: usize = 63;
/// Form of a namespace's name, as it appears in messages.
const NAMESPACE_PATTERN: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
/// Line of upstream's library above the defects of a nested value that has several.
const SEVERAL: &str = "validation failed";

/// A checked configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Config {
    /// The namespace to watch; `None` for all.
    pub(super) watch_namespace: Option<String>,
    /// Changes of the Deployments.
    pub(super) deployment: Option<SubscriptionConfig>,
}

/// Checks a configuration for a bundle that is installed in `namespace`. A bundle that does not support all namespaces must have a
/// `watchNamespace`, so [`Config::watch_namespace`] is only absent if it does.
///
/// # Errors
/// All defects, as text for users.
pub(super) fn check(inline: &Value, bundle: &Bundle, namespace: &str) -> Result<Config, String> {
    let modes = Modes::of(bundle);
    let Value::Object(members) = inline else {
        return Err(format!("invalid type: {}", mismatch(inline, "object")));
    };
    let mut found: Vec<Vec<String>> = Vec::new();
    let is_missing = modes.is_required() && !members.contains_key(WATCH_NAMESPACE);
    if is_missing {
        found.push(missing(WATCH_NAMESPACE));
    }
    let mut stranger = None;
    for (name, value) in members {
        found.push(match name.as_str() {
            WATCH_NAMESPACE if modes.is_configurable() => modes.check(value, namespace),
            DEPLOYMENT_CONFIG => check_deployment_config(value),
            _ => {
                stranger.get_or_insert(name);
                continue;
            }
        });
    }
    found.extend(stranger.map(|name| unknown(name)));
    let mut lines = group(found);
    if lines.first().is_some_and(|line| line == SEVERAL) {
        lines.remove(0);
    }
    match lines.as_slice() {
        [] => decode(members),
        [only] => Err(only.clone()),
        several => Err(format!("multiple errors found:\n  - {}", several.join("\n  - "))),
    }
}

/// Reads a configuration that has no defect.
fn decode(members: &Map<String, Value>) -> Result<Config, String> {
    let deployment = members.get(DEPLOYMENT_CONFIG).cloned();
    Ok(Config {
        watch_namespace: members
            .get(WATCH_NAMESPACE)
            .and_then(Value::as_str)
            .map(str::to_owned),
        deployment: deployment
            .map(serde_json::from_value)
            .transpose()
            .map_err(|error| format!("invalid deploymentConfig: {error}"))?,
    })
}

/// Returns the lines of a value from the lines of each of its defects.
fn group(found: Vec<Vec<String>>) -> Vec<String> {
    let found: Vec<Vec<String>> = found.into_iter().filter(|lines| !lines.is_empty()).collect();
    let heading = (found.len() > 1).then(|| SEVERAL.to_owned());
    heading.into_iter().chain(found.into_iter().flatten()).collect()
}

fn missing(field: &str) -> Vec<String> {
    vec![format!("required field {} is missing", quote(field))]
}

fn unknown(field: &str) -> Vec<String> {
    vec![format!("unknown field {}", quote(field))]
}

/// Returns the line for a value of the wrong type. `null` counts as a missing field.
fn wrong_type(value: &Value, path: &str, wanted: &str) -> Vec<String> {
    if value.is_null() {
        return missing(path);
    }
    let field = quote(path);
    vec![format!(
        "invalid type for field {field}: {}",
        mismatch(value, wanted)
    )]
}

fn mismatch(value: &Value, wanted: &str) -> String {
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    format!("got {found}, want {wanted}")
}

/// The install modes that decide about `watchNamespace`.
#[derive(Clone, Copy, Debug)]
struct Modes {
    all: bool,
    own: bool,
    single: bool,
}

impl Modes {
    fn of(bundle: &Bundle) -> Self {
        Self {
            all: bundle.supports(&InstallModeType::AllNamespaces),
            own: bundle.supports(&InstallModeType::OwnNamespace),
            single: bundle.supports(&InstallModeType::SingleNamespace),
        }
    }

    /// True if `watchNamespace` may be set.
    fn is_configurable(self) -> bool {
        self.own || self.single
    }

    /// True if it must be set.
    fn is_required(self) -> bool {
        self.is_configurable() && !self.all
    }

    /// Returns the defects of a `watchNamespace`.
    fn check(self, value: &Value, namespace: &str) -> Vec<String> {
        if self.is_required() {
            return self.check_name(value, namespace);
        }
        if value.is_null() {
            return Vec::new();
        }
        let lines = self.check_name(value, namespace);
        if lines.is_empty() {
            return lines;
        }
        // The library lists every alternative that does not fit.
        let field = quote(WATCH_NAMESPACE);
        let mut all = vec![format!("invalid value for field {field}")];
        all.extend(wrong_type(value, WATCH_NAMESPACE, "null"));
        all.extend(lines);
        all
    }

    fn check_name(self, value: &Value, namespace: &str) -> Vec<String> {
        let Value::String(text) = value else {
            return wrong_type(value, WATCH_NAMESPACE, "string");
        };
        if let Some(fault) = self.format_fault(text, namespace) {
            let field = quote(WATCH_NAMESPACE);
            return vec![format!("invalid format for field {field}: {fault}")];
        }
        let (field, length) = (quote(WATCH_NAMESPACE), text.chars().count());
        let faults = [
            (
                text.is_empty(),
                format!("field {field} must have minimum length of 1 (len={length})"),
            ),
            (
                length > MAX_NAMESPACE,
                format!("field {field} must have maximum length of {MAX_NAMESPACE} (len={length})"),
            ),
            (
                !is_namespace(text),
                format!("field {field} must match pattern {}", quote(NAMESPACE_PATTERN)),
            ),
        ];
        let faults = faults.into_iter().filter(|(is_fault, _)| *is_fault);
        group(faults.map(|(_, text)| vec![text]).collect())
    }

    /// Returns the reason why an operator that only watches its own, or only another, namespace cannot watch this one.
    fn format_fault(self, text: &str, namespace: &str) -> Option<String> {
        let (value, own) = (quote(text), quote(namespace));
        let got = single_quoted(text);
        match (self.own, self.single) {
            (true, false) if text != namespace => Some(format!(
                "{got} is not valid ownNamespaceInstallMode: invalid value {value}: must be {own} (the namespace where the operator is installed) because this operator only supports OwnNamespace install mode"
            )),
            (false, true) if text == namespace => Some(format!(
                "{got} is not valid singleNamespaceInstallMode: invalid value {value}: must be different from {own} (the install namespace) because this operator uses SingleNamespace install mode to watch a different namespace"
            )),
            _ => None,
        }
    }
}

/// Returns true for a text of the form of [`NAMESPACE_PATTERN`].
fn is_namespace(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && !text.starts_with('-') && !text.ends_with('-') && text.bytes().all(is_inner)
}

/// Puts a text into single quotes as upstream's library does.
fn single_quoted(text: &str) -> String {
    let quoted = quote(text).to_string();
    let inner = quoted
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'))
        .unwrap_or(&quoted);
    format!("'{}'", inner.replace("\\\"", "\"").replace('\'', "\\'"))
}

/// Returns the defects of a `deploymentConfig`: it has the fields of a Subscription's configuration, except the selector.
fn check_deployment_config(value: &Value) -> Vec<String> {
    let Value::Object(members) = value else {
        return wrong_type(value, DEPLOYMENT_CONFIG, "object");
    };
    let schema = deployment_config_schema();
    let properties = &schema["properties"];
    let mut found = Vec::new();
    let mut stranger = None;
    for (name, value) in members {
        match properties.get(name) {
            Some(schema) if name != SELECTOR => {
                found.push(check_schema(
                    schema,
                    value,
                    &format!("{DEPLOYMENT_CONFIG}.{name}"),
                ));
            }
            _ => {
                stranger.get_or_insert(name);
            }
        }
    }
    found.extend(stranger.map(|name| unknown(name)));
    group(found)
}

/// Returns the schema of a Subscription's configuration.
fn deployment_config_schema() -> Value {
    const DEFINITION: &str = include_str!("../../../../manifests/crds/subscriptions.yaml");
    const CONFIG: &str = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/config";
    let mut definition: Value = olm_fbc::yaml::from_str(DEFINITION).unwrap_or_default();
    definition
        .pointer_mut(CONFIG)
        .map(Value::take)
        .unwrap_or_default()
}

/// Returns the defects of a value at `path`: types, and required fields. Fields that a core type does not have are ignored, as
/// upstream does.
fn check_schema(schema: &Value, value: &Value, path: &str) -> Vec<String> {
    if schema["x-kubernetes-int-or-string"] == Value::Bool(true) {
        return match value {
            Value::String(_) | Value::Number(_) => Vec::new(),
            _ => wrong_type(value, path, "string or number"),
        };
    }
    let wanted = schema["type"].as_str().unwrap_or_default();
    let mut found = Vec::new();
    match (wanted, value) {
        ("object", Value::Object(members)) => {
            let required = schema["required"].as_array().into_iter().flatten();
            let absent = required
                .filter_map(Value::as_str)
                .find(|name| !members.contains_key(*name));
            found.extend(absent.map(missing));
            for (name, member) in members {
                let inner = schema["properties"]
                    .get(name)
                    .or_else(|| schema.get("additionalProperties"));
                if let Some(inner) = inner {
                    found.push(check_schema(inner, member, &format!("{path}.{name}")));
                }
            }
        }
        ("array", Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                found.push(check_schema(&schema["items"], item, &format!("{path}.{index}")));
            }
        }
        ("string", Value::String(_))
        | ("boolean", Value::Bool(_))
        | ("number", Value::Number(_))
        | ("", _) => {}
        ("integer", Value::Number(number)) if number.is_i64() => {}
        _ => return wrong_type(value, path, wanted),
    }
    group(found)
}

#[cfg(test)]
mod tests {
    use olm_api::v1alpha1::InstallMode;
    use serde_json::json;

    use super::*;

    const ALL: InstallModeType = InstallModeType::AllNamespaces;
    const OWN: InstallModeType = InstallModeType::OwnNamespace;
    const SINGLE: InstallModeType = InstallModeType::SingleNamespace;

    fn bundle(modes: &[InstallModeType]) -> Bundle {
        let mut bundle = Bundle::default();
        let modes = modes.iter().map(|mode| InstallMode {
            type_: mode.clone(),
            supported: true,
            ..InstallMode::default()
        });
        bundle.csv.spec.install_modes = modes.collect();
        bundle
    }

    fn refused(modes: &[InstallModeType], inline: &Value) -> String {
        check(inline, &bundle(modes), "ns").unwrap_err()
    }

    fn watched(modes: &[InstallModeType], name: &Value) -> Option<String> {
        let inline = json!({"watchNamespace": name});
        check(&inline, &bundle(modes), "ns").unwrap().watch_namespace
    }

    #[test]
    fn a_watched_namespace_that_the_modes_allow_is_taken() {
        let other = Some("other".to_owned());
        for modes in [&[SINGLE][..], &[OWN, SINGLE], &[ALL, SINGLE], &[ALL, OWN, SINGLE]] {
            assert_eq!(watched(modes, &json!("other")), other, "{modes:?}");
        }
        for modes in [&[OWN][..], &[OWN, SINGLE], &[ALL, OWN]] {
            assert_eq!(watched(modes, &json!("ns")).as_deref(), Some("ns"), "{modes:?}");
        }
        for modes in [&[ALL, OWN][..], &[ALL, SINGLE], &[ALL, OWN, SINGLE]] {
            assert_eq!(watched(modes, &Value::Null), None, "{modes:?}");
            let none = check(&json!({}), &bundle(modes), "ns").unwrap();
            assert_eq!(none, Config::default(), "{modes:?}");
        }
        assert_eq!(
            check(&json!({}), &bundle(&[ALL]), "ns").unwrap(),
            Config::default()
        );
    }

    #[test]
    fn without_all_namespaces_one_must_be_named() {
        let missing = r#"required field "watchNamespace" is missing"#;
        for modes in [&[OWN][..], &[SINGLE], &[OWN, SINGLE]] {
            assert_eq!(refused(modes, &json!({})), missing, "{modes:?}");
            let null = json!({"watchNamespace": null});
            assert_eq!(refused(modes, &null), missing, "{modes:?}");
        }
    }

    #[test]
    fn a_field_that_is_not_known_is_named() {
        for (modes, inline, field) in [
            (&[ALL][..], json!({"watchNamespace": "a"}), "watchNamespace"),
            (&[ALL], json!({"b": 1, "a": 1}), "a"),
            (&[ALL], json!({"deploymentConfig": {"selector": {}}}), "selector"),
            (&[OWN], json!({"watchNamespace": "ns", "other": 1}), "other"),
        ] {
            assert_eq!(refused(modes, &inline), format!("unknown field \"{field}\""));
        }
    }

    #[test]
    fn own_and_single_namespace_have_reasons_of_their_own() {
        assert_eq!(
            refused(&[OWN], &json!({"watchNamespace": "it's"})),
            "invalid format for field \"watchNamespace\": 'it\\'s' is not valid ownNamespaceInstallMode: invalid value \"it's\": must be \"ns\" (the namespace where the operator is installed) because this operator only supports OwnNamespace install mode"
        );
        assert_eq!(
            refused(&[SINGLE], &json!({"watchNamespace": "ns"})),
            "invalid format for field \"watchNamespace\": 'ns' is not valid singleNamespaceInstallMode: invalid value \"ns\": must be different from \"ns\" (the install namespace) because this operator uses SingleNamespace install mode to watch a different namespace"
        );
    }

    #[test]
    fn names_are_checked() {
        let pattern = r#"field "watchNamespace" must match pattern "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$""#;
        let both = [OWN, SINGLE];
        assert_eq!(refused(&both, &json!({"watchNamespace": "A"})), pattern);
        assert_eq!(
            refused(&both, &json!({"watchNamespace": "a".repeat(64)})),
            r#"field "watchNamespace" must have maximum length of 63 (len=64)"#
        );
        let length = r#"field "watchNamespace" must have minimum length of 1 (len=0)"#;
        assert_eq!(
            refused(&both, &json!({"watchNamespace": ""})),
            format!("multiple errors found:\n  - {length}\n  - {pattern}")
        );
        assert_eq!(
            refused(&both, &json!({"watchNamespace": "", "other": 1})),
            format!(
                "multiple errors found:\n  - {SEVERAL}\n  - {length}\n  - {pattern}\n  - unknown field \"other\""
            )
        );
        assert_eq!(
            refused(&both, &json!({"watchNamespace": 1})),
            r#"invalid type for field "watchNamespace": got number, want string"#
        );
        assert_eq!(
            refused(&[ALL, OWN, SINGLE], &json!({"watchNamespace": "A"})),
            format!(
                "multiple errors found:\n  - invalid value for field \"watchNamespace\"\n  - invalid type for field \"watchNamespace\": got string, want null\n  - {pattern}"
            )
        );
        assert_eq!(
            refused(&[ALL], &json!(true)),
            "invalid type: got boolean, want object"
        );
    }

    #[test]
    fn a_deployment_config_has_the_fields_of_a_subscriptions_config() {
        let config = json!({
            "env": [{"name": "A", "value": "1"}], "envFrom": [{"configMapRef": {"name": "c"}}],
            "volumes": [{"name": "v", "emptyDir": {"sizeLimit": 1}}],
            "volumeMounts": [{"name": "v", "mountPath": "/v"}],
            "tolerations": [{"operator": "Exists", "tolerationSeconds": 5}],
            "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}, "nodeSelector": {"a": "b"},
            "affinity": {"nodeAffinity": {}}, "annotations": {"a": "b"},
        });
        let inline = json!({"deploymentConfig": config});
        let checked = check(&inline, &bundle(&[ALL]), "ns").unwrap();
        assert_eq!(serde_json::to_value(checked.deployment).unwrap(), config);
        for (config, expected) in [
            (
                json!("x"),
                r#"invalid type for field "deploymentConfig": got string, want object"#,
            ),
            (Value::Null, r#"required field "deploymentConfig" is missing"#),
            (
                json!({"env": "x"}),
                r#"invalid type for field "deploymentConfig.env": got string, want array"#,
            ),
            (
                json!({"env": [{"value": "x"}]}),
                r#"required field "name" is missing"#,
            ),
            (
                json!({"env": [{"name": 1}]}),
                r#"invalid type for field "deploymentConfig.env.0.name": got number, want string"#,
            ),
            (
                json!({"nodeSelector": {"a": 1}}),
                r#"invalid type for field "deploymentConfig.nodeSelector.a": got number, want string"#,
            ),
            (
                json!({"resources": {"limits": {"cpu": true}}}),
                r#"invalid type for field "deploymentConfig.resources.limits.cpu": got boolean, want string or number"#,
            ),
        ] {
            assert_eq!(refused(&[ALL], &json!({"deploymentConfig": config})), expected);
        }
    }
}
