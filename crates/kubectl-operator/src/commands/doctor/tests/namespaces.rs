//! Tests of namespaces: those of OLM, and one without operators.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_namespace_without_operators_is_reported() {
    let cluster = cluster();
    let (client, _link) = cluster.connect();
    let reader = Reader::new(&client, Duration::from_secs(60));
    for (namespace, expected) in [(Some("shop"), false), (Some("typo"), true), (None, false)] {
        let observed = Box::pin(observe(&reader, namespace, &own("olm"))).await;
        assert_eq!(observed.has_no_operators(), expected, "{namespace:?}");
    }
    cluster.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}));
    assert!(!reader.lacks("shop").await);
    assert!(reader.lacks("typo").await);
    // For users who may not read namespaces a missing one is not reported.
    cluster.on_request(|_| Some(Fault::Refuse(Refusal::new(403, "Forbidden", "it is forbidden"))));
    assert!(!reader.lacks("typo").await);
}

/// Programs are in `system`, global catalogs in `olm`. Neither is searched for in the other namespace.
#[tokio::test(start_paused = true)]
async fn olm_may_run_elsewhere_than_where_the_global_catalogs_are() {
    let cluster = cluster();
    for name in ["catalog-operator", "olm-operator"] {
        was(cluster.delete("Deployment", "olm", name));
        cluster.put(program("system", name));
    }
    // This program in `olm` must not replace the search in other namespaces.
    cluster.put(program("olm", "packageserver"));
    for namespace in [None, Some("shop")] {
        let found = diagnosed_in(&cluster, namespace).await;
        let text = found.text(false, Colours(false));
        assert!(text.contains("label in namespace olm"), "{text}");
        assert!(text.contains("--olm-namespace"), "{text}");
        let found = diagnosed_with(&cluster, namespace, &own("system")).await;
        assert!(found.healthy, "{}", found.text(true, Colours(false)));
    }
}
