//! Whether a ClusterServiceVersion that nobody asked for would take an API away from another one.
//!
//! Plans made by the operator list every ClusterServiceVersion they contain, so this only concerns plans written by hand.

use std::sync::Arc;

use kube::ResourceExt;
use olm_api::v1alpha1::ClusterServiceVersion;
use serde_json::Value;

use crate::object;

/// Another ClusterServiceVersion owns an API of the one to be created.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OwnershipError {
    /// One other owner.
    #[error("pre-existing CRD owners found for owned CRD(s) of dependent CSV {0}")]
    Competing(String),
    /// Several owners already contend.
    #[error(
        "error checking crd owners for: {csv}: Existing CSVs [{owners}] in namespace {namespace} all claim to own CRD {crd}"
    )]
    Several {
        /// The ClusterServiceVersion to be created.
        csv: String,
        /// The contenders, sorted, separated by spaces.
        owners: String,
        /// Their namespace.
        namespace: String,
        /// The CustomResourceDefinition.
        crd: String,
    },
}

/// Checks that no ClusterServiceVersion of `existing` other than `csv` itself owns one of its CustomResourceDefinitions.
///
/// # Errors
/// See [`OwnershipError`].
pub(crate) fn check_owned_crds(
    csv: &Value,
    namespace: &str,
    existing: &[Arc<ClusterServiceVersion>],
) -> Result<(), OwnershipError> {
    let name = object::name(csv);
    let owned = csv
        .pointer("/spec/customresourcedefinitions/owned")
        .and_then(Value::as_array);
    for crd in owned
        .into_iter()
        .flatten()
        .filter_map(|owned| owned.get("name").and_then(Value::as_str))
    {
        let mut owners: Vec<String> = existing
            .iter()
            .filter(|other| owns(other, crd))
            .map(|other| other.name_any())
            .collect();
        owners.sort();
        match &owners[..] {
            [] => {}
            [owner] if owner == name => {}
            [_] => return Err(OwnershipError::Competing(name.to_owned())),
            _ => {
                return Err(OwnershipError::Several {
                    csv: name.to_owned(),
                    owners: owners.join(" "),
                    namespace: namespace.to_owned(),
                    crd: crd.to_owned(),
                });
            }
        }
    }
    Ok(())
}

fn owns(csv: &ClusterServiceVersion, crd: &str) -> bool {
    csv.spec.owned_crds().iter().any(|owned| owned.name == crd)
}
