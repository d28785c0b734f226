//! Output: data to stdout, messages to stderr.

use std::io::{self, Write as _};

use anyhow::Context as _;
use go_compat::error_chain;
use olm_fbc::printable::escape;
use signal_hook::consts::SIGPIPE;
use signal_hook::low_level::emulate_default_handler;

/// Exit code that shells use for a process killed by SIGPIPE.
const READER_GONE: i32 = 128 + SIGPIPE;

/// Writes text to stdout; see [`stream`].
///
/// # Errors
/// If stdout cannot be written.
pub(crate) fn data(text: &str) -> anyhow::Result<()> {
    stream(|out| out.write_all(text.as_bytes()))
}

/// Writes to stdout. A closed pipe (`| head`) ends the process as it ends other tools, see [`reader_gone`].
///
/// # Errors
/// If stdout cannot be written.
pub(crate) fn stream(write: impl FnOnce(&mut dyn io::Write) -> io::Result<()>) -> anyhow::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    match write(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => reader_gone(),
        result => result.context("cannot write to stdout"),
    }
}

/// Ends the process as Go's runtime does when the reader of stdout closes the pipe: silently, by SIGPIPE. Shells show this as
/// exit code 141, so `pipefail` detects the incomplete output.
pub(crate) fn reader_gone() -> ! {
    let _ = emulate_default_handler(SIGPIPE);
    std::process::exit(READER_GONE)
}

/// Prints a note about a completed action to stderr.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Prints a warning to stderr.
pub(crate) fn warning(text: &str) {
    let _ = writeln!(io::stderr(), "warning: {}", escape(text));
}

/// Prints the error of the command to stderr: its causes in one line, each once.
pub(crate) fn error(error: &anyhow::Error) {
    let _ = writeln!(io::stderr(), "Error: {}", escape(&error_chain(error.as_ref())));
}
