//! The relevant parts of a CatalogSource: facts about its catalog, and its registry.

use olm_api::v1alpha1::CatalogSource;
use olm_runtime::{NamespacedName, Timestamp};

use crate::index::CatalogFacts;

/// State of a working connection, as the catalog operator reports it.
const READY: &str = "READY";

/// The registry of a catalog, with the fields that change when its content may have changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Target {
    /// `host:port`; `None` until it is known.
    pub address: Option<String>,
    /// The served ConfigMap, and the Service in front of the registry.
    identity: [Option<String>; 3],
    /// Start of the catalog operator's connection, if it is connected.
    connected: Option<Timestamp>,
}

impl Target {
    /// Returns the target in a CatalogSource.
    pub fn of(source: &CatalogSource) -> Self {
        let spec_address = source
            .spec
            .address
            .as_deref()
            .filter(|address| !address.is_empty());
        let status = source.status.as_ref();
        let service = status.and_then(|status| status.registry_service.as_ref());
        let service_address = service.and_then(|service| {
            let name = service.service_name.as_deref().filter(|name| !name.is_empty())?;
            let namespace = service.service_namespace.as_deref()?;
            let port = service.port.as_deref()?;
            Some(format!("{name}.{namespace}.svc:{port}"))
        });
        let config_map = status.and_then(|status| status.config_map_reference.as_ref());
        let connection = status.and_then(|status| status.connection_state.as_ref());
        let connected = connection
            .filter(|connection| connection.last_observed_state == READY)
            .and_then(|connection| connection.last_connect.as_ref());
        Self {
            address: spec_address.map(str::to_owned).or(service_address),
            identity: [
                service
                    .and_then(|service| service.created_at.as_ref())
                    .map(|time| time.0.to_string()),
                config_map.and_then(|reference| reference.uid.clone()),
                config_map.and_then(|reference| reference.resource_version.clone()),
            ],
            connected: connected.map(|time| time.0),
        }
    }

    /// Returns whether the content may have changed since `read` was read, beginning at `began`. A connection
    /// of the catalog operator that is older than the read is no news. Its loss is no news either: our own
    /// connection still lives.
    pub(super) fn is_news(&self, read: &Self, began: Timestamp) -> bool {
        self.address != read.address
            || self.identity != read.identity
            || self.connected.is_some_and(|connected| connected > began)
    }
}

/// Returns a CatalogSource's facts about its catalog.
pub(super) fn facts(source: &CatalogSource) -> CatalogFacts {
    CatalogFacts {
        key: NamespacedName::from_object(source),
        priority: source.spec.priority.unwrap_or_default(),
        created: source.metadata.creation_timestamp.as_ref().map(|time| time.0),
        labels: source.metadata.labels.clone().unwrap_or_default(),
        display_name: source.spec.display_name.clone().unwrap_or_default(),
        publisher: source.spec.publisher.clone().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn target(spec: &Value, status: &Value) -> Target {
        let source = json!({"metadata": {"name": "cat", "namespace": "ns"}, "spec": spec, "status": status});
        Target::of(&serde_json::from_value(source).unwrap())
    }

    fn service(connected: &str, state: &str) -> Value {
        json!({
            "registryService": {"serviceName": "cat", "serviceNamespace": "ns", "port": "50051",
                "createdAt": "2026-01-01T00:00:00Z"},
            "connectionState": {"lastObservedState": state, "lastConnect": connected},
        })
    }

    #[test]
    fn the_registry_is_where_the_source_says() {
        let of_status = service("2026-01-01T00:00:00Z", READY);
        let address = |spec: Value, status: Value| target(&spec, &status).address;
        assert_eq!(
            address(json!({}), of_status.clone()).as_deref(),
            Some("cat.ns.svc:50051")
        );
        let outside = json!({"address": "registry.example:443"});
        assert_eq!(
            address(outside, of_status).as_deref(),
            Some("registry.example:443")
        );
        assert_eq!(address(json!({"address": ""}), json!({})), None);
        assert_eq!(
            address(json!({}), json!({"registryService": {"serviceName": ""}})),
            None
        );
    }

    #[test]
    fn only_what_may_mean_another_content_is_news() {
        let began: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let of = |connected: &str, state: &str| target(&json!({}), &service(connected, state));
        let read = of("2026-01-01T00:00:30Z", READY);
        assert!(!read.is_news(&read, began));
        assert!(!of("2026-01-01T00:00:40Z", READY).is_news(&read, began));
        assert!(!of("2026-01-01T00:02:00Z", "TRANSIENT_FAILURE").is_news(&read, began));
        assert!(of("2026-01-01T00:02:00Z", READY).is_news(&read, began));
        let elsewhere = target(
            &json!({"address": "x:1"}),
            &service("2026-01-01T00:00:30Z", READY),
        );
        assert!(elsewhere.is_news(&read, began));
        let mut other_map = service("2026-01-01T00:00:30Z", READY);
        other_map["configMapReference"] = json!({"name": "m", "namespace": "ns", "resourceVersion": "7"});
        assert!(target(&json!({}), &other_map).is_news(&read, began));
    }
}
