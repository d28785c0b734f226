//! `kubectl operator`: operators of a cluster, shown, planned, installed, approved, upgraded and uninstalled.
//!
//! Data goes to stdout, everything else to stderr. Exit codes: 0 for an answer without failures, 2 for one that names what
//! cannot be resolved (or a target that cannot be reached, or what was not approved, not wanted or not ready in time), 1 if there is
//! no answer.

mod args;
mod catalogs;
mod cluster;
mod command_line;
mod commands;
mod confirm;
mod gather;
mod global;
mod groups;
mod operands;
mod operators;
mod packages;
mod preview;
mod printer;
mod proxy;
mod reader;
mod table;
mod terminal;
mod turns;
#[cfg(test)]
mod upstream_tests;
mod watch;
mod writer;

use std::process::ExitCode;

use clap::Parser as _;
use clap::error::ErrorKind;

use self::commands::completion;

/// What a command came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// Everything asked about can be resolved, is approved, ready or done.
    Fine,
    /// Something cannot, or is not.
    Unresolved,
}

impl Verdict {
    /// Fine where it is.
    fn when(is_fine: bool) -> Self {
        match is_fine {
            true => Self::Fine,
            false => Self::Unresolved,
        }
    }
}

const UNRESOLVED: u8 = 2;

fn main() -> ExitCode {
    if let Some(words) = completion::asked_for(std::env::args_os()) {
        return match printer::script(&completion::choices(&words)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        };
    }
    let args = match args::Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            // As upstream has it, a command that has commands of its own and is given none shows its help.
            if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
                let _ = printer::data(&error.render().to_string());
                return ExitCode::SUCCESS;
            }
            // Help and version are no errors for clap's printing, but for its type.
            let _ = error.print();
            return if error.use_stderr() {
                ExitCode::FAILURE
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    // Where a library fails on an answer, that is told as all else is.
    std::panic::set_hook(Box::new(|panic| printer::warning(&format!("a bug: {panic}"))));
    // Whichever crate wants TLS first must find a provider; a second one is no harm.
    let _ = rustls::crypto::ring::default_provider().install_default();
    match commands::run(args) {
        Ok(Verdict::Fine) => ExitCode::SUCCESS,
        Ok(Verdict::Unresolved) => ExitCode::from(UNRESOLVED),
        Err(error) => {
            printer::error(&error);
            ExitCode::FAILURE
        }
    }
}
