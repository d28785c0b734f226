//! Controllers of ClusterServiceVersion and OperatorGroup, as a program; see the library.

use std::process::ExitCode;

use clap::Parser;
use olm_operator::{args::Args, run};
use olm_runtime::{
    args,
    process::{self, Start},
};
use tikv_jemallocator::Jemalloc;

/// Gives memory back that is free, which the system's allocator does only at the end of its heap: decision record 0024.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    let (given, obsolete) = args::without_log_flags(std::env::args_os());
    let args = Args::parse_from(given);
    let start = Start {
        program: env!("CARGO_PKG_NAME"),
        version: args.version,
        debug: args.debug,
        usage_error: args.usage_error(),
        without_effect: [obsolete, args.without_effect()].concat(),
    };
    process::main(start, async || Box::pin(run::run(args)).await)
}
