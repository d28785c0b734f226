//! Operator package manager: serve, render, validate and create catalogs.
//!
//! Data is written to stdout, everything else to stderr. Exit code 0 is success, 1 is failure, also of the command line. If
//! called as `grpc_health_probe` (a name that catalog images need), the program is that probe, with its exit codes.

use std::io::ErrorKind;
use std::path::Path;
use std::process::ExitCode;

mod args;
mod cluster;
mod commands;
mod image_template;
mod manifest_validator;
mod nearest;
mod printer;
mod probe;
mod settings;
mod source;
mod sqlite;

/// Name under which the program runs as the health probe.
const PROBE: &str = "grpc_health_probe";

fn main() -> ExitCode {
    let mut arguments = std::env::args_os();
    let called_as = arguments.next().unwrap_or_default();
    if Path::new(&called_as)
        .file_name()
        .is_some_and(|name| name == PROBE)
    {
        let arguments = arguments.map(|argument| argument.to_string_lossy().into_owned());
        return probe::run(&arguments.collect::<Vec<_>>());
    }
    let args = match args::parse(std::env::args_os()) {
        Ok(args) => args,
        Err(error) => {
            // A command that has subcommands and gets none prints its help, as upstream does.
            if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
                let _ = printer::data(&error.render().to_string());
                return ExitCode::SUCCESS;
            }
            if error.use_stderr() {
                printer::note(args::usage_error(&error).trim_end());
                return ExitCode::FAILURE;
            }
            // Help and version are errors by clap's type only; they are printed as output.
            if let Err(error) = error.print()
                && error.kind() == ErrorKind::BrokenPipe
            {
                printer::reader_gone();
            }
            return ExitCode::SUCCESS;
        }
    };
    match commands::run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            printer::error(&error);
            ExitCode::FAILURE
        }
    }
}
