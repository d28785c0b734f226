//! `kubectl operator plan`: what OLM will install and upgrade.

use std::io::Read as _;
use std::path::Path;

use anyhow::Context as _;
use olm_resolver::objects::{Objects, documents};
use olm_resolver::plan::{Plan, Question, Target, plan, plan_to};

use crate::args::{Output, PlanArgs};
use crate::cluster::{self, Cluster};
use crate::{Verdict, catalogs, printer};

/// Prints the plan.
///
/// # Errors
/// Objects or catalogs cannot be read, or do not say what to plan for.
pub async fn run(args: &PlanArgs) -> anyhow::Result<Verdict> {
    let mut question = question(args).await?;
    question.steps = args.steps;
    let plan = match &args.target {
        None => plan(&question)?,
        Some(version) => plan_to(
            &question,
            &Target {
                version: version.clone(),
                subscription: args.subscription.clone(),
            },
        )?,
    };
    printer::data(&text(&plan, args.output)?)?;
    Ok(if plan.unsatisfiable.is_empty() {
        Verdict::Fine
    } else {
        Verdict::Unresolved
    })
}

fn text(plan: &Plan, output: Output) -> anyhow::Result<String> {
    Ok(match output {
        Output::Text => plan.to_string(),
        Output::Json => format!("{}\n", serde_json::to_string_pretty(plan)?),
    })
}

async fn question(args: &PlanArgs) -> anyhow::Result<Question> {
    let mut given = Vec::new();
    for file in &args.filename {
        given.extend(documents(&read(file)?)?);
    }
    let global = &args.cluster.global_catalog_namespace;
    if let Some(directory) = &args.catalog {
        let objects = cluster::merge(Vec::new(), given)?;
        let namespace = objects.namespace(args.cluster.namespace.as_deref())?;
        let contents = catalogs::from_directory(directory, &objects.catalog_keys(&namespace))?;
        return Ok(with_group(objects.question(&namespace, global, contents)));
    }
    let cluster = Cluster::connect(&args.cluster).await?;
    for object in &mut given {
        // As kubectl does with objects that name none.
        if object["metadata"]["namespace"].is_null() && object["metadata"].is_object() {
            object["metadata"]["namespace"] = cluster.namespace.as_str().into();
        }
    }
    let objects: Objects = cluster::merge(cluster.objects(global).await?, given)?;
    let namespace = objects.namespace(Some(&cluster.namespace))?;
    let contents = catalogs::read(&cluster.client, &objects.catalog_keys(&namespace)).await;
    Ok(objects.question(&namespace, global, contents))
}

/// Objects in files often leave out the OperatorGroup.
fn with_group(mut question: Question) -> Question {
    if question.problem.operator_group.count == 0 {
        printer::warning(&format!(
            "no OperatorGroup of namespace {} among the objects: one is assumed, without which OLM does nothing",
            question.problem.namespace
        ));
        question.problem.operator_group.count = 1;
    }
    question
}

fn read(file: &Path) -> anyhow::Result<String> {
    if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin()
            .read_to_string(&mut text)
            .context("cannot read stdin")?;
        return Ok(text);
    }
    std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}
