//! The reasons of a contradiction as a tree: requests, their candidates, and what rules these out.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::rivals::Rivals;
use super::statement::{Draft, Hint, Tree, together};
use super::{Explanation, Failure, Hints, Reason};
use crate::bundle_id::BundleId;
use crate::enumeration::list;

/// Maximum candidates shown one by one; the rest are counted.
const SHOWN_CANDIDATES: usize = 4;

/// Maximum depth of a chain of requirements that is followed step by step. Below, only root causes are shown,
/// so that the JSON of the tree nests less than JSON readers allow (128).
const MAX_DEPTH: usize = 12;

/// Maximum bundles followed step by step in one tree; for the rest, only root causes are shown. Without it,
/// twelve layers of eight bundles would have 8¹² paths.
const MAX_FOLLOWED: usize = 400;

/// Maximum number of different reasons among the candidates of one choice.
const MAX_TOLD_APART: usize = 32;

impl Explanation {
    /// Returns the reasons: one tree for each Subscription or installed operator with a request. `hints` adds
    /// alternatives to missing objects.
    pub fn tree(&self, hints: &Hints) -> Vec<Tree> {
        match &self.failure {
            Failure::Prevented { text, hint } => vec![Tree {
                text: text.clone(),
                because: vec![Tree::leaf(*hint)],
            }],
            Failure::Unsatisfiable(reasons) => {
                let mut roots = of_reasons(reasons, hints);
                roots.extend(of_reasons(&self.beside, hints));
                roots.extend(self.bystanders.iter().map(|bystanders| {
                    let names = &bystanders.subscriptions;
                    let noun = if names.len() == 1 {
                        "subscription"
                    } else {
                        "subscriptions"
                    };
                    let verb = if names.len() == 1 { "waits" } else { "wait" };
                    Tree::leaf(format!(
                        "{noun} {} {verb} with them: {} must be resolved first",
                        list(names.iter().map(String::as_str)),
                        bystanders.link
                    ))
                }));
                roots
            }
        }
    }
}

fn of_reasons(reasons: &[Reason], hints: &Hints) -> Vec<Tree> {
    let roots = TreeBuilder::new(reasons).roots(reasons);
    roots.into_iter().map(|root| root.told(hints)).collect()
}

/// The reasons by their subject.
#[derive(Default)]
struct TreeBuilder<'a> {
    /// Reasons of a bundle.
    of_bundle: BTreeMap<&'a BundleId, Vec<&'a Reason>>,
    /// Description of each Subscription's request, and its candidates; by name.
    wanted: BTreeMap<&'a str, (&'a str, &'a [BundleId])>,
    rivals: Rivals<'a>,
    /// Number of bundles followed so far.
    followed: Cell<usize>,
    /// Bundles visited in search of root causes. Each is visited once, so that the tree has each cause once.
    told: RefCell<BTreeSet<&'a BundleId>>,
}

impl<'a> TreeBuilder<'a> {
    fn new(reasons: &'a [Reason]) -> Self {
        let mut builder = TreeBuilder::default();
        for reason in reasons {
            builder.add(reason);
        }
        // All requirers are known only now.
        for reason in reasons {
            match reason {
                Reason::OneProvider { api, members } => {
                    let group = format!("API {api}");
                    builder.rivals.add_group(["provides", "does"], group, members);
                }
                Reason::OnePackage { package, members } => {
                    let group = format!("package {package}");
                    builder.rivals.add_group(["is of", "is"], group, members);
                }
                _ => {}
            }
        }
        builder
    }

    fn add(&mut self, reason: &'a Reason) {
        match reason {
            Reason::SubscriptionExists { subscription, asks } => {
                self.wanted.entry(subscription).or_insert(("", &[])).0 = asks;
            }
            Reason::SubscriptionRequires {
                subscription,
                candidates,
            } => {
                self.wanted.entry(subscription).or_insert(("", &[])).1 = candidates;
                self.rivals
                    .want(candidates, &format!("subscription {subscription}"));
            }
            Reason::Requires {
                bundle, candidates, ..
            } => {
                self.of_bundle.entry(bundle).or_default().push(reason);
                self.rivals.want(candidates, bundle.csv());
            }
            Reason::Deprecated { bundle }
            | Reason::RuntimeConstraint { bundle, .. }
            | Reason::Held { bundle, .. }
            | Reason::Excluded { bundle, .. } => self.of_bundle.entry(bundle).or_default().push(reason),
            Reason::Replaces { upgrade, installed } => {
                self.of_bundle.entry(upgrade).or_default().push(reason);
                self.of_bundle.entry(installed).or_default().push(reason);
            }
            Reason::SubscriptionInvalid { .. }
            | Reason::NotReferenced { .. }
            | Reason::OneProvider { .. }
            | Reason::OnePackage { .. } => {}
        }
    }

    fn roots(&self, reasons: &'a [Reason]) -> Vec<Draft<'a>> {
        let mut roots = Vec::new();
        for reason in reasons {
            // Each root is read by itself.
            self.told.borrow_mut().clear();
            match reason {
                Reason::SubscriptionInvalid {
                    subscription,
                    text,
                    lack,
                    asked,
                } => {
                    let text = format!("subscription {subscription}: {text}");
                    roots.push(Draft::hinted(text, Hint::Lack(*lack, asked)));
                }
                Reason::NotReferenced { bundle } => roots.push(self.installed_root(bundle)),
                _ => {}
            }
        }
        for (subscription, (asks, candidates)) in &self.wanted {
            // A Subscription without involved candidates only accompanies the one with the reason.
            if !asks.is_empty() && !candidates.is_empty() {
                self.told.borrow_mut().clear();
                roots.push(Draft::new(
                    format!("subscription {subscription} asks for {asks}"),
                    self.candidates(candidates, &BTreeSet::new()),
                ));
            }
        }
        if roots.is_empty() {
            let no_candidates = self.wanted.iter().filter(|(_, (asks, _))| !asks.is_empty());
            roots.extend(no_candidates.map(|(name, (asks, _))| {
                let because = vec![Draft::leaf("no bundle of the channel can be chosen")];
                Draft::new(format!("subscription {name} asks for {asks}"), because)
            }));
        }
        roots
    }

    fn installed_root(&self, installed: &'a BundleId) -> Draft<'a> {
        let csv = installed.csv();
        Draft::new(
            format!("{csv} is installed without a subscription, so OLM may not replace it"),
            self.why_not(installed, &BTreeSet::new()),
        )
    }

    /// Returns each candidate with the reasons that rule it out. Candidates with equal reasons are grouped.
    fn candidates(&self, candidates: &'a [BundleId], path: &BTreeSet<&'a BundleId>) -> Vec<Draft<'a>> {
        let mut told: Vec<(Vec<Draft<'a>>, Vec<&BundleId>)> = Vec::new();
        let mut not_told = 0;
        for candidate in candidates {
            let because = self.why_not(candidate, path);
            match told.iter().position(|(known, _)| *known == because) {
                Some(place) => told[place].1.push(candidate),
                None if told.len() < MAX_TOLD_APART => told.push((because, vec![candidate])),
                None => not_told += 1,
            }
        }
        let more = told.len().saturating_sub(SHOWN_CANDIDATES) + not_told;
        let mut trees: Vec<Draft<'a>> = told
            .into_iter()
            .take(SHOWN_CANDIDATES)
            .map(|(because, names)| Draft::new(together(&names), because))
            .collect();
        if more > 0 {
            trees.push(Draft::leaf(format!(
                "{more} more, each excluded for its own reasons"
            )));
        }
        trees
    }

    /// Returns the reasons that rule a bundle out, as far as they take part in the contradiction.
    fn why_not(&self, bundle: &'a BundleId, path: &BTreeSet<&'a BundleId>) -> Vec<Draft<'a>> {
        if path.contains(bundle) {
            return Vec::new();
        }
        if path.len() >= MAX_DEPTH || self.followed.get() >= MAX_FOLLOWED {
            return self.root_causes(bundle);
        }
        self.followed.set(self.followed.get() + 1);
        let mut path = path.clone();
        path.insert(bundle);
        let mut trees: Vec<Draft<'a>> = Vec::new();
        for reason in self.of_bundle.get(bundle).into_iter().flatten() {
            trees.extend(self.of_reason(bundle, reason, &path));
        }
        trees.extend(self.rivals.of(bundle));
        trees
    }

    /// Returns the ends of a bundle's chains of requirements, however long they are. Those that the tree has already are left out.
    fn root_causes(&self, start: &'a BundleId) -> Vec<Draft<'a>> {
        let mut told = self.told.borrow_mut();
        let mut open: VecDeque<&'a BundleId> = VecDeque::new();
        open.extend(told.insert(start).then_some(start));
        let mut visited = 0_usize;
        let mut causes: Vec<Draft<'a>> = Vec::new();
        let mut hidden = 0;
        while let Some(bundle) = open.pop_front() {
            visited += 1;
            let mut because: Vec<Draft<'a>> = Vec::new();
            for reason in self.of_bundle.get(bundle).into_iter().flatten() {
                match reason {
                    Reason::Requires { candidates, .. } if !candidates.is_empty() => {
                        open.extend(candidates.iter().filter(|candidate| told.insert(*candidate)));
                    }
                    reason => because.extend(self.of_reason(bundle, reason, &BTreeSet::new())),
                }
            }
            because.extend(self.rivals.of(bundle));
            if because.is_empty() {
                continue;
            }
            if bundle == start {
                causes.extend(because);
            } else if causes.len() < SHOWN_CANDIDATES {
                causes.push(Draft::new(format!("which leads to {}", bundle.plain()), because));
            } else {
                hidden += 1;
            }
        }
        if hidden > 0 {
            causes.push(Draft::leaf(format!("{hidden} more root causes")));
        }
        match visited {
            _ if causes.is_empty() => vec![Draft::leaf("for reasons told or counted above")],
            ..=2 => causes,
            _ => {
                let text = format!("… {} more bundles in between are omitted", visited - 2);
                vec![Draft::new(text, causes)]
            }
        }
    }

    fn of_reason(
        &self,
        bundle: &BundleId,
        reason: &'a Reason,
        path: &BTreeSet<&'a BundleId>,
    ) -> Option<Draft<'a>> {
        Some(match reason {
            Reason::Deprecated { .. } => Draft::leaf("is deprecated by its catalog"),
            Reason::RuntimeConstraint { message, .. } => {
                Draft::leaf(format!("does not meet a constraint of the cluster: {message}"))
            }
            Reason::Held { message, .. } => Draft::leaf(format!("is {message}")),
            Reason::Excluded { cause, .. } => Draft::leaf(format!("cannot be used: {cause}")),
            Reason::Replaces { upgrade, installed } => {
                let text = if bundle == upgrade {
                    format!("would replace {}, which is needed", installed.plain())
                } else {
                    format!("would be replaced by {}, which is needed", upgrade.plain())
                };
                Draft::leaf(text)
            }
            Reason::Requires {
                requirement,
                candidates,
                ..
            } => {
                let text = requirement.to_string();
                let messages = requirement.messages().into_iter();
                let told = messages
                    .filter(|message| !text.contains(*message))
                    .map(|message| format!(" ({message})"))
                    .collect::<String>();
                let because = if candidates.is_empty() {
                    let text = "not installed, and no usable catalog offers it";
                    vec![Draft::hinted(text, Hint::Requirement(requirement))]
                } else {
                    self.candidates(candidates, path)
                };
                Draft::new(format!("requires an operator {text}{told}"), because)
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests;
