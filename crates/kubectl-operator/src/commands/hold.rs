//! `kubectl operator hold` and `unhold`: set and remove the range of versions that OLM may install for a Subscription.

use anyhow::{anyhow, bail};
use kube::ResourceExt as _;
use olm_api::labels::UPGRADE_HOLD;
use olm_api::v1alpha1::Subscription;
use olm_resolver::hold::parse_range;
use serde_json::json;

use crate::args::change::{HoldArgs, UnholdArgs};
use crate::args::shared::quoted;
use crate::cluster::Cluster;
use crate::operators::{Gathered, Operator, others_of};
use crate::reader::api;
use crate::{Verdict, gather, printer, writer};

/// Ranges for users who wrote an invalid one.
const EXAMPLES: &str = "'=1.2.0', '<2.0.0', '>=1.2.0 <2.0.0', '!1.3.0'";

/// Holds an operator within a range of versions.
///
/// # Errors
/// There is no such Subscription, the range is invalid, or a request to the API server fails.
pub(crate) async fn hold(args: &HoldArgs) -> anyhow::Result<Verdict> {
    let cluster = Cluster::connect(&args.connection).await?;
    let (text, warnings) = held(&cluster, &args.name, args.range.as_deref()).await?;
    printer::data(&format!("{text}\n"))?;
    warnings.iter().for_each(|warning| printer::warning(warning));
    Ok(Verdict::Fine)
}

/// Lets OLM install all versions again.
///
/// # Errors
/// There is no such Subscription, or a request to the API server fails.
pub(crate) async fn unhold(args: &UnholdArgs) -> anyhow::Result<Verdict> {
    let cluster = Cluster::connect(&args.connection).await?;
    printer::data(&format!("{}\n", released(&cluster, &args.name).await?))?;
    Ok(Verdict::Fine)
}

/// Sets the range, by default to the version that has succeeded last. Returns what was changed, and warnings about what the hold does
/// not prevent.
async fn held(cluster: &Cluster, name: &str, range: Option<&str>) -> anyhow::Result<(String, Vec<String>)> {
    let gathered = gather::existing(&cluster.client, Some(&cluster.namespace)).await?;
    let (operator, subscription) = found(&gathered, cluster, name)?;
    let name = operator.name();
    let row = operator.row();
    let exists = |csv: &str| gathered.has_csv(&(cluster.namespace.clone(), csv.to_owned()));
    let range = match range {
        Some(range) => range.to_owned(),
        None if row.installed_version.is_empty() => {
            bail!("no version of {name} is installed yet; choose the versions with --range")
        }
        None if !operator.is_hidden && !exists(&row.installed_csv) => bail!(
            "cannot hold {name} at its version, because its ClusterServiceVersion {} was deleted; see `{}` for what to do, or choose the \
             versions with --range",
            row.installed_csv,
            cluster.suggest("status {}", &[&name])
        ),
        None => format!("={}", row.installed_version),
    };
    parse_range(&range)
        .map_err(|error| anyhow!("cannot hold {name} within {range:?}: {error}; examples: {EXAMPLES}"))?;
    let before = subscription.annotations().get(UPGRADE_HOLD);
    let was = match before {
        Some(before) if *before == range => " already".to_owned(),
        Some(before) => format!(" (before: {before})"),
        None => String::new(),
    };
    if before != Some(&range) {
        set(cluster, subscription, Some(&range)).await?;
    }
    let (pending, namespace) = (operator.pending_plan(), Some(cluster.namespace.as_str()));
    let outside = operator.installed_outside(&range).map(|version| {
        format!(
            "the installed version {version} is outside {range}, and a hold does not change it: {}",
            operator.hold_moves(&cluster.commands)
        )
    });
    let warning = match operator.pending_outside(&range).map(|plan| plan.name_any()) {
        Some(plan) => Some(format!(
            "InstallPlan {plan} for {} waits for approval, and a hold does not withdraw it: do not approve it, or delete it with \
             `kubectl delete installplan {} {}`",
            row.current_csv,
            quoted(&plan),
            cluster.commands.flags(namespace)
        )),
        // Nothing is being installed after the newest version was deleted.
        None if operator.deleted_csv().is_some() => None,
        None => operator.former().filter(|_| pending.is_none()).map(|former| {
            // Until the version exists, there is nothing to roll back.
            let is_absent = operator.current.is_none() && !operator.is_hidden;
            let open = operator.plan.filter(|_| is_absent && !operator.is_carried_out());
            let running = open.filter(|plan| !plan.is_over());
            let others = running.map(|plan| others_of(&gathered.subscriptions, Some(subscription), plan));
            let others = others.unwrap_or_default().join(", ");
            let way = match open.map(|plan| plan.name_any()) {
                // Without the plan they would stay half-installed.
                Some(plan) if !others.is_empty() => format!(
                    "InstallPlan {plan} is also for {others}, so do not delete it; wait until it completes, then go back with `{}`",
                    cluster.suggest("rollback {} --to {}", &[&name, &former.name_any()])
                ),
                Some(plan) => format!(
                    "to stop it delete the plan with `kubectl delete installplan {} {}`",
                    quoted(&plan),
                    cluster.commands.flags(namespace)
                ),
                // Without --to a version that has not failed is not rolled back.
                None => {
                    let to = Some(row.installed_csv.as_str()).filter(|csv| !csv.is_empty());
                    let to = to.unwrap_or("VERSION");
                    format!(
                        "to go back use `{}`",
                        cluster.suggest("rollback {} --to {}", &[&name, to])
                    )
                }
            };
            format!(
                "{} is already being installed, and a hold does not stop that; {way}",
                row.current_csv
            )
        }),
    };
    let subject = format!("Subscription {}/{name}", cluster.namespace);
    let warnings = outside.into_iter().chain(warning).collect();
    Ok((format!("{subject} is held within {range}{was}"), warnings))
}

/// Removes the range, and returns what was changed.
async fn released(cluster: &Cluster, name: &str) -> anyhow::Result<String> {
    let gathered = gather::existing(&cluster.client, Some(&cluster.namespace)).await?;
    let (operator, subscription) = found(&gathered, cluster, name)?;
    let subject = format!("Subscription {}/{}", cluster.namespace, operator.name());
    let Some(range) = subscription.annotations().get(UPGRADE_HOLD) else {
        return Ok(format!("{subject} is not held"));
    };
    set(cluster, subscription, None).await?;
    Ok(format!("{subject} is no longer held (before: {range})"))
}

/// Sets the range in the annotation, or removes it.
async fn set(cluster: &Cluster, subscription: &Subscription, range: Option<&str>) -> anyhow::Result<()> {
    let change = json!({"metadata": {"annotations": {UPGRADE_HOLD: range}}});
    let subscriptions = api(&cluster.client, Some(&cluster.namespace));
    writer::merge(&subscriptions, subscription, change).await
}

/// Returns the operator of a package or of this name, and its Subscription.
fn found<'a>(
    gathered: &'a Gathered,
    cluster: &Cluster,
    name: &str,
) -> anyhow::Result<(Operator<'a>, &'a Subscription)> {
    let name = gathered.of_package(&cluster.namespace, name);
    let operator = gathered.find(&cluster.namespace, &name, &cluster.commands)?;
    let Some(subscription) = operator.subscription else {
        bail!("{name} has no Subscription, so OLM does not upgrade it");
    };
    Ok((operator, subscription))
}

#[cfg(test)]
mod tests {
    use olm_resolver::plan::{Question, Waiting};
    use olm_testing::cluster::FakeCluster;

    use super::*;
    use crate::command_line::CommandLine;
    use crate::commands::plan::note_plans;
    use crate::operators::tests::{csv, plan, subscription};
    use crate::operators::{State, lines};
    use crate::terminal::Colours;

    fn cluster() -> FakeCluster {
        let cluster = FakeCluster::new();
        let status =
            json!({"installedCSV": "etcd.v1.0.0", "currentCSV": "etcd.v1.0.0", "state": "AtLatestKnown"});
        cluster.put(subscription("db", &status));
        cluster.put(csv("1.0.0", "Succeeded", ""));
        cluster
    }

    fn range_of(cluster: &FakeCluster) -> Option<String> {
        let found = cluster.get("Subscription", "shop", "db").unwrap();
        found["metadata"]["annotations"][UPGRADE_HOLD]
            .as_str()
            .map(str::to_owned)
    }

    #[tokio::test(start_paused = true)]
    async fn an_operator_is_held_at_its_version_until_it_is_released() {
        let fake = cluster();
        let (client, _link) = fake.connect();
        let cluster = Cluster::of(client.clone(), "shop");
        let state = async || {
            let gathered = gather::operators(&client, Some("shop")).await.unwrap();
            let verdict = gathered.operators()[0].verdict();
            (verdict.state, verdict.message)
        };
        assert_eq!(state().await.0, State::Ready);
        let first = held(&cluster, "db", None).await.unwrap();
        assert_eq!(first.0, "Subscription shop/db is held within =1.0.0");
        assert!(first.1.is_empty(), "{first:?}");
        assert_eq!(range_of(&fake).as_deref(), Some("=1.0.0"));
        let text = format!("held within =1.0.0 by annotation {UPGRADE_HOLD}");
        assert_eq!(state().await, (State::Held, text));
        let writes = fake.log().writes.len();
        let again = held(&cluster, "etcd", None).await.unwrap();
        assert_eq!(again.0, "Subscription shop/db is held within =1.0.0 already");
        assert_eq!(fake.log().writes.len(), writes);
        let other = held(&cluster, "db", Some("<2.0.0")).await.unwrap();
        assert_eq!(
            other.0,
            "Subscription shop/db is held within <2.0.0 (before: =1.0.0)"
        );
        assert_eq!(
            released(&cluster, "db").await.unwrap(),
            "Subscription shop/db is no longer held (before: <2.0.0)"
        );
        assert_eq!(range_of(&fake), None);
        assert_eq!(
            released(&cluster, "db").await.unwrap(),
            "Subscription shop/db is not held"
        );
        assert_eq!(state().await.0, State::Ready);
    }

    #[tokio::test(start_paused = true)]
    async fn what_cannot_be_held_is_refused() {
        let fake = cluster();
        fake.put(subscription("new", &json!({})));
        let of_deleted =
            json!({"installedCSV": "etcd.v0.9.0", "currentCSV": "etcd.v0.9.0", "state": "AtLatestKnown"});
        fake.put(subscription("gone", &of_deleted));
        fake.put(csv("9.0.0", "Succeeded", ""));
        let (client, _link) = fake.connect();
        let cluster = Cluster::of(client, "shop");
        for (name, range, expected) in [
            (
                "db",
                Some("newest"),
                "cannot hold db within \"newest\": Could not get version from string: \"newest\"; examples: '=1.2.0', ",
            ),
            ("new", None, "no version of new is installed yet"),
            (
                "gone",
                None,
                "cannot hold gone at its version, because its ClusterServiceVersion etcd.v0.9.0 was deleted; see `kubectl operator \
                 status gone -n shop` for what to do, or ",
            ),
            ("etcd.v9.0.0", None, "etcd.v9.0.0 has no Subscription"),
            ("nope", None, "namespace shop has no operator nope"),
        ] {
            let error = held(&cluster, name, range).await.unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
        assert!(fake.log().writes.is_empty());
    }

    /// OLM leaves it as it is, so the range may be a mistake.
    #[tokio::test(start_paused = true)]
    async fn an_installed_version_outside_the_range_is_reported() {
        let fake = cluster();
        let (client, _link) = fake.connect();
        let changed = held(&Cluster::of(client.clone(), "shop"), "db", Some(">2.0.0"))
            .await
            .unwrap();
        let way_out = "to stay at the installed version use `kubectl operator hold db -n shop`, to allow all versions `kubectl operator \
                       unhold db -n shop`, to go back to a version within the range `kubectl operator rollback db --to VERSION -n shop`";
        let expected = format!(
            "the installed version 1.0.0 is outside >2.0.0, and a hold does not change it: {way_out}"
        );
        assert_eq!(changed.1, [expected]);
        let gathered = gather::operators(&client, Some("shop")).await.unwrap();
        let operators = gathered.operators();
        let verdict = operators[0].verdict();
        assert_eq!(verdict.state, State::Held);
        let text = format!(
            "the installed version 1.0.0 is outside the hold: held within >2.0.0 by annotation {UPGRADE_HOLD}"
        );
        assert_eq!(verdict.message, text);
        let suggested = operators[0].way_out(&verdict, &CommandLine::default());
        assert_eq!(suggested.as_deref(), Some(way_out));
    }

    /// The plan was made before the hold, and OLM keeps it.
    #[tokio::test(start_paused = true)]
    async fn a_plan_that_waits_is_named_if_the_hold_excludes_it() {
        for (range, is_outside) in [(None, true), (Some("<2.0.0"), true), (Some("<3.0.0"), false)] {
            let fake = cluster();
            let status = json!({"installedCSV": "etcd.v1.0.0", "currentCSV": "etcd.v2.0.0", "state": "UpgradePending",
                "installPlanRef": {"name": "install-1"}});
            fake.put(subscription("db", &status));
            fake.put(plan("install-1", "RequiresApproval", false));
            let (client, _link) = fake.connect();
            let warnings = held(&Cluster::of(client.clone(), "shop"), "db", range)
                .await
                .unwrap()
                .1;
            let expected = "InstallPlan install-1 for etcd.v2.0.0 waits for approval, and a hold does not withdraw it: do not \
                approve it, or delete it with `kubectl delete installplan install-1 -n shop`";
            let expected: Vec<&str> = is_outside.then_some(expected).into_iter().collect();
            assert_eq!(warnings, expected, "{range:?}");
            let gathered = gather::operators(&client, Some("shop")).await.unwrap();
            let state = match is_outside {
                true => State::Held,
                false => State::RequiresApproval,
            };
            let operators = gathered.operators();
            assert_eq!(operators[0].verdict().state, state, "{range:?}");
            // Neither the tree nor `plan` advises to approve what `approve` refuses.
            let tree = gathered.tree(&operators[0], &CommandLine::default());
            let text = lines(&[tree], Colours(false)).join("\n");
            assert_eq!(text.contains("kubectl operator approve"), !is_outside, "{text}");
            assert_eq!(text.contains("kubectl operator unhold db"), is_outside, "{text}");
            let waiting = Waiting {
                subscription: "db".to_owned(),
                ..Waiting::default()
            };
            let mut question = Question {
                waiting: vec![waiting],
                ..Question::default()
            };
            note_plans(&mut question, &gathered);
            assert_eq!(question.waiting[0].hold.is_some(), is_outside, "{range:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_upgrade_in_progress_is_not_stopped_and_is_reported() {
        let fake = cluster();
        let status = json!({"installedCSV": "etcd.v2.0.0", "currentCSV": "etcd.v2.0.0"});
        fake.put(subscription("db", &status));
        let mut next = csv("2.0.0", "Failed", "");
        next["spec"]["replaces"] = json!("etcd.v1.0.0");
        fake.put(next);
        let (client, _link) = fake.connect();
        let changed = held(&Cluster::of(client, "shop"), "db", None).await.unwrap();
        assert_eq!(changed.0, "Subscription shop/db is held within =1.0.0");
        let [warning] = &changed.1[..] else {
            panic!("{changed:?}");
        };
        assert!(
            warning.starts_with("etcd.v2.0.0 is already being installed")
                && warning.ends_with("`kubectl operator rollback db --to etcd.v1.0.0 -n shop`"),
            "{warning}"
        );
    }

    /// With fail forward OLM replaces a version that failed.
    #[tokio::test(start_paused = true)]
    async fn the_version_that_has_succeeded_is_held() {
        let fake = FakeCluster::new();
        let status = json!({"installedCSV": "etcd.v3.0.0", "currentCSV": "etcd.v3.0.0"});
        fake.put(subscription("db", &status));
        fake.put(csv("1.0.0", "Replacing", ""));
        let mut failed = csv("2.0.0", "Replacing", "");
        failed["spec"]["replaces"] = json!("etcd.v1.0.0");
        failed["status"]["conditions"] = json!([{"phase": "Failed"}, {"phase": "Replacing"}]);
        fake.put(failed);
        let mut newest = csv("3.0.0", "Failed", "");
        newest["spec"]["replaces"] = json!("etcd.v2.0.0");
        fake.put(newest);
        let (client, _link) = fake.connect();
        let changed = held(&Cluster::of(client, "shop"), "db", None).await.unwrap();
        assert_eq!(changed.0, "Subscription shop/db is held within =1.0.0");
    }

    /// Such as a plan whose definition does not fit the custom resources, which OLM tries again and again.
    #[tokio::test(start_paused = true)]
    async fn a_plan_that_is_tried_again_is_named() {
        let fake = cluster();
        let status = json!({"installedCSV": "etcd.v1.0.0", "currentCSV": "etcd.v2.0.0", "state": "UpgradePending",
            "installPlanRef": {"name": "install-1"}});
        fake.put(subscription("db", &status));
        fake.put(plan("install-1", "Installing", true));
        let (client, _link) = fake.connect();
        let here = Cluster::of(client, "shop");
        let changed = held(&here, "db", None).await.unwrap();
        assert_eq!(
            changed.1,
            [
                "etcd.v2.0.0 is already being installed, and a hold does not stop that; to stop it delete the plan with `kubectl \
                 delete installplan install-1 -n shop`"
            ]
        );
        // OLM makes one plan for several Subscriptions.
        let other = json!({"state": "UpgradePending", "installPlanRef": {"name": "install-1"}});
        fake.put(subscription("cache", &other));
        let changed = held(&here, "db", None).await.unwrap();
        assert_eq!(
            changed.1,
            [
                "etcd.v2.0.0 is already being installed, and a hold does not stop that; InstallPlan install-1 is also for cache, so do \
                 not delete it; wait until it completes, then go back with `kubectl operator rollback db --to etcd.v1.0.0 -n shop`"
            ]
        );
    }
}
