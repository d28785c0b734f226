//! Number of reconciles of each Subscription, as upstream counts it.

use std::collections::BTreeMap;
use std::sync::Arc;

use olm_api::v1alpha1::Subscription;
use olm_runtime::NamespacedName;
use olm_runtime::store::{Change, Store};
use olm_runtime::sync::Mutex;

/// Labels of `subscription_sync_total`, which name no namespace: that is how upstream has them.
pub(super) const LABELS: [&str; 5] = ["name", "installed", "channel", "package", "approval"];

type Labels = [String; 5];

/// By Subscription, its labels and how often it was looked at since it has them. A clone is another handle to the same counts.
#[derive(Debug, Clone, Default)]
pub(super) struct Syncs(Arc<Mutex<BTreeMap<NamespacedName, (Labels, i64)>>>);

impl Syncs {
    /// Counts each news of a Subscription in `subscriptions`: each is followed by a look at it.
    pub(super) fn of(subscriptions: &Store<Subscription>) -> Self {
        let counts = Self::default();
        let counted = counts.clone();
        subscriptions.on_change(move |change| counted.note(change));
        counts
    }

    fn note(&self, change: &Change<Subscription>) {
        let key = NamespacedName::from_object(change.object().as_ref());
        let mut counts = self.0.lock();
        let Change::Applied { new, .. } = change else {
            counts.remove(&key);
            return;
        };
        let labels = labels_of(&key, new);
        match counts.get_mut(&key) {
            Some((known, count)) if *known == labels => *count = count.saturating_add(1),
            _ => {
                counts.insert(key, (labels, 1));
            }
        }
    }

    /// The series. Two Subscriptions that look alike are one.
    pub(super) fn read(&self) -> Vec<(Labels, i64)> {
        let mut series = BTreeMap::<Labels, i64>::new();
        for (labels, count) in self.0.lock().values() {
            let sum = series.entry(labels.clone()).or_default();
            *sum = sum.saturating_add(*count);
        }
        series.into_iter().collect()
    }
}

fn labels_of(key: &NamespacedName, subscription: &Subscription) -> Labels {
    let spec = &subscription.spec;
    let installed = subscription
        .status
        .as_ref()
        .and_then(|status| status.installed_csv.clone());
    let approval = spec.install_plan_approval.as_ref().map(ToString::to_string);
    [
        key.name.clone(),
        installed.unwrap_or_default(),
        spec.channel.clone().unwrap_or_default(),
        spec.name.clone(),
        approval.unwrap_or_default(),
    ]
}
