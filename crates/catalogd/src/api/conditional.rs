//! Conditional requests (RFC 9110, section 13). No I/O.

use http::HeaderMap;
use http::header::{HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_UNMODIFIED_SINCE};
use jiff::Timestamp;
use jiff::fmt::{rfc2822, strtime};

/// What a client may know a content by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Validators<'a> {
    /// Entity tag, without quotes.
    pub(super) tag: &'a str,
    /// Time of the last change, in whole seconds.
    pub(super) modified: Timestamp,
}

/// Result of the preconditions of a GET or HEAD.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Precondition {
    /// The request is to be answered.
    Met,
    /// The client has the content already.
    NotModified,
    /// The client wants another content.
    Failed,
}

/// Compares the preconditions with the content. Dates that cannot be read are ignored.
pub(super) fn check(headers: &HeaderMap, content: Validators<'_>) -> Precondition {
    let date = |header| text(headers, header).and_then(|text| parse_date(&text));
    if let Some(tags) = text(headers, IF_MATCH) {
        if !names(&tags, content.tag, Comparison::Strong) {
            return Precondition::Failed;
        }
    } else if date(IF_UNMODIFIED_SINCE).is_some_and(|since| content.modified > since) {
        return Precondition::Failed;
    }
    let is_known = match text(headers, IF_NONE_MATCH) {
        Some(tags) => names(&tags, content.tag, Comparison::Weak),
        None => date(IF_MODIFIED_SINCE).is_some_and(|since| content.modified <= since),
    };
    if is_known {
        Precondition::NotModified
    } else {
        Precondition::Met
    }
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

/// Reads the three forms of dates that HTTP has had.
fn parse_date(text: &str) -> Option<Timestamp> {
    let parsed = rfc2822::DateTimeParser::new().parse_timestamp(text);
    if let Ok(time) = parsed {
        return Some(time);
    }
    ["%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"]
        .iter()
        .find_map(|form| {
            let time = strtime::parse(form, text).ok()?.to_datetime().ok()?;
            let time = time.to_zoned(jiff::tz::TimeZone::UTC).ok()?;
            Some(time.timestamp())
        })
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
        for text in [
            MODIFIED,
            "Friday, 20-Nov-26 21:57:19 GMT",
            "Fri Nov 20 21:57:19 2026",
        ] {
            assert_eq!(parse_date(text), Some(time), "{text}");
        }
        for text in ["", "yesterday", "20 Nov", "\"abc\""] {
            assert_eq!(parse_date(text), None, "{text}");
        }
    }

    #[test]
    fn preconditions_are_checked_in_the_order_of_the_standard() {
        use Precondition::{Failed, Met, NotModified};
        let rows: [(Vec<(HeaderName, &str)>, Precondition); 20] = [
            (vec![], Met),
            (vec![(IF_MODIFIED_SINCE, MODIFIED)], NotModified),
            (vec![(IF_MODIFIED_SINCE, AFTER)], NotModified),
            (vec![(IF_MODIFIED_SINCE, BEFORE)], Met),
            (vec![(IF_MODIFIED_SINCE, "yesterday")], Met),
            (vec![(IF_NONE_MATCH, "\"abc\"")], NotModified),
            (vec![(IF_NONE_MATCH, "W/\"abc\"")], NotModified),
            (vec![(IF_NONE_MATCH, "\"x\", \"abc\"")], NotModified),
            (vec![(IF_NONE_MATCH, "*")], NotModified),
            (vec![(IF_NONE_MATCH, "\"x\"")], Met),
            (vec![(IF_NONE_MATCH, "abc")], Met),
            // A tag takes precedence over a date.
            (vec![(IF_NONE_MATCH, "\"x\""), (IF_MODIFIED_SINCE, AFTER)], Met),
            (vec![(IF_MATCH, "\"abc\"")], Met),
            (vec![(IF_MATCH, "*")], Met),
            (vec![(IF_MATCH, "W/\"abc\"")], Failed),
            (vec![(IF_MATCH, "\"x\"")], Failed),
            (vec![(IF_UNMODIFIED_SINCE, BEFORE)], Failed),
            (vec![(IF_UNMODIFIED_SINCE, MODIFIED)], Met),
            (vec![(IF_MATCH, "\"abc\""), (IF_UNMODIFIED_SINCE, BEFORE)], Met),
            (
                vec![(IF_MATCH, "\"abc\""), (IF_NONE_MATCH, "\"abc\"")],
                NotModified,
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
