//! JSON that is written in pieces.

use serde::Serialize;

/// Appends `text` unchanged.
pub(crate) fn text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

/// Appends `value` as JSON.
pub(crate) fn value<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    let start = out.len();
    if let Err(error) = serde_json::to_writer(&mut *out, value) {
        // No type here has keys that are not texts. If that changes, the output is still JSON.
        tracing::error!("cannot encode JSON; this is a bug: {error}");
        out.truncate(start);
        text(out, "null");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn what_is_no_json_is_null() {
        let mut out = Vec::new();
        text(&mut out, "[");
        value(&mut out, &1);
        text(&mut out, ",");
        value(&mut out, &BTreeMap::from([(Some("a key"), 1), (None, 2)]));
        text(&mut out, "]");
        assert_eq!(out, b"[1,null]");
    }
}
