//! From the bundles of a component of a solution to the steps that install them.

use std::time::Duration;

use jiff::Timestamp;
use olm_api::condition::subscription as reasons;
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

/// Requests the bundles of `component`, and builds its steps once all of them are available. It does not wait for a registry: the
/// unpacker triggers the namespace when an answer changes.
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
    for (operator, request) in component.operators.iter().zip(&requests) {
        match request.as_ref().map(|request| unpacker.request(request)) {
            None => {
                let cause = "the catalog has neither an image nor manifests of it";
                let error = UnpackError::new(UnpackClass::NoManifests, cause);
                missing.push(failed(&error.of_bundle(&operator.entry.name), None));
            }
            Some(UnpackState::Ready(bundle)) => ready.push(bundle),
            Some(UnpackState::Unpacking { since, trouble }) => missing.push(Bundles::Unpacking {
                debounce: debounce_left(elapsed(since, now)).filter(|_| trouble.is_none()),
                message: trouble.map(|trouble| trouble.to_string()).unwrap_or_default(),
            }),
            Some(UnpackState::Failed { error, retry_in }) => missing.push(failed(&error, Some(retry_in))),
        }
    }
    let subscriptions = component.subscriptions().into_iter().map(str::to_owned).collect();
    let updates = component.updates.clone();
    // Bundles may have many MiB, and a namespace may be reconciled several times a second: none is read without need, nor on this
    // thread.
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
        combine(missing)
    };
    ComponentProgress {
        subscriptions,
        updates,
        bundles,
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
    let operators = component.operators.iter().zip(bundles);
    combine(operators.map(|(operator, bundle)| match bundle.read() {
        Some(bundle) => with_steps(operator, bundle, namespace, cluster),
        None => Bundles::Unpacking {
            message: String::new(),
            debounce: Some(STATUS_DEBOUNCE),
        },
    }))
}

/// The steps of one bundle.
fn with_steps(operator: &Operator, bundle: UnpackedBundle, namespace: &str, cluster: &Cluster) -> Bundles {
    let name = &operator.entry.name;
    let obstacles = cluster_fit::obstacles(name, &bundle, namespace, cluster);
    let left_out = (!bundle.left_out.is_empty()).then(|| {
        let text = format!("bundle {name}: {}", bundle.left_out.join("; "));
        cut(&text, EVENT_LIMIT)
    });
    let generated = operator.generated_subscription.iter();
    let lookup = lookup(operator);
    match plan_steps(bundle, &lookup, namespace) {
        Ok(steps) => Bundles::Ready(ReadyBundles {
            csv_names: vec![name.to_string()],
            subscription_steps: generated
                .map(|generated| subscription_step(namespace, generated))
                .collect(),
            steps,
            lookups: Some(lookup)
                .filter(|lookup| !lookup.path.is_empty())
                .into_iter()
                .collect(),
            obstacles,
            left_out: left_out.into_iter().collect(),
        }),
        Err(message) => Bundles::Failed {
            reason: reasons::ERROR_PREVENTED_UNPACKING,
            message,
            retry: None,
        },
    }
}

fn failed(error: &UnpackError, retry: Option<Duration>) -> Bundles {
    Bundles::Failed {
        reason: if error.class.is_content() {
            reasons::ERROR_PREVENTED_UNPACKING
        } else {
            reasons::REASON_BUNDLE_UNPACK_FAILED
        },
        message: format!("{}: {error}", error.class.reason()),
        retry,
    }
}

/// Combines the states of a component's bundles. It is ready when all of them are; a failure takes precedence over bundles that are
/// still being unpacked.
fn combine(bundles: impl IntoIterator<Item = Bundles>) -> Bundles {
    let mut ready = ReadyBundles::default();
    let (mut debounces, mut troubles, mut retries) = (Vec::new(), Vec::new(), Vec::new());
    let (mut causes, mut texts) = (Vec::new(), Vec::new());
    for bundle in bundles {
        match bundle {
            Bundles::Ready(more) => {
                ready.csv_names.extend(more.csv_names);
                ready.subscription_steps.extend(more.subscription_steps);
                ready.steps.extend(more.steps);
                ready.lookups.extend(more.lookups);
                ready.obstacles.extend(more.obstacles);
                ready.left_out.extend(more.left_out);
            }
            Bundles::Unpacking { message, debounce } => {
                debounces.push(debounce);
                troubles.extend(Some(message).filter(|message| !message.is_empty()));
            }
            Bundles::Failed {
                reason,
                message,
                retry,
            } => {
                causes.push(reason);
                texts.push(message);
                retries.extend(retry);
            }
        }
    }
    // An error that only another bundle fixes is the reason of all.
    let content = reasons::ERROR_PREVENTED_UNPACKING;
    if let Some(&first) = causes.first() {
        return Bundles::Failed {
            reason: if causes.contains(&content) { content } else { first },
            message: format!("Bundle unpacking failed - {}", texts.join("; ")),
            retry: retries.into_iter().min(),
        };
    }
    // The delay of a report ends with the first one that is due.
    match debounces.into_iter().min() {
        Some(debounce) => Bundles::Unpacking {
            message: troubles.join("; "),
            debounce,
        },
        None => Bundles::Ready(ready),
    }
}

#[cfg(test)]
mod tests;
