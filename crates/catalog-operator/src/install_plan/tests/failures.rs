//! Errors that fail a plan, errors that only delay it, and their reports.

use super::*;

const CREATE: &str = "create ClusterServiceVersion";

/// A lasting error is retried for the window, then the plan fails.
#[test]
fn lasting_error_fails_the_plan_after_the_window() {
    let mut env = TestEnv::with_plan(&[small()]);
    env.refuse(CREATE, FailureClass::Invalid);
    env.settle_for(1);
    let message = "error creating csv demo.v1: server says Invalid";
    env.assert_summary(
        PLAN,
        &format!(
            "Installing retrying execution due to error: {message}\nFailing=True LastingError -\nClusterServiceVersion/demo.v1 Unknown"
        ),
    );
    assert_eq!(env.plan(PLAN)["status"]["startTime"], "2026-01-01T00:00:00Z");
    env.settle_for(20);
    let tried = env.refused.len();
    env.settle_for(30);
    // Every five seconds, as upstream.
    assert_eq!(env.refused.len() - tried, 6, "{:#?}", env.refused);
    env.settle_for(7);
    env.assert_summary(PLAN, "Installing ");
    env.settle_for(8);
    env.assert_summary(
        PLAN,
        &format!("Failed {message}\nInstalled=False InstallComponentFailed {message}"),
    );
    let tried = env.refused.len();
    env.settle_for(3600);
    assert_eq!(env.refused.len(), tried, "it is over");
}

/// Ten minutes without a permission do not count towards the window of the next error, and an error after a resolved one has its
/// own window.
#[test]
fn the_window_counts_from_the_first_lasting_error() {
    let mut env = TestEnv::with_plan(&[small()]);
    env.refuse(CREATE, FailureClass::Forbidden);
    env.settle();
    for change in ["first", "second"] {
        env.settle_for(600);
        env.refuse(CREATE, FailureClass::Invalid);
        // A plan is looked at once it changes.
        env.change_plan(PLAN, |plan| {
            plan["metadata"]["annotations"] = json!({"note": change});
        });
        env.settle_for(59);
        env.assert_summary(PLAN, "Installing ");
        env.assert_told(PLAN, "Failing=");
        env.refuse(CREATE, FailureClass::Retry);
        env.settle_for(6);
        let summary = env.summary(PLAN);
        assert!(!summary.contains("Failing="), "{summary}");
    }
    env.refuse(CREATE, FailureClass::Invalid);
    env.settle_for(71);
    let summary = env.summary(PLAN);
    assert!(
        summary.starts_with("Failed ") && !summary.contains("Failing="),
        "{summary}"
    );
    assert_eq!(env.plan(PLAN)["status"]["startTime"], "2026-01-01T00:00:00Z");
}

/// What may pass never makes a plan fail, and the same plan completes once it has passed.
#[test]
fn passing_errors_never_fail_the_plan() {
    for class in [
        FailureClass::Retry,
        FailureClass::Forbidden,
        FailureClass::Terminating,
    ] {
        for refused in [
            CREATE,
            "create CustomResourceDefinition",
            "create ServiceAccount",
            "create ClusterRole ",
        ] {
            let mut env = TestEnv::with_plan(&[small()]);
            env.refuse(refused, class);
            env.settle_for(60);
            let told = env.count("patch InstallPlan");
            env.settle_for(600);
            let summary = env.summary(PLAN);
            assert!(
                summary.starts_with("Installing retrying execution due to error: error creating "),
                "{class:?} {summary}"
            );
            assert!(!summary.contains("Installed="), "{class:?} {summary}");
            assert_eq!(
                env.count("patch InstallPlan"),
                told,
                "the same error is told once"
            );
            env.allow();
            env.settle_for(61);
            env.assert_summary(PLAN, "Complete");
        }
    }
}

/// A lasting refusal costs one attempt a minute, and ends soon after the permission is granted.
#[test]
fn a_plan_without_permission_is_tried_ever_less() {
    let mut env = TestEnv::with_plan(&[small()]);
    env.refuse(CREATE, FailureClass::Forbidden);
    env.settle_for(600);
    let tried = env.refused.len();
    assert!((18..=26).contains(&tried), "{tried}");
    let told = env.count("patch InstallPlan");
    env.settle_for(600);
    let tries = env.refused.len() - tried;
    assert!((9..=11).contains(&tries), "{tries}: a minute between two");
    assert_eq!(env.count("patch InstallPlan"), told, "the same is told once");
    env.allow();
    env.settle_for(61);
    env.assert_summary(PLAN, "Complete");
}

/// An outdated observation is repeated and not reported.
#[test]
fn stale_observation_is_no_error() {
    for class in [FailureClass::Conflict, FailureClass::AlreadyExists] {
        let mut env = TestEnv::with_plan(&[small()]);
        env.refuse("create ServiceAccount", class);
        env.settle_for(600);
        let tried = env.refused.len();
        env.settle_for(3600);
        // No haste of its own: the driver's backoff grows to a minute while the observation stays out of date.
        let tries = env.refused.len() - tried;
        assert!((59..=61).contains(&tries), "{tries}");
        env.assert_summary(PLAN, "Installing -\n");
        env.allow();
        env.settle_for(61);
        env.assert_summary(PLAN, "Complete");
    }
}

/// Nothing behind the unsupported step is done. A bundle with one is not even taken, so the plan carries it itself.
#[test]
fn unsupported_kind_is_marked() {
    let mut env = TestEnv::with_plan(&[bundle("demo.v1", Vec::new())]);
    let step = json!({"resolving": "demo.v1", "status": "Unknown", "resource": {"sourceName": "", "sourceNamespace": "",
        "group": "", "version": "v1", "kind": "Pod", "name": "pod", "manifest": core("Pod", "pod", json!({})).to_string()}});
    env.change_plan(PLAN, |plan| {
        plan["status"]["plan"].as_array_mut().unwrap().insert(1, step);
    });
    env.converge();
    insta::assert_snapshot!(env.summary(PLAN), @r"
    Installing retrying execution due to error: the InstallPlan contains invalid data: Pod pod is not allowed
    Failing=True LastingError -
    ClusterServiceVersion/demo.v1 Created
    Pod/pod UnsupportedResource
    ServiceAccount/demo Unknown
    Role/demo.v1-demo-HASH Unknown
    RoleBinding/demo.v1-demo-HASH Unknown
    ClusterRole/demo.v1-HASH Unknown
    ClusterRoleBinding/demo.v1-HASH Unknown
    ");
    env.settle_for(60);
    env.assert_summary(
        PLAN,
        "Failed the InstallPlan contains invalid data: Pod pod is not allowed\nInstalled=False InstallComponentFailed",
    );
}

#[test]
fn missing_api_is_reported_and_waited_for() {
    let scaler = json!({"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "metadata": {"name": "vpa"}});
    let mut env = TestEnv::with_plan(&[bundle("demo.v1", vec![scaler])]);
    env.converge();
    let summary = env.summary(PLAN);
    insta::assert_snapshot!(summary.lines().next().unwrap(), @"Installing retrying execution due to error: api-server resource not found installing VerticalPodAutoscaler vpa: GroupVersionKind autoscaling.k8s.io/v1, Kind=VerticalPodAutoscaler not found on the cluster. This API may have been deprecated and removed, see https://kubernetes.io/docs/reference/using-api/deprecation-guide/ for more information.");
    env.cluster.serve(olm_testing::cluster::Kind {
        group: "autoscaling.k8s.io".to_owned(),
        versions: vec!["v1".to_owned()],
        kind: "VerticalPodAutoscaler".to_owned(),
        plural: "verticalpodautoscalers".to_owned(),
        namespaced: true,
        status: true,
        custom: true,
    });
    env.settle_for(40);
    env.assert_summary(PLAN, "Complete");
    assert!(env.find("VerticalPodAutoscaler ns/vpa").is_some());
}
