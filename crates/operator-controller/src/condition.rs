//! What the conditions of both controllers have in common.

/// Longest message of a condition, in bytes.
const LONGEST_MESSAGE: usize = 32_768;
/// End of a message that was cut.
const CUT: &str = "\n\n... [message truncated]";

/// Cuts a message to the size of a condition.
pub(crate) fn shortened(message: &str) -> String {
    if message.len() <= LONGEST_MESSAGE {
        return message.to_owned();
    }
    let end = message.floor_char_boundary(LONGEST_MESSAGE.saturating_sub(CUT.len()));
    format!("{}{CUT}", message.get(..end).unwrap_or_default())
}
