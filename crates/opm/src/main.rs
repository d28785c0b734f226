//! Operator package manager: serve, render, validate and make catalogs.
//!
//! Data goes to stdout, everything else to stderr. Exit code 0 is success, 1 is failure, of the command line too. Called as
//! `grpc_health_probe` (the name catalog images must have) this is that program, with its exit codes.

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

/// Name under which the program is the health probe.
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
            // As upstream has it, a command that has commands of its own and is given none shows its help.
            if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
                let _ = printer::data(&error.render().to_string());
                return ExitCode::SUCCESS;
            }
            if error.use_stderr() {
                printer::note(args::usage_error(&error).trim_end());
                return ExitCode::FAILURE;
            }
            // Help and version are no errors for clap's printing, but for its type.
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
