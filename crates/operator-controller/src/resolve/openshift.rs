//! The last minor version of OpenShift that a bundle works with.

use std::fmt;

use go_compat::semver::Version;
use olm_api::cluster_operator::MAX_OPENSHIFT_VERSION;
use olm_fbc::schema::Bundle;
use serde_json::Value;

/// A minor version of OpenShift. 4.23 and 5.0 are the same, and 5.0 is how it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Minor {
    major: u64,
    minor: u64,
}

impl Minor {
    /// Returns the minor version that a version belongs to.
    pub(super) fn of(version: &Version) -> Self {
        match (version.major, version.minor) {
            (4, 23) => Self { major: 5, minor: 0 },
            (major, minor) => Self { major, minor },
        }
    }
}

impl fmt::Display for Minor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Returns the last version that a bundle works with; `None` if it names none, or not a version.
pub(super) fn last_supported(bundle: &Bundle) -> Option<Minor> {
    let mut properties = bundle.properties.iter();
    let property = properties.find(|property| property.kind == MAX_OPENSHIFT_VERSION)?;
    let text = match &property.value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    Version::parse_tolerant(&text).ok().as_ref().map(Minor::of)
}
