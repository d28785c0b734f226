//! The serving objects of a ClusterServiceVersion: certificates, Services, and the webhooks and APIServices
//! that lead there.
//!
//! # Expected flow
//! `observe` reads Secrets and the related objects. If a certificate is not valid and this reconcile installs,
//! `csv/prepare.rs` issues a new pair, whose key goes only into the plan's [`Action::Apply`]. No I/O here.
//!
//! # Guarantees
//! - Webhooks and APIServices trust a new CA before its certificate is written. They trust the old CA until
//!   the pods that serve with it are deleted. So no call fails because of a certificate that is being
//!   replaced.
//! - A valid certificate is never replaced, whatever ClusterServiceVersion created it.
//! - Every object is compared with the fields of the wanted one, so manual changes of these are reverted.

pub(crate) mod availability;
mod callers;
pub(crate) mod definitions;

use std::{collections::BTreeSet, time::Duration};

use jiff::Timestamp;
use k8s_openapi::{api::core::v1::Service, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Resource;
use olm_api::v1alpha1::{ClusterServiceVersion, ClusterServiceVersionPhase as Phase};
use olm_runtime::plan::{Action, Guard, Target, to_value};
use serde_json::{Value, json};

use crate::{
    csv::{
        FIELD_MANAGER,
        install::serving::callers::{Caller, callers, callers_with, write},
        observed::Observed,
        rbac::identity,
        replacement::{self, Sibling},
        serving::{
            api_service,
            certificate::{self, Unfit, Validity},
            component::Component,
            conversion, delegation,
            endpoint::{self, Endpoint},
            objects,
            pod::ServingCertificate,
            rules::{self, Refused},
            webhook,
        },
        strategy::Strategy,
    },
    owner,
    stores::ServingSecret,
};

/// Maximum delay of a reconcile that waits for a certificate's time, because clocks may be set and timers do
/// not notice that.
const MAX_WAIT: Duration = Duration::from_secs(12 * 60 * 60);

/// Returns the reason why the webhook descriptions of a ClusterServiceVersion are invalid.
pub(crate) fn invalid_description(csv: &ClusterServiceVersion, strategy: &Strategy) -> Option<Refused> {
    rules::check(csv)
        .and_then(|()| endpoint::check(csv, strategy).map_err(Refused::from))
        .err()
}

/// Returns a message if another ClusterServiceVersion has the first wanted Service; two Deployments may yield
/// the same name, because dots become dashes. Owners in the replacement chain are ignored, because they pass
/// their Services on.
///
/// A Service belongs to its owner. If it does not exist yet, it belongs to a ClusterServiceVersion that is
/// installing or running.
pub(crate) fn taken(observed: &Observed) -> Option<String> {
    let serving = &observed.serving;
    if serving.endpoints.is_empty() {
        return None;
    }
    let chain = replacement::chain(observed.name(), observed.replaces(), &observed.siblings);
    let rivals: Vec<(&Sibling, BTreeSet<String>)> = observed
        .siblings
        .iter()
        .filter(|sibling| sibling.metadata.deletion_timestamp.is_none())
        .filter(|sibling| !chain.contains(replacement::name_of(sibling)))
        .map(|sibling| (sibling, endpoint::services(sibling)))
        .collect();
    serving.endpoints.iter().find_map(|endpoint| {
        let service = endpoint.service();
        let live = serving.live(&Target::of::<Service>(observed.namespace(), &service));
        let (other, _) = rivals.iter().find(|(sibling, services)| {
            services.contains(&service)
                && live.map_or_else(|| is_at_it(sibling), |live| is_owned_by(live, sibling))
        })?;
        Some(format!(
            "Service {service} of Deployment {} belongs to ClusterServiceVersion {}",
            endpoint.deployment,
            replacement::name_of(other)
        ))
    })
}

fn is_at_it(sibling: &Sibling) -> bool {
    matches!(
        sibling.phase(),
        Phase::InstallReady | Phase::Installing | Phase::Succeeded
    )
}

fn is_owned_by(object: &Value, sibling: &Sibling) -> bool {
    let uid = sibling.metadata.uid.as_deref().unwrap_or_default();
    let owners = object["metadata"]["ownerReferences"].as_array();
    owners.into_iter().flatten().any(|owner| owner["uid"] == uid)
}

/// Returns the certificate for the pods of a Deployment; `None` when they do not serve.
pub(crate) fn certificate_of(observed: &Observed, deployment: &str) -> Option<ServingCertificate> {
    let serving = &observed.serving;
    let endpoint = serving
        .endpoints
        .iter()
        .find(|one| one.deployment == deployment)?;
    Some(ServingCertificate {
        secret: endpoint.secret(),
        ca_hash: serving
            .ca(deployment)
            .map(certificate::ca_hash)
            .unwrap_or_default(),
    })
}

/// Returns a message when a stored certificate is about to expire.
pub(crate) fn needs_rotation(observed: &Observed) -> Option<&str> {
    observed.serving.unfit.values().find_map(|unfit| match unfit {
        Unfit::Due(text) => Some(text.as_str()),
        Unfit::Broken(_) => None,
    })
}

/// Returns the delay until the next check of a certificate; `None` without certificates.
pub(crate) fn wait(observed: &Observed, now: Timestamp) -> Option<Duration> {
    let left = validity(observed)?.rotate_at.duration_since(now);
    Some(Duration::try_from(left).unwrap_or_default().min(MAX_WAIT))
}

/// Creation time of the newest certificate and earliest time of renewal; `None` unless all are valid.
pub(crate) fn validity(observed: &Observed) -> Option<Validity> {
    let serving = &observed.serving;
    let all = serving
        .endpoints
        .iter()
        .map(|endpoint| serving.valid.get(&endpoint.deployment).copied());
    all.reduce(|one, other| {
        let (one, other) = (one?, other?);
        Some(Validity {
            from: one.from.max(other.from),
            rotate_at: one.rotate_at.min(other.rotate_at),
        })
    })
    .flatten()
}

/// Returns the writes for all objects that differ from the wanted ones: those of an install before and after the
/// Deployments.
pub(crate) fn writes(observed: &Observed) -> (Vec<Action>, Vec<Action>) {
    let serving = &observed.serving;
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for component in around(observed).filter(|component| problem_of(observed, component).is_some()) {
        before.push(write(observed, component));
    }
    for Caller {
        deployment,
        component,
        ..
    } in callers(observed)
    {
        if problem_of(observed, &component).is_none() {
            continue;
        }
        let is_trusted_first =
            serving.issued.contains_key(deployment) && serving.live(&component.target).is_some();
        let list = if is_trusted_first { &mut before } else { &mut after };
        list.push(write(observed, component));
    }
    let endpoints = serving.endpoints.iter();
    before.extend(endpoints.filter_map(|endpoint| write_secret(observed, endpoint)));
    // Written before the Secrets, because their CA identifies the definitions as OLM's.
    let reset = |crd| definitions::patch(observed, crd, conversion::reset(), identity(observed));
    after.extend(definitions::stale(observed).map(reset));
    after.extend(leftovers(observed).map(|(target, uid)| delete(observed, target, uid)));
    (before, after)
}

/// Returns the first problem: the Deployment it belongs to, and a message for users.
pub(crate) fn problem(observed: &Observed) -> Option<(String, String)> {
    let serving = &observed.serving;
    let of_endpoint = |endpoint: &Endpoint| {
        let text = secret_problem(observed, endpoint).or_else(|| {
            let mut around = around_of(observed, endpoint).into_iter();
            around.find_map(|component| problem_of(observed, &component))
        })?;
        Some((endpoint.deployment.clone(), text))
    };
    let of_caller = |caller: Caller<'_>| {
        let text = problem_of(observed, &caller.component)?;
        Some((caller.deployment.to_owned(), format!("{}: {text}", caller.what)))
    };
    let of_definition = |crd: &str| {
        let target = conversion::target(crd);
        let text = format!("{target} is no longer converted by this ClusterServiceVersion");
        (String::new(), text)
    };
    let of_leftover = |(target, _): (&Target, _)| {
        let text = format!("{target} is no longer part of the ClusterServiceVersion");
        (String::new(), text)
    };
    let mut endpoints = serving.endpoints.iter();
    endpoints
        .find_map(of_endpoint)
        .or_else(|| callers(observed).into_iter().find_map(of_caller))
        .or_else(|| leftovers(observed).next().map(of_leftover))
        .or_else(|| definitions::stale(observed).next().map(of_definition))
}

/// Returns the writes that remove trust in unused CAs, for Deployments that `is_rolled_out`.
pub(crate) fn tidy(observed: &Observed, is_rolled_out: impl Fn(&str) -> bool) -> Vec<Action> {
    let exact = |deployment: &str, _: Option<&str>| {
        is_rolled_out(deployment)
            .then(|| observed.serving.ca(deployment).map(str::to_owned))
            .flatten()
    };
    let all = callers_with(observed, &exact)
        .into_iter()
        .map(|caller| caller.component);
    all.filter(|component| problem_of(observed, component).is_some())
        .map(|component| write(observed, component))
        .collect()
}

/// Deletes all webhooks and APIServices, because the operator must not run here. Conversions remain: without
/// them, objects of other versions would lose fields that the stored version lacks.
pub(crate) fn withdraw(observed: &Observed) -> Vec<Action> {
    let all = observed.serving.labelled.iter();
    all.map(|(target, uid)| Action::delete(target.clone(), uid.clone()))
        .collect()
}

fn around(observed: &Observed) -> impl Iterator<Item = Component> {
    let endpoints = observed.serving.endpoints.iter();
    endpoints.flat_map(|endpoint| around_of(observed, endpoint))
}

fn around_of(observed: &Observed, endpoint: &Endpoint) -> Vec<Component> {
    let components = objects::around(&observed.csv, endpoint).into_iter();
    let own = |component: Component| {
        let is_service = component.target.api.kind == Service::kind(&());
        if !is_service && belongs_to_others(observed, &component.target) {
            component.without_owner()
        } else {
            component
        }
    };
    let mut components: Vec<Component> = components.map(own).collect();
    if let Some(names) = observed.serving.delegations.get(&endpoint.deployment) {
        components.extend(delegation::bindings(&observed.csv, endpoint, names));
    }
    components
}

fn problem_of(observed: &Observed, component: &Component) -> Option<String> {
    component.problem(observed.serving.live(&component.target))
}

/// True for an object that existed before any ClusterServiceVersion used it: no ClusterServiceVersion owns
/// it, which is upstream's criterion. It is used, and not deleted with them.
fn belongs_to_others(observed: &Observed, target: &Target) -> bool {
    let Some(live) = observed.serving.live(target) else {
        return observed.serving.strangers.contains(&target.to_string());
    };
    let metadata = serde_json::from_value::<ObjectMeta>(live["metadata"].clone()).unwrap_or_default();
    owner::references(&metadata).next().is_none()
}

fn is_others_secret(observed: &Observed, endpoint: &Endpoint) -> bool {
    let target = Target::of::<ServingSecret>(observed.namespace(), &endpoint.secret());
    belongs_to_others(observed, &target)
}

/// The Secret for a certificate of `ca`, without its data.
fn wanted_secret(observed: &Observed, endpoint: &Endpoint, ca: &str) -> Component {
    let secret = objects::secret(&observed.csv, endpoint, &certificate::ca_hash(ca));
    if is_others_secret(observed, endpoint) {
        secret.without_owner()
    } else {
        secret
    }
}

fn secret_problem(observed: &Observed, endpoint: &Endpoint) -> Option<String> {
    let name = endpoint.secret();
    if let Some(unfit) = observed.serving.unfit.get(&endpoint.deployment) {
        return Some(format!(
            "the certificate in Secret {name} is unusable: {}",
            unfit.reason()
        ));
    }
    let secret = observed.serving.secrets.get(&endpoint.deployment)?;
    let lacks_owner = !is_owned(observed, secret) && !is_others_secret(observed, endpoint);
    lacks_owner.then(|| format!("Secret {name} is not owned by this ClusterServiceVersion"))
}

fn is_owned(observed: &Observed, secret: &ServingSecret) -> bool {
    owner::references(secret.meta()).any(|owner| owner.uid == observed.uid())
}

/// Writes a new certificate; or, for a valid one, adds this ClusterServiceVersion as an owner. Its other
/// owners are kept, so that it exists as long as any of them.
fn write_secret(observed: &Observed, endpoint: &Endpoint) -> Option<Action> {
    if let Some(issued) = observed.serving.issued.get(&endpoint.deployment) {
        let Component { target, object } = wanted_secret(observed, endpoint, &issued.ca);
        return Some(Action::Apply {
            target,
            object,
            data: Some(issued.data.clone()),
            manager: FIELD_MANAGER,
            identity: identity(observed),
        });
    }
    let secret = observed.serving.secrets.get(&endpoint.deployment)?;
    if is_owned(observed, secret) || is_others_secret(observed, endpoint) {
        return None;
    }
    let mut owners = secret.metadata.owner_references.clone().unwrap_or_default();
    owners.push(owner::reference(&observed.csv));
    let target = Target::of::<ServingSecret>(observed.namespace(), &endpoint.secret());
    let guard = Guard::of(&secret.metadata);
    let patch = json!({"metadata": {"ownerReferences": to_value(&owners)}});
    Some(Action::patch(target, patch, guard).by(identity(observed)))
}

/// Objects of this ClusterServiceVersion that it no longer describes.
fn leftovers(observed: &Observed) -> impl Iterator<Item = (&Target, &Option<String>)> {
    let webhooks =
        webhook::descriptions(&observed.csv).map(|description| webhook::target(&observed.csv, description));
    let apis = api_service::served(&observed.csv)
        .into_iter()
        .map(api_service::target);
    let wanted: BTreeSet<String> = webhooks
        .chain(apis)
        .chain(around(observed).map(|component| component.target))
        .map(|target| target.to_string())
        .collect();
    let labelled = observed.serving.labelled.iter();
    labelled
        .filter(move |(target, _)| !wanted.contains(&target.to_string()))
        .chain(&observed.serving.unused)
        .map(|(target, uid)| (target, uid))
}

fn delete(observed: &Observed, target: &Target, uid: &Option<String>) -> Action {
    Action::delete(target.clone(), uid.clone()).by(identity(observed))
}
