//! JSON as Go's encoder prints it and its decoder finds fields.
//!
//! Required where bytes are compared or stored: base64 of bundle objects, property texts, hashes in labels and names. Map keys
//! are sorted; Go's number format and escapes are used.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io;

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::Formatter;

mod fields;

pub use fields::{Fields, field, kind_of};

/// Escaping of `<`, `>` and `&` as `\u003c` and so on. Go escapes them by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Html {
    /// Escape them.
    Escaped,
    /// Leave them.
    Plain,
}

/// Returns a value as compact JSON.
pub fn to_string(value: &Value, html: Html) -> String {
    // A JSON tree always has a JSON form.
    encode(value, html).unwrap_or_default()
}

/// Returns any value as compact JSON. Fields are in the order of their struct; the struct must omit the fields that Go's
/// `omitempty` omits.
///
/// # Errors
/// If `value` has no JSON form, for example a map with keys that are not text.
pub fn encode<T: Serialize + ?Sized>(value: &T, html: Html) -> Result<String, serde_json::Error> {
    let mut out = Vec::new();
    value.serialize(&mut serde_json::Serializer::with_formatter(
        &mut out,
        Compact(html),
    ))?;
    String::from_utf8(out).map_err(serde::ser::Error::custom)
}

/// Formatter that makes `serde_json` write compact JSON as Go does.
#[derive(Clone, Copy, Debug)]
pub struct Compact(pub Html);

impl Formatter for Compact {
    fn write_f64<W: ?Sized + io::Write>(&mut self, out: &mut W, value: f64) -> io::Result<()> {
        out.write_all(float(value).as_bytes())
    }

    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        out.write_all(escaped(fragment, self.0).as_bytes())
    }

    /// Writes JSON that is kept as text: its numbers keep their spelling. The escaped characters occur only inside its strings.
    fn write_raw_fragment<W: ?Sized + io::Write>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        out.write_all(escaped(fragment, self.0).as_bytes())
    }
}

/// Formats a float without exponent from 1e-6 up to 1e21; `1.0` is `1`.
pub fn float(float: f64) -> String {
    if float != 0.0
        && !(1e-6..1e21).contains(&float.abs())
        && let Some((mantissa, exponent)) = format!("{float:e}").split_once('e')
    {
        let sign = if exponent.starts_with('-') { "" } else { "+" };
        return format!("{mantissa}e{sign}{exponent}");
    }
    float.to_string()
}

/// Returns a text without quotes, backslashes and control characters, with Go's additional escapes.
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Output of Go 1.26.
    #[test]
    fn prints_what_go_prints() {
        let value = json!({"b": [1, 1.0, 1.5, 1e21, 1e20, 1e-7, -0.25, u64::MAX], "a": "<&>\"\\\u{1}\u{8}\u{2028}é", "c": null});
        assert_eq!(
            to_string(&value, Html::Escaped),
            r#"{"a":"\u003c\u0026\u003e\"\\\u0001\b\u2028é","b":[1,1,1.5,1e+21,100000000000000000000,1e-7,-0.25,18446744073709551615],"c":null}"#
        );
        assert_eq!(to_string(&json!("<a>"), Html::Plain), r#""<a>""#);
    }

    #[test]
    fn structs_keep_their_order_and_are_escaped_alike() {
        #[derive(serde::Serialize)]
        struct Whole {
            z: f64,
            a: &'static str,
        }
        let whole = Whole {
            z: 1.0,
            a: "<b>&\u{2028}\u{2029}\"\\\n\u{1}\u{7f}é",
        };
        assert_eq!(
            encode(&whole, Html::Escaped).expect("JSON"),
            "{\"z\":1,\"a\":\"\\u003cb\\u003e\\u0026\\u2028\\u2029\\\"\\\\\\n\\u0001\u{7f}é\"}"
        );
    }

    #[test]
    fn json_kept_as_text_is_escaped_and_else_as_written() {
        let raw = serde_json::value::RawValue::from_string(r#"{"b":1.0,"a":"<>"}"#.to_owned()).expect("JSON");
        assert_eq!(
            encode(&raw, Html::Escaped).expect("JSON"),
            r#"{"b":1.0,"a":"\u003c\u003e"}"#
        );
    }

    /// Parsing must return the nearest double, or a value would change whenever it is read and written.
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
