//! The chart `charts/olm` and the files generated from it. `manifests/olm` has one file for each template;
//! `manifests/install.yaml` has everything, including the CustomResourceDefinitions. The chart is the source of all but the
//! definitions, which come from `manifests/crds` and, for OLM v1, `manifests/crds-v1`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::files::yaml;
use crate::progress::Progress;
use crate::{cluster, process, workspace};

/// Folder of the chart, below the workspace's root.
const CHART: &str = "charts/olm";
/// Folder of the definitions of `operators.coreos.com`.
const DEFINITIONS: &str = "manifests/crds";
/// The same for the definitions of OLM v1.
const V1_DEFINITIONS: &str = "manifests/crds-v1";
/// Folder of the objects that `cargo xtask deploy` applies.
const OBJECTS: &str = "manifests/olm";
/// File with everything, for `kubectl apply`.
const ALL: &str = "manifests/install.yaml";
/// Folder of definitions in a chart. Helm creates these first, and neither upgrades nor deletes them.
const CHART_DEFINITIONS: &str = "charts/olm/crds";
/// Folder of the definitions that a template includes, because a value decides whether they are installed.
const CHART_V1_DEFINITIONS: &str = "charts/olm/crds-v1";
/// Name of the release that is rendered.
const RELEASE: &str = "olm";
/// Version of Kubernetes for rendering without a cluster. Nothing in the chart depends on it.
const KUBERNETES: &str = "1.34.0";
/// Line that helm writes before each document.
const SOURCE: &str = "---\n# Source: olm/templates/";

/// Returns the chart's folder.
pub fn folder() -> PathBuf {
    workspace::root().join(CHART)
}

/// Renders the chart with arguments of `helm template`, without hooks.
///
/// # Errors
/// Helm rejects a value, or a template fails; the error includes its messages.
pub(crate) fn render(helm: &Path, values: &[&str]) -> anyhow::Result<String> {
    render_folder(helm, &folder(), values)
}

/// Renders the chart in another folder like [`render`].
///
/// # Errors
/// The same as for [`render`].
pub(crate) fn render_folder(helm: &Path, chart: &Path, values: &[&str]) -> anyhow::Result<String> {
    let mut command = Command::new(helm);
    command
        .args(["template", RELEASE])
        .arg(chart)
        .args(["--no-hooks", "--kube-version", KUBERNETES])
        .args(values);
    process::run(&mut command)
}

/// Writes the generated files or, with `check`, verifies that they are up to date.
///
/// # Errors
/// Helm cannot be built or rejects the chart. With `check`, a file is outdated; the error names it.
pub(crate) fn generate(check: bool, progress: &Progress) -> anyhow::Result<()> {
    let root = workspace::root();
    let helm = cluster::helm(progress).context("helm renders the chart")?;
    let wanted = all_wanted(&root, &helm)?;
    let stale = stale(&root, &wanted)?;
    if check && !stale.is_empty() {
        bail!(
            "{} are not what the chart renders; run `cargo xtask gen`",
            stale.join(", ")
        );
    }
    for path in &stale {
        let file = root.join(path);
        match wanted.get(path) {
            Some(text) => fs::write(&file, text),
            None => fs::remove_file(&file),
        }
        .with_context(|| format!("cannot write {}", file.display()))?;
    }
    progress.note(&format!(
        "{OBJECTS}, {ALL} and {CHART_DEFINITIONS} are up to date, {} files changed",
        stale.len()
    ));
    Ok(())
}

/// Returns all generated files: content by path below the root.
fn all_wanted(root: &Path, helm: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let definitions = yaml(&root.join(DEFINITIONS))?;
    let mut wanted = wanted(&render(helm, &[])?, &definitions)?;
    for (name, text) in yaml(&root.join(V1_DEFINITIONS))? {
        wanted.insert(format!("{CHART_V1_DEFINITIONS}/{name}"), text);
    }
    Ok(wanted)
}

/// Returns the files that are made of the rendered chart and the definitions of `operators.coreos.com`.
fn wanted(
    rendered: &str,
    definitions: &BTreeMap<String, String>,
) -> anyhow::Result<BTreeMap<String, String>> {
    let objects = by_template(rendered)?;
    let mut wanted = BTreeMap::new();
    let mut all = "# CustomResourceDefinitions and everything else, made by `cargo xtask gen`. How to apply it: manifests/README.md.\n".to_owned();
    for (name, text) in definitions {
        all.push_str(&format!("---\n{}\n", text.trim_end()));
        wanted.insert(format!("{CHART_DEFINITIONS}/{name}"), text.clone());
    }
    for (name, documents) in objects {
        let text = documents.join("\n---\n");
        all.push_str(&format!("---\n{text}\n"));
        wanted.insert(
            format!("{OBJECTS}/{name}"),
            format!("# Made of {CHART}/templates/{name} by `cargo xtask gen`; what is changed here is lost.\n{text}\n"),
        );
    }
    wanted.insert(ALL.to_owned(), all);
    Ok(wanted)
}

/// Returns the documents by file name of their template, in helm's order of kinds.
fn by_template(rendered: &str) -> anyhow::Result<BTreeMap<String, Vec<String>>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut documents = rendered.split(SOURCE);
    if documents.next().is_none_or(|before| !before.trim().is_empty()) {
        bail!("helm prints `{SOURCE}` before each document no more");
    }
    for document in documents {
        let (name, text) = document
            .split_once('\n')
            .context("helm rendered a document without a line")?;
        found
            .entry(name.to_owned())
            .or_default()
            .push(text.trim().to_owned());
    }
    Ok(found)
}

/// Returns the files of `wanted` that are missing or different, and files in the same folders that are not generated.
fn stale(root: &Path, wanted: &BTreeMap<String, String>) -> anyhow::Result<Vec<String>> {
    let mut stale: Vec<String> = wanted
        .iter()
        .filter(|(path, text)| fs::read_to_string(root.join(path)).ok().as_ref() != Some(text))
        .map(|(path, _)| path.clone())
        .collect();
    for folder in [OBJECTS, CHART_DEFINITIONS, CHART_V1_DEFINITIONS] {
        let there = yaml(&root.join(folder))?
            .into_keys()
            .map(|name| format!("{folder}/{name}"));
        stale.extend(there.filter(|path| !wanted.contains_key(path)));
    }
    Ok(stale)
}

#[cfg(test)]
mod tests;
