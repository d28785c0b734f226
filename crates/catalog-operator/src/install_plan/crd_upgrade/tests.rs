//! Changes of a definition that are allowed, and those that are refused.

use olm_runtime::plan::merge_patch;

use super::*;

fn stored(versions: &[&str]) -> Value {
    json!({"metadata": {"name": "demos.example.com"}, "status": {"storedVersions": versions}})
}

fn defined(versions: &[(&str, bool)]) -> Value {
    let versions: Vec<_> = versions
        .iter()
        .map(|(name, served)| json!({"name": name, "served": served}))
        .collect();
    json!({"metadata": {"name": "demos.example.com"}, "spec": {"versions": versions}})
}

#[test]
#[allow(clippy::type_complexity)] // A table.
fn a_stored_version_must_stay_defined() {
    let rows: [(&[&str], &[(&str, bool)], Option<&str>); 5] = [
        (&["v1"], &[("v1", true)], None),
        (&["v1"], &[("v1", false), ("v2", true)], None),
        (&["v1alpha1", "v1"], &[("v1", true)], Some("v1alpha1")),
        (&["v1"], &[("v2", true)], Some("v1")),
        (&[], &[("v2", true)], None),
    ];
    for (before, after, removed) in rows {
        let found = check_stored_versions(&stored(before), &defined(after));
        let found = found.err().map(|error| {
            assert!(error.waits_for_people() && !error.is_lasting(), "{error}");
            let (_, rest) = error.message.split_once("new CRD removes version ").unwrap();
            let (version, _) = rest.split_once(" that is listed as a stored version").unwrap();
            version.to_owned()
        });
        assert_eq!(found.as_deref(), removed, "{before:?} {after:?}");
    }
}

/// The text names the commands, which an API server takes: it asks for the version that is written now among the stored ones.
#[test]
fn what_prunes_the_stored_versions_is_reported() {
    let definition = |versions: &[(&str, bool)], stored: &[&str]| {
        let versions: Vec<_> = versions
            .iter()
            .map(|(name, storage)| json!({"name": name, "served": true, "storage": storage}))
            .collect();
        json!({"metadata": {"name": "demos.example.com"}, "spec": {"versions": versions}, "status": {"storedVersions": stored}})
    };
    let told = |current: &Value, wanted: &[(&str, bool)]| {
        let error = check_stored_versions(current, &definition(wanted, &[])).unwrap_err();
        error.to_string()
    };
    let written = definition(&[("v1alpha1", false), ("v1", true)], &["v1alpha1", "v1"]);
    insta::assert_snapshot!(told(&written, &[("v1", true)]), @r#"risk of data loss updating "demos.example.com": new CRD removes version v1alpha1 that is listed as a stored version on the existing CRD; to continue, store all objects in v1: kubectl get demos.example.com -A -o yaml | kubectl replace -f -; kubectl patch crd demos.example.com --subresource status --type merge -p '{"status":{"storedVersions":["v1"]}}'"#);
    let served = definition(&[("v1alpha1", true), ("v1", false)], &["v1alpha1"]);
    insta::assert_snapshot!(told(&served, &[("v2", true), ("v1", false)]), @r#"risk of data loss updating "demos.example.com": new CRD removes version v1alpha1 that is listed as a stored version on the existing CRD; to continue, store all objects in v1: kubectl patch crd demos.example.com --type json -p '[{"op":"add","path":"/spec/versions/0/storage","value":false},{"op":"add","path":"/spec/versions/1/storage","value":true}]'; kubectl get demos.example.com -A -o yaml | kubectl replace -f -; kubectl patch crd demos.example.com --subresource status --type merge -p '{"status":{"storedVersions":["v1"]}}'"#);
    insta::assert_snapshot!(told(&served, &[("v2", true)]), @r#"risk of data loss updating "demos.example.com": new CRD removes version v1alpha1 that is listed as a stored version on the existing CRD; the existing CRD defines no version of the new one; the operator needs an intermediate release that has both"#);
}

#[test]
#[allow(clippy::type_complexity)] // A table.
fn crd_002_a_served_version_of_several_owners_stays() {
    let rows: [(usize, &[(&str, bool)], Option<&str>); 5] = [
        (0, &[("v2", true)], None),
        (1, &[("v2", true)], Some("v1")),
        (1, &[("v1", true), ("v2", true)], None),
        (1, &[("v1", false), ("v2", true)], None),
        (2, &[], Some("v1")),
    ];
    let current = defined(&[("v1", true), ("v1beta1", false)]);
    for (owners, after, removed) in rows {
        let found = check_served_versions(&current, &defined(after), owners);
        let expected = removed.map(|version| {
            StepError::lasting(format!(
                "not allowing CRD (demos.example.com) update with multiple owners: new CRD removes version {version} that is served by the existing CRD, and {owners} other ClusterServiceVersion(s) own it"
            ))
        });
        assert_eq!(found.err(), expected, "{owners} {after:?}");
    }
}

#[test]
fn only_a_schema_that_asks_for_something_else_is_a_change() {
    let crd = |served: bool, schema: Value| json!({"spec": {"versions": [{"name": "v1", "served": served, "schema": {"openAPIV3Schema": schema}}]}});
    let old = json!({"type": "object", "description": "old", "properties": {
        "description": {"type": "string", "description": "old"}, "a": {"type": "integer", "required": []}}});
    let edited = |edit: &dyn Fn(&mut Value)| {
        let mut new = old.clone();
        edit(&mut new);
        new
    };
    let rows = [
        (old.clone(), false),
        (edited(&|new| new["description"] = "new".into()), false),
        (
            edited(&|new| new["properties"]["description"]["description"] = "new".into()),
            false,
        ),
        (
            edited(&|new| new["properties"]["a"] = json!({"type": "integer"})),
            false,
        ),
        (
            edited(&|new| new["properties"]["description"]["type"] = "integer".into()),
            true,
        ),
        (edited(&|new| new["properties"]["a"]["minimum"] = 1.into()), true),
        (edited(&|new| new["properties"]["a"]["default"] = "".into()), true),
        (
            edited(&|new| new["properties"]["b"] = json!({"type": "string"})),
            true,
        ),
        (edited(&|new| new["required"] = json!(["a"])), true),
        (Value::Null, false),
    ];
    for (new, is_change) in rows {
        let found = changed_schemas(&crd(true, old.clone()), &crd(true, new.clone()));
        assert_eq!(!found.is_empty(), is_change, "{new}");
        // A version that is not served before and after has no objects to check.
        assert!(changed_schemas(&crd(false, old.clone()), &crd(true, new.clone())).is_empty());
        assert!(changed_schemas(&crd(true, old.clone()), &crd(false, new)).is_empty());
    }
}

/// The key is the one found in a real cluster.
#[test]
fn crd_notes_the_csv_it_came_with() {
    let mut crd = json!({"metadata": {"name": "x"}});
    note_installed_alongside(&mut crd, "golden", "demo.v1.0.0");
    assert_eq!(
        crd["metadata"]["annotations"],
        json!({"operatorframework.io/installed-alongside-7f358681829f3b85": "golden/demo.v1.0.0"})
    );
    note_installed_alongside(&mut crd, "", "demo.v1.0.0");
    note_installed_alongside(&mut crd, "golden", "");
    assert_eq!(
        installed_alongside(&crd).collect::<Vec<_>>(),
        ["golden/demo.v1.0.0"]
    );
}

/// A second plan adds its annotation; those of deleted ClusterServiceVersions are removed.
#[test]
fn notes_of_vanished_csvs_are_dropped() {
    let mut current =
        json!({"metadata": {"name": "x", "annotations": {"foreign": "kept"}}, "spec": {"group": "g"}});
    note_installed_alongside(&mut current, "a", "alive.v1");
    note_installed_alongside(&mut current, "a", "gone.v1");
    let mut wanted = json!({"metadata": {"name": "x"}, "spec": {"group": "g"}});
    note_installed_alongside(&mut wanted, "b", "new.v1");
    let merged = merged(&current, &wanted, |csv| csv == "a/alive.v1", false);
    assert_eq!(
        installed_alongside(&merged).collect::<BTreeSet<_>>(),
        BTreeSet::from(["a/alive.v1", "b/new.v1"])
    );
    assert_eq!(merged["metadata"]["annotations"]["foreign"], "kept");
}

/// What an API server stores for a definition is no difference to it.
#[test]
fn defaults_of_the_api_server_are_no_change() {
    let current = json!({"spec": {
        "group": "example.com", "scope": "Namespaced", "conversion": {"strategy": "None"},
        "names": {"kind": "Demo", "plural": "demos", "listKind": "DemoList", "singular": "demo"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
    let wanted = json!({"spec": {
        "group": "example.com", "scope": "Namespaced", "preserveUnknownFields": false,
        "names": {"kind": "Demo", "plural": "demos"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "description": "", "required": []}}}]}});
    assert_eq!(
        merge_patch(&current, &merged(&current, &wanted, |_| true, false)),
        None
    );
}

#[test]
fn a_conversion_that_says_nothing_is_none_at_once() {
    for said in [
        json!({"strategy": []}),
        json!({"strategy": ""}),
        json!({}),
        json!(null),
    ] {
        let wanted = json!({"spec": {"group": "g", "conversion": said}});
        for stored in [json!({}), json!({"strategy": "None"}), json!(null)] {
            let current = json!({"spec": {"group": "g", "conversion": stored}});
            let once = merged(&current, &wanted, |_| true, false);
            let twice = merged(&once, &wanted, |_| true, false);
            assert_eq!(merge_patch(&once, &twice), None, "{current} {wanted}");
        }
    }
}

/// Found by fuzzing: a field dropped as empty returned as a change in the next reconcile.
#[test]
fn a_field_of_empty_values_is_absent_at_once() {
    for names in [
        json!({"": ""}),
        json!({"plural": null}),
        json!({"shortNames": []}),
    ] {
        let wanted = json!({"spec": {"group": "g", "names": names}});
        for stored in [json!({}), json!(null), json!({"": ""})] {
            let current = json!({"spec": {"group": "g", "names": stored}});
            let once = merged(&current, &wanted, |_| true, false);
            let twice = merged(&once, &wanted, |_| true, false);
            assert_eq!(merge_patch(&once, &twice), None, "{current} {wanted}");
        }
    }
    let status = json!({"spec": {"group": "g", "subresources": {"status": {}}}});
    let none = json!({"spec": {"group": "g"}});
    assert_eq!(
        merged(&none, &status, |_| true, false)["spec"],
        status["spec"],
        "an empty object inside means something"
    );
}

/// An injected CA survives an upgrade, a conversion that is no longer wanted does not.
#[test]
fn injected_conversion_ca_survives() {
    let current = json!({"spec": {"conversion": {"strategy": "Webhook", "webhook": {
        "conversionReviewVersions": ["v1"], "clientConfig": {"caBundle": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCkFBQUEKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=", "service": {"name": "s", "namespace": "n", "path": "/", "port": 443}}}}}});
    let wanted = json!({"spec": {"conversion": {"strategy": "Webhook", "webhook": {
        "conversionReviewVersions": ["v1"], "clientConfig": {"service": {"name": "s", "namespace": "n"}}}}}});
    assert_eq!(
        merge_patch(&current, &merged(&current, &wanted, |_| true, false)),
        None
    );
    let without = json!({"spec": {"group": "g"}});
    assert_eq!(
        merged(&current, &without, |_| true, false)["spec"]["conversion"],
        json!({"strategy": "None"})
    );
}

/// A bundle's definition has no conversion, or strategy `None`: while an operator serves the conversion, it stays.
#[test]
fn a_conversion_that_an_operator_serves_stays() {
    let served = json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"],
        "clientConfig": {"caBundle": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCkFBQUEKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=", "service": {"name": "demo-service", "namespace": "n", "port": 443}}}});
    let current = json!({"spec": {"group": "g", "conversion": served}});
    for wanted in [
        json!({"spec": {"group": "g"}}),
        json!({"spec": {"group": "g", "conversion": {"strategy": "None"}}}),
        json!({"spec": {"group": "g", "conversion": {"strategy": "Webhook", "webhook": {
            "conversionReviewVersions": ["v1"], "clientConfig": {"service": {"name": "placeholder", "namespace": "system"}}}}}}),
    ] {
        let kept = merged(&current, &wanted, |_| true, true);
        assert_eq!(merge_patch(&current, &kept), None, "{wanted}");
        assert!(merge_patch(&current, &merged(&current, &wanted, |_| true, false)).is_some());
    }
    let none = json!({"spec": {"group": "g"}});
    assert_eq!(merge_patch(&none, &merged(&none, &none, |_| true, true)), None);
    // No operator serves a default value, so it must not block the first webhook of a definition.
    let default = json!({"spec": {"group": "g", "conversion": {"strategy": "None"}}});
    let wanted = json!({"spec": {"group": "g", "conversion": served}});
    assert_eq!(
        merged(&default, &wanted, |_| true, true)["spec"]["conversion"],
        served
    );
}

/// Values of the wrong type are left to the API server to refuse, and must not cause a panic.
#[test]
fn definitions_of_any_shape_are_merged() {
    let shapes = [
        json!("x"),
        json!(1),
        json!([]),
        json!(null),
        json!({}),
        json!({"listKind": 1}),
    ];
    for field in ["names", "conversion", "versions"] {
        for shape in &shapes {
            for current in [
                json!({"spec": {"names": {"listKind": "L", "singular": "s"}, "conversion": {"strategy": "None"}}}),
                json!({"spec": {field: shape}}),
                json!({"spec": shape, "metadata": shape}),
                shape.clone(),
            ] {
                let wanted = json!({"spec": {field: shape}});
                for converted in [false, true] {
                    merged(&current, &wanted, |_| true, converted);
                    merged(
                        &current,
                        &json!({"spec": shape, "metadata": shape}),
                        |_| true,
                        converted,
                    );
                }
            }
        }
    }
    let current = json!({"spec": {"names": {"listKind": "L"}}});
    let merged = merged(&current, &json!({"spec": {"names": "x"}}), |_| true, false);
    assert_eq!(merged["spec"]["names"], "x");
}

#[test]
fn a_new_version_is_the_only_change() {
    let version = |name: &str, storage: bool| json!({"name": name, "served": true, "storage": storage});
    let current = json!({"spec": {"group": "g", "versions": [version("v1", true)]}});
    let wanted = json!({"spec": {"group": "g", "versions": [version("v1", false), version("v2", true)]}});
    assert_eq!(
        merge_patch(&current, &merged(&current, &wanted, |_| true, false)),
        Some(json!({"spec": {"versions": [version("v1", false), version("v2", true)]}}))
    );
}

/// An empty object can be the whole point of a change.
#[test]
fn a_new_status_subresource_is_a_change() {
    let crd = |subresources: Value| json!({"spec": {"group": "g", "versions": [{"name": "v1", "subresources": subresources}]}});
    let (current, wanted) = (crd(json!({"scale": {}})), crd(json!({"scale": {}, "status": {}})));
    assert!(merge_patch(&current, &merged(&current, &wanted, |_| true, false)).is_some());
}

#[test]
fn a_definition_is_served_when_both_conditions_are_true() {
    let crd = |established: &str, accepted: &str| json!({"status": {"conditions": [{"type": "Established", "status": established}, {"type": "NamesAccepted", "status": accepted}]}});
    assert!(is_established(&crd("True", "True")));
    assert!(!is_established(&crd("True", "False")));
    assert!(!is_established(&crd("False", "True")));
    assert!(!is_established(&json!({})));
}
