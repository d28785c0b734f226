//! Prints untrusted names on one line, so that none begins a line of its own.

use std::fmt::{self, Display, Write as _};

/// Prints blanks for characters that would end the line or move the cursor.
pub(crate) struct OneLine<T>(pub(crate) T);

impl<T: Display> Display for OneLine<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.to_string();
        text.chars()
            .try_for_each(|letter| f.write_char(if letter.is_control() { ' ' } else { letter }))
    }
}
