//! `kubectl operator plan`: what OLM will install and upgrade.

use olm_resolver::objects::{Objects, documents, read_text};
use olm_resolver::plan::{Plan, Question, Target, answer};

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
    let target = args.target.clone().map(|version| Target {
        version,
        subscription: args.subscription.clone(),
    });
    let plan = answer(&question, target.as_ref())?;
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
        given.extend(documents(&read_text(file)?)?);
    }
    let global = &args.cluster.global_catalog_namespace;
    if let Some(directory) = &args.catalog {
        let objects = cluster::merge(Vec::new(), given)?;
        let namespace = objects.namespace(args.cluster.namespace.as_deref())?;
        let contents = catalogs::from_directory(directory, &objects.catalog_keys(&namespace))?;
        let mut question = objects.question(&namespace, global, contents);
        if let Some(notice) = question.assume_group() {
            printer::warning(&notice);
        }
        return Ok(question);
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
