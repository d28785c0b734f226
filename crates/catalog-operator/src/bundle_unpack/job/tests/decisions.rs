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
        request: Some(Arc::new(request("r/b:v1", 600))),
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

fn found_job(key: &NamespacedName, secrets: &Value, seconds: u64, status: &Value) -> Arc<UnpackJob> {
    let mut job = to_value(&build_job(
        key,
        "cm",
        &[],
        &request("r/b:v1", seconds),
        &source(secrets),
        &settings(),
    ));
    job["metadata"]["uid"] = json!("job");
    job["status"] = status.clone();
    unpack_job(&job)
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
fn rights_of_a_deleted_config_map_are_granted_again() {
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
fn a_job_that_goes_on_is_replaced_for_a_pull_secret_that_it_lacks() {
    let with = |secrets: &Value, jobs: Option<Value>| {
        let mut observed = going(&json!(["injected", "old"]), 600);
        observed.source = Some(Arc::new(source(secrets)));
        if let Some(status) = jobs {
            observed.jobs = vec![found_job(&observed.key, &json!([]), 600, &status)];
        }
        observed
    };
    let nothing = Vec::<String>::new();
    assert_eq!(writes(&with(&json!(["old"]), None), None), nothing);
    let written = writes(&with(&json!(["old", "new"]), None), None);
    assert!(
        written.len() == 1 && written[0].starts_with("delete Job"),
        "{written:?}"
    );
    // A finished Job is not replaced any more.
    let status = json!({"conditions": [{"type": "Complete", "status": "True"}]});
    assert_eq!(writes(&with(&json!(["old", "new"]), Some(status)), None), nothing);
}

/// A webhook sets the pull secrets of every Job. Otherwise the Job would be deleted and created without end.
#[test]
fn a_job_whose_pull_secrets_others_replace_is_replaced_once() {
    let with = |wanted: &Value, found: Option<&Value>| {
        let mut observed = going(&json!([]), 600);
        observed.source = Some(Arc::new(source(wanted)));
        let job = found.map(|secrets| found_job(&observed.key, secrets, 600, &Value::Null));
        observed.jobs = job.into_iter().collect();
        observed
    };
    let (old, new, theirs) = (json!(["old"]), json!(["new"]), json!(["theirs"]));
    // Each row: the catalog's secrets, those of the Job that is found, and what is done.
    let rows = [
        (&old, Some(&theirs), "delete"),
        (&old, None, "create"),
        (&old, Some(&theirs), ""),
        (&old, Some(&theirs), ""),
        (&new, Some(&theirs), "delete"),
        (&new, None, "create"),
        (&new, Some(&theirs), ""),
    ];
    let mut memory = None;
    for (number, (wanted, found, expected)) in rows.into_iter().enumerate() {
        let (plan, next) = decided(&with(wanted, found), memory.as_ref());
        let verbs: Vec<&str> = plan.actions.iter().map(|action| action.verb()).collect();
        assert_eq!(verbs.join(" "), expected, "row {number}");
        memory = next;
    }
}

/// A webhook changes the programs of Jobs. Another user's Job in its place is not taken for ours.
#[test]
fn a_job_that_was_changed_on_its_way_in_is_made_once_for_each_who_asks() {
    let found = |uid: &str| {
        let mut job = to_value(&build_job(
            &key("r/b:v1"),
            "cm",
            &[],
            &request("r/b:v1", 600),
            &source(&json!([])),
            &settings(),
        ));
        job["metadata"]["uid"] = json!(uid);
        job["spec"]["template"]["spec"]["containers"][0]["image"] = json!("mirror/opm");
        unpack_job(&job)
    };
    let with = |jobs: Vec<Arc<UnpackJob>>| Observed {
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
    let unwanted = Observed {
        request: None,
        ..both()
    };
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
