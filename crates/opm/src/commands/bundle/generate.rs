//! `opm alpha bundle generate` and `build`: annotations and a Dockerfile for a directory of manifests.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use olm_api::labels::bundle as annotations;
use olm_authoring::bundle::check::MediaType;
use olm_fbc::yaml;
use serde_json::{Value, json};

use super::{Entries, read_directory};
use crate::args::{BundleBuildArgs, BundleGenerateArgs};
use crate::printer;
use crate::source::{MANIFESTS, METADATA, entries, read};

const DOCKERFILE: &str = "bundle.Dockerfile";
const ANNOTATIONS_FILE: &str = "annotations.yaml";

/// Writes `metadata/annotations.yaml` beside the manifests (or both to the output directory) and `bundle.Dockerfile` here.
pub(crate) fn generate(args: &BundleGenerateArgs, overwrite: bool) -> anyhow::Result<()> {
    let manifests = std::path::absolute(&args.directory).context("cannot find this directory")?;
    let manifests: PathBuf = manifests.components().collect();
    let Some(Entries { files, .. }) = read_directory(&manifests)? else {
        bail!("{} is not a directory", args.directory.display());
    };
    if files.is_empty() {
        bail!("The directory {} contains no yaml files", manifests.display());
    }
    let media_type = MediaType::of(&files);
    let labels = labels(args, media_type, &manifests, &files)?;
    let parent = match &args.output_dir {
        Some(output) => {
            let output = std::path::absolute(output).context("cannot find this directory")?;
            copy(&manifests, &output.join(MANIFESTS), overwrite)?;
            output
        }
        None => manifests.parent().unwrap_or(Path::new("/")).to_owned(),
    };
    let source = match &args.output_dir {
        Some(_) => parent.join(MANIFESTS),
        None => manifests.clone(),
    };
    let metadata = parent.join(METADATA);
    write_annotations(&metadata, &labels, overwrite)?;
    let working = std::env::current_dir().context("cannot find this directory")?;
    let text = dockerfile(
        args,
        &labels,
        &relative(&working, &source),
        &relative(&working, &metadata),
    );
    if Path::new(DOCKERFILE).exists() && !overwrite {
        printer::note(&format!(
            "A {DOCKERFILE} already exists in current working directory"
        ));
        return Ok(());
    }
    fs::write(DOCKERFILE, text).with_context(|| format!("cannot write {DOCKERFILE}"))
}

/// Returns the annotations, which are also labels of the image, in the order they are written.
fn labels(
    args: &BundleGenerateArgs,
    media_type: MediaType,
    manifests: &Path,
    files: &BTreeMap<String, Vec<u8>>,
) -> anyhow::Result<Vec<(&'static str, String)>> {
    let (mut package, mut channels, mut default) =
        (args.package.clone(), args.channels.clone(), args.default.clone());
    if package.is_empty() || channels.is_empty() {
        let known = infer(manifests, files).with_context(|| {
            format!(
                "please manually input channels and packageName, error interpreting bundle from directory {}",
                manifests.display()
            )
        })?;
        if channels.is_empty() {
            channels = known.channels.join(",");
            if channels.is_empty() {
                bail!("error interpreting channels, please manually input channels instead");
            }
        }
        if package.is_empty() {
            package = known.package;
        }
        if default.is_empty() {
            default = known.default;
        }
    }
    let mut labels = vec![
        (annotations::MEDIATYPE, media_type.name().to_owned()),
        (annotations::MANIFESTS, format!("{MANIFESTS}/")),
        (annotations::METADATA, format!("{METADATA}/")),
        (annotations::PACKAGE, package),
        (annotations::CHANNELS, channels),
    ];
    if !default.is_empty() {
        labels.push((annotations::DEFAULT_CHANNEL, default));
    }
    Ok(labels)
}

/// Data of a package directory about one of its bundles.
struct Known {
    package: String,
    channels: Vec<String>,
    default: String,
}

/// Infers the data from the package file beside the bundle. In this older format channels name their newest CSV, and each CSV
/// names the one it replaces.
fn infer(manifests: &Path, files: &BTreeMap<String, Vec<u8>>) -> anyhow::Result<Known> {
    let own = csv_of(files).context("error loading CSV from bundle directory")?;
    let name = |csv: &Value| csv["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let parent = manifests.parent().context("the bundle directory has no parent")?;
    let package = read_directory(parent)?
        .unwrap_or_default()
        .files
        .values()
        .filter_map(|bytes| Some(yaml::parse_first(bytes).ok()?.0))
        .find(|document| document["packageName"].is_string())
        .with_context(|| format!("no package file in {}", parent.display()))?;
    let mut replaces = BTreeMap::new();
    for path in entries(parent)? {
        if let Some(csv) = read_directory(&path)?.and_then(|entries| csv_of(&entries.files)) {
            let before = csv["spec"]["replaces"].as_str().unwrap_or_default().to_owned();
            replaces.insert(name(&csv), before);
        }
    }
    let mut channels = Vec::new();
    for channel in package["channels"].as_array().into_iter().flatten() {
        let mut current = channel["currentCSV"].as_str().unwrap_or_default().to_owned();
        // A cycle would be longer than the number of bundles.
        for _ in 0..=replaces.len() {
            if current == name(&own) {
                channels.push(channel["name"].as_str().unwrap_or_default().to_owned());
                break;
            }
            current = replaces.get(&current).cloned().unwrap_or_default();
        }
    }
    channels.sort_unstable();
    let text = |key: &str| package[key].as_str().unwrap_or_default().to_owned();
    let default = match (text("defaultChannel"), package["channels"].as_array()) {
        (default, Some(only)) if default.is_empty() && only.len() == 1 => {
            only[0]["name"].as_str().unwrap_or_default().to_owned()
        }
        (default, _) => default,
    };
    Ok(Known {
        package: text("packageName"),
        channels,
        default,
    })
}

fn csv_of(files: &BTreeMap<String, Vec<u8>>) -> Option<Value> {
    files
        .values()
        .filter_map(|bytes| Some(yaml::parse_first(bytes).ok()?.0))
        .find(|object| object["kind"] == olm_fbc::manifest::CSV_KIND)
}

fn copy(from: &Path, to: &Path, overwrite: bool) -> anyhow::Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot create {}", to.display()))?;
    for path in entries(from)? {
        let target = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy(&path, &target, overwrite)?;
        } else if overwrite || !target.exists() {
            fs::copy(&path, &target).with_context(|| format!("cannot write {}", target.display()))?;
        }
    }
    Ok(())
}

fn write_annotations(metadata: &Path, labels: &[(&str, String)], overwrite: bool) -> anyhow::Result<()> {
    let map: serde_json::Map<String, Value> = labels
        .iter()
        .map(|(key, value)| ((*key).to_owned(), json!(value)))
        .collect();
    let path = metadata.join(ANNOTATIONS_FILE);
    if path.exists() && !overwrite {
        return compare(&path, &map);
    }
    fs::create_dir_all(metadata).with_context(|| format!("cannot create {}", metadata.display()))?;
    let text = yaml::to_string(&json!({ "annotations": map }))?;
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Checks that existing annotations equal those that would be written.
fn compare(path: &Path, expected: &serde_json::Map<String, Value>) -> anyhow::Result<()> {
    let found = yaml::parse(&read(path)?).with_context(|| path.display().to_string())?;
    let problems: Vec<String> = expected
        .iter()
        .filter_map(|(key, value)| match &found["annotations"][key] {
            Value::Null => Some(format!("Missing field: {key}")),
            other if other != value => Some(format!(
                "Expect field {key:?} to have value {value} instead of {other}"
            )),
            _ => None,
        })
        .collect();
    if problems.is_empty() {
        return Ok(());
    }
    bail!("{}: [{}]", path.display(), problems.join(", "))
}

fn dockerfile(
    args: &BundleGenerateArgs,
    labels: &[(&str, String)],
    manifests: &str,
    metadata: &str,
) -> String {
    let mut text = format!("FROM {}\n\n", args.base_image);
    for (key, value) in labels {
        text += &format!("LABEL {key}={value}\n");
    }
    // Byte for byte as upstream writes it: the default channel adds a blank line.
    if labels.iter().any(|(key, _)| *key == annotations::DEFAULT_CHANNEL) {
        text.push('\n');
    }
    text + &format!("COPY {manifests} /manifests/\nCOPY {metadata} /metadata/\n")
}

/// Returns `to` relative to `from`, both absolute.
fn relative(from: &Path, to: &Path) -> String {
    let (from, to): (Vec<Component<'_>>, Vec<Component<'_>>) =
        (from.components().collect(), to.components().collect());
    let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    let mut path = PathBuf::new();
    path.extend(std::iter::repeat_n("..", from.len() - common));
    path.extend(&to[common..]);
    if path.as_os_str().is_empty() {
        path.push(".");
    }
    path.display().to_string()
}

/// Generates the files, then runs a container engine to build the image.
pub(crate) fn build(args: &BundleBuildArgs) -> anyhow::Result<()> {
    let arguments: &[&str] = match args.image_builder.as_str() {
        "docker" | "podman" => &["build", "-f", DOCKERFILE, "-t", &args.tag, "."],
        "buildah" => &["bud", "--format=docker", "-f", DOCKERFILE, "-t", &args.tag, "."],
        other => bail!("{other} is not supported image builder"),
    };
    generate(&args.generate, args.overwrite)?;
    let status = Command::new(&args.image_builder)
        .args(arguments)
        .status()
        .with_context(|| {
            format!(
                "cannot run {} (without a container engine: opm alpha image bundle)",
                args.image_builder
            )
        })?;
    if !status.success() {
        bail!("{} {} failed: {status}", args.image_builder, arguments.join(" "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_shown_relative_to_a_folder() {
        for (from, to, expected) in [
            ("/a/b", "/a/b/c", "c"),
            ("/a/b", "/a/c/d", "../c/d"),
            ("/a", "/a", "."),
            ("/", "/x", "x"),
        ] {
            assert_eq!(relative(Path::new(from), Path::new(to)), expected);
        }
    }
}
