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
    // One thread: the work is waiting for servers, and each further thread costs its own memory. What computes for long
    // (resolution, indexing a catalog) goes to the pool for blocking work.
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
