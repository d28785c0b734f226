//! API objects as JSON, and their names.

use olm_api::embedded::drop_nulls;
use olm_api::hash::base36;
use olm_api::names::MAX_SERVICE_NAME;
pub(crate) use olm_api::object::{api_version, kind, map_mut, metadata_map_mut, name};
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha224};

/// Sets an annotation.
pub(crate) fn annotate(object: &mut Value, key: &str, value: &str) {
    metadata_map_mut(object, "annotations").insert(key.to_owned(), value.into());
}

/// Reduces an object to the fields that an extension sets: of the metadata only name, namespace, labels and annotations, no
/// status, and no member that is `null`.
pub(crate) fn reduce(object: &mut Value) {
    const METADATA: [&str; 4] = ["annotations", "labels", "name", "namespace"];
    drop_nulls(object);
    let Some(map) = object.as_object_mut() else {
        return;
    };
    map.remove("status");
    if let Some(Value::Object(metadata)) = map.get_mut("metadata") {
        metadata.retain(|key, _| METADATA.contains(&key.as_str()));
    }
}

/// Returns `<base>-<suffix>` with a base cut so that the name has at most 63 characters.
///
/// Upstream does not count the hyphen, so its longest names have 64 characters, which no Service may have.
pub(crate) fn limited_name(base: &str, suffix: &str) -> String {
    let mut end = base.len().min(MAX_SERVICE_NAME.saturating_sub(suffix.len() + 1));
    while !base.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}-{suffix}", &base[..end])
}

/// Returns the name `<base>-<hash of value>`: SHA-224 of the JSON that Go's encoder writes, in base 36.
///
/// # Errors
/// If `value` has no JSON form.
pub(crate) fn hashed_name<T: Serialize>(base: &str, value: &T) -> Result<String, serde_json::Error> {
    let json = go_compat::json::encode(value, go_compat::json::Html::Escaped)? + "\n";
    Ok(limited_name(base, &base36(&Sha224::digest(json.as_bytes()))))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Values of upstream's tests.
    #[test]
    fn hashes_are_upstreams() {
        for (value, hash) in [
            (json!("a"), "1lu1qv1451mq7gv9upu1cx8ffffi07rel5xvbvvc44dh"),
            (json!("b"), "1ija85ah4gd0beltpfhszipkxfyqqxhp94tf2mjfgq61"),
            (json!({}), "16jfjhihxbzhfhs1k5mimq740kvioi98pfbea9q6qtf9"),
            (Value::Null, "2im0kl1kwvzn46sr4cdtkvmdzrlurvj51xdzhwdht8l0"),
        ] {
            assert_eq!(hashed_name("x", &value).unwrap(), format!("x-{hash}"));
        }
    }

    #[test]
    fn names_have_at_most_63_characters() {
        assert_eq!(limited_name("a", "service"), "a-service");
        let fits = "b".repeat(55);
        assert_eq!(limited_name(&fits, "service"), format!("{fits}-service"));
        assert_eq!(
            limited_name(&"b".repeat(56), "service"),
            format!("{fits}-service")
        );
        assert_eq!(limited_name(&"é".repeat(60), "service").len(), 62);
    }

    #[test]
    fn what_the_server_fills_in_is_left_out() {
        let mut object = json!({"kind": "X", "status": {"a": 1}, "spec": {"a": null, "b": [null]},
            "metadata": {"name": "x", "creationTimestamp": null, "uid": "1", "labels": {"a": "b"}}});
        reduce(&mut object);
        let expected =
            json!({"kind": "X", "spec": {"b": [null]}, "metadata": {"name": "x", "labels": {"a": "b"}}});
        assert_eq!(object, expected);
    }

    #[test]
    fn an_annotation_is_set_where_there_are_none() {
        let mut object = json!({"metadata": {"annotations": "no map"}});
        annotate(&mut object, "a", "b");
        assert_eq!(object, json!({"metadata": {"annotations": {"a": "b"}}}));
    }
}
