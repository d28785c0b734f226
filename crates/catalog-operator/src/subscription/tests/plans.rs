//! A Subscription and its InstallPlan: references, state, loss and adoption.

use super::*;

/// One write with the plan, one with the ClusterServiceVersion, one when the plan is complete, then no more.
#[test]
fn a_new_subscription_is_written_three_times() {
    let catalogs = [healthy("cat")];
    let mut object = subscription(Value::Null);
    let mut writes = Vec::new();
    let mut round = |plan_status: Value, csvs: &[&str], assign: bool| {
        let plan = plan("install-abc", plan_status);
        let assignment = Assignment {
            plan: Arc::clone(&plan),
            csv: "demo.v1".to_owned(),
        };
        let facts = Facts {
            outcome: &ResolutionOutcome::Resolved,
            assignment: assign.then_some(&assignment),
            ..quiet(&catalogs)
        };
        let next = composed(&object, &namespace_state(&[plan], csvs), &facts);
        if is_worth_writing(object.status.as_ref(), &next) {
            object = with(&object, next.clone());
            writes.push(format!(
                "{} {} {}\n{}",
                next.state,
                next.current_csv.clone().unwrap_or_default(),
                next.installed_csv.clone().unwrap_or_default(),
                conditions_text(&next)
            ));
        }
    };
    round(in_phase("Installing"), &[], true);
    round(in_phase("Installing"), &[], false);
    round(in_phase("Installing"), &["demo.v1"], false);
    round(in_phase("Complete"), &["demo.v1"], false);
    round(in_phase("Complete"), &["demo.v1"], false);
    insta::assert_snapshot!(writes.join("\n---\n"), @r"
    UpgradePending demo.v1 
    CatalogSourcesUnhealthy=False/AllCatalogSourcesHealthy: all available catalogsources are healthy
    InstallPlanPending=True/Installing
    ---
    AtLatestKnown demo.v1 demo.v1
    CatalogSourcesUnhealthy=False/AllCatalogSourcesHealthy: all available catalogsources are healthy
    InstallPlanPending=True/Installing
    ---
    AtLatestKnown demo.v1 demo.v1
    CatalogSourcesUnhealthy=False/AllCatalogSourcesHealthy: all available catalogsources are healthy
    ");
}

/// The message of a plan without one is that of its ClusterServiceVersion, so the end of the plan is not worth a write.
#[test]
fn the_end_of_a_plan_changes_nothing_while_its_csv_is_installed() {
    let catalogs = [healthy("cat")];
    let object = subscription(merged(&[
        reference("install-1"),
        json!({"state": "UpgradePending", "currentCSV": "demo.v1"}),
    ]));
    let status_in = |phase: &str| {
        let state = NamespaceState {
            csvs: Csvs::from([csv_in_phase("demo.v1", "Pending")]),
            ..namespace_state(&[plan("install-1", in_phase(phase))], &[])
        };
        composed(&object, &state, &quiet(&catalogs))
    };
    let status = status_in("Installing");
    let text = "InstallPlanPending=True/Installing: waiting for ClusterServiceVersion demo.v1 to succeed";
    assert!(conditions_text(&status).contains(text), "{status:?}");
    assert!(!is_worth_writing(Some(&status), &status_in("Complete")));
}

/// Compares with the objects that upstream left in a cluster, field by field.
#[test]
fn the_status_has_upstreams_fields() {
    let plan = plan("install-5xrf2", in_phase("RequiresApproval"));
    let assignment = Assignment {
        plan: Arc::clone(&plan),
        csv: "demo.v1.0.0".to_owned(),
    };
    let catalogs = [healthy("cat")];
    let facts = Facts {
        outcome: &ResolutionOutcome::Resolved,
        assignment: Some(&assignment),
        ..quiet(&catalogs)
    };
    let status = composed(&subscription(Value::Null), &namespace_state(&[plan], &[]), &facts);
    insta::assert_json_snapshot!(status, @r#"
    {
      "currentCSV": "demo.v1.0.0",
      "state": "UpgradePending",
      "installPlanGeneration": 1,
      "installPlanRef": {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "InstallPlan",
        "name": "install-5xrf2",
        "namespace": "ns",
        "resourceVersion": "7",
        "uid": "uid-install-5xrf2"
      },
      "installplan": {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "InstallPlan",
        "name": "install-5xrf2",
        "uuid": "uid-install-5xrf2"
      },
      "catalogHealth": [
        {
          "catalogSourceRef": {
            "apiVersion": "operators.coreos.com/v1alpha1",
            "kind": "CatalogSource",
            "name": "cat",
            "namespace": "ns",
            "uid": "uid-cat"
          },
          "lastUpdated": "2026-11-20T22:00:00Z",
          "healthy": true
        }
      ],
      "conditions": [
        {
          "type": "CatalogSourcesUnhealthy",
          "status": "False",
          "reason": "AllCatalogSourcesHealthy",
          "message": "all available catalogsources are healthy",
          "lastTransitionTime": "2026-11-20T22:00:00Z"
        },
        {
          "type": "InstallPlanPending",
          "status": "True",
          "reason": "RequiresApproval",
          "lastTransitionTime": "2026-11-20T22:00:00Z"
        },
        {
          "type": "Ready",
          "status": "False",
          "reason": "RequiresApproval",
          "lastTransitionTime": "2026-11-20T22:00:00Z"
        }
      ],
      "lastUpdated": "2026-11-20T22:00:00Z"
    }
    "#);
}

/// A lost plan is forgotten and can be recreated, also without a related condition.
#[test]
fn a_plan_lost_on_the_way_is_forgotten() {
    let object = subscription(merged(&[
        reference("gone"),
        json!({"state": "UpgradePending", "currentCSV": "demo.v1", "installPlanGeneration": 1, "lastUpdated": "2026-01-01T00:00:00Z"}),
    ]));
    let status = settle(&object, &namespace_state(&[], &[]));
    assert_eq!(
        (status.install_plan_ref, status.install_plan, status.current_csv),
        (None, None, None)
    );
    assert_eq!(status.state, SubscriptionState::None);
    assert_eq!(
        status.install_plan_generation,
        Some(1),
        "the next plan still has a higher generation"
    );
    assert!(is_worth_writing(
        object.status.as_ref(),
        &composed(&object, &namespace_state(&[], &[]), &quiet(&[healthy("cat")]))
    ));
}

#[test]
fn a_plan_lost_later_is_reported_missing() {
    let object = subscription(merged(&[
        reference("gone"),
        json!({
            "state": "AtLatestKnown", "currentCSV": "demo.v1", "installedCSV": "demo.v1", "lastUpdated": "2026-01-01T00:00:00Z",
            "conditions": [{"type": "InstallPlanPending", "status": "True", "reason": "Installing"}],
        }),
    ]));
    let status = composed(
        &object,
        &namespace_state(&[], &["demo.v1"]),
        &quiet(&[healthy("cat")]),
    );
    insta::assert_snapshot!(conditions_text(&status), @r"
    CatalogSourcesUnhealthy=False/AllCatalogSourcesHealthy: all available catalogsources are healthy
    InstallPlanMissing=True/ReferencedInstallPlanNotFound
    ");
    assert_eq!(status.state, SubscriptionState::AtLatestKnown);
}

/// A later plan of the old name is another plan.
#[test]
fn a_namesake_of_a_lost_plan_is_not_taken_for_it() {
    let object = subscription(merged(&[
        reference("install-1"),
        json!({"state": "UpgradePending", "currentCSV": "demo.v1"}),
    ]));
    let mut namesake = InstallPlan::clone(&plan("install-1", in_phase("Installing")));
    namesake.metadata.uid = Some("other".to_owned());
    assert_eq!(
        settle(&object, &namespace_state(&[Arc::new(namesake)], &[])).state,
        SubscriptionState::None
    );
}

#[test]
fn the_plan_condition_follows_the_plan() {
    let rows = [
        (Value::Null, "InstallPlanPending=True/InstallPlanNotYetReconciled"),
        (
            in_phase(""),
            "InstallPlanPending=True/InstallPlanNotYetReconciled",
        ),
        (in_phase("Planning"), "InstallPlanPending=True/Planning"),
        (
            in_phase("RequiresApproval"),
            "InstallPlanPending=True/RequiresApproval",
        ),
        (in_phase("Installing"), "InstallPlanPending=True/Installing"),
        (in_phase("Complete"), ""),
        (in_phase("Failed"), "InstallPlanFailed=True/InstallPlanFailed"),
        (
            json!({"phase": "Failed", "catalogSources": [], "conditions": [{"type": "Installed", "status": "False", "reason": "InstallComponentFailed", "message": "no rights"}]}),
            "InstallPlanFailed=True/InstallComponentFailed: no rights",
        ),
        (
            json!({"phase": "RequiresApproval", "catalogSources": [], "conditions": [{"type": "Installed", "status": "False", "reason": "InstallCheckFailed", "message": "no operator group found that is managing this namespace"}]}),
            "InstallPlanPending=True/RequiresApproval: no operator group found that is managing this namespace",
        ),
        (
            json!({"phase": "Installing", "catalogSources": [], "message": "retrying execution due to error: x"}),
            "InstallPlanPending=True/Installing: retrying execution due to error: x",
        ),
        (
            json!({"phase": "Installing", "catalogSources": [], "bundleLookups": [
                {"path": "a", "identifier": "a", "replaces": "", "catalogSourceRef": {}, "conditions": [{"type": "BundleLookupPending", "status": "True", "message": "unpacking a"}]},
                {"path": "b", "identifier": "b", "replaces": "", "catalogSourceRef": {}, "conditions": [{"type": "BundleLookupPending", "status": "True", "message": "unpacking b"}]},
            ]}),
            "InstallPlanPending=True/Installing: unpacking a. unpacking b.",
        ),
    ];
    let stale = json!({"conditions": [
        {"type": "InstallPlanMissing", "status": "True"}, {"type": "InstallPlanPending", "status": "True", "reason": "x"},
        {"type": "InstallPlanFailed", "status": "True", "reason": "x"},
    ]});
    for (plan_status, expected) in rows {
        let object = subscription(merged(&[reference("install-1"), stale.clone()]));
        let status = composed(
            &object,
            &namespace_state(&[plan("install-1", plan_status)], &[]),
            &quiet(&[healthy("cat")]),
        );
        let told = conditions_text(&status)
            .lines()
            .filter(|line| !line.starts_with("Catalog"))
            .collect::<Vec<_>>()
            .join("\n");
        assert_eq!(told, expected);
    }
}

/// Adoption does not need the ClusterServiceVersion, and a deleted plan does not block it.
#[test]
fn a_generated_subscription_adopts_its_plan() {
    let mut object = subscription(Value::Null);
    object.spec.starting_csv = Some("dep.v1".to_owned());
    object.metadata.annotations = Some(BTreeMap::from([(
        labels::GENERATED_BY.to_owned(),
        "install-1".to_owned(),
    )]));
    let bringing = |phase: &str, name: &str| {
        let step = json!({"resolving": "dep.v1", "status": "Created", "resource": {"sourceName": "cat",
            "sourceNamespace": "ns", "group": "operators.coreos.com", "version": "v1alpha1", "kind": "Subscription", "name": name}});
        merged(&[in_phase(phase), json!({"plan": [step]})])
    };
    let own = object.name_any();
    let adopted = settle(
        &object,
        &namespace_state(&[plan("install-1", bringing("Installing", &own))], &[]),
    );
    assert_eq!(install_plan::referenced(&adopted), Some("install-1"));
    assert_eq!(
        (adopted.state, adopted.current_csv.as_deref()),
        (SubscriptionState::UpgradePending, Some("dep.v1"))
    );
    assert_eq!(
        adopted.install_plan_generation, None,
        "set by its first own upgrade"
    );
    let arrived = settle(
        &object,
        &namespace_state(&[plan("install-1", bringing("Complete", &own))], &["dep.v1"]),
    );
    assert_eq!(
        (arrived.state, arrived.installed_csv.as_deref()),
        (SubscriptionState::AtLatestKnown, Some("dep.v1"))
    );
    assert_eq!(
        settle(&object, &namespace_state(&[], &[])),
        SubscriptionStatus::default()
    );
    // A plan of the same name: just created, or with other Subscriptions.
    for namesake in [Value::Null, bringing("Installing", "another")] {
        let settled = settle(&object, &namespace_state(&[plan("install-1", namesake)], &[]));
        assert_eq!(settled, SubscriptionStatus::default());
    }
}

/// A deleted Subscription can be created again for the version that it left.
#[test]
fn a_new_subscription_adopts_the_version_that_it_asks_for() {
    for (starting, package, phase, subscribed, is_adopted) in [
        ("demo.v1", "demo", "Succeeded", "", true),
        ("demo.v1", "demo", "Failed", "demo.v2", true),
        ("demo.v1", "demo", "Replacing", "", false),
        ("demo.v1", "demo", "Deleting", "", false),
        ("demo.v1", "demo", "Succeeded", "demo.v1", false),
        ("demo.v1", "other", "Succeeded", "", false),
        ("demo.v2", "demo", "Succeeded", "", false),
        ("", "demo", "Succeeded", "", false),
    ] {
        let (name, csv) = csv_in_phase("demo.v1", phase);
        let mut csv = ClusterServiceVersion::clone(&csv);
        let package = json!({"type": "olm.package", "value": {"packageName": package, "version": "1.0.0"}});
        let properties = json!({"properties": [package]}).to_string();
        csv.annotations_mut()
            .insert(labels::PROPERTIES.to_owned(), properties);
        let state = NamespaceState {
            csvs: Csvs::from([(name, Arc::new(csv))]),
            subscribed: std::iter::once(subscribed.to_owned()).collect(),
            ..NamespaceState::default()
        };
        let mut object = subscription(Value::Null);
        object.spec.starting_csv = Some(starting.to_owned());
        let status = settle(&object, &state);
        let case = format!("{starting} {package} {phase} {subscribed}");
        match is_adopted {
            true => assert_eq!(
                (&status.state, status.installed_csv.as_deref()),
                (&SubscriptionState::AtLatestKnown, Some("demo.v1")),
                "{case}"
            ),
            false => assert_eq!(status, SubscriptionStatus::default(), "{case}"),
        }
        // It was being deleted, which the store did not know yet.
        if is_adopted {
            let status = settle(&with(&object, status), &NamespaceState::default());
            assert_eq!(status, SubscriptionStatus::default(), "{case}");
        }
    }
}

/// The state follows the existence of the ClusterServiceVersion, also of a deleted one.
#[test]
fn a_deleted_csv_makes_the_upgrade_pending_again() {
    let object = subscription(merged(&[
        reference("install-1"),
        json!({"state": "AtLatestKnown", "currentCSV": "demo.v1", "installedCSV": "demo.v1"}),
    ]));
    let status = settle(
        &object,
        &namespace_state(&[plan("install-1", in_phase("Complete"))], &[]),
    );
    assert_eq!(status.state, SubscriptionState::UpgradePending);
    assert_eq!(status.installed_csv.as_deref(), Some("demo.v1"), "never cleared");
}

/// The state after a failed plan.
#[test]
fn a_failed_plan_fails_the_upgrade_only_where_failing_forward_is_allowed() {
    let object = subscription(merged(&[
        reference("install-1"),
        json!({"state": "UpgradePending", "currentCSV": "demo.v2"}),
    ]));
    let mut namespace_state = namespace_state(&[plan("install-1", in_phase("Failed"))], &[]);
    assert_eq!(
        settle(&object, &namespace_state).state,
        SubscriptionState::UpgradePending
    );
    namespace_state.fail_forward = true;
    assert_eq!(
        settle(&object, &namespace_state).state,
        SubscriptionState::UpgradeFailed
    );
}

/// `Ready` and the plan's condition name the cause of a failure at once, and that of a wait when it lasts.
#[test]
fn a_csv_that_does_not_succeed_is_reported_with_its_cause() {
    let usual = "waiting for ClusterServiceVersion demo.v1 to succeed";
    let cause = "ClusterServiceVersion demo.v1: no pod";
    for (phase, message, waited, text, delay) in [
        ("Installing", "no pod", Some(0), usual, Some(15)),
        ("Installing", "no pod", Some(14), usual, Some(1)),
        ("Installing", "no pod", Some(15), cause, None),
        // Some other program wrote the status, or a clock was put back.
        ("Installing", "no pod", None, cause, None),
        ("Installing", "no pod", Some(-10), cause, None),
        ("Pending", "", Some(0), usual, None),
        ("Pending", "", Some(60), usual, None),
        ("Failed", "no pod", Some(0), cause, None),
    ] {
        let since = |seconds: i64| Timestamp::from_second(now().as_second() - seconds).unwrap();
        let since = waited.map(|seconds| since(seconds).to_string());
        let status = json!({"phase": phase, "message": message, "lastTransitionTime": since});
        let csv = json!({"metadata": {"name": "demo.v1", "namespace": "ns"}, "spec": {}, "status": status});
        let csv: ClusterServiceVersion = serde_json::from_value(csv).unwrap();
        let state = NamespaceState {
            csvs: Csvs::from([("demo.v1".to_owned(), Arc::new(csv))]),
            ..NamespaceState::default()
        };
        let object = subscription(
            json!({"state": "AtLatestKnown", "currentCSV": "demo.v1", "installedCSV": "demo.v1"}),
        );
        let status = composed(&object, &state, &quiet(&[healthy("cat")]));
        let message_of = |wanted: &[&str]| {
            let mut conditions = status.conditions.iter();
            let found = conditions.find(|found| wanted.contains(&found.type_.as_str()));
            found.and_then(|found| found.message.clone()).unwrap_or_default()
        };
        let of_plan = [reasons::INSTALL_PLAN_PENDING, reasons::INSTALL_PLAN_FAILED];
        assert_eq!(message_of(&of_plan), text, "{phase} {waited:?}");
        assert_eq!(message_of(&[reasons::READY]), text, "{phase} {waited:?}");
        let left = install_plan::cause_delay(&status, &state, now());
        assert_eq!(left.map(|left| left.as_secs()), delay, "{phase} {waited:?}");
    }
}
