//! What an unpack Job leaves: a bundle in a ConfigMap, and the word of the pod that put it there.
//!
//! A ConfigMap can be written by more people than may say what OLM installs. The pod says at its end, in a status that only nodes
//! write, what it wrote; whoever reads the ConfigMap believes nothing else.

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::labels;

/// What the pod's termination message begins with; [`content_hash`] follows.
pub const PROOF: &str = "bundle content ";
/// Where a container writes its termination message.
pub const TERMINATION_LOG: &str = "/dev/termination-log";
/// What `opm` says of a bundle that has no room in a ConfigMap, after the number of bytes.
pub const TOO_LARGE: &str = "bytes limit";

/// Hash of the bundle in a ConfigMap: of its entries, and of the annotations by which they are read.
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

/// The hash that a pod gave at its end.
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
        // What the API server does to an object in between changes nothing.
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
