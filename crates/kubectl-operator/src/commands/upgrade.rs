//! `kubectl operator upgrade`: approves the pending upgrade, as `approve` does.

use anyhow::bail;
use go_compat::semver::Version;
use kube::ResourceExt as _;
use olm_api::v1alpha1::{ClusterServiceVersion, ClusterServiceVersionPhase};

use super::{approve, rollout, status};
use crate::args::change::UpgradeArgs;
use crate::args::shared::UPSTREAM_TIMEOUT;
use crate::cluster::Cluster;
use crate::command_line::CommandLine;
use crate::confirm::unless_refused;
use crate::operators::{Gathered, Operator, State, next_unread, plan_name};
use crate::packages::{Channel, Package, offered};
use crate::terminal::first_line;
use crate::watch::Screen;
use crate::{Unsettled, Verdict, gather, printer};

/// The next step for an operator to upgrade.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    /// A plan waits for approval.
    Approve,
    /// A plan is running.
    Follow(String),
    /// This version is installed, and OLM has begun nothing newer.
    Latest(String),
    /// The first or next version has no plan yet, because its bundle is not unpacked; or this one waits for a user's act, such as a quota.
    Unread(String),
    /// The operator cannot be upgraded in its state.
    Nothing(String),
}

/// Approves the pending plan and waits until it completes.
///
/// # Errors
/// There is no such Subscription or no newer version, a request to the API server fails, or the plan does not complete in time.
pub(crate) async fn run(args: &UpgradeArgs) -> anyhow::Result<Verdict> {
    let cluster = Cluster::connect(&args.approve.connection).await?;
    let namespace = cluster.namespace.as_str();
    let gathered = gather::existing(&cluster.client, Some(namespace)).await?;
    let name = gathered.of_package(namespace, &args.approve.name);
    if let Some(text) = other_channel(&gathered, namespace, &name, args.channel.as_deref()) {
        printer::warning(&text);
    }
    let (plan, subscriptions, done_verb) = match step(&gathered, namespace, &name, &cluster.commands) {
        Step::Approve => {
            let ask = |question: &str| match args.dry_run {
                true => Ok(false),
                false => unless_refused(question, args.approve.yes),
            };
            let shown = Box::pin(approve::approve_shown(&cluster, &name, args.approve.output, &ask)).await?;
            if args.dry_run || !shown.approved {
                return Ok(Verdict::when(args.dry_run));
            }
            (shown.plan, shown.subscriptions, "upgraded")
        }
        Step::Follow(plan) => {
            printer::progress(&format!(
                "{name} is already being installed and needs no approval"
            ));
            (plan, vec![name.clone()], verb(&gathered, namespace, &name))
        }
        Step::Latest(installed) => bail!("{}", latest(&cluster, &gathered, &name, &installed).await),
        Step::Unread(text) => return Err(Unsettled(text).into()),
        Step::Nothing(text) => bail!("{text}"),
    };
    if args.dry_run || args.no_wait {
        return Ok(Verdict::Fine);
    }
    if args.until_ready {
        return follow(&cluster, &subscriptions, args).await;
    }
    let limit = args.wait.or(UPSTREAM_TIMEOUT);
    let mut screen = Screen::stderr();
    let done = rollout::carried_out(&cluster, &name, &plan, &limit, limit.limit(), &mut screen);
    let done = Box::pin(done).await?;
    // With JSON or YAML, stdout contains only the document.
    if args.approve.output.document().is_none() {
        printer::data(&done.text(&args.approve.name, done_verb))?;
    }
    if let Some(warning) = done.warning(&cluster, &name) {
        printer::warning(&warning);
    }
    Ok(Verdict::Fine)
}

/// Returns that this version is the newest one, in the words of upstream's plugin, or that its channel has a newer one.
async fn latest(cluster: &Cluster, gathered: &Gathered, name: &str, installed: &str) -> String {
    let explain = cluster.suggest("explain {}", &[name]);
    let subscription = gathered.subscription(&cluster.namespace, name);
    let spec = subscription.map(|found| &found.spec);
    let packages = offered(&cluster.client, Some(&cluster.namespace)).await;
    // Without them the Subscription's status is all that is known.
    let packages = packages.ok().and_then(Result::ok).unwrap_or_default();
    let csv = gathered
        .csvs
        .get(&(cluster.namespace.clone(), installed.to_owned()));
    let runs = csv.and_then(|csv| Version::parse_tolerant(csv.spec.version.as_deref()?).ok());
    let is_newer = |channel: &&Channel| {
        let head = Version::parse_tolerant(&channel.head_version).ok();
        // package-server may not have read the catalog again.
        channel.head != installed && head.zip(runs.as_ref()).is_some_and(|(head, runs)| head > *runs)
    };
    let newer = spec.and_then(|spec| {
        let followed = spec.channel()?;
        let is_own = |package: &&Package| {
            package.name == spec.name
                && package.catalog == spec.source
                && package.catalog_namespace == spec.source_namespace
        };
        let mut channels = packages.iter().find(is_own)?.channels.iter();
        channels.find(|channel| channel.name == followed).filter(is_newer)
    });
    match newer {
        Some(channel) => format!(
            "cannot upgrade {name}: {installed} is installed, and there is no InstallPlan for {}, the head of channel {}; see `{explain}`",
            channel.head, channel.name
        ),
        None => format!(
            "operator is already at latest version: {name} has {installed}, the newest in its channel; see `{explain}`"
        ),
    }
}

/// Returns a warning if the given channel is not the Subscription's.
fn other_channel(gathered: &Gathered, namespace: &str, name: &str, wanted: Option<&str>) -> Option<String> {
    let wanted = wanted.filter(|wanted| !wanted.is_empty())?;
    let subscription = gathered.subscription(namespace, name)?;
    let followed = subscription.spec.channel().unwrap_or_default();
    let follows = match followed {
        "" => "all channels of its package".to_owned(),
        channel => format!("channel {channel}"),
    };
    (followed != wanted).then(|| {
        format!("--channel has no effect: Subscription {name} follows {follows}; change its spec.channel")
    })
}

/// Follows the Subscriptions of the plan, one after the other. A plan without Subscriptions is run, too.
async fn follow(cluster: &Cluster, subscriptions: &[String], args: &UpgradeArgs) -> anyhow::Result<Verdict> {
    let mut worst = Verdict::Fine;
    for name in subscriptions {
        let verdict = status::follow(cluster, name, None, &args.wait, &mut Screen::stdout()).await?;
        if verdict != Verdict::Fine {
            worst = verdict;
        }
    }
    Ok(worst)
}

/// Returns the verb for an operator whose plan is already running: its first version is not an upgrade.
fn verb(gathered: &Gathered, namespace: &str, name: &str) -> &'static str {
    let found = gathered.find(namespace, name, &CommandLine::default());
    match found.is_ok_and(|found| found.verdict().state == State::Installing) {
        true => "installed",
        false => "upgraded",
    }
}

fn step(gathered: &Gathered, namespace: &str, name: &str, commands: &CommandLine) -> Step {
    let operators = gathered.operators();
    let is_meant = |operator: &&Operator<'_>| {
        let subscription = operator.subscription;
        subscription.is_some_and(|found| found.name_any() == name)
    };
    // `approve` handles names of plans and reports missing objects.
    let Some(operator) = operators.iter().find(is_meant) else {
        return Step::Approve;
    };
    let (row, verdict) = (operator.row(), operator.verdict());
    // `explain` prints the full message.
    let message = first_line(&verdict.message);
    let explain = || commands.suggest("explain {}", &[name], Some(namespace));
    let is_held = verdict.state == State::Held
        || verdict.state == State::InvalidPolicy && operator.held_back().is_some();
    if operator.pending_plan().is_some() && !is_held {
        // The plan can be approved despite other conditions, such as a failed resolution.
        return Step::Approve;
    }
    let is_on_its_way = matches!(verdict.state, State::Installing | State::Upgrading);
    let is_unread = operator.subscription.and_then(next_unread).is_some();
    let has_succeeded = |csv: &ClusterServiceVersion| *csv.phase() == ClusterServiceVersionPhase::Succeeded;
    let waits_for_bundle =
        verdict.state == State::Upgrading && is_unread && operator.current.is_some_and(has_succeeded);
    let waits_for_user = || is_on_its_way && gathered.tree(operator, commands).is_stuck;
    if operator.is_carried_out() && (waits_for_bundle || waits_for_user()) {
        return Step::Unread(format!(
            "cannot upgrade {name} yet: {message}; see `{}`",
            explain()
        ));
    }
    let plan = operator.plan.map(|plan| plan.name_any());
    let no_plan = || {
        let way_out = operator.way_out(&verdict, commands);
        let way_out = way_out.map_or_else(
            || format!("see `{}`", explain()),
            |way_out| format!("to resolve: {way_out}"),
        );
        // Scripts look for upstream's words.
        format!("subscription does not reference an install plan: {name}: {message}; {way_out}")
    };
    if is_unread && operator.current.is_none() && operator.status().and_then(plan_name).is_none() {
        return Step::Unread(no_plan());
    }
    match verdict.state {
        State::Ready | State::Pinned => match operator.unhealthy_catalog() {
            Some(catalog) => Step::Nothing(format!(
                "cannot check for versions newer than {name}'s {}: {catalog}; list catalogs with `{}`",
                row.installed_csv,
                commands.suggest("catalog list", &[], None)
            )),
            None => Step::Latest(row.installed_csv),
        },
        State::Held => Step::Nothing(format!(
            "cannot upgrade {name}: {message}; to allow newer versions use `{}`",
            commands.suggest("unhold {}", &[name], Some(namespace))
        )),
        State::InvalidPolicy => Step::Nothing(format!(
            "cannot upgrade {name}: {message}; to resolve: {}",
            operator.way_out(&verdict, commands).unwrap_or_default()
        )),
        State::RequiresApproval | State::Installing | State::Upgrading | State::Pending => match plan {
            Some(plan) => Step::Follow(plan),
            None => Step::Nothing(no_plan()),
        },
        State::Unresolved | State::Failed => {
            Step::Nothing(format!("cannot upgrade {name}: {message}; see `{}`", explain()))
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use olm_testing::cluster::FakeCluster;
    use serde_json::json;

    use super::*;
    use crate::args::{Args, Command};
    use crate::operators::tests::{csv, deployment, gathered, gathered_of, plan, subscription};
    use crate::packages::tests::{manifest, served};

    #[test]
    fn only_what_waits_for_approval_is_approved() {
        let gathered = gathered();
        let step = |name: &str| super::step(&gathered, "shop", name, &CommandLine::default());
        assert_eq!(step("waits"), Step::Approve);
        assert_eq!(step("ready"), Step::Latest("etcd.v1.0.0".to_owned()));
        assert!(matches!(step("new"), Step::Nothing(_)));
        let Step::Nothing(text) = step("wrong") else {
            panic!("it does not resolve");
        };
        assert!(
            text.contains("explain wrong -n shop") && text.contains("operators found"),
            "{text}"
        );
        // A pending plan is approved even if another resolution in the namespace fails.
        let mut status = json!({"state": "UpgradePending", "currentCSV": "etcd.v1.0.0", "installPlanRef": {"name": "install-1"}});
        status["conditions"] =
            json!([{"type": "ResolutionFailed", "status": "True", "message": "another one"}]);
        let both = gathered_of([
            subscription("db", &status),
            plan("install-1", "RequiresApproval", false),
        ]);
        assert_eq!(
            super::step(&both, "shop", "db", &CommandLine::default()),
            Step::Approve
        );
        // The name of a plan, and a missing name.
        for name in ["install-1", "installplan/install-1", "nope"] {
            assert_eq!(step(name), Step::Approve, "{name}");
        }
    }

    #[test]
    fn a_plan_outside_a_hold_is_not_approved_and_the_way_out_is_named() {
        let status = json!({"installedCSV": "etcd.v1.0.0", "currentCSV": "etcd.v2.0.0", "state": "UpgradePending",
            "installPlanRef": {"name": "install-1"}});
        let mut held = subscription("db", &status);
        held["metadata"]["annotations"] = json!({olm_api::labels::UPGRADE_HOLD: "=1.0.0"});
        let gathered = gathered_of([
            held,
            csv("1.0.0", "Succeeded", ""),
            plan("install-1", "RequiresApproval", false),
        ]);
        let expected = "cannot upgrade db: held within =1.0.0 by annotation operatorframework.io/upgrade-hold; InstallPlan \
            install-1 for etcd.v2.0.0 waits for approval; to allow newer versions use `kubectl operator unhold db -n shop`";
        assert_eq!(
            step(&gathered, "shop", "db", &CommandLine::default()),
            Step::Nothing(expected.to_owned())
        );
    }

    /// Without its catalog, the newest known version is the installed one.
    #[test]
    fn unknown_states_are_not_reported_as_healthy() {
        let health = |name: &str, healthy: bool| json!({"catalogSourceRef": {"name": name, "namespace": "olm"}, "healthy": healthy, "lastUpdated": null});
        let unhealthy = json!([{"type": "CatalogSourcesUnhealthy", "status": "True", "message": "targeted catalogsource olm/cat missing"}]);
        for (own, other, conditions, is_known) in [
            (true, true, json!([]), true),
            (false, true, json!([]), false),
            (true, false, json!([]), true),
            (true, true, unhealthy, false),
        ] {
            let status = json!({"installedCSV": "etcd.v1.0.0", "currentCSV": "etcd.v1.0.0", "conditions": conditions,
                "catalogHealth": [health("cat", own), health("other", other)]});
            let objects = [subscription("db", &status), csv("1.0.0", "Succeeded", "")];
            match step(&gathered_of(objects), "shop", "db", &CommandLine::default()) {
                Step::Latest(installed) => {
                    assert!(is_known, "{installed}");
                    assert_eq!(installed, "etcd.v1.0.0");
                }
                Step::Nothing(text) => {
                    assert!(!is_known, "{text}");
                    // The condition's message is not repeated.
                    let told = [
                        "catalog olm/cat does not answer",
                        "targeted catalogsource olm/cat missing",
                    ];
                    assert!(
                        told.iter().any(|told| text.contains(&format!(": {told}; "))),
                        "{text}"
                    );
                }
                Step::Approve | Step::Follow(_) | Step::Unread(_) => panic!("nothing waits"),
            }
        }
    }

    #[tokio::test]
    async fn only_the_head_of_the_channel_is_the_latest_version() {
        let latest_of = async |fake: &FakeCluster, installed: &str| {
            let versions = ["1.0.0", "1.1.0", "1.2.0"].map(|version| csv(version, "Succeeded", ""));
            let gathered = gathered_of(std::iter::once(subscription("db", &json!({}))).chain(versions));
            let (client, _link) = fake.connect();
            latest(&Cluster::of(client, "shop"), &gathered, "db", installed).await
        };
        let fake = served();
        fake.put(manifest("etcd", "cat"));
        assert_eq!(
            latest_of(&fake, "etcd.v1.0.0").await,
            "cannot upgrade db: etcd.v1.0.0 is installed, and there is no InstallPlan for etcd.v1.1.0, the head of channel stable; \
             see `kubectl operator explain db -n shop`"
        );
        // package-server is behind or missing, or has the package from another catalog only.
        let other = served();
        other.put(manifest("etcd", "other"));
        for (fake, installed) in [
            (&fake, "etcd.v1.1.0"),
            (&fake, "etcd.v1.2.0"),
            (&FakeCluster::new(), "etcd.v1.0.0"),
            (&other, "etcd.v1.0.0"),
        ] {
            let text = latest_of(fake, installed).await;
            assert!(
                text.starts_with("operator is already at latest version: db has"),
                "{text}"
            );
        }
    }

    /// The argument names a plan and no operator.
    #[tokio::test(start_paused = true)]
    async fn who_waited_for_a_plan_is_followed() {
        let cluster = FakeCluster::new();
        let status = json!({"installedCSV": "etcd.v1.0.0", "currentCSV": "etcd.v1.0.0"});
        cluster.put(subscription("db", &status));
        cluster.put(csv("1.0.0", "Succeeded", ""));
        cluster.put(deployment(2));
        let words = [
            "kubectl-operator",
            "upgrade",
            "install-1",
            "--wait",
            "--timeout",
            "5s",
        ];
        let Command::Upgrade(args) = Args::try_parse_from(words).unwrap().command else {
            panic!("another command");
        };
        let (client, _link) = cluster.connect();
        let followed = async |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            follow(&Cluster::of(client.clone(), "shop"), &names, &args).await
        };
        assert_eq!(followed(&["db"]).await.unwrap(), Verdict::Fine);
        assert_eq!(followed(&[]).await.unwrap(), Verdict::Fine);
        cluster.put(subscription("late", &json!({})));
        assert_eq!(followed(&["late", "db"]).await.unwrap(), Verdict::Unresolved);
    }

    #[test]
    fn an_upgrade_on_its_way_is_not_approved_again() {
        let status = json!({"installedCSV": "etcd.v1.0.0", "currentCSV": "etcd.v2.0.0"});
        let objects = [
            subscription("db", &status),
            csv("1.0.0", "Replacing", ""),
            csv("2.0.0", "Installing", "waiting"),
        ];
        let Step::Nothing(text) = step(&gathered_of(objects), "shop", "db", &CommandLine::default()) else {
            panic!("nothing is to be approved");
        };
        assert!(
            text.starts_with("subscription does not reference an install plan"),
            "{text}"
        );
        // The plan of the Subscription is followed.
        let status = json!({"installedCSV": "etcd.v1.0.0", "currentCSV": "etcd.v2.0.0", "state": "UpgradePending",
            "installPlanRef": {"name": "install-1"}});
        let mut gathered = gathered_of([subscription("db", &status), csv("1.0.0", "Succeeded", "")]);
        let plan = serde_json::from_value(plan("install-1", "Installing", true)).unwrap();
        gathered
            .plans
            .insert(("shop".to_owned(), "install-1".to_owned()), plan);
        let step = step(&gathered, "shop", "db", &CommandLine::default());
        assert_eq!(step, Step::Follow("install-1".to_owned()));
    }

    /// The Subscription still refers to the plan of the installed version, which is complete.
    #[test]
    fn a_next_version_that_cannot_be_unpacked_is_not_being_installed() {
        let unpacking = json!([{"type": "BundleUnpacking", "status": "True", "message": "bundle etcd.v2.0.0: no such image"}]);
        let step = |phase: &str, conditions: &serde_json::Value, plan_phase: Option<&str>| {
            let status = json!({"installedCSV": "etcd.v1.0.0", "currentCSV": "etcd.v1.0.0", "state": "AtLatestKnown",
                "conditions": conditions, "installPlanRef": {"name": "install-1"}});
            let plan = plan_phase.map(|phase| plan("install-1", phase, true));
            let objects = [subscription("db", &status), csv("1.0.0", phase, "")];
            let gathered = gathered_of(objects.into_iter().chain(plan));
            super::step(&gathered, "shop", "db", &CommandLine::default())
        };
        let expected = "cannot upgrade db yet: bundle etcd.v2.0.0: no such image; see `kubectl operator explain db -n shop`";
        for plan_phase in [Some("Complete"), None] {
            assert_eq!(
                step("Succeeded", &unpacking, plan_phase),
                Step::Unread(expected.to_owned())
            );
        }
        let follow = Step::Follow("install-1".to_owned());
        assert_eq!(step("Succeeded", &unpacking, Some("Installing")), follow);
        assert_eq!(step("Installing", &unpacking, Some("Complete")), follow);
        let latest = Step::Latest("etcd.v1.0.0".to_owned());
        assert_eq!(step("Succeeded", &json!([]), Some("Complete")), latest);
    }

    /// Nothing is being upgraded then, and an approval does not help.
    #[test]
    fn a_first_version_that_a_quota_keeps_from_running_is_not_being_upgraded() {
        let status = json!({"currentCSV": "etcd.v1.0.0", "state": "UpgradePending", "installPlanRef": {"name": "install-1"}});
        let commands = CommandLine::default();
        for (message, is_stuck) in [
            ("forbidden: exceeded quota: q, requested: pods=1", true),
            ("waiting for deployment etcd", false),
        ] {
            let mut plan = plan("install-1", "Complete", true);
            plan["spec"]["clusterServiceVersionNames"] = json!(["etcd.v1.0.0"]);
            let objects = [
                subscription("db", &status),
                csv("1.0.0", "Installing", message),
                plan,
            ];
            let gathered = gathered_of(objects);
            let expected = match is_stuck {
                true => Step::Unread(format!(
                    "cannot upgrade db yet: ClusterServiceVersion etcd.v1.0.0: {message}; see `kubectl operator explain db -n shop`"
                )),
                false => Step::Follow("install-1".to_owned()),
            };
            assert_eq!(step(&gathered, "shop", "db", &commands), expected);
            assert_eq!(verb(&gathered, "shop", "db"), "installed");
        }
        assert_eq!(verb(&gathered(), "shop", "waits"), "upgraded");
    }

    #[test]
    fn a_first_version_that_cannot_be_unpacked_has_the_cause_and_the_way_out() {
        for (type_, message, way_out) in [
            (
                "BundleUnpacking",
                "cannot pull image x:v1",
                "to resolve: push the bundle image, ",
            ),
            (
                "BundleUnpackFailed",
                "cannot pull image x:v1",
                "to resolve: push the bundle image, ",
            ),
            (
                "BundleUnpackFailed",
                "DeadlineExceeded",
                "to resolve: correct the cause, and OLM tries again",
            ),
            (
                "BundleUnpacking",
                "the pod starts",
                "see `kubectl operator explain db -n shop`",
            ),
        ] {
            let conditions = json!([{"type": type_, "status": "True", "message": message}]);
            let gathered = gathered_of([subscription("db", &json!({"conditions": conditions}))]);
            let Step::Unread(text) = step(&gathered, "shop", "db", &CommandLine::default()) else {
                panic!("{type_} {message}");
            };
            let start = format!("subscription does not reference an install plan: db: {message}; {way_out}");
            assert!(text.starts_with(&start), "{text}");
        }
    }

    #[test]
    fn a_channel_that_is_not_followed_changes_nothing_and_is_reported() {
        let gathered = gathered();
        let of = |channel| other_channel(&gathered, "shop", "ready", channel);
        let followed = gathered
            .subscriptions
            .iter()
            .find(|found| found.name_any() == "ready");
        let followed = followed.unwrap().spec.channel().unwrap_or_default().to_owned();
        assert_eq!(of(None), None);
        assert_eq!(of(Some(followed.as_str())), None);
        assert!(of(Some("other")).is_some_and(|text| text.contains("--channel has no effect")));
    }

    #[test]
    fn an_operator_is_named_by_its_package_or_its_subscription() {
        let gathered = gathered();
        // Several Subscriptions have the package; the first is used, as in upstream's plugin.
        let of_package = gathered.of_package("shop", "etcd");
        assert!(
            gathered
                .subscriptions
                .iter()
                .any(|found| found.name_any() == of_package)
        );
        for name in ["ready", "nope", "install-1"] {
            assert_eq!(gathered.of_package("shop", name), name);
        }
        assert_eq!(gathered.of_package("elsewhere", "etcd"), "etcd");
        let mut own = subscription("etcd", &json!({}));
        own["spec"]["name"] = json!("etcd");
        let both = gathered_of([subscription("a", &json!({})), own]);
        assert_eq!(both.of_package("shop", "etcd"), "etcd", "the one of its own name");
    }
}
