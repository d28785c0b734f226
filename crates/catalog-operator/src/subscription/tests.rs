//! The status of one Subscription, row by row. Numbers are the cases of `spec/subscription-installplan.md` §9.

// Fixtures read better with literals.
#![allow(clippy::needless_pass_by_value)]

use olm_api::v1alpha1::CatalogSource;
use serde_json::{Value, json};

use super::*;

fn now() -> Timestamp {
    "2026-11-20T22:00:00Z".parse().unwrap()
}

fn subscription(status: Value) -> Subscription {
    let mut value = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
        "metadata": {"name": "demo-sub", "namespace": "ns", "uid": "s1"},
        "spec": {"channel": "stable", "name": "demo", "source": "cat", "sourceNamespace": "ns"},
    });
    if !status.is_null() {
        value["status"] = status;
    }
    serde_json::from_value(value).unwrap()
}

fn plan(name: &str, status: Value) -> Arc<InstallPlan> {
    let mut value = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
        "metadata": {"name": name, "namespace": "ns", "uid": format!("uid-{name}"), "resourceVersion": "7"},
        "spec": {"approval": "Automatic", "approved": true, "clusterServiceVersionNames": ["demo.v1"], "generation": 1},
    });
    if !status.is_null() {
        value["status"] = status;
    }
    Arc::new(serde_json::from_value(value).unwrap())
}

fn in_phase(phase: &str) -> Value {
    json!({"phase": phase, "catalogSources": []})
}

fn around(plans: &[Arc<InstallPlan>], csvs: &[&str]) -> Surroundings {
    Surroundings {
        plans: plans
            .iter()
            .map(|plan| (plan.name_any(), Arc::clone(plan)))
            .collect(),
        csvs: csvs.iter().map(|csv| (*csv).to_owned()).collect(),
        fail_forward: false,
    }
}

fn catalog(namespace: &str, name: &str, status: Value) -> CatalogFact {
    let source: CatalogSource = serde_json::from_value(json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": {"name": name, "namespace": namespace, "uid": format!("uid-{name}")},
        "spec": {"sourceType": "grpc", "image": "i"}, "status": status,
    }))
    .unwrap();
    CatalogFact::of(&source)
}

fn healthy(name: &str) -> CatalogFact {
    let status = json!({"registryService": {"protocol": "grpc"}, "connectionState": {"address": "a", "lastObservedState": "READY"}});
    catalog("ns", name, status)
}

fn reference(name: &str) -> Value {
    json!({
        "installPlanRef": {"apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan", "name": name, "namespace": "ns", "uid": format!("uid-{name}"), "resourceVersion": "3"},
        "installplan": {"apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan", "name": name, "uuid": format!("uid-{name}")},
    })
}

fn merged(parts: &[Value]) -> Value {
    let mut all = serde_json::Map::new();
    for part in parts {
        all.extend(part.as_object().unwrap().clone());
    }
    Value::Object(all)
}

fn composed(object: &Subscription, around: &Surroundings, facts: &Facts<'_>) -> SubscriptionStatus {
    compose(object, around, facts, now())
}

fn quiet<'a>(catalogs: &'a [CatalogFact]) -> Facts<'a> {
    Facts {
        catalogs,
        standing: &Standing::Unknown,
        deprecation: None,
        assignment: None,
    }
}

/// `type=status/reason: message` of all conditions.
fn conditions_text(status: &SubscriptionStatus) -> String {
    let lines = status.conditions.iter().map(|condition| {
        let text = |part: &Option<String>| part.clone().unwrap_or_default();
        format!(
            "{}={}/{}: {}",
            condition.type_,
            condition.status,
            text(&condition.reason),
            text(&condition.message)
        )
    });
    lines
        .collect::<Vec<_>>()
        .join("\n")
        .replace(": \n", "\n")
        .trim_end_matches([':', ' '])
        .to_owned()
}

fn with(object: &Subscription, status: SubscriptionStatus) -> Subscription {
    Subscription {
        status: Some(status),
        ..object.clone()
    }
}

// Plan and state ------------------------------------------------------------------------------------------------------

/// Cases 1, 19, 22: one write with the plan, one with the ClusterServiceVersion, one when the plan is complete, then rest.
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
            standing: &Standing::Resolved,
            assignment: assign.then_some(&assignment),
            ..quiet(&catalogs)
        };
        let next = composed(&object, &around(&[plan], csvs), &facts);
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
    CatalogSourcesUnhealthy=False/CatalogSourcesAdded: all available catalogsources are healthy
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

/// Compared with what upstream left in a cluster, field by field.
#[test]
fn the_status_has_upstreams_fields() {
    let plan = plan("install-5xrf2", in_phase("RequiresApproval"));
    let assignment = Assignment {
        plan: Arc::clone(&plan),
        csv: "demo.v1.0.0".to_owned(),
    };
    let catalogs = [healthy("cat")];
    let facts = Facts {
        standing: &Standing::Resolved,
        assignment: Some(&assignment),
        ..quiet(&catalogs)
    };
    let status = composed(&subscription(Value::Null), &around(&[plan], &[]), &facts);
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
          "reason": "CatalogSourcesAdded",
          "message": "all available catalogsources are healthy",
          "lastTransitionTime": "2026-11-20T22:00:00Z"
        },
        {
          "type": "InstallPlanPending",
          "status": "True",
          "reason": "RequiresApproval",
          "lastTransitionTime": "2026-11-20T22:00:00Z"
        }
      ],
      "lastUpdated": "2026-11-20T22:00:00Z"
    }
    "#);
}

/// Case 17 and W2: also without any condition to go with it, a lost plan is forgotten and so can be made anew.
#[test]
fn a_plan_lost_on_the_way_is_forgotten() {
    let object = subscription(merged(&[
        reference("gone"),
        json!({"state": "UpgradePending", "currentCSV": "demo.v1", "installPlanGeneration": 1, "lastUpdated": "2026-01-01T00:00:00Z"}),
    ]));
    let status = settle(&object, &around(&[], &[]));
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
        &composed(&object, &around(&[], &[]), &quiet(&[healthy("cat")]))
    ));
}

/// Case 18.
#[test]
fn a_plan_lost_later_is_reported_missing() {
    let object = subscription(merged(&[
        reference("gone"),
        json!({
            "state": "AtLatestKnown", "currentCSV": "demo.v1", "installedCSV": "demo.v1", "lastUpdated": "2026-01-01T00:00:00Z",
            "conditions": [{"type": "InstallPlanPending", "status": "True", "reason": "Installing"}],
        }),
    ]));
    let status = composed(&object, &around(&[], &["demo.v1"]), &quiet(&[healthy("cat")]));
    insta::assert_snapshot!(conditions_text(&status), @r"
    CatalogSourcesUnhealthy=False/CatalogSourcesAdded: all available catalogsources are healthy
    InstallPlanMissing=True/ReferencedInstallPlanNotFound
    ");
    assert_eq!(status.state, SubscriptionState::AtLatestKnown);
}

/// A plan made later under the old name is another plan.
#[test]
fn a_namesake_of_a_lost_plan_is_not_taken_for_it() {
    let object = subscription(merged(&[
        reference("install-1"),
        json!({"state": "UpgradePending", "currentCSV": "demo.v1"}),
    ]));
    let mut namesake = InstallPlan::clone(&plan("install-1", in_phase("Installing")));
    namesake.metadata.uid = Some("other".to_owned());
    assert_eq!(
        settle(&object, &around(&[Arc::new(namesake)], &[])).state,
        SubscriptionState::None
    );
}

/// Cases 19 to 22.
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
                {"path": "b", "identifier": "b", "replaces": "", "catalogSourceRef": {}, "conditions": [{"type": "BundleLookupPending", "status": "True", "message": "unpacking b."}]},
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
            &around(&[plan("install-1", plan_status)], &[]),
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

/// W3: adoption holds without the ClusterServiceVersion, and a plan that is no more is no obstacle.
#[test]
fn a_generated_subscription_adopts_its_plan() {
    let mut object = subscription(Value::Null);
    object.spec.starting_csv = Some("dep.v1".to_owned());
    object.metadata.annotations = Some(BTreeMap::from([(
        labels::GENERATED_BY.to_owned(),
        "install-1".to_owned(),
    )]));
    let adopted = settle(
        &object,
        &around(&[plan("install-1", in_phase("Installing"))], &[]),
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
        &around(&[plan("install-1", in_phase("Complete"))], &["dep.v1"]),
    );
    assert_eq!(
        (arrived.state, arrived.installed_csv.as_deref()),
        (SubscriptionState::AtLatestKnown, Some("dep.v1"))
    );
    assert_eq!(settle(&object, &around(&[], &[])), SubscriptionStatus::default());
}

/// The state follows the existence of the ClusterServiceVersion, deleted ones included.
#[test]
fn a_deleted_csv_makes_the_upgrade_pending_again() {
    let object = subscription(merged(&[
        reference("install-1"),
        json!({"state": "AtLatestKnown", "currentCSV": "demo.v1", "installedCSV": "demo.v1"}),
    ]));
    let status = settle(&object, &around(&[plan("install-1", in_phase("Complete"))], &[]));
    assert_eq!(status.state, SubscriptionState::UpgradePending);
    assert_eq!(status.installed_csv.as_deref(), Some("demo.v1"), "never cleared");
}

/// Case 37, the part of the state.
#[test]
fn a_failed_plan_fails_the_upgrade_only_where_failing_forward_is_allowed() {
    let object = subscription(merged(&[
        reference("install-1"),
        json!({"state": "UpgradePending", "currentCSV": "demo.v2"}),
    ]));
    let mut around = around(&[plan("install-1", in_phase("Failed"))], &[]);
    assert_eq!(settle(&object, &around).state, SubscriptionState::UpgradePending);
    around.fail_forward = true;
    assert_eq!(settle(&object, &around).state, SubscriptionState::UpgradeFailed);
}

// Catalogs ------------------------------------------------------------------------------------------------------------

fn health_text(object: &Subscription, catalogs: &[CatalogFact]) -> String {
    conditions_text(&composed(object, &Surroundings::default(), &quiet(catalogs)))
}

/// Cases 23 and 24.
#[test]
fn unhealthy_catalogs_are_named_with_their_ailment() {
    let object = subscription(
        json!({"catalogHealth": [{"catalogSourceRef": {"uid": "uid-cat"}, "healthy": false, "lastUpdated": null}]}),
    );
    let sick = |status: Value| [catalog("ns", "cat", status)];
    insta::assert_snapshot!(health_text(&object, &sick(json!({}))), @"CatalogSourcesUnhealthy=True/UnhealthyCatalogSourceFound: targeted catalogsource ns/cat unhealthy: its registry server is starting");
    insta::assert_snapshot!(health_text(&object, &sick(json!({"reason": "SpecInvalidError", "message": "unknown sourcetype: nope"}))), @"CatalogSourcesUnhealthy=True/UnhealthyCatalogSourceFound: targeted catalogsource ns/cat unhealthy: unknown sourcetype: nope");
    insta::assert_snapshot!(health_text(&object, &sick(json!({"registryService": {}, "connectionState": {"lastObservedState": "CONNECTING"}}))), @"CatalogSourcesUnhealthy=True/UnhealthyCatalogSourceFound: targeted catalogsource ns/cat unhealthy: its registry server is starting");
    let known = json!({"catalogHealth": [{"catalogSourceRef": {"uid": "uid-other"}, "healthy": true, "lastUpdated": null}]});
    insta::assert_snapshot!(health_text(&subscription(known), &[healthy("other")]), @"CatalogSourcesUnhealthy=True/UnhealthyCatalogSourceFound: targeted catalogsource ns/cat missing");
    // W18: not the text of before.
    let both = json!({"catalogHealth": [
        {"catalogSourceRef": {"uid": "uid-cat"}, "healthy": true, "lastUpdated": null},
        {"catalogSourceRef": {"uid": "uid-other"}, "healthy": false, "lastUpdated": null},
    ]});
    let other = catalog(
        "olm",
        "other",
        json!({"reason": "RegistryServerError", "message": "registry server is not ready - pod x"}),
    );
    insta::assert_snapshot!(health_text(&subscription(both), &[healthy("cat"), other]), @"CatalogSourcesUnhealthy=True/UnhealthyCatalogSourceFound: catalogsource olm/other unhealthy: registry server is not ready - pod x");
}

/// Case 25: a change of the catalogs is told once, and its reason gives way without a write of its own.
#[test]
fn passing_reasons_do_not_cause_a_write() {
    let catalogs = [healthy("cat"), healthy("other")];
    let object = subscription(Value::Null);
    let first = composed(&object, &Surroundings::default(), &quiet(&catalogs[..1]));
    insta::assert_snapshot!(conditions_text(&first), @"CatalogSourcesUnhealthy=False/CatalogSourcesAdded: all available catalogsources are healthy");
    let object = with(&object, first);
    let next = composed(&object, &Surroundings::default(), &quiet(&catalogs[..1]));
    insta::assert_snapshot!(conditions_text(&next), @"CatalogSourcesUnhealthy=False/AllCatalogSourcesHealthy: all available catalogsources are healthy");
    assert!(!is_worth_writing(object.status.as_ref(), &next));
    let more = composed(&with(&object, next), &Surroundings::default(), &quiet(&catalogs));
    assert!(conditions_text(&more).contains("CatalogSourcesAdded"));
    let fewer = composed(
        &with(&object, more),
        &Surroundings::default(),
        &quiet(&catalogs[..1]),
    );
    assert!(conditions_text(&fewer).contains("CatalogSourcesDeleted"));
    let other = composed(
        &with(&object, fewer.clone()),
        &Surroundings::default(),
        &quiet(&[catalog("ns", "cat", json!({}))]),
    );
    assert!(
        conditions_text(&other)
            .contains("True/CatalogSourcesUpdated: targeted catalogsource ns/cat unhealthy")
    );
    assert!(is_worth_writing(Some(&fewer), &other));
}

/// The golden of an unresolvable Subscription in a namespace without catalogs, less the conditions it lacks.
#[test]
fn no_catalog_at_all_is_told_and_then_rests() {
    let object = subscription(Value::Null);
    let status = composed(&object, &Surroundings::default(), &quiet(&[]));
    insta::assert_snapshot!(conditions_text(&status), @"CatalogSourcesUnhealthy=True/NoCatalogSourcesFound: dependency resolution requires at least one catalogsource");
    let object = with(&object, status);
    assert!(!is_worth_writing(
        object.status.as_ref(),
        &composed(&object, &Surroundings::default(), &quiet(&[]))
    ));
}

// Standing and deprecation --------------------------------------------------------------------------------------------

/// Cases 8 to 10, 46, 47; W4: never two of the three.
#[test]
fn one_condition_tells_how_resolution_stands() {
    let failed = Standing::ResolutionFailed {
        reason: words::CONSTRAINTS_NOT_SATISFIABLE,
        message: "constraints not satisfiable: x".to_owned(),
    };
    let unpacking = Standing::Unpacking {
        message: String::new(),
    };
    let unpack_failed = Standing::UnpackFailed {
        reason: words::REASON_BUNDLE_UNPACK_FAILED,
        message: "Bundle unpacking failed - x".to_owned(),
    };
    let catalogs = [healthy("cat")];
    let mut object = subscription(Value::Null);
    let mut told = Vec::new();
    for standing in [
        &failed,
        &Standing::Unknown,
        &unpacking,
        &unpack_failed,
        &Standing::Resolved,
    ] {
        let status = composed(
            &object,
            &Surroundings::default(),
            &Facts {
                standing,
                ..quiet(&catalogs)
            },
        );
        told.push(
            conditions_text(&status)
                .lines()
                .skip(1)
                .collect::<Vec<_>>()
                .join(" & "),
        );
        object = with(&object, status);
    }
    insta::assert_snapshot!(told.join("\n"), @r"
    ResolutionFailed=True/ConstraintsNotSatisfiable: constraints not satisfiable: x
    ResolutionFailed=True/ConstraintsNotSatisfiable: constraints not satisfiable: x
    BundleUnpacking=True/UnpackingInProgress
    BundleUnpackFailed=True/BundleUnpackFailed: Bundle unpacking failed - x
    ");
}

#[test]
fn the_transition_time_moves_with_the_status_only() {
    let catalogs = [healthy("cat")];
    let failed = |message: &str| Standing::ResolutionFailed {
        reason: words::ERROR_PREVENTED_RESOLUTION,
        message: message.to_owned(),
    };
    let object = subscription(Value::Null);
    let first = compose(
        &object,
        &Surroundings::default(),
        &Facts {
            standing: &failed("a"),
            ..quiet(&catalogs)
        },
        now(),
    );
    let later = "2026-11-20T23:00:00Z".parse().unwrap();
    let next = compose(
        &with(&object, first.clone()),
        &Surroundings::default(),
        &Facts {
            standing: &failed("b"),
            ..quiet(&catalogs)
        },
        later,
    );
    assert_eq!(next.conditions[1].message.as_deref(), Some("b"));
    assert_eq!(
        next.conditions[1].last_transition_time,
        first.conditions[1].last_transition_time
    );
    assert_eq!(next.last_updated, Some(stored_time(later)));
}

/// Case 34.
#[test]
fn deprecations_come_go_and_are_summed_up() {
    let catalogs = [healthy("cat")];
    let text = |message: &str| Some(message.to_owned());
    let all = DeprecationFact {
        package: text("p"),
        channel: text("c"),
        bundle: text("b"),
    };
    let object = subscription(json!({"installedCSV": "demo.v1", "currentCSV": "demo.v1"}));
    let around = around(&[], &["demo.v1"]);
    let told = |object: &Subscription, fact: Option<&DeprecationFact>| {
        composed(
            object,
            &around,
            &Facts {
                deprecation: fact,
                ..quiet(&catalogs)
            },
        )
    };
    let first = told(&object, Some(&all));
    insta::assert_snapshot!(conditions_text(&first), @r"
    CatalogSourcesUnhealthy=False/CatalogSourcesAdded: all available catalogsources are healthy
    PackageDeprecated=True/: olm.package/demo: p
    ChannelDeprecated=True/: olm.channel/stable: c
    BundleDeprecated=True/: olm.bundle/demo.v1: b
    Deprecated=True/: olm.package/demo: p; olm.channel/stable: c; olm.bundle/demo.v1: b
    ");
    let object = with(&object, first.clone());
    assert_eq!(
        conditions_text(&told(&object, None)).lines().count(),
        5,
        "a catalog that does not tell changes nothing"
    );
    let fixed = told(&object, Some(&DeprecationFact { bundle: None, ..all }));
    assert!(!conditions_text(&fixed).contains("olm.bundle"));
    assert_eq!(
        conditions_text(&told(&with(&object, fixed), Some(&DeprecationFact::default())))
            .lines()
            .count(),
        1
    );
}

/// The law of rest: what was composed and written is composed again.
#[test]
fn composing_twice_is_composing_once() {
    let catalogs = [healthy("cat")];
    let plans = [plan("install-1", in_phase("Installing"))];
    let fact = DeprecationFact {
        package: Some("p".to_owned()),
        ..DeprecationFact::default()
    };
    let standings = [
        Standing::Unknown,
        Standing::Resolved,
        Standing::Unpacking {
            message: "m".to_owned(),
        },
        Standing::ResolutionFailed {
            reason: words::ERROR_PREVENTED_RESOLUTION,
            message: "m".to_owned(),
        },
        Standing::UnpackFailed {
            reason: words::ENSURE_INSTALL_PLAN_FAILED,
            message: "m".to_owned(),
        },
    ];
    for status in [
        Value::Null,
        merged(&[reference("install-1"), json!({"currentCSV": "demo.v1"})]),
        reference("gone"),
    ] {
        for standing in &standings {
            for csvs in [&[][..], &["demo.v1"]] {
                let object = subscription(status.clone());
                let around = around(&plans, csvs);
                let facts = Facts {
                    standing,
                    deprecation: Some(&fact),
                    ..quiet(&catalogs)
                };
                let once = composed(&object, &around, &facts);
                let twice = composed(&with(&object, once.clone()), &around, &facts);
                assert!(
                    !is_worth_writing(Some(&once), &twice),
                    "{standing:?} {csvs:?} {status}"
                );
            }
        }
    }
}
