//! Single decisions that no whole way reaches.

use olm_fbc::entry::EntryProperty;

use super::super::plan_object::properties_text;

/// The text upstream left in a golden plan: compact, values as the catalog has them, characters escaped as Go does.
#[test]
fn properties_are_written_as_upstream_does() {
    let properties = [
        EntryProperty::new(
            "olm.gvk",
            r#"{"group": "example.com", "kind": "Demo", "version": "v1"}"#,
        ),
        EntryProperty::new("olm.package", r#"{"packageName":"demo","version":"1.0.0"}"#),
    ];
    assert_eq!(
        properties_text(&properties),
        r#"{"properties":[{"type":"olm.gvk","value":{"group":"example.com","kind":"Demo","version":"v1"}},{"type":"olm.package","value":{"packageName":"demo","version":"1.0.0"}}]}"#
    );
    let odd = [
        EntryProperty::new("range", "\">=1.0.0 \\\" <2\""),
        EntryProperty::new("number", " 1.50 "),
        EntryProperty::new("list", "[1, 2 ,\t3]"),
        EntryProperty::new("broken", "]"),
    ];
    assert_eq!(
        properties_text(&odd),
        r#"{"properties":[{"type":"range","value":"\u003e=1.0.0 \" \u003c2"},{"type":"number","value":1.50},{"type":"list","value":[1,2,3]}]}"#
    );
    assert_eq!(properties_text(&[]), "{}");
}
