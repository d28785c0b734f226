//! What a plan waits for: approval, a group, content, owners, objects on their way out.

use super::*;

/// Case 53.
#[test]
fn plan_waits_for_approval() {
    let mut cluster = Cluster::with_plan(&[small()]);
    cluster.plan_mut(PLAN)["status"]["phase"] = "RequiresApproval".into();
    cluster.plan_mut(PLAN)["spec"]["approved"] = false.into();
    assert_eq!(cluster.round(PLAN), (false, Requeue::AwaitChange));
    cluster.plan_mut(PLAN)["spec"]["approved"] = true.into();
    cluster.converge(PLAN);
    assert!(cluster.summary(PLAN).starts_with("Complete"));
}

/// Case 52, IP-014, IP-015, IP-017: nothing is created, the condition says why, and a valid group clears it.
#[test]
fn groups_that_do_not_fit_stop_the_plan() {
    let named = group(
        json!({"serviceAccountName": "scoped"}),
        json!({"namespaces": [NAMESPACE]}),
    );
    let two = vec![
        group(json!({}), json!({"namespaces": ["a"]})),
        group(json!({}), json!({"namespaces": ["b"]})),
    ];
    let rows = [
        (vec![], "no operator group found that is managing this namespace"),
        (
            vec![group(json!({}), json!({}))],
            "no operator group found that is managing this namespace",
        ),
        (
            two,
            "more than one operator group(s) are managing this namespace count=2",
        ),
        (
            vec![named],
            "please make sure the service account exists. sa=scoped operatorgroup=ns/og",
        ),
    ];
    for (groups, text) in rows {
        let mut cluster = Cluster::with_plan(&[small()]);
        let good = std::mem::replace(&mut cluster.groups, groups);
        cluster.converge(PLAN);
        assert_eq!(cluster.writes, ["patch InstallPlan ns/install-1 status"]);
        let summary = cluster.summary(PLAN);
        assert!(
            summary.starts_with(&format!(
                "Installing -\nInstalled=False InstallCheckFailed {text}\n"
            )),
            "{summary}"
        );
        cluster.groups = good;
        cluster.converge(PLAN);
        assert!(
            cluster
                .summary(PLAN)
                .starts_with("Complete -\nInstalled=True - -")
        );
    }
}

/// The failed check is over although the plan still waits.
#[test]
fn check_that_no_longer_fails_leaves_reason_unknown() {
    let mut cluster = Cluster::with_plan(&[small()]);
    cluster.plan_mut(PLAN)["status"]["phase"] = "RequiresApproval".into();
    cluster.plan_mut(PLAN)["spec"]["approved"] = false.into();
    let good = std::mem::take(&mut cluster.groups);
    cluster.converge(PLAN);
    cluster.groups = good;
    cluster.converge(PLAN);
    assert!(
        cluster
            .summary(PLAN)
            .starts_with("RequiresApproval -\nInstalled=False Unknown -"),
        "{}",
        cluster.summary(PLAN)
    );
}

/// What is on its way out is waited for instead of changed.
#[test]
fn object_being_deleted_is_waited_out() {
    for name in [
        "CustomResourceDefinition demos.example.com",
        "ServiceAccount ns/demo",
    ] {
        let mut cluster = Cluster::with_plan(&[small()]);
        cluster.converge(PLAN);
        let mut going = cluster.objects[name].clone();
        going["metadata"]["deletionTimestamp"] = "2027-01-15T08:00:00Z".into();
        let mut cluster = Cluster::with_plan(&[small()]);
        cluster.put(going);
        cluster.converge(PLAN);
        let summary = cluster.summary(PLAN);
        assert!(
            summary.contains("which is being deleted, to be gone"),
            "{summary}"
        );
        assert!(matches!(cluster.round(PLAN), (false, Requeue::After { .. })));
        cluster.objects.remove(name);
        cluster.converge(PLAN);
        assert!(
            cluster.summary(PLAN).starts_with("Complete"),
            "{}",
            cluster.summary(PLAN)
        );
    }
}

/// Case 55: an owner that does not exist fails the plan after the window, or the plan completes when it comes in time.
#[test]
fn missing_owner_is_waited_for_within_the_window() {
    let inline = |cluster: &mut Cluster| {
        let manifest = core("ConfigMap", "config", json!({"data": {}})).to_string();
        cluster.plan_mut(PLAN)["status"]["plan"] = json!([{"resolving": "demo.v1", "status": "Unknown",
            "resource": {"sourceName": "", "sourceNamespace": "", "group": "", "version": "v1", "kind": "ConfigMap", "name": "config", "manifest": manifest}}]);
    };
    let text = "error generating ownerrefs for configmap: config: clusterserviceversions.operators.coreos.com \"demo.v1\" not found";
    let mut cluster = Cluster::with_plan(&[small()]);
    inline(&mut cluster);
    cluster.converge(PLAN);
    assert!(
        cluster
            .summary(PLAN)
            .starts_with(&format!("Installing retrying execution due to error: {text}")),
        "{}",
        cluster.summary(PLAN)
    );
    let mut csv = small().csv;
    csv["metadata"]["namespace"] = NAMESPACE.into();
    cluster.put(csv);
    cluster.converge(PLAN);
    assert!(
        cluster.summary(PLAN).starts_with("Complete"),
        "{}",
        cluster.summary(PLAN)
    );

    let mut cluster = Cluster::with_plan(&[small()]);
    inline(&mut cluster);
    cluster.round(PLAN);
    cluster.now += Duration::from_secs(60);
    cluster.round(PLAN);
    assert!(cluster.summary(PLAN).starts_with(&format!("Failed {text}")));
}

/// Case 56.
#[test]
fn plan_without_steps_or_lookups_is_ignored() {
    let mut cluster = Cluster::with_plan(&[]);
    assert_eq!(cluster.round(PLAN), (false, Requeue::AwaitChange));
}

/// A bundle that has to be fetched again is waited for; one that cannot be had is told.
#[test]
fn bundle_content_is_waited_for() {
    let mut cluster = Cluster::with_plan(&[small()]);
    let image = small().image;
    let ready = cluster
        .bundles
        .insert(
            image.clone(),
            BundleContent::Fetching {
                message: "fetching bundle image i".into(),
                quiet: None,
            },
        )
        .unwrap();
    assert_eq!(cluster.round(PLAN).1, Requeue::AwaitChange);
    assert!(
        cluster
            .summary(PLAN)
            .starts_with("Installing fetching bundle image i\n")
    );
    cluster.bundles.insert(
        image.clone(),
        BundleContent::Failed {
            message: "registry refuses".into(),
            lasting: false,
        },
    );
    cluster.now += Duration::from_secs(3600);
    cluster.round(PLAN);
    assert!(
        cluster
            .summary(PLAN)
            .starts_with("Installing retrying execution due to error: registry refuses")
    );
    cluster.bundles.insert(image, ready);
    cluster.converge(PLAN);
    assert!(cluster.summary(PLAN).starts_with("Complete"));
}

/// A bundle that is there in a moment costs no status.
#[test]
fn short_fetch_is_not_told() {
    let mut cluster = Cluster::with_plan(&[small()]);
    let quiet = Some(Duration::from_secs(2));
    let ready = cluster
        .bundles
        .insert(
            small().image,
            BundleContent::Fetching {
                message: "m".into(),
                quiet,
            },
        )
        .unwrap();
    assert_eq!(
        cluster.round(PLAN),
        (
            false,
            Requeue::After {
                delay: Duration::from_secs(2),
                reason: "tell what is being fetched"
            }
        )
    );
    cluster.bundles.insert(small().image, ready);
    cluster.converge(PLAN);
    assert!(cluster.summary(PLAN).starts_with("Complete"));
}

/// A namesake on its way out would take what it owns along.
#[test]
fn csv_being_deleted_is_waited_out() {
    let mut cluster = Cluster::with_plan(&[small()]);
    let mut csv = small().csv;
    csv["metadata"]["namespace"] = NAMESPACE.into();
    csv["metadata"]["deletionTimestamp"] = "2027-01-15T08:00:00Z".into();
    cluster.put(csv);
    cluster.converge(PLAN);
    assert!(
        cluster
            .summary(PLAN)
            .starts_with("Installing waiting for ClusterServiceVersion demo.v1, which is being deleted")
    );
    cluster.objects.remove("ClusterServiceVersion ns/demo.v1");
    cluster.converge(PLAN);
    assert!(cluster.summary(PLAN).starts_with("Complete"));
}
