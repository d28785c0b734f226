//! Manifests that a catalog contains itself, in `olm.bundle.object` properties: base64 of JSON or YAML.
//!
//! This is their only decoder, so validation, rendering and serving agree.

use go_compat::json::{self, Html, kind_of};
use serde_json::Value;

use crate::{base64, yaml};

/// A decoded manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleObject {
    /// JSON text, as it is sent to clients.
    pub text: String,
    /// Type of the value if it is not an object, for messages. Such a manifest cannot be installed.
    pub no_object: Option<&'static str>,
}

impl BundleObject {
    /// Returns the manifest as a value.
    ///
    /// # Errors
    /// The manifest is not an object; the error is a text.
    pub fn value(&self) -> Result<Value, String> {
        match self.no_object {
            None => serde_json::from_str(&self.text).map_err(|error| error.to_string()),
            Some(found) => Err(format!("expected an object, found {found}")),
        }
    }
}

/// Decodes the `data` of an `olm.bundle.object` property. Text that parses as a JSON object is kept as it is. Other text is read
/// as YAML, and only its first document is used.
///
/// # Errors
/// Text that upstream rejects, too: not base64, not UTF-8, not YAML.
pub fn decode(data: &str) -> Result<BundleObject, String> {
    let bytes = base64::decode(data)?;
    let text = String::from_utf8(bytes).map_err(|_| "not valid UTF-8".to_owned())?;
    let is_braced = text.trim_start().starts_with('{');
    if is_braced && serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok() {
        return Ok(BundleObject {
            text,
            no_object: None,
        });
    }
    match yaml::parse_first(text.as_bytes()) {
        Ok((value, _)) => Ok(BundleObject {
            text: json::to_string(&value, Html::Escaped),
            no_object: (!value.is_object()).then(|| kind_of(&value)),
        }),
        Err(_) if is_braced => Ok(BundleObject {
            text,
            no_object: Some("broken JSON"),
        }),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(text: &str) -> String {
        base64::encode(text.as_bytes())
    }

    #[test]
    fn manifests_are_decoded_as_upstream_does() {
        for (text, expected, no_object) in [
            (
                " \n{\"kind\": \"B\",  \"a\": 1}\n",
                " \n{\"kind\": \"B\",  \"a\": 1}\n",
                None,
            ),
            ("{kind: B, a: 1}", r#"{"a":1,"kind":"B"}"#, None),
            ("kind: B\na: 1.0\n---\nkind: C\n", r#"{"a":1,"kind":"B"}"#, None),
            ("just text", r#""just text""#, Some("string")),
            ("", "null", Some("null")),
            ("[1]", "[1]", Some("array")),
            ("{\"kind\": ", "{\"kind\": ", Some("broken JSON")),
        ] {
            let decoded = decode(&encoded(text)).unwrap();
            assert_eq!(
                (decoded.text.as_str(), decoded.no_object),
                (expected, no_object),
                "{text}"
            );
            assert_eq!(decoded.value().is_ok(), no_object.is_none(), "{text}");
        }
        assert!(decode(&encoded("a: [")).unwrap_err().starts_with("invalid YAML"));
        assert_eq!(decode("!").unwrap_err(), "illegal base64 data at input byte 0");
        assert_eq!(decode("/w==").unwrap_err(), "not valid UTF-8");
    }

    /// Tools break base64 into lines, and YAML folds them in different ways.
    #[test]
    fn base64_may_be_broken_into_lines() {
        let text = r#"{"kind":"ConfigMap","metadata":{"name":"a"}}"#;
        let mut broken = encoded(text);
        for at in [20, 8, 3] {
            broken.insert_str(at, "\r\n");
        }
        broken.push('\n');
        assert_eq!(decode(&broken).unwrap().text, text);
        assert!(
            decode(&broken.replace('\r', " ")).is_err(),
            "blanks are no base64"
        );
    }
}
