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

/// The commit this was built from, when the build says so.
const COMMIT: Option<&str> = option_env!("OLM_GIT_COMMIT");

fn main() -> ExitCode {
    let args = args::Args::parse();
    if args.version {
        let version = env!("CARGO_PKG_VERSION");
        print!(
            "{}",
            olm_runtime::args::version_text(version, COMMIT.unwrap_or("unknown"))
        );
        return ExitCode::SUCCESS;
    }
    if let Some(complaint) = args.complaint() {
        eprintln!("error: {complaint}");
        return ExitCode::from(2);
    }
    if let Some(complaint) = olm_runtime::telemetry::start(args.debug) {
        tracing::warn!("{complaint}");
    }
    for flag in args.without_effect() {
        tracing::warn!(flag, "this flag has no effect in this build");
    }
    // One thread: the work is waiting for the API server, and each further thread costs its own memory.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let outcome = runtime
        .map_err(anyhow::Error::from)
        .and_then(|runtime| runtime.block_on(run::run(args)));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}
