//! What is to be resolved in a namespace, and what it comes to.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt;
use olm_api::v1alpha1::{CatalogSource, Subscription, SubscriptionState, SubscriptionStatus};
use olm_resolver::{Catalog, CatalogKey, Problem};
use olm_runtime::NamespacedName;
use olm_runtime::error::ObserveError;
use olm_runtime::isolation;
use tokio::time::Instant;

use super::super::group_settings::GroupSettings;
use super::super::input::{ResolutionInput, installed_csv, mark_replaced, resolver_subscription};
use super::super::resolved::{self, Resolved};
use super::ResolutionReconciler;
use crate::debounce::debounce_left;
use crate::metrics;
use crate::snapshots::{Content, ContentState};
use crate::subscription::catalog_health;

/// Catalogs that have not come up yet.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pending {
    /// Whether there are any.
    pub(super) any: bool,
    /// Time for which to be silent about those being read.
    pub(super) reading: Option<Duration>,
}

impl ResolutionReconciler {
    pub(super) fn visible_sources(&self, namespace: &str) -> Vec<Arc<CatalogSource>> {
        let mut sources = self.stores.sources.list_in(namespace);
        if namespace != self.global_namespace {
            sources.extend(self.stores.sources.list_in(&self.global_namespace));
        }
        catalog_health::sort(&mut sources);
        sources
    }

    /// What is to be resolved, with the contents of catalogs by identity only, and which catalogs have yet to come up.
    pub(super) fn input(
        &self,
        namespace: &str,
        subscriptions: &[(Arc<Subscription>, SubscriptionStatus)],
        settings: &GroupSettings,
    ) -> (ResolutionInput, Pending) {
        let mut pending = Pending::default();
        let mut catalogs = Vec::new();
        let mut used = BTreeSet::new();
        for source in self.visible_sources(namespace) {
            let key = NamespacedName::from_object(source.as_ref());
            if settings.exclude_global && key.namespace != namespace {
                continue;
            }
            used.insert(key.clone());
            let content = match self.snapshots.get(&key, namespace) {
                // The object is new: what is known under its name is of an earlier one.
                _ if source
                    .status
                    .as_ref()
                    .is_none_or(|status| status.registry_service.is_none()) =>
                {
                    pending.any |= catalog_health::is_starting(&source);
                    Err(unreachable_text(&source))
                }
                ContentState::Known(id) => Ok(id),
                ContentState::Loading(since) => {
                    pending.any = true;
                    let left = debounce_left(since.elapsed());
                    pending.reading = pending.reading.max(left);
                    Err("its content is being read".to_owned())
                }
                ContentState::Failed(text) => Err(text),
                ContentState::Unreachable => {
                    // A catalog whose status knows nothing wrong is just being connected, after a start of this process.
                    pending.any |= catalog_health::is_starting(&source)
                        || catalog_health::unhealthy_reason(&source).is_none();
                    Err(unreachable_text(&source))
                }
            };
            let priority = source.spec.priority.unwrap_or(0);
            let priority = i32::try_from(priority).unwrap_or(if priority < 0 { i32::MIN } else { i32::MAX });
            catalogs.push((
                CatalogKey {
                    name: key.name,
                    namespace: key.namespace,
                },
                priority,
                content,
            ));
        }
        self.snapshots.retain(namespace, &used);
        let subscribed: Vec<_> = subscriptions
            .iter()
            .map(|(object, status)| resolver_subscription(object, status))
            .collect();
        let mut installed: Vec<_> = self
            .stores
            .csvs
            .list_in(namespace)
            .iter()
            .map(|csv| installed_csv(csv))
            .collect();
        mark_replaced(&mut installed, &subscribed);
        let input = ResolutionInput {
            subscriptions: subscribed,
            installed,
            operator_group: olm_resolver::OperatorGroup {
                fail_forward: settings.fail_forward,
                exclude_global_namespace: settings.exclude_global,
                ..olm_resolver::OperatorGroup::default()
            },
            catalogs,
            resolve: !subscriptions.iter().all(|(_, status)| is_on_its_way(status)),
        };
        (input, pending)
    }

    /// What the input comes to, from the cache or from the resolver. None when a content that was known is not there any more.
    pub(super) async fn resolve(
        &self,
        namespace: &str,
        input: ResolutionInput,
    ) -> Result<Option<Arc<Resolved>>, ObserveError> {
        if let Some(resolved) = self.cache.get(namespace, &input) {
            return Ok(Some(resolved));
        }
        let mut catalogs = Vec::new();
        let mut missing = false;
        for (key, priority, content) in &input.catalogs {
            let source = NamespacedName::new(&key.namespace, &key.name);
            let content = match content {
                Ok(id) => match self.snapshots.content(&source, *id) {
                    Content::Here(content) => Ok(content),
                    // The input says that it is there: what is resolved without it would be for another input.
                    Content::Absent => {
                        missing = true;
                        continue;
                    }
                },
                Err(text) => Err(text.clone()),
            };
            catalogs.push(Catalog {
                key: key.clone(),
                priority: *priority,
                content,
            });
        }
        if missing {
            return Ok(None);
        }
        let problem = Problem {
            namespace: namespace.to_owned(),
            global_namespace: self.global_namespace.clone(),
            subscriptions: input.subscriptions.clone(),
            installed: input.installed.clone(),
            catalogs,
            operator_group: input.operator_group.clone(),
            runtime_constraints: self.runtime_constraints.clone().unwrap_or_default(),
        };
        let of = input.clone();
        let began = Instant::now();
        let (resolved, excluded) =
            isolation::blocking_in_round(move || resolved::resolve(&of, &problem)).await;
        if input.resolve {
            let failed = resolved.error.is_some() || !resolved.failures.is_empty();
            let outcome = if failed {
                metrics::FAILED
            } else {
                metrics::SUCCEEDED
            };
            self.durations.observe(outcome, began.elapsed());
        }
        for text in excluded {
            tracing::warn!(namespace, "{text}");
        }
        let resolved = Arc::new(resolved);
        self.cache.insert(namespace, input, Arc::clone(&resolved));
        Ok(Some(resolved))
    }
}

/// Whether a Subscription waits for its plan, so that it needs no resolution.
fn is_on_its_way(status: &SubscriptionStatus) -> bool {
    status.install_plan_ref.is_some() && status.state == SubscriptionState::UpgradePending
}

/// Why a catalog without connection and without content cannot be used: upstream's words, and the catalog's own.
fn unreachable_text(source: &CatalogSource) -> String {
    let name = format!("{}/{}", source.namespace().unwrap_or_default(), source.name_any());
    let unhealthy_reason = catalog_health::unhealthy_reason(source)
        .unwrap_or_else(|| "its connection is not made yet".to_owned());
    format!("no registry client established for catalogsource {name}: {unhealthy_reason}")
}
