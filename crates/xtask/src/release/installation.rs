//! Chart and manifests of a release: those of the sources, with the release's version and images by digest.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::archive::Entries;
use crate::images::VERSION;
use crate::manifest::IMAGE_PREFIX;
use crate::{chart, files};

/// Path of the chart below the workspace's root, and in its archive.
const CHART: &str = "charts/olm";
const IN_ARCHIVE: &str = "olm";
/// Path of its definitions.
const DEFINITIONS: &str = "olm/crds/";
const MODE: u32 = 0o644;

/// Returns the files of the chart below `root`, with the version `version` and its images at `registry` by digest. `images` has the
/// key below `image` in the chart's values and the digest of each.
///
/// # Errors
/// A file cannot be read, or a text to replace is missing.
pub(super) fn chart(
    root: &Path,
    version: &str,
    registry: Option<&str>,
    images: &[(&str, String)],
) -> anyhow::Result<Entries> {
    let mut files = Entries::new();
    for (name, path) in files::below(&root.join(CHART))? {
        let content = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        files.insert(format!("{IN_ARCHIVE}/{name}"), (content, MODE));
    }
    let mut edit = |name: &str, from: &str, to: &str| {
        let (content, _) = files
            .get_mut(&format!("{IN_ARCHIVE}/{name}"))
            .with_context(|| format!("the chart has no {name}"))?;
        let text = String::from_utf8_lossy(content);
        if text.matches(from).count() != 1 {
            bail!("{from:?} does not stand once in the chart's {name}");
        }
        *content = text.replace(from, to).into_bytes();
        Ok(())
    };
    for key in ["version", "appVersion"] {
        edit(
            "Chart.yaml",
            &format!("\n{key}: {VERSION}\n"),
            &format!("\n{key}: {version}\n"),
        )?;
    }
    if let Some(registry) = registry {
        let line = |registry: &str| format!("\n  registry: {}\n", registry.trim_end_matches('/'));
        edit("values.yaml", &line(IMAGE_PREFIX), &line(registry))?;
    }
    for (name, digest) in images {
        let line = |digest: &str| format!("    repository: {name}\n    digest: {digest}\n");
        edit("values.yaml", &line("\"\""), &line(digest))?;
    }
    Ok(files)
}

/// Returns what `Chart.yaml` says.
///
/// # Errors
/// It is missing or not valid YAML.
pub(super) fn about(chart: &Entries) -> anyhow::Result<Value> {
    let (content, _) = chart
        .get(&format!("{IN_ARCHIVE}/Chart.yaml"))
        .context("the chart has no Chart.yaml")?;
    serde_saphyr::from_str(&String::from_utf8_lossy(content)).context("Chart.yaml is not valid")
}

/// Returns the CustomResourceDefinitions as one text, for `kubectl apply --server-side`.
pub(super) fn definitions(chart: &Entries) -> String {
    let mut all = "# The CustomResourceDefinitions of OLM. They go before an upgrade by helm, which does not change them.\n".to_owned();
    for (path, (content, _)) in chart {
        if path.starts_with(DEFINITIONS) {
            all.push_str(&format!("---\n{}\n", String::from_utf8_lossy(content).trim_end()));
        }
    }
    all
}

/// Returns everything as one text for `kubectl apply`: the definitions, then the chart rendered by helm with its default values.
/// `scratch` is an empty folder.
///
/// # Errors
/// Helm rejects the chart.
pub(super) fn manifest(helm: &Path, chart: &Entries, scratch: &Path) -> anyhow::Result<String> {
    for (path, (content, _)) in chart {
        let file = scratch.join(path);
        fs::create_dir_all(file.parent().unwrap_or(scratch))?;
        fs::write(&file, content).with_context(|| format!("cannot write {}", file.display()))?;
    }
    let rendered = chart::render_folder(helm, &scratch.join(IN_ARCHIVE), &[])?;
    let mut all = definitions(chart);
    all.push_str(rendered.trim_start());
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace;

    #[test]
    fn arch_002_the_chart_of_a_release_has_its_version_and_images_by_digest() {
        let version = format!("{VERSION}-rc.1");
        let images = ["olm", "opm"].map(|name| (name, format!("sha256:{}", &name.repeat(64)[..64])));
        let files = chart(
            &workspace::root(),
            &version,
            Some("registry.example.com/olm/"),
            &images,
        )
        .unwrap();
        assert!(
            files.keys().all(|path| path.starts_with("olm/")),
            "helm wants one folder"
        );
        assert!(
            files.contains_key("olm/templates/_helpers.tpl") && files.contains_key("olm/values.schema.json")
        );
        let yaml = |name: &str| -> serde_json::Value {
            serde_saphyr::from_str(&String::from_utf8_lossy(&files[&format!("olm/{name}")].0)).unwrap()
        };
        let about = yaml("Chart.yaml");
        assert_eq!(
            (&about["version"], &about["appVersion"]),
            (&version.clone().into(), &version.into())
        );
        let values = yaml("values.yaml");
        assert_eq!(values["image"]["registry"], "registry.example.com/olm");
        for (name, digest) in images {
            assert_eq!(values["image"][name]["digest"], digest);
        }
        assert!(definitions(&files).matches("\n---\n").count() >= 8);
    }

    #[test]
    fn a_chart_that_cannot_be_pinned_is_refused() {
        let unknown = [("other", "sha256:1".to_owned())];
        let error = chart(&workspace::root(), VERSION, None, &unknown)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("values.yaml") && error.contains("repository: other"),
            "{error}"
        );
    }
}
