//! Checks of manifests that need types and engines this crate does not have.

use serde_json::Value;

/// Checks that this crate cannot do itself, implemented by crates with the types and engines for them.
pub trait ManifestValidator {
    /// Returns why an object is not a ClusterServiceVersion, by the types of its fields; `None` if it is one.
    fn csv_problem(&self, csv: &Value) -> Option<String>;
    /// Returns why a text is not a CEL rule; `None` if it is one.
    fn rule_problem(&self, rule: &str) -> Option<String>;
}

/// Validates what needs neither types nor engines: a rule must not be empty or end in an operator or an opening bracket. For tests; `opm`
/// has both.
#[derive(Clone, Copy, Debug, Default)]
pub struct ShapeValidator;

impl ManifestValidator for ShapeValidator {
    fn csv_problem(&self, _: &Value) -> Option<String> {
        None
    }

    fn rule_problem(&self, rule: &str) -> Option<String> {
        let is_whole = rule.ends_with(|last: char| last.is_alphanumeric() || matches!(last, ')' | ']' | '"'));
        (!is_whole).then(|| "it is not whole".to_owned())
    }
}
