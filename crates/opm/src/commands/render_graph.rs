//! `opm alpha render-graph`: upgrade graphs as mermaid text.

use olm_authoring::mermaid::{self, Options};

use crate::args::RenderGraphArgs;
use crate::printer;
use crate::settings::Settings;
use crate::source::load_catalog_reference;

pub(crate) async fn run(args: &RenderGraphArgs, settings: &Settings) -> anyhow::Result<()> {
    let mut blobs = Vec::new();
    for catalog in &args.catalogs {
        blobs.extend(load_catalog_reference(catalog, settings).await?);
    }
    let drawing = mermaid::draw(
        &blobs,
        &Options {
            package: args.package_name.clone(),
            minimum_edge: args.minimum_edge.clone(),
            v0_semantics: args.draw_v0_semantics,
        },
    )?;
    for warning in &drawing.warnings {
        printer::warning(warning);
    }
    printer::data(&drawing.text)
}
