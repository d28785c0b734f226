//! Controllers of CatalogSource, Subscription and InstallPlan, as a program; see the library.

use std::process::ExitCode;

use catalog_operator::{args::Args, run};
use clap::Parser;
use olm_runtime::process::{self, Start};

fn main() -> ExitCode {
    let args = Args::parse();
    let start = Start {
        version: args.version,
        debug: args.debug,
        complaint: args.complaint(),
        without_effect: args.without_effect(),
    };
    process::main(start, async || run::run(args).await)
}
