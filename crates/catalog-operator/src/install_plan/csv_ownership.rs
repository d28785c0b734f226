//! Checks whether an unrequested ClusterServiceVersion would take over an API from another one.
//!
//! Plans made by the operator list every ClusterServiceVersion they contain, so this only concerns plans written by hand.

use std::sync::Arc;

use kube::ResourceExt;
use olm_api::v1alpha1::ClusterServiceVersion;
use serde_json::Value;

use crate::object;

/// Checks that no ClusterServiceVersion of `existing` other than `csv` itself owns one of its CustomResourceDefinitions.
///
/// # Errors
/// Another one owns an API of it, or several already contend.
pub(crate) fn check_owned_crds(
    csv: &Value,
    namespace: &str,
    existing: &[Arc<ClusterServiceVersion>],
) -> Result<(), String> {
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
            .filter(|other| other.spec.owns_crd(crd))
            .map(|other| other.name_any())
            .collect();
        owners.sort();
        match &owners[..] {
            [] => {}
            [owner] if owner == name => {}
            [_] => {
                return Err(format!(
                    "pre-existing CRD owners found for owned CRD(s) of dependent CSV {name}"
                ));
            }
            _ => {
                let owners = owners.join(" ");
                return Err(format!(
                    "error checking crd owners for: {name}: Existing CSVs [{owners}] in namespace {namespace} all claim to own CRD {crd}"
                ));
            }
        }
    }
    Ok(())
}
