//! Decides which objects of a catalog are created, corrected and removed. No I/O.
//!
//! A changed pod is replaced without an outage: the new one is created beside the old one, which is deleted
//! once the new one is ready. Upstream deletes first, so its Service has no pod until the new one is up.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
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
use super::pod::{build_config_map_pod, build_pod};
use super::pod_state::{self, End};
use super::source::Source;
use super::triggers;
use crate::object;
use crate::stores::config_maps::ConfigMapState;
use crate::timing::{elapsed, left};

/// Time after which a pod that is not ready is mentioned in the status, even without a known problem.
pub(crate) const SLOW_START: Duration = Duration::from_secs(30);

/// Age until which a pod that ended has no successor: a node that refuses pods would get new ones without end.
const SHORT_LIFE: Duration = Duration::from_secs(60);
/// Shortest and longest interval of the reads of a ConfigMap that is not watched.
const CONFIG_MAP_PAUSE: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(15)];
/// Interval for one without a key of catalogs, which is read as a whole.
const NO_CATALOG_PAUSE: Duration = Duration::from_secs(300);

/// Purpose of an action; determines the message of its failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purpose {
    /// Image of the spec, from its template.
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

/// Result of `decide` besides the actions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Purpose of each action of the plan, in its order.
    pub purposes: Vec<Purpose>,
    /// Reason why the pod does not serve although it should.
    pub trouble: Option<String>,
    /// Reason why the pod with newer content does not start.
    pub update_trouble: Option<String>,
}

/// Decides the actions for one CatalogSource.
pub fn decide(observed: &Observed, now: Timestamp) -> (Plan, Verdict) {
    let mut draft = Draft::default();
    draft.write_image(observed);
    match &observed.parsed {
        Source::Image { image, config, .. } => {
            let pod = build_pod(&observed.source, image, config, &observed.settings);
            draft.serve(observed, &pod, now);
        }
        Source::ConfigMap { name, config } => {
            draft.requeue = config_map_requeue(observed, now);
            // Without one the old content is still served.
            if let ConfigMapState::Found(version) = &observed.config_map {
                if let Some(patch) = config_map_owner::to_write(&observed.source, name, version) {
                    // The pod is made for the version after this write; the watch reports it.
                    draft.actions.push((Purpose::ConfigMapOwner, patch));
                } else {
                    let settings = &observed.settings;
                    let pod = build_config_map_pod(&observed.source, name, version, config, settings);
                    draft.serve(observed, &pod, now);
                }
            }
        }
        Source::Address(_) => draft.stop_serving(observed),
        // An invalid spec must not stop a running catalog, so nothing changes.
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

/// When the ConfigMap is read again, which is only watched with OLM's label. It is often of one file with its CatalogSource, so a
/// young one waits a tenth of its age.
fn config_map_requeue(observed: &Observed, now: Timestamp) -> Requeue {
    let [shortest, longest] = CONFIG_MAP_PAUSE;
    let created = observed.source.metadata.creation_timestamp.as_ref();
    let pause = match &observed.config_map {
        ConfigMapState::NotNamed => return Requeue::AwaitChange,
        ConfigMapState::Found(version) if version.is_watched => return Requeue::AwaitChange,
        ConfigMapState::Found(version) if version.owners.is_none() => NO_CATALOG_PAUSE,
        _ => created.map_or(longest, |Time(created)| {
            (elapsed(*created, now) / 10).clamp(shortest, longest)
        }),
    };
    Requeue::after(pause, "the ConfigMap is not watched")
}

/// A decision in progress.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) actions: Vec<(Purpose, Action)>,
    requeue: Requeue,
    trouble: Option<String>,
    pub(super) update_trouble: Option<String>,
}

impl Draft {
    /// Writes the image of the template. Users may edit the spec, so a concurrent change is not overwritten.
    fn write_image(&mut self, observed: &Observed) {
        let source = &*observed.source;
        let Some(image) = observed.template.image_to_write(source) else {
            return;
        };
        let meta = &source.metadata;
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        let target = Target::of::<CatalogSource>(namespace, &name(source));
        let guard = Guard::of(meta);
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
        // An account of that name that is not ours is used as it is, as upstream does.
        self.settle(
            Purpose::ServiceAccount,
            &account,
            observed.service_account.as_deref(),
            Exists::Keep,
            |live, wanted| {
                // The list of pull secrets is written as a whole, so concurrent changes by others must not be
                // lost.
                let guard = Guard::of(&live.metadata);
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

    /// Makes `live` match `wanted`. An object of an earlier CatalogSource of the same name is about to be
    /// garbage collected; it is replaced at once. An object of others is never touched.
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
            // The server's refusal names the object, which the status has to report.
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
        // A pod that is being deleted neither counts nor is deleted again.
        let living = living
            .into_iter()
            .filter(|pod| pod.metadata.deletion_timestamp.is_none());
        let (mut right, mut wrong): (Vec<_>, Vec<_>) =
            living.partition(|pod| pod_state::matches(pod, wanted));
        right.sort_by_key(|pod| (!pod_state::is_ready(pod), pod_state::created(pod)));
        // Among ready pods the youngest has the newest content: it took over, and its predecessor could not
        // be deleted.
        let serving = right.iter().take_while(|pod| pod_state::is_ready(pod)).count();
        if let Some(serving) = right.get_mut(..serving) {
            serving.reverse();
        }
        // A pod that is already being deleted by force is not deleted again at each of its changes.
        let forced = |pod: &&Arc<Pod>| pod.metadata.deletion_grace_period_seconds == Some(0);
        let kept = right.first();
        let ended = dead
            .iter()
            .filter(|pod| pod_state::has_ended(pod) && pod.metadata.deletion_timestamp.is_none());
        let last = ended.max_by_key(|pod| pod_state::created(pod));
        let rest = last
            .filter(|pod| kept.is_none() && pod_state::matches(pod, wanted))
            .and_then(|pod| left(SHORT_LIFE, elapsed(pod_state::created(pod)?, now)));
        let mut ending = Requeue::default();
        for pod in dead.iter().filter(|pod| !forced(pod)) {
            if rest.is_some() && last.is_some_and(|last| pod_state::name(last) == pod_state::name(pod)) {
                // Kept until it has a successor: it shows why it ended.
                continue;
            }
            match pod_state::end_of(pod, now) {
                End::ByItself { within } => {
                    ending = ending.sooner(Requeue::after(within, "a pod is terminating"));
                }
                End::Deleted { grace_seconds } => self.delete_pod(pod, grace_seconds),
            }
        }
        for pod in right.iter().skip(1) {
            self.delete_pod(pod, 1);
        }
        let replaced = kept.is_some_and(|pod| pod_state::is_ready(pod));
        // One predecessor is kept until its successor serves, also if it is not ready for a moment.
        wrong.sort_by_key(|pod| (!pod_state::is_ready(pod), Reverse(pod_state::created(pod))));
        let up = wrong.iter().position(|pod| pod_state::is_up(pod));
        let serving = up.filter(|_| !replaced);
        for (index, pod) in wrong.into_iter().enumerate() {
            if serving != Some(index) {
                self.delete_pod(pod, 1);
            }
        }
        match kept {
            None => {
                if let Some(pod) = last {
                    let when = match rest {
                        Some(_) => format!("is replaced {} s after its creation", SHORT_LIFE.as_secs()),
                        None => "is being replaced".to_owned(),
                    };
                    let (name, words) = (pod_state::name(pod), pod_state::last_words(pod));
                    self.trouble = Some(format!("pod {name} terminated: {words}; it {when}"));
                }
                match rest {
                    Some(rest) => {
                        ending = ending.sooner(Requeue::after(rest, "a pod ended soon after its creation"));
                    }
                    None => self.actions.push((Purpose::NewPod, creation(wanted))),
                }
            }
            Some(pod) if !replaced => {
                let patience = (SLOW_START, "registry pod becoming ready");
                self.trouble = self.start_trouble(pod, pod_state::not_ready_since(pod), patience, now);
            }
            Some(_) => {}
        }
        self.requeue = self.requeue.sooner(ending);
        self.settle_update(observed, wanted, kept.copied(), now);
    }

    /// Returns why a pod is not ready. A start that takes longer than `patience` since `since` is reported, and looked at again then.
    pub(super) fn start_trouble(
        &mut self,
        pod: &Pod,
        since: Option<Timestamp>,
        (patience, reason): (Duration, &'static str),
        now: Timestamp,
    ) -> Option<String> {
        let trouble = pod_state::trouble(pod);
        if trouble.is_some() {
            return trouble;
        }
        let since = since?;
        let Some(left) = left(patience, elapsed(since, now)) else {
            let name = pod_state::name(pod);
            return Some(format!("pod {name} has not been ready since {since:.0}"));
        };
        self.requeue = self.requeue.sooner(Requeue::after(left, reason));
        None
    }

    pub(super) fn delete_pod(&mut self, pod: &Arc<Pod>, grace_seconds: u32) {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let name = pod_state::name(pod);
        let delete = Action::Delete {
            target: Target::of::<Pod>(namespace, name),
            guard: Guard::of_uid(pod.metadata.uid.clone()),
            grace_seconds: Some(grace_seconds),
            propagation: Propagation::Background,
            identity: Identity::Operator,
        };
        self.actions.push((Purpose::OldPod(name.to_owned()), delete));
    }

    /// Removes the objects of a source that changed from image to address.
    fn stop_serving(&mut self, observed: &Observed) {
        let pods = observed.pods.iter().chain(&observed.update_pods);
        for pod in pods.filter(|pod| pod.metadata.deletion_timestamp.is_none()) {
            self.delete_pod(pod, 1);
        }
        let uid = observed.source.metadata.uid.as_deref();
        if let Some(service) = observed
            .service
            .as_deref()
            .filter(|service| object::is_owned_by(&service.metadata, uid))
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

/// Creates a pod under a name that the server chooses.
pub(super) fn creation(pod: &Pod) -> Action {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    Action::Create {
        target: Target::of::<Pod>(namespace, ""),
        object: to_value(pod),
        exists: Exists::Fail,
        identity: Identity::Operator,
    }
}

enum Owner {
    Us,
    /// An earlier object of our kind and name with another uid, which was deleted and recreated.
    Namesake,
    Others,
}

fn ownership(live: &ObjectMeta, wanted: &ObjectMeta) -> Owner {
    let owners = || live.owner_references.iter().flatten();
    let Some(us) = wanted.owner_references.iter().flatten().next() else {
        return Owner::Others;
    };
    // A webhook may remove the owners of all that is created. Then the labels tell, if there are more than
    // OLM's mark, which objects of bundles have, too.
    let has_own_labels = wanted.labels.as_ref().is_some_and(|labels| labels.len() > 1);
    let is_stripped = owners().next().is_none() && has_own_labels && has_labels(live, wanted);
    if is_stripped || owners().any(|owner| owner.uid == us.uid) {
        Owner::Us
    } else if owners().any(|owner| owner.kind == us.kind && owner.name == us.name) {
        Owner::Namesake
    } else {
        Owner::Others
    }
}

/// True for a pod of this CatalogSource: it is an owner, or a webhook removed the owners, and the labels name it.
pub(crate) fn is_pod_of(pod: &Pod, source: &CatalogSource) -> bool {
    let meta = &pod.metadata;
    let is_stripped = || triggers::named_by_labels(meta).is_some_and(|named| named == name(source));
    object::is_owned_by(meta, source.metadata.uid.as_deref()) || is_stripped()
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

/// Applies an object of ours if it is not the `same` as the wanted one.
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
