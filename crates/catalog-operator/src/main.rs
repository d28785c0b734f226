//! catalog-operator: CatalogSources, Subscriptions, resolution, InstallPlans and bundle unpacking.
//!
//! The binary is a shell around pure decisions: `run` wires stores to queues, and each controller observes, decides,
//! lets the runtime act, and writes its status.

mod args;
mod bundle_unpack;
mod catalog_source;
mod install_plan;
mod registry_reader;
mod resolution;
mod run;
mod snapshots;
mod stores;
mod subscription;

use std::process::ExitCode;

use clap::Parser;
use olm_runtime::process::{self, Start};

fn main() -> ExitCode {
    let args = args::Args::parse();
    let start = Start {
        version: args.version,
        debug: args.debug,
        complaint: args.complaint(),
        without_effect: args.without_effect(),
    };
    process::main(start, async || run::run(args).await)
}
