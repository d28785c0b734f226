//! Controllers of ClusterServiceVersion and OperatorGroup.
//!
//! The binary is a shell around pure decisions: `run` wires stores to queues, and each controller observes, decides,
//! lets the runtime act, and writes its status. See `csv` for the one that matters most.

// Rows of test tables are literals, handed over as they stand.
#![cfg_attr(test, allow(clippy::needless_pass_by_value))]

mod args;
mod csv;
mod namespace;
mod operator_condition;
mod operator_group;
mod owner;
mod run;
mod stores;
#[cfg(test)]
mod world;

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
