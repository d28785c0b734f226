//! Developer commands of this workspace, as a library.
//!
//! The binary (`cargo xtask …`) only parses arguments and calls [`run`]. The library face exists for the end-to-end
//! tests, which start and question clusters through the same code as the command line does: see [`cluster::Cluster`].

use std::process::ExitCode;

pub mod args;
pub mod cluster;
pub mod interrupt;
pub mod oci_layout;
pub mod progress;
pub mod workspace;

/// Runs one command. Progress goes to stderr, data to stdout.
///
/// # Errors
/// Those of the command, with their causes in the chain.
pub fn run(arguments: args::Arguments) -> anyhow::Result<ExitCode> {
    match arguments.command {
        args::Command::Cluster(command) => cluster::command::run(command),
    }
}
