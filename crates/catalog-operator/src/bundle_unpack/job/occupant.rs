//! Checks an existing ConfigMap with the name for a bundle. No I/O.
//!
//! Users who can write ConfigMaps may have created one that no Job can fill. They may have lost that right
//! since.

use olm_api::labels;
use olm_api::v1alpha1::CatalogSource;
use serde_json::Value;

use super::result::is_of_source;
use crate::object;

/// Usability of an existing ConfigMap with the name for a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Occupant {
    /// A Job can fill it, or has filled it.
    Usable,
    /// It is ours, but no Job can fill it: it is replaced.
    Spoiled,
    /// It is kept, and another name is used.
    Foreign,
}

/// Returns the usability of `config_map` for the catalog `source`. `is_vouched`: a Job has filled it;
/// `is_filled_now`: one of ours is running.
pub(crate) fn occupant(
    config_map: &Value,
    source: &CatalogSource,
    is_vouched: bool,
    is_filled_now: bool,
) -> Occupant {
    if is_leaving(config_map) || !is_of_source(config_map, source) {
        return Occupant::Foreign;
    }
    let is_immutable = config_map["immutable"] == true;
    let is_locked = is_immutable && !is_vouched && !is_filled_now;
    if is_ours(config_map) {
        return if is_locked {
            Occupant::Spoiled
        } else {
            Occupant::Usable
        };
    }
    // Upstream's have no label of ours, and plans refer to their content. An empty one is equivalent to none.
    let is_empty = ["data", "binaryData"].iter().all(|field| {
        let entries = config_map.get(*field).and_then(Value::as_object);
        entries.is_none_or(serde_json::Map::is_empty)
    });
    let is_others = is_locked || !(is_empty || is_vouched || is_filled_now);
    if is_others {
        Occupant::Foreign
    } else {
        Occupant::Usable
    }
}

/// True when it is being deleted.
pub(crate) fn is_leaving(config_map: &Value) -> bool {
    object::metadata_text(config_map, "deletionTimestamp").is_some()
}

/// True when it has the label of our ConfigMaps.
fn is_ours(config_map: &Value) -> bool {
    let metadata = &config_map["metadata"];
    let label = &metadata["labels"][labels::BUNDLE_UNPACK_REF];
    label.is_string() && *label == metadata["name"]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_stands_where_a_bundle_is_to_go_is_told_apart() {
        let source: CatalogSource = serde_json::from_value(
            json!({"metadata": {"namespace": "ns", "name": "cat", "uid": "u"}, "spec": {"sourceType": "grpc"}}),
        )
        .unwrap();
        let config_map = |label: bool, more: Value| {
            let owner = json!([{"apiVersion": "v1", "kind": "CatalogSource", "name": "cat", "uid": "u"}]);
            let mut found =
                json!({"metadata": {"namespace": "ns", "name": "n", "uid": "cm", "ownerReferences": owner}});
            if label {
                found["metadata"]["labels"] = json!({labels::BUNDLE_UNPACK_REF: "n"});
            }
            for (field, value) in more.as_object().unwrap() {
                found[field] = value.clone();
            }
            found
        };
        let of = |found: &Value, vouched, goes_on| occupant(found, &source, vouched, goes_on);
        let full = || json!({"binaryData": {"a": "b"}});
        let locked = || json!({"immutable": true});
        use Occupant::{Foreign, Spoiled, Usable};
        // By label: empty, full, and immutable ones, without Job, with a running one, and with one that
        // vouches for it.
        let rows = [
            (true, json!({}), [Usable, Usable, Usable]),
            (true, full(), [Usable, Usable, Usable]),
            (true, locked(), [Spoiled, Usable, Usable]),
            (false, json!({}), [Usable, Usable, Usable]),
            (false, full(), [Foreign, Usable, Usable]),
            (false, locked(), [Foreign, Usable, Usable]),
        ];
        for (label, more, expected) in rows {
            let found = config_map(label, more);
            let told = [
                of(&found, false, false),
                of(&found, false, true),
                of(&found, true, false),
            ];
            assert_eq!(told, expected, "{found}");
            let mut others = found.clone();
            others["metadata"]["ownerReferences"][0]["uid"] = json!("another");
            assert_eq!(of(&others, true, true), Foreign, "{others}");
            let mut leaving = found;
            leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            assert_eq!(of(&leaving, true, true), Foreign, "{leaving}");
        }
    }
}
