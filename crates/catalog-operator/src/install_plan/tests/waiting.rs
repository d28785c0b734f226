//! Reasons for a plan to wait: approval, a group, content, owners, objects being deleted.

use olm_api::{approval, labels};

use super::*;

fn unapproved(plan: &mut Value) {
    plan["status"]["phase"] = "RequiresApproval".into();
    plan["spec"]["approved"] = false.into();
}

#[test]
fn ip_003_ip_004_nothing_is_made_before_it_is_approved() {
    let mut env = TestEnv::with_plan(&[small()]);
    env.change_plan(PLAN, unapproved);
    env.settle_for(3600);
    assert_eq!(env.writes, Vec::<String>::new());
    env.change_plan(PLAN, |plan| plan["spec"]["approved"] = true.into());
    env.converge();
    env.assert_summary(PLAN, "Complete");
}

/// A ClusterServiceVersion that is to own itself, or two that are to own each other, would wait for ever.
#[test]
fn a_csv_waits_for_no_csv_as_its_owner() {
    for owner in ["demo.v1", "demo.v2", "gone.v1"] {
        let mut owned = small();
        let reference = object::csv_owner_reference(owner, "");
        let kept = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "mine", "uid": "u"});
        owned.csv["metadata"]["ownerReferences"] = json!([reference, kept]);
        let mut other = bundle("demo.v2", Vec::new());
        other.csv["metadata"]["ownerReferences"] = json!([object::csv_owner_reference("demo.v1", "")]);
        other.csv["spec"]["customresourcedefinitions"] = json!({});
        let mut env = TestEnv::with_plan(&[owned, other]);
        env.converge();
        env.assert_summary(PLAN, "Complete");
        let csv = env.object("ClusterServiceVersion ns/demo.v1");
        assert_eq!(csv["metadata"]["ownerReferences"], json!([kept]), "{owner}");
    }
}

/// A copy cannot be an owner: a plan that took it for the ClusterServiceVersion would fail at the first ServiceAccount.
#[test]
fn the_copy_of_an_operator_elsewhere_is_waited_for_and_reported() {
    let mut made = TestEnv::with_plan(&[small()]);
    made.converge();
    let mut copy = made.object("ClusterServiceVersion ns/demo.v1");
    copy["metadata"]["labels"]["olm.copiedFrom"] = json!("elsewhere");
    let mut env = TestEnv::with_plan(&[small()]);
    env.put(copy);
    env.settle_for(600);
    env.assert_told(PLAN, "a copy of an operator from another namespace");
    assert_eq!(env.plan(PLAN)["status"]["phase"], "Installing");
    env.delete("ClusterServiceVersion ns/demo.v1");
    env.settle_for(120);
    env.assert_summary(PLAN, "Complete");
    let csv = env.object("ClusterServiceVersion ns/demo.v1");
    assert_eq!(csv["metadata"]["labels"].get("olm.copiedFrom"), None);
}

/// IP-014, IP-015, IP-017: nothing is created, the condition says why, and a valid group clears it.
#[test]
fn og_013_ip_014_ip_015_ip_016_ip_017_groups_that_do_not_fit_stop_the_plan() {
    let named = group(
        json!({"serviceAccountName": "scoped"}),
        json!({"namespaces": [NAMESPACE]}),
    );
    let mut second = group(json!({}), json!({"namespaces": ["b"]}));
    second["metadata"]["name"] = json!("second");
    let two = vec![group(json!({}), json!({"namespaces": ["a"]})), second];
    let rows = [
        (vec![], "no operator group found that is managing this namespace"),
        (
            vec![group(json!({}), json!({}))],
            "no operator group found that is managing this namespace: OperatorGroup ns/og has not been processed by olm-operator yet",
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
        let mut env = TestEnv::with_plan(&[small()]);
        let good = env.all("OperatorGroup");
        env.set_groups(&groups);
        env.converge();
        assert_eq!(env.writes, ["patch InstallPlan ns/install-1 status"]);
        let summary = env.summary(PLAN);
        assert!(
            summary.starts_with(&format!(
                "Installing -\nInstalled=False InstallCheckFailed {text}\n"
            )),
            "{summary}"
        );
        env.set_groups(&good);
        env.converge();
        env.assert_summary(PLAN, "Complete -\nInstalled=True - -");
    }
}

/// The failed check is over although the plan still waits.
#[test]
fn check_that_no_longer_fails_leaves_reason_unknown() {
    let mut env = TestEnv::with_plan(&[small()]);
    env.change_plan(PLAN, unapproved);
    let good = env.all("OperatorGroup");
    env.set_groups(&[]);
    env.converge();
    env.set_groups(&good);
    env.converge();
    env.assert_summary(PLAN, "RequiresApproval -\nInstalled=False Unknown -");
}

/// An object that is being deleted is waited for instead of changed.
#[test]
fn object_being_deleted_is_waited_out() {
    for name in [
        "CustomResourceDefinition demos.example.com",
        "ServiceAccount ns/demo",
    ] {
        let mut env = TestEnv::with_plan(&[small()]);
        env.converge();
        let mut going = env.object(name);
        going["metadata"]["deletionTimestamp"] = "2027-01-15T08:00:00Z".into();
        let mut env = TestEnv::with_plan(&[small()]);
        env.put(going);
        env.converge();
        let summary = env.summary(PLAN);
        assert!(summary.contains("waiting for deletion of"), "{summary}");
        env.delete(name);
        env.converge();
        env.assert_summary(PLAN, "Complete");
    }
}

/// An owner that does not exist fails the plan after the window, or the plan completes when it comes in time.
#[test]
fn missing_owner_is_waited_for_within_the_window() {
    let inline = |plan: &mut Value| {
        let manifest = core("ConfigMap", "config", json!({"data": {}})).to_string();
        plan["status"]["plan"] = json!([{"resolving": "demo.v1", "status": "Unknown",
            "resource": {"sourceName": "", "sourceNamespace": "", "group": "", "version": "v1", "kind": "ConfigMap", "name": "config", "manifest": manifest}}]);
    };
    let text = "error generating ownerrefs for configmap: config: clusterserviceversions.operators.coreos.com \"demo.v1\" not found";
    let mut env = TestEnv::with_plan(&[small()]);
    env.change_plan(PLAN, inline);
    env.converge();
    env.assert_summary(
        PLAN,
        &format!("Installing retrying execution due to error: {text}"),
    );
    let mut csv = small().csv;
    csv["metadata"]["namespace"] = NAMESPACE.into();
    env.put(csv);
    env.converge();
    env.assert_summary(PLAN, "Complete");

    let mut env = TestEnv::with_plan(&[small()]);
    env.change_plan(PLAN, inline);
    env.settle_for(59);
    env.assert_summary(PLAN, "Installing ");
    env.settle_for(2);
    env.assert_summary(PLAN, &format!("Failed {text}"));
}

#[test]
fn arch_012_plan_without_steps_or_lookups_is_ignored() {
    let mut env = TestEnv::with_plan(&[]);
    env.settle_for(3600);
    assert_eq!(env.writes, Vec::<String>::new());
}

/// A bundle that has to be fetched again is waited for; one that is unavailable is reported.
#[test]
fn bundle_content_is_waited_for() {
    let mut env = TestEnv::with_plan(&[small()]);
    env.images.set_slow(Duration::from_secs(8));
    env.settle_for(1);
    assert_eq!(env.writes, Vec::<String>::new(), "too early to tell");
    env.settle_for(2);
    env.assert_summary(PLAN, "Installing fetching bundle image r/demo.v1@sha256:00\n");
    env.images.set_broken(Some(UnpackClass::Unauthorized));
    env.settle_for(3600);
    env.assert_summary(
        PLAN,
        "Installing retrying execution due to error: bundle demo.v1: registry refuses; ",
    );
    env.images.set_broken(None);
    env.settle_for(70);
    env.assert_summary(PLAN, "Complete");
}

/// A bundle that is there in a moment costs no status.
#[test]
fn short_fetch_is_not_reported() {
    let mut env = TestEnv::with_plan(&[small()]);
    env.images.set_slow(Duration::from_millis(1500));
    env.settle_for(1);
    assert_eq!(env.writes, Vec::<String>::new());
    env.converge();
    env.assert_summary(PLAN, "Complete");
    assert_eq!(env.messages(PLAN), Vec::<String>::new());
}

/// An object of the same name that is being deleted would take the objects that it owns with it.
#[test]
fn csv_being_deleted_is_waited_out() {
    let mut env = TestEnv::with_plan(&[small()]);
    let mut csv = small().csv;
    csv["metadata"]["namespace"] = NAMESPACE.into();
    csv["metadata"]["deletionTimestamp"] = "2027-01-15T08:00:00Z".into();
    env.put(csv);
    env.converge();
    env.assert_summary(
        PLAN,
        "Installing waiting for deletion of ClusterServiceVersion demo.v1",
    );
    env.delete("ClusterServiceVersion ns/demo.v1");
    env.converge();
    env.assert_summary(PLAN, "Complete");
}

/// `spec.approved` alone runs the current steps; with a hash, only the reviewed ones.
#[test]
fn steps_that_were_not_reviewed_are_not_executed() {
    let approve = |env: &TestEnv, hash: Option<&str>| {
        env.change_plan(PLAN, |plan| {
            plan["status"]["phase"] = json!("RequiresApproval");
            plan["spec"]["approved"] = json!(true);
            if let Some(hash) = hash {
                plan["metadata"]["annotations"] = json!({(labels::APPROVED_HASH): hash});
            }
        });
    };
    let hash = |env: &TestEnv| approval::plan_hash(&serde_json::from_value(env.plan(PLAN)).unwrap());

    let mut env = TestEnv::with_plan(&[small()]);
    approve(&env, None);
    env.converge();
    env.assert_summary(PLAN, "Complete");

    let mut env = TestEnv::with_plan(&[small()]);
    let shown = hash(&env);
    approve(&env, Some(&shown));
    env.converge();
    env.assert_summary(PLAN, "Complete");

    // A user who may write statuses changes the steps between the review and the approval.
    let mut env = TestEnv::with_plan(&[small()]);
    env.change_plan(PLAN, |plan| {
        plan["status"]["plan"][0]["resource"]["name"] = json!("other");
    });
    approve(&env, Some(&shown));
    let before = env.objects().len();
    env.converge();
    env.assert_summary(PLAN, "RequiresApproval");
    env.assert_told(PLAN, "OtherStepsApproved");
    env.assert_told(PLAN, "kubectl operator approve");
    assert_eq!(env.objects().len(), before, "nothing is made");
    // A withdrawn approval ends the report.
    env.change_plan(PLAN, |plan| plan["spec"]["approved"] = false.into());
    env.converge();
    let summary = env.summary(PLAN);
    assert!(!summary.contains("OtherStepsApproved"), "{summary}");
    env.change_plan(PLAN, |plan| plan["spec"]["approved"] = true.into());
    env.converge();
    env.assert_told(PLAN, "OtherStepsApproved");
    // A user who reviews the plan again approves the current steps.
    env.change_plan(PLAN, |plan| {
        plan["status"]["plan"][0]["resource"]["name"] = json!("demo.v1");
    });
    env.converge();
    env.assert_summary(PLAN, "Complete");

    // Steps that are added during the execution are not executed either.
    let mut env = TestEnv::with_plan(&[small()]);
    approve(&env, Some(&shown));
    env.change_plan(PLAN, |plan| {
        plan["status"]["phase"] = json!("Installing");
        plan["status"]["plan"].as_array_mut().unwrap().truncate(1);
    });
    env.converge();
    env.assert_summary(PLAN, "Installing");
    assert_eq!(
        env.find(&format!("ClusterServiceVersion {NAMESPACE}/demo.v1")),
        None
    );
}

/// The results of the first reconcile and an error of the second are reported together, and what exists is not made again.
#[test]
fn the_status_is_written_when_a_step_fails() {
    let mut env = TestEnv::with_plan(&[small()]);
    env.refuse("create ServiceAccount", FailureClass::Forbidden);
    env.settle();
    // Once with the error, and once more when the API of the definition is served.
    assert_eq!(env.count("patch InstallPlan"), 2, "{:#?}", env.writes);
    let error = "error creating service account: demo: server says Forbidden";
    env.assert_summary(
        PLAN,
        &format!("Installing retrying execution due to error: {error}"),
    );
    env.assert_told(PLAN, "ClusterServiceVersion/demo.v1 Created");
    env.assert_told(PLAN, "ServiceAccount/demo Unknown");
    env.assert_told(PLAN, "ClusterRole/demo.v1-HASH Created");
    env.allow();
    env.converge();
    env.assert_summary(PLAN, "Complete");
    assert_eq!(env.count("create ClusterRole demo"), 1);
}
