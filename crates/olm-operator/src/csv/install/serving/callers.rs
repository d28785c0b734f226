//! The objects through which the API server calls the Deployments that serve, with their trusted CAs.

use kube::Resource;
use olm_runtime::plan::{Action, Guard, Target};
use serde_json::Value;

use crate::{
    csv::{
        install::serving::definitions,
        observed::Observed,
        rbac::{apply, identity},
        serving::{
            api_service, bundle, certificate,
            component::{Component, shortening},
            conversion, webhook,
        },
    },
    stores::CustomResourceDefinition,
};

/// An object through which the API server calls a Deployment.
pub(super) struct Caller<'a> {
    pub(super) deployment: &'a str,
    /// Effect of a problem with the component, for users.
    pub(super) what: &'static str,
    pub(super) component: Component,
}

/// Returns all callers, with the CAs to trust until their pods are replaced.
pub(super) fn callers(observed: &Observed) -> Vec<Caller<'_>> {
    callers_with(observed, &|deployment, trusted| {
        overlapping_trust(observed, deployment, trusted)
    })
}

/// Returns the CA of the wanted certificate, together with the CAs of earlier ones; `trusted` are the
/// currently trusted CAs.
fn overlapping_trust(observed: &Observed, deployment: &str, trusted: Option<&str>) -> Option<String> {
    let current = observed.serving.ca(deployment)?;
    let trusted = trusted.unwrap_or_default();
    if bundle::trusts(trusted, current) {
        return Some(trusted.to_owned());
    }
    let stored = observed.serving.stored_ca(deployment);
    let stored = stored.filter(|ca| certificate::is_readable(ca));
    // The stored one comes last, which is never dropped.
    Some(bundle::overlapping(current, [trusted].into_iter().chain(stored)))
}

/// Returns the callers with the CAs from `trust`, which gets the Deployment and the currently trusted CAs. If
/// it returns `None`, the object is skipped.
pub(super) fn callers_with<'a>(
    observed: &'a Observed,
    trust: &dyn Fn(&str, Option<&str>) -> Option<String>,
) -> Vec<Caller<'a>> {
    let bundle = |deployment: &str, target: &Target, read: fn(&Value) -> Option<String>| {
        let trusted = observed.serving.live(target).and_then(read);
        trust(deployment, trusted.as_deref())
    };
    let csv = observed.csv.as_ref();
    let annotations = observed.overrides().map(|overrides| &overrides.annotations);
    let api_services = api_service::served(csv).into_iter().filter_map(|api| {
        let deployment = api.deployment_name.as_deref()?;
        if observed
            .serving
            .foreign_apis
            .contains_key(&api.api_service_name())
        {
            return None;
        }
        let target = api_service::target(api);
        let bundle = bundle(deployment, &target, api_service::bundle_of)?;
        let live = observed.serving.live(&target);
        Some(Caller {
            deployment,
            what: "apiServices not installed",
            component: api_service::api_service(csv, api, annotations, &bundle, live),
        })
    });
    let webhooks = webhook::descriptions(csv).filter_map(|description| {
        let deployment = description.deployment_name.as_deref()?;
        let bundle = bundle(deployment, &webhook::target(csv, description), webhook::bundle_of)?;
        Some(Caller {
            deployment,
            what: "webhooks not installed",
            component: webhook::configuration(csv, observed.group()?, description, &bundle),
        })
    });
    let conversions = conversion::conversions(csv).filter_map(|(description, crd)| {
        let deployment = description.deployment_name.as_deref()?;
        let bundle = bundle(deployment, &conversion::target(crd), conversion::bundle_of)?;
        Some(Caller {
            deployment,
            what: "conversionWebhook not ready",
            component: conversion::conversion(csv, description, crd, &bundle),
        })
    });
    api_services.chain(webhooks).chain(conversions).collect()
}

/// Returns the write that updates a component. If its lists have entries of others, these are removed first,
/// and the apply follows in the next reconcile.
pub(super) fn write(observed: &Observed, component: Component) -> Action {
    if component.target.api.kind == CustomResourceDefinition::kind(&()) {
        let (crd, patch) = (component.target.name, conversion::patch(component.object));
        return definitions::patch(observed, &crd, patch, identity(observed));
    }
    let live = observed.serving.live(&component.target);
    if let Some(live) = live
        && let Some(patch) = shortening(&component.object, live)
    {
        let guard = Guard::of_uid(live["metadata"]["uid"].as_str().map(str::to_owned));
        return Action::patch(component.target, patch, guard).by(identity(observed));
    }
    apply(observed, component.target, &component.object)
}
