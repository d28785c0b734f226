//! CustomResourceDefinitions: served before the plan is complete, shared, and never to the loss of data.

use super::*;

/// Complete only when the API is served; until then the status names what is missing.
#[test]
fn plan_is_not_complete_before_its_crd_is_served() {
    let mut cluster = Cluster::with_plan(&[small()]);
    cluster.establishes = false;
    cluster.converge(PLAN);
    insta::assert_snapshot!(cluster.summary(PLAN), @r"
    Installing waiting for CustomResourceDefinition demos.example.com to be established
    ClusterServiceVersion/demo.v1 Created
    CustomResourceDefinition/demos.example.com WaitingForApi
    ServiceAccount/demo Created
    Role/demo.v1-demo-HASH Created
    RoleBinding/demo.v1-demo-HASH Created
    ClusterRole/demo.v1-HASH Created
    ClusterRoleBinding/demo.v1-HASH Created
    ");
    cluster.establish();
    cluster.converge(PLAN);
    assert!(
        cluster
            .summary(PLAN)
            .starts_with("Complete -\nInstalled=True - -"),
        "{}",
        cluster.summary(PLAN)
    );
}

#[test]
fn crd_that_vanishes_while_waited_for_is_made_again() {
    let mut cluster = Cluster::with_plan(&[small()]);
    cluster.establishes = false;
    cluster.converge(PLAN);
    cluster
        .objects
        .remove("CustomResourceDefinition demos.example.com");
    cluster.establishes = true;
    cluster.converge(PLAN);
    assert!(cluster.summary(PLAN).starts_with("Complete"));
    assert!(
        cluster
            .objects
            .contains_key("CustomResourceDefinition demos.example.com")
    );
}

/// A CRD that no server takes is told before anything is applied.
#[test]
fn old_crd_stops_the_plan_before_anything_is_applied() {
    let mut old = crd("demos.example.com");
    old["apiVersion"] = "apiextensions.k8s.io/v1beta1".into();
    let mut cluster = Cluster::with_plan(&[bundle("demo.v1", vec![old.clone()])]);
    cluster.converge(PLAN);
    assert_eq!(cluster.writes, ["patch InstallPlan ns/install-1 status"]);
    assert!(
        cluster.summary(PLAN).contains(
            "GroupVersionKind apiextensions.k8s.io/v1beta1, Kind=CustomResourceDefinition not found"
        ),
        "{}",
        cluster.summary(PLAN)
    );
    old["apiVersion"] = "apiextensions.k8s.io/v2".into();
    let mut cluster = Cluster::with_plan(&[bundle("demo.v1", vec![old])]);
    cluster.converge(PLAN);
    assert!(
        cluster
            .summary(PLAN)
            .contains("CRD APIVersion from manifest not supported: v2"),
        "{}",
        cluster.summary(PLAN)
    );
}

/// Case 70.
#[test]
fn crd_that_would_lose_data_is_not_touched() {
    let mut cluster = Cluster::with_plan(&[small()]);
    let mut existing = crd("demos.example.com");
    existing["status"] = json!({"storedVersions": ["v1alpha1", "v1"], "conditions": []});
    cluster.put(existing);
    cluster.converge(PLAN);
    assert!(
        cluster
            .summary(PLAN)
            .contains("risk of data loss updating \"demos.example.com\": new CRD removes version v1alpha1"),
        "{}",
        cluster.summary(PLAN)
    );
    assert!(
        !cluster
            .writes
            .iter()
            .any(|write| write.contains("CustomResourceDefinition"))
    );
}

/// An upgrade whose definition says nothing of conversion leaves it to the operator that serves it, in whatever namespace. Who
/// is elsewhere than the webhook's service does not serve it, nor does what the plan itself brings.
#[test]
fn a_conversion_stays_while_an_operator_serves_it() {
    let conversion = |namespace: &str| {
        json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"],
        "clientConfig": {"caBundle": "Q0E=", "service": {"name": "demo-service", "namespace": namespace, "port": 443}}}})
    };
    let none = json!({"strategy": "None"});
    // Where the service is, and who declares to convert.
    let rows = [
        ("elsewhere", Some(("elsewhere", "converter.v1")), true),
        ("elsewhere", None, false),
        ("elsewhere", Some(("tenant", "converter.v1")), false),
        ("ns", Some(("ns", "converter.v1")), true),
        ("ns", Some(("ns", "demo.v1")), false),
    ];
    for (service, declared, stays) in rows {
        let mut cluster = Cluster::with_plan(&[small()]);
        let mut existing = crd("demos.example.com");
        existing["spec"]["conversion"] = conversion(service);
        existing["status"] = json!(null);
        cluster.put(existing);
        cluster.establish();
        if let Some((namespace, name)) = declared {
            let mut csv = bundle(name, vec![]).csv;
            csv["metadata"]["namespace"] = namespace.into();
            csv["spec"]["customresourcedefinitions"] = json!({});
            csv["spec"]["webhookdefinitions"] = json!([{"type": "ConversionWebhook", "generateName": "c.demo",
                "sideEffects": "None", "admissionReviewVersions": ["v1"], "conversionCRDs": ["demos.example.com"]}]);
            cluster.put(csv);
        }
        cluster.converge(PLAN);
        let crd = &cluster.objects["CustomResourceDefinition demos.example.com"];
        let expected = if stays { conversion(service) } else { none.clone() };
        assert_eq!(crd["spec"]["conversion"], expected, "{service} {declared:?}");
    }
}

/// Case 67: a second operator's plan only adds its note to a CRD that is the same.
#[test]
fn shared_crd_gets_a_second_note() {
    let mut cluster = Cluster::with_plan(&[small()]);
    cluster.converge(PLAN);
    cluster.writes.clear();
    cluster.add_plan("install-2", &[bundle("other.v1", vec![crd("demos.example.com")])]);
    cluster.converge("install-2");
    let crd = &cluster.objects["CustomResourceDefinition demos.example.com"];
    let mut noted: Vec<_> = super::super::crd_upgrade::installed_alongside(crd).collect();
    noted.sort_unstable();
    assert_eq!(noted, ["ns/demo.v1", "ns/other.v1"]);
    assert!(
        cluster
            .summary("install-2")
            .contains("CustomResourceDefinition/demos.example.com Present")
    );
}

/// Case 72.
#[test]
fn csv_nobody_asked_for_does_not_take_an_api_away() {
    let mut cluster = Cluster::with_plan(&[small()]);
    cluster.plan_mut(PLAN)["spec"]["clusterServiceVersionNames"] = json!([]);
    let other = |name: &str| {
        let mut csv = bundle(name, vec![]).csv;
        csv["metadata"]["namespace"] = NAMESPACE.into();
        csv
    };
    cluster.put(other("other.v1"));
    cluster.converge(PLAN);
    assert!(
        cluster
            .summary(PLAN)
            .contains("pre-existing CRD owners found for owned CRD(s) of dependent CSV demo.v1"),
        "{}",
        cluster.summary(PLAN)
    );
    cluster.put(other("third.v1"));
    cluster.converge(PLAN);
    let text = "error checking crd owners for: demo.v1: Existing CSVs [other.v1 third.v1] in namespace ns all claim to own CRD demos.example.com";
    assert!(cluster.summary(PLAN).contains(text), "{}", cluster.summary(PLAN));
}
