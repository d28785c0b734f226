//! `kubectl operator`: shows, plans, installs, approves, upgrades and uninstalls operators of a cluster.
//!
//! Data goes to stdout, everything else to stderr. Exit code 0 means an answer without problems; 1 means that there is no answer.
//! Exit code 2 means that something is unresolved, unreachable, not approved, declined, or not ready in time.

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

use std::os::unix::process::CommandExt as _;
use std::process::ExitCode;

use clap::Parser as _;
use clap::error::ErrorKind;

use self::commands::completion;

/// Result of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// Everything requested is resolved, approved, ready or done.
    Fine,
    /// Something is not.
    Unresolved,
}

impl Verdict {
    /// Returns [`Self::Fine`] if `is_fine`.
    fn when(is_fine: bool) -> Self {
        match is_fine {
            true => Self::Fine,
            false => Self::Unresolved,
        }
    }
}

const UNRESOLVED: u8 = 2;

/// An error with the exit code of [`Verdict::Unresolved`]: the answer is known, and something is not resolved, failed, or is not ready
/// in time.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Unsettled(String);

/// Restarts the program with these variables. Only returns if that fails.
fn again_with(variables: Vec<(&str, String)>) -> std::io::Error {
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return error,
    };
    let mut words = std::env::args_os();
    let mut command = std::process::Command::new(program);
    if let Some(name) = words.next() {
        command.arg0(name);
    }
    command.args(words).envs(variables).exec()
}

fn main() -> ExitCode {
    let variables = proxy::variables_to_mend();
    if !variables.is_empty() {
        let error = again_with(variables);
        printer::warning(&format!("cannot restart with corrected proxy variables: {error}"));
    }
    // Crates that use TLS need a default provider. A second installation fails without effect.
    let _ = rustls::crypto::ring::default_provider().install_default();
    if let Some(words) = completion::asked_for(std::env::args_os()) {
        return match printer::script(&completion::choices(&words)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        };
    }
    let words = args::words::behind_command(std::env::args_os());
    let args = match args::Args::try_parse_from(words) {
        Ok(args) => args,
        Err(error) => {
            // As in upstream's plugin, a command without its subcommand prints its help.
            if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
                let _ = printer::data(&error.render().to_string());
                return ExitCode::SUCCESS;
            }
            // clap returns help and version as errors, although they are printed as results.
            let _ = error.print();
            return if error.use_stderr() {
                ExitCode::FAILURE
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    // Panics in libraries are reported like other problems.
    std::panic::set_hook(Box::new(|panic| {
        printer::warning(&format!("this is a bug: {panic}"));
    }));
    match commands::run(args) {
        Ok(Verdict::Fine) => ExitCode::SUCCESS,
        Ok(Verdict::Unresolved) => ExitCode::from(UNRESOLVED),
        Err(error) => {
            printer::error(&error);
            match error.is::<Unsettled>() {
                true => ExitCode::from(UNRESOLVED),
                false => ExitCode::FAILURE,
            }
        }
    }
}
