//! Explains why a part of a namespace cannot be resolved, in upstream's words and as data.

mod bystanders;
mod hints;
mod layout;
mod rivals;
mod statement;
mod text;
mod tree;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

pub use self::bystanders::Bystanders;
pub use self::hints::Hints;
pub use self::layout::{MAX_LINES, WIDTH, lines};
pub use self::statement::Tree;
pub use self::text::{CONDITION_LIMIT, EVENT_LIMIT, FIRST_LINE, cut};
use crate::bundle_id::BundleId;
use crate::enumeration::enumerate;
use crate::predicate::Predicate;
use crate::problem::Subscription;
use crate::resolve::Part;
use crate::solver::{ConstraintRef, VariableId};
use crate::universe::{UNAVAILABLE_HINT, Universe};
pub use crate::variables::Lack;
use crate::variables::{Cause, Invalid, Subject, Variables};

/// Explanation of a failure of connected Subscriptions and installed operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Subscriptions concerned, by name.
    pub subscriptions: Vec<String>,
    /// Installed ClusterServiceVersions concerned, by name.
    pub installed: Vec<String>,
    /// Kind of the failure, with its reasons.
    pub failure: Failure,
    /// Concerned Subscriptions outside the contradiction, with their connection to it.
    pub bystanders: Vec<Bystanders>,
    /// Reasons why Subscriptions outside the contradiction could not be served by themselves, either.
    pub beside: Vec<Reason>,
    /// Size of the part, in the units of [`Work`](crate::work::Work): the minimum work to resolve it.
    pub work: usize,
}

/// The two kinds of failure that upstream distinguishes by condition reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No choice of bundles meets all constraints; only a change of objects or catalogs can help. The reasons
    /// exclude each other, and without any one of them there would be a choice.
    Unsatisfiable(Vec<Reason>),
    /// Resolution was prevented: a catalog cannot be read, or a channel has no order. A retry may help.
    Prevented {
        /// The cause, in upstream's words.
        text: String,
        /// The way out.
        hint: &'static str,
    },
}

/// One constraint that takes part in a contradiction. Prints as upstream's text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The Subscription exists and must be served.
    SubscriptionExists {
        /// Its name.
        subscription: String,
        /// Description of its request.
        asks: String,
    },
    /// Only these bundles can serve the Subscription, best first; the list may be empty.
    SubscriptionRequires {
        /// Its name.
        subscription: String,
        /// The bundles.
        candidates: Vec<BundleId>,
    },
    /// The Subscription refers to something that does not exist.
    SubscriptionInvalid {
        /// Its name.
        subscription: String,
        /// The whole text.
        text: String,
        /// The missing object.
        lack: Lack,
        /// The Subscription, for hints about alternatives.
        asked: Box<Subscription>,
    },
    /// The installed operator must stay, as no Subscription owns it.
    NotReferenced {
        /// The operator.
        bundle: BundleId,
    },
    /// The bundle is deprecated by a property.
    Deprecated {
        /// The bundle.
        bundle: BundleId,
    },
    /// The bundle does not meet an administrator's constraint.
    RuntimeConstraint {
        /// The bundle.
        bundle: BundleId,
        /// The constraint's own text.
        message: String,
    },
    /// The bundle cannot be used, as its properties are malformed.
    Excluded {
        /// The bundle.
        bundle: BundleId,
        /// The fault.
        cause: String,
    },
    /// A Subscription holds the package at other versions.
    Held {
        /// The bundle.
        bundle: BundleId,
        /// The Subscription with the hold.
        subscription: String,
        /// The hold, and why the bundle's version does not match it.
        message: String,
    },
    /// The bundle needs one of these, best first; the list may be empty.
    Requires {
        /// The bundle.
        bundle: BundleId,
        /// The requirement.
        requirement: Arc<Predicate>,
        /// The bundles that meet it.
        candidates: Vec<BundleId>,
    },
    /// The first bundle would replace the second, so they exclude each other.
    Replaces {
        /// The upgrade.
        upgrade: BundleId,
        /// The installed operator.
        installed: BundleId,
    },
    /// Only one of these may provide the API.
    OneProvider {
        /// The API as `Kind (group/version)`.
        api: String,
        /// The providers.
        members: Vec<BundleId>,
    },
    /// Only one of these may be present, because they belong to one package.
    OnePackage {
        /// The package.
        package: String,
        /// Its bundles.
        members: Vec<BundleId>,
    },
}

impl Explanation {
    /// Returns the message that upstream puts in the condition of Subscriptions.
    pub fn message(&self) -> String {
        match &self.failure {
            Failure::Prevented { text, .. } => text.clone(),
            Failure::Unsatisfiable(reasons) => {
                let mut texts: Vec<String> = reasons.iter().map(ToString::to_string).collect();
                texts.sort();
                texts.dedup();
                match texts.as_slice() {
                    [] => "constraints not satisfiable".to_owned(),
                    texts => format!("constraints not satisfiable: {}", texts.join(", ")),
                }
            }
        }
    }

    /// Returns the reasons that exclude each other; none if resolution was prevented.
    pub(crate) fn reasons(&self) -> &[Reason] {
        match &self.failure {
            Failure::Unsatisfiable(reasons) => reasons,
            Failure::Prevented { .. } => &[],
        }
    }

    /// Returns whether the contradiction involves bundles that would serve the Subscription, rather than the
    /// lack of any.
    pub fn offers_something(&self, subscription: &str) -> bool {
        self.reasons().iter().any(|reason| {
            matches!(reason, Reason::SubscriptionRequires { subscription: name, candidates }
                if name == subscription && !candidates.is_empty())
        })
    }

    /// Returns the names of Subscriptions that take part in the contradiction. If resolution was prevented,
    /// returns all concerned ones.
    pub(crate) fn taking_part(&self) -> BTreeSet<&str> {
        let Failure::Unsatisfiable(reasons) = &self.failure else {
            return self.subscriptions.iter().map(String::as_str).collect();
        };
        let names = reasons.iter().filter_map(|reason| match reason {
            Reason::SubscriptionExists { subscription, .. }
            | Reason::SubscriptionRequires { subscription, .. }
            | Reason::SubscriptionInvalid { subscription, .. }
            | Reason::Held { subscription, .. } => Some(subscription.as_str()),
            _ => None,
        });
        names.collect()
    }

    /// Returns whether only a change of objects or catalogs can help, so that a retry is useless.
    pub fn is_unsatisfiable(&self) -> bool {
        matches!(self.failure, Failure::Unsatisfiable(_))
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::SubscriptionExists { subscription, .. } => {
                write!(f, "subscription {subscription} exists")
            }
            Reason::SubscriptionRequires {
                subscription,
                candidates,
            } => match candidates.as_slice() {
                [] => write!(
                    f,
                    "no operators found matching the criteria of subscription {subscription}"
                ),
                [only] => write!(f, "subscription {subscription} requires {only}"),
                several => {
                    write!(
                        f,
                        "subscription {subscription} requires at least one of {}",
                        enumerate(several, "or")
                    )
                }
            },
            Reason::SubscriptionInvalid { text, .. } => f.write_str(text),
            Reason::NotReferenced { bundle } => {
                write!(
                    f,
                    "clusterserviceversion {} exists and is not referenced by a subscription",
                    bundle.csv()
                )
            }
            Reason::Deprecated { bundle } => write!(f, "bundle {bundle} is deprecated"),
            Reason::RuntimeConstraint { bundle, message } => {
                write!(f, "bundle {bundle} does not meet a runtime constraint: {message}")
            }
            Reason::Excluded { bundle, cause } => write!(f, "bundle {bundle} is excluded: {cause}"),
            Reason::Held { bundle, message, .. } => write!(f, "bundle {bundle} is {message}"),
            Reason::Requires {
                bundle, requirement, ..
            } => write!(f, "bundle {} requires an operator {requirement}", bundle.csv()),
            Reason::Replaces { upgrade, installed } => write!(f, "{upgrade} conflicts with {installed}"),
            Reason::OneProvider { api, members } => write!(f, "{} provide {api}", enumerate(members, "and")),
            Reason::OnePackage { package, members } => {
                write!(
                    f,
                    "{} originate from package {package}",
                    enumerate(members, "and")
                )
            }
        }
    }
}

/// Describes the core of a component. `members` are all variables of the component.
pub(crate) fn explain(
    universe: &Universe<'_>,
    variables: &Variables<'_>,
    members: &[VariableId],
    core: &[ConstraintRef],
) -> Explanation {
    let prevented = core
        .iter()
        .find_map(|&reference| match variables.cause(reference) {
            Cause::SubscriptionInvalid(Invalid { reason, lack }) if lack.is_outside() => {
                Some((reason.clone(), hints::of_cause(*lack)))
            }
            _ => None,
        });
    // A missing catalog's bundles can end a contradiction only if it includes a requirement.
    let rests_on_requirement = core
        .iter()
        .any(|&r| matches!(variables.cause(r), Cause::Requires(_)));
    let unavailable = universe
        .all_unavailable()
        .filter(|_| rests_on_requirement)
        .map(|text| (text, UNAVAILABLE_HINT));
    let failure = match prevented.or(unavailable) {
        Some((text, hint)) => Failure::Prevented { text, hint },
        None => {
            let mut reasons: Vec<Reason> = core
                .iter()
                .filter_map(|&r| reason(universe, variables, r))
                .collect();
            reasons.sort();
            Failure::Unsatisfiable(reasons)
        }
    };
    let (alone, bystanders) = bystanders::find(universe, variables, members, core);
    let mut beside: Vec<Reason> = alone
        .into_iter()
        .filter_map(|reference| reason(universe, variables, reference))
        .collect();
    beside.sort();
    Explanation {
        bystanders,
        beside,
        ..concerning(universe, variables, members, failure)
    }
}

/// Returns a failure of a component, with the Subscriptions and operators it concerns.
pub(crate) fn concerning(
    universe: &Universe<'_>,
    variables: &Variables<'_>,
    members: &[VariableId],
    failure: Failure,
) -> Explanation {
    let part = Part::of(universe, variables, members);
    Explanation {
        subscriptions: part.subscriptions.into_iter().collect(),
        installed: part.installed.into_iter().collect(),
        failure,
        bystanders: Vec::new(),
        beside: Vec::new(),
        work: variables.instance.size(members),
    }
}

fn reason(universe: &Universe<'_>, variables: &Variables<'_>, reference: ConstraintRef) -> Option<Reason> {
    let bundle = |variable: VariableId| match variables.subject(variable) {
        Subject::Bundle(entry) => Some(universe.identifier(*entry)),
        Subject::Subscription(_) | Subject::Api(_) | Subject::Package(_) => None,
    };
    let others = variables.constraint(reference).named().iter();
    let others: Vec<BundleId> = others.copied().filter_map(bundle).collect();
    let cause = variables.cause(reference);
    match variables.subject(reference.variable) {
        Subject::Subscription(subscription) => of_subscription(subscription, cause, others),
        Subject::Bundle(entry) => of_bundle(universe.identifier(*entry), cause, others),
        Subject::Api(api) => Some(Reason::OneProvider {
            api: api_text(api),
            members: others,
        }),
        Subject::Package(package) => Some(Reason::OnePackage {
            package: package.to_string(),
            members: others,
        }),
    }
}

/// Returns the reason for a constraint of a Subscription.
fn of_subscription(subscription: &Subscription, cause: &Cause, candidates: Vec<BundleId>) -> Option<Reason> {
    let name = subscription.name.clone();
    match cause {
        Cause::SubscriptionExists => Some(Reason::SubscriptionExists {
            subscription: name,
            asks: asks(subscription),
        }),
        Cause::SubscriptionRequires => Some(Reason::SubscriptionRequires {
            subscription: name,
            candidates,
        }),
        Cause::SubscriptionInvalid(Invalid { reason, lack }) => Some(Reason::SubscriptionInvalid {
            subscription: name,
            text: reason.clone(),
            lack: *lack,
            asked: Box::new(subscription.clone()),
        }),
        _ => None,
    }
}

/// Returns the reason for a constraint of a bundle.
fn of_bundle(bundle: BundleId, cause: &Cause, mut others: Vec<BundleId>) -> Option<Reason> {
    match cause {
        Cause::NotReferenced => Some(Reason::NotReferenced { bundle }),
        Cause::Deprecated => Some(Reason::Deprecated { bundle }),
        Cause::RuntimeConstraint(message) => Some(Reason::RuntimeConstraint {
            bundle,
            message: message.clone(),
        }),
        Cause::Excluded(cause) => Some(Reason::Excluded {
            bundle,
            cause: cause.clone(),
        }),
        Cause::Held(objection) => Some(Reason::Held {
            bundle,
            subscription: objection.subscription.clone(),
            message: objection.message.clone(),
        }),
        Cause::Requires(requirement) => Some(Reason::Requires {
            bundle,
            requirement: Arc::clone(requirement),
            candidates: others,
        }),
        Cause::Replaces => Some(Reason::Replaces {
            upgrade: bundle,
            installed: others.pop()?,
        }),
        _ => None,
    }
}

/// Describes a Subscription's request.
pub(crate) fn asks(subscription: &Subscription) -> String {
    let Subscription {
        package,
        channel,
        starting_csv,
        installed_csv,
        catalog,
        ..
    } = subscription;
    let channel = match channel.as_str() {
        "" => "any channel".to_owned(),
        channel => format!("channel {channel}"),
    };
    let mut text = format!("package {package}, {channel} of catalog {catalog}");
    if !installed_csv.is_empty() {
        text.push_str(&format!(", with {installed_csv} installed"));
    } else if !starting_csv.is_empty() {
        text.push_str(&format!(", starting with {starting_csv}"));
    }
    text
}

pub(crate) fn api_text(api: &olm_fbc::property::Gvk) -> String {
    format!("{} ({}/{})", api.kind, api.group, api.version)
}
