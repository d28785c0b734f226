//! Result of an unpack Job: a bundle in a ConfigMap, and the proof of the pod that wrote it.
//!
//! More users can write a ConfigMap than may decide what OLM installs. On exit the pod reports the hash of what it wrote, in a
//! status that only nodes write. Readers of the ConfigMap trust only this hash.

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::labels;

/// Prefix of the pod's termination message; [`content_hash`] follows.
pub const PROOF: &str = "bundle content ";
/// Path to which a container writes its termination message.
pub const TERMINATION_LOG: &str = "/dev/termination-log";
/// Text of the `opm` error for a bundle that does not fit a ConfigMap; it follows the number of bytes.
pub const TOO_LARGE: &str = "bytes limit";

/// Returns the hash of the bundle in a ConfigMap: its entries, and the annotations that define how they are read.
pub fn content_hash(config_map: &Value) -> String {
    let mut hasher = Sha256::new();
    let mut note = |field: &str, key: &str, value: &str| {
        for text in [field, key, value] {
            hasher.update((text.len() as u64).to_be_bytes());
            hasher.update(text);
        }
    };
    for field in ["binaryData", "data"] {
        let map = config_map.get(field).and_then(Value::as_object);
        let mut entries: Vec<_> = map.into_iter().flatten().collect();
        entries.sort_by_key(|(key, _)| *key);
        for (key, value) in entries {
            note(field, key, value.as_str().unwrap_or_default());
        }
    }
    for annotation in [labels::CONTENT_ENCODING, labels::SOURCE_IMAGE] {
        let value = &config_map["metadata"]["annotations"][annotation];
        note("annotation", annotation, value.as_str().unwrap_or_default());
    }
    let digest = hasher.finalize();
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the hash that a pod reported on exit.
pub fn proven_hash(termination_message: &str) -> Option<&str> {
    termination_message.trim().strip_prefix(PROOF)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn contents_that_differ_have_other_hashes() {
        let annotated = |data: Value, image: &str| json!({"metadata": {"name": "m", "resourceVersion": "1", "annotations": {labels::SOURCE_IMAGE: image}}, "data": data});
        let all = [
            annotated(json!({"a": "bc"}), "i"),
            annotated(json!({"ab": "c"}), "i"),
            annotated(json!({"a": "bc", "d": ""}), "i"),
            annotated(json!({"a": "bc"}), "j"),
            json!({"binaryData": {"a": "bc"}, "metadata": {"annotations": {labels::SOURCE_IMAGE: "i"}}}),
            json!({}),
        ];
        let different: std::collections::BTreeSet<_> = all.iter().map(content_hash).collect();
        assert_eq!(different.len(), all.len());
        // Fields that the API server sets do not change the hash.
        let mut stored = all[0].clone();
        stored["metadata"]["resourceVersion"] = json!("2");
        stored["binaryData"] = json!({});
        assert_eq!(content_hash(&stored), content_hash(&all[0]));
    }

    #[test]
    fn only_the_word_of_the_pod_is_a_proof() {
        assert_eq!(proven_hash("bundle content 00ff\n"), Some("00ff"));
        assert_eq!(proven_hash("error: bundle content 00ff"), None);
    }
}
