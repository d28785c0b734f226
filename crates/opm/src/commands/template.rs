//! `opm alpha render-template` and `opm alpha convert-template`: catalogs from templates, and back.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read as _};
use std::path::Path;

use anyhow::{Context as _, bail};
use olm_authoring::mermaid::{self, Options};
use olm_authoring::migrate::Level;
use olm_authoring::template::{COMPOSITE, Kind, Rendered, Template, from_catalog};
use olm_fbc::did_you_mean::did_you_mean;
use olm_fbc::schema::Blob;
use olm_fbc::yaml;

use super::imageless;
use super::render::{IMAGE_FLAG, fill_image, migration_level, print};
use crate::args::{ConvertTemplateCommand, Format, RenderTemplateArgs, TemplateFormat};
use crate::image_template::ImageTemplate;
use crate::nearest;
use crate::printer;
use crate::settings::Settings;
use crate::source::{Source, normalise};

pub(crate) async fn render(args: &RenderTemplateArgs, settings: &Settings) -> anyhow::Result<()> {
    let (kind, file) = kind_and_file(args)?;
    let level = migration_level(args.migrate_level.as_deref())?;
    let images = args
        .alpha_image_ref_template
        .as_deref()
        .map(ImageTemplate::parse)
        .transpose()?;
    let input =
        read_input(file).map_err(
            |error| match (kind, did_you_mean(file, Kind::ALL.map(Kind::name))) {
                // The first argument was not a template type, so it may be a misspelt one.
                (None, Some(meant)) => anyhow::anyhow!("{error}: did you mean the type {meant:?}?"),
                _ => error,
            },
        )?;
    let template = Template::parse(&input, kind).context("rendering template")?;
    for warning in &template.warnings {
        printer::warning(warning);
    }
    let mut rendered = Rendered::new();
    for image in template.images() {
        let blobs = load_bundle(&image, settings)
            .await
            .with_context(|| format!("rendering template: render reference {image:?}"))?;
        let bundles = blobs.into_iter().filter_map(|blob| match blob {
            Blob::Bundle(mut bundle) => {
                if let Some(images) = &images {
                    fill_image(&mut bundle, images);
                }
                Some(bundle)
            }
            _ => None,
        });
        rendered.insert(image, bundles.collect());
    }
    let mut blobs = template.render(&rendered).context("rendering template")?;
    migrate_rendered(&mut blobs, &rendered, level);
    // Upstream draws templates this way, unlike the default of its `render-graph`.
    let options = Options {
        v0_semantics: true,
        ..Options::default()
    };
    match args.output {
        TemplateFormat::Json => print(&mut blobs, Format::Json)?,
        TemplateFormat::Yaml => print(&mut blobs, Format::Yaml)?,
        TemplateFormat::Mermaid => return printer::data(&mermaid::draw(&blobs, &options)?.text),
    }
    let without_image: Vec<String> = blobs.iter().filter_map(imageless::name).collect();
    imageless::warn(&without_image, IMAGE_FLAG);
    Ok(())
}

/// Migrates the bundles that were rendered for the template; the template's own bundles are not changed. This is the last step,
/// because templates read the manifests.
fn migrate_rendered(blobs: &mut [Blob], rendered: &Rendered, level: Level) {
    let made: BTreeSet<(&str, &str)> = rendered
        .values()
        .flatten()
        .map(|bundle| (bundle.package.as_str(), bundle.name.as_str()))
        .collect();
    for blob in blobs {
        let is_made = matches!(&*blob, Blob::Bundle(bundle)
            if made.contains(&(bundle.package.as_str(), bundle.name.as_str())));
        if is_made {
            level.apply(std::slice::from_mut(blob));
        }
    }
}

/// Returns type and file. A single argument may be either: the name of a type is a type.
fn kind_and_file(args: &RenderTemplateArgs) -> anyhow::Result<(Option<Kind>, &str)> {
    if args.catalog_config.is_some() || args.composite_config.is_some() {
        return Ok((Some(Kind::parse(COMPOSITE)?), "-"));
    }
    match (&args.kind, &args.file) {
        (Some(kind), Some(file)) => Ok((Some(Kind::parse(kind)?), file)),
        (Some(either), None) => match Kind::parse(either) {
            Ok(kind) => Ok((Some(kind), "-")),
            Err(error) if either == COMPOSITE && !Path::new(either).exists() => Err(error.into()),
            Err(_) => Ok((None, either)),
        },
        (None, _) => Ok((None, "-")),
    }
}

/// Loads a bundle. Templates name bundle images; bundle directories are accepted for users without a registry.
async fn load_bundle(text: &str, settings: &Settings) -> anyhow::Result<Vec<Blob>> {
    let source = Source::parse(text)?;
    if let Source::CatalogDirectory(_) = source {
        bail!("cannot render declarative config directory: not allowed");
    }
    let mut blobs = source.load(settings).await?;
    if !blobs.iter().all(|blob| matches!(blob, Blob::Bundle(_))) {
        bail!("cannot render declarative config image: not allowed");
    }
    normalise(&mut blobs);
    Ok(blobs)
}

pub(crate) fn convert(command: &ConvertTemplateCommand) -> anyhow::Result<()> {
    let (kind, args) = match command {
        ConvertTemplateCommand::Basic(args) => (Kind::Basic, args),
        ConvertTemplateCommand::Substitutes(args) => (Kind::Substitutes, args),
    };
    let input = read_input(args.file.as_deref().unwrap_or("-"))?;
    let mut blobs = Vec::new();
    for (index, document) in yaml::parse_all(&input)
        .context("converting")?
        .into_iter()
        .enumerate()
    {
        let blob = Blob::from_value(document);
        blobs.push(blob.with_context(|| format!("converting: document {}", index + 1))?);
    }
    let document = from_catalog(&blobs, kind)?;
    match args.output {
        Format::Json => {
            let mut text = Vec::new();
            olm_fbc::render::write_json(&document, &mut text)?;
            // Unlike catalogs, templates escape these characters; they occur only in texts.
            let text = String::from_utf8_lossy(&text)
                .replace('<', "\\u003c")
                .replace('>', "\\u003e")
                .replace('&', "\\u0026");
            printer::data(&text)
        }
        Format::Yaml => printer::data(&format!("---\n{}\n", yaml::to_string(&document)?)),
    }
}

fn read_input(file: &str) -> anyhow::Result<Vec<u8>> {
    if file == "-" {
        let mut input = Vec::new();
        std::io::stdin()
            .read_to_end(&mut input)
            .context("cannot read standard input")?;
        return Ok(input);
    }
    std::fs::read(file).map_err(|error| {
        let meant = match error.kind() {
            ErrorKind::NotFound => nearest::path(Path::new(file)),
            _ => String::new(),
        };
        anyhow::anyhow!("unable to open {file:?}: {error}{meant}")
    })
}
