//! Text in a status message about problems that do not depend on the phase: failed reads and refused writes.
//!
//! The text follows the message of the phase, which does not change. The next reconcile with successful reads
//! and writes removes it. No message of a phase contains the marker.

/// Separator between the message of the phase and the text.
const BETWEEN: &str = "; ";
/// Marker at the start of the text.
const MARK: &str = "held up: ";
/// Limit of the text in bytes, without the truncation mark.
const MAX_BYTES: usize = 1024;

/// Returns the message of a phase without the marker, so that the two parts can be separated.
pub(crate) fn own(message: String) -> String {
    if message.contains(MARK) {
        message.replace(MARK, "held up ")
    } else {
        message
    }
}

/// Returns the message of the phase.
pub(crate) fn without(message: &str) -> &str {
    message
        .split_once(MARK)
        .map_or(message, |(own, _)| own.strip_suffix(BETWEEN).unwrap_or(own))
}

/// Returns the text after the marker, if there is one.
pub(crate) fn cause(message: &str) -> Option<&str> {
    message.split_once(MARK).map(|(_, cause)| cause)
}

/// Returns the message of the phase, followed by the cause.
pub(crate) fn with(message: &str, cause: &str) -> String {
    let own = without(message);
    let between = if own.is_empty() { "" } else { BETWEEN };
    let end = cause.floor_char_boundary(MAX_BYTES.min(cause.len()));
    let (kept, cut) = cause.split_at(end);
    let mark_of_cut = if cut.is_empty() { "" } else { "…" };
    format!("{own}{between}{MARK}{kept}{mark_of_cut}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_added_cause_can_be_removed_again() {
        for own in ["", "install strategy completed with no errors", "a; b"] {
            let told = with(own, "patch x: no");
            assert_eq!((without(&told), cause(&told)), (own, Some("patch x: no")));
            assert_eq!(with(&told, "patch x: no"), told, "once");
            assert_eq!((without(own), cause(own)), (own, None));
        }
        assert_eq!(with("a", "b"), "a; held up: b");
        assert_eq!(with("", "b"), "held up: b");
    }

    #[test]
    fn a_long_cause_is_cut_and_a_message_cannot_look_like_one() {
        let told = with("a", &"ü".repeat(1000));
        assert!(told.ends_with('…') && told.len() < 1100, "{}", told.len());
        assert_eq!(cause(&own("condition says held up: x".to_owned())), None);
    }
}
