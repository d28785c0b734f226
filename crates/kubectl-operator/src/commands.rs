//! Runs the command of each subcommand. Each has a file of its own.

mod approve;
mod catalog;
pub(crate) mod completion;
mod describe;
mod doctor;
mod explain;
mod graph;
mod hold;
mod install;
mod list;
mod list_available;
mod list_operands;
mod olmv1;
mod plan;
mod rights;
mod rollback;
mod rollout;
#[cfg(test)]
mod same_cause_tests;
mod status;
mod support_bundle;
mod ui;
mod uninstall;
mod upgrade;
mod version;

use std::time::Duration;

use anyhow::{Context as _, anyhow};
use tokio::runtime::Builder;

use crate::Verdict;
use crate::args::{Args, Command};

/// Runs a command with a time limit. It is for commands that only read.
async fn within(
    limit: Option<Duration>,
    command: impl Future<Output = anyhow::Result<Verdict>>,
) -> anyhow::Result<Verdict> {
    let Some(limit) = limit else {
        return command.await;
    };
    let answer = tokio::time::timeout(limit, command).await;
    answer.unwrap_or_else(|_| {
        Err(anyhow!(
            "timed out after {} s; see --timeout",
            limit.as_secs_f64()
        ))
    })
}

/// Runs the command.
///
/// # Errors
/// The command cannot give a result.
pub(crate) fn run(args: Args) -> anyhow::Result<Verdict> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let limit = args.timeout.filter(|timeout| !timeout.is_zero());
    match args.command {
        Command::Version { output } => version::run(output),
        Command::Completion { shell } => completion::run(shell),
        Command::Approve(args) => runtime.block_on(approve::run(&args)),
        Command::Catalog(command) => runtime.block_on(catalog::run(&command)),
        Command::Describe(args) => runtime.block_on(within(limit, describe::run(&args))),
        Command::Doctor(args) => runtime.block_on(doctor::run(&args)),
        Command::Explain(args) => runtime.block_on(within(limit, explain::run(&args))),
        Command::Graph(args) => runtime.block_on(within(limit, graph::run(&args))),
        Command::Hold(args) => runtime.block_on(hold::hold(&args)),
        Command::Install(args) => runtime.block_on(install::run(&args)),
        Command::List(args) => runtime.block_on(within(limit, list::run(&args))),
        Command::ListAvailable(args) => runtime.block_on(within(limit, list_available::run(&args))),
        Command::ListOperands(args) => runtime.block_on(within(limit, list_operands::run(&args))),
        Command::Olmv1(command) => runtime.block_on(olmv1::run(&command, limit)),
        Command::Plan(args) => runtime.block_on(within(limit, plan::run(&args))),
        Command::Rights(args) => runtime.block_on(within(limit, rights::run(&args))),
        Command::Rollback(args) => runtime.block_on(rollback::run(&args)),
        Command::Status(args) => runtime.block_on(status::run(&args)),
        Command::SupportBundle(args) => runtime.block_on(support_bundle::run(&args)),
        Command::Ui(args) => ui::run(runtime, &args),
        Command::Uninstall(args) => runtime.block_on(uninstall::run(&args)),
        Command::Unhold(args) => runtime.block_on(hold::unhold(&args)),
        Command::Upgrade(args) => runtime.block_on(upgrade::run(&args)),
    }
}
