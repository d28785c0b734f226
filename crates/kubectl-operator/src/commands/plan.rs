//! `kubectl operator plan`: prints the installations and upgrades that OLM will perform.

use std::collections::BTreeMap;
use std::path::Path;

use futures::future::join_all;
use kube::ResourceExt as _;
use olm_api::condition::subscription as condition;
use olm_api::v1alpha1::{InstallPlan, Subscription};
use olm_resolver::cluster_fit::KubernetesVersion;
use olm_resolver::objects::{Document, Objects, read_file};
use olm_resolver::plan::{Plan, Question, Target, TargetError, Waiting, answer, find_subscription};
use olm_resolver::{Problem, ResolveError};
use serde::Deserialize as _;

use crate::args::PlanArgs;
use crate::catalogs::Catalogs;
use crate::cluster::Cluster;
use crate::command_line::CommandLine;
use crate::operators::{State, message_or_reason};
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
    /// Subscriptions whose bundle cannot be unpacked, by name, each with a line for the cause. Resolution does not report it.
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
    // With files, OLM may get another bundle.
    let failures = match given.is_empty() {
        true => unpack_failures(&objects),
        false => BTreeMap::new(),
    };
    let mut objects = Objects::of(objects)?;
    objects.apply(given)?;
    objects.remarks().for_each(|text| printer::warning(&text));
    let namespace = objects.namespace(Some(&cluster.namespace))?;
    let mut catalogs = catalogs::read(&cluster.client, &objects.catalog_keys(&namespace)).await;
    let contents = std::mem::take(&mut catalogs.contents);
    let mut question = objects.question(&namespace, global, contents);
    read_approvals(&cluster, &mut question.waiting).await;
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

/// Reads which InstallPlans are approved already. One that cannot be read may still require approval.
async fn read_approvals(cluster: &Cluster, waiting: &mut [Waiting]) {
    let reads = waiting.iter_mut().take(MAX_ASKED).map(|waiting| async move {
        let name = waiting.install_plan.as_deref().unwrap_or_default();
        let plan = get::<InstallPlan>(&cluster.client, &cluster.namespace, name).await;
        waiting.is_approved = matches!(plan, Ok(Some(plan)) if plan.spec.approved);
    });
    join_all(reads).await;
}

/// Returns a line for each Subscription whose bundle OLM cannot unpack, by its name, in the words of `explain` and `status`.
pub(super) fn unpack_failures(objects: &[Document]) -> BTreeMap<String, String> {
    let objects = objects.iter().map(|document| &document.object);
    let subscriptions = objects
        .filter(|object| object["kind"] == "Subscription")
        .filter_map(|object| Subscription::deserialize(object).ok());
    let failures = subscriptions.filter_map(|subscription| {
        let cause = message_or_reason(&subscription, condition::BUNDLE_UNPACK_FAILED)?;
        let (name, state) = (subscription.name_any(), State::Failed.as_str());
        let line = format!("{name}: {state}: {cause}");
        Some((name, line))
    });
    failures.collect()
}

#[cfg(test)]
mod tests {
    use olm_testing::cluster::FakeCluster;
    use serde_json::json;

    use super::*;
    use crate::operators::tests::{plan as install_plan, subscription};

    #[test]
    fn a_bundle_that_cannot_be_unpacked_is_reported_as_status_reports_it() {
        let of = |type_: &str, status: &str| {
            let conditions = json!([{"type": type_, "status": status, "message": "cannot pull x:v2"}]);
            let object = subscription("db", &json!({"conditions": conditions}));
            let origin = String::new();
            unpack_failures(&[Document { object, origin }])
        };
        let told = BTreeMap::from([("db".to_owned(), "db: Failed: cannot pull x:v2".to_owned())]);
        assert_eq!(of("BundleUnpackFailed", "True"), told);
        for (type_, status) in [("BundleUnpackFailed", "False"), ("BundleUnpacking", "True")] {
            assert!(of(type_, status).is_empty(), "{type_} {status}");
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
    async fn a_plan_that_is_approved_does_not_require_approval() {
        let cluster = FakeCluster::new();
        cluster.put(install_plan("install-1", "Installing", true));
        cluster.put(install_plan("install-2", "RequiresApproval", false));
        let (client, _link) = cluster.connect();
        let of = |name: &str| Waiting {
            install_plan: Some(name.to_owned()),
            ..Waiting::default()
        };
        let mut waiting = ["install-1", "install-2", "install-3"].map(of);
        read_approvals(&Cluster::of(client, "shop"), &mut waiting).await;
        assert_eq!(waiting.map(|plan| plan.is_approved), [true, false, false]);
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
