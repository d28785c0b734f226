//! `opm alpha bundle`: bundle directories to images, and back.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};
use olm_fbc::bundle::annotations;
use olm_fbc::bundle::check::{check_content, check_format};
use olm_oci::ImageContent;

use crate::args::{BundleCommand, BundleUnpackArgs, BundleValidateArgs};
use crate::printer;
use crate::settings::Settings;
use crate::source::{MANIFESTS, METADATA, Source};

mod extract;
mod generate;

/// Files of a directory by name; `None` for a directory that is not there.
type Directory = Option<BTreeMap<String, Vec<u8>>>;

pub async fn run(command: &BundleCommand, settings: &Settings) -> anyhow::Result<()> {
    match command {
        BundleCommand::Generate(args) => generate::generate(args, true),
        BundleCommand::Build(args) => generate::build(args),
        BundleCommand::Validate(args) => validate(args, settings).await,
        BundleCommand::Extract(args) => extract::run(args).await,
        BundleCommand::Unpack(args) => unpack(args, settings).await,
    }
}

async fn validate(args: &BundleValidateArgs, settings: &Settings) -> anyhow::Result<()> {
    let path = Path::new(&args.tag);
    let (manifests, metadata) = if path.is_dir() {
        (
            read_directory(&path.join(MANIFESTS))?,
            read_directory(&path.join(METADATA))?,
        )
    } else {
        directories(&pull(&args.tag, settings).await?)
    };
    check(&manifests, &metadata)?;
    if args.optional_validators.iter().any(|name| name == "operatorhub") {
        check_for_hub(&manifests)?;
    }
    printer::note("All validation tests have been completed successfully");
    Ok(())
}

/// Content is looked at only when the format is right.
fn check(manifests: &Directory, metadata: &Directory) -> anyhow::Result<()> {
    let mut problems = check_format(manifests.as_ref(), metadata.as_ref());
    if problems.is_empty() {
        problems = manifests.as_ref().map(check_content).unwrap_or_default();
    }
    refuse(&problems)
}

fn refuse(problems: &[String]) -> anyhow::Result<()> {
    if problems.is_empty() {
        return Ok(());
    }
    bail!("Bundle validation errors: {}", problems.join(","))
}

/// What the public hub asks for beyond a working CSV.
fn check_for_hub(manifests: &Directory) -> anyhow::Result<()> {
    let mut problems = Vec::new();
    for (name, bytes) in manifests.iter().flatten() {
        let (object, _) = olm_fbc::yaml::parse_first(bytes).with_context(|| name.clone())?;
        if object["kind"] != olm_fbc::bundle::CSV_KIND {
            continue;
        }
        let spec = &object["spec"];
        for field in ["displayName", "description"] {
            if spec[field].as_str().unwrap_or_default().is_empty() {
                problems.push(format!("csv.Spec.{field} not set"));
            }
        }
        if spec["provider"]["name"].as_str().unwrap_or_default().is_empty() {
            problems.push("csv.Spec.Provider.Name not set".to_owned());
        }
        for (list, fields) in [("maintainers", ["name", "email"]), ("links", ["name", "url"])] {
            let items = spec[list].as_array().map_or(&[][..], Vec::as_slice);
            if list == "maintainers" && items.is_empty() {
                problems.push("csv.Spec.maintainers not set".to_owned());
            }
            for item in items {
                for field in fields {
                    if item[field].as_str().unwrap_or_default().is_empty() {
                        problems.push(format!(
                            "csv.Spec.{list} elements should contain both {} and {}",
                            fields[0], fields[1]
                        ));
                    }
                }
            }
        }
        if spec["icon"].as_array().is_none_or(Vec::is_empty) {
            problems.push("csv.Spec.Icon not specified".to_owned());
        }
    }
    refuse(&problems)
}

async fn pull(image: &str, settings: &Settings) -> anyhow::Result<ImageContent> {
    let source = Source::parse(image)?;
    let Source::Image(reference) = source else {
        bail!("{image:?} is not an image");
    };
    let mut opened = settings
        .puller()
        .open(&reference, &settings.credentials()?)
        .await
        .with_context(|| format!("failed to pull image {image:?}"))?;
    let labels = opened.labels().clone();
    let folders = [
        (annotations::MANIFESTS, MANIFESTS),
        (annotations::METADATA, METADATA),
    ]
    .map(|(label, default)| labels.get(label).map_or(default, String::as_str).to_owned());
    Ok(ImageContent {
        digest: opened.digest().clone(),
        files: opened.files(&folders).await?,
        labels,
    })
}

/// The directories its labels name, at the places bundles have them.
fn directories(content: &ImageContent) -> (Directory, Directory) {
    let directory = |label: &str, default: &str| -> Directory {
        let folder = content.labels.get(label).map_or(default, String::as_str);
        let files: BTreeMap<String, Vec<u8>> = content
            .below(folder)
            .filter(|(name, _)| !name.contains('/'))
            .map(|(name, bytes)| (name.to_owned(), bytes.to_vec()))
            .collect();
        (!files.is_empty()).then_some(files)
    };
    (
        directory(annotations::MANIFESTS, MANIFESTS),
        directory(annotations::METADATA, METADATA),
    )
}

fn read_directory(path: &Path) -> anyhow::Result<Directory> {
    if !path.is_dir() {
        return Ok(None);
    }
    let read = || format!("cannot read {}", path.display());
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(path).with_context(read)? {
        let entry = entry.with_context(read)?;
        if entry.path().is_file() {
            let bytes =
                fs::read(entry.path()).with_context(|| format!("cannot read {}", entry.path().display()))?;
            files.insert(entry.file_name().to_string_lossy().into_owned(), bytes);
        }
    }
    Ok(Some(files))
}

async fn unpack(args: &BundleUnpackArgs, settings: &Settings) -> anyhow::Result<()> {
    let out = &args.out;
    if out.exists() && !out.is_dir() {
        bail!("out {} is not a directory", out.display());
    }
    let settings = match &args.root_ca {
        Some(path) => settings.with_root_ca(path)?,
        None => settings.clone(),
    };
    let content = pull(&args.image, &settings).await?;
    if args.skip_validation {
        printer::note("skipping bundle validation");
    } else {
        let (manifests, metadata) = directories(&content);
        check(&manifests, &metadata)?;
    }
    content
        .write_below("/", out)
        .context("failed to copy unpacked content to output directory")
}
