//! The outcome of resolution, and stability of the written status.

use super::*;

/// Never two of the three conditions.
#[test]
fn one_condition_reports_the_state_of_resolution() {
    let failed = ResolutionOutcome::ResolutionFailed {
        reason: reasons::CONSTRAINTS_NOT_SATISFIABLE,
        message: "constraints not satisfiable: x".to_owned(),
    };
    let unpacking = ResolutionOutcome::Unpacking {
        message: String::new(),
    };
    let unpack_failed = ResolutionOutcome::UnpackFailed {
        reason: reasons::REASON_BUNDLE_UNPACK_FAILED,
        message: "Bundle unpacking failed - x".to_owned(),
    };
    let catalogs = [healthy("cat")];
    let mut object = subscription(Value::Null);
    let mut told = Vec::new();
    for outcome in [
        &failed,
        &ResolutionOutcome::Unknown,
        &unpacking,
        &unpack_failed,
        &ResolutionOutcome::Resolved,
    ] {
        let status = composed(
            &object,
            &NamespaceState::default(),
            &Facts {
                outcome,
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
    let failed = |message: &str| ResolutionOutcome::ResolutionFailed {
        reason: reasons::ERROR_PREVENTED_RESOLUTION,
        message: message.to_owned(),
    };
    let object = subscription(Value::Null);
    let first = compose(
        &object,
        &NamespaceState::default(),
        &Facts {
            outcome: &failed("a"),
            ..quiet(&catalogs)
        },
        now(),
    );
    let later = "2026-11-20T23:00:00Z".parse().unwrap();
    let next = compose(
        &with(&object, first.clone()),
        &NamespaceState::default(),
        &Facts {
            outcome: &failed("b"),
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

/// A status that was composed and written is composed unchanged.
#[test]
fn composing_twice_is_composing_once() {
    let catalogs = [healthy("cat")];
    let plans = [plan("install-1", in_phase("Installing"))];
    let fact = Deprecation {
        package: Some("p".into()),
        ..Deprecation::default()
    };
    let outcomes_by_subscription = [
        ResolutionOutcome::Unknown,
        ResolutionOutcome::Resolved,
        ResolutionOutcome::Unpacking {
            message: "m".to_owned(),
        },
        ResolutionOutcome::ResolutionFailed {
            reason: reasons::ERROR_PREVENTED_RESOLUTION,
            message: "m".to_owned(),
        },
        ResolutionOutcome::UnpackFailed {
            reason: reasons::ENSURE_INSTALL_PLAN_FAILED,
            message: "m".to_owned(),
        },
    ];
    for status in [
        Value::Null,
        merged(&[reference("install-1"), json!({"currentCSV": "demo.v1"})]),
        reference("gone"),
    ] {
        for outcome in &outcomes_by_subscription {
            for csvs in [&[][..], &["demo.v1"]] {
                let object = subscription(status.clone());
                let namespace_state = namespace_state(&plans, csvs);
                let facts = Facts {
                    outcome,
                    deprecation: Some(&fact),
                    ..quiet(&catalogs)
                };
                let once = composed(&object, &namespace_state, &facts);
                let twice = composed(&with(&object, once.clone()), &namespace_state, &facts);
                assert!(
                    !is_worth_writing(Some(&once), &twice),
                    "{outcome:?} {csvs:?} {status}"
                );
            }
        }
    }
}
