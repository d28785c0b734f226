//! Test of the fairness of an operator's queues.

use std::time::Duration;

use olm_runtime::NamespacedName;
use olm_runtime::queue::Queue;

/// Floods a queue with keys of one namespace. Another namespace's key must be among the first two, and exactly `share` keys of the flood
/// may be in progress, less than `workers`. Requires a paused clock.
///
/// # Panics
/// If the queue is not fair.
pub async fn namespaces_take_turns(queue: &Queue<NamespacedName>, share: usize, workers: usize) {
    for index in 0..100 {
        queue.add(NamespacedName::new("flood", index.to_string()));
    }
    queue.add(NamespacedName::new("calm", "one"));
    let mut taken = vec![queue.next().await, queue.next().await];
    assert!(taken.iter().any(|key| key.namespace == "calm"), "{taken:?}");
    while let Ok(key) = tokio::time::timeout(Duration::from_secs(1), queue.next()).await {
        taken.push(key);
    }
    let of_flood = taken.iter().filter(|key| key.namespace == "flood").count();
    assert_eq!(of_flood, share);
    assert!(of_flood < workers);
}
