//! Reads what there is of operators.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::core::Selector;
use kube::{Client, ResourceExt as _};
use olm_api::labels;
use olm_api::v1alpha1::{ClusterServiceVersion, ClusterServiceVersionPhase as Phase, SubscriptionState};

use crate::operators::{Gathered, Operator, Workload, deployments, plan_name};
use crate::reader::{get, is_forbidden, list, list_readable};

/// Subscriptions and ClusterServiceVersions of one namespace or all, and the InstallPlans of Subscriptions that have something
/// on its way.
///
/// # Errors
/// Something cannot be read.
pub(crate) async fn operators(client: &Client, namespace: Option<&str>) -> anyhow::Result<Gathered> {
    let (subscriptions, unreadable) = list_readable(client, namespace, "").await?;
    let mut gathered = Gathered {
        subscriptions,
        unreadable,
        ..Gathered::default()
    };
    let (csvs, unreadable) = list_readable::<ClusterServiceVersion>(client, namespace, &originals()).await?;
    gathered.unreadable.extend(unreadable);
    let originals = csvs.into_iter().filter(|csv| !csv.is_copied());
    gathered.csvs = originals
        .map(|csv| ((csv.namespace().unwrap_or_default(), csv.name_any()), csv))
        .collect();
    let waiting = gathered.subscriptions.iter().filter_map(|subscription| {
        let status = subscription.status.as_ref()?;
        let name = plan_name(status).filter(|_| status.state != SubscriptionState::AtLatestKnown)?;
        Some((subscription.namespace()?, name.to_owned()))
    });
    for (namespace, name) in waiting.collect::<Vec<_>>() {
        plan(client, &mut gathered, namespace, name).await?;
    }
    Ok(gathered)
}

/// Selects ClusterServiceVersions that are no copies.
pub(crate) fn originals() -> String {
    format!("!{}", labels::COPIED_FROM)
}

async fn plan(
    client: &Client,
    gathered: &mut Gathered,
    namespace: String,
    name: String,
) -> anyhow::Result<()> {
    let key = (namespace, name);
    if !gathered.plans.contains_key(&key)
        && let Some(plan) = get(client, &key.0, &key.1).await?
    {
        gathered.plans.insert(key, plan);
    }
    Ok(())
}

/// The same with InstallPlans, Deployments and pods of those operators that are wanted.
///
/// # Errors
/// Something cannot be read, but for want of a right to see Deployments and pods.
pub(crate) async fn with_workloads(
    client: &Client,
    namespace: Option<&str>,
    is_wanted: impl Fn(&Operator<'_>) -> bool,
) -> anyhow::Result<Gathered> {
    let mut gathered = operators(client, namespace).await?;
    let (mut plans, mut workloads) = (Vec::new(), Vec::new());
    for operator in gathered.operators().iter().filter(|operator| is_wanted(operator)) {
        let namespace = operator.namespace();
        let status = operator
            .subscription
            .and_then(|subscription| subscription.status.as_ref());
        plans.extend(
            status
                .and_then(plan_name)
                .map(|name| (namespace.clone(), name.to_owned())),
        );
        for csv in operator.installed.into_iter().chain(operator.current) {
            // Before that there are none.
            let is_early = matches!(csv.phase(), Phase::None | Phase::Pending | Phase::InstallReady);
            let names = deployments(csv).filter(|_| !is_early);
            workloads.extend(names.map(|name| (namespace.clone(), name.to_owned())));
        }
    }
    workloads.sort();
    workloads.dedup();
    for (namespace, name) in plans {
        plan(client, &mut gathered, namespace, name).await?;
    }
    for (namespace, name) in workloads {
        let workload = workload(client, &namespace, &name).await?;
        gathered.workloads.insert((namespace, name), workload);
    }
    Ok(gathered)
}

/// Not everybody who may see operators may see their pods.
///
/// # Errors
/// They may be seen, and cannot be.
async fn workload(client: &Client, namespace: &str, name: &str) -> anyhow::Result<Workload> {
    let mut workload = Workload::default();
    match get::<Deployment>(client, namespace, name).await {
        Ok(deployment) => workload.deployment = deployment,
        Err(error) => {
            workload.unread = Some(forbidden(error)?);
            return Ok(workload);
        }
    }
    let selector = workload
        .deployment
        .as_ref()
        .and_then(|deployment| deployment.spec.as_ref())
        .and_then(|spec| Selector::try_from(spec.selector.clone()).ok())
        // An empty selector is of all pods.
        .filter(|selector| !selector.selects_all());
    let Some(selector) = selector else {
        return Ok(workload);
    };
    match list::<Pod>(client, Some(namespace), &selector.to_string()).await {
        Ok(pods) => workload.pods = pods,
        Err(error) => workload.unread = Some(forbidden(error)?),
    }
    Ok(workload)
}

/// What is missing, of an error for want of a right.
///
/// # Errors
/// It is for something else, which may be over in a moment: what was not seen is not taken for well.
fn forbidden(error: anyhow::Error) -> anyhow::Result<String> {
    match is_forbidden(&error) {
        true => Ok(format!("{error:#}")),
        false => Err(error),
    }
}
