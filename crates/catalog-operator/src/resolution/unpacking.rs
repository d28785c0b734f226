//! From the bundles of a component of a solution to the steps that install them.

use std::time::Duration;

use jiff::Timestamp;
use olm_api::condition::subscription as reasons;
use olm_api::v1alpha1::{BundleLookup, Step};
use olm_resolver::Operator;
use olm_resolver::explain::{EVENT_LIMIT, cut};
use olm_runtime::{NamespacedName, isolation};

use super::cluster_fit::{self, Cluster};
use super::components::Component;
use super::group_settings::GroupSettings;
use super::observed::{Bundles, ComponentProgress, ReadyBundles};
use super::plan_object::{lookup, subscription_step};
use crate::bundle_unpack::error::UnpackClass;
use crate::bundle_unpack::{
    InlineBundle, StoredBundle, Subscriber, UnpackError, UnpackRequest, UnpackState, UnpackedBundle, Unpacker,
};
use crate::install_plan::steps::plan_steps;
use crate::timing::{STATUS_DEBOUNCE, debounce_left, elapsed};

/// Asks for the bundles of `component`, and makes its steps once all of them are there. No registry is waited for: the unpacker
/// wakes the namespace when an answer changes.
///
/// # Errors
/// When making the steps panicked.
pub(crate) async fn progress(
    component: Component,
    unpacker: &Unpacker,
    namespace: &str,
    settings: &GroupSettings,
    kubernetes: Option<&str>,
    now: Timestamp,
) -> ComponentProgress {
    let request = |operator: &Operator| {
        let inline = inline_bundle(operator);
        Some(UnpackRequest {
            image: match &inline {
                Some(inline) => format!("in the catalog, channel {}", inline.channel),
                None => operator.entry.bundle_path.as_deref()?.to_owned(),
            },
            inline,
            bundle: operator.entry.name.to_string(),
            catalog: NamespacedName::new(&operator.catalog.namespace, &operator.catalog.name),
            deadline: settings.unpack_deadline,
            retry_interval: settings.unpack_retry,
            subscriber: Subscriber::Namespace(namespace.to_owned()),
        })
    };
    let requests: Vec<Option<UnpackRequest>> = component.operators.iter().map(request).collect();
    let (mut ready, mut missing) = (Vec::new(), Vec::new());
    for asked in ask(unpacker, &component, &requests, now) {
        match asked {
            Ok(bundle) => ready.push(bundle),
            Err(result) => missing.push(result),
        }
    }
    let subscriptions = component.subscriptions().into_iter().map(str::to_owned).collect();
    let updates = component.updates.clone();
    // Bundles may have many MiB, and a namespace may be looked at several times a second: none is read in vain, nor here.
    let bundles = if missing.is_empty() {
        let cluster = Cluster {
            kubernetes: kubernetes.map(str::to_owned),
            targets: settings.targets.clone(),
        };
        let namespace = namespace.to_owned();
        let bundles =
            isolation::blocking_in_round(move || read(&component, &ready, &namespace, &cluster)).await;
        if matches!(bundles, Bundles::Unpacking { .. }) {
            // Unpacks those again whose files are gone.
            for request in requests.iter().flatten() {
                unpacker.request(request);
            }
        }
        bundles
    } else {
        combine(&component, namespace, missing, Noticed::default())
    };
    ComponentProgress {
        subscriptions,
        updates,
        bundles,
    }
}

/// The bundles of a component, or what to tell of those that are not there.
fn ask(
    unpacker: &Unpacker,
    component: &Component,
    requests: &[Option<UnpackRequest>],
    now: Timestamp,
) -> Vec<Result<StoredBundle, BundleResult>> {
    let operators = component.operators.iter().zip(requests);
    let asked = operators.map(|(operator, request)| match request {
        None => {
            let cause = "the catalog has neither an image nor manifests of it";
            let error = UnpackError::new(UnpackClass::NoManifests, cause);
            Err(failed(&error.of_bundle(&operator.entry.name), None))
        }
        Some(request) => answer(unpacker.request(request), now),
    });
    asked.collect()
}

fn answer(state: UnpackState, now: Timestamp) -> Result<StoredBundle, BundleResult> {
    match state {
        UnpackState::Ready(bundle) => Ok(bundle),
        UnpackState::Unpacking { since, trouble } => {
            let left = debounce_left(elapsed(since, now));
            Err(BundleResult::Pending {
                debounce: left.filter(|_| trouble.is_none()),
                trouble,
            })
        }
        UnpackState::Failed { error, retry_in } => Err(failed(&error, Some(retry_in))),
    }
}

/// Where the manifests of an operator without an image are.
fn inline_bundle(operator: &Operator) -> Option<InlineBundle> {
    let entry = &operator.entry;
    Some(InlineBundle {
        package: entry.package.to_string(),
        channel: entry.channel.to_string(),
        name: entry.name.to_string(),
        digest: **entry.inline.as_ref()?,
    })
}

/// Returns the steps of a component whose bundles are all on disk; [`Bundles::Unpacking`] if one no longer is.
fn read(component: &Component, bundles: &[StoredBundle], namespace: &str, cluster: &Cluster) -> Bundles {
    let mut noticed = Noticed::default();
    let operators = component.operators.iter().zip(bundles);
    let results = operators.map(|(operator, bundle)| match bundle.read() {
        Some(bundle) => ready_result(operator, bundle, namespace, cluster, &mut noticed),
        None => GONE,
    });
    let results = results.collect();
    combine(component, namespace, results, noticed)
}

/// Remarks about bundles that can be installed.
#[derive(Default)]
struct Noticed {
    obstacles: Vec<String>,
    left_out: Vec<String>,
}

/// What has come of one bundle.
enum BundleResult {
    Steps(Vec<Step>, Option<Box<BundleLookup>>),
    Pending {
        trouble: Option<UnpackError>,
        debounce: Option<Duration>,
    },
    Failed {
        content: bool,
        text: String,
        retry: Option<Duration>,
    },
}

/// A bundle whose file is gone; it is unpacked again.
const GONE: BundleResult = BundleResult::Pending {
    trouble: None,
    debounce: Some(STATUS_DEBOUNCE),
};

fn ready_result(
    operator: &Operator,
    bundle: UnpackedBundle,
    namespace: &str,
    cluster: &Cluster,
    noticed: &mut Noticed,
) -> BundleResult {
    let name = &operator.entry.name;
    let obstacles = cluster_fit::obstacles(name, &bundle, namespace, cluster);
    noticed.obstacles.extend(obstacles);
    if !bundle.left_out.is_empty() {
        let text = format!("bundle {name}: {}", bundle.left_out.join("; "));
        noticed.left_out.push(cut(&text, EVENT_LIMIT));
    }
    let lookup = lookup(operator);
    match plan_steps(bundle, &lookup, namespace) {
        Ok(steps) => {
            let of_image = (!lookup.path.is_empty()).then(|| Box::new(lookup));
            BundleResult::Steps(steps, of_image)
        }
        Err(text) => BundleResult::Failed {
            content: true,
            text,
            retry: None,
        },
    }
}

fn failed(error: &UnpackError, retry: Option<Duration>) -> BundleResult {
    BundleResult::Failed {
        content: error.class.is_content(),
        text: format!("{}: {error}", error.class.reason()),
        retry,
    }
}

/// A component is ready when all of its bundles are. A failure counts more than bundles still on their way.
fn combine(component: &Component, namespace: &str, results: Vec<BundleResult>, noticed: Noticed) -> Bundles {
    let (mut steps, mut lookups, mut texts, mut troubles) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut retries = Vec::new();
    let (mut content_failure, mut pending, mut debounce) = (false, false, Some(STATUS_DEBOUNCE));
    for result in results {
        match result {
            BundleResult::Steps(more, lookup) => {
                steps.extend(more);
                lookups.extend(lookup.map(|lookup| *lookup));
            }
            BundleResult::Pending {
                trouble,
                debounce: left,
            } => {
                pending = true;
                debounce = debounce.zip(left).map(|(one, other)| one.min(other));
                troubles.extend(trouble.map(|trouble| trouble.to_string()));
            }
            BundleResult::Failed { content, text, retry } => {
                content_failure |= content;
                texts.push(text);
                retries.extend(retry);
            }
        }
    }
    if !texts.is_empty() {
        let reason = if content_failure {
            reasons::ERROR_PREVENTED_UNPACKING
        } else {
            reasons::REASON_BUNDLE_UNPACK_FAILED
        };
        return Bundles::Failed {
            reason,
            message: format!("Bundle unpacking failed - {}", texts.join("; ")),
            retry: retries.into_iter().min(),
        };
    }
    if pending {
        return Bundles::Unpacking {
            message: troubles.join("; "),
            debounce,
        };
    }
    let generated = component
        .operators
        .iter()
        .filter_map(|operator| operator.generated_subscription.as_ref());
    Bundles::Ready(ReadyBundles {
        csv_names: component
            .operators
            .iter()
            .map(|operator| operator.entry.name.to_string())
            .collect(),
        subscription_steps: generated
            .map(|generated| subscription_step(namespace, generated))
            .collect(),
        steps,
        lookups,
        obstacles: noticed.obstacles,
        left_out: noticed.left_out,
    })
}

#[cfg(test)]
mod tests;
