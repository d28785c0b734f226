//! Captures the log for tests.

use std::io;
use std::sync::Arc;

use tracing::subscriber::{DefaultGuard, set_default};
use tracing_subscriber::fmt::MakeWriter;

use crate::sync::Mutex;

/// Log output so far. Clones share the same output.
#[derive(Clone, Default)]
pub(crate) struct Written(Arc<Mutex<Vec<u8>>>);

impl Written {
    /// Captures what this thread logs at level info and above, as uncoloured text lines, while the guard lives.
    pub(crate) fn of_this_thread() -> (Self, DefaultGuard) {
        let written = Self::default();
        let lines = tracing_subscriber::fmt()
            .with_writer(written.clone())
            .with_ansi(false)
            .finish();
        (written, set_default(lines))
    }

    /// Returns the whole output.
    pub(crate) fn text(&self) -> String {
        let bytes = self.0.lock();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Number of occurrences of `words`.
    pub(crate) fn count(&self, words: &str) -> usize {
        self.text().matches(words).count()
    }
}

impl io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut written = self.0.lock();
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
