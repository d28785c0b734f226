//! APIs that a ClusterServiceVersion declares as owned or required, and how consoles display them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Extra;
use crate::decode::or_default;
use crate::sparse::List;

/// Custom resources an operator brings or needs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CustomResourceDefinitions {
    /// Custom resources the operator brings.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub owned: List<CrdDescription>,
    /// Custom resources the operator needs another operator to bring.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub required: List<CrdDescription>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// One custom resource.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CrdDescription {
    /// Name of the CustomResourceDefinition: plural and group, joined by a dot.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// Version of the API.
    #[serde(deserialize_with = "or_default")]
    pub version: String,
    /// Kind of the API.
    #[serde(deserialize_with = "or_default")]
    pub kind: String,
    /// Name of the kind for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// What the kind is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Kinds of object the operator makes for one custom resource.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub resources: List<ApiResourceReference>,
    /// How consoles show and edit fields of the spec.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub spec_descriptors: List<Descriptor>,
    /// How consoles show fields of the status.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub status_descriptors: List<Descriptor>,
    /// Actions consoles offer.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub action_descriptors: List<Descriptor>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// Aggregated APIs an operator brings or needs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ApiServiceDefinitions {
    /// Aggregated APIs the operator serves.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub owned: List<ApiServiceDescription>,
    /// Aggregated APIs the operator needs another operator to serve.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub required: List<ApiServiceDescription>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// One aggregated API. Its APIService is called after version and group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ApiServiceDescription {
    /// Plural name of the resource.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// Group of the API.
    #[serde(deserialize_with = "or_default")]
    pub group: String,
    /// Version of the API.
    #[serde(deserialize_with = "or_default")]
    pub version: String,
    /// Kind of the API.
    #[serde(deserialize_with = "or_default")]
    pub kind: String,
    /// Deployment of the install strategy that serves the API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deployment_name: Option<String>,
    /// Port the API is served on, 443 when not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_port: Option<i32>,
    /// Name of the kind for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// What the kind is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Kinds of object the operator makes for one object of the API.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub resources: List<ApiResourceReference>,
    /// How consoles show and edit fields of the spec.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub spec_descriptors: List<Descriptor>,
    /// How consoles show fields of the status.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub status_descriptors: List<Descriptor>,
    /// Actions consoles offer.
    #[serde(skip_serializing_if = "List::is_absent")]
    pub action_descriptors: List<Descriptor>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

impl ApiServiceDescription {
    /// Returns the name of the APIService object: `<version>.<group>`.
    pub fn api_service_name(&self) -> String {
        format!("{}.{}", self.version, self.group)
    }
}

/// A kind of object an operator makes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ApiResourceReference {
    /// Plural name of the resource, may be empty.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// Kind of the object.
    #[serde(deserialize_with = "or_default")]
    pub kind: String,
    /// Version of the API.
    #[serde(deserialize_with = "or_default")]
    pub version: String,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

/// How consoles treat one field or action.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Descriptor {
    /// Path of the field below spec or status, or name of the action.
    #[serde(deserialize_with = "or_default")]
    pub path: String,
    /// Name of the field for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// What the field is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// How consoles render the field.
    #[serde(rename = "x-descriptors", skip_serializing_if = "List::is_absent")]
    pub x_descriptors: List<String>,
    /// Value of the field, for descriptors that carry one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::bytes")]
    pub value: Option<Value>,
    /// Fields this version of the API does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}
