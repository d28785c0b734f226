//! The reconciler of a namespace: which reads a round makes, and in what order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt;
use kube::core::PartialObjectMeta;
use olm_api::v1::OperatorGroup;
use olm_api::v1alpha1::{
    CatalogSource, ClusterServiceVersion, InstallPlan, Subscription, SubscriptionState, SubscriptionStatus,
};
use olm_resolver::{Catalog, CatalogKey, Problem, RuntimeConstraint};
use olm_runtime::NamespacedName;
use olm_runtime::discovery::Discovery;
use olm_runtime::driver::{Reconciler, StatusUpdate};
use olm_runtime::error::ObserveError;
use olm_runtime::outcome::{FailureClass, Outcome, Outcomes};
use olm_runtime::plan::{Plan, Requeue};
use olm_runtime::store::Store;

use super::answer::{self, Answer, Memory, Question};
use super::decide::{self, Verdict};
use super::group_settings::{self, GroupSettings};
use super::observe::{Failure, Observed, Progress, QUIET};
use super::question::{installed_csv, is_copied, mark_replaced, resolver_subscription};
use super::{parts, runtime_constraints, unpacking};
use crate::bundle_unpack::Unpacker;
use crate::catalog_source::is_terminating;
use crate::snapshots::{Content, ContentState, Snapshots};
use crate::subscription::{self, Surroundings, catalog_health};

/// Stores that namespaces are observed from.
#[derive(Clone)]
pub struct ResolutionStores {
    /// Subscriptions of all namespaces.
    pub subscriptions: Store<Subscription>,
    /// InstallPlans of all namespaces.
    pub plans: Store<InstallPlan>,
    /// ClusterServiceVersions of all namespaces, copies left out.
    pub csvs: Store<ClusterServiceVersion>,
    /// OperatorGroups of all namespaces.
    pub groups: Store<OperatorGroup>,
    /// CatalogSources of all namespaces.
    pub sources: Store<CatalogSource>,
    /// Namespaces, metadata only.
    pub namespaces: Store<PartialObjectMeta<Namespace>>,
}

/// Reconciles namespaces that have Subscriptions.
pub struct ResolutionReconciler {
    stores: ResolutionStores,
    snapshots: Snapshots,
    unpacker: Unpacker,
    global_namespace: String,
    /// Demands of the administrator, or why they cannot be read.
    runtime_constraints: Result<Vec<RuntimeConstraint>, String>,
    /// Tells the cluster's version, if asked for.
    discovery: Option<Discovery>,
    memory: Memory,
    /// Why the last plan of a namespace was refused. The runtime writes one status a round, and a refusal concerns
    /// several Subscriptions: it is kept here for the next round, which comes by itself since this one failed.
    refusals: Mutex<BTreeMap<String, String>>,
}

impl ResolutionReconciler {
    /// `global_namespace` is that of the catalogs everyone sees.
    pub fn new(
        stores: ResolutionStores,
        snapshots: Snapshots,
        unpacker: Unpacker,
        global_namespace: &str,
    ) -> Self {
        Self {
            stores,
            snapshots,
            unpacker,
            global_namespace: global_namespace.to_owned(),
            runtime_constraints: runtime_constraints::from_environment(),
            discovery: None,
            memory: Memory::default(),
            refusals: Mutex::default(),
        }
    }

    /// With a way to know the cluster's version, so that bundles that need a newer one are told in time.
    #[must_use]
    pub fn with_discovery(self, discovery: Discovery) -> Self {
        Self {
            discovery: Some(discovery),
            ..self
        }
    }

    /// The cluster's version. Only warnings depend on it, so not to know it holds nothing up.
    async fn kubernetes(&self) -> Option<String> {
        self.discovery.as_ref()?.server_version().await.ok()
    }

    fn live_subscriptions(&self, namespace: &str) -> Vec<Arc<Subscription>> {
        let all = self.stores.subscriptions.list_in(namespace).into_iter();
        all.filter(|subscription| subscription.metadata.deletion_timestamp.is_none())
            .collect()
    }

    fn surroundings(&self, namespace: &str, fail_forward: bool) -> Surroundings {
        let plans = self.stores.plans.list_in(namespace).into_iter();
        let csvs = self.stores.csvs.list_in(namespace).into_iter();
        Surroundings {
            // A plan being deleted is as good as gone.
            plans: plans
                .filter(|plan| plan.metadata.deletion_timestamp.is_none())
                .map(|plan| (plan.name_any(), plan))
                .collect(),
            csvs: csvs
                .filter(|csv| !is_copied(csv))
                .map(|csv| csv.name_any())
                .collect(),
            fail_forward,
        }
    }

    fn visible_sources(&self, namespace: &str) -> Vec<Arc<CatalogSource>> {
        let mut sources = self.stores.sources.list_in(namespace);
        if namespace != self.global_namespace {
            sources.extend(self.stores.sources.list_in(&self.global_namespace));
        }
        catalog_health::sort(&mut sources);
        sources
    }

    /// What is to be resolved, with the contents of catalogs by identity only, and which catalogs have yet to come up.
    fn question(
        &self,
        namespace: &str,
        subscriptions: &[(Arc<Subscription>, SubscriptionStatus)],
        settings: &GroupSettings,
    ) -> (Question, Pending) {
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
                    let left = QUIET.checked_sub(since.elapsed()).filter(|left| !left.is_zero());
                    pending.reading = pending.reading.max(left);
                    Err("its content is being read".to_owned())
                }
                ContentState::Failed(text) => Err(text),
                ContentState::Unreachable => {
                    // A catalog whose status knows no ailment is just being connected, after a start of this process.
                    pending.any |=
                        catalog_health::is_starting(&source) || catalog_health::ailment(&source).is_none();
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
        let question = Question {
            subscriptions: subscribed,
            installed,
            operator_group: olm_resolver::OperatorGroup {
                count: 1,
                fail_forward: settings.fail_forward,
                exclude_global_namespace: settings.exclude_global,
            },
            catalogs,
            resolve: !subscriptions.iter().all(|(_, status)| is_on_its_way(status)),
        };
        (question, pending)
    }

    /// The answer, from memory or from the resolver. None when a content was dropped and is being read again.
    async fn ask(&self, namespace: &str, question: Question) -> Result<Option<Arc<Answer>>, ObserveError> {
        if let Some(answer) = self.memory.recall(namespace, &question) {
            return Ok(Some(answer));
        }
        let mut catalogs = Vec::new();
        let mut missing = false;
        for (key, priority, content) in &question.catalogs {
            let source = NamespacedName::new(&key.namespace, &key.name);
            let content = match content {
                Ok(id) => match self.snapshots.content(&source, *id) {
                    Content::Here(content) => Ok(content),
                    Content::Lost => Err(format!(
                        "no registry client established for catalogsource {source}"
                    )),
                    Content::Reading => {
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
            subscriptions: question.subscriptions.clone(),
            installed: question.installed.clone(),
            catalogs,
            operator_group: question.operator_group,
            runtime_constraints: self.runtime_constraints.clone().unwrap_or_default(),
        };
        let asked = question.clone();
        let answer = tokio::task::spawn_blocking(move || Arc::new(answer::answer(&asked, &problem)))
            .await
            .map_err(|error| ObserveError::read(format!("resolution of namespace {namespace}"), error))?;
        for text in &answer.resolution.set_aside {
            tracing::warn!(namespace, "{text}");
        }
        self.memory.remember(namespace, question, Arc::clone(&answer));
        Ok(Some(answer))
    }

    fn progress(
        &self,
        namespace: &str,
        answer: &Answer,
        settings: &GroupSettings,
        kubernetes: Option<&str>,
        pending: Pending,
    ) -> Progress {
        if let Some(error) = &answer.error {
            return Progress::Prevented(error.clone());
        }
        let now = Timestamp::now();
        let parts = parts::split(&answer.resolution.solution);
        Progress::Resolved {
            failures: answer.failures.clone(),
            parts: parts
                .iter()
                .map(|part| unpacking::progress(part, &self.unpacker, namespace, settings, kubernetes, now))
                .collect(),
            catalogs_pending: pending.any,
            reading: pending.reading,
        }
    }

    fn refusal(&self, namespace: &str) -> Option<String> {
        self.refusals
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(namespace)
            .cloned()
    }
}

#[async_trait]
impl Reconciler for ResolutionReconciler {
    type Key = String;
    type Observed = Observed;
    type Verdict = Verdict;

    const NAME: &'static str = "resolution";

    async fn observe(&self, namespace: &String) -> Result<Option<Observed>, ObserveError> {
        let subscriptions = self.live_subscriptions(namespace);
        // In a namespace that is being deleted nothing can be made, and everything goes by itself.
        let terminating = self
            .stores
            .namespaces
            .get("", namespace)
            .is_some_and(|found| is_terminating(&found));
        if subscriptions.is_empty() || terminating {
            self.snapshots.retain(namespace, &BTreeSet::new());
            self.memory.forget(namespace);
        }
        if terminating {
            return Ok(None);
        }
        let settings = group_settings::read(namespace, &self.stores.groups.list_in(namespace));
        let around = self.surroundings(
            namespace,
            settings.as_ref().is_ok_and(|settings| settings.fail_forward),
        );
        let mut observed = Observed {
            namespace: namespace.clone(),
            catalogs: self
                .visible_sources(namespace)
                .iter()
                .map(|source| catalog_health::CatalogFact::of(source))
                .collect(),
            refusal: self.refusal(namespace),
            subscriptions,
            around,
            ..Observed::default()
        };
        let settings = match settings {
            _ if observed.subscriptions.is_empty() => return Ok(Some(observed)),
            Ok(settings) => self
                .runtime_constraints
                .as_ref()
                .map(|_| settings)
                .map_err(Clone::clone),
            Err(text) => Err(text),
        };
        let settings = match settings {
            Ok(settings) => settings,
            Err(text) => {
                observed.progress = Progress::Prevented(text);
                return Ok(Some(observed));
            }
        };
        let settled: Vec<_> = observed
            .subscriptions
            .iter()
            .map(|object| (Arc::clone(object), subscription::settle(object, &observed.around)))
            .collect();
        let (question, pending) = self.question(namespace, &settled, &settings);
        let resolve = question.resolve;
        let Some(answer) = self.ask(namespace, question).await? else {
            observed.progress = Progress::Resolved {
                failures: everything_pending(),
                parts: Vec::new(),
                catalogs_pending: true,
                reading: Some(QUIET),
            };
            return Ok(Some(observed));
        };
        observed.deprecations.clone_from(&answer.deprecations);
        if resolve {
            let kubernetes = self.kubernetes().await;
            observed.progress = self.progress(namespace, &answer, &settings, kubernetes.as_deref(), pending);
        }
        Ok(Some(observed))
    }

    fn decide(&self, observed: &Observed, now: Timestamp) -> (Plan, Verdict) {
        decide::decide(observed, now)
    }

    fn status(
        &self,
        observed: &Observed,
        verdict: Verdict,
        outcomes: &Outcomes,
        _now: Timestamp,
    ) -> StatusUpdate {
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        let failure = outcomes
            .failure()
            .filter(|(index, _)| verdict.making.contains(index));
        match failure {
            // Those pass by themselves, and the next try comes soon.
            Some((_, failure)) if matches!(failure.class, FailureClass::Retry | FailureClass::Conflict) => {}
            Some((_, failure)) => {
                refusals.insert(observed.namespace.clone(), failure.message.clone());
            }
            None => {
                refusals.remove(&observed.namespace);
            }
        }
        let created = verdict
            .making
            .iter()
            .any(|index| matches!(outcomes.get(*index), Outcome::Done(_)));
        let requeue = if created {
            Requeue::After {
                delay: Duration::ZERO,
                reason: "adoption of the new InstallPlan",
            }
        } else {
            Requeue::AwaitChange
        };
        StatusUpdate {
            requeue,
            ..StatusUpdate::default()
        }
    }
}

/// Catalogs that have not come up yet.
#[derive(Debug, Clone, Copy, Default)]
struct Pending {
    any: bool,
    /// Time for which to be silent about those being read.
    reading: Option<Duration>,
}

/// A stand-in for failures nothing is known of yet: no Subscription's conditions change by it.
fn everything_pending() -> Vec<Failure> {
    let reason = olm_api::condition::subscription::ERROR_PREVENTED_RESOLUTION;
    vec![Failure {
        subscriptions: Vec::new(),
        reason,
        message: String::new(),
    }]
}

/// Whether a Subscription waits for its plan, so that it needs no resolution.
fn is_on_its_way(status: &SubscriptionStatus) -> bool {
    status.install_plan_ref.is_some() && status.state == SubscriptionState::UpgradePending
}

/// Why a catalog without connection and without content cannot be used: upstream's words, and the catalog's own.
fn unreachable_text(source: &CatalogSource) -> String {
    let name = format!("{}/{}", source.namespace().unwrap_or_default(), source.name_any());
    let ailment =
        catalog_health::ailment(source).unwrap_or_else(|| "its connection is not made yet".to_owned());
    format!("no registry client established for catalogsource {name}: {ailment}")
}
