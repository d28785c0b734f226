//! `opm plan`: what OLM would do with the objects of a namespace and a catalog, without a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::bail;
use olm_registry::index::Index;
use olm_registry::snapshot;
use olm_resolver::objects::{Objects, read_file};
use olm_resolver::plan::{Plan, Question, Target, answer};
use olm_resolver::{CatalogKey, Snapshot};

use crate::args::{PlanArgs, PlanFormat};
use crate::printer;

/// Exit code when the plan leaves something out that the objects ask for.
const UNRESOLVED: i32 = 2;

/// Namespace whose catalogs everyone may use, where the objects do not tell.
const GLOBAL_NAMESPACE: &str = "olm";

/// Prints the plan. Ends the process with 2 when something the objects ask for is not in it.
///
/// # Errors
/// The catalog or the objects cannot be read, or do not say what to plan for.
pub(crate) fn run(args: &PlanArgs) -> anyhow::Result<()> {
    let Inputs { objects, catalogs } = read_inputs(args)?;
    let namespace = objects.namespace(args.namespace.as_deref())?;
    let Catalogs { contents, indexes } = read_catalogs(&catalogs, &objects.catalog_keys(&namespace))?;
    let question = question(args, &objects, &namespace, contents);
    let target = args.target.clone().map(|version| Target {
        version,
        subscription: args.subscription.clone(),
    });
    let mut plan = answer(&question, target.as_ref())?;
    if let Some(kubernetes) = &args.kube_version {
        plan.note_unfit(kubernetes, |install| {
            let index = indexes.get(&install.catalog_key())?;
            snapshot::csv_of(index, &install.package, &install.channel, &install.name)
        });
    }
    print(&plan, args.output)?;
    if !plan.unsatisfiable.is_empty() {
        std::process::exit(UNRESOLVED);
    }
    Ok(())
}

fn print(plan: &Plan, output: PlanFormat) -> anyhow::Result<()> {
    match output {
        PlanFormat::Text => printer::data(&plan.to_string()),
        PlanFormat::Json => {
            plan.notes
                .iter()
                .for_each(|note| printer::note(&format!("note: {note}")));
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
        bail!(
            "no catalog directory: name one beside the files, or NAME/NAMESPACE=DIRECTORY for each of several"
        );
    }
    check_names(&catalogs)?;
    let mut objects = Objects::default();
    for file in &files {
        for mut document in read_file(file)? {
            if let Some(namespace) = &args.namespace {
                document.put_into(namespace);
            }
            objects.add(document)?;
        }
    }
    objects.remarks().for_each(|text| printer::warning(&text));
    Ok(Inputs { objects, catalogs })
}

fn check_names(catalogs: &[(Option<CatalogKey>, PathBuf)]) -> anyhow::Result<()> {
    let mut seen: BTreeMap<&CatalogKey, &Path> = BTreeMap::new();
    for (key, directory) in catalogs {
        match key {
            None if catalogs.len() > 1 => bail!(
                "several catalogs: write NAME/NAMESPACE={0} to say which catalog {0} is",
                directory.display()
            ),
            None => {}
            Some(key) => {
                if let Some(first) = seen.insert(key, directory) {
                    bail!(
                        "catalog {}/{} is both {} and {}: name it once",
                        key.name,
                        key.namespace,
                        first.display(),
                        directory.display()
                    );
                }
            }
        }
    }
    Ok(())
}

fn parse_catalog(input: &str) -> anyhow::Result<(Option<CatalogKey>, PathBuf)> {
    let (key, directory) = match input.split_once('=') {
        Some((key, directory)) if !Path::new(input).is_dir() => {
            let named = key.split_once('/');
            let Some((name, namespace)) = named.filter(|(name, home)| !name.is_empty() && !home.is_empty())
            else {
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
        bail!(
            "{}: no such file or directory: name catalog directories and files of objects",
            directory.display()
        );
    }
    Ok((key, directory))
}

type Contents = BTreeMap<CatalogKey, Result<Arc<Snapshot>, String>>;

/// What the catalog directories hold.
#[derive(Default)]
struct Catalogs {
    contents: Contents,
    indexes: BTreeMap<CatalogKey, Arc<Index>>,
}

/// Reads the directories; one that is not named stands for all of `keys`.
fn read_catalogs(
    directories: &[(Option<CatalogKey>, PathBuf)],
    keys: &BTreeSet<CatalogKey>,
) -> anyhow::Result<Catalogs> {
    let mut catalogs = Catalogs::default();
    for (named, directory) in directories {
        let (index, fetched) = snapshot::of_directory(directory)?;
        fetched.skipped.iter().for_each(|text| printer::warning(text));
        let (index, content) = (Arc::new(index), Arc::new(Snapshot::from(&fetched.snapshot)));
        if content.entries().is_empty() {
            printer::warning(&format!("catalog {} has no bundles", directory.display()));
        }
        let stands_for = named
            .as_ref()
            .map_or_else(|| keys.iter().collect(), |key| vec![key]);
        for key in stands_for {
            catalogs.contents.insert(key.clone(), Ok(Arc::clone(&content)));
            catalogs.indexes.insert(key.clone(), Arc::clone(&index));
        }
    }
    Ok(catalogs)
}

fn question(args: &PlanArgs, objects: &Objects, namespace: &str, catalogs: Contents) -> Question {
    let keys = objects.catalog_keys(namespace);
    let elsewhere = keys
        .iter()
        .map(|key| &key.namespace)
        .find(|home| *home != namespace);
    let global = args
        .global_catalog_namespace
        .clone()
        .or_else(|| elsewhere.cloned())
        .unwrap_or_else(|| GLOBAL_NAMESPACE.to_owned());
    let unknown = keys.iter().filter(|key| !catalogs.contains_key(key));
    for CatalogKey { name, namespace } in unknown {
        printer::warning(&format!(
            "no directory for catalog {name}/{namespace}, which the objects name: the plan is made as if there were no such \
             catalog; add {name}/{namespace}=DIRECTORY"
        ));
    }
    let mut question = objects.question(namespace, &global, catalogs);
    question.out_of_reach().for_each(|text| printer::warning(&text));
    question.steps = args.steps.map(usize::from);
    if let Some(notice) = question.assume_group() {
        printer::warning(&notice);
    }
    question
}
