//! ClusterCatalog: a catalog image whose content is served over HTTP in the cluster.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use super::rule;
use crate::api_type::{api_kind, api_type};
use crate::open_enum::open_enum;
use crate::sparse::List;

open_enum! {
    /// Type of a catalog's source.
    pub enum CatalogSourceType {
        /// An image in a registry.
        Image = "Image",
    }
}

open_enum! {
    /// Whether a catalog is served.
    pub enum AvailabilityMode {
        /// Its content is served.
        Available = "Available",
        /// Its content is removed from the cluster.
        Unavailable = "Unavailable",
    }
}

api_kind! {
    /// Source of the catalog and how it is used.
    #[kube(
        group = "olm.operatorframework.io",
        version = "v1",
        kind = "ClusterCatalog",
        plural = "clustercatalogs",
        singular = "clustercatalog",
        status = "ClusterCatalogStatus",
        doc = "A file-based catalog in an image, whose content is served in the cluster.",
        printcolumn = r#"{"name":"LastUnpacked","type":"date","jsonPath":".status.lastUnpacked"}"#,
        printcolumn = r#"{"name":"Serving","type":"string","jsonPath":".status.conditions[?(@.type==\"Serving\")].status"}"#,
        printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
    )]
    pub struct ClusterCatalogSpec {
        /// Source of the catalog's content.
        pub source: ClusterCatalogSource,
        /// Rank among catalogs that offer the same package; the higher number is preferred.
        #[schemars(extend("minimum" = i32::MIN, "maximum" = i32::MAX, "x-default" = 0))]
        pub priority: Option<i32>,
        /// Available serves the content. Unavailable deletes it from the cluster and keeps the object.
        #[schemars(extend("enum" = ["Unavailable", "Available"], "x-default" = "Available"))]
        pub availability_mode: Option<AvailabilityMode>,
    }
}

impl ClusterCatalogSpec {
    /// Returns true if the content is to be removed.
    pub fn is_switched_off(&self) -> bool {
        self.availability_mode == Some(AvailabilityMode::Unavailable)
    }
}

api_type! {
    /// Source of a catalog's content.
    #[schemars(extend("x-kubernetes-validations" = source_rules()))]
    pub struct ClusterCatalogSource {
        /// Type of the source.
        #[serde(rename = "type")]
        #[schemars(extend("enum" = ["Image"]))]
        pub type_: CatalogSourceType,
        /// Image with the catalog, for the type Image.
        pub image: Option<ImageSource>,
    }
}

api_type! {
    /// An image with a file-based catalog.
    #[schemars(extend("x-kubernetes-validations" = [rule(
        "self.ref.find('(@.*:)') != \"\" ? !has(self.pollIntervalMinutes) : true",
        "cannot specify pollIntervalMinutes while using digest-based image",
    )]))]
    pub struct ImageSource {
        /// Reference of the image, with registry and with tag or digest.
        #[serde(rename = "ref")]
        #[schemars(extend("maxLength" = 1000, "x-kubernetes-validations" = reference_rules()))]
        pub reference: String,
        /// Minutes between two looks for other content behind the tag. Without it the registry is not polled.
        #[schemars(schema_with = "positive_integer")]
        pub poll_interval_minutes: Option<i64>,
    }
}

api_type! {
    /// State of the catalog.
    pub struct ClusterCatalogStatus {
        /// Conditions Progressing and Serving.
        #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
        pub conditions: List<Condition>,
        /// Source of the served content.
        pub resolved_source: Option<ResolvedCatalogSource>,
        /// Addresses at which the content is served.
        pub urls: Option<ClusterCatalogUrls>,
        /// When the served content was unpacked.
        pub last_unpacked: Option<Time>,
    }
}

api_type! {
    /// Source of the content that is served.
    #[schemars(extend("x-kubernetes-validations" = source_rules()))]
    pub struct ResolvedCatalogSource {
        /// Type of the source.
        #[serde(rename = "type")]
        #[schemars(extend("enum" = ["Image"]))]
        pub type_: CatalogSourceType,
        /// Image with the content.
        pub image: ResolvedImageSource,
    }
}

api_type! {
    /// An image by digest.
    pub struct ResolvedImageSource {
        /// Reference of the image by digest.
        #[serde(rename = "ref")]
        #[schemars(extend("maxLength" = 1000, "x-kubernetes-validations" = resolved_reference_rules()))]
        pub reference: String,
    }
}

api_type! {
    /// Addresses at which a catalog is served.
    pub struct ClusterCatalogUrls {
        /// URL below which the API is served: `api/v1/all` and `api/v1/metas`.
        #[schemars(extend("maxLength" = 525, "x-kubernetes-validations" = url_rules()))]
        pub base: String,
    }
}

fn positive_integer(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer", "minimum": 1})
}

fn source_rules() -> Value {
    json!([rule(
        "has(self.type) && self.type == 'Image' ? has(self.image) : !has(self.image)",
        "image is required when source type is Image, and forbidden otherwise",
    )])
}

fn reference_rules() -> Value {
    let [domain, name] = repository_rules();
    let [algorithm, length, hex] = digest_rules();
    let end = rule(
        r#"self.find('(@.*:)') != "" || self.find(':.*$') != """#,
        "must end with a digest or a tag",
    );
    let tag_length = rule(
        r#"self.find('(@.*:)') == "" ? (self.find(':.*$') != "" ? self.find(':.*$').substring(1).size() <= 127 : true) : true"#,
        "tag is invalid. the tag must not be more than 127 characters",
    );
    let tag = rule(
        r#"self.find('(@.*:)') == "" ? (self.find(':.*$') != "" ? self.find(':.*$').matches(':[\\w][\\w.-]*$') : true) : true"#,
        "tag is invalid. valid tags must begin with a word character (alphanumeric + \"_\") followed by word characters or \".\", and \"-\" characters",
    );
    json!([domain, name, end, tag_length, tag, algorithm, length, hex])
}

fn resolved_reference_rules() -> Value {
    let [domain, name] = repository_rules();
    let [algorithm, length, hex] = digest_rules();
    let end = rule(r#"self.find('(@.*:)') != """#, "must end with a digest");
    json!([domain, name, end, algorithm, length, hex])
}

fn repository_rules() -> [Value; 2] {
    [
        rule(
            r"self.matches('^([a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])((\\.([a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9]))+)?(:[0-9]+)?\\b')",
            "must start with a valid domain. valid domains must be alphanumeric characters (lowercase and uppercase) separated by the \".\" character.",
        ),
        rule(
            r#"self.find('(\\/[a-z0-9]+((([._]|__|[-]*)[a-z0-9]+)+)?((\\/[a-z0-9]+((([._]|__|[-]*)[a-z0-9]+)+)?)+)?)') != """#,
            "a valid name is required. valid names must contain lowercase alphanumeric characters separated only by the \".\", \"_\", \"__\", \"-\" characters.",
        ),
    ]
}

fn digest_rules() -> [Value; 3] {
    [
        rule(
            r#"self.find('(@.*:)') != "" ? self.find('(@.*:)').matches('(@[A-Za-z][A-Za-z0-9]*([-_+.][A-Za-z][A-Za-z0-9]*)*[:])') : true"#,
            "digest algorithm is not valid. valid algorithms must start with an uppercase or lowercase alpha character followed by alphanumeric characters and may contain the \"-\", \"_\", \"+\", and \".\" characters.",
        ),
        rule(
            r#"self.find('(@.*:)') != "" ? self.find(':.*$').substring(1).size() >= 32 : true"#,
            "digest is not valid. the encoded string must be at least 32 characters",
        ),
        rule(
            r#"self.find('(@.*:)') != "" ? self.find(':.*$').matches(':[0-9A-Fa-f]*$') : true"#,
            "digest is not valid. the encoded string must only contain hex characters (A-F, a-f, 0-9)",
        ),
    ]
}

fn url_rules() -> Value {
    json!([
        rule("isURL(self)", "must be a valid URL"),
        rule(
            r#"isURL(self) ? (url(self).getScheme() == "http" || url(self).getScheme() == "https") : true"#,
            "scheme must be either http or https",
        ),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The API server writes defaults, but objects from before a default have none.
    #[test]
    fn a_catalog_is_available_unless_it_says_otherwise() {
        for (mode, is_switched_off) in [
            (Value::Null, false),
            (json!("Available"), false),
            (json!("Unavailable"), true),
        ] {
            let object = json!({
                "apiVersion": crate::extension_v1::API_VERSION, "kind": "ClusterCatalog", "metadata": {"name": "a"},
                "spec": {"availabilityMode": mode, "source": {"type": "Image", "image": {"ref": "quay.io/a/b:v1"}}},
            });
            let catalog: ClusterCatalog = serde_json::from_value(object).unwrap();
            assert_eq!(catalog.spec.is_switched_off(), is_switched_off, "{mode}");
            let image = catalog.spec.source.image.unwrap();
            assert_eq!(image.reference, "quay.io/a/b:v1");
            assert_eq!(image.poll_interval_minutes, None);
        }
    }

    #[test]
    fn unknown_fields_survive() {
        let object = json!({
            "apiVersion": crate::extension_v1::API_VERSION, "kind": "ClusterCatalog", "metadata": {"name": "a"},
            "spec": {
                "source": {"type": "Image", "image": {"ref": "quay.io/a/b:v1", "pollIntervalMinutes": 5, "x": 1}, "y": 2},
                "priority": -1, "availabilityMode": "Sometimes", "z": {},
            },
            "status": {
                "conditions": [], "lastUnpacked": "2026-01-01T00:00:00Z", "u": 1,
                "resolvedSource": {"type": "Image", "image": {"ref": "quay.io/a/b@sha256:00", "v": 1}, "w": 1},
                "urls": {"base": "https://a", "x": 1},
            },
        });
        let catalog: ClusterCatalog = serde_json::from_value(object.clone()).unwrap();
        assert_eq!(serde_json::to_value(&catalog).unwrap(), object);
    }
}
