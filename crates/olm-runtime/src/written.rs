//! What tests see of the log.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tracing::subscriber::{DefaultGuard, set_default};
use tracing_subscriber::fmt::MakeWriter;

/// What was written so far; a clone is another handle to the same.
#[derive(Clone, Default)]
pub(crate) struct Written(Arc<Mutex<Vec<u8>>>);

impl Written {
    /// Takes what this thread logs, from level info on, as lines of text without colours, for as long as the guard lives.
    pub(crate) fn of_this_thread() -> (Self, DefaultGuard) {
        let written = Self::default();
        let lines = tracing_subscriber::fmt()
            .with_writer(written.clone())
            .with_ansi(false)
            .finish();
        (written, set_default(lines))
    }

    /// All of it.
    pub(crate) fn text(&self) -> String {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// How often it has `words`.
    pub(crate) fn count(&self, words: &str) -> usize {
        self.text().matches(words).count()
    }
}

impl io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        written.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Written {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}
