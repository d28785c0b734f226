//! The program: parses its flags and runs until it is stopped.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;
use olm_runtime::args::{without_log_flags, without_obsolete_flags};
use olm_runtime::process::{self, Start};

use crate::args::{Args, OBSOLETE};
use crate::run;

/// Runs the program with its arguments, of which the first is its name. It ends after a signal or an error.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let (given, of_log) = without_log_flags(arguments);
    let (given, obsolete) = without_obsolete_flags(given, &OBSOLETE);
    let args = Args::parse_from(given);
    let start = Start {
        program: env!("CARGO_PKG_NAME"),
        version: args.common.version,
        debug: args.common.debug,
        usage_error: args.usage_error(),
        without_effect: [of_log, obsolete, args.serving.without_effect()].concat(),
    };
    process::main(start, async || Box::pin(run::run(args)).await)
}
