//! Takes over the objects that upstream's OLM (992bb097) left on a real cluster. `upstream/own.jsonl`
//! contains the objects of one operator as the API server returned them, one object per line. It is for its
//! own namespace, and version 1.1.0 waits for approval.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::test_env::TestEnv;

const RECORDED: &str = include_str!("upstream/own.jsonl");

/// The cluster as upstream left it; the operator is not started yet.
fn recorded() -> TestEnv {
    let mut env = TestEnv::new();
    // Recorded objects get no additional InstallPlan.
    env.by_hand = true;
    for line in RECORDED.lines() {
        let object: Value = serde_json::from_str(line).unwrap();
        match object["kind"].as_str() {
            // Field owners matter for it; the cluster in memory recomputes them.
            Some("Deployment") => env.put_as("olm", object),
            _ => env.put(object),
        }
    }
    env.kill();
    env.writes.clear();
    env.log.clear();
    env
}

fn get<'a>(env: &'a TestEnv, kind: &str, namespace: &str, name: &str) -> &'a Value {
    env.get(kind, namespace, name)
        .unwrap_or_else(|| panic!("{kind} {namespace}/{name} is there"))
}

#[test]
fn what_upstream_left_stays_succeeded_is_written_once_and_rests() {
    let mut env = recorded();
    let spec = get(&env, "Deployment", "own", "own")["spec"].clone();
    let conditions = get(&env, "ClusterServiceVersion", "own", "own.v1.0.0")["status"]["conditions"].clone();
    env.settle_for(120);
    let csv = get(&env, "ClusterServiceVersion", "own", "own.v1.0.0");
    assert_eq!(csv["status"]["phase"], "Succeeded");
    assert_eq!(csv["status"]["conditions"], conditions, "{:#?}", env.log);
    assert_eq!(
        get(&env, "Deployment", "own", "own")["spec"],
        spec,
        "no pod is replaced"
    );
    // Without the content of a patch: only the objects and the field managers.
    let mut writes: Vec<&str> = env
        .writes
        .iter()
        .map(|write| write.split(" {").next().unwrap())
        .collect();
    writes.sort_unstable();
    // The status of an Operator follows its components.
    writes.dedup_by(|later, earlier| later == earlier && later.ends_with("Operator own.own status"));
    let once = BTreeSet::from_iter(&writes);
    assert_eq!(once.len(), writes.len(), "{:#?}", env.writes);
    insta::assert_yaml_snapshot!(writes);
    env.writes.clear();
    env.settle_for(600);
    assert_eq!(env.writes, [""; 0]);
}
