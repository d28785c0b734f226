//! `opm plan`: what OLM would do with the objects of a namespace and a catalog, without a cluster.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::bail;
use clap::{Args, ValueEnum};
use olm_resolver::objects::{Objects, read_text};
use olm_resolver::plan::{Plan, Question, Target, answer};
use olm_resolver::{CatalogKey, Snapshot};

use crate::printer;

/// Exit code when the plan leaves something out that the objects ask for.
const UNRESOLVED: i32 = 2;

/// Namespace whose catalogs everyone may use, where the objects do not tell.
const GLOBAL_NAMESPACE: &str = "olm";

/// `opm plan`
#[derive(Debug, Args)]
pub struct PlanArgs {
    /// Catalog directories, and files of objects (as with --filename)
    ///
    /// A directory stands for every catalog the objects name. To plan with several, write NAME/NAMESPACE=DIRECTORY for each.
    #[arg(value_name = "CATALOG | FILE", required = true)]
    inputs: Vec<String>,
    /// File with Subscriptions, ClusterServiceVersions, OperatorGroups and CatalogSources; - is stdin
    #[arg(short, long, value_name = "FILE")]
    filename: Vec<PathBuf>,
    /// Namespace to plan for; may be left out when only one has Subscriptions
    #[arg(short, long)]
    namespace: Option<String>,
    /// Namespace whose catalogs every namespace may use [default: that of the catalogs named by the objects, else olm]
    #[arg(long, value_name = "NAMESPACE")]
    global_catalog_namespace: Option<String>,
    /// How to get to this version (or ClusterServiceVersion) instead of where the channel leads
    #[arg(long, value_name = "VERSION")]
    target: Option<String>,
    /// Subscription that --target is about; may be left out when only one package has that version
    #[arg(long, value_name = "NAME", requires = "target")]
    subscription: Option<String>,
    /// Look ahead no further than so many steps; 1 is what the next resolution does
    #[arg(long, value_name = "NUMBER", conflicts_with = "target")]
    steps: Option<usize>,
    /// How to print the plan
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

/// How a plan is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// Step by step, for people
    Text,
    /// One JSON document with namespace, install and unsatisfiable
    Json,
}

/// Prints the plan. Ends the process with 2 when something the objects ask for is not in it.
///
/// # Errors
/// The catalog or the objects cannot be read, or do not say what to plan for.
pub fn run(args: &PlanArgs) -> anyhow::Result<()> {
    let Inputs { objects, catalogs } = read_inputs(args)?;
    let namespace = objects.namespace(args.namespace.as_deref())?;
    let question = question(args, &objects, &namespace, &catalogs)?;
    let target = args.target.clone().map(|version| Target {
        version,
        subscription: args.subscription.clone(),
    });
    let plan = answer(&question, target.as_ref())?;
    print(&plan, args.output)?;
    if !plan.unsatisfiable.is_empty() {
        std::process::exit(UNRESOLVED);
    }
    Ok(())
}

fn print(plan: &Plan, output: Output) -> anyhow::Result<()> {
    match output {
        Output::Text => printer::data(&plan.to_string()),
        Output::Json => {
            plan.notes.iter().for_each(|note| printer::note(note));
            printer::data(&format!("{}\n", serde_json::to_string_pretty(plan)?))
        }
    }
}

/// What the command line names.
struct Inputs {
    objects: Objects,
    /// Directories with the catalog each stands for, if it is named.
    catalogs: Vec<(Option<CatalogKey>, PathBuf)>,
}

fn read_inputs(args: &PlanArgs) -> anyhow::Result<Inputs> {
    let mut files = args.filename.clone();
    let mut catalogs = Vec::new();
    for input in &args.inputs {
        if input == "-" || Path::new(input).is_file() {
            files.push(input.into());
        } else {
            catalogs.push(parse_catalog(input)?);
        }
    }
    if files.is_empty() {
        bail!("no file of objects: name one with --filename");
    }
    if catalogs.is_empty() {
        bail!("no catalog directory");
    }
    if catalogs.len() > 1
        && let Some((_, directory)) = catalogs.iter().find(|(key, _)| key.is_none())
    {
        bail!(
            "several catalogs: write NAME/NAMESPACE={0} to say which catalog {0} is",
            directory.display()
        );
    }
    let mut text = String::new();
    for file in &files {
        text.push_str(&read_text(file)?);
        text.push_str("\n---\n");
    }
    let objects = Objects::read(&text)?;
    let ignored: Vec<&str> = objects.ignored().collect();
    if !ignored.is_empty() {
        printer::warning(&format!(
            "not looked at, as they have no part in resolution: {}",
            ignored.join(", ")
        ));
    }
    Ok(Inputs { objects, catalogs })
}

fn parse_catalog(input: &str) -> anyhow::Result<(Option<CatalogKey>, PathBuf)> {
    let (key, directory) = match input.split_once('=') {
        Some((key, directory)) if !Path::new(input).is_dir() => {
            let Some((name, namespace)) = key.split_once('/') else {
                bail!("catalog {input}: write NAME/NAMESPACE=DIRECTORY");
            };
            let key = CatalogKey {
                name: name.to_owned(),
                namespace: namespace.to_owned(),
            };
            (Some(key), PathBuf::from(directory))
        }
        _ => (None, PathBuf::from(input)),
    };
    if !directory.is_dir() {
        bail!("catalog {}: no such directory", directory.display());
    }
    Ok((key, directory))
}

fn question(
    args: &PlanArgs,
    objects: &Objects,
    namespace: &str,
    directories: &[(Option<CatalogKey>, PathBuf)],
) -> anyhow::Result<Question> {
    let keys = objects.catalog_keys(namespace);
    let mut catalogs: BTreeMap<CatalogKey, Result<Arc<Snapshot>, String>> = BTreeMap::new();
    for (key, directory) in directories {
        let (_, fetched) = olm_registry::snapshot::of_directory(directory)?;
        fetched.skipped.iter().for_each(|text| printer::warning(text));
        let snapshot = Arc::new(Snapshot::from(&fetched.snapshot));
        match key {
            Some(key) => {
                catalogs.insert(key.clone(), Ok(snapshot));
            }
            None => catalogs.extend(keys.iter().map(|key| (key.clone(), Ok(Arc::clone(&snapshot))))),
        }
    }
    let elsewhere = keys
        .iter()
        .map(|key| &key.namespace)
        .find(|home| *home != namespace);
    let global = args
        .global_catalog_namespace
        .clone()
        .or_else(|| elsewhere.cloned())
        .unwrap_or_else(|| GLOBAL_NAMESPACE.to_owned());
    let mut question = objects.question(namespace, &global, catalogs);
    question.steps = args.steps;
    if let Some(notice) = question.assume_group() {
        printer::warning(&notice);
    }
    Ok(question)
}
