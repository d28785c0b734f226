//! Conditional requests (RFC 9110, section 13). No I/O.

use http::header::{HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_UNMODIFIED_SINCE};
use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use jiff::fmt::rfc2822;

use crate::store::Content;

/// Validators by which a client may know a content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Validators<'a> {
    /// Entity tag, without quotes.
    pub(super) tag: &'a str,
    /// Time of the last change, in whole seconds.
    pub(super) modified: Timestamp,
}

impl<'a> Validators<'a> {
    /// Returns those of a content.
    pub(super) fn of(content: &'a Content) -> Self {
        Self {
            tag: &content.about.sha256,
            modified: content.about.stored,
        }
    }
}

/// Compares the preconditions of a GET or HEAD with the content. Returns the code of the answer if the client has the content already, or
/// wants another one. Dates that cannot be read are ignored.
pub(super) fn check(headers: &HeaderMap, content: Validators<'_>) -> Option<StatusCode> {
    let date = |header| text(headers, header).and_then(|text| parse_date(&text));
    if let Some(tags) = text(headers, IF_MATCH) {
        if !names(&tags, content.tag, Comparison::Strong) {
            return Some(StatusCode::PRECONDITION_FAILED);
        }
    } else if date(IF_UNMODIFIED_SINCE).is_some_and(|since| content.modified > since) {
        return Some(StatusCode::PRECONDITION_FAILED);
    }
    let is_known = match text(headers, IF_NONE_MATCH) {
        Some(tags) => names(&tags, content.tag, Comparison::Weak),
        None => date(IF_MODIFIED_SINCE).is_some_and(|since| content.modified <= since),
    };
    is_known.then_some(StatusCode::NOT_MODIFIED)
}

/// True if `tag`, as in an `If-Range`, is exactly this content.
pub(super) fn is_same(condition: &str, content: Validators<'_>) -> bool {
    match parse_date(condition) {
        Some(date) => date == content.modified,
        None => names(condition, content.tag, Comparison::Strong),
    }
}

/// Returns a time as in a header.
pub(super) fn date(time: Timestamp) -> String {
    let printer = rfc2822::DateTimePrinter::new();
    printer.timestamp_to_rfc9110_string(&time).unwrap_or_default()
}

/// Reads a date in the form that clients send.
fn parse_date(text: &str) -> Option<Timestamp> {
    rfc2822::DateTimeParser::new().parse_timestamp(text).ok()
}

/// How entity tags are compared: a weak one may only stand for the same meaning.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Strong,
    Weak,
}

/// True if a list of entity tags has `tag`, or is `*`. What follows a malformed tag is ignored.
fn names(list: &str, tag: &str, comparison: Comparison) -> bool {
    let mut rest = list;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        if rest.starts_with('*') {
            return true;
        }
        let (is_weak, quoted) = match rest.strip_prefix("W/") {
            Some(quoted) => (true, quoted),
            None => (false, rest),
        };
        let Some((found, after)) = quoted.strip_prefix('"').and_then(|text| text.split_once('"')) else {
            return false;
        };
        if found == tag && (comparison == Comparison::Weak || !is_weak) {
            return true;
        }
        rest = after;
    }
}

/// Returns the value of a header; repeated lists are one list. `None` without it, or if it is empty.
fn text(headers: &HeaderMap, header: HeaderName) -> Option<String> {
    let values = headers.get_all(header);
    let values: Vec<&str> = values.iter().filter_map(|value| value.to_str().ok()).collect();
    Some(values.join(",")).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const MODIFIED: &str = "Fri, 20 Nov 2026 21:57:19 GMT";
    const BEFORE: &str = "Fri, 20 Nov 2026 21:57:18 GMT";
    const AFTER: &str = "Fri, 20 Nov 2026 21:57:20 GMT";

    fn content() -> Validators<'static> {
        Validators {
            tag: "abc",
            modified: "2026-11-20T21:57:19Z".parse().unwrap(),
        }
    }

    #[test]
    fn dates_are_written_and_read_as_in_http() {
        let time = content().modified;
        assert_eq!(date(time), MODIFIED);
        assert_eq!(parse_date(MODIFIED), Some(time));
        for text in ["", "yesterday", "20 Nov", "\"abc\""] {
            assert_eq!(parse_date(text), None, "{text}");
        }
    }

    #[test]
    fn preconditions_are_checked_in_the_order_of_the_standard() {
        const MET: Option<StatusCode> = None;
        const NOT_MODIFIED: Option<StatusCode> = Some(StatusCode::NOT_MODIFIED);
        const FAILED: Option<StatusCode> = Some(StatusCode::PRECONDITION_FAILED);
        let rows = [
            (vec![], MET),
            (vec![(IF_MODIFIED_SINCE, MODIFIED)], NOT_MODIFIED),
            (vec![(IF_MODIFIED_SINCE, AFTER)], NOT_MODIFIED),
            (vec![(IF_MODIFIED_SINCE, BEFORE)], MET),
            (vec![(IF_MODIFIED_SINCE, "yesterday")], MET),
            (vec![(IF_NONE_MATCH, "\"abc\"")], NOT_MODIFIED),
            (vec![(IF_NONE_MATCH, "W/\"abc\"")], NOT_MODIFIED),
            (vec![(IF_NONE_MATCH, "\"x\", \"abc\"")], NOT_MODIFIED),
            (vec![(IF_NONE_MATCH, "*")], NOT_MODIFIED),
            (vec![(IF_NONE_MATCH, "\"x\"")], MET),
            (vec![(IF_NONE_MATCH, "abc")], MET),
            // A tag takes precedence over a date.
            (vec![(IF_NONE_MATCH, "\"x\""), (IF_MODIFIED_SINCE, AFTER)], MET),
            (vec![(IF_MATCH, "\"abc\"")], MET),
            (vec![(IF_MATCH, "*")], MET),
            (vec![(IF_MATCH, "W/\"abc\"")], FAILED),
            (vec![(IF_MATCH, "\"x\"")], FAILED),
            (vec![(IF_UNMODIFIED_SINCE, BEFORE)], FAILED),
            (vec![(IF_UNMODIFIED_SINCE, MODIFIED)], MET),
            (vec![(IF_MATCH, "\"abc\""), (IF_UNMODIFIED_SINCE, BEFORE)], MET),
            (
                vec![(IF_MATCH, "\"abc\""), (IF_NONE_MATCH, "\"abc\"")],
                NOT_MODIFIED,
            ),
        ];
        for (given, expected) in rows {
            let headers: HeaderMap = given
                .iter()
                .map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap()))
                .collect();
            assert_eq!(check(&headers, content()), expected, "{given:?}");
        }
    }

    #[test]
    fn a_range_is_combined_only_with_the_same_content() {
        for (condition, expected) in [
            ("\"abc\"", true),
            ("W/\"abc\"", false),
            ("\"x\"", false),
            (MODIFIED, true),
            (AFTER, false),
            ("", false),
        ] {
            assert_eq!(is_same(condition, content()), expected, "{condition}");
        }
    }
}
