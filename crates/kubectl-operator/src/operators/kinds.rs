//! The operators that share a CustomResourceDefinition.

use olm_api::v1alpha1::ClusterServiceVersion;
use serde_json::Value;

use super::{Gathered, Key};
use crate::terminal::{listed, plain};

/// Prefix of the operators that also own a kind.
pub(crate) const OWNED_TOO: &str = "also owned by ";
/// Prefix of the operators that require a kind.
pub(crate) const NEEDED: &str = "needed by ";

impl Gathered {
    /// Returns the operators that own or require a kind, as texts that name at most `most` of them each. Those that are `own` are
    /// left out.
    pub(crate) fn sharers(
        &self,
        crd: &str,
        most: usize,
        own: impl Fn(&Key, &ClusterServiceVersion) -> bool,
    ) -> Vec<String> {
        let (mut owners, mut users) = (Vec::new(), Vec::new());
        for (key, csv) in self.csvs.iter().filter(|(key, csv)| !own(key, csv)) {
            let name = format!("{}/{}", plain(&key.0), plain(&key.1));
            let mut required = csv.spec.required_crds().iter();
            if csv.spec.owns_crd(crd) {
                owners.push(name);
            } else if required.any(|required| required.name == crd) {
                users.push(name);
            }
        }
        let all = [(OWNED_TOO, owners), (NEEDED, users)].into_iter();
        let all = all.filter(|(_, names)| !names.is_empty());
        let known = all.map(|(prefix, names)| format!("{prefix}{}", listed(&names, most)));
        // An object that cannot be read may also own or require it.
        let unread = self.unreadable.iter();
        let unread = unread.filter(|found| mentions(&found.object["spec"]["customresourcedefinitions"], crd));
        let unread = unread.map(|found| {
            format!(
                "{}/{} cannot be read and may own or need it",
                found.namespace, found.name
            )
        });
        known.chain(unread).collect()
    }
}

/// Returns true if a value contains a text as one of its strings.
fn mentions(value: &Value, text: &str) -> bool {
    match value {
        Value::String(found) => found == text,
        Value::Array(values) => values.iter().any(|value| mentions(value, text)),
        Value::Object(fields) => fields.values().any(|value| mentions(value, text)),
        _ => false,
    }
}
