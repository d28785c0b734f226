//! `kubectl operator plan`: prints the installations and upgrades that OLM will perform.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use futures::future::join_all;
use olm_api::condition::subscription as condition;
use olm_api::v1alpha1::{InstallPlan, InstallPlanPhase, Subscription};
use olm_resolver::cluster_fit::KubernetesVersion;
use olm_resolver::objects::{Document, Objects, read_file};
use olm_resolver::plan::{Plan, Question, Target, TargetError, answer, find_subscription};
use olm_resolver::{Problem, ResolveError};
use serde::Deserialize as _;

use crate::args::PlanArgs;
use crate::catalogs::Catalogs;
use crate::cluster::Cluster;
use crate::command_line::CommandLine;
use crate::operators::{Gathered, Key, Operator, State, message_or_reason, open_plan};
use crate::reader::get;
use crate::{Unsettled, Verdict, catalogs, global, printer};

/// Maximum number of InstallPlans that are requested one by one.
const MAX_ASKED: usize = 50;

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
    let failures = concerned(failures, &question.problem, target.as_ref());
    let is_fine = plan.unsatisfiable.is_empty() && failures.is_empty();
    plan.notes.extend(failures);
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

/// Returns the lines of all failures, or with a target only that of its Subscription.
fn concerned(
    mut failures: BTreeMap<String, String>,
    problem: &Problem,
    target: Option<&Target>,
) -> Vec<String> {
    if let Some(target) = target
        && let Ok(found) = find_subscription(problem, target)
    {
        failures.retain(|name, _| *name == found.name);
    }
    failures.into_values().collect()
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
    /// Subscriptions whose InstallPlan failed or whose bundle cannot be unpacked, by name, each with a line for the cause. No
    /// resolution reports it.
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
    let (objects, notes) = cluster.objects(global).await?;
    notes.iter().for_each(|text| printer::warning(text));
    let gathered = with_plans(&cluster, &objects).await;
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

/// Returns the Subscriptions among objects, with those of their InstallPlans that can be read.
async fn with_plans(cluster: &Cluster, objects: &[Document]) -> Gathered {
    let objects = objects.iter().map(|document| &document.object);
    let subscriptions: Vec<Subscription> = objects
        .filter(|object| object["kind"] == "Subscription")
        .filter_map(|object| Subscription::deserialize(object).ok())
        .collect();
    let keys: BTreeSet<Key> = subscriptions.iter().filter_map(open_plan).collect();
    let reads = keys.into_iter().take(MAX_ASKED).map(|key| async move {
        let plan = get::<InstallPlan>(&cluster.client, &key.0, &key.1).await;
        plan.ok().flatten().map(|plan| (key, plan))
    });
    let plans = join_all(reads).await.into_iter().flatten().collect();
    Gathered {
        subscriptions,
        plans,
        ..Gathered::default()
    }
}

/// Notes which InstallPlans are approved or excluded by a hold, and leaves out those that failed, which are in [`failures`]. One
/// that was not read may still require approval.
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
        plan.is_none_or(|plan| plan.phase() != InstallPlanPhase::Failed)
    });
}

/// Returns a line for each Subscription whose InstallPlan failed or whose bundle OLM cannot unpack, by its name, in the words of
/// `explain` and `status`.
pub(super) fn failures(gathered: &Gathered) -> BTreeMap<String, String> {
    let commands = CommandLine::default();
    let failures = gathered.operators().into_iter().filter_map(|operator| {
        let subscription = operator.subscription?;
        // A version that runs may have failed, too.
        let next = Operator {
            subscription: Some(subscription),
            plan: operator.plan,
            ..Operator::default()
        };
        let text = match next.plan.map(InstallPlan::phase) {
            Some(InstallPlanPhase::Failed) => {
                let verdict = next.verdict();
                let way_out = next.way_out(&verdict, &commands)?;
                format!("{}; to resolve: {way_out}", verdict.message)
            }
            _ => message_or_reason(subscription, condition::BUNDLE_UNPACK_FAILED)?.to_owned(),
        };
        let (name, state) = (operator.name(), State::Failed.as_str());
        let line = format!("{name}: {state}: {text}");
        Some((name, line))
    });
    failures.collect()
}

#[cfg(test)]
mod tests {
    use olm_resolver::plan::Waiting;
    use olm_testing::cluster::FakeCluster;
    use serde_json::json;

    use super::*;
    use crate::operators::tests::{gathered_of, plan as install_plan, subscription};

    #[test]
    fn a_failed_plan_and_a_bundle_that_cannot_be_unpacked_are_reported_as_status_reports_them() {
        let of = |type_: &str, status: &str, phase: &str| {
            let conditions = json!([{"type": type_, "status": status, "message": "cannot pull x:v2"}]);
            let status = json!({"conditions": conditions, "installPlanRef": {"name": "install-1"}});
            failures(&gathered_of([
                subscription("db", &status),
                install_plan("install-1", phase, true),
            ]))
        };
        let told = |text: &str| BTreeMap::from([("db".to_owned(), format!("db: Failed: {text}"))]);
        let unpacking = told("cannot pull x:v2");
        assert_eq!(of("BundleUnpackFailed", "True", "Complete"), unpacking);
        let failed = told(
            "InstallPlan install-1: cannot pull x:v2; to resolve: correct the cause, then delete the plan, and OLM creates another: \
             kubectl delete installplan install-1 -n shop",
        );
        assert_eq!(of("InstallPlanFailed", "True", "Failed"), failed);
        for (type_, status) in [("BundleUnpackFailed", "False"), ("BundleUnpacking", "True")] {
            assert!(of(type_, status, "Installing").is_empty(), "{type_} {status}");
        }
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
            assert_eq!(
                concerned(failures, &problem, target.as_ref()),
                expected,
                "{target:?}"
            );
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
        let (client, _link) = cluster.connect();
        let names = ["install-1", "install-2", "install-3", "install-4"];
        let documents = names.map(|name| Document {
            object: subscription(name, &json!({"installPlanRef": {"name": name}})),
            origin: String::new(),
        });
        let gathered = with_plans(&Cluster::of(client, "shop"), &documents).await;
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
