//! The program: parses its flags and runs until it gets a signal to stop.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;
use olm_runtime::args::without_log_flags;
use olm_runtime::process::{self, Start};

use crate::args::Args;
use crate::run;

/// Runs the program with its arguments, starting with its name. Returns after a signal to stop, or after an
/// error.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let (given, obsolete) = without_log_flags(arguments);
    let args = Args::parse_from(given);
    let start = Start {
        program: env!("CARGO_PKG_NAME"),
        version: args.operator.common.version,
        debug: args.operator.common.debug,
        usage_error: args.usage_error(),
        without_effect: [obsolete, args.without_effect()].concat(),
    };
    process::main(start, async || Box::pin(run::run(args)).await)
}
