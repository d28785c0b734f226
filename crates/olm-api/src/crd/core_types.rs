//! Properties of core Kubernetes types that the API server must know beyond their OpenAPI form.
//!
//! `k8s-openapi` gives the fields of a core type, not the markers Kubernetes keeps in its Go source. The markers define which
//! lists merge by key, which maps are replaced as a whole, and which fields get a default. They matter to clients that edit our
//! objects with server-side apply, and clusters have them today. The rules:
//!
//! 1. A list is atomic, unless [`KEYED_LISTS`] names the keys its items merge by, or [`SET_LISTS`] makes it a set.
//! 2. A type in [`ATOMIC_TYPES`], and the map [`ATOMIC_MAP`], is replaced as a whole.
//! 3. A field in [`DEFAULTS`] gets that default. The name of a referenced object defaults to empty text and is then no
//!    longer required.
//! 4. A quantity is a number or a text of a certain pattern, an int-or-string either.
//! 5. Metadata inside a pod template keeps whatever it has; inside a volume claim template it keeps nothing.
//! 6. Conditions are checked as Kubernetes checks its own.
//!
//! Fields newer than the Kubernetes version of `k8s-openapi` are missing; decision record 0002.

use serde_json::{Value, json};

use crate::schema::{CONDITION_REASON_PATTERN, CONDITION_TYPE_PATTERN};

const QUANTITY_PATTERN: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// Type, list and the fields that identify an item of the list.
const KEYED_LISTS: [(&str, &str, &[&str]); 18] = [
    ("Container", "env", &["name"]),
    ("Container", "ports", &["containerPort", "protocol"]),
    ("Container", "volumeDevices", &["devicePath"]),
    ("Container", "volumeMounts", &["mountPath"]),
    ("EphemeralContainer", "env", &["name"]),
    ("EphemeralContainer", "ports", &["containerPort", "protocol"]),
    ("EphemeralContainer", "volumeDevices", &["devicePath"]),
    ("EphemeralContainer", "volumeMounts", &["mountPath"]),
    ("PodSpec", "containers", &["name"]),
    ("PodSpec", "ephemeralContainers", &["name"]),
    ("PodSpec", "hostAliases", &["ip"]),
    ("PodSpec", "imagePullSecrets", &["name"]),
    ("PodSpec", "initContainers", &["name"]),
    ("PodSpec", "resourceClaims", &["name"]),
    ("PodSpec", "schedulingGates", &["name"]),
    (
        "PodSpec",
        "topologySpreadConstraints",
        &["topologyKey", "whenUnsatisfiable"],
    ),
    ("PodSpec", "volumes", &["name"]),
    ("ResourceRequirements", "claims", &["name"]),
];

/// Type and list whose items are unique.
const SET_LISTS: [(&str, &str); 1] = [("ContainerRestartRuleOnExitCodes", "values")];

/// Types that are replaced as a whole.
const ATOMIC_TYPES: [&str; 16] = [
    "ConfigMapEnvSource",
    "ConfigMapKeySelector",
    "ConfigMapProjection",
    "ConfigMapVolumeSource",
    "FileKeySelector",
    "LabelSelector",
    "LocalObjectReference",
    "NodeSelector",
    "NodeSelectorTerm",
    "ObjectFieldSelector",
    "ObjectReference",
    "ResourceFieldSelector",
    "SecretEnvSource",
    "SecretKeySelector",
    "SecretProjection",
    "TypedLocalObjectReference",
];

/// Type and map that is replaced as a whole.
const ATOMIC_MAP: (&str, &str) = ("PodSpec", "nodeSelector");

/// Types that refer to another object of the same namespace by name; the name defaults to empty text.
const NAME_REFERENCES: [&str; 8] = [
    "ConfigMapEnvSource",
    "ConfigMapKeySelector",
    "ConfigMapProjection",
    "ConfigMapVolumeSource",
    "LocalObjectReference",
    "SecretEnvSource",
    "SecretKeySelector",
    "SecretProjection",
];

/// Type, field and the text it defaults to.
const DEFAULTS: [(&str, &str, &str); 10] = [
    ("AzureDiskVolumeSource", "fsType", "ext4"),
    ("ContainerPort", "protocol", "TCP"),
    ("GRPCAction", "service", ""),
    ("HostAlias", "ip", ""),
    ("ISCSIVolumeSource", "iscsiInterface", "default"),
    ("RBDVolumeSource", "keyring", "/etc/ceph/keyring"),
    ("RBDVolumeSource", "pool", "rbd"),
    ("RBDVolumeSource", "user", "admin"),
    ("ScaleIOVolumeSource", "fsType", "xfs"),
    ("ScaleIOVolumeSource", "storageMode", "ThinProvisioned"),
];

/// Type and switch that defaults to off.
const OFF_BY_DEFAULT: [(&str, &str); 2] = [
    ("AzureDiskVolumeSource", "readOnly"),
    ("FileKeySelector", "optional"),
];

/// Returns true for the definition name of a core type.
pub(super) fn is_core(name: &str) -> bool {
    name.starts_with("io.k8s.")
}

/// Adds what the rules above require to the schema of a core type.
pub(super) fn refine(name: &str, schema: &mut Value) {
    let short = name.rsplit('.').next().unwrap_or(name);
    match short {
        "Quantity" => {
            *schema = json!({
                "anyOf": [{"type": "integer"}, {"type": "string"}],
                "pattern": QUANTITY_PATTERN,
                "x-kubernetes-int-or-string": true,
            });
        }
        "IntOrString" => {
            *schema = json!({
                "anyOf": [{"type": "integer"}, {"type": "string"}],
                "x-kubernetes-int-or-string": true,
            });
        }
        "ObjectMeta" => *schema = json!({"type": "object"}),
        "PodTemplateSpec" => {
            schema["properties"]["metadata"]["x-kubernetes-preserve-unknown-fields"] = true.into();
        }
        "Condition" => check_conditions(schema),
        _ => refine_fields(short, schema),
    }
}

fn refine_fields(short: &str, schema: &mut Value) {
    if ATOMIC_TYPES.contains(&short) {
        schema["x-kubernetes-map-type"] = "atomic".into();
    }
    if NAME_REFERENCES.contains(&short) {
        schema["properties"]["name"]["default"] = "".into();
        drop_requirement(schema, "name");
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for (field, property) in properties {
            refine_field(short, field, property);
        }
    }
}

fn refine_field(short: &str, field: &str, property: &mut Value) {
    if property["type"] == "array" {
        let keys = KEYED_LISTS
            .iter()
            .find(|(type_, list, _)| (*type_, *list) == (short, field));
        let list_type = match keys {
            Some((_, _, keys)) => {
                property["x-kubernetes-list-map-keys"] = json!(keys);
                "map"
            }
            None if SET_LISTS.contains(&(short, field)) => "set",
            None => "atomic",
        };
        property["x-kubernetes-list-type"] = list_type.into();
    }
    if ATOMIC_MAP == (short, field) {
        property["x-kubernetes-map-type"] = "atomic".into();
    }
    if let Some((_, _, default)) = DEFAULTS
        .iter()
        .find(|(type_, name, _)| (*type_, *name) == (short, field))
    {
        property["default"] = (*default).into();
    }
    if OFF_BY_DEFAULT.contains(&(short, field)) {
        property["default"] = false.into();
    }
}

fn check_conditions(schema: &mut Value) {
    let properties = &mut schema["properties"];
    properties["type"]["maxLength"] = 316.into();
    properties["type"]["pattern"] = CONDITION_TYPE_PATTERN.into();
    properties["status"]["enum"] = json!(["True", "False", "Unknown"]);
    properties["reason"]["minLength"] = 1.into();
    properties["reason"]["maxLength"] = 1024.into();
    properties["reason"]["pattern"] = CONDITION_REASON_PATTERN.into();
    properties["message"]["maxLength"] = 32768.into();
    properties["observedGeneration"]["minimum"] = 0.into();
}

fn drop_requirement(schema: &mut Value, field: &str) {
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        required.retain(|name| name != field);
        if required.is_empty()
            && let Value::Object(schema) = schema
        {
            schema.remove("required");
        }
    }
}
