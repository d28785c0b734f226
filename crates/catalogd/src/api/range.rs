//! Requests for a part of a content (RFC 9110, section 14). No I/O.

use std::ops::Range;

use http::HeaderMap;
use http::header::{IF_RANGE, RANGE};

use super::conditional::{Validators, is_same};

/// The requested part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Everything: no part was requested, or several, or one of another content.
    Whole,
    /// These bytes; never empty.
    Part(Range<u64>),
    /// There are no such bytes; with the text of the refusal.
    Unsatisfiable(&'static str),
}

/// Returns the requested part of a content of `size` bytes.
pub(super) fn wanted(headers: &HeaderMap, content: Validators<'_>, size: u64) -> Wanted {
    let Some(range) = headers.get(RANGE).and_then(|value| value.to_str().ok()) else {
        return Wanted::Whole;
    };
    let condition = headers
        .get(IF_RANGE)
        .map(|value| value.to_str().unwrap_or_default());
    if condition.is_some_and(|condition| !is_same(condition, content)) {
        return Wanted::Whole;
    }
    parse(range, size)
}

fn parse(range: &str, size: u64) -> Wanted {
    const INVALID: Wanted = Wanted::Unsatisfiable("invalid range");
    const BEYOND: Wanted = Wanted::Unsatisfiable("invalid range: failed to overlap");
    let Some(ranges) = range.strip_prefix("bytes=") else {
        return INVALID;
    };
    if ranges.contains(',') {
        // Answering with everything is always allowed, and nobody needs several parts of a catalog.
        return Wanted::Whole;
    }
    let Some((first, last)) = ranges.trim().split_once('-') else {
        return INVALID;
    };
    let number = |text: &str| -> Option<u64> {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        // A number beyond what can be counted is beyond the end.
        is_number.then(|| text.parse().unwrap_or(u64::MAX))
    };
    let part = match (first.trim(), last.trim()) {
        ("", last) => match number(last) {
            Some(count) => size.saturating_sub(count)..size,
            None => return INVALID,
        },
        (first, "") => match number(first) {
            Some(first) => first..size,
            None => return INVALID,
        },
        (first, last) => match (number(first), number(last)) {
            (Some(first), Some(last)) if first <= last => first..last.saturating_add(1).min(size),
            _ => return INVALID,
        },
    };
    if part.start < part.end {
        Wanted::Part(part)
    } else {
        BEYOND
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn content() -> Validators<'static> {
        Validators {
            tag: "abc",
            modified: "2026-11-20T21:57:19Z".parse().unwrap(),
        }
    }

    #[test]
    fn parts_are_counted_from_either_end() {
        let none = Wanted::Unsatisfiable("invalid range: failed to overlap");
        let invalid = Wanted::Unsatisfiable("invalid range");
        for (text, expected) in [
            ("bytes=0-0", Wanted::Part(0..1)),
            ("bytes=2-4", Wanted::Part(2..5)),
            ("bytes=2-", Wanted::Part(2..10)),
            ("bytes=8-99", Wanted::Part(8..10)),
            ("bytes=-3", Wanted::Part(7..10)),
            ("bytes=-99", Wanted::Part(0..10)),
            ("bytes=0-99999999999999999999999", Wanted::Part(0..10)),
            ("bytes=0-1,3-4", Wanted::Whole),
            ("bytes=10-", none.clone()),
            ("bytes=-0", none.clone()),
            ("bytes=99999999999999999999999-", none),
            ("bytes=4-2", invalid.clone()),
            ("bytes=", invalid.clone()),
            ("bytes=-", invalid.clone()),
            ("bytes=+1-2", invalid.clone()),
            ("bytes=a-b", invalid.clone()),
            ("lines=1-2", invalid),
        ] {
            assert_eq!(parse(text, 10), expected, "{text}");
        }
    }

    #[test]
    fn a_part_of_another_content_is_everything() {
        for (condition, expected) in [
            (None, Wanted::Part(1..10)),
            (Some("\"abc\""), Wanted::Part(1..10)),
            (Some("\"x\""), Wanted::Whole),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(RANGE, HeaderValue::from_static("bytes=1-"));
            if let Some(condition) = condition {
                headers.insert(IF_RANGE, HeaderValue::from_static(condition));
            }
            assert_eq!(wanted(&headers, content(), 10), expected, "{condition:?}");
        }
        assert_eq!(wanted(&HeaderMap::new(), content(), 10), Wanted::Whole);
    }

    proptest! {
        #[test]
        fn a_part_lies_within_the_content(text in "bytes=[0-9]{0,3}-[0-9]{0,3}", size in 0_u64..200) {
            if let Wanted::Part(part) = parse(&text, size) {
                prop_assert!(part.start < part.end && part.end <= size);
            }
        }
    }
}
