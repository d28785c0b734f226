//! Prometheus metrics of catalogs. `docs/reference/metrics.md` lists them.

use olm_runtime::metrics::Metrics;
use olm_runtime::{NamespacedName, clock};

use crate::catalogs::{CatalogState, Catalogs};

/// Registers gauges that read the state of `catalogs` at each scrape.
pub(crate) fn register(metrics: &Metrics, catalogs: &Catalogs) {
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
        "Time since a catalog was last read whole, by CatalogSource",
        labels,
        told(|state| {
            let age = clock::now().duration_since(state.read_at?);
            Some(age.as_secs())
        }),
    );
    metrics.gauges(
        "olm_package_server_catalog_failing",
        "1 while a catalog cannot be read, so that what was read before is served; else 0",
        labels,
        told(|state| state.was_tried.then(|| i64::from(state.failure.is_some()))),
    );
    metrics.gauges(
        "olm_package_server_catalog_without_room",
        "1 while a catalog is not served, or not served anew, because there is no memory for it; else 0",
        labels,
        told(|state| state.was_tried.then(|| i64::from(state.has_no_room))),
    );
    metrics.gauges(
        "olm_package_server_catalog_bytes",
        "Memory that what is served of a catalog takes, about, in bytes",
        labels,
        told(|state| state.read_at.map(|_| number(state.bytes))),
    );
    metrics.gauges(
        "olm_package_server_left_out",
        "Packages and channels of a catalog that cannot be read",
        labels,
        told(|state| state.read_at.map(|_| number(state.left_out))),
    );
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
