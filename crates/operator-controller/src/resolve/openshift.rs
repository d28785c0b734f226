//! The last minor version of OpenShift that a bundle works with.

use go_compat::semver::Version;
use olm_api::cluster_operator::{MAX_OPENSHIFT_VERSION, Minor};
use olm_fbc::schema::Bundle;
use serde_json::Value;

/// Returns the last version that a bundle works with; `None` if it names none, or not a version.
pub(super) fn last_supported(bundle: &Bundle) -> Option<Minor> {
    let mut properties = bundle.properties.iter();
    let property = properties.find(|property| property.kind == MAX_OPENSHIFT_VERSION)?;
    let text = match &property.value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let version = Version::parse_tolerant(&text).ok()?;
    Some(Minor::of(&version).normalised())
}
