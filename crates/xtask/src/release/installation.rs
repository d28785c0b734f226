//! The chart and the manifests of a release: those of the checkout with the release's version, and images by digest.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};

use super::archive::{Entries, Entry};
use crate::chart;
use crate::manifest::IMAGE_PREFIX;

/// The chart below the workspace's root, and where it is in its archive.
const CHART: &str = "charts/olm";
const IN_ARCHIVE: &str = "olm";
/// Its definitions.
const DEFINITIONS: &str = "olm/crds/";
/// Larger files are no part of a chart; helm takes no chart above 1 MiB per file either.
const MAX_FILE: u64 = 1 << 20;
const MODE: u32 = 0o644;

/// An image and the digest under which it is released.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pinned {
    /// Its key below `image` in the chart's values.
    pub(super) name: String,
    pub(super) digest: String,
}

/// The files of the chart: those of the checkout at `root`, which says `base`, with the version `version`, its images at `registry` and each by
/// digest.
///
/// # Errors
/// When a file cannot be read, or does not hold what is to be replaced.
pub(super) fn chart(
    root: &Path,
    base: &str,
    version: &str,
    registry: Option<&str>,
    images: &[Pinned],
) -> anyhow::Result<Entries> {
    let mut files = Entries::new();
    add(&root.join(CHART), IN_ARCHIVE, &mut files)?;
    edit(&mut files, "Chart.yaml", |text| {
        let text = replaced(
            text,
            &format!("\nversion: {base}\n"),
            &format!("\nversion: {version}\n"),
        )?;
        replaced(
            &text,
            &format!("\nappVersion: {base}\n"),
            &format!("\nappVersion: {version}\n"),
        )
    })?;
    edit(&mut files, "values.yaml", |text| {
        let mut text = text.to_owned();
        if let Some(registry) = registry {
            let ours = format!("\n  registry: {}\n", IMAGE_PREFIX.trim_end_matches('/'));
            text = replaced(
                &text,
                &ours,
                &format!("\n  registry: {}\n", registry.trim_end_matches('/')),
            )?;
        }
        for Pinned { name, digest } in images {
            let open = format!("    repository: {name}\n    digest: \"\"\n");
            text = replaced(
                &text,
                &open,
                &format!("    repository: {name}\n    digest: {digest}\n"),
            )?;
        }
        Ok(text)
    })?;
    Ok(files)
}

fn edit(
    files: &mut Entries,
    name: &str,
    change: impl FnOnce(&str) -> anyhow::Result<String>,
) -> anyhow::Result<()> {
    let path = format!("{IN_ARCHIVE}/{name}");
    let entry = files
        .get_mut(&path)
        .with_context(|| format!("the chart has no {name}"))?;
    let text = std::str::from_utf8(&entry.content).with_context(|| format!("the chart's {name}"))?;
    entry.content = change(text)
        .with_context(|| format!("the chart's {name}"))?
        .into_bytes();
    Ok(())
}

/// `text` with the only occurrence of `from` replaced.
fn replaced(text: &str, from: &str, to: &str) -> anyhow::Result<String> {
    if text.matches(from).count() != 1 {
        bail!("{from:?} does not stand there once");
    }
    Ok(text.replace(from, to))
}

fn add(folder: &Path, below: &str, files: &mut Entries) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry?.path();
        let name = format!(
            "{below}/{}",
            path.file_name().unwrap_or_default().to_string_lossy()
        );
        if path.is_dir() {
            add(&path, &name, files)?;
            continue;
        }
        let size = path.metadata()?.len();
        if size > MAX_FILE {
            bail!(
                "{} has {size} bytes; files of a chart have {MAX_FILE} at most",
                path.display()
            );
        }
        let content = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        files.insert(name, Entry { content, mode: MODE });
    }
    Ok(())
}

/// The CustomResourceDefinitions in one text, for `kubectl apply --server-side`.
pub(super) fn definitions(chart: &Entries) -> String {
    let mut all = "# The CustomResourceDefinitions of OLM. They go before an upgrade by helm, which does not change them.\n".to_owned();
    for (path, entry) in chart {
        if path.starts_with(DEFINITIONS) {
            all.push_str(&format!(
                "---\n{}\n",
                String::from_utf8_lossy(&entry.content).trim_end()
            ));
        }
    }
    all
}

/// Everything in one text, for `kubectl apply`: the chart as helm renders it with its values, after the definitions. `scratch` is an empty
/// folder.
///
/// # Errors
/// When helm refuses the chart, or an image goes without its digest.
pub(super) fn manifest(
    helm: &Path,
    chart: &Entries,
    images: &[Pinned],
    scratch: &Path,
) -> anyhow::Result<String> {
    for (path, entry) in chart {
        let file = scratch.join(path);
        fs::create_dir_all(file.parent().unwrap_or(scratch))?;
        fs::write(&file, &entry.content).with_context(|| format!("cannot write {}", file.display()))?;
    }
    let rendered = chart::render_folder(helm, &scratch.join(IN_ARCHIVE), &[])?;
    let mut all = definitions(chart);
    all.push_str(rendered.trim_start());
    for Pinned { name, digest } in images {
        if !all.contains(&format!("@{digest}")) {
            bail!("no object of the chart names the image {name} by its digest");
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace;

    const BASE: &str = env!("CARGO_PKG_VERSION");

    fn images() -> [Pinned; 2] {
        ["olm", "opm"].map(|name| Pinned {
            name: name.to_owned(),
            digest: format!("sha256:{}", name.repeat(64)[..64].to_owned()),
        })
    }

    fn text(files: &Entries, name: &str) -> String {
        String::from_utf8(files[&format!("olm/{name}")].content.clone()).unwrap()
    }

    #[test]
    fn arch_002_the_chart_of_a_release_has_its_version_and_images_by_digest() {
        let version = format!("{BASE}-rc.1");
        let files = chart(
            &workspace::root(),
            BASE,
            &version,
            Some("registry.example.com/olm/"),
            &images(),
        )
        .unwrap();
        assert!(
            files.keys().all(|path| path.starts_with("olm/")),
            "helm wants one folder"
        );
        assert!(
            files.contains_key("olm/templates/_helpers.tpl") && files.contains_key("olm/values.schema.json")
        );
        let about: serde_json::Value = serde_saphyr::from_str(&text(&files, "Chart.yaml")).unwrap();
        assert_eq!(
            (about["version"].as_str(), about["appVersion"].as_str()),
            (Some(version.as_str()), Some(version.as_str()))
        );
        let values: serde_json::Value = serde_saphyr::from_str(&text(&files, "values.yaml")).unwrap();
        assert_eq!(values["image"]["registry"], "registry.example.com/olm");
        for image in images() {
            assert_eq!(values["image"][&image.name]["digest"], image.digest);
        }
        assert!(definitions(&files).matches("\n---\n").count() >= 8);
    }

    #[test]
    fn a_chart_that_cannot_be_pinned_is_refused() {
        let unknown = [Pinned {
            name: "other".into(),
            digest: "sha256:1".into(),
        }];
        let error = format!(
            "{:#}",
            chart(&workspace::root(), BASE, BASE, None, &unknown).unwrap_err()
        );
        assert!(
            error.contains("values.yaml") && error.contains("repository: other"),
            "{error}"
        );
        assert!(chart(&workspace::root(), "9.9.9", "9.9.9-rc.1", None, &[]).is_err());
    }

    #[test]
    fn a_large_file_is_no_part_of_a_chart() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join(CHART)).unwrap();
        let file = fs::File::create(folder.path().join(CHART).join("values.yaml")).unwrap();
        file.set_len(MAX_FILE + 1).unwrap();
        let error = format!("{:#}", chart(folder.path(), BASE, BASE, None, &[]).unwrap_err());
        assert!(error.contains("values.yaml has 1048577 bytes"), "{error}");
    }
}
