//! Tests of reports about keys that cannot be observed.

use super::*;

#[tokio::test(start_paused = true)]
async fn reads_that_fail_are_reported_within_five_seconds_and_not_before_four() {
    let env = TestEnv::new(&["a"], nothing(), nothing());
    tokio::time::sleep(Duration::from_secs(1)).await;
    *env.writer.observes.lock() = Observes::Error;
    let began = Instant::now();
    env.queue.add(key("a"));
    tokio::time::sleep(Duration::from_secs(120)).await;
    let told = env.writer.unobserved.lock().clone();
    let (text, first) = &told[0];
    assert_eq!(text, "failed to read a thing: not now");
    let after = *first - began;
    assert!(after >= TELL_AFTER && after < Duration::from_secs(5), "{after:?}");
    assert!(told.len() > 1, "each round asks");
    assert_eq!(env.patches().len(), 1, "the patch is written");
    let text = env.metrics.text().unwrap();
    let count = r#"olm_reconcile_failures_total{controller="writer",reason="observe"}"#;
    assert!(text.contains(count), "{text}");
}

#[tokio::test(start_paused = true)]
async fn successful_reads_in_between_restart_the_time() {
    let env = TestEnv::new(&["a"], nothing(), nothing());
    for _ in 0..5 {
        *env.writer.observes.lock() = Observes::Error;
        env.queue.add(key("a"));
        tokio::time::sleep(Duration::from_secs(3)).await;
        *env.writer.observes.lock() = Observes::Something;
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    assert_eq!(*env.writer.unobserved.lock(), []);
}
