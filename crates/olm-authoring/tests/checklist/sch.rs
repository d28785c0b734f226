//! Properties without content.

use olm_authoring::lint::{Report, lint};
use olm_authoring::manifest_validator::ShapeValidator;
use serde_json::json;

use super::catalogs::{base, json_text, write};

/// Upstream's validation accepts them.
#[test]
fn sch_004_a_property_without_type_or_value_is_found_by_lint() {
    for (property, missing) in [
        (json!({"value": 1}), "type"),
        (json!({"type": "", "value": 1}), "type"),
        (json!({"type": "t", "value": null}), "value"),
    ] {
        let dir = tempfile::tempdir().expect("folder");
        let mut blobs = base();
        blobs[3]["properties"]
            .as_array_mut()
            .expect("list")
            .push(property);
        write(dir.path(), "c.json", &json_text(&blobs));
        let Report { faults, findings } = lint(dir.path(), &ShapeValidator);
        assert!(faults.is_empty(), "{faults}");
        let wanted = format!("property[2] has no {missing}");
        assert!(
            findings.iter().any(|finding| finding.message.contains(&wanted)),
            "{findings:?}"
        );
    }
}
