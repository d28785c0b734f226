//! Resolution of plain YAML 1.1 scalars, as Go's yaml.v2 does it.

use std::fmt::{Display, LowerExp};

use serde_json::{Number, Value};

/// Resolves an untagged plain scalar.
///
/// Returns `None` for a float that JSON cannot represent (`.nan`, `.inf`).
pub(super) fn resolve(text: &str) -> Option<Value> {
    let Some(&first) = text.as_bytes().first() else {
        return Some(Value::Null);
    };
    Some(match first {
        b'y' | b'Y' | b't' | b'T' | b'n' | b'N' | b'f' | b'F' | b'o' | b'O' | b'~' => keyword(text),
        b'.' => match text {
            ".nan" | ".NaN" | ".NAN" | ".inf" | ".Inf" | ".INF" => return None,
            _ => number(text),
        },
        b'+' | b'-' => match text.get(1..) {
            Some(".inf" | ".Inf" | ".INF") => return None,
            _ => number(text),
        },
        b'0'..=b'9' => number(text),
        _ => Value::String(text.to_owned()),
    })
}

fn keyword(text: &str) -> Value {
    match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Value::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Value::Bool(false)
        }
        "~" | "null" | "Null" | "NULL" => Value::Null,
        _ => Value::String(text.to_owned()),
    }
}

/// Resolves text that starts with a digit, a sign or a dot: integer, float, or text (timestamps are text, too).
fn number(text: &str) -> Value {
    let plain: std::borrow::Cow<'_, str> = if text.contains('_') {
        text.replace('_', "").into()
    } else {
        text.into()
    };
    if let Some(number) = integer(&plain) {
        return Value::Number(number);
    }
    if is_float(&plain)
        && let Ok(parsed) = plain.parse::<f64>()
        && parsed.is_finite()
    {
        return whole_as_integer(parsed);
    }
    Value::String(text.to_owned())
}

/// Parses as Go's `ParseInt` with base 0: sign, `0x`, `0o`, `0b` or a leading zero for octal.
fn integer(plain: &str) -> Option<Number> {
    let (negative, digits) = match plain.as_bytes().first()? {
        b'-' => (true, &plain[1..]),
        b'+' => (false, &plain[1..]),
        _ => (false, plain),
    };
    let lower = digits.get(..2).map(str::to_ascii_lowercase);
    let (radix, digits) = match lower.as_deref() {
        Some("0x") => (16, &digits[2..]),
        Some("0o") => (8, &digits[2..]),
        Some("0b") => (2, &digits[2..]),
        Some(_) if digits.starts_with('0') => (8, &digits[1..]),
        _ => (10, digits),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, radix).ok()?;
    if negative {
        // The magnitude of i64::MIN has no positive counterpart.
        let value = if magnitude == 1 << 63 {
            i64::MIN
        } else {
            i64::try_from(magnitude).ok()?.checked_neg()?
        };
        Some(value.into())
    } else if plain.starts_with('+') && i64::try_from(magnitude).is_err() {
        // Go's unsigned parser accepts no sign, so this becomes a float.
        None
    } else {
        Some(magnitude.into())
    }
}

/// Matches `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`.
fn is_float(text: &str) -> bool {
    let rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match rest.find(['e', 'E']) {
        Some(at) => (&rest[..at], Some(&rest[at + 1..])),
        None => (rest, None),
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let mantissa_ok = match mantissa.split_once('.') {
        None => digits(mantissa),
        Some(("", fraction)) => digits(fraction),
        Some((whole, fraction)) => digits(whole) && (fraction.is_empty() || digits(fraction)),
    };
    mantissa_ok && exponent.is_none_or(|text| digits(text.strip_prefix(['-', '+']).unwrap_or(text)))
}

/// Converts whole floats to integers: Go writes the float 1.0 as `1` in JSON, and reads it back as an integer.
#[allow(clippy::cast_possible_truncation)]
pub(super) fn whole_as_integer(value: f64) -> Value {
    const EXACT: f64 = 9_223_372_036_854_774_784.0;
    if value.fract() == 0.0 && value.abs() <= EXACT && !(value == 0.0 && value.is_sign_negative()) {
        return Value::from(value as i64);
    }
    Number::from_f64(value).map_or(Value::Null, Value::Number)
}

/// Returns the value of a key as it is written in a text: for `a: 4.20`, the key `a` and the JSON `4.2` that is `4.20`. The first
/// plain occurrence on the line of its key that reads as the value is returned; `None` if there is none.
pub fn written<'a>(text: &'a str, key: &str, value: &str) -> Option<&'a str> {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'/');
    let tokens = text.match_indices(key).filter_map(|(at, _)| {
        if at > 0 && is_bare(text.as_bytes()[at - 1]) {
            return None;
        }
        let rest = text[at + key.len()..].trim_start_matches(['"', '\'']);
        let rest = rest.strip_prefix(':')?.trim_start_matches([' ', '\t']);
        let end = rest
            .find([',', '}', ']', ' ', '\t', '\r', '\n'])
            .unwrap_or(rest.len());
        Some(&rest[..end])
    });
    let mut found = tokens
        .filter(|token| resolve(token).is_some_and(|read| !read.is_string() && format!("{read}") == value));
    found.next()
}

/// Returns the text of a scalar as a mapping key; `None` for null.
pub(super) fn key_text(value: Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text),
        Value::Bool(flag) => Some(if flag { "true" } else { "false" }.to_owned()),
        Value::Number(number) => Some(match number.as_f64() {
            Some(float) if number.is_f64() => float_key(float),
            _ => number.to_string(),
        }),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Formats a float key as Go does: the shortest 32-bit decimal.
#[allow(clippy::cast_possible_truncation)]
fn float_key(value: f64) -> String {
    shortest(value as f32)
}

/// Formats a float as Go's `%g` does: the shortest decimal, with an exponent from 1e+06 or below 1e-4.
pub(super) fn shortest(value: impl Copy + Display + LowerExp) -> String {
    let scientific = format!("{value:e}");
    match scientific.split_once('e') {
        Some((mantissa, exponent)) if !(-4..6).contains(&exponent.parse::<i32>().unwrap_or_default()) => {
            let (sign, digits) = exponent
                .strip_prefix('-')
                .map_or(('+', exponent), |rest| ('-', rest));
            format!("{mantissa}e{sign}{digits:0>2}")
        }
        _ => value.to_string(),
    }
}

/// Returns true if plain `text` would be read back as text.
pub(super) fn is_plain_text(text: &str) -> bool {
    matches!(resolve(text), Some(Value::String(_))) && !is_timestamp_like(text) && text != "<<"
}

/// Returns true for a text that some readers take for a date and writers quote: `2001-1-2`, or with a time and, after `T`, a
/// zone.
fn is_timestamp_like(text: &str) -> bool {
    let Some((year, rest)) = text.split_once('-') else {
        return false;
    };
    let Some((month, rest)) = rest.split_once('-') else {
        return false;
    };
    let end = rest.find(['T', 't', ' ']).unwrap_or(rest.len());
    let (day, time) = rest.split_at(end);
    let is_date = year.len() == 4
        && year.bytes().all(|byte| byte.is_ascii_digit())
        && is_number_up_to(month, 12)
        && is_number_up_to(day, 31)
        && !month.trim_start_matches('0').is_empty()
        && !day.trim_start_matches('0').is_empty();
    is_date
        && match time.chars().next() {
            None => true,
            Some(' ') => is_time(&time[1..]),
            Some(_) => without_zone(&time[1..]).is_some_and(is_time),
        }
}

/// Removes the zone, `Z` or `+01:00`.
fn without_zone(text: &str) -> Option<&str> {
    if let Some(time) = text.strip_suffix('Z') {
        return Some(time);
    }
    let (time, zone) = text.split_at_checked(text.len().checked_sub(6)?)?;
    let (hours, minutes) = zone.strip_prefix(['+', '-'])?.split_once(':')?;
    (hours.len() == 2 && minutes.len() == 2 && is_number_up_to(hours, 24) && is_number_up_to(minutes, 60))
        .then_some(time)
}

/// Returns true for a time such as `1:2:3` or `01:02:03.456`.
fn is_time(text: &str) -> bool {
    let (clock, fraction) = match text.split_once('.') {
        Some((clock, fraction)) => (clock, Some(fraction)),
        None => (text, None),
    };
    let mut parts = clock.split(':');
    let mut next = |most| parts.next().is_some_and(|part| is_number_up_to(part, most));
    next(23)
        && next(59)
        && next(59)
        && parts.next().is_none()
        && fraction
            .is_none_or(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

fn is_number_up_to(text: &str, most: u8) -> bool {
    (1..=2).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_digit())
        && text.parse::<u8>().is_ok_and(|number| number <= most)
}
