//! The watched objects, pruned of unused fields.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::core::{ApiResource, DynamicObject};
use olm_api::v1::{OLM_CONFIG_NAME, OLMConfig};
use olm_api::v1alpha1::CatalogSource;
use olm_runtime::store::{Change, OnDemand, Projected, Projection, Scope, Store, StoreSet, Watch, WatchUser};
use tokio::sync::watch;

use crate::front_proxy::{self, CONFIG_NAME, CONFIG_NAMESPACE, FrontProxy};
use crate::readiness::Readiness;

/// Adds the watch of CatalogSources, for their registries and names.
pub(crate) fn catalog_sources(set: &mut StoreSet, client: &Client) -> Store<CatalogSource> {
    set.add(Watch::new(client).prune(|source: &mut CatalogSource| {
        source.metadata.annotations = None;
        source.metadata.owner_references = None;
        source.spec.icon = None;
        source.spec.description = None;
        source.spec.secrets = Vec::new().into();
        source.spec.grpc_pod_config = None;
        source.spec.update_strategy = None;
        source.spec.extra = BTreeMap::new();
        if let Some(status) = &mut source.status {
            status.message = None;
            status.conditions = Vec::new().into();
            status.extra = BTreeMap::new();
        }
    }))
}

/// Calls `set_interval` with the interval in OLMConfig `cluster`, if any, whenever it changes.
pub(crate) fn olm_config(
    set: &mut StoreSet,
    client: &Client,
    set_interval: impl Fn(Option<&str>) + Send + Sync + 'static,
) {
    let configs: Store<OLMConfig> = set.add(Watch::new(client));
    configs.on_change(move |change| {
        let (config, is_there) = match change {
            Change::Applied { new, .. } => (new, true),
            Change::Deleted { old } => (old, false),
        };
        if config.metadata.name.as_deref() == Some(OLM_CONFIG_NAME) {
            let features = config.spec.features.as_ref().filter(|_| is_there);
            set_interval(features.and_then(|features| features.package_server_sync_interval.as_deref()));
        }
    });
}

/// The settings for recognising the API server, from a ConfigMap.
#[derive(Debug, Clone)]
pub(crate) struct Settings(Result<Arc<FrontProxy>, String>);

impl Projection for Settings {
    type Object = DynamicObject;

    fn of(object: DynamicObject) -> Self {
        let text =
            |(key, value): (&String, &serde_json::Value)| Some((key.clone(), value.as_str()?.to_owned()));
        let data = object.data["data"].as_object();
        let data = data
            .map(|data| data.iter().filter_map(text).collect())
            .unwrap_or_default();
        Self(FrontProxy::parse(&data).map(Arc::new))
    }
}

/// Follows the ConfigMap with the settings for recognising the API server. While it is missing or invalid,
/// the previous settings apply. The watch lasts as long as the result.
pub(crate) fn front_proxy(
    set: &StoreSet,
    client: &Client,
    known: watch::Sender<front_proxy::FrontProxyConfig>,
    readiness: Readiness,
) -> WatchUser<Settings> {
    let watches: OnDemand<Settings> = set.on_demand(client);
    watches.on_change(move |_, change: &Change<Projected<Settings>>| {
        let Change::Applied { new, .. } = change else {
            tracing::warn!("front proxy settings of the API server were deleted, keeping the last ones");
            return;
        };
        match &new.0 {
            Ok(settings) => {
                known.send_if_modified(|known| {
                    let is_other = known.as_ref() != Some(settings);
                    *known = Some(Arc::clone(settings));
                    is_other
                });
                readiness.knows_front_proxy();
            }
            Err(error) => tracing::error!(%error, "invalid front proxy settings of the API server"),
        }
    });
    let scope = Scope {
        api: ApiResource::erase::<ConfigMap>(&()),
        namespace: Some(CONFIG_NAMESPACE.to_owned()),
        name: Some(CONFIG_NAME.to_owned()),
        label: None,
    };
    watches.user(&scope)
}
