//! Tests of processes on one stage.

#![expect(
    clippy::disallowed_methods,
    reason = "a process that writes is what is tested"
)]

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use super::*;

/// Creates a ConfigMap `<name>-<n>` every second, with the next free number.
fn writer(name: &'static str) -> Operator {
    Box::new(move |client| {
        Box::pin(async move {
            let api: Api<ConfigMap> = Api::namespaced(client, "ns");
            let mut number = 0;
            loop {
                let object = json!({"metadata": {"name": format!("{name}-{number}")}});
                let made = api
                    .create(&PostParams::default(), &serde_json::from_value(object).unwrap())
                    .await;
                number += 1;
                if made.is_ok() {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
        })
    })
}

fn count(stage: &Stage, name: &str) -> usize {
    let objects = stage.cluster.objects();
    let found = objects.keys().filter(|key| key.name.starts_with(name));
    found.count()
}

#[test]
fn only_the_process_that_makes_the_last_write_is_killed() {
    let mut stage = Stage::of(vec![writer("a"), writer("b")]);
    stage.as_user(|cluster| {
        cluster.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}}));
    });
    stage.start_doomed(3);
    stage.advance(Duration::from_millis(10_500));
    assert!(stage.is_killed());
    let mut counts = [count(&stage, "a-"), count(&stage, "b-")];
    counts.sort_unstable();
    assert_eq!(
        counts,
        [2, 11],
        "the third write was the second one of its process"
    );
    stage.start();
    assert!(!stage.is_killed());
    stage.advance(Duration::from_millis(10_500));
    assert!(count(&stage, "a-") > 11 && count(&stage, "b-") > 11);
    stage.kill();
    let writes = stage.cluster.log().writes.len();
    stage.advance(Duration::from_secs(10));
    assert_eq!(stage.cluster.log().writes.len(), writes);
}
