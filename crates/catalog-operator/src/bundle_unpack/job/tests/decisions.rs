//! Writes of a reconcile for a Job.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::PartialObjectMeta;
use olm_runtime::outcome::{Outcome, outcomes_for_tests};
use olm_runtime::plan::{Action, Plan};

use super::super::decide::{Memory, decide, status};
use super::super::observed::Observed;
use super::*;
use crate::pruning::{prune_role, prune_role_binding};

/// A request whose objects all exist, with a running Job.
fn going(secrets: &Value, seconds: u64) -> Observed {
    let key = key("r/b:v1");
    let source = source(&json!([]));
    let config_map = json!({"metadata": {"namespace": "golden", "name": key.name, "uid": "cm",
        "ownerReferences": [{"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "name": "cat", "uid": "u"}]}});
    let mut observed = Observed {
        wish: Some(Arc::new(wish("r/b:v1", 600))),
        config_map: Some(serde_json::from_value::<PartialObjectMeta<ConfigMap>>(config_map).unwrap()),
        account: None,
        role: None,
        role_binding: None,
        jobs: vec![found_job(&key, secrets, seconds, &Value::Null)],
        settings: settings(),
        source: Some(Arc::new(source)),
        key,
    };
    give_rights(&mut observed, "cm");
    observed
}

fn found_job(key: &NamespacedName, secrets: &Value, seconds: u64, status: &Value) -> Arc<JobSketch> {
    let mut job = to_value(&build_job(
        key,
        "cm",
        &[],
        &wish("r/b:v1", seconds),
        &source(secrets),
        &settings(),
    ));
    job["metadata"]["uid"] = json!("job");
    job["status"] = status.clone();
    job_sketch(&job)
}

fn give_rights(observed: &mut Observed, owner: &str) {
    let key = &observed.key;
    let (mut role, mut binding) = (build_role(key, owner), build_role_binding(key, owner));
    prune_role(&mut role);
    prune_role_binding(&mut binding);
    observed.account = Some(Arc::new(build_account(key, owner)));
    observed.role = Some(Arc::new(role));
    observed.role_binding = Some(Arc::new(binding));
}

/// Returns the plan, and the state for the next reconcile after its success.
fn decided(observed: &Observed, memory: Option<&Memory>) -> (Plan, Option<Memory>) {
    let (plan, verdict) = decide(observed, memory, "2026-01-01T00:00:00Z".parse().unwrap());
    let done = plan
        .actions
        .iter()
        .map(|_| Outcome::Done(Arc::new(json!({"metadata": {"uid": "made"}}))))
        .collect();
    let memory = status(observed, verdict, &outcomes_for_tests(done)).memory;
    (plan, memory)
}

fn writes(observed: &Observed, memory: Option<&Memory>) -> Vec<String> {
    let (plan, _) = decided(observed, memory);
    plan.actions.iter().map(Action::brief).collect()
}

/// The ConfigMap was recreated: the garbage collector deletes objects that it does not own while the Job
/// needs them.
#[test]
fn rights_of_a_config_map_that_is_gone_are_given_anew() {
    let mut observed = going(&json!([]), 600);
    assert_eq!(writes(&observed, None), Vec::<String>::new());
    give_rights(&mut observed, "before");
    let written = writes(&observed, None);
    assert_eq!(written.len(), 3, "{written:?}");
    for kind in ["ServiceAccount", "Role", "RoleBinding"] {
        assert!(
            written
                .iter()
                .any(|text| text.starts_with("apply") && text.contains(kind)),
            "{kind}: {written:?}"
        );
    }
}

#[test]
fn a_config_map_that_no_job_can_fill_goes_first() {
    let mut observed = going(&json!([]), 600);
    let discarding = |uid: &str| JobWish {
        discarded: Some(uid.to_owned()),
        ..wish("r/b:v1", 600)
    };
    observed.wish = Some(Arc::new(discarding("cm")));
    let written = writes(&observed, None);
    assert_eq!(written.len(), 1, "{written:?}");
    assert!(written[0].starts_with("delete") && written[0].contains("ConfigMap"));
    // The one that replaced it is kept.
    observed.wish = Some(Arc::new(discarding("before")));
    assert_eq!(writes(&observed, None), Vec::<String>::new());
    // One that is already being deleted is not deleted again.
    observed.wish = Some(Arc::new(discarding("cm")));
    let leaving = &mut observed.config_map.as_mut().unwrap().metadata.deletion_timestamp;
    *leaving = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
        "2026-01-01T00:00:00Z".parse().unwrap(),
    ));
    assert_eq!(writes(&observed, None), Vec::<String>::new());
}

#[test]
fn a_job_that_goes_on_is_given_what_has_changed() {
    let asking = |secrets: &Value, seconds| {
        let mut observed = going(&json!(["injected", "old"]), 600);
        observed.source = Some(Arc::new(source(secrets)));
        observed.wish = Some(Arc::new(wish("r/b:v1", seconds)));
        observed
    };
    let nothing = Vec::<String>::new();
    assert_eq!(writes(&asking(&json!(["old"]), 600), None), nothing);
    let (plan, _) = decided(&asking(&json!(["old"]), 120), None);
    let text = format!("{:?}", plan.actions);
    assert!(
        plan.actions.len() == 1
            && text.contains("Patch")
            && text.contains("activeDeadlineSeconds\": Number(120)"),
        "{text}"
    );
    let (plan, _) = decided(&asking(&json!(["old"]), 0), None);
    let text = format!("{:?}", plan.actions);
    assert!(text.contains("activeDeadlineSeconds\": Null"), "{text}");
    let added = asking(&json!(["old", "new"]), 600);
    let (plan, memory) = decided(&added, None);
    let written = plan.actions[0].brief();
    assert!(
        plan.actions.len() == 1 && written.starts_with("delete Job"),
        "{written}"
    );
    // If a program removes secrets from every Job, nothing more is written.
    assert_eq!(writes(&added, memory.as_ref()), nothing);
    // A finished Job is not changed any more.
    let mut over = added;
    let status = json!({"conditions": [{"type": "Complete", "status": "True"}]});
    over.jobs = vec![found_job(&over.key, &json!([]), 600, &status)];
    assert_eq!(writes(&over, None), nothing);
}

/// A webhook changes the programs of Jobs. Another user's Job in its place is not taken for ours.
#[test]
fn a_job_that_was_changed_on_its_way_in_is_made_once_for_each_who_asks() {
    let found = |uid: &str| {
        let mut job = to_value(&build_job(
            &key("r/b:v1"),
            "cm",
            &[],
            &wish("r/b:v1", 600),
            &source(&json!([])),
            &settings(),
        ));
        job["metadata"]["uid"] = json!(uid);
        job["spec"]["template"]["spec"]["containers"][0]["image"] = json!("mirror/opm");
        job_sketch(&job)
    };
    let with = |jobs: Vec<Arc<JobSketch>>| Observed {
        jobs,
        ..going(&json!([]), 600)
    };
    let verbs = |observed: &Observed, memory: Option<&Memory>| {
        let (plan, memory) = decided(observed, memory);
        let verbs: Vec<&str> = plan.actions.iter().map(|action| action.verb()).collect();
        (verbs.join(" "), memory)
    };
    let (written, memory) = verbs(&with(vec![found("forged")]), None);
    assert_eq!(written, "create");
    let both = || with(vec![found("forged"), found("made")]);
    assert_eq!(verbs(&both(), memory.as_ref()), (String::new(), memory.clone()));
    // It was deleted: the user who deleted it may want another one.
    assert_eq!(verbs(&with(vec![found("forged")]), memory.as_ref()).0, "create");
    // The subscriber gave up and requests again: this time the Job may be correct.
    let unwanted = Observed { wish: None, ..both() };
    let (written, memory) = verbs(&unwanted, memory.as_ref());
    assert_eq!(written, "");
    let (plan, _) = decided(&both(), memory.as_ref());
    let uids = plan.actions.iter().filter_map(|action| match action {
        Action::Delete { guard, .. } => guard.uid.clone(),
        _ => None,
    });
    assert_eq!(uids.collect::<Vec<_>>(), ["made"]);
    assert_eq!(verbs(&both(), memory.as_ref()).0, "delete create");
}

/// The successor of a replaced Job is not replaced for the same change.
#[test]
fn a_job_is_replaced_once_for_one_change() {
    let mut observed = going(&json!([]), 600);
    observed.source = Some(Arc::new(source(&json!(["new"]))));
    let (_, memory) = decided(&observed, None);
    let without = Observed {
        jobs: Vec::new(),
        ..observed
    };
    let (plan, memory) = decided(&without, memory.as_ref());
    assert!(plan.actions[0].brief().starts_with("create Job"), "{plan}");
    let stripped = Observed {
        jobs: vec![found_job(&without.key, &json!([]), 600, &Value::Null)],
        ..without
    };
    assert_eq!(writes(&stripped, memory.as_ref()), Vec::<String>::new());
}
