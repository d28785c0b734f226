//! Checks that the authoring library cannot do itself: the types of a ClusterServiceVersion, and CEL rules.

use olm_api::DecodeError;
use olm_api::v1alpha1::ClusterServiceVersion;
use olm_authoring::bundle::object::unreadable_csv;
use olm_authoring::manifest_validator::ManifestValidator;
use olm_fbc::manifest::CSV_KIND;
use olm_resolver::cel::Rule;
use serde_json::Value;

/// Start of a reason for a boolean in the place of another type.
const BOOLEAN: &str = "invalid type: boolean";

/// Returns an error with its usual cause, if the field has a boolean.
fn with_yaml_hint(error: &DecodeError) -> String {
    match error.reason.starts_with(BOOLEAN) {
        true => format!(
            "{error}; YAML 1.1 reads N, no, off, Y, yes and on as booleans, so put such text in quotes"
        ),
        false => error.to_string(),
    }
}

/// Returns why clusters cannot read an object in JSON, and the consequences; `None` if they can, or if it is no
/// ClusterServiceVersion.
pub(crate) fn check_csv(text: &str) -> Option<String> {
    // Most decode as they are, which takes a part of the time.
    if serde_json::from_str::<ClusterServiceVersion>(text).is_ok() {
        return None;
    }
    let object: Value = serde_json::from_str(text).ok()?;
    let problem = (object["kind"] == CSV_KIND).then(|| EngineValidator.csv_problem(&object));
    Some(unreadable_csv(&problem.flatten()?))
}

/// Validates with the operators' own types and the resolver's own engine, so a manifest that passes here can be installed and
/// resolved there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EngineValidator;

impl ManifestValidator for EngineValidator {
    fn csv_problem(&self, csv: &Value) -> Option<String> {
        let csv = match olm_api::decode_csv_manifest(csv.clone()) {
            Ok(csv) => csv,
            Err(error) => return Some(with_yaml_hint(&error)),
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
