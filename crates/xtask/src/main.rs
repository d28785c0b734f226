//! `cargo xtask`: parses the arguments, runs the command and turns errors into an exit code.

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    match xtask::run(xtask::args::Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            xtask::progress::print_error(&error);
            ExitCode::FAILURE
        }
    }
}
