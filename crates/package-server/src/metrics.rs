//! Prometheus metrics of catalogs. `docs/reference/metrics.md` lists them.

use olm_runtime::metrics::Metrics;
use olm_runtime::{NamespacedName, clock};

use crate::catalogs::{CatalogState, Catalogs};

/// Registers the metrics of the process, and gauges that read the state of `catalogs` at each scrape.
pub(crate) fn register(metrics: &Metrics, catalogs: &Catalogs) {
    metrics.of_the_process();
    let told = |read: fn(&CatalogState) -> Option<i64>| {
        let catalogs = catalogs.clone();
        move || {
            let states = catalogs.states().into_iter();
            let figure = |(key, state): (NamespacedName, CatalogState)| {
                read(&state).map(|figure| ([key.namespace, key.name], figure))
            };
            states.filter_map(figure).collect()
        }
    };
    let labels = ["namespace", "catalog_source"];
    metrics.gauges(
        "olm_package_server_catalog_age_seconds",
        "Seconds since the catalog was last read completely, by CatalogSource",
        labels,
        told(|state| {
            let age = clock::now().duration_since(state.read_at?);
            Some(age.as_secs())
        }),
    );
    metrics.gauges(
        "olm_package_server_catalog_failing",
        "1 while a catalog cannot be read and its previous content is served; else 0",
        labels,
        told(|state| state.was_tried.then(|| i64::from(state.failure.is_some()))),
    );
    metrics.gauges(
        "olm_package_server_catalog_without_room",
        "1 while a catalog, or its new content, is not served because of the memory limit; else 0",
        labels,
        told(|state| state.was_tried.then(|| i64::from(state.has_no_room))),
    );
    metrics.gauges(
        "olm_package_server_catalog_bytes",
        "Estimated memory of a catalog's served content in bytes",
        labels,
        told(|state| state.read_at.map(|_| number(state.bytes))),
    );
    metrics.gauges(
        "olm_package_server_left_out",
        "Skipped packages and channels of a catalog, because they cannot be read",
        labels,
        told(|state| state.read_at.map(|_| number(state.left_out))),
    );
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::catalogs::Tcp;

    #[tokio::test]
    async fn the_build_and_the_process_are_among_the_metrics() {
        let metrics = Metrics::registered();
        register(
            &metrics,
            &Catalogs::new("olm", Duration::from_secs(60), Arc::new(Tcp)),
        );
        let text = metrics.text().unwrap();
        assert!(text.contains("\nolm_build_info{"), "{text}");
        #[cfg(target_os = "linux")]
        assert!(text.contains("\nprocess_resident_memory_bytes "), "{text}");
    }
}
