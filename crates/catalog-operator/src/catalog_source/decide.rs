//! Which objects of a catalog to make, mend and remove. Pure.
//!
//! A changed pod is replaced without an outage: the new one is made beside the old, which goes once the new one is
//! ready. (Upstream deletes first; the Service then has no pod until the new one is up.)

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use olm_api::labels;
use olm_api::v1alpha1::CatalogSource;
use olm_runtime::plan::{Action, Exists, Guard, Identity, Plan, Propagation, Requeue, Target, to_value};
use serde::Serialize;
use serde_json::json;

use super::account;
use super::config_map_owner;
use super::objects::{
    build_server_policy, build_service, build_service_account, build_unpack_policy, name, same_policy,
    same_service,
};
use super::observed::Observed;
use super::pod::{accept_any_content, build_config_map_pod, build_pod, is_of_config_map};
use super::pod_state::{self, End};
use super::source::Source;
use super::update::{self, Step};
use crate::object;
use crate::stores::config_maps::ConfigMapState;

/// After this time a pod that is not ready is mentioned in the status, even if nothing is known to be wrong with it.
pub(crate) const SLOW_START: Duration = Duration::from_secs(30);

/// After this time somebody looks again whether the ConfigMap of a catalog can be had.
const CONFIG_MAP_PAUSE: Duration = Duration::from_secs(15);

/// A pod that lived for so long was a good one; its successor comes at once.
const GOOD_LIFE: Duration = Duration::from_secs(600);
/// Time from a pod to the next one when one that came in place of a dead one died young, too. It doubles.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
/// Time that a pod has to start although it is outdated already: who edits a catalog every second has no pod made every second.
const OUTDATED_START: Duration = Duration::from_secs(20);
/// Pods of a ConfigMap that may be outdated one after the other before they have started. The next serves what its node has mounted.
const MAX_OUTDATED: u32 = 3;
/// Time that this one has to start: what others write is no reason to take it away.
const ANY_CONTENT_START: Duration = Duration::from_secs(300);
/// Longest pause after pods that died young, as kubelets have it for containers.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// What an action is for; tells the status how to word its failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purpose {
    /// Image of the spec, as its template says.
    Image,
    /// Owner of the ConfigMap.
    ConfigMapOwner,
    /// NetworkPolicy of the catalog's pods.
    ServerPolicy,
    /// NetworkPolicy of unpack pods.
    UnpackPolicy,
    /// ServiceAccount.
    ServiceAccount,
    /// Service.
    Service,
    /// A new pod.
    NewPod,
    /// A pod that looks for newer content, or takes over with it.
    UpdatePod,
    /// Removal of this pod.
    OldPod(String),
}

/// What deciding found out beside the actions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Purpose of each action of the plan, in its order.
    pub purposes: Vec<Purpose>,
    /// Why the pod does not serve, if it does not and ought to.
    pub trouble: Option<String>,
    /// Why the pod with newer content does not start.
    pub update_trouble: Option<String>,
}

/// Decides what to do for one CatalogSource.
pub fn decide(observed: &Observed, now: Timestamp) -> (Plan, Verdict) {
    let mut draft = Draft::default();
    draft.write_image(observed);
    match &observed.parsed {
        Source::Image { image, config, .. } => {
            let pod = build_pod(&observed.source, image, config, &observed.settings);
            draft.serve(observed, &pod, now);
        }
        Source::ConfigMap { name, config } => match &observed.config_map {
            ConfigMapState::Found(version) => {
                if let Some(patch) = config_map_owner::to_write(&observed.source, name, version) {
                    // The pod is made for the version that comes of it; the watch tells when it is there.
                    draft.actions.push((Purpose::ConfigMapOwner, patch));
                } else {
                    let settings = &observed.settings;
                    let pod = build_config_map_pod(&observed.source, name, version, config, settings);
                    draft.serve(observed, &pod, now);
                }
            }
            // What was served goes on; a watch tells when there is one again.
            ConfigMapState::Missing | ConfigMapState::NotNamed => {}
            ConfigMapState::Asked | ConfigMapState::Unread(_) | ConfigMapState::TooMany => {
                draft.requeue = Requeue::After {
                    delay: CONFIG_MAP_PAUSE,
                    reason: "ConfigMap of the catalog cannot be read",
                };
            }
        },
        Source::Address(_) => draft.stop_serving(observed),
        // A typo in the spec of a running catalog must not take it away: what runs is left as it is.
        Source::Invalid(_) => {}
    }
    let (purposes, actions) = draft.actions.into_iter().unzip();
    let poll = observed
        .poll
        .as_ref()
        .map(|poll| poll.requeue(now))
        .unwrap_or_default();
    let plan = Plan {
        actions,
        requeue: draft.requeue.sooner(observed.template.requeue()).sooner(poll),
        ..Plan::default()
    };
    (
        plan,
        Verdict {
            purposes,
            trouble: draft.trouble,
            update_trouble: draft.update_trouble,
        },
    )
}

#[derive(Default)]
struct Draft {
    actions: Vec<(Purpose, Action)>,
    requeue: Requeue,
    trouble: Option<String>,
    update_trouble: Option<String>,
}

impl Draft {
    /// The spec is its author's: nothing is written over what has changed meanwhile.
    fn write_image(&mut self, observed: &Observed) {
        let source = &*observed.source;
        let Some(image) = observed.template.image_to_write(source) else {
            return;
        };
        let meta = &source.metadata;
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        let target = Target::of::<CatalogSource>(namespace, &name(source));
        let guard = Guard {
            uid: meta.uid.clone(),
            resource_version: meta.resource_version.clone(),
        };
        let patch = Action::patch(target, json!({"spec": {"image": image}}), guard);
        self.actions.push((Purpose::Image, patch));
    }

    fn serve(&mut self, observed: &Observed, pod: &Pod, now: Timestamp) {
        let source = &*observed.source;
        let policies = [
            (
                Purpose::ServerPolicy,
                build_server_policy(source),
                &observed.server_policy,
            ),
            (
                Purpose::UnpackPolicy,
                build_unpack_policy(source),
                &observed.unpack_policy,
            ),
        ];
        for (purpose, wanted, live) in policies {
            self.settle(
                purpose,
                &wanted,
                live.as_deref(),
                Exists::Fail,
                applied(same_policy),
            );
        }
        let account = build_service_account(source);
        // An account of that name that is not ours is used as it is, which is what upstream does.
        self.settle(
            Purpose::ServiceAccount,
            &account,
            observed.service_account.as_deref(),
            Exists::Keep,
            |live, wanted| {
                let guard = Guard {
                    uid: live.metadata.uid.clone(),
                    // The list of pull secrets is written whole: what others change meanwhile must not be lost.
                    resource_version: live.metadata.resource_version.clone(),
                };
                account::mend(live, wanted).map(|patch| Action::patch(target_of(wanted), patch, guard))
            },
        );
        let service = build_service(source);
        self.settle(
            Purpose::Service,
            &service,
            observed.service.as_deref(),
            Exists::Fail,
            applied(same_service),
        );
        self.settle_pods(observed, pod, now);
    }

    /// Makes `live` what `wanted` says. An object of an earlier CatalogSource of the same name is on its way out; it is
    /// replaced at once instead of being waited for. An object of somebody else is never touched.
    fn settle<K>(
        &mut self,
        purpose: Purpose,
        wanted: &K,
        live: Option<&K>,
        exists: Exists,
        mend: impl Fn(&K, &K) -> Option<Action>,
    ) where
        K: Resource<DynamicType = ()> + Serialize,
    {
        let meta = wanted.meta();
        let target = target_of(wanted);
        let create = Action::Create {
            target: target.clone(),
            object: to_value(wanted),
            exists,
            identity: Identity::Operator,
        };
        match live.map(|live| (live, ownership(live.meta(), meta))) {
            None => self.actions.push((purpose, create)),
            Some((live, Owner::Namesake)) => {
                let delete = Action::delete(target, live.meta().uid.clone());
                self.actions.push((purpose.clone(), delete));
                self.actions.push((purpose, create));
            }
            // The server's refusal names the object, which is what the status has to tell.
            Some((_, Owner::Others)) if exists == Exists::Fail => self.actions.push((purpose, create)),
            Some((_, Owner::Others)) => {}
            Some((live, Owner::Us)) => {
                let mended = mend(live, wanted).map(|action| (purpose, action));
                self.actions.extend(mended);
            }
        }
    }

    fn settle_pods(&mut self, observed: &Observed, wanted: &Pod, now: Timestamp) {
        let (dead, living): (Vec<_>, Vec<_>) = observed.pods.iter().partition(|pod| pod_state::is_dead(pod));
        // A pod being deleted neither counts nor needs to be deleted again.
        let living = living
            .into_iter()
            .filter(|pod| pod.metadata.deletion_timestamp.is_none());
        let (mut right, mut wrong): (Vec<_>, Vec<_>) =
            living.partition(|pod| pod_state::matches(pod, wanted));
        right.sort_by_key(|pod| (!pod_state::is_ready(pod), pod_state::created(pod)));
        // Of those that serve the youngest has the newest content: one that took over, and whose forerunner could not be deleted.
        let serving = right.iter().take_while(|pod| pod_state::is_ready(pod)).count();
        if let Some(serving) = right.get_mut(..serving) {
            serving.reverse();
        }
        // One that is being deleted by force already is not deleted again at each of its changes.
        let forced = |pod: &&Arc<Pod>| pod.metadata.deletion_grace_period_seconds == Some(0);
        let kept = right.first();
        let next = successor(&dead, now);
        // The last of them stays until there is another: it says why it died, and when.
        let remembered = match &next {
            Successor::Later { after, .. } if kept.is_none() => Some(pod_state::name(after)),
            _ => None,
        };
        let mut ending = Requeue::default();
        for pod in dead.iter().filter(|pod| !forced(pod)) {
            if remembered == Some(pod_state::name(pod)) {
                continue;
            }
            match pod_state::end_of(pod, now) {
                End::ByItself { within } => {
                    let reason = "a pod is ending";
                    ending = ending.sooner(Requeue::After {
                        delay: within,
                        reason,
                    });
                }
                End::Deleted { grace_seconds } => self.delete_pod(pod, grace_seconds),
            }
        }
        for pod in right.iter().skip(1) {
            self.delete_pod(pod, 1);
        }
        let replaced = kept.is_some_and(|pod| pod_state::is_ready(pod));
        // One predecessor stays until its successor serves, also where it is not ready for a moment.
        wrong.sort_by_key(|pod| (!pod_state::is_ready(pod), Reverse(pod_state::created(pod))));
        let up = wrong.iter().position(|pod| pod_state::is_up(pod));
        let serving = up.filter(|_| !replaced);
        let mut starting = None;
        let mut outdated = 0;
        for (index, pod) in wrong.into_iter().enumerate() {
            let left = time_to_start(pod, now).filter(|_| right.is_empty());
            if serving != Some(index) && left.is_none() {
                self.delete_pod(pod, 1);
            }
            if !pod_state::is_up(pod) {
                outdated = outdated.max(outdated_with(pod));
            }
            starting = starting.max(left);
        }
        match (kept, starting) {
            (None, Some(delay)) => {
                self.requeue = Requeue::After {
                    delay,
                    reason: "an outdated registry pod is starting",
                };
            }
            (None, None) => self.replace_dead(&following(observed, wanted, outdated), &next),
            (Some(pod), _) if !replaced => self.watch_start(pod, now),
            (Some(_), _) => {}
        }
        self.requeue = self.requeue.sooner(ending);
        self.settle_update(observed, wanted, kept.copied(), now);
    }

    fn settle_update(
        &mut self,
        observed: &Observed,
        wanted: &Pod,
        serving: Option<&Arc<Pod>>,
        now: Timestamp,
    ) {
        for step in update::decide(observed, wanted, serving, now) {
            match step {
                Step::Look(action) | Step::Promote(action) | Step::Note(action) => {
                    self.actions.push((Purpose::UpdatePod, action));
                }
                Step::Remove(pod) => self.delete_pod(&pod, 1),
                Step::Trouble(trouble) => self.update_trouble = Some(trouble),
                Step::Wait(delay) => {
                    let wait = Requeue::After {
                        delay,
                        reason: "pod with newer content is starting",
                    };
                    self.requeue = self.requeue.sooner(wait);
                }
            }
        }
    }

    fn replace_dead(&mut self, wanted: &Pod, next: &Successor<'_>) {
        match next {
            Successor::Now { failures } => {
                let mut wanted = wanted.clone();
                let annotations = wanted.metadata.annotations.get_or_insert_default();
                annotations.remove(labels::POD_FAILURES);
                if *failures > 0 {
                    annotations.insert(labels::POD_FAILURES.to_owned(), failures.to_string());
                }
                let namespace = wanted.metadata.namespace.as_deref().unwrap_or_default();
                let create = Action::Create {
                    target: Target::of::<Pod>(namespace, ""),
                    object: to_value(&wanted),
                    exists: Exists::Fail,
                    identity: Identity::Operator,
                };
                self.actions.push((Purpose::NewPod, create));
            }
            Successor::Later { after, pause, left } => {
                self.trouble = Some(format!(
                    "pod {} ended: {}; the next one is made {} s after it",
                    pod_state::name(after),
                    pod_state::last_words(after),
                    pause.as_secs()
                ));
                self.requeue = Requeue::After {
                    delay: *left,
                    reason: "pause after pods that died young",
                };
            }
        }
    }

    fn watch_start(&mut self, pod: &Pod, now: Timestamp) {
        self.trouble = pod_state::trouble(pod);
        if self.trouble.is_some() {
            return;
        }
        let Some(since) = pod_state::not_ready_since(pod) else {
            return;
        };
        let age = Duration::try_from(now.duration_since(since)).unwrap_or_default();
        match SLOW_START.checked_sub(age) {
            Some(left) if !left.is_zero() => {
                self.requeue = Requeue::After {
                    delay: left,
                    reason: "registry pod becoming ready",
                };
            }
            _ => {
                let name = pod_state::name(pod);
                self.trouble = Some(format!("pod {name} is not ready since {since:.0}"));
            }
        }
    }

    fn delete_pod(&mut self, pod: &Arc<Pod>, grace_seconds: u32) {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let name = pod_state::name(pod);
        let delete = Action::Delete {
            target: Target::of::<Pod>(namespace, name),
            guard: Guard {
                uid: pod.metadata.uid.clone(),
                resource_version: None,
            },
            grace_seconds: Some(grace_seconds),
            propagation: Propagation::Background,
            identity: Identity::Operator,
        };
        self.actions.push((Purpose::OldPod(name.to_owned()), delete));
    }

    /// A source that turned from image to address runs nothing of its own any more.
    fn stop_serving(&mut self, observed: &Observed) {
        let pods = observed.pods.iter().chain(&observed.update_pods);
        for pod in pods.filter(|pod| pod.metadata.deletion_timestamp.is_none()) {
            self.delete_pod(pod, 1);
        }
        let uid = observed.source.metadata.uid.as_deref();
        if let Some(service) = observed
            .service
            .as_deref()
            .filter(|service| is_owned_by(&service.metadata, uid))
        {
            let namespace = service.metadata.namespace.as_deref().unwrap_or_default();
            let target = Target::of::<Service>(namespace, &super::objects::service_name(&observed.source));
            self.actions.push((
                Purpose::Service,
                Action::delete(target, service.metadata.uid.clone()),
            ));
        }
    }
}

/// When the pod after dead ones is made.
enum Successor<'a> {
    /// At once, as the successor of so many that died young one after the other.
    Now { failures: u32 },
    /// Later: a node that refuses pods, or a disk that is full, would have them made and refused without end.
    Later {
        /// The last that died.
        after: &'a Pod,
        /// From its creation to the next.
        pause: Duration,
        /// What is left of that.
        left: Duration,
    },
}

/// How many pods have been outdated one after the other with this one. That which serves any content ends the row.
fn outdated_with(pod: &Pod) -> u32 {
    let before = pod_state::outdated_before(pod);
    if before < MAX_OUTDATED { before + 1 } else { 0 }
}

/// The pod that follows so many of a ConfigMap that were outdated before they had started. Where its author never rests, it serves what
/// there is when it starts, or there would be nothing new ever.
fn following(observed: &Observed, wanted: &Pod, outdated: u32) -> Pod {
    let mut pod = wanted.clone();
    let annotations = pod.metadata.annotations.get_or_insert_default();
    // The catalog's own annotations are on its pods.
    annotations.remove(labels::POD_OUTDATED);
    if outdated == 0 || !is_of_config_map(wanted) {
        return pod;
    }
    annotations.insert(labels::POD_OUTDATED.to_owned(), outdated.to_string());
    if outdated >= MAX_OUTDATED {
        accept_any_content(&mut pod, &observed.source);
    }
    pod
}

/// What an outdated pod has left to start; none for one that is up or cannot start.
fn time_to_start(pod: &Pod, now: Timestamp) -> Option<Duration> {
    if pod_state::is_up(pod) || pod_state::trouble(pod).is_some() {
        return None;
    }
    let age = Duration::try_from(now.duration_since(pod_state::created(pod)?)).unwrap_or_default();
    let time = if pod_state::outdated_before(pod) >= MAX_OUTDATED {
        ANY_CONTENT_START
    } else {
        OUTDATED_START
    };
    time.checked_sub(age).filter(|left| !left.is_zero())
}

/// The first death is repaired at once: nodes are drained. From the second in a row on there are pauses.
fn successor<'a>(dead: &[&'a Arc<Pod>], now: Timestamp) -> Successor<'a> {
    let last = dead.iter().max_by_key(|pod| pod_state::created(pod));
    let Some((last, created)) = last.and_then(|pod| Some((pod, pod_state::created(pod)?))) else {
        return Successor::Now { failures: 0 };
    };
    let age = Duration::try_from(now.duration_since(created)).unwrap_or_default();
    if age >= GOOD_LIFE {
        return Successor::Now { failures: 0 };
    }
    let before = pod_state::failures_before(last);
    let pause = match before.checked_sub(1) {
        None => Duration::ZERO,
        Some(doublings) => FIRST_PAUSE
            .saturating_mul(1 << doublings.min(10))
            .min(LONGEST_PAUSE),
    };
    match pause.checked_sub(age).filter(|left| !left.is_zero()) {
        None => Successor::Now {
            failures: before.saturating_add(1),
        },
        Some(left) => Successor::Later {
            after: last,
            pause,
            left,
        },
    }
}

/// Whom an object belongs to.
enum Owner {
    Us,
    /// An object of our kind and name with another uid: one that was deleted and made again.
    Namesake,
    Others,
}

fn ownership(live: &ObjectMeta, wanted: &ObjectMeta) -> Owner {
    let owners = || live.owner_references.iter().flatten();
    let Some(us) = wanted.owner_references.iter().flatten().next() else {
        return Owner::Others;
    };
    if owners().any(|owner| owner.uid == us.uid) {
        Owner::Us
    } else if owners().any(|owner| owner.kind == us.kind && owner.name == us.name) {
        Owner::Namesake
    } else {
        Owner::Others
    }
}

/// Whether one of the object's owners has this uid.
pub(crate) fn is_owned_by(meta: &ObjectMeta, uid: Option<&str>) -> bool {
    object::has_owner(meta.owner_references.iter().flatten(), uid)
}

fn has_labels(live: &ObjectMeta, wanted: &ObjectMeta) -> bool {
    let none = BTreeMap::new();
    let live = live.labels.as_ref().unwrap_or(&none);
    wanted
        .labels
        .iter()
        .flatten()
        .all(|(key, value)| live.get(key) == Some(value))
}

fn target_of<K: Resource<DynamicType = ()>>(object: &K) -> Target {
    let meta = object.meta();
    Target::of::<K>(
        meta.namespace.as_deref().unwrap_or_default(),
        meta.name.as_deref().unwrap_or_default(),
    )
}

/// Applies an object of ours that is not the `same` as it is wanted.
fn applied<K>(same: fn(&K, &K) -> bool) -> impl Fn(&K, &K) -> Option<Action>
where
    K: Resource<DynamicType = ()> + Serialize,
{
    move |live, wanted| {
        let is_right = has_labels(live.meta(), wanted.meta()) && same(live, wanted);
        let manager = labels::FIELD_MANAGER_REGISTRY;
        (!is_right).then(|| Action::apply(target_of(wanted), to_value(wanted), manager))
    }
}
