//! Single decisions: the observation of the demo in its final state, with one thing changed.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::api::{apps::v1::Deployment, rbac::v1::PolicyRule};
use olm_api::{api_key::ApiKey, condition::csv as reason, v1alpha1::ClusterServiceVersionPhase as Phase};
use olm_runtime::{
    Timestamp,
    plan::{Action, Identity, Plan, Requeue},
};
use serde_json::{Value, json};

use super::{installed, prepared_for};
use crate::{
    csv::{
        coverage::Binding,
        decide::{
            decide,
            transitions::{Transition, Verdict},
        },
        health::{self, DeploymentProblem, Rollout},
        install,
        observed::{ForeignGrants, ForeignGroup, Leftover, Observed},
        rbac::{self, identity},
        replacement::tests::in_phase,
        requirements::evaluate,
        strategy::Scope,
    },
    operator_group::intersection::NamespaceSet,
    test_env::{TestEnv, csv, csv_key, decode, namespace_object},
};

/// The demo in its final state, and the time.
pub(super) fn at_rest() -> (Observed, Timestamp) {
    let mut env = installed();
    let observed = env.observe(&csv_key("a")).unwrap();
    (observed, env.now)
}

/// Edits the ClusterServiceVersion.
pub(super) fn edit(observed: &mut Observed, change: impl FnOnce(&mut Value)) {
    let mut object = serde_json::to_value(&*observed.csv).unwrap();
    change(&mut object);
    observed.csv = Arc::new(decode(object));
}

/// Puts it in a phase, entered and written at `since`.
pub(super) fn put_in(observed: &mut Observed, phase: &str, reason: &str, message: &str, since: Timestamp) {
    edit(observed, |csv| {
        csv["status"] = json!({"phase": phase, "reason": reason, "message": message,
            "lastTransitionTime": since, "lastUpdateTime": since});
    });
}

/// Edits the Deployment `demo`.
fn edit_deployment(observed: &mut Observed, change: impl FnOnce(&mut Value)) {
    let mut object = serde_json::to_value(&*observed.deployments["demo"]).unwrap();
    change(&mut object);
    let deployment: Deployment = decode(object);
    observed.deployments.insert("demo".into(), Arc::new(deployment));
}

pub(super) fn phases(verdict: &Verdict) -> Vec<Phase> {
    let transitions = verdict.transitions.iter();
    transitions.map(|transition| transition.phase.clone()).collect()
}

#[track_caller]
pub(super) fn stays((plan, verdict): &(Plan, Verdict)) {
    assert_eq!(verdict.transitions, []);
    assert_eq!(plan.actions, []);
}

fn delay(plan: &Plan) -> Option<Duration> {
    match plan.requeue {
        Requeue::After { delay, .. } => Some(delay),
        Requeue::AwaitChange => None,
    }
}

#[test]
fn in_a_namespace_on_its_way_out_nothing_is_made() {
    let (mut observed, now) = at_rest();
    observed.deployments.clear();
    assert!(!phases(&decide(&observed, now).1).is_empty());
    observed.namespace_terminating = true;
    stays(&decide(&observed, now));
}

#[test]
fn only_the_one_that_was_seen_is_deleted() {
    let (mut observed, now) = at_rest();
    put_in(&mut observed, "Deleting", reason::REPLACED, "", now);
    let (plan, _) = decide(&observed, now);
    let [Action::Delete { guard, .. }] = plan.actions.as_slice() else {
        panic!("{plan}")
    };
    assert_eq!(guard.uid.as_deref(), Some(observed.uid()));
}

#[test]
fn only_leftovers_that_were_seen_are_removed_and_what_others_keep_is_looked_for_again() {
    let (mut observed, now) = at_rest();
    edit(&mut observed, |csv| {
        csv["metadata"]["deletionTimestamp"] = json!(now);
    });
    observed.leftovers = vec![Leftover {
        target: olm_runtime::plan::Target::cluster::<k8s_openapi::api::rbac::v1::ClusterRole>("left"),
        uid: Some("uid-left".into()),
        is_deleting: false,
        is_kept: false,
    }];
    let (plan, _) = decide(&observed, now);
    let Some(Action::Delete { guard, .. }) = plan.actions.first() else {
        panic!("{plan}")
    };
    assert_eq!(guard.uid.as_deref(), Some("uid-left"));
    assert_eq!(delay(&plan), None);
    // The removal of others' finalizers causes no event, because these objects are not watched.
    observed.leftovers[0].is_kept = true;
    assert_eq!(delay(&decide(&observed, now).0), Some(Duration::from_secs(10)));
}

#[test]
fn ogx_010_a_gate_that_opens_leads_back_through_pending_and_says_so() {
    const SUPPORTED: &str = "InstallModes now support target namespaces";
    for (closed, message) in [
        (reason::NO_OPERATOR_GROUP, SUPPORTED),
        (reason::TOO_MANY_OPERATOR_GROUPS, SUPPORTED),
        (reason::NO_TARGET_NAMESPACES, SUPPORTED),
        (reason::UNSUPPORTED_OPERATOR_GROUP, SUPPORTED),
        (
            reason::INTER_OPERATOR_GROUP_OWNER_CONFLICT,
            "OperatorGroup no longer intersecting with conflicting owner",
        ),
        (
            reason::CANNOT_MODIFY_STATIC_OPERATOR_GROUP_PROVIDED_APIS,
            "static OperatorGroup and intersecting groups now support providedAPIs",
        ),
    ] {
        let (mut observed, now) = at_rest();
        put_in(&mut observed, "Failed", closed, "m", now);
        let (_, verdict) = decide(&observed, now);
        let first = Transition::new(Phase::Pending, reason::REQUIREMENTS_UNKNOWN, message);
        assert_eq!(verdict.transitions.first(), Some(&first), "{closed}");
    }
}

#[test]
fn who_failed_waits_for_an_answer_that_did_not_come() {
    let (mut observed, now) = at_rest();
    edit(&mut observed, |csv| {
        csv["spec"]["nativeAPIs"] = json!([{"group": "g", "version": "v1", "kind": "K"}]);
    });
    let kind = ApiKey {
        group: "g".into(),
        version: "v1".into(),
        kind: "K".into(),
    };
    observed.cluster.unknown.insert(kind, "no answer".into());
    put_in(&mut observed, "Failed", reason::COMPONENT_UNHEALTHY, "m", now);
    let decided = decide(&observed, now);
    stays(&decided);
    assert_eq!(delay(&decided.0), Some(Duration::from_secs(15)));
}

#[test]
fn a_conflict_of_owners_lasts_as_long_as_the_other_owner() {
    let (mut observed, now) = at_rest();
    let message = "conflicting CRD owner in namespace: demos.example.com is owned by other";
    put_in(&mut observed, "Failed", reason::OWNER_CONFLICT, message, now);
    observed.siblings = vec![Arc::new(decode(csv("other", "")))];
    stays(&decide(&observed, now));
    observed.siblings.clear();
    assert_eq!(phases(&decide(&observed, now).1), [Phase::Succeeded]);
}

#[test]
fn an_unusable_configuration_stays_reported_where_it_failed() {
    let (mut observed, now) = at_rest();
    observed.subscription = Some(Err("bad".into()));
    put_in(
        &mut observed,
        "Failed",
        reason::INSTALL_COMPONENT_FAILED,
        "install strategy failed: bad",
        now,
    );
    stays(&decide(&observed, now));
}

#[test]
fn what_was_refused_to_the_groups_account_is_tried_again_in_place() {
    for refused in [
        reason::INSTALL_COMPONENT_FAILED,
        reason::INSTALL_COMPONENT_FAILED_NO_RETRY,
    ] {
        let (mut observed, now) = at_rest();
        put_in(&mut observed, "Failed", refused, "m", now);
        observed.deployments.clear();
        let (plan, verdict) = decide(&observed, now);
        assert_eq!(verdict.transitions, [], "{refused}");
        assert_eq!(plan.actions.len(), 1, "{refused}: {plan}");
    }
}

/// One of two pods still has the previous version.
fn half_rolled_out(observed: &mut Observed) {
    edit_deployment(observed, |deployment| {
        let status = &mut deployment["status"];
        status["replicas"] = json!(2);
        status["updatedReplicas"] = json!(1);
        status["conditions"] = json!([{"type": "Available", "status": "True"}]);
    });
}

#[test]
fn an_install_waits_for_all_new_pods_and_a_running_operator_for_none() {
    let (mut observed, now) = at_rest();
    half_rolled_out(&mut observed);
    stays(&decide(&observed, now));
    put_in(&mut observed, "Installing", reason::INSTALL_SUCCEEDED, "m", now);
    assert_eq!(phases(&decide(&observed, now).1), [Phase::Installing]);
}

#[test]
fn an_install_that_waits_says_what_its_pods_say_and_looks_at_them_ever_less() {
    let (mut observed, now) = at_rest();
    half_rolled_out(&mut observed);
    observed.pod_troubles = Some(BTreeMap::from([("demo".into(), "no image".into())]));
    put_in(&mut observed, "Installing", reason::INSTALL_SUCCEEDED, "m", now);
    let (_, verdict) = decide(&observed, now);
    let message = &verdict.transitions[0].message;
    assert!(message.ends_with("; no image"), "{message}");
    for (waited, next) in [(0, 3), (1, 2), (3, 3), (20, 5), (100, 10), (295, 5)] {
        let (plan, _) = decide(&observed, now + Duration::from_secs(waited));
        assert_eq!(delay(&plan), Some(Duration::from_secs(next)), "{waited}");
    }
}

/// A failed read does not remove the reported cause.
#[test]
fn reports_about_pods_stay_while_they_cannot_be_read() {
    let (mut observed, now) = at_rest();
    half_rolled_out(&mut observed);
    let message = |observed: &Observed| {
        let transitions = decide(observed, now).1.transitions;
        transitions.first().map(|transition| transition.message.clone())
    };
    put_in(&mut observed, "Installing", reason::INSTALL_WAITING, "m", now);
    let bare = message(&observed).unwrap();
    put_in(
        &mut observed,
        "Installing",
        reason::INSTALL_WAITING,
        &format!("{bare}; no image"),
        now,
    );
    assert_eq!(message(&observed), None);
    observed.pod_troubles = Some(BTreeMap::new());
    assert_eq!(message(&observed), Some(bare.clone()), "they have none any more");
    put_in(
        &mut observed,
        "Installing",
        reason::INSTALL_WAITING,
        &format!("{bare} or less"),
        now,
    );
    observed.pod_troubles = None;
    assert_eq!(message(&observed), Some(bare), "that was no cause");
}

#[test]
fn a_deployment_that_was_just_changed_is_given_two_seconds_to_be_answered() {
    let (mut observed, now) = at_rest();
    edit_deployment(&mut observed, |deployment| {
        deployment["metadata"]["generation"] = json!(9);
    });
    put_in(&mut observed, "Installing", reason::INSTALL_SUCCEEDED, "m", now);
    let decided = decide(&observed, now);
    stays(&decided);
    assert_eq!(delay(&decided.0), Some(Duration::from_secs(2)));
}

#[test]
fn a_strategy_that_cannot_be_used_fails_an_install_under_way() {
    let (mut observed, now) = at_rest();
    observed.strategy = Err("no such strategy".into());
    put_in(&mut observed, "Installing", reason::INSTALL_SUCCEEDED, "m", now);
    assert_eq!(phases(&decide(&observed, now).1), [Phase::Failed]);
}

#[test]
fn a_message_is_cut_at_four_kibibytes() {
    let text = "ü".repeat(5000);
    let cut = Transition::new(Phase::Failed, reason::COMPONENT_UNHEALTHY, text).message;
    assert_eq!(cut.trim_end_matches('…').len(), 4096);
    assert!(cut.ends_with('…'));
}

#[test]
fn the_account_of_the_group_writes_and_without_one_olm_does() {
    let (mut observed, _) = at_rest();
    assert_eq!(identity(&observed), Identity::Operator);
    observed.groups[0].service_account = Some("scoped".into());
    let scoped = Identity::ServiceAccount {
        namespace: "ns".into(),
        name: "scoped".into(),
    };
    assert_eq!(identity(&observed), scoped);
}

#[test]
fn an_aggregated_api_has_to_be_served_by_who_is_available() {
    let (mut observed, _) = at_rest();
    edit(&mut observed, |csv| {
        csv["spec"]["apiservicedefinitions"] =
            json!({"required": [{"name": "things", "group": "g", "version": "v1", "kind": "Thing"}]});
    });
    let available = json!({"conditions": [{"type": "Available", "status": "True"}]});
    let service = Arc::new(decode(json!({"metadata": {"name": "v1.g"}, "status": available})));
    observed.cluster.api_services.insert("v1.g".into(), service);
    assert!(!evaluate(&observed).unwrap().met);
    observed.cluster.served.insert(ApiKey {
        group: "g".into(),
        version: "v1".into(),
        kind: "Thing".into(),
    });
    assert!(evaluate(&observed).unwrap().met);
}

#[test]
fn what_an_install_solves_comes_before_what_it_waits_for() {
    let (mut observed, _) = at_rest();
    half_rolled_out(&mut observed);
    let mut strategy = observed.strategy.clone().unwrap();
    let mut second = strategy.deployments[0].clone();
    second.name = "second".into();
    strategy.deployments.push(second);
    observed.strategy = Ok(strategy);
    let (deployment, problem) = install::problem(&observed, Rollout::MustBeComplete).unwrap();
    assert_eq!(deployment, "second");
    assert!(matches!(problem, DeploymentProblem::Missing(_)));
}

#[test]
fn a_deployment_that_only_carries_the_labels_stays() {
    let (mut observed, _) = at_rest();
    let mut foreign = (*observed.deployments["demo"]).clone();
    foreign.metadata.name = Some("foreign".into());
    observed
        .deployments
        .insert("foreign".into(), Arc::new(foreign.clone()));
    assert_eq!(install::writes(&observed).rest.len(), 1, "one's own falls out");
    foreign.metadata.owner_references.as_mut().unwrap()[0].uid = "another".into();
    observed.deployments.insert("foreign".into(), Arc::new(foreign));
    assert_eq!(install::writes(&observed).rest, []);
}

#[test]
fn a_restart_keeps_the_last_answer() {
    let (mut observed, _) = at_rest();
    edit_deployment(&mut observed, |deployment| {
        deployment["metadata"]["generation"] = json!(9);
        deployment["status"]["conditions"] = json!([{"type": "Available", "status": "True"}]);
    });
    let wanted = install::wanted(&observed).remove(0).wanted;
    let live = observed.deployments["demo"].as_ref();
    assert_eq!(health::check(&wanted, Some(live), Rollout::MayProgress), None);
    assert!(health::check(&wanted, Some(live), Rollout::MustBeComplete).is_some());
}

#[test]
fn what_kubectl_noted_for_itself_is_on_no_pod() {
    let noted = "kubectl.kubernetes.io/last-applied-configuration";
    let mut object = csv("a", "");
    object["metadata"]["annotations"] = json!({noted: "{}", "mine": "1"});
    let built = crate::csv::deployment::projected_annotations(&decode(object));
    assert_eq!(built.keys().collect::<Vec<_>>(), ["mine"]);
}

#[test]
fn a_gate_that_closes_for_another_reason_than_the_group_takes_no_rights() {
    let mut env = prepared_for(&[]).with(csv("a", ""));
    env.settle_for(5);
    let mut observed = env.observe(&csv_key("a")).unwrap();
    assert!(!observed.rbac.cluster_roles.is_empty());
    let message = "intersecting operatorgroups provide the same apis: Demo.v1.example.com is provided by OperatorGroup far/other";
    let conflict = reason::INTER_OPERATOR_GROUP_OWNER_CONFLICT;
    put_in(&mut observed, "Failed", conflict, message, env.now);
    let provided = std::mem::take(&mut observed.groups[0].provided);
    observed.foreign_groups = vec![ForeignGroup {
        id: "far/other".into(),
        targets: NamespaceSet::new([""]),
        provided,
    }];
    let (plan, verdict) = decide(&observed, env.now + Duration::from_secs(3600));
    assert_eq!(verdict.transitions, []);
    let printed = plan.to_string();
    assert!(!printed.contains("ClusterRole"), "{printed}");
}

#[test]
fn an_install_without_its_rights_in_a_target_goes_on() {
    let mut env = prepared_for(&["ns", "one"])
        .with(namespace_object("one"))
        .with(csv("a", ""));
    env.settle_for(5);
    let mut observed = env.observe(&csv_key("a")).unwrap();
    put_in(
        &mut observed,
        "Installing",
        reason::INSTALL_SUCCEEDED,
        "m",
        env.now,
    );
    assert_eq!(phases(&decide(&observed, env.now).1), [Phase::Succeeded]);
    observed.rbac.replicated_roles.clear();
    assert_eq!(phases(&decide(&observed, env.now).1), [Phase::Succeeded]);
    put_in(
        &mut observed,
        "Succeeded",
        reason::INSTALL_SUCCEEDED,
        "m",
        env.now,
    );
    let (plan, verdict) = decide(&observed, env.now);
    assert_eq!(verdict.transitions, []);
    assert_eq!((plan.actions.len(), plan.independent), (1, 1), "{plan}");
}

/// B waits for A to be replaced, and A waits for a requirement that B may provide.
#[test]
fn an_operator_that_runs_and_lacks_something_makes_way_for_its_successor() {
    let (mut observed, now) = at_rest();
    put_in(&mut observed, "Pending", reason::REQUIREMENTS_NOT_MET, "m", now);
    observed.accounts.clear();
    assert_eq!(phases(&decide(&observed, now).1), [Phase::Pending]);
    observed.siblings = vec![in_phase("b", "a", Phase::Pending)];
    assert_eq!(phases(&decide(&observed, now).1), [Phase::Replacing]);
    // An operator that does not run has nothing to pass on.
    observed.deployments.clear();
    assert_eq!(phases(&decide(&observed, now).1), [Phase::Pending]);
}

#[test]
fn with_fail_forward_the_last_of_the_chain_has_to_succeed() {
    let (mut observed, now) = at_rest();
    put_in(&mut observed, "Replacing", reason::BEING_REPLACED, "m", now);
    observed.siblings = vec![
        in_phase("b", "a", Phase::Succeeded),
        in_phase("c", "b", Phase::Pending),
    ];
    assert_eq!(phases(&decide(&observed, now).1), [Phase::Deleting]);
    observed.groups[0].fail_forward = true;
    stays(&decide(&observed, now));
}

#[test]
fn a_cluster_permission_is_covered_by_bindings_of_the_cluster_only() {
    let (mut observed, _) = at_rest();
    let rule: PolicyRule = decode(json!({"verbs": ["get"], "apiGroups": ["g"], "resources": ["r"]}));
    let grants = |namespace: Option<&str>| ForeignGrants {
        bindings: vec![Binding {
            namespace: namespace.map(str::to_owned),
            role: decode(json!({"apiGroup": "", "kind": "ClusterRole", "name": "r"})),
            subjects: vec![decode(
                json!({"kind": "ServiceAccount", "name": "demo", "namespace": "ns"}),
            )],
        }],
        roles: [((None, "r".to_owned()), vec![rule.clone()])].into(),
    };
    for (namespace, scope, covered) in [
        (Some("ns"), Scope::Namespace, true),
        (Some("ns"), Scope::Cluster, false),
        (None, Scope::Cluster, true),
    ] {
        observed.rbac.granted_by_others = Some(grants(namespace));
        assert_eq!(
            rbac::granted_by_others(&observed, scope, "demo").is_some_and(|granted| granted.covers(&rule)),
            covered,
            "{namespace:?} {scope:?}"
        );
    }
}

#[test]
fn what_is_anothers_a_copy_or_on_its_way_out_is_not_observed() {
    let mut env = prepared_for(&["ns", "one", "two"])
        .with(namespace_object("one"))
        .with(csv("a", ""));
    env.settle_for(5);
    let roles = |env: &mut TestEnv| {
        let observed = env.observe(&csv_key("a")).unwrap();
        observed.rbac.roles.len()
    };
    let own = roles(&mut env);
    let labels = json!({"olm.managed": "true", "olm.owner": "other", "olm.owner.namespace": "ns",
        "olm.owner.kind": "ClusterServiceVersion"});
    env.put(
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "rules": [],
        "metadata": {"namespace": "ns", "name": "other", "labels": labels}}),
    );
    assert_eq!(roles(&mut env), own);

    env.by_hand = true;
    let mut copy = csv("copy", "");
    copy["status"] = json!({"phase": "Succeeded", "reason": "Copied"});
    env.put(copy);
    let mut going = namespace_object("two");
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    going["metadata"]["finalizers"] = json!(["kept"]);
    env.put(going);
    let observed = env.observe(&csv_key("a")).unwrap();
    assert!(observed.siblings.is_empty());
    assert_eq!(observed.open_targets.iter().collect::<Vec<_>>(), ["one"]);
}
