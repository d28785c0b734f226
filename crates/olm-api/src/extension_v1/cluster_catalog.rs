//! ClusterCatalog: a catalog image whose content is served over HTTP in the cluster.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

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
        status = "ClusterCatalogStatus",
        doc = "A file-based catalog in an image, whose content is served in the cluster."
    )]
    pub struct ClusterCatalogSpec {
        /// Source of the catalog's content.
        pub source: ClusterCatalogSource,
        /// Rank among catalogs that offer the same package; the higher number is preferred.
        pub priority: Option<i32>,
        /// Available serves the content. Unavailable deletes it from the cluster and keeps the object.
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
    pub struct ClusterCatalogSource {
        /// Type of the source.
        #[serde(rename = "type")]
        pub type_: CatalogSourceType,
        /// Image with the catalog, for the type Image.
        pub image: Option<ImageSource>,
    }
}

api_type! {
    /// An image with a file-based catalog.
    pub struct ImageSource {
        /// Reference of the image, with registry and with tag or digest.
        #[serde(rename = "ref")]
        pub reference: String,
        /// Minutes between two looks for other content behind the tag. Without it the registry is not polled.
        pub poll_interval_minutes: Option<i64>,
    }
}

api_type! {
    /// State of the catalog.
    pub struct ClusterCatalogStatus {
        /// Conditions Progressing and Serving.
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
    pub struct ResolvedCatalogSource {
        /// Type of the source.
        #[serde(rename = "type")]
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
        pub reference: String,
    }
}

api_type! {
    /// Addresses at which a catalog is served.
    pub struct ClusterCatalogUrls {
        /// URL below which the API is served: `api/v1/all` and `api/v1/metas`.
        pub base: String,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

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
