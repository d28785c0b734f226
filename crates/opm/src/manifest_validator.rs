//! Checks that the authoring library cannot do itself: the types of a ClusterServiceVersion, and CEL rules.

use olm_authoring::manifest_validator::ManifestValidator;
use olm_resolver::cel::Rule;
use serde_json::Value;

/// Validates with the operators' own types and the resolver's own engine, so a manifest that passes here can be installed and
/// resolved there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EngineValidator;

impl ManifestValidator for EngineValidator {
    fn csv_problem(&self, csv: &Value) -> Option<String> {
        let csv = match olm_api::decode_csv_manifest(csv.clone()) {
            Ok(csv) => csv,
            Err(error) => return Some(error.to_string()),
        };
        csv.spec.install.deployments().iter().find_map(|deployment| {
            let object = format!("deployment {:?}", deployment.name);
            Some(deployment.spec.decode(&object).err()?.to_string())
        })
    }

    fn rule_problem(&self, rule: &str) -> Option<String> {
        let error = Rule::compile(rule).err()?;
        Some(error.to_string())
    }
}
