//! Contents of Secrets on their way to the API server.

use std::{collections::BTreeMap, fmt};

use k8s_openapi::ByteString;
use serde_json::Value;

use super::to_value;

/// Contents of a Secret by key. They are shown to nobody but the API server: no text of a plan has them, not even the one for
/// debugging.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretData(BTreeMap<String, ByteString>);

impl SecretData {
    /// Contents, not encoded, by key.
    pub fn new<K: Into<String>, V: Into<Vec<u8>>>(contents: impl IntoIterator<Item = (K, V)>) -> Self {
        let entry = |(key, value): (K, V)| (key.into(), ByteString(value.into()));
        Self(contents.into_iter().map(entry).collect())
    }

    /// The Secret `object` with these contents, for the request; keep it nowhere.
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
    fn contents_are_sent_and_never_told() {
        let data = SecretData::new([("tls.key", "very secret")]);
        let sent = data.within(&json!({"kind": "Secret"}));
        assert_eq!(
            sent,
            json!({"kind": "Secret", "data": {"tls.key": "dmVyeSBzZWNyZXQ="}})
        );
        let action = Action::ApplySecret {
            target: Target::of::<k8s_openapi::api::core::v1::Secret>("ns", "s"),
            object: json!({"kind": "Secret"}),
            data,
            manager: "test/test",
            identity: Identity::Operator,
        };
        let plan = Plan {
            actions: vec![action.clone()],
            ..Plan::default()
        };
        assert_eq!(plan.to_string(), "apply Secret ns/s\n");
        let texts = format!("{plan:?} {plan:#?} {plan} {}", action.brief());
        for secret in ["very secret", "dmVyeSBzZWNyZXQ"] {
            assert!(!texts.contains(secret), "{texts}");
        }
    }
}
