//! Logs, of which the last lines are kept.

use std::collections::VecDeque;

/// Maximum bytes kept of one log, from its end.
pub(super) const MAX_LOG: usize = 2 * 1024 * 1024;
/// Maximum bytes read of one log, in case a server never ends one.
pub(super) const MAX_READ: usize = 256 * 1024 * 1024;
/// Maximum bytes of all logs together; later logs are not read.
pub(super) const MAX_LOGS: usize = 48 * 1024 * 1024;
/// Maximum number of lines requested.
pub(super) const LINES: i64 = 50_000;

/// The last [`MAX_LOG`] bytes of a stream.
#[derive(Debug, Default)]
pub(super) struct Tail {
    kept: VecDeque<u8>,
    is_cut: bool,
}

impl Tail {
    /// Appends bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.kept.extend(bytes);
        let over = self.kept.len().saturating_sub(MAX_LOG);
        if over > 0 {
            self.is_cut = true;
            self.kept.drain(..over);
        }
    }

    /// Returns the complete lines.
    pub(super) fn text(self) -> String {
        let bytes: Vec<u8> = self.kept.into();
        let text = String::from_utf8_lossy(&bytes);
        match (self.is_cut, text.split_once('\n')) {
            (true, Some((_, whole))) => whole.to_owned(),
            (true, None) => String::new(),
            (false, _) => text.into_owned(),
        }
    }
}
