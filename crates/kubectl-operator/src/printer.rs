//! What goes where: data to stdout, talk to stderr.

use std::io::{self, Write as _};

use anyhow::Context as _;
use serde::Serialize;

use crate::args::shared::Format;

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

/// Writes a value as the document that was asked for. There is no wide one: that is a table.
///
/// # Errors
/// When stdout cannot be written to.
pub(crate) fn document<T: Serialize>(value: &T, format: Format) -> anyhow::Result<()> {
    match format {
        Format::Yaml => data(&olm_fbc::yaml::to_string(value)?),
        Format::Json | Format::Wide => data(&format!("{}\n", serde_json::to_string_pretty(value)?)),
    }
}

/// Tells how it goes on, on stderr.
pub(crate) fn progress(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Tells something the user should know, on stderr.
pub(crate) fn warning(text: &str) {
    let _ = writeln!(io::stderr(), "warning: {text}");
}

/// Tells why the command failed, with the causes in one line.
pub(crate) fn error(error: &anyhow::Error) {
    let _ = writeln!(io::stderr(), "Error: {error:#}");
}
