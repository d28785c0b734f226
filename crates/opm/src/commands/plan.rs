//! `opm plan`: computes what OLM would do with the objects of a namespace and a catalog, without a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::bail;
use olm_fbc::printable::{escape, escape_json};
use olm_registry::index::Index;
use olm_registry::snapshot;
use olm_resolver::objects::{Objects, read_file};
use olm_resolver::plan::{self, Install, Plan, Question, Target};
use olm_resolver::{CatalogKey, RuntimeConstraint, Snapshot};

use crate::args::{PlanArgs, PlanFormat};
use crate::printer;

/// Exit code if the plan does not contain everything that the objects request.
const UNRESOLVED: i32 = 2;

/// Prints the plan. Exits with 2 if the plan does not contain everything that the objects request.
///
/// # Errors
/// The catalog or the objects cannot be read, or do not define what to plan.
pub(crate) fn run(args: &PlanArgs) -> anyhow::Result<()> {
    let Inputs { objects, catalogs } = read_inputs(args)?;
    let namespace = objects.namespace(args.namespace.as_deref())?;
    let known = objects.catalog_keys(&namespace);
    let catalogs = named(catalogs, &known)?;
    let Catalogs { contents, indexes } = read_catalogs(&catalogs, &known)?;
    let mut question = question(args, &objects, &namespace, contents);
    if let Some(file) = &args.runtime_constraints {
        question.problem.runtime_constraints = RuntimeConstraint::read_file(file)?;
    }
    let target = args.target.clone().map(|version| Target {
        version,
        subscription: args.subscription.clone(),
    });
    let mut plan = plan::answer(&question, target.as_ref())?;
    let bundle = |install: &Install| {
        let index = indexes.get(&install.catalog)?;
        snapshot::bundle_of(index, &install.package, &install.channel, &install.name)
    };
    plan.note_unfit(&question, args.kube_version.as_ref(), |install| {
        snapshot::csv(&bundle(install)?)
    });
    plan.note_refused(|install| bundle(install).map_or_else(Vec::new, |it| snapshot::objects(&it)));
    print(&plan, args.output)?;
    if !plan.unsatisfiable.is_empty() {
        std::process::exit(UNRESOLVED);
    }
    Ok(())
}

fn print(plan: &Plan, output: PlanFormat) -> anyhow::Result<()> {
    match output {
        PlanFormat::Text => printer::data(&escape(&plan.to_string())),
        PlanFormat::Json => {
            let document = escape_json(&serde_json::to_string_pretty(plan)?);
            printer::data(&format!("{document}\n"))
        }
    }
}

/// Inputs that the command line names.
struct Inputs {
    objects: Objects,
    /// Directories with the text before `=`, if there is one.
    catalogs: Vec<(Option<String>, PathBuf)>,
}

fn read_inputs(args: &PlanArgs) -> anyhow::Result<Inputs> {
    let mut files = args.filename.clone();
    let mut catalogs = Vec::new();
    for input in &args.inputs {
        // Pipes of process substitution and devices are not directories, and can be read.
        let path = Path::new(input);
        if input == "-" || (path.exists() && !path.is_dir()) {
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
            "no catalog directory: name one beside the files, or NAMESPACE/NAME=DIRECTORY for each of several"
        );
    }
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

/// Returns the directories with their catalogs; `known` are the catalogs of the objects.
fn named(
    catalogs: Vec<(Option<String>, PathBuf)>,
    known: &BTreeSet<CatalogKey>,
) -> anyhow::Result<Vec<(Option<CatalogKey>, PathBuf)>> {
    let mut seen: BTreeMap<CatalogKey, PathBuf> = BTreeMap::new();
    let is_alone = catalogs.len() == 1;
    let mut named = Vec::new();
    for (name, directory) in catalogs {
        let key = name.map(|name| parse_key(&name, &directory, known)).transpose()?;
        match &key {
            None if !is_alone => bail!(
                "several catalogs: write NAMESPACE/NAME={0} to say which catalog {0} is",
                directory.display()
            ),
            None => {}
            Some(key) => {
                if let Some(first) = seen.insert(key.clone(), directory.clone()) {
                    bail!(
                        "catalog {key} is both {} and {}: name it once",
                        first.display(),
                        directory.display()
                    );
                }
            }
        }
        named.push((key, directory));
    }
    Ok(named)
}

fn parse_key(name: &str, directory: &Path, known: &BTreeSet<CatalogKey>) -> anyhow::Result<CatalogKey> {
    let parts = name.split_once('/');
    let Some((namespace, name)) = parts.filter(|(home, name)| !home.is_empty() && !name.is_empty()) else {
        bail!(
            "catalog {name}={}: write NAMESPACE/NAME=DIRECTORY",
            directory.display()
        );
    };
    let key = |namespace: &str, name: &str| CatalogKey {
        name: name.to_owned(),
        namespace: namespace.to_owned(),
    };
    let (found, turned) = (key(namespace, name), key(name, namespace));
    if !known.contains(&found) && known.contains(&turned) {
        printer::warning(&format!(
            "catalog {found} is used as {turned}, to which the objects refer; the form is NAMESPACE/NAME"
        ));
        return Ok(turned);
    }
    Ok(found)
}

fn parse_catalog(input: &str) -> anyhow::Result<(Option<String>, PathBuf)> {
    let (key, directory) = match input.split_once('=') {
        Some((key, directory)) if !Path::new(input).is_dir() => {
            (Some(key.to_owned()), PathBuf::from(directory))
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

/// Content of the catalog directories.
#[derive(Default)]
struct Catalogs {
    contents: Contents,
    indexes: BTreeMap<CatalogKey, Arc<Index>>,
}

/// Reads the directories; a directory without a name is used for all of `keys`.
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
    let given = args.global_catalog_namespace.as_deref();
    let (mut question, remarks) = objects.question_without_cluster(namespace, given, catalogs);
    remarks.iter().for_each(|text| printer::warning(text));
    question.steps = args.steps.map(usize::from);
    question
}
