//! CustomResourceDefinitions: served before the plan is complete, shared, and changed only without loss of data.

use std::sync::{Arc, Mutex};

use olm_testing::cluster::Verb;

use super::*;

/// Complete only when the API is served; until then the status names what is missing.
#[test]
fn plan_is_not_complete_before_its_crd_is_served() {
    let mut env = TestEnv::with_plan(&[small()]);
    env.set_establishing(false);
    env.settle();
    assert_eq!(env.count("patch InstallPlan"), 0, "mostly it takes a moment");
    env.converge();
    assert_eq!(env.count("patch InstallPlan"), 1);
    insta::assert_snapshot!(env.summary(PLAN), @r"
    Installing waiting for CustomResourceDefinition demos.example.com to be established
    ClusterServiceVersion/demo.v1 Created
    CustomResourceDefinition/demos.example.com WaitingForApi
    ServiceAccount/demo Created
    Role/demo.v1-demo-HASH Created
    RoleBinding/demo.v1-demo-HASH Created
    ClusterRole/demo.v1-HASH Created
    ClusterRoleBinding/demo.v1-HASH Created
    ");
    env.set_establishing(true);
    env.converge();
    env.assert_summary(PLAN, "Complete -\nInstalled=True - -");
}

/// Kubernetes since 1.31 serves none with a CA bundle that holds no certificate, and bundles bring `Cg==`.
#[test]
fn a_definition_comes_without_a_ca_bundle_that_is_none() {
    let mut definition = crd("demos.example.com");
    definition["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {
        "clientConfig": {"caBundle": "Cg==", "service": {"namespace": "ns", "name": "s"}}, "conversionReviewVersions": ["v1"],
    }});
    let mut env = with_inline_crd(&definition);
    env.converge();
    let made = env.find("CustomResourceDefinition demos.example.com").unwrap();
    let config = &made["spec"]["conversion"]["webhook"]["clientConfig"];
    assert_eq!(config["service"]["name"], "s");
    assert!(config.get("caBundle").is_none(), "{config}");

    // One that came before, with what a plan left there.
    let mut env = with_inline_crd(&definition);
    env.put(definition);
    env.converge();
    let made = env.find("CustomResourceDefinition demos.example.com").unwrap();
    let config = &made["spec"]["conversion"]["webhook"]["clientConfig"];
    assert!(config.get("caBundle").is_none(), "{config}");
}

#[test]
fn what_the_api_server_says_of_a_definition_is_reported_once_it_has_looked() {
    let told = |conditions: Value| {
        let crd = json!({"status": {"conditions": conditions}});
        super::super::crd_upgrade::why_not_established(&crd).map(str::to_owned)
    };
    let condition = |type_: &str, status: &str, reason: &str| json!({"type": type_, "status": status, "reason": reason, "message": reason});
    let accepted = condition("NamesAccepted", "True", "NoConflicts");
    assert_eq!(told(json!(null)), None);
    assert_eq!(
        told(json!([accepted, condition("Established", "False", "Installing")])),
        None
    );
    assert_eq!(
        told(json!([
            accepted,
            condition("Established", "False", "InvalidCABundle")
        ]))
        .unwrap(),
        "InvalidCABundle"
    );
    let conflict = [
        condition("Established", "False", "NotAccepted"),
        condition("NamesAccepted", "False", "PluralConflict"),
    ];
    assert_eq!(told(json!(conflict)).unwrap(), "PluralConflict");
    assert_eq!(told(json!([condition("Terminating", "False", "Other")])), None);
    assert_eq!(
        told(json!([
            accepted,
            condition("Established", "True", "InitialNamesAccepted")
        ])),
        None
    );
}

#[test]
fn crd_that_vanishes_while_waited_for_is_made_again() {
    let mut env = TestEnv::with_plan(&[small()]);
    env.set_establishing(false);
    env.converge();
    env.delete("CustomResourceDefinition demos.example.com");
    env.set_establishing(true);
    env.converge();
    env.assert_summary(PLAN, "Complete");
    assert!(env.find("CustomResourceDefinition demos.example.com").is_some());
}

/// A plan that carries its CustomResourceDefinition itself: a bundle image with one that is not served is not even taken.
fn with_inline_crd(crd: &Value) -> TestEnv {
    let env = TestEnv::with_plan(&[small()]);
    env.change_plan(PLAN, |plan| {
        let steps = plan["status"]["plan"].as_array_mut().unwrap();
        let is_crd = |step: &&mut Value| step["resource"]["kind"] == "CustomResourceDefinition";
        let step = steps.iter_mut().find(is_crd).unwrap();
        step["resource"]["manifest"] = crd.to_string().into();
    });
    env
}

/// Only the version counts, as for upstream: the kind says the group.
#[test]
fn a_definition_without_its_group_is_written_with_it() {
    let mut short = crd("demos.example.com");
    short["apiVersion"] = "v1".into();
    let of_image = TestEnv::with_plan(&[bundle("demo.v1", vec![short.clone()])]);
    for mut env in [with_inline_crd(&short), of_image] {
        env.converge();
        env.assert_summary(PLAN, "Complete");
        let made = env.object("CustomResourceDefinition demos.example.com");
        assert_eq!(made["apiVersion"], "apiextensions.k8s.io/v1");
    }
}

/// A definition that no API server accepts is reported before anything is applied.
#[test]
fn old_crd_stops_the_plan_before_anything_is_applied() {
    let mut old = crd("demos.example.com");
    old["apiVersion"] = "apiextensions.k8s.io/v1beta1".into();
    let mut env = with_inline_crd(&old);
    env.converge();
    assert_eq!(env.writes, ["patch InstallPlan ns/install-1 status"]);
    env.assert_told(
        PLAN,
        "GroupVersionKind apiextensions.k8s.io/v1beta1, Kind=CustomResourceDefinition not found",
    );
    old["apiVersion"] = "apiextensions.k8s.io/v2".into();
    let mut env = with_inline_crd(&old);
    env.converge();
    env.assert_told(PLAN, "CRD APIVersion from manifest not supported: v2");
}

#[test]
fn crd_that_would_lose_data_is_not_touched() {
    let mut env = TestEnv::with_plan(&[small()]);
    let mut existing = crd("demos.example.com");
    let established = ["Established", "NamesAccepted"].map(|name| json!({"type": name, "status": "True"}));
    existing["status"] = json!({"storedVersions": ["v1alpha1", "v1"], "conditions": established});
    env.put(existing);
    env.converge();
    env.assert_told(
        PLAN,
        "risk of data loss updating \"demos.example.com\": new CRD removes version v1alpha1",
    );
    assert!(
        !env.writes
            .iter()
            .any(|write| write.contains("CustomResourceDefinition"))
    );
    // The plan continues as soon as the stored versions are pruned, however long that takes, and polls less and less until then.
    env.settle_for(3600);
    env.assert_summary(
        PLAN,
        "Installing retrying execution due to error: risk of data loss",
    );
    let summary = env.summary(PLAN);
    assert!(!summary.contains("Failing="), "{summary}");
    let reads = Arc::<Mutex<usize>>::default();
    let seen = Arc::clone(&reads);
    env.cluster.on_request(move |request| {
        *seen.lock().unwrap() +=
            usize::from(request.verb == Verb::Get && request.kind.kind == "CustomResourceDefinition");
        None
    });
    env.settle_for(600);
    let reads = *reads.lock().unwrap();
    assert!(reads <= 11, "{reads}");
    env.change("CustomResourceDefinition demos.example.com", |crd| {
        crd["status"]["storedVersions"] = json!(["v1"]);
    });
    env.settle_for(1);
    env.assert_summary(PLAN, "Complete");
}

/// An upgrade whose definition has no conversion keeps that of the operator that serves it, in any namespace. An operator in
/// another namespace than the webhook's service does not serve it, nor does one of the plan itself.
#[test]
fn a_conversion_stays_while_an_operator_serves_it() {
    let conversion = |namespace: &str| {
        json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"],
        "clientConfig": {"caBundle": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCkFBQUEKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=", "service": {"name": "demo-service", "namespace": namespace, "port": 443}}}})
    };
    let none = json!({"strategy": "None"});
    // The service's namespace, and the operator that declares the conversion.
    let rows = [
        ("elsewhere", Some(("elsewhere", "converter.v1")), true),
        ("elsewhere", None, false),
        ("elsewhere", Some(("tenant", "converter.v1")), false),
        ("ns", Some(("ns", "converter.v1")), true),
        ("ns", Some(("ns", "demo.v1")), false),
    ];
    for (service, declared, stays) in rows {
        let mut env = TestEnv::new();
        let mut existing = crd("demos.example.com");
        existing["spec"]["conversion"] = conversion(service);
        env.put(existing);
        // Kubernetes establishes it.
        env.converge();
        env.add_plan(PLAN, &[small()]);
        if let Some((namespace, name)) = declared {
            let mut csv = bundle(name, vec![]).csv;
            csv["metadata"]["namespace"] = namespace.into();
            csv["spec"]["customresourcedefinitions"] = json!({});
            csv["spec"]["webhookdefinitions"] = json!([{"type": "ConversionWebhook", "generateName": "c.demo",
                "sideEffects": "None", "admissionReviewVersions": ["v1"], "conversionCRDs": ["demos.example.com"]}]);
            env.put(csv);
        }
        env.converge();
        let crd = env.object("CustomResourceDefinition demos.example.com");
        let expected = if stays { conversion(service) } else { none.clone() };
        assert_eq!(crd["spec"]["conversion"], expected, "{service} {declared:?}");
    }
}

/// A second operator's plan only adds its note to a CRD that is the same.
#[test]
fn shared_crd_gets_a_second_note() {
    let mut env = TestEnv::with_plan(&[small()]);
    env.converge();
    env.writes.clear();
    env.add_plan("install-2", &[bundle("other.v1", vec![crd("demos.example.com")])]);
    env.converge();
    let crd = env.object("CustomResourceDefinition demos.example.com");
    let mut noted: Vec<_> = super::super::crd_upgrade::installed_alongside(&crd).collect();
    noted.sort_unstable();
    assert_eq!(noted, ["ns/demo.v1", "ns/other.v1"]);
    env.assert_told("install-2", "CustomResourceDefinition/demos.example.com Present");
}

/// Two versions of one operator for two teams: if their definitions are equal, only the annotation is written.
#[test]
fn mt_002_another_version_with_the_same_definition_leaves_it_as_it_is() {
    let mut env = TestEnv::with_plan(&[small()]);
    env.converge();
    let name = "CustomResourceDefinition demos.example.com";
    // What the API server adds by itself.
    env.change(name, |crd| {
        crd["spec"]["conversion"] = json!({"strategy": "None"});
    });
    env.converge();
    let before = env.object(name)["spec"].clone();
    let written = Arc::<Mutex<Vec<Value>>>::default();
    let seen = Arc::clone(&written);
    env.cluster.on_request(move |request| {
        if request.verb.writes() && request.kind.kind == "CustomResourceDefinition" {
            seen.lock().unwrap().push(request.body.clone());
        }
        None
    });
    env.add_plan("install-2", &[bundle("demo.v2", vec![crd("demos.example.com")])]);
    env.converge();
    env.assert_told("install-2", "ClusterServiceVersion/demo.v2 Created");
    let after = env.object(name);
    assert_eq!(after["spec"], before);
    let noted: Vec<_> = super::super::crd_upgrade::installed_alongside(&after).collect();
    assert_eq!(noted, ["ns/demo.v1", "ns/demo.v2"]);
    env.settle_for(600);
    let written = written.lock().unwrap();
    assert_eq!(written.len(), 1, "{written:#?}");
    assert!(written[0].get("spec").is_none(), "{}", written[0]);
}

/// All teams share a definition: a competing one is refused, and the existing one stays unchanged.
#[test]
fn mt_004_a_version_whose_definition_competes_with_that_of_another_is_refused() {
    let mut env = TestEnv::with_plan(&[small()]);
    let mut theirs = crd("demos.example.com");
    let mut second = theirs["spec"]["versions"][0].clone();
    second["name"] = json!("v2");
    second["storage"] = json!(false);
    theirs["spec"]["versions"].as_array_mut().unwrap().push(second);
    theirs["status"] = json!({"storedVersions": ["v1", "v2"], "conditions": []});
    env.put(theirs.clone());
    env.converge();
    env.assert_told(
        PLAN,
        "risk of data loss updating \"demos.example.com\": new CRD removes version v2",
    );
    let found = env.object("CustomResourceDefinition demos.example.com");
    assert_eq!(found["spec"], theirs["spec"]);
    assert_eq!(env.count("create"), 0, "{:#?}", env.writes);
}

#[test]
fn csv_nobody_asked_for_does_not_take_an_api_away() {
    let mut env = TestEnv::with_plan(&[small()]);
    env.change_plan(PLAN, |plan| {
        plan["spec"]["clusterServiceVersionNames"] = json!([]);
    });
    let other = |name: &str| {
        let mut csv = bundle(name, vec![]).csv;
        csv["metadata"]["namespace"] = NAMESPACE.into();
        csv
    };
    env.put(other("other.v1"));
    env.converge();
    env.assert_told(
        PLAN,
        "pre-existing CRD owners found for owned CRD(s) of dependent CSV demo.v1",
    );
    env.put(other("third.v1"));
    env.converge();
    let text = "error checking crd owners for: demo.v1: Existing CSVs [other.v1 third.v1] in namespace ns all claim to own CRD demos.example.com";
    env.assert_told(PLAN, text);
}
