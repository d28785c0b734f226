//! One command per file; this module dispatches to them.

use tokio::runtime::{Builder, Runtime};

use anyhow::Context as _;

use crate::args::{AlphaCommand, Args, Command};
use crate::settings::Settings;

mod bundle;
mod completion;
mod generate;
mod graph;
mod image;
mod imageless;
mod init;
mod lint;
mod list;
mod migrate;
pub(crate) mod plan;
mod render;
mod render_graph;
mod serve;
mod serve_configmap;
mod template;
mod validate;
mod version;

/// Runs the command.
///
/// # Errors
/// The error of the command; the process then exits with 1.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    // Conflicting registry flags are an error only for commands that contact registries.
    let settings = || Settings::new(&args.global);
    match args.command {
        Command::Generate(command) => generate::run(&command),
        Command::Graph(args) => runtime()?.block_on(graph::run(&args, &settings()?)),
        Command::Init(args) => init::run(&args),
        Command::Lint(args) => lint::run(&args),
        Command::Migrate(args) => runtime()?.block_on(migrate::run(&args, &settings()?)),
        Command::Plan(args) => plan::run(&args),
        Command::Render(args) => runtime()?.block_on(render::run(&args, &settings()?)),
        Command::Validate(args) => validate::run(&args),
        Command::Serve(serve_args) => serve::run(&serve_args, args.global.debug),
        Command::ServeConfigMap(serve_args) => serve_configmap::run(&serve_args, args.global.debug),
        Command::Completion { shell, .. } => completion::run(shell),
        Command::Version => version::run(),
        Command::Alpha(command) => match command {
            AlphaCommand::ConvertTemplate(command) => template::convert(&command),
            AlphaCommand::Bundle(command) => runtime()?.block_on(bundle::run(&command, &settings()?)),
            AlphaCommand::Image(command) => runtime()?.block_on(image::run(command, &settings()?)),
            AlphaCommand::List(command) => runtime()?.block_on(list::run(&command, &settings()?)),
            AlphaCommand::RenderGraph(args) => runtime()?.block_on(render_graph::run(&args, &settings()?)),
            AlphaCommand::RenderTemplate(args) => runtime()?.block_on(template::render(&args, &settings()?)),
        },
    }
}

/// Returns a single-threaded runtime: these programs wait for the network or a disk, and processes should be small.
fn runtime() -> anyhow::Result<Runtime> {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")
}
