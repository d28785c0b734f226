//! What fails a plan, what only delays it, and how it is told.

use super::*;

/// Case 54: a lasting error is retried for the window, then the plan fails.
#[test]
fn lasting_error_fails_the_plan_after_the_window() {
    let mut cluster = Cluster::with_plan(&[small()]);
    cluster
        .refused
        .insert("create ClusterServiceVersion".into(), FailureClass::Invalid);
    let (_, requeue) = cluster.round(PLAN);
    assert_eq!(
        requeue,
        Requeue::After {
            delay: Duration::from_secs(5),
            reason: "retry of a failed step"
        }
    );
    let message = "error creating csv demo.v1: server says Invalid";
    assert!(
        cluster.summary(PLAN).starts_with(&format!(
            "Installing retrying execution due to error: {message}\nFailing=True LastingError -\nClusterServiceVersion/demo.v1 Unknown"
        )),
        "{}",
        cluster.summary(PLAN)
    );
    assert_eq!(cluster.plan(PLAN)["status"]["startTime"], "2027-01-15T08:00:00Z");
    cluster.now += Duration::from_secs(58);
    let (_, requeue) = cluster.round(PLAN);
    assert_eq!(
        requeue,
        Requeue::After {
            delay: Duration::from_secs(2),
            reason: "retry of a failed step"
        }
    );
    cluster.now += Duration::from_secs(2);
    cluster.round(PLAN);
    assert!(
        cluster.summary(PLAN).starts_with(&format!(
            "Failed {message}\nInstalled=False InstallComponentFailed {message}"
        )),
        "{}",
        cluster.summary(PLAN)
    );
}

/// Ten minutes without a permission are no part of the window of the error that comes then, and an error that comes after
/// another that has passed has a window of its own.
#[test]
fn the_window_counts_from_the_first_lasting_error() {
    let mut cluster = Cluster::with_plan(&[small()]);
    let create = "create ClusterServiceVersion".to_owned();
    cluster.refused.insert(create.clone(), FailureClass::Forbidden);
    cluster.round(PLAN);
    for _ in 0..2 {
        cluster.now += Duration::from_secs(600);
        cluster.refused.insert(create.clone(), FailureClass::Invalid);
        cluster.round(PLAN);
        cluster.now += Duration::from_secs(59);
        cluster.round(PLAN);
        assert!(
            cluster.summary(PLAN).starts_with("Installing "),
            "{}",
            cluster.summary(PLAN)
        );
        cluster.refused.insert(create.clone(), FailureClass::Retry);
        cluster.round(PLAN);
        assert!(
            !cluster.summary(PLAN).contains("Failing="),
            "{}",
            cluster.summary(PLAN)
        );
    }
    cluster.refused.insert(create.clone(), FailureClass::Invalid);
    cluster.round(PLAN);
    cluster.now += Duration::from_secs(60);
    cluster.round(PLAN);
    let summary = cluster.summary(PLAN);
    assert!(
        summary.starts_with("Failed ") && !summary.contains("Failing="),
        "{summary}"
    );
    assert_eq!(cluster.plan(PLAN)["status"]["startTime"], "2027-01-15T08:00:00Z");
}

/// Decision 7 and case 73: what may pass never makes a plan fail, and the same plan completes once it has passed.
#[test]
fn passing_errors_never_fail_the_plan() {
    for class in [
        FailureClass::Retry,
        FailureClass::Forbidden,
        FailureClass::Terminating,
    ] {
        for refused in [
            "create ClusterServiceVersion",
            "create CustomResourceDefinition",
            "create ServiceAccount",
            "create ClusterRole ",
        ] {
            let mut cluster = Cluster::with_plan(&[small()]);
            cluster.refused.insert(refused.into(), class);
            cluster.converge(PLAN);
            cluster.now += Duration::from_secs(86_400);
            cluster.round(PLAN);
            let summary = cluster.summary(PLAN);
            assert!(
                summary.starts_with("Installing retrying execution due to error: error creating "),
                "{class:?} {summary}"
            );
            assert!(!summary.contains("Installed="), "{class:?} {summary}");
            let writes = cluster.writes.len();
            cluster.round(PLAN);
            assert_eq!(cluster.writes.len(), writes, "the same error is told once");
            cluster.refused.clear();
            cluster.converge(PLAN);
            assert!(cluster.summary(PLAN).starts_with("Complete"), "{class:?}");
        }
    }
}

/// An observation that is out of date is made anew and told to nobody.
#[test]
fn stale_observation_is_no_error() {
    for class in [FailureClass::Conflict, FailureClass::AlreadyExists] {
        let mut cluster = Cluster::with_plan(&[small()]);
        cluster.refused.insert("create ServiceAccount".into(), class);
        cluster.converge(PLAN);
        cluster.now += Duration::from_secs(86_400);
        let (_, requeue) = cluster.round(PLAN);
        // No haste of its own: the driver's backoff grows from 100 ms while the observation stays out of date.
        assert_eq!(requeue, Requeue::AwaitChange);
        assert!(
            cluster.summary(PLAN).starts_with("Installing -\n"),
            "{}",
            cluster.summary(PLAN)
        );
        cluster.refused.clear();
        cluster.converge(PLAN);
        assert!(cluster.summary(PLAN).starts_with("Complete"), "{class:?}");
    }
}

/// Case 63: nothing behind the unsupported step is done.
#[test]
fn unsupported_kind_is_marked() {
    let mut cluster = Cluster::with_plan(&[bundle("demo.v1", vec![core("Pod", "pod", json!({}))])]);
    cluster.converge(PLAN);
    insta::assert_snapshot!(cluster.summary(PLAN), @r"
    Installing retrying execution due to error: the InstallPlan contains invalid data
    Failing=True LastingError -
    ClusterServiceVersion/demo.v1 Created
    Pod/pod UnsupportedResource
    ServiceAccount/demo Unknown
    Role/demo.v1-demo-HASH Unknown
    RoleBinding/demo.v1-demo-HASH Unknown
    ClusterRole/demo.v1-HASH Unknown
    ClusterRoleBinding/demo.v1-HASH Unknown
    ");
    cluster.now += Duration::from_secs(60);
    cluster.round(PLAN);
    assert!(
        cluster.summary(PLAN).starts_with(
            "Failed the InstallPlan contains invalid data\nInstalled=False InstallComponentFailed"
        )
    );
}

/// Case 65.
#[test]
fn missing_api_is_told_and_waited_for() {
    let scaler = json!({"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "metadata": {"name": "vpa"}});
    let mut cluster = Cluster::with_plan(&[bundle("demo.v1", vec![scaler])]);
    cluster.converge(PLAN);
    let summary = cluster.summary(PLAN);
    insta::assert_snapshot!(summary.lines().next().unwrap(), @"Installing retrying execution due to error: api-server resource not found installing VerticalPodAutoscaler vpa: GroupVersionKind autoscaling.k8s.io/v1, Kind=VerticalPodAutoscaler not found on the cluster. This API may have been deprecated and removed, see https://kubernetes.io/docs/reference/using-api/deprecation-guide/ for more information.");
    cluster.served.push(("VerticalPodAutoscaler", true));
    cluster.converge(PLAN);
    assert!(cluster.summary(PLAN).starts_with("Complete"));
}
