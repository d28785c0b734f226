//! What holds a ClusterServiceVersion up without being a matter of its phase: reads that fail, writes that are refused.
//!
//! It stands behind the message of the phase, which stays what it is: once reads and writes go through again the next round takes it
//! off. No phase's own message has these words in it.

/// Between what the phase says and what holds it up.
const BETWEEN: &str = "; ";
/// What begins the rest.
const MARK: &str = "held up: ";
/// Of what is told besides, the mark of the cut aside.
const MAX_BYTES: usize = 1024;

/// A message of a phase as it may be: without the words by which the rest is told from it.
pub(crate) fn own(message: String) -> String {
    if message.contains(MARK) {
        message.replace(MARK, "held up ")
    } else {
        message
    }
}

/// What the phase says.
pub(crate) fn without(message: &str) -> &str {
    message
        .split_once(MARK)
        .map_or(message, |(own, _)| own.strip_suffix(BETWEEN).unwrap_or(own))
}

/// What holds it up, if that is told.
pub(crate) fn cause(message: &str) -> Option<&str> {
    message.split_once(MARK).map(|(_, cause)| cause)
}

/// What the phase says, and what holds it up.
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
    fn what_is_told_besides_comes_off_again() {
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
