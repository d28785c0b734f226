//! `kubectl operator plan`: what OLM will install and upgrade.

use olm_resolver::objects::{Objects, read_file};
use olm_resolver::plan::{Plan, Question, Target, answer};

use crate::args::{Output, PlanArgs};
use crate::cluster::Cluster;
use crate::{Verdict, catalogs, printer};

/// Prints the plan.
///
/// # Errors
/// Objects or catalogs cannot be read, or do not say what to plan for.
pub async fn run(args: &PlanArgs) -> anyhow::Result<Verdict> {
    let mut question = question(args).await?;
    question.steps = args.steps.map(usize::from);
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
        Output::Json => {
            plan.notes.iter().for_each(|note| printer::note(note));
            format!("{}\n", serde_json::to_string_pretty(plan)?)
        }
    })
}

async fn question(args: &PlanArgs) -> anyhow::Result<Question> {
    let mut given = Vec::new();
    for file in &args.filename {
        given.extend(read_file(file)?);
    }
    let global = &args.cluster.global_catalog_namespace;
    if let Some(directory) = &args.catalog {
        if let Some(namespace) = &args.cluster.namespace {
            given.iter_mut().for_each(|document| document.put_into(namespace));
        }
        let objects = Objects::of(given)?;
        objects.remarks().for_each(|text| printer::warning(&text));
        let namespace = objects.namespace(args.cluster.namespace.as_deref())?;
        let contents = catalogs::from_directory(directory, &objects.catalog_keys(&namespace))?;
        let mut question = objects.question(&namespace, global, contents);
        if let Some(notice) = question.assume_group() {
            printer::warning(&notice);
        }
        return Ok(question);
    }
    let cluster = Cluster::connect(&args.cluster).await?;
    given
        .iter_mut()
        .for_each(|document| document.put_into(&cluster.namespace));
    let mut objects = Objects::of(cluster.objects(global).await?)?;
    for document in given {
        objects.add(document)?;
    }
    objects.remarks().for_each(|text| printer::warning(&text));
    let namespace = objects.namespace(Some(&cluster.namespace))?;
    let contents = catalogs::read(&cluster.client, &objects.catalog_keys(&namespace)).await;
    Ok(objects.question(&namespace, global, contents))
}
