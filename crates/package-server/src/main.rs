//! Aggregated API of PackageManifests, as a program; see the library.

use std::process::ExitCode;

use clap::Parser;
use olm_runtime::process::{self, Start};
use package_server::{args::Args, run};
use tikv_jemallocator::Jemalloc;

/// Gives memory back that is free, which the system's allocator does only at the end of its heap: decision record 0024.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    let args = Args::parse();
    let start = Start {
        version: args.version,
        debug: args.debug,
        usage_error: args.usage_error(),
        without_effect: args.without_effect(),
    };
    process::main(start, async || run::run(args).await)
}
