//! Objects from files: what is told of odd ones, and what is taken as kubectl would take it.

use super::*;

const SUBSCRIPTION: &str = "
apiVersion: operators.coreos.com/v1alpha1
kind: Subscription
metadata: {name: db, namespace: shop}
spec: {name: etcd, channel: stable, source: cat, sourceNamespace: olm}
";

fn error(text: &str) -> String {
    let error = Objects::read(text).unwrap_err();
    match std::error::Error::source(&error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

#[test]
fn errors_name_object_field_and_way_out() {
    for (from, to, expected) in [
        (
            "spec:",
            "other:",
            "Subscription shop/db: field `spec.name`: is missing: name the package",
        ),
        (
            "source: cat, ",
            "",
            "Subscription shop/db: field `spec.source`: is missing: name the CatalogSource",
        ),
        (
            "channel: stable",
            "channel: 3",
            "Subscription shop/db: field `spec.channel`: invalid type: integer `3`, expected a string",
        ),
        (
            "name: db, ",
            "",
            "Subscription in document 1 of text has no name: set metadata.name",
        ),
        (
            "kind: Subscription",
            "schema: olm.bundle",
            "document 1 of text is part of a catalog and no Kubernetes object: name the catalog's directory instead of a file \
             of it",
        ),
        (
            "kind: Subscription",
            "",
            "document 1 of text is no Kubernetes object: it has no kind",
        ),
        ("kind: Subscription", "kind: [", "text: invalid YAML: line 5: "),
    ] {
        assert!(SUBSCRIPTION.contains(from), "{from}");
        let told = error(&SUBSCRIPTION.replace(from, to));
        assert!(told.starts_with(expected), "{told}");
    }
}

#[test]
fn documents_in_lists_are_found_by_their_place() {
    let list = "kind: List\nitems:\n- kind: OperatorGroup\n  metadata: {name: og}\n- {a: b}\n";
    assert_eq!(
        error(&format!("{SUBSCRIPTION}---\n{list}")),
        "item 2 of document 2 of text is no Kubernetes object: it has no kind"
    );
}

#[test]
fn what_has_no_effect_is_remarked() {
    let text = SUBSCRIPTION
        .replace("channel:", "chanel:")
        .replace("source: cat", "source: cat, installPlanApproval: manual");
    let others = "---\nkind: Pod\nmetadata: {name: p}\n---\nkind: Subscription\napiVersion: \
                  messaging.knative.dev/v1\nspec: {channel: {}}\n";
    let objects = Objects::read(&format!("{text}{others}")).unwrap();
    assert_eq!(
        objects.remarks().collect::<Vec<_>>(),
        [
            "not looked at, as they have no part in resolution: Pod, Subscription of messaging.knative.dev/v1",
            "Subscription shop/db: there is no field spec.chanel, it has no effect",
            "Subscription shop/db: field spec.installPlanApproval: `manual` counts as Automatic, only Manual asks for approval",
        ]
    );
    assert_eq!(Objects::read(SUBSCRIPTION).unwrap().remarks().count(), 0);
}

#[test]
fn an_object_given_again_takes_the_place_of_the_first() {
    let again = SUBSCRIPTION.replace("stable", "beta");
    let objects = Objects::read(&format!("{SUBSCRIPTION}---{again}")).unwrap();
    let question = objects.question("shop", "olm", BTreeMap::new());
    let channels: Vec<_> = question
        .problem
        .subscriptions
        .iter()
        .map(|s| &s.channel)
        .collect();
    assert_eq!(channels, ["beta"]);
}

#[test]
fn the_namespace_asked_for_is_that_of_objects_without_one() {
    let mut documents = document::parse(&SUBSCRIPTION.replace(", namespace: shop", ""), "text").unwrap();
    documents[0].put_into("here");
    documents[0].put_into("there");
    let objects = Objects::of(documents).unwrap();
    assert_eq!(objects.namespace(None).unwrap(), "here");
    let none = Objects::default()
        .namespace(Some("here"))
        .unwrap_err()
        .to_string();
    assert_eq!(
        none,
        "no Subscription in namespace here, nor elsewhere among the objects: choose another with --namespace"
    );
}
