//! One command a file; this is where they are told apart.

mod approve;
mod catalog;
pub(crate) mod completion;
mod describe;
mod doctor;
mod explain;
mod graph;
mod install;
mod list;
mod list_available;
mod plan;
mod status;
mod support_bundle;
mod ui;
mod uninstall;
mod upgrade;

use anyhow::Context as _;
use tokio::runtime::Builder;

use crate::Verdict;
use crate::args::{Args, Command};

/// Runs the command.
///
/// # Errors
/// Whatever keeps it from an answer.
pub(crate) fn run(args: Args) -> anyhow::Result<Verdict> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    match args.command {
        Command::Completion { shell } => completion::run(shell),
        Command::Approve(args) => runtime.block_on(approve::run(&args)),
        Command::Catalog(command) => runtime.block_on(catalog::run(&command)),
        Command::Describe(args) => runtime.block_on(describe::run(&args)),
        Command::Doctor(args) => runtime.block_on(doctor::run(&args)),
        Command::Explain(args) => runtime.block_on(explain::run(&args)),
        Command::Graph(args) => runtime.block_on(graph::run(&args)),
        Command::Install(args) => runtime.block_on(install::run(&args)),
        Command::List(args) => runtime.block_on(list::run(&args)),
        Command::ListAvailable(args) => runtime.block_on(list_available::run(&args)),
        Command::Plan(args) => runtime.block_on(plan::run(&args)),
        Command::Status(args) => runtime.block_on(status::run(&args)),
        Command::SupportBundle(args) => runtime.block_on(support_bundle::run(&args)),
        Command::Ui(args) => ui::run(runtime, &args),
        Command::Uninstall(args) => runtime.block_on(uninstall::run(&args)),
        Command::Upgrade(args) => runtime.block_on(upgrade::run(&args)),
    }
}
