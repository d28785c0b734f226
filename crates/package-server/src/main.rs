//! Aggregated API of PackageManifests, as a program; see the library.

use std::process::ExitCode;

use clap::Parser;
use olm_runtime::args::{without_log_flags, without_obsolete_flags};
use olm_runtime::process::{self, Start};
use package_server::args::{Args, OBSOLETE};
use package_server::run;
use tikv_jemallocator::Jemalloc;

/// Gives memory back that is free, which the system's allocator does only at the end of its heap: decision record 0024.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    let (given, of_log) = without_log_flags(std::env::args_os());
    let (given, obsolete) = without_obsolete_flags(given, &OBSOLETE);
    let args = Args::parse_from(given);
    let start = Start {
        program: env!("CARGO_PKG_NAME"),
        version: args.version,
        debug: args.debug,
        usage_error: args.usage_error(),
        without_effect: [of_log, obsolete, args.without_effect()].concat(),
    };
    process::main(start, async || run::run(args).await)
}
