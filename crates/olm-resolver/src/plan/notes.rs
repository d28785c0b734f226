//! Remarks on a plan beside its steps.

use olm_api::crd;
use olm_fbc::entry::Deprecation;
use serde_json::Value;

use super::{Install, Plan, Question};
use crate::cluster_fit::{KubernetesVersion, long_service_name, unsupported_targets};
use crate::enumeration::list;
use crate::problem::{Problem, Subscription};

/// Returns the deprecations of the final state of Subscriptions, without duplicates.
pub(super) fn deprecations(problem: &Problem) -> Vec<String> {
    let mut notes = Vec::new();
    for subscription in &problem.subscriptions {
        for note in of_subscription(problem, subscription) {
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
    }
    notes
}

fn of_subscription(problem: &Problem, subscription: &Subscription) -> Vec<String> {
    let Subscription {
        package,
        channel,
        installed_csv: installed,
        ..
    } = subscription;
    let Some(snapshot) = problem.snapshot(&subscription.catalog) else {
        return Vec::new();
    };
    let own = snapshot.find(package, channel, installed);
    // A Subscription without an installed bundle still has a package and a channel.
    let Some(entry) = own.or_else(|| snapshot.first(package, channel)) else {
        return Vec::new();
    };
    let Some(deprecation) = &entry.deprecation else {
        return Vec::new();
    };
    let Deprecation {
        package: of_package,
        channel: of_channel,
        bundle: of_bundle,
    } = &**deprecation;
    let of_package = of_package
        .iter()
        .map(|text| format!("package {package} is deprecated: {text}"));
    let of_channel = of_channel
        .iter()
        .filter(|_| !channel.is_empty())
        .map(|text| format!("channel {channel} of package {package} is deprecated: {text}"));
    let of_bundle = of_bundle
        .iter()
        .filter(|_| own.is_some())
        .map(|text| format!("bundle {installed} is deprecated: {text}"));
    of_package.chain(of_channel).chain(of_bundle).collect()
}

impl Plan {
    /// Adds notes on installed operators that the cluster will not run. They need a newer Kubernetes than
    /// `kubernetes`, or do not support the namespaces that the OperatorGroup selects. `csv_of` returns the
    /// ClusterServiceVersion of an install, if its catalog has it.
    pub fn note_unfit(
        &mut self,
        question: &Question,
        kubernetes: Option<&KubernetesVersion>,
        mut csv_of: impl FnMut(&Install) -> Option<Value>,
    ) {
        let mut notes = Vec::new();
        for install in self.install() {
            let Some(csv) = csv_of(install) else { continue };
            let too_old = kubernetes.and_then(|kubernetes| kubernetes.too_old_for(&install.name, &csv));
            notes.extend(too_old.map(|text| {
                format!("{text}: its ClusterServiceVersion will wait in phase Pending until the cluster is upgraded")
            }));
            let unsupported = question
                .targets
                .as_ref()
                .and_then(|targets| unsupported_targets(&install.name, &csv, &self.namespace, targets));
            notes.extend(unsupported);
            notes.extend(long_service_name(&install.name, &csv));
        }
        self.notes.extend(notes);
    }

    /// Adds notes on installs that OLM rejects before it creates an InstallPlan
    /// (`docs/decisions/0003-bundle-image-references.md`). `objects_of` returns the objects of an install's
    /// bundle, if its catalog has them.
    pub fn note_refused(&mut self, mut objects_of: impl FnMut(&Install) -> Vec<Value>) {
        let mut notes = Vec::new();
        for install in self.install() {
            let objects = objects_of(install);
            let old = objects
                .iter()
                .filter(|object| object["kind"] == crd::KIND && object["apiVersion"] == crd::OLD_API_VERSION);
            let names: Vec<&str> = old
                .filter_map(|object| object["metadata"]["name"].as_str())
                .collect();
            if !names.is_empty() {
                notes.push(format!(
                    "bundle {} contains CustomResourceDefinitions of {}, which Kubernetes 1.22 and later do not serve, so OLM does \
                     not install it ({})",
                    install.name,
                    crd::OLD_API_VERSION,
                    list(names.into_iter())
                ));
            }
        }
        self.notes.extend(notes);
    }
}
