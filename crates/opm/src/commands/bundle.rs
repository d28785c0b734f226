//! `opm alpha bundle`: from bundle directories to images, and back.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, bail};
use olm_authoring::bundle::BundleContent;
use olm_authoring::bundle::check::{MediaType, Optional, check_content, check_format};
use olm_fbc::did_you_mean::suggestion;
use olm_oci::ImageContent;

use crate::args::{BundleCommand, BundleUnpackArgs, BundleValidateArgs};
use crate::manifest_validator::EngineValidator;
use crate::printer;
use crate::settings::Settings;
use crate::source::{MANIFESTS, METADATA, Source, bundle_folders, entries, read};

mod extract;
mod generate;

/// Environment variable with the path of a file of categories that replace those of the hub's check.
const CATEGORIES_VARIABLE: &str = "OPERATOR_BUNDLE_CATEGORIES";

/// Optional checks.
const OPERATOR_HUB: &str = "operatorhub";
const BUNDLE_OBJECTS: &str = "bundle-objects";
const VALIDATORS: [&str; 2] = [OPERATOR_HUB, BUNDLE_OBJECTS];

/// Content of a directory; `None` if the directory does not exist.
type Directory = Option<Entries>;

/// Files and folders of a directory, by name.
#[derive(Default)]
struct Entries {
    files: BTreeMap<String, Vec<u8>>,
    folders: BTreeSet<String>,
}

pub(crate) async fn run(command: &BundleCommand, settings: &Settings) -> anyhow::Result<()> {
    match command {
        BundleCommand::Generate(args) => generate::generate(args, true),
        BundleCommand::Build(args) => generate::build(args),
        BundleCommand::Validate(args) => validate(args, settings).await,
        BundleCommand::Extract(args) => extract::run(args).await,
        BundleCommand::Unpack(args) => unpack(args, settings).await,
    }
}

async fn validate(args: &BundleValidateArgs, settings: &Settings) -> anyhow::Result<()> {
    for name in args.optional_validators.iter().map(|name| name.trim()) {
        if !name.is_empty() && !VALIDATORS.contains(&name) {
            let meant = suggestion(name, VALIDATORS);
            bail!(
                "unknown validator {name:?}, known are {}{meant}",
                VALIDATORS.join(", ")
            );
        }
    }
    let path = Path::new(&args.tag);
    let [manifests, metadata] = if path.is_dir() {
        [
            read_directory(&path.join(MANIFESTS))?,
            read_directory(&path.join(METADATA))?,
        ]
    } else {
        directories(&pull(&args.tag, settings).await?)
    };
    let wants = |name: &str| args.optional_validators.iter().any(|given| given.trim() == name);
    let optional = Optional {
        operator_hub: wants(OPERATOR_HUB),
        bundle_objects: wants(BUNDLE_OBJECTS),
        categories: custom_categories()?,
    };
    check(&manifests, &metadata, &optional)?;
    printer::note("All validation tests have been completed successfully");
    Ok(())
}

/// Checks the format, and the content only if the format is valid. Warns of valid parts that readers of the bundle ignore.
fn check(manifests: &Directory, metadata: &Directory, optional: &Optional) -> anyhow::Result<()> {
    let manifest_files = manifests.as_ref().map(|found| &found.files);
    let metadata_files = metadata.as_ref().map(|found| &found.files);
    let mut problems = check_format(manifest_files, metadata_files, &EngineValidator);
    if let (true, Some(Entries { files, folders })) = (problems.is_empty(), manifests) {
        if MediaType::of(files) != MediaType::Helm {
            let folders = folders.iter();
            problems.extend(
                folders.map(|folder| format!("Unable to read file {MANIFESTS}/{folder} in supported types")),
            );
        }
        problems.extend(check_content(files, optional, &EngineValidator));
    }
    if !problems.is_empty() {
        bail!("Bundle validation errors: {}", problems.join(","));
    }
    let folders = [(MANIFESTS, manifest_files), (METADATA, metadata_files)];
    let files = folders.into_iter().flat_map(|(folder, files)| {
        let files = files.into_iter().flatten();
        files.map(move |(name, bytes)| (format!("{folder}/{name}"), bytes))
    });
    // Charts and bundles without a ClusterServiceVersion have other readers.
    if let Ok(bundle) = BundleContent::read(files) {
        bundle.warnings.iter().for_each(|text| printer::warning(text));
    }
    Ok(())
}

/// Returns the categories that replace the hub's, if the environment names a file with them.
fn custom_categories() -> anyhow::Result<Option<Vec<String>>> {
    let Some(path) = std::env::var_os(CATEGORIES_VARIABLE).filter(|path| !path.is_empty()) else {
        return Ok(None);
    };
    let path = Path::new(&path);
    let document: serde_json::Value =
        serde_json::from_slice(&read(path)?).with_context(|| format!("{} is not JSON", path.display()))?;
    let categories = document["categories"].as_array().into_iter().flatten();
    Ok(Some(
        categories
            .filter_map(|category| category.as_str().map(str::to_owned))
            .collect(),
    ))
}

async fn pull(image: &str, settings: &Settings) -> anyhow::Result<ImageContent> {
    let source = Source::parse(image)?;
    let Source::Image(reference) = source else {
        bail!("{image:?} is not an image");
    };
    let mut opened = settings
        .puller()
        .open(&reference, &settings.credentials(&reference)?)
        .await
        .with_context(|| format!("failed to pull image {image:?}"))?;
    let folders = bundle_folders(opened.labels());
    Ok(opened.content(&folders).await?)
}

/// Returns the directories that the labels name, else those at the default paths.
fn directories(content: &ImageContent) -> [Directory; 2] {
    bundle_folders(&content.labels).map(|folder| {
        let mut entries = Entries::default();
        for (name, bytes) in content.below(&folder) {
            match name.split_once('/') {
                Some((folder, _)) => drop(entries.folders.insert(folder.to_owned())),
                None => drop(entries.files.insert(name.to_owned(), bytes.to_vec())),
            }
        }
        (!entries.files.is_empty() || !entries.folders.is_empty()).then_some(entries)
    })
}

fn read_directory(path: &Path) -> anyhow::Result<Directory> {
    if !path.is_dir() {
        return Ok(None);
    }
    let mut found = Entries::default();
    for path in entries(path)? {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if path.is_dir() {
            found.folders.insert(name);
        } else {
            found.files.insert(name, read(&path)?);
        }
    }
    Ok(Some(found))
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
        let [manifests, metadata] = directories(&content);
        check(&manifests, &metadata, &Optional::default())?;
    }
    content
        .write_below("/", out)
        .context("failed to copy unpacked content to output directory")
}
