//! Logs, of which the end counts.

use std::collections::VecDeque;

/// Bytes of one log that are kept, the last.
pub(super) const MAX_LOG: usize = 2 * 1024 * 1024;
/// Bytes of one log that are read at most: a server that sends more has no end.
pub(super) const MAX_READ: usize = 256 * 1024 * 1024;
/// Bytes of all logs together, after which no other is read.
pub(super) const MAX_LOGS: usize = 48 * 1024 * 1024;
/// Lines that are asked for.
pub(super) const LINES: i64 = 50_000;

/// The end of something of whatever length.
#[derive(Debug, Default)]
pub(super) struct Tail {
    kept: VecDeque<u8>,
    is_cut: bool,
}

impl Tail {
    /// More of it.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.kept.extend(bytes);
        let over = self.kept.len().saturating_sub(MAX_LOG);
        if over > 0 {
            self.is_cut = true;
            self.kept.drain(..over);
        }
    }

    /// Returns the whole lines of it.
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
