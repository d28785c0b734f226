//! APIs that a ClusterServiceVersion declares as owned or required, and how consoles display them.

use serde_json::Value;

use crate::api_type::api_type;
use crate::sparse::List;

api_type! {
    /// Custom resources an operator brings or needs.
    pub struct CustomResourceDefinitions {
        /// Custom resources the operator brings.
        pub owned: List<CrdDescription>,
        /// Custom resources the operator needs another operator to bring.
        pub required: List<CrdDescription>,
    }
}

api_type! {
    /// One custom resource.
    pub struct CrdDescription {
        /// Name of the CustomResourceDefinition: plural and group, joined by a dot.
        pub name: String,
        /// Version of the API.
        pub version: String,
        /// Kind of the API.
        pub kind: String,
        /// Name of the kind for people.
        pub display_name: Option<String>,
        /// What the kind is for.
        pub description: Option<String>,
        /// Kinds of object the operator makes for one custom resource.
        pub resources: List<ApiResourceReference>,
        /// How consoles show and edit fields of the spec.
        pub spec_descriptors: List<Descriptor>,
        /// How consoles show fields of the status.
        pub status_descriptors: List<Descriptor>,
        /// Actions consoles offer.
        pub action_descriptors: List<Descriptor>,
    }
}

api_type! {
    /// Aggregated APIs an operator brings or needs.
    pub struct ApiServiceDefinitions {
        /// Aggregated APIs the operator serves.
        pub owned: List<ApiServiceDescription>,
        /// Aggregated APIs the operator needs another operator to serve.
        pub required: List<ApiServiceDescription>,
    }
}

api_type! {
    /// One aggregated API. Its APIService is called after version and group.
    pub struct ApiServiceDescription {
        /// Plural name of the resource.
        pub name: String,
        /// Group of the API.
        pub group: String,
        /// Version of the API.
        pub version: String,
        /// Kind of the API.
        pub kind: String,
        /// Deployment of the install strategy that serves the API.
        pub deployment_name: Option<String>,
        /// Port the API is served on, 443 when not set.
        pub container_port: Option<i32>,
        /// Name of the kind for people.
        pub display_name: Option<String>,
        /// What the kind is for.
        pub description: Option<String>,
        /// Kinds of object the operator makes for one object of the API.
        pub resources: List<ApiResourceReference>,
        /// How consoles show and edit fields of the spec.
        pub spec_descriptors: List<Descriptor>,
        /// How consoles show fields of the status.
        pub status_descriptors: List<Descriptor>,
        /// Actions consoles offer.
        pub action_descriptors: List<Descriptor>,
    }
}

impl ApiServiceDescription {
    /// Returns the name of the APIService object: `<version>.<group>`.
    pub fn api_service_name(&self) -> String {
        format!("{}.{}", self.version, self.group)
    }
}

api_type! {
    /// A kind of object an operator makes.
    pub struct ApiResourceReference {
        /// Plural name of the resource, may be empty.
        pub name: String,
        /// Kind of the object.
        pub kind: String,
        /// Version of the API.
        pub version: String,
    }
}

api_type! {
    /// How consoles treat one field or action.
    pub struct Descriptor {
        /// Path of the field below spec or status, or name of the action.
        pub path: String,
        /// Name of the field for people.
        pub display_name: Option<String>,
        /// What the field is for.
        pub description: Option<String>,
        /// How consoles render the field.
        #[serde(rename = "x-descriptors")]
        pub x_descriptors: List<String>,
        /// Value of the field, for descriptors that carry one.
        pub value: Option<Value>,
    }
}
