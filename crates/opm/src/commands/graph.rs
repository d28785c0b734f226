//! `opm graph`: draws a package's upgrades.

use anyhow::bail;
use olm_authoring::graph::{PackageGraph, to_dot, to_svg};
use olm_fbc::did_you_mean::suggestion;
use olm_fbc::validate::check;

use crate::args::{GraphArgs, GraphFormat};
use crate::printer;
use crate::settings::Settings;
use crate::source::load_catalog_reference;

pub(crate) async fn run(args: &GraphArgs, settings: &Settings) -> anyhow::Result<()> {
    let blobs = load_catalog_reference(&args.catalog, settings).await?;
    let model = check(&blobs, &args.catalog)?;
    let Some(package) = model.packages.get(&args.package) else {
        let meant = suggestion(&args.package, model.packages.keys().map(String::as_str));
        bail!("package {:?} not found{meant}", args.package);
    };
    let graph = PackageGraph::of_model(&args.package, package, args.channel.as_deref());
    if let (Some(channel), true) = (&args.channel, graph.channels.is_empty()) {
        let meant = suggestion(channel, package.channels.keys().map(String::as_str));
        bail!("package {:?}, channel {channel:?} not found{meant}", args.package);
    }
    printer::data(&match args.output {
        GraphFormat::Svg => to_svg(&graph),
        GraphFormat::Dot => to_dot(&graph),
    })
}
