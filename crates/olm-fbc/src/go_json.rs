//! JSON text as Go's encoder prints it.
//!
//! Needed wherever bytes are compared or stored: base64 of bundle objects, property texts, digests. Keys are sorted and
//! nothing is indented; Go's number format and escapes are used.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_json::{Number, Value};

/// Whether `<`, `>` and `&` are written as `\u003c` and so on. Go does so unless told otherwise.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Html {
    /// Escape them.
    Escaped,
    /// Leave them.
    Plain,
}

/// `value` as compact JSON.
pub fn to_string(value: &Value, html: Html) -> String {
    let mut out = String::new();
    write(&mut out, value, html);
    out
}

fn write(out: &mut String, value: &Value, html: Html) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Number(value) => number(out, value),
        Value::String(value) => text(out, value, html),
        Value::Array(items) => {
            out.push('[');
            for (position, item) in items.iter().enumerate() {
                if position > 0 {
                    out.push(',');
                }
                write(out, item, html);
            }
            out.push(']');
        }
        Value::Object(map) => {
            out.push('{');
            let mut fields: Vec<_> = map.iter().collect();
            fields.sort_unstable_by_key(|(key, _)| *key);
            for (position, (key, item)) in fields.into_iter().enumerate() {
                if position > 0 {
                    out.push(',');
                }
                text(out, key, html);
                out.push(':');
                write(out, item, html);
            }
            out.push('}');
        }
    }
}

/// Integers as they are; floats without exponent from 1e-6 up to 1e21, `1.0` as `1`.
fn number(out: &mut String, value: &Number) {
    match value.as_f64() {
        Some(number) if value.is_f64() => float(out, number),
        _ => {
            let _ = write!(out, "{value}");
        }
    }
}

/// A float as [`number`] writes it.
pub(crate) fn float(out: &mut String, float: f64) {
    if float != 0.0
        && !(1e-6..1e21).contains(&float.abs())
        && let Some((mantissa, exponent)) = format!("{float:e}").split_once('e')
    {
        let sign = if exponent.starts_with('-') { "" } else { "+" };
        let _ = write!(out, "{mantissa}e{sign}{exponent}");
    } else {
        let _ = write!(out, "{float}");
    }
}

/// A piece of text without quotes, backslashes and control characters, with what Go escapes besides those.
pub fn escaped(text: &str, html: Html) -> Cow<'_, str> {
    let special: &[char] = match html {
        Html::Escaped => &['<', '>', '&', '\u{2028}', '\u{2029}'],
        Html::Plain => &['\u{2028}', '\u{2029}'],
    };
    if !text.contains(special) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 64);
    for char in text.chars() {
        if special.contains(&char) {
            let _ = write!(out, "\\u{:04x}", u32::from(char));
        } else {
            out.push(char);
        }
    }
    Cow::Owned(out)
}

fn text(out: &mut String, value: &str, html: Html) {
    out.push('"');
    for char in value.chars() {
        match char {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '<' | '>' | '&' if html == Html::Plain => out.push(char),
            '\0'..='\u{1f}' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(char));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn prints_what_go_prints() {
        let value = json!({"b": [1, 1.0, 1.5, 1e21, 1e20, 1e-7, -0.25, u64::MAX], "a": "<&>\"\\\u{1}\u{8}\u{2028}é", "c": null});
        assert_eq!(
            to_string(&value, Html::Escaped),
            r#"{"a":"\u003c\u0026\u003e\"\\\u0001\b\u2028é","b":[1,1,1.5,1e+21,100000000000000000000,1e-7,-0.25,18446744073709551615],"c":null}"#
        );
        assert_eq!(to_string(&json!("<a>"), Html::Plain), r#""<a>""#);
    }

    /// The nearest double is taken, not one beside it: else a value would change whenever it is read and written.
    #[test]
    fn floats_of_many_digits_stay_what_they_are() {
        let value: Value =
            serde_json::from_str("[123456789.123456789, 2.638344616030823e-256, 9007199254740993.0, 5e-324]")
                .expect("numbers");
        assert_eq!(
            to_string(&value, Html::Escaped),
            "[123456789.12345679,2.638344616030823e-256,9007199254740992,5e-324]"
        );
    }
}
