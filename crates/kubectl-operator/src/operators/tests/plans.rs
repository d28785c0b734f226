//! InstallPlans that wait or failed, and the ways out.

use super::*;
use crate::args::ConnectionArgs;

#[test]
fn a_plan_that_waits_for_a_user_is_reported_until_it_is_approved() {
    let status = json!({"installPlanRef": {"name": "install-1"}});
    for (phase, approved, state) in [
        ("RequiresApproval", false, State::RequiresApproval),
        ("RequiresApproval", true, State::Installing),
        ("Installing", true, State::Installing),
        ("Failed", true, State::Failed),
    ] {
        let (verdict, _) = one([subscription("db", &status), plan("install-1", phase, approved)]);
        assert_eq!(verdict.state, state, "{phase} {approved}");
    }
    let text = |approval: &str| {
        let mut subscription = subscription("db", &status);
        subscription["spec"]["installPlanApproval"] = json!(approval);
        one([subscription, plan("install-1", "RequiresApproval", false)])
            .0
            .message
    };
    let manual = text("Manual");
    assert!(manual.ends_with("waiting for approval"), "{manual}");
    // Deletion does not help: beside a Manual Subscription the next plan is Manual, too.
    let automatic = text("Automatic");
    assert!(
        automatic.ends_with(
            "waiting for approval, because a Subscription of the namespace is Manual, or was when the plan was made"
        ),
        "{automatic}"
    );
}

/// The state is that of the version before, so drawings must not say that the operator is being upgraded.
#[test]
fn a_version_whose_plan_waits_for_approval_has_not_begun() {
    let status = json!({"installedCSV": "etcd.v1.0.0", "currentCSV": "etcd.v2.0.0", "installPlanRef": {"name": "install-1"}});
    for phase in ["Pending", "Installing", "Failed"] {
        for approved in [false, true] {
            let gathered = gathered_of([
                subscription("db", &status),
                csv("1.0.0", phase, ""),
                plan("install-1", "RequiresApproval", approved),
            ]);
            let position = gathered.operators()[0].position();
            assert_eq!(
                (position.next.as_str(), position.has_begun),
                ("etcd.v2.0.0", approved),
                "{phase}"
            );
        }
    }
}

/// A field that the old schema lacks is removed again by the API server.
#[test]
fn resources_that_a_new_schema_refuses_have_a_way_out_that_can_be_gone() {
    let status = json!({"installPlanRef": {"name": "install-1"}});
    for (message, is_told) in [
        (
            "updated validation is too restrictive: spec.color: is required",
            true,
        ),
        ("no group", false),
    ] {
        let mut failed = plan("install-1", "Failed", true);
        failed["status"]["message"] = json!(message);
        let gathered = gathered_of([subscription("db", &status), failed]);
        let operators = gathered.operators();
        let way_out = operators[0].way_out(&operators[0].verdict(), &CommandLine::default());
        let way_out = way_out.unwrap();
        assert_eq!(
            way_out.contains("for a default), then delete the plan"),
            is_told,
            "{way_out}"
        );
    }
}

/// `explain` and `doctor` have it, too.
#[test]
fn a_first_install_that_failed_has_the_way_out_in_its_status() {
    let status = json!({"installedCSV": "etcd.v1.0.0", "currentCSV": "etcd.v1.0.0"});
    let (_, text) = one([
        subscription("db", &status),
        csv("1.0.0", "Failed", "install timeout"),
    ]);
    let expected = "\n│  to resolve: correct the cause, and OLM tries again\n";
    assert!(text.contains(expected), "{text}");
}

/// OLM does not carry out a failed plan again, and creates another only for versions that do not exist.
#[test]
fn a_failed_plan_whose_version_exists_has_another_way_out() {
    let waiting = |replaces: &str| {
        let mut csv = csv("2.0.0", "Pending", "no such role");
        csv["spec"]["replaces"] = json!(replaces);
        csv
    };
    let again = "OLM creates no other plan while etcd.v2.0.0 exists";
    let rows = [
        (
            vec![csv("1.0.0", "Succeeded", "")],
            "correct the cause, then delete the plan, and OLM creates another: kubectl delete installplan install-1 -n shop"
                .to_owned(),
        ),
        (
            vec![waiting("")],
            format!(
                "correct the cause, then uninstall it with kubectl operator uninstall db -n shop, and install it again with kubectl \
                 operator install etcd --version etcd.v2.0.0 -n shop: {again}"
            ),
        ),
        (
            vec![waiting("etcd.v1.0.0"), csv("1.0.0", "Replacing", "")],
            format!(
                "correct the cause, then go back to etcd.v1.0.0 with kubectl operator rollback db --to etcd.v1.0.0 -n shop, and \
                 upgrade again: {again}"
            ),
        ),
        (
            vec![waiting("etcd.v1.0.0"), csv("1.0.0", "Failed", "")],
            format!(
                "correct the cause, then uninstall it with kubectl operator uninstall db -n shop, and install it again with kubectl \
                 operator install etcd --version etcd.v2.0.0 -n shop: {again}"
            ),
        ),
    ];
    for (csvs, expected) in rows {
        let name = &csvs[0]["metadata"]["name"];
        let status = json!({"installedCSV": name, "currentCSV": "etcd.v2.0.0", "installPlanRef": {"name": "install-1"}});
        let mut failed = plan("install-1", "Failed", true);
        failed["status"]["message"] = json!("no rights");
        let objects = [subscription("db", &status), failed];
        let gathered = gathered_of(objects.into_iter().chain(csvs));
        let operators = gathered.operators();
        let verdict = operators[0].verdict();
        assert_eq!(
            (verdict.state, verdict.message.as_str()),
            (State::Failed, "InstallPlan install-1: no rights")
        );
        let way_out = operators[0].way_out(&verdict, &CommandLine::default());
        assert_eq!(way_out, Some(expected));
    }
}

/// `status` and `explain` point at each other otherwise.
#[test]
fn the_operator_groups_of_a_namespace_have_a_way_out_in_status_and_explain() {
    let status = json!({"installedCSV": "etcd.v2.0.0", "currentCSV": "etcd.v2.0.0"});
    for (reason, expected) in [
        (
            "NoOperatorGroup",
            "to resolve: create an OperatorGroup in namespace shop, with spec {} for all namespaces, or for this one: echo \
             '{\"apiVersion\":\"operators.coreos.com/v1\",\"kind\":\"OperatorGroup\",\"metadata\":{\"name\":\"shop\",\"namespace\":\"shop\"},\
             \"spec\":{\"targetNamespaces\":[\"shop\"]}}' | kubectl create -f -",
        ),
        (
            "TooManyOperatorGroups",
            "to resolve: delete all OperatorGroups but one: kubectl delete operatorgroup NAME -n shop",
        ),
        // A version before it could run.
        (
            "InstallCheckFailed",
            "to resolve: raise ResourceQuota q, or delete what uses it up, and OLM continues: kubectl edit resourcequota q -n shop; or \
             go back to etcd.v1.0.0: kubectl operator rollback db -n shop",
        ),
    ] {
        let mut failed = csv("2.0.0", "Failed", "exceeded quota: q, requested: pods=1");
        failed["spec"]["replaces"] = json!("etcd.v1.0.0");
        failed["status"]["reason"] = json!(reason);
        let former = csv("1.0.0", "Replacing", "");
        let (_, text) = one([subscription("db", &status), failed, former]);
        assert!(text.contains(expected), "{reason}: {text}");
    }
}

/// Without the flags they would change another cluster.
#[test]
fn the_ways_out_of_operator_groups_are_for_the_same_cluster() {
    let commands = CommandLine::of(&ConnectionArgs {
        context: Some("dev".to_owned()),
        as_user: Some("eve".to_owned()),
        ..ConnectionArgs::default()
    });
    let status = json!({"installedCSV": "etcd.v2.0.0", "currentCSV": "etcd.v2.0.0"});
    for (reason, command) in [
        ("NoOperatorGroup", "kubectl create -f -"),
        ("TooManyOperatorGroups", "kubectl delete operatorgroup NAME"),
    ] {
        let mut failed = csv("2.0.0", "Failed", "no group");
        failed["status"]["reason"] = json!(reason);
        let gathered = gathered_of([subscription("db", &status), failed]);
        let operators = gathered.operators();
        let way_out = operators[0].way_out(&operators[0].verdict(), &commands);
        let way_out = way_out.unwrap_or_default();
        let command = format!("{command} -n shop --context dev --as eve");
        assert!(way_out.ends_with(&command), "{reason}: {way_out}");
    }
}

/// Only a version that succeeded runs again, and what is known about the cause comes first.
#[test]
fn a_rollback_is_a_way_out_only_to_a_version_that_succeeded() {
    let status = json!({"installedCSV": "etcd.v2.0.0", "currentCSV": "etcd.v2.0.0"});
    let group = "install the operator in another namespace, or set spec.targetNamespaces of the group to [shop]: kubectl edit \
                 operatorgroup og -n shop";
    for (former, expected) in [
        ("Failed", group.to_owned()),
        (
            "Replacing",
            format!("{group}; or go back to etcd.v1.0.0: kubectl operator rollback db -n shop"),
        ),
    ] {
        let mut failed = csv("2.0.0", "Failed", "SingleNamespace InstallModeType not supported");
        failed["metadata"]["annotations"] = json!({"olm.operatorGroup": "og"});
        failed["spec"]["installModes"] = json!([{"type": "OwnNamespace", "supported": true}]);
        failed["spec"]["replaces"] = json!("etcd.v1.0.0");
        failed["status"]["reason"] = json!("UnsupportedOperatorGroup");
        let gathered = gathered_of([subscription("db", &status), failed, csv("1.0.0", former, "")]);
        let operators = gathered.operators();
        let way_out = operators[0].way_out(&operators[0].verdict(), &CommandLine::default());
        assert_eq!(way_out, Some(expected));
    }
}

/// An upgrade may be approved although the version before has failed, which OLM does not replace.
#[test]
fn a_version_that_waits_for_a_failed_one_has_a_way_out() {
    let status = json!({"installedCSV": "etcd.v2.0.0", "currentCSV": "etcd.v2.0.0"});
    let way_out = "to resolve: correct the failure of etcd.v1.0.0 (install timeout), and OLM continues, or go back: kubectl operator \
                   rollback db -n shop";
    for (former, expected) in [("Failed", true), ("Succeeded", false)] {
        let mut next = csv("2.0.0", "Pending", "waiting for csv etcd.v1.0.0");
        next["spec"]["replaces"] = json!("etcd.v1.0.0");
        let (_, text) = one([
            subscription("db", &status),
            next,
            csv("1.0.0", former, "install timeout"),
        ]);
        assert_eq!(text.contains(way_out), expected, "{text}");
    }
}

/// Only the name of a quota becomes part of a command.
#[test]
fn the_quota_that_is_used_up_is_to_be_raised() {
    for (message, expected) in [
        (
            "forbidden: exceeded quota: q.x-1, requested: pods=1",
            Some("q.x-1"),
        ),
        ("forbidden: exceeded quota: q", None),
        ("forbidden: exceeded quota: --all, requested: pods=1", None),
        ("forbidden: exceeded quota: a b, requested: pods=1", None),
        ("waiting for deployment etcd", None),
    ] {
        let gathered = gathered_of([csv("1.0.0", "Installing", message)]);
        let operators = gathered.operators();
        let way_out = operators[0].way_out(&operators[0].verdict(), &CommandLine::default());
        let text = expected.map(|quota| {
            format!(
                "raise ResourceQuota {quota}, or delete what uses it up, and OLM continues: kubectl edit resourcequota {quota} -n shop"
            )
        });
        assert_eq!(way_out, text, "{message}");
    }
}

/// OLM carries the plan out again until it succeeds; also while the Subscription refers to the plan of the next version already.
#[test]
fn a_plan_that_is_carried_out_again_names_its_error_and_the_way_out() {
    let quota =
        "serviceaccounts \"etcd\" is forbidden: exceeded quota: q, requested: count/serviceaccounts=1";
    let silent =
        "bundle etcd.v1.0.0: cannot pull image; OLM retries until the registry answers; check the registry";
    for (error, expected) in [
        (
            quota,
            Some(
                "raise ResourceQuota q, or delete what uses it up, and OLM continues: kubectl edit resourcequota q -n shop",
            ),
        ),
        (
            "roles is forbidden",
            Some("correct the cause, and OLM tries again"),
        ),
        (silent, None),
    ] {
        for is_left in [false, true] {
            let current = if is_left { "etcd.v2.0.0" } else { "etcd.v1.0.0" };
            let plan_name = if is_left { "install-2" } else { "install-1" };
            let status = json!({"installedCSV": "etcd.v1.0.0", "currentCSV": current, "installPlanRef": {"name": plan_name}});
            let mut retried = plan("install-1", "Installing", true);
            retried["spec"]["clusterServiceVersionNames"] = json!(["etcd.v1.0.0"]);
            retried["status"]["message"] = json!(format!("retrying execution due to error: {error}"));
            let mut gathered = gathered_of([
                subscription("db", &status),
                csv("1.0.0", "Pending", "waiting for ServiceAccount etcd"),
                retried.clone(),
                plan("install-2", "RequiresApproval", false),
            ]);
            if is_left {
                let key = ("shop".to_owned(), "etcd.v1.0.0".to_owned());
                gathered.failed_plans.insert(key, typed(retried));
            }
            let operators = gathered.operators();
            let verdict = operators[0].verdict();
            let text = format!("InstallPlan install-1: retrying execution due to error: {error}");
            assert_eq!((verdict.state, &verdict.message), (State::Installing, &text));
            // `plan` reports it, too.
            assert_eq!(verdict.is_failure(), expected.is_some());
            let way_out = operators[0].way_out(&verdict, &CommandLine::default());
            assert_eq!(
                way_out.as_deref().and_then(|text| text.split("; see ").next()),
                expected
            );
            let tree = gathered.tree(&operators[0], &CommandLine::default());
            assert_eq!(tree.is_stuck, expected.is_some(), "{tree:?}");
            assert_eq!(tree.way_out(), expected);
            assert!(tree.waits_for().contains(error), "{tree:?}");
        }
    }
}
