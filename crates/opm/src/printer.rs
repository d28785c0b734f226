//! What goes where: data to stdout, talk to stderr.

use std::io::{self, Write as _};

use anyhow::Context as _;
use go_compat::error_chain;
use olm_fbc::printable::escape;
use signal_hook::consts::SIGPIPE;
use signal_hook::low_level::emulate_default_handler;

/// Exit code that shells give a process which SIGPIPE ended.
const READER_GONE: i32 = 128 + SIGPIPE;

/// Writes text to stdout; see [`stream`].
///
/// # Errors
/// When stdout cannot be written to.
pub(crate) fn data(text: &str) -> anyhow::Result<()> {
    stream(|out| out.write_all(text.as_bytes()))
}

/// Writes to stdout. A reader that hangs up (`| head`) ends the process as it ends other tools, see [`reader_gone`].
///
/// # Errors
/// When stdout cannot be written to.
pub(crate) fn stream(write: impl FnOnce(&mut dyn io::Write) -> io::Result<()>) -> anyhow::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    match write(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => reader_gone(),
        result => result.context("cannot write to stdout"),
    }
}

/// Ends the process as Go's runtime ends one whose stdout nobody reads any more: quietly, by SIGPIPE. A shell shows that as
/// exit code 141, so that `pipefail` sees that the output is not whole.
pub(crate) fn reader_gone() -> ! {
    let _ = emulate_default_handler(SIGPIPE);
    std::process::exit(READER_GONE)
}

/// Tells what was done, on stderr.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Tells something the user should know, on stderr.
pub(crate) fn warning(text: &str) {
    let _ = writeln!(io::stderr(), "warning: {}", escape(text));
}

/// An error with its causes in one line, each said once, as on stderr and in the termination log.
pub(crate) fn error_text(error: &anyhow::Error) -> String {
    error_chain(error.as_ref())
}

/// Tells why the command failed.
pub(crate) fn error(error: &anyhow::Error) {
    let _ = writeln!(io::stderr(), "Error: {}", escape(&error_text(error)));
}
