//! A second, naive reader of versions and ranges, for comparison with the real one.
//!
//! It reads only the plain grammar, `>=1.0.0 <2.0.0 || 3.x`, with single blanks, and returns `None` for all other texts.

use std::cmp::Ordering;

/// An operator and its version, as text.
type Comparison = (&'static str, String);

/// Returns alternatives of comparisons, with wildcards expanded; `None` for other texts than the plain grammar.
pub fn read(text: &str) -> Option<Vec<Vec<Comparison>>> {
    let alternatives = text.split(" || ").map(|alternative| {
        let comparisons = alternative
            .split(' ')
            .map(comparison)
            .collect::<Option<Vec<_>>>()?;
        Some(comparisons.concat())
    });
    alternatives.collect()
}

fn comparison(text: &str) -> Option<Vec<Comparison>> {
    let operators = ["==", "!=", ">=", "<=", "=", "!", ">", "<"];
    let operator = operators
        .into_iter()
        .find(|operator| text.starts_with(operator))
        .unwrap_or("");
    let version = &text[operator.len()..];
    let parts: Vec<&str> = version.split('.').collect();
    let (low, high) = match parts.as_slice() {
        [major, "x"] => (format!("{major}.0.0"), format!("{}.0.0", next(major)?)),
        [major, minor, "x"] => (
            format!("{major}.{minor}.0"),
            format!("{major}.{}.0", next(minor)?),
        ),
        _ => {
            // An `x` elsewhere makes the version a wildcard, in a way this reader does not support.
            if !is_plain(version) || version.contains('x') {
                return None;
            }
            let operator = match operator {
                "" | "==" => "=",
                "!" => "!=",
                other => other,
            };
            return Some(vec![(operator, version.to_owned())]);
        }
    };
    if !is_plain(&low) || !is_plain(&high) {
        return None;
    }
    Some(match operator {
        "" | "=" | "==" => vec![(">=", low), ("<", high)],
        ">" => vec![(">=", high)],
        ">=" => vec![(">=", low)],
        "<" => vec![("<", low)],
        "<=" => vec![("<", high)],
        // Both conditions are required, so the range is empty.
        _ => vec![("<", low), (">=", high)],
    })
}

/// Returns the next number, if it fits the range's arithmetic.
fn next(number: &str) -> Option<i64> {
    number.parse::<i64>().ok()?.checked_add(1)
}

fn is_plain(version: &str) -> bool {
    let (version, build) = version
        .split_once('+')
        .map_or((version, None), |(a, b)| (a, Some(b)));
    let (numbers, pre) = version
        .split_once('-')
        .map_or((version, None), |(a, b)| (a, Some(b)));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number =
        |text: &str| digits(text) && (text == "0" || !text.starts_with('0')) && text.parse::<u64>().is_ok();
    let name = |text: &str| {
        !text.is_empty()
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    numbers.split('.').count() == 3
        && numbers.split('.').all(number)
        && pre.is_none_or(|pre| {
            pre.split('.')
                .all(|part| name(part) && (!digits(part) || number(part)))
        })
        && build.is_none_or(|build| build.split('.').all(name))
}

/// Returns true if a version is in a range.
pub fn holds(range: &[Vec<Comparison>], version: &str) -> bool {
    range.iter().any(|comparisons| {
        comparisons.iter().all(|(operator, other)| {
            let order = compare(version, other);
            match *operator {
                "=" => order.is_eq(),
                "!=" => order.is_ne(),
                ">" => order.is_gt(),
                ">=" => order.is_ge(),
                "<" => order.is_lt(),
                _ => order.is_le(),
            }
        })
    })
}

/// Returns the precedence of two valid versions.
pub fn compare(one: &str, other: &str) -> Ordering {
    let parts = |text: &str| -> (Vec<u64>, Option<Vec<String>>) {
        let text = text.split('+').next().unwrap_or_default().to_owned();
        let (numbers, pre) = match text.split_once('-') {
            Some((numbers, pre)) => (numbers, Some(pre.split('.').map(str::to_owned).collect())),
            None => (text.as_str(), None),
        };
        let numbers = numbers
            .split('.')
            .map(|part| part.parse().expect("number"))
            .collect();
        (numbers, pre)
    };
    let ((a, pre_a), (b, pre_b)) = (parts(one), parts(other));
    if a != b {
        return a.cmp(&b);
    }
    match (pre_a, pre_b) {
        (None, None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Greater,
        (Some(_), None) => Ordering::Less,
        (Some(a), Some(b)) => {
            for (x, y) in a.iter().zip(&b) {
                let order = match (x.parse::<u64>(), y.parse::<u64>()) {
                    (Ok(x), Ok(y)) => x.cmp(&y),
                    (Ok(_), Err(_)) => Ordering::Less,
                    (Err(_), Ok(_)) => Ordering::Greater,
                    (Err(_), Err(_)) => x.cmp(y),
                };
                if order.is_ne() {
                    return order;
                }
            }
            a.len().cmp(&b.len())
        }
    }
}
