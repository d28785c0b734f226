//! What goes where: data to stdout, talk to stderr.

use std::io::{self, Write as _};

use anyhow::Context as _;

/// Writes text to stdout. A reader that hangs up (`| head`) ends the output quietly.
///
/// # Errors
/// When stdout cannot be written to.
pub(crate) fn data(text: &str) -> anyhow::Result<()> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write to stdout"),
    }
}

/// Tells something the user should know, on stderr.
pub(crate) fn warning(text: &str) {
    let _ = writeln!(io::stderr(), "warning: {text}");
}

/// Tells why the command failed, with the causes in one line.
pub(crate) fn error(error: &anyhow::Error) {
    let _ = writeln!(io::stderr(), "Error: {error:#}");
}
