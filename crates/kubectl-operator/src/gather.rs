//! Reads the state of operators.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;

use futures::StreamExt as _;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::Selector;
use kube::{Client, ResourceExt as _};
use olm_api::labels;
use olm_api::v1alpha1::{
    ClusterServiceVersion, ClusterServiceVersionPhase as Phase, InstallPlan, InstallPlanPhase,
};

use crate::catalogs::AT_ONCE;
use crate::operators::{Gathered, Key, Operator, Workload, deployments, open_plan, plan_name, retry_error};
use crate::reader::{get, is_forbidden, list, list_readable, require_namespace};
use crate::turns::in_turn;

/// Maximum number of InstallPlans that are requested one by one. Users who write the status of a Subscription can name any plan.
const MAX_ASKED: usize = 200;

/// Reads Subscriptions and ClusterServiceVersions of one namespace or all, the InstallPlans of Subscriptions with a pending change,
/// and those of versions that OLM no longer works on, if they failed or are carried out again after an error.
///
/// # Errors
/// Objects cannot be read.
pub(crate) async fn operators(client: &Client, namespace: Option<&str>) -> anyhow::Result<Gathered> {
    let (subscriptions, mut unreadable) = list_readable(client, namespace, "").await?;
    let found = versions(client, namespace).await?;
    unreadable.extend(found.unreadable);
    let mut gathered = Gathered {
        subscriptions,
        unreadable,
        ..found
    };
    let waiting = gathered.subscriptions.iter().filter_map(open_plan).collect();
    plans(client, &mut gathered, waiting).await?;
    Box::pin(failed_plans(client, &mut gathered)).await;
    Ok(gathered)
}

/// Reads the InstallPlans of versions that wait although OLM works on a newer one, if they failed or are carried out again after an
/// error. No Subscription refers to them.
/// They only make a cause more precise, so those that cannot be read are left out.
async fn failed_plans(client: &Client, gathered: &mut Gathered) {
    let mut left: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for operator in gathered.operators() {
        for csv in operator.left_behind() {
            let of_namespace = left.entry(operator.namespace()).or_default();
            of_namespace.insert(csv.name_any());
        }
    }
    let reads = futures::stream::iter(left.into_iter().take(MAX_ASKED)).map(async |(namespace, csvs)| {
        let found = list::<InstallPlan>(client, Some(&namespace), "").await;
        (namespace, csvs, found.unwrap_or_default())
    });
    let mut reads = pin!(reads.buffer_unordered(AT_ONCE));
    while let Some((namespace, csvs, found)) = reads.next().await {
        for csv in csvs {
            let of_csv = found
                .iter()
                .filter(|plan| plan.spec.cluster_service_version_names.contains(&csv));
            // The version may have been installed again since.
            let last = of_csv.max_by_key(|plan| plan.creation_timestamp().map(|made| made.0));
            let is_cause =
                |plan: &&InstallPlan| plan.phase() == InstallPlanPhase::Failed || retry_error(plan).is_some();
            if let Some(plan) = last.filter(is_cause) {
                let key = (namespace.clone(), csv);
                gathered.failed_plans.insert(key, plan.clone());
            }
        }
    }
}

/// Reads only the ClusterServiceVersions of one namespace or all, without copies.
///
/// # Errors
/// They cannot be read.
pub(crate) async fn versions(client: &Client, namespace: Option<&str>) -> anyhow::Result<Gathered> {
    let (csvs, unreadable) = list_readable::<ClusterServiceVersion>(client, namespace, &originals()).await?;
    let originals = csvs.into_iter().filter(|csv| !csv.is_copied());
    let csvs = originals.map(|csv| ((csv.namespace().unwrap_or_default(), csv.name_any()), csv));
    Ok(Gathered {
        csvs: csvs.collect(),
        unreadable,
        ..Gathered::default()
    })
}

/// Reads the operators of a namespace that has to exist.
///
/// # Errors
/// Objects cannot be read, or the namespace does not exist.
pub(crate) async fn existing(client: &Client, namespace: Option<&str>) -> anyhow::Result<Gathered> {
    let gathered = operators(client, namespace).await?;
    require(client, namespace, &gathered).await?;
    Ok(gathered)
}

/// Checks that the namespace exists if nothing was found in it.
///
/// # Errors
/// The namespace does not exist.
pub(crate) async fn require(
    client: &Client,
    namespace: Option<&str>,
    found: &Gathered,
) -> anyhow::Result<()> {
    let is_empty = found.subscriptions.is_empty() && found.csvs.is_empty() && found.unreadable.is_empty();
    match namespace.filter(|_| is_empty) {
        Some(namespace) => require_namespace(client, namespace).await,
        None => Ok(()),
    }
}

/// Returns the selector for ClusterServiceVersions that are no copies.
pub(crate) fn originals() -> String {
    format!("!{}", labels::COPIED_FROM)
}

/// Requests the plans that are not read yet, each once.
async fn plans(client: &Client, gathered: &mut Gathered, keys: BTreeSet<Key>) -> anyhow::Result<()> {
    let mut asked = in_turn(keys, |key| key.0.clone());
    asked.retain(|key| !gathered.plans.contains_key(key));
    gathered
        .unasked
        .extend(asked.split_off(MAX_ASKED.min(asked.len())));
    for key in asked {
        gathered.unasked.remove(&key);
        if let Some(plan) = get(client, &key.0, &key.1).await? {
            gathered.plans.insert(key, plan);
        }
    }
    Ok(())
}

/// Reads the same, with InstallPlans, Deployments and pods of the selected operators.
///
/// # Errors
/// Objects cannot be read. Missing permission to read Deployments and pods is no error.
pub(crate) async fn with_workloads(
    client: &Client,
    namespace: Option<&str>,
    is_wanted: impl Fn(&Operator<'_>) -> bool,
) -> anyhow::Result<Gathered> {
    let mut gathered = operators(client, namespace).await?;
    let (mut own_plans, mut workloads) = (BTreeSet::new(), Vec::new());
    for operator in gathered.operators().iter().filter(|operator| is_wanted(operator)) {
        let namespace = operator.namespace();
        let plan = operator.status().and_then(plan_name);
        own_plans.extend(plan.map(|name| (namespace.clone(), name.to_owned())));
        let former = operator.deleted_csv().and(operator.former());
        let own = operator.installed.into_iter().chain(operator.current);
        for csv in own.chain(former) {
            // There are no Deployments before this phase.
            let is_early = matches!(csv.phase(), Phase::None | Phase::Pending | Phase::InstallReady);
            let names = deployments(csv).filter(|_| !is_early);
            workloads.extend(names.map(|name| (namespace.clone(), name.to_owned())));
        }
    }
    workloads.sort();
    workloads.dedup();
    plans(client, &mut gathered, own_plans).await?;
    for (namespace, name) in workloads {
        let workload = workload(client, &namespace, &name).await?;
        gathered.workloads.insert((namespace, name), workload);
    }
    Ok(gathered)
}

/// Reads a Deployment and its pods. Missing permission is recorded, because users who may read operators may lack it.
///
/// # Errors
/// The read fails for another reason than missing permission.
async fn workload(client: &Client, namespace: &str, name: &str) -> anyhow::Result<Workload> {
    let mut workload = Workload::default();
    match get::<Deployment>(client, namespace, name).await {
        Ok(deployment) => workload.deployment = deployment,
        Err(error) => {
            workload.unread = Some(forbidden(error)?);
            return Ok(workload);
        }
    }
    let deployment = workload.deployment.as_ref();
    let spec = deployment.and_then(|deployment| deployment.spec.as_ref());
    let Some(selector) = spec.and_then(|spec| pod_selector(spec.selector.clone())) else {
        return Ok(workload);
    };
    match list::<Pod>(client, Some(namespace), &selector).await {
        Ok(pods) => workload.pods = pods,
        Err(error) => workload.unread = Some(forbidden(error)?),
    }
    Ok(workload)
}

/// Returns the selector for the pods of a Deployment; `None` for an empty one, which matches all pods.
pub(crate) fn pod_selector(selector: LabelSelector) -> Option<String> {
    let selector = Selector::try_from(selector).ok()?;
    (!selector.selects_all()).then(|| selector.to_string())
}

/// Returns the text of an error if it is about missing permission.
///
/// # Errors
/// The error has another, possibly temporary cause; an unknown state does not count as ready.
fn forbidden(error: anyhow::Error) -> anyhow::Result<String> {
    match is_forbidden(&error) {
        true => Ok(format!("{error:#}")),
        false => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use olm_testing::cluster::{FakeCluster, Fault, Refusal};
    use serde_json::json;

    use super::*;
    use crate::command_line::CommandLine;
    use crate::operators::State;
    use crate::operators::tests::{csv, plan, subscription};

    /// Creates a Subscription that refers to a plan.
    fn put(cluster: &FakeCluster, namespace: &str, name: &str, plan: &str) {
        let status = json!({"state": "UpgradePending", "installPlanRef": {"name": plan}});
        let mut of = subscription(name, &status);
        of["metadata"]["namespace"] = json!(namespace);
        cluster.put(of);
    }

    fn asked(cluster: &FakeCluster) -> usize {
        cluster.log().counts[&("get", "InstallPlan".to_owned())]
    }

    #[tokio::test(start_paused = true)]
    async fn an_empty_namespace_is_distinguished_from_a_missing_one() {
        let cluster = FakeCluster::new();
        let (client, _link) = cluster.connect();
        let error = existing(&client, Some("shop")).await.unwrap_err();
        assert_eq!(error.to_string(), "namespace shop does not exist");
        assert!(existing(&client, None).await.is_ok());
        cluster.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}));
        assert!(existing(&client, Some("shop")).await.is_ok());
        // Objects are proof enough for users who may not read namespaces.
        put(&cluster, "other", "db", "gone");
        assert!(existing(&client, Some("other")).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_plan_that_is_gone_is_asked_for_once_however_many_name_it() {
        let cluster = FakeCluster::new();
        for number in 0..20 {
            put(&cluster, "shop", &format!("db-{number}"), "gone");
        }
        let (client, _link) = cluster.connect();
        let gathered = operators(&client, None).await.unwrap();
        assert_eq!((asked(&cluster), gathered.plans.len()), (1, 0));
        assert!(gathered.notes().next().is_none());
    }

    /// A user did not approve the next version, or did: the failure of the one before is the cause either way.
    #[tokio::test(start_paused = true)]
    async fn a_failed_plan_is_not_hidden_by_the_plan_of_the_next_version() {
        let waits = |version: &str, replaces: &str| {
            let mut csv = csv(version, "Pending", "no such role");
            csv["spec"]["replaces"] = json!(replaces);
            csv
        };
        let plan_of = |name: &str, phase: &str, csv: &str, made: &str| {
            let mut plan = plan(name, phase, phase != "RequiresApproval");
            plan["metadata"]["creationTimestamp"] = json!(made);
            plan["spec"]["clusterServiceVersionNames"] = json!([csv]);
            plan["status"]["message"] = json!("roles is forbidden");
            plan
        };
        for (is_approved, is_gone) in [(false, false), (true, false), (false, true)] {
            let cluster = FakeCluster::new();
            let (current, installed) = match is_approved {
                true => ("etcd.v3.0.0", "etcd.v2.0.0"),
                false => ("etcd.v2.0.0", "etcd.v1.1.0"),
            };
            let status = json!({"installedCSV": installed, "currentCSV": current, "state": "UpgradePending",
                "installPlanRef": {"name": "install-3"}});
            cluster.put(subscription("db", &status));
            cluster.put(csv("1.0.0", "Replacing", ""));
            cluster.put(waits("1.1.0", "etcd.v1.0.0"));
            if is_approved {
                cluster.put(waits("2.0.0", "etcd.v1.1.0"));
            }
            cluster.put(plan_of(
                "install-1",
                "Complete",
                "etcd.v1.1.0",
                "2026-01-01T00:00:00Z",
            ));
            if !is_gone {
                cluster.put(plan_of(
                    "install-2",
                    "Failed",
                    "etcd.v1.1.0",
                    "2026-01-02T00:00:00Z",
                ));
            }
            let next = plan_of("install-3", "RequiresApproval", current, "2026-01-03T00:00:00Z");
            cluster.put(next);
            let (client, _link) = cluster.connect();
            let gathered = operators(&client, Some("shop")).await.unwrap();
            let operators = gathered.operators();
            let (verdict, row) = (operators[0].verdict(), operators[0].row());
            assert_eq!(row.installed_version, "1.0.0");
            if is_gone {
                assert_eq!(verdict.state, State::Installing, "{verdict:?}");
                continue;
            }
            assert_eq!(
                (verdict.state, verdict.message.as_str()),
                (State::Failed, "InstallPlan install-2: roles is forbidden")
            );
            let way_out = operators[0].way_out(&verdict, &CommandLine::default());
            assert_eq!(
                way_out.unwrap(),
                "correct the cause, then go back to etcd.v1.0.0 with kubectl operator rollback db --to etcd.v1.0.0 -n shop, and \
                 upgrade again: OLM creates no other plan while etcd.v1.1.0 exists"
            );
            let tree = gathered.tree(&operators[0], &CommandLine::default());
            assert!(tree.needs_somebody());
            assert!(
                tree.objects.iter().any(|object| object.name == "install-2"),
                "{tree:?}"
            );
        }
    }

    /// OLM creates the plan of the next version although this one did not complete.
    #[tokio::test(start_paused = true)]
    async fn the_plan_of_a_version_left_behind_is_read_if_it_is_carried_out_again() {
        for (message, expected) in [("retrying execution due to error: no room", 1), ("", 0)] {
            let cluster = FakeCluster::new();
            let status = json!({"installedCSV": "etcd.v1.0.0", "currentCSV": "etcd.v2.0.0", "state": "UpgradePending",
                "installPlanRef": {"name": "install-2"}});
            cluster.put(subscription("db", &status));
            cluster.put(csv("1.0.0", "Pending", ""));
            cluster.put(plan("install-2", "RequiresApproval", false));
            let mut retried = plan("install-1", "Installing", true);
            retried["spec"]["clusterServiceVersionNames"] = json!(["etcd.v1.0.0"]);
            retried["status"]["message"] = json!(message);
            cluster.put(retried);
            let (client, _link) = cluster.connect();
            let gathered = operators(&client, Some("shop")).await.unwrap();
            assert_eq!(gathered.failed_plans.len(), expected, "{message}");
        }
    }

    /// They only make a cause more precise.
    #[tokio::test(start_paused = true)]
    async fn failed_plans_that_cannot_be_read_hide_nothing() {
        for code in [403, 500] {
            let cluster = FakeCluster::new();
            let status = json!({"installedCSV": "etcd.v2.0.0", "currentCSV": "etcd.v2.0.0", "state": "UpgradePending"});
            cluster.put(subscription("db", &status));
            let mut current = csv("2.0.0", "Pending", "");
            current["spec"]["replaces"] = json!("etcd.v1.1.0");
            cluster.put(current);
            cluster.put(csv("1.1.0", "Pending", "no such role"));
            cluster.put(plan("install-1", "Failed", true));
            cluster.on_request(move |request| {
                let is_list = request.kind.kind == "InstallPlan" && request.name.is_empty();
                is_list.then(|| Fault::Refuse(Refusal::new(code, "Nope", "plans are refused")))
            });
            let (client, _link) = cluster.connect();
            let gathered = operators(&client, None).await.unwrap();
            assert!(
                cluster
                    .log()
                    .counts
                    .contains_key(&("list", "InstallPlan".to_owned())),
                "{code}"
            );
            assert_eq!(
                (gathered.operators().len(), gathered.failed_plans.len()),
                (1, 0),
                "{code}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn thousands_of_named_plans_do_not_prevent_reads_of_others() {
        let cluster = FakeCluster::new();
        for number in 0..2 * MAX_ASKED {
            put(
                &cluster,
                "evil",
                &format!("db-{number}"),
                &format!("gone-{number:04}"),
            );
        }
        put(&cluster, "shop", "db", "install-1");
        cluster.put(plan("install-1", "RequiresApproval", false));
        let (client, _link) = cluster.connect();
        let gathered = operators(&client, None).await.unwrap();
        assert_eq!(asked(&cluster), MAX_ASKED);
        assert!(
            gathered
                .plans
                .contains_key(&("shop".to_owned(), "install-1".to_owned()))
        );
        let notes: Vec<String> = gathered.notes().collect();
        assert_eq!(notes, ["skipped 201 InstallPlans: there are too many"]);
        // The selected operator's plan is read despite the limit.
        let last = format!("db-{}", 2 * MAX_ASKED - 1);
        let gathered = with_workloads(&client, Some("evil"), |operator| operator.name() == last)
            .await
            .unwrap();
        assert_eq!(asked(&cluster), 2 * MAX_ASKED + 1);
        assert_eq!(gathered.unasked.len(), MAX_ASKED - 1);
        let operators = gathered.operators();
        let of = |name: &str| operators.iter().find(|operator| operator.name() == name).unwrap();
        let state = |name: &str| {
            gathered.tree(of(name), &CommandLine::default()).objects[0]
                .state
                .clone()
        };
        assert_eq!(
            (state(&last), state("db-250")),
            ("Gone".to_owned(), "Unknown".to_owned())
        );
    }
}
