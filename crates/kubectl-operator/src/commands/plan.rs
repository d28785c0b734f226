//! `kubectl operator plan`: prints the installations and upgrades that OLM will perform.

use std::collections::BTreeMap;
use std::path::Path;

use olm_api::v1alpha1::InstallPlanPhase;
use olm_resolver::cluster_fit::KubernetesVersion;
use olm_resolver::objects::{Document, Objects, read_file};
use olm_resolver::plan::{Plan, Question, Target, TargetError, answer, find_subscription};
use olm_resolver::{Problem, ResolveError};

use crate::args::PlanArgs;
use crate::catalogs::Catalogs;
use crate::cluster::Cluster;
use crate::command_line::CommandLine;
use crate::operators::Gathered;
use crate::{Unsettled, Verdict, catalogs, gather, global, printer};

/// Prints the plan.
///
/// # Errors
/// Objects or catalogs cannot be read, or the objects are no complete input.
pub(crate) async fn run(args: &PlanArgs) -> anyhow::Result<Verdict> {
    let Asked {
        mut question,
        catalogs,
        kubernetes,
        failures,
    } = if let Some(directory) = &args.catalog {
        ask_files(args, directory)?
    } else {
        ask_cluster(args).await?
    };
    question.steps = args.steps.map(usize::from);
    question.problem.runtime_constraints = args.cluster.runtime_constraints()?;
    let target = args.target.clone().map(|version| Target {
        version,
        subscription: args.subscription.clone(),
    });
    let mut plan = answer(&question, target.as_ref()).map_err(no_plan)?;
    catalogs::require_right(&question.problem, &plan.unsatisfiable)?;
    let failures = concerned(failures, &question.problem, target.as_ref());
    let is_fine = plan.unsatisfiable.is_empty() && failures.is_empty();
    let failures = match args.output.document() {
        None => unexplained(&plan, failures),
        // Documents do not have the cause that the plan explains.
        Some(_) => failures,
    };
    plan.notes.extend(failures.into_values());
    let kubernetes = args.kube_version.clone().or(kubernetes);
    note_bundles(&mut plan, &question, kubernetes.as_ref(), &catalogs).await;
    match args.output.document() {
        None => {
            let text = plan.to_string();
            printer::data(&text)?;
            let commands = CommandLine::of(&args.cluster.connection);
            if let Some(note) = commands.note(&text) {
                printer::progress(&note);
            }
        }
        Some(format) => printer::document(&plan, format)?,
    }
    Ok(Verdict::when(is_fine))
}

/// Returns all failures, or with a target only that of its Subscription.
fn concerned(
    mut failures: BTreeMap<String, String>,
    problem: &Problem,
    target: Option<&Target>,
) -> BTreeMap<String, String> {
    if let Some(target) = target
        && let Ok(found) = find_subscription(problem, target)
    {
        failures.retain(|name, _| *name == found.name);
    }
    failures
}

/// Returns the failures that the text of a plan does not explain itself.
pub(super) fn unexplained(plan: &Plan, mut failures: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let parts = plan.unsatisfiable.iter();
    for failed in parts.flat_map(|part| &part.advice.failed_upgrades) {
        failures.remove(&failed.subscription);
    }
    failures
}

/// Returns why there is no plan. A namespace without exactly one OperatorGroup is an answer, as it is for `explain`.
fn no_plan(error: TargetError) -> anyhow::Error {
    match error {
        TargetError::Resolve(error @ ResolveError::OperatorGroups { .. }) => {
            Unsettled(error.to_string()).into()
        }
        error => error.into(),
    }
}

/// Adds notes on bundles that the cluster cannot run or OLM will not install.
async fn note_bundles(
    plan: &mut Plan,
    question: &Question,
    kubernetes: Option<&KubernetesVersion>,
    catalogs: &Catalogs,
) {
    let (mut csvs, mut objects) = (Vec::new(), Vec::new());
    for install in plan.install() {
        let bundle = catalogs.bundle(install).await;
        csvs.push(bundle.csv);
        objects.push(bundle.objects);
    }
    let (mut csvs, mut objects) = (csvs.into_iter(), objects.into_iter());
    plan.note_unfit(question, kubernetes, |_| csvs.next().flatten());
    plan.note_refused(|_| objects.next().unwrap_or_default());
}

/// The input of the resolution, and the sources for notes on bundles.
struct Asked {
    question: Question,
    catalogs: Catalogs,
    kubernetes: Option<KubernetesVersion>,
    /// Operators for which `status` reports a failure, by name, each with a line for the cause. No resolution reports it.
    failures: BTreeMap<String, String>,
}

fn read_files(args: &PlanArgs, namespace: Option<&str>) -> anyhow::Result<Vec<Document>> {
    let mut given = Vec::new();
    for file in &args.filename {
        given.extend(read_file(file)?);
    }
    if let Some(namespace) = namespace {
        given.iter_mut().for_each(|document| document.put_into(namespace));
    }
    Ok(given)
}

fn ask_files(args: &PlanArgs, directory: &Path) -> anyhow::Result<Asked> {
    let asked_for = args.cluster.connection.namespace.as_deref();
    let objects = Objects::of(read_files(args, asked_for)?)?;
    objects.remarks().for_each(|text| printer::warning(&text));
    let namespace = objects.namespace(asked_for)?;
    let mut catalogs = catalogs::from_directory(directory, &objects.catalog_keys(&namespace))?;
    let contents = std::mem::take(&mut catalogs.contents);
    let given = args.cluster.global_catalog_namespace.as_deref();
    let (question, remarks) = objects.question_without_cluster(&namespace, given, contents);
    remarks.iter().for_each(|text| printer::warning(text));
    Ok(Asked {
        question,
        catalogs,
        kubernetes: None,
        failures: BTreeMap::new(),
    })
}

async fn ask_cluster(args: &PlanArgs) -> anyhow::Result<Asked> {
    let cluster = Cluster::connect(&args.cluster.connection).await?;
    let given = args.cluster.global_catalog_namespace.as_deref();
    let found = global::find(&cluster.client, given, Some(&cluster.namespace)).await;
    let global = found.catalogs.as_str();
    let given = read_files(args, Some(&cluster.namespace))?;
    let (objects, notes) = cluster.objects(global, &given).await?;
    notes.iter().for_each(|text| printer::warning(text));
    let gathered = Box::pin(gather::operators(&cluster.client, Some(&cluster.namespace))).await;
    let gathered = gathered.unwrap_or_else(|error| {
        printer::warning(&format!("{error:#}; failures of operators are not reported"));
        Gathered::default()
    });
    // With files, OLM may get another bundle.
    let failures = match given.is_empty() {
        true => failures(&gathered),
        false => BTreeMap::new(),
    };
    let mut objects = Objects::of(objects)?;
    objects.apply(given)?;
    objects.remarks().for_each(|text| printer::warning(&text));
    let namespace = objects.namespace(Some(&cluster.namespace))?;
    let mut catalogs = catalogs::read(&cluster.client, &objects.catalog_keys(&namespace)).await;
    let contents = std::mem::take(&mut catalogs.contents);
    let mut question = objects.question(&namespace, global, contents);
    note_plans(&mut question, &gathered);
    Ok(Asked {
        question,
        catalogs,
        kubernetes: if args.kube_version.is_none() {
            cluster.kubernetes().await
        } else {
            None
        },
        failures,
    })
}

/// Notes which InstallPlans are approved or excluded by a hold, and leaves out those that failed, or whose version waits for one
/// whose plan did not succeed: these are in [`failures`]. One that was not read may still require approval.
pub(super) fn note_plans(question: &mut Question, gathered: &Gathered) {
    let namespace = &question.problem.namespace;
    let operators = gathered.operators();
    question.waiting.retain_mut(|waiting| {
        let mut own = operators.iter();
        let own =
            own.find(|operator| operator.subscription.is_some() && operator.name() == waiting.subscription);
        waiting.hold = own.and_then(|own| own.held_back());
        let name = waiting.install_plan.clone().unwrap_or_default();
        let plan = gathered.plans.get(&(namespace.clone(), name));
        waiting.is_approved = plan.is_some_and(|plan| plan.spec.approved);
        let waits_for_former = own.is_some_and(|own| own.failed_plan.is_some());
        !waits_for_former && plan.is_none_or(|plan| plan.phase() != InstallPlanPhase::Failed)
    });
}

/// Returns a line for each operator that failed or lacks something, by its name, in the words of `explain` and `status`.
pub(super) fn failures(gathered: &Gathered) -> BTreeMap<String, String> {
    let commands = CommandLine::default();
    let operators = gathered.operators().into_iter();
    let failures = operators.filter_map(|operator| {
        let verdict = operator.verdict();
        let way_out = operator
            .way_out(&verdict, &commands)
            .filter(|_| verdict.is_failure())?;
        let (name, state) = (operator.name(), verdict.state.as_str());
        let line = format!("{name}: {state}: {}; to resolve: {way_out}", verdict.message);
        Some((name, line))
    });
    failures.collect()
}

#[cfg(test)]
mod tests {
    use olm_resolver::FailedUpgrade;
    use olm_resolver::plan::{Unsatisfiable, Waiting};
    use olm_testing::cluster::FakeCluster;
    use serde_json::json;

    use super::*;
    use crate::operators::tests::{csv, gathered_of, plan as install_plan, subscription};

    #[test]
    fn what_failed_or_lacks_something_is_reported_as_status_reports_it() {
        let unread = |type_: &str, message: &str| json!({"conditions": [{"type": type_, "status": "True", "message": message}]});
        let planned = json!({"installPlanRef": {"name": "install-1"}});
        let installed =
            json!({"installedCSV": "etcd.v1.0.0", "currentCSV": "etcd.v1.0.0", "state": "AtLatestKnown"});
        let failed = |mut plan: serde_json::Value| {
            plan["status"]["message"] = json!("it is forbidden");
            plan
        };
        let push = "push the bundle image";
        for (name, status, others, expected) in [
            (
                "unpacking fails",
                unread("BundleUnpacking", "cannot pull x:v2"),
                vec![],
                Some(("Pending: cannot pull x:v2", push)),
            ),
            (
                "unpacking failed",
                unread("BundleUnpackFailed", "cannot pull x:v2"),
                vec![],
                Some(("Failed: cannot pull x:v2", push)),
            ),
            (
                "it unpacks",
                unread("BundleUnpacking", "unpack Job: pod is starting"),
                vec![],
                None,
            ),
            (
                "it does not resolve",
                unread("ResolutionFailed", "no operators found"),
                vec![],
                None,
            ),
            (
                "the first plan failed",
                planned.clone(),
                vec![failed(install_plan("install-1", "Failed", true))],
                Some((
                    "Failed: InstallPlan install-1: it is forbidden",
                    "kubectl delete installplan install-1 -n shop",
                )),
            ),
            (
                "it is being installed",
                planned.clone(),
                vec![install_plan("install-1", "Installing", true)],
                None,
            ),
            (
                "its plan waits",
                planned,
                vec![install_plan("install-1", "RequiresApproval", false)],
                None,
            ),
            (
                "the first version failed",
                installed.clone(),
                vec![csv("1.0.0", "Failed", "it is forbidden")],
                Some((
                    "Failed: ClusterServiceVersion etcd.v1.0.0: it is forbidden",
                    "correct the cause, and OLM tries again",
                )),
            ),
            (
                "it starts",
                installed.clone(),
                vec![csv("1.0.0", "Installing", "waiting for deployment etcd")],
                None,
            ),
            ("it runs", installed, vec![csv("1.0.0", "Succeeded", "")], None),
        ] {
            let gathered = gathered_of([subscription("db", &status)].into_iter().chain(others));
            let lines: Vec<String> = failures(&gathered).into_values().collect();
            match expected {
                None => assert!(lines.is_empty(), "{name}: {lines:?}"),
                Some((cause, way_out)) => {
                    let [line] = &lines[..] else {
                        panic!("{name}: {lines:?}");
                    };
                    assert!(
                        line.starts_with(&format!("db: {cause}; to resolve: ")),
                        "{name}: {line}"
                    );
                    assert!(line.contains(way_out), "{name}: {line}");
                }
            }
        }
    }

    #[test]
    fn a_failed_upgrade_that_the_plan_explains_is_not_noted_again() {
        let failures = ["db", "other"].map(|name| (name.to_owned(), format!("{name}: Failed")));
        let failed = FailedUpgrade {
            subscription: "db".to_owned(),
            ..FailedUpgrade::default()
        };
        let mut part = Unsatisfiable::default();
        part.advice.failed_upgrades.push(failed);
        let plan = Plan {
            unsatisfiable: vec![part],
            ..Plan::default()
        };
        let left = unexplained(&plan, BTreeMap::from(failures));
        assert!(left.into_values().eq(["other: Failed"]));
    }

    #[test]
    fn with_a_target_only_the_bundle_of_its_subscription_counts() {
        let of = |name: &str| olm_resolver::Subscription {
            name: name.to_owned(),
            ..olm_resolver::Subscription::default()
        };
        let problem = Problem {
            subscriptions: vec![of("db"), of("other")],
            ..Problem::default()
        };
        let target = |name: &str| Target {
            version: "2.0.0".to_owned(),
            subscription: Some(name.to_owned()),
        };
        let line = "other: Failed: cannot pull x:v2";
        for (target, expected) in [
            (None, &[line][..]),
            (Some(target("other")), &[line]),
            (Some(target("db")), &[]),
        ] {
            let failures = BTreeMap::from([("other".to_owned(), line.to_owned())]);
            let found = concerned(failures, &problem, target.as_ref());
            assert!(found.values().eq(expected), "{target:?}: {found:?}");
        }
    }

    #[tokio::test]
    async fn a_plan_that_is_approved_or_failed_does_not_require_approval() {
        let cluster = FakeCluster::new();
        for (name, phase, approved) in [
            ("install-1", "Installing", true),
            ("install-2", "RequiresApproval", false),
            ("install-4", "Failed", true),
        ] {
            cluster.put(install_plan(name, phase, approved));
        }
        let names = ["install-1", "install-2", "install-3", "install-4"];
        for name in names {
            cluster.put(subscription(name, &json!({"installPlanRef": {"name": name}})));
        }
        let (client, _link) = cluster.connect();
        let gathered = gather::operators(&client, Some("shop")).await.unwrap();
        let of = |name: &str| Waiting {
            install_plan: Some(name.to_owned()),
            ..Waiting::default()
        };
        let mut question = Question {
            waiting: names.map(of).to_vec(),
            ..Question::default()
        };
        question.problem.namespace = "shop".to_owned();
        note_plans(&mut question, &gathered);
        let waiting = question.waiting.iter();
        let left: Vec<_> = waiting
            .map(|plan| (plan.install_plan.as_deref().unwrap_or_default(), plan.is_approved))
            .collect();
        assert_eq!(
            left,
            [("install-1", true), ("install-2", false), ("install-3", false)]
        );
        assert!(failures(&gathered).into_keys().eq(["install-4".to_owned()]));
    }

    #[test]
    fn a_namespace_without_its_operator_group_is_an_answer_and_no_error() {
        let groups = ResolveError::OperatorGroups {
            found: 2,
            way_out: "keep one of a, b".to_owned(),
        };
        let unknown = TargetError::Unclear("no subscription db".to_owned());
        for (error, text, is_answer) in [
            (
                TargetError::from(groups),
                "found 2 operatorGroups, expected 1: keep one of a, b",
                true,
            ),
            (unknown, "no subscription db", false),
        ] {
            let error = no_plan(error);
            assert_eq!(
                (error.to_string().as_str(), error.is::<Unsettled>()),
                (text, is_answer)
            );
        }
    }
}
