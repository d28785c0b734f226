//! The input of a namespace's resolution, and its result.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::ResourceExt;
use olm_api::condition::catalog_source::READY;
use olm_api::v1alpha1::{CatalogSource, Subscription, SubscriptionState, SubscriptionStatus};
use olm_fbc::entry::Deprecation;
use olm_resolver::{Catalog, CatalogKey, Problem};
use olm_runtime::NamespacedName;
use olm_runtime::isolation;

use super::super::group_settings::GroupSettings;
use super::super::input::{
    CatalogInput, ResolutionInput, installed_csv, mark_replaced, resolver_subscription,
};
use super::super::resolved::{self, Resolved};
use super::ResolutionReconciler;
use crate::metrics;
use crate::snapshots::{Content, ContentState};
use crate::subscription::catalog_health;
use crate::subscription::install_plan::referenced;
use crate::timing::debounce_left;
use crate::upgrade_policy::waits_by_policy;

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

    /// Returns the input of the resolution, and the catalogs that are still starting.
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
            let state = self.snapshots.get(&key, namespace);
            // The object is new: the content under its name belongs to an earlier one.
            let is_new = source
                .status
                .as_ref()
                .is_none_or(|status| status.registry_service.is_none());
            let last = match &state {
                ContentState::Known(content) if !is_new => Some(content.clone()),
                _ => None,
            };
            let content = match state {
                _ if is_new => {
                    pending.any |= catalog_health::is_starting(&source);
                    Err(unreachable_text(&source))
                }
                // Nothing is installed from a catalog that is not READY, even if its content is known (decision record 0008).
                ContentState::Known(content) if self.is_ready(&source, &key) => Ok(content),
                ContentState::Loading(since) => {
                    pending.any = true;
                    let left = debounce_left(since.elapsed());
                    pending.reading = pending.reading.max(left);
                    Err("its content is being read".to_owned())
                }
                ContentState::Failed(text) => Err(text),
                ContentState::Known(_) | ContentState::Unreachable => {
                    // A catalog without an error in its status is still being connected, after a start of this process.
                    pending.any |= catalog_health::is_starting(&source)
                        || catalog_health::unhealthy_reason(&source).is_none();
                    Err(unreachable_text(&source))
                }
            };
            let priority = source.spec.priority.unwrap_or(0);
            let priority = i32::try_from(priority).unwrap_or(if priority < 0 { i32::MIN } else { i32::MAX });
            catalogs.push(CatalogInput {
                key: CatalogKey {
                    name: key.name,
                    namespace: key.namespace,
                },
                priority,
                last: last.filter(|_| content.is_err()),
                content,
            });
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
            resolve: !subscriptions
                .iter()
                .all(|(_, status)| self.is_on_its_way(namespace, status)),
        };
        (input, pending)
    }

    /// What catalogs say of the installed versions where nothing is resolved: that does not depend on the OperatorGroup.
    pub(super) async fn deprecations(
        &self,
        namespace: &str,
        subscriptions: &[(Arc<Subscription>, SubscriptionStatus)],
    ) -> BTreeMap<String, Deprecation> {
        if subscriptions
            .iter()
            .all(|(_, status)| status.installed_csv.is_none())
        {
            return BTreeMap::new();
        }
        let (input, _) = self.input(namespace, subscriptions, &GroupSettings::default());
        let input = ResolutionInput {
            resolve: false,
            ..input
        };
        self.resolve(namespace, input).await.deprecations.clone()
    }

    /// Returns the result for the input, from the cache or from the resolver.
    pub(super) async fn resolve(&self, namespace: &str, input: ResolutionInput) -> Arc<Resolved> {
        let known = {
            let cache = self.cache.lock();
            let known = cache.get(namespace).filter(|(known, _)| *known == input);
            known.map(|(_, resolved)| Arc::clone(resolved))
        };
        if let Some(resolved) = known {
            return resolved;
        }
        let problem = self.problem(namespace, &input, |catalog| catalog.content.clone());
        // The same with what catalogs had that nothing can be installed from now.
        let known = |catalog: &CatalogInput| catalog.last.clone().map_or_else(|| catalog.content.clone(), Ok);
        let has_last = input.catalogs.iter().any(|catalog| catalog.last.is_some());
        let last = has_last.then(|| self.problem(namespace, &input, known));
        let of = input.clone();
        // Measured in real time, because tests pause the clock.
        let began = Instant::now();
        let (resolved, excluded) =
            isolation::blocking_in_round(move || resolved::resolve(&of, &problem, last.as_ref())).await;
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
        let entry = (input, Arc::clone(&resolved));
        self.cache.lock().insert(namespace.to_owned(), entry);
        resolved
    }

    /// Whether a Subscription waits for its plan, so that it needs no resolution. A plan that begins by itself some day is to have
    /// what the Subscription asks for then.
    fn is_on_its_way(&self, namespace: &str, status: &SubscriptionStatus) -> bool {
        let plan = || self.stores.plans.get(namespace, referenced(status)?);
        status.install_plan_ref.is_some()
            && status.state == SubscriptionState::UpgradePending
            && !plan().is_some_and(|plan| waits_by_policy(&plan))
    }

    /// True if a catalog is READY, and its server connected. An invalid spec does not change the server.
    fn is_ready(&self, source: &CatalogSource, key: &NamespacedName) -> bool {
        let status = source.status.as_ref();
        let state = status.and_then(|status| status.connection_state.as_ref());
        state.is_some_and(|state| state.last_observed_state == READY) && self.snapshots.is_connected(key)
    }

    /// The problem with the contents that `content` returns.
    fn problem(
        &self,
        namespace: &str,
        input: &ResolutionInput,
        content: impl Fn(&CatalogInput) -> Result<Content, String>,
    ) -> Problem {
        let catalogs = input.catalogs.iter().map(|catalog| Catalog {
            key: catalog.key.clone(),
            priority: catalog.priority,
            content: content(catalog).map(|content| content.snapshot),
        });
        Problem {
            namespace: namespace.to_owned(),
            global_namespace: self.global_namespace.clone(),
            subscriptions: input.subscriptions.clone(),
            installed: input.installed.clone(),
            catalogs: catalogs.collect(),
            operator_group: input.operator_group.clone(),
            runtime_constraints: self.runtime_constraints.clone().unwrap_or_default(),
        }
    }
}

/// Why a catalog without connection and without content cannot be used: upstream's words, and the catalog's own.
fn unreachable_text(source: &CatalogSource) -> String {
    let name = format!("{}/{}", source.namespace().unwrap_or_default(), source.name_any());
    let unhealthy_reason =
        catalog_health::unhealthy_reason(source).unwrap_or_else(|| "not connected yet".to_owned());
    format!("no registry client established for catalogsource {name}: {unhealthy_reason}")
}
