//! `opm render`: writes blobs of catalogs and bundles as one stream.

use anyhow::Context as _;
use olm_authoring::migrate::Level;
use olm_fbc::property::Typed;
use olm_fbc::render::Spool;
use olm_fbc::schema::{Blob, Bundle, RelatedImage};

use super::imageless;
use crate::args::{Format, RenderArgs};
use crate::image_template::ImageTemplate;
use crate::printer;
use crate::settings::Settings;
use crate::source::{Source, normalise};

pub(crate) async fn run(args: &RenderArgs, settings: &Settings) -> anyhow::Result<()> {
    let template = args
        .alpha_image_ref_template
        .as_deref()
        .map(ImageTemplate::parse)
        .transpose()?;
    let level = match args.migrate {
        true => Level::ALL,
        false => migration_level(args.migrate_level.as_deref())?,
    };
    let mut spool = Spool::new(format_of(args.output)).context("cannot create a temporary file")?;
    let mut without_image = Vec::new();
    let mut take = |mut blob: Blob| -> anyhow::Result<()> {
        let blob = std::slice::from_mut(&mut blob);
        normalise(blob);
        if let ([Blob::Bundle(bundle)], Some(template)) = (&mut *blob, &template) {
            fill_image(bundle, template);
        }
        level.apply(blob);
        without_image.extend(imageless::name(&blob[0]));
        spool.add(&blob[0]).context("cannot write a temporary file")
    };
    for text in &args.sources {
        let rendering = || format!("render reference {text:?}");
        let source = Source::parse(text).with_context(rendering)?;
        source.read(settings, &mut take).await.with_context(rendering)?;
    }
    printer::stream(|out| spool.finish(out))?;
    imageless::warn(&without_image, IMAGE_FLAG);
    Ok(())
}

/// Flag of `render` and `alpha render-template` that names the images of bundles.
pub(crate) const IMAGE_FLAG: &str = "--alpha-image-ref-template";

/// Returns the level of `--migrate-level`.
///
/// # Errors
/// No level has this name.
pub(crate) fn migration_level(name: Option<&str>) -> anyhow::Result<Level> {
    Ok(match name {
        None | Some("") => Level::None,
        Some(name) => Level::parse(name)?,
    })
}

/// Sets the image of a bundle that has none. The image is also a related image, because mirrors need it like any other.
pub(crate) fn fill_image(bundle: &mut Bundle, template: &ImageTemplate) {
    if !bundle.image.is_empty() {
        return;
    }
    let version = bundle
        .properties
        .iter()
        .find_map(|property| match property.parse() {
            Ok(Typed::Package(package)) => Some(package.version),
            _ => None,
        });
    let image = template.fill(&bundle.package, &bundle.name, &version.unwrap_or_default());
    bundle.image.clone_from(&image);
    if !image.is_empty() && !bundle.related_images.iter().any(|related| related.image == image) {
        bundle.related_images.push(RelatedImage {
            image,
            ..RelatedImage::default()
        });
        bundle.related_images.sort_by(|a, b| a.image.cmp(&b.image));
    }
}

/// Writes blobs to stdout, grouped by package.
///
/// # Errors
/// If stdout cannot be written.
pub(crate) fn print(blobs: &mut [Blob], format: Format) -> anyhow::Result<()> {
    printer::stream(|out| olm_fbc::render::write(blobs, format_of(format), out))
}

/// Converts the format of a flag.
pub(crate) fn format_of(format: Format) -> olm_fbc::render::Format {
    match format {
        Format::Json => olm_fbc::render::Format::Json,
        Format::Yaml => olm_fbc::render::Format::Yaml,
    }
}
