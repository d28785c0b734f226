//! Developer commands of this workspace, as a library.
//!
//! The binary (`cargo xtask …`) only parses arguments and calls [`run`]. The library exists for the end-to-end tests, which start
//! and inspect clusters with the same code as the command line: see [`cluster::Cluster`].

#![warn(unreachable_pub)]

pub mod args;
pub mod bench;
mod binaries;
pub mod catalog;
pub mod chart;
mod check;
pub mod cluster;
pub mod demo;
pub mod deploy;
mod files;
mod r#gen;
pub mod images;
mod interrupt;
pub mod kubectl;
pub mod manifest;
mod messages;
pub mod oci_layout;
mod process;
pub mod progress;
mod release;
mod results;
mod rights;
mod target;
pub mod test;
mod watch;
pub mod workspace;

/// Runs one command. Progress goes to stderr, data to stdout. Returns false if the command is a check or a test and did not pass.
///
/// # Errors
/// The errors of the command, with their causes in the chain.
pub fn run(arguments: args::Arguments) -> anyhow::Result<bool> {
    match arguments.command {
        args::Command::Cluster(options) => return cluster::command::run(options),
        args::Command::Test(options) => return test::run(&options),
        args::Command::Rights { name } => return rights::run(&name),
        args::Command::Check => return check::run(),
        args::Command::Demo(options) => target::demo(&options)?,
        args::Command::Images(options) => target::images(&options)?,
        args::Command::Deploy(options) => target::deploy(&options)?,
        args::Command::Bench(options) => bench::run(&options)?,
        args::Command::Gen { check } => r#gen::run(check)?,
        args::Command::Release(options) => release::run(&options)?,
    }
    Ok(true)
}
