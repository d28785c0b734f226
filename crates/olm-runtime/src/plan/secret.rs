//! Data of Secrets to be sent to the API server.

use std::{collections::BTreeMap, fmt};

use k8s_openapi::ByteString;
use serde_json::Value;

use super::to_value;

/// Data of a Secret by key. Only the API server gets it: no text of a plan contains it, not even `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretData(BTreeMap<String, ByteString>);

impl SecretData {
    /// Creates it from data by key, not base64-encoded.
    pub fn new<K: Into<String>, V: Into<Vec<u8>>>(contents: impl IntoIterator<Item = (K, V)>) -> Self {
        let entry = |(key, value): (K, V)| (key.into(), ByteString(value.into()));
        Self(contents.into_iter().map(entry).collect())
    }

    /// Returns the Secret `object` with this data, for the request; it must not be stored.
    pub fn within(&self, object: &Value) -> Value {
        let mut object = object.clone();
        object["data"] = to_value(&self.0);
        object
    }
}

impl fmt::Debug for SecretData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plan::{Action, Identity, Plan, Target};

    #[test]
    fn contents_are_sent_and_never_reported() {
        let data = SecretData::new([("tls.key", "very secret")]);
        let sent = data.within(&json!({"kind": "Secret"}));
        assert_eq!(
            sent,
            json!({"kind": "Secret", "data": {"tls.key": "dmVyeSBzZWNyZXQ="}})
        );
        let action = Action::Apply {
            target: Target::of::<k8s_openapi::api::core::v1::Secret>("ns", "s"),
            object: json!({"kind": "Secret"}),
            data: Some(data),
            manager: "test/test",
            identity: Identity::Operator,
        };
        let plan = Plan::of(vec![action.clone()]);
        assert_eq!(plan.to_string(), "apply Secret ns/s\n");
        let texts = format!("{plan:?} {plan:#?} {plan} {}", action.brief());
        for secret in ["very secret", "dmVyeSBzZWNyZXQ"] {
            assert!(!texts.contains(secret), "{texts}");
        }
    }
}
