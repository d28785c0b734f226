//! The reasons of a contradiction as a tree: requests, their candidates, and what rules these out.

use std::collections::{BTreeMap, BTreeSet};

use super::rivals::{self, Requirer, Wanted};
use super::statement::{SHOWN, Tree, together};
use super::{Explanation, Failure, Hints, Reason};
use crate::bundle_id::BundleId;
use crate::enumeration::list;
use crate::predicate::Predicate;

/// Maximum depth of a chain of requirements that is followed step by step. Below, only the end of one chain is
/// shown, so that the JSON of the tree nests less than JSON readers allow (128).
const MAX_DEPTH: usize = 25;

/// What stands below a bundle that is met again.
const ABOVE: &str = "for reasons told or counted above";

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
    TreeBuilder::new(reasons).roots(reasons, hints)
}

/// A statement against a bundle. Hints and the reasons against candidates are added where it is shown.
#[derive(PartialEq)]
struct Draft<'a> {
    text: String,
    because: Vec<Tree>,
    /// The bundles that meet a requirement.
    candidates: &'a [BundleId],
    /// A requirement that no bundle meets.
    unmet: Option<&'a Predicate>,
}

impl Draft<'_> {
    /// Returns the statement with hints, but without the reasons against candidates.
    fn tree(&self, hints: &Hints) -> Tree {
        let mut tree = Tree::new(&self.text, self.because.clone());
        if let Some(requirement) = self.unmet {
            let near = match hints.near(requirement).as_slice() {
                [] => "add a catalog that does".to_owned(),
                near => near.join("; "),
            };
            let text = format!("not installed, and no usable catalog offers it: {near}");
            tree.because.push(Tree::leaf(text));
        }
        tree
    }
}

/// The reasons by their subject.
#[derive(Default)]
struct TreeBuilder<'a> {
    /// Statements against each bundle, as far as they take part in the contradiction.
    against: BTreeMap<&'a BundleId, Vec<Draft<'a>>>,
    /// Description of each Subscription's request, and its candidates; by name.
    asked: BTreeMap<&'a str, (&'a str, &'a [BundleId])>,
    wanted: Wanted<'a>,
}

impl<'a> TreeBuilder<'a> {
    fn new(reasons: &'a [Reason]) -> Self {
        let mut builder = TreeBuilder::default();
        for (position, reason) in reasons.iter().enumerate() {
            builder.add(position, reason);
        }
        // All requirers are known only now.
        for reason in reasons {
            let (verbs, group, members) = match reason {
                Reason::OneProvider { api, members } => (["provides", "does"], format!("API {api}"), members),
                Reason::OnePackage { package, members } => {
                    (["is of", "is"], format!("package {package}"), members)
                }
                _ => continue,
            };
            for (member, tree) in rivals::of_group(verbs, &group, members, &builder.wanted) {
                builder.object(member, tree);
            }
        }
        builder
    }

    fn add(&mut self, position: usize, reason: &'a Reason) {
        match reason {
            Reason::SubscriptionExists { subscription, asks } => {
                self.asked.entry(subscription).or_insert(("", &[])).0 = asks;
            }
            Reason::SubscriptionRequires {
                subscription,
                candidates,
            } => {
                self.asked.entry(subscription).or_insert(("", &[])).1 = candidates;
                self.want(candidates, &format!("subscription {subscription}"), position);
            }
            Reason::NotReferenced { bundle } => {
                self.wanted.entry(bundle).or_default();
            }
            Reason::Deprecated { bundle } => {
                self.object(bundle, Tree::leaf("is deprecated by its catalog"));
            }
            Reason::RuntimeConstraint { bundle, message } => {
                let text = format!("does not meet a constraint of the cluster: {message}");
                self.object(bundle, Tree::leaf(text));
            }
            Reason::Held { bundle, message, .. } => self.object(bundle, Tree::leaf(format!("is {message}"))),
            Reason::Excluded { bundle, cause } => {
                self.object(bundle, Tree::leaf(format!("cannot be used: {cause}")));
            }
            Reason::Replaces { upgrade, installed } => {
                let text = format!("would replace {}, which is needed", installed.plain());
                self.object(upgrade, Tree::leaf(text));
                let text = format!("would be replaced by {}, which is needed", upgrade.plain());
                self.object(installed, Tree::leaf(text));
            }
            Reason::Requires {
                bundle,
                requirement,
                candidates,
            } => {
                self.want(candidates, bundle.csv(), position);
                let text = requirement.to_string();
                let messages = requirement.messages().into_iter();
                let messages = messages
                    .filter(|message| !text.contains(*message))
                    .map(|message| format!(" ({message})"))
                    .collect::<String>();
                let draft = Draft {
                    text: format!("requires an operator {text}{messages}"),
                    because: Vec::new(),
                    candidates,
                    unmet: candidates.is_empty().then_some(&**requirement),
                };
                self.against.entry(bundle).or_default().push(draft);
            }
            Reason::SubscriptionInvalid { .. } | Reason::OneProvider { .. } | Reason::OnePackage { .. } => {}
        }
    }

    fn want(&mut self, candidates: &'a [BundleId], by: &str, position: usize) {
        let by: Requirer = (by.into(), position);
        for candidate in candidates {
            self.wanted.entry(candidate).or_default().insert(by.clone());
        }
    }

    fn object(&mut self, bundle: &'a BundleId, Tree { text, because }: Tree) {
        self.against.entry(bundle).or_default().push(Draft {
            text,
            because,
            candidates: &[],
            unmet: None,
        });
    }

    fn roots(&self, reasons: &'a [Reason], hints: &Hints) -> Vec<Tree> {
        let walk = || Walk {
            against: &self.against,
            hints,
            covered: BTreeSet::new(),
        };
        let mut roots = Vec::new();
        for reason in reasons {
            match reason {
                Reason::SubscriptionInvalid {
                    subscription,
                    text,
                    lack,
                    asked,
                } => {
                    let because = hints.of_lack(*lack, asked).into_iter().map(Tree::leaf);
                    let text = format!("subscription {subscription}: {text}");
                    roots.push(Tree::new(text, because.collect()));
                }
                Reason::NotReferenced { bundle } => {
                    let csv = bundle.csv();
                    roots.push(Tree::new(
                        format!("{csv} is installed without a subscription, so OLM may not replace it"),
                        walk().why_not(bundle, 0),
                    ));
                }
                _ => {}
            }
        }
        for (subscription, (asks, candidates)) in &self.asked {
            // A Subscription without involved candidates only accompanies the one with the reason.
            if !asks.is_empty() && !candidates.is_empty() {
                roots.push(Tree::new(
                    format!("subscription {subscription} asks for {asks}"),
                    walk().candidates(candidates, 0),
                ));
            }
        }
        if roots.is_empty() {
            let no_candidates = self.asked.iter().filter(|(_, (asks, _))| !asks.is_empty());
            roots.extend(no_candidates.map(|(name, (asks, _))| {
                let because = vec![Tree::leaf("no bundle of the channel can be chosen")];
                Tree::new(format!("subscription {name} asks for {asks}"), because)
            }));
        }
        roots
    }
}

/// The way from one root to what rules its candidates out. Each bundle is followed once, so that a tree is
/// no larger than the contradiction.
struct Walk<'b, 'a> {
    against: &'b BTreeMap<&'a BundleId, Vec<Draft<'a>>>,
    hints: &'b Hints,
    /// Bundles whose reasons the tree has, or counts.
    covered: BTreeSet<&'a BundleId>,
}

impl<'b, 'a> Walk<'b, 'a> {
    /// Returns the statements against a bundle; `None` if the tree has them.
    fn news(&self, bundle: &BundleId) -> Option<&'b [Draft<'a>]> {
        let against = self.against.get(bundle).map(Vec::as_slice).unwrap_or_default();
        (against.is_empty() || !self.covered.contains(bundle)).then_some(against)
    }

    /// Returns each candidate with the reasons that rule it out. Candidates with equal reasons are grouped.
    fn candidates(&mut self, candidates: &'a [BundleId], depth: usize) -> Vec<Tree> {
        let mut groups: Vec<(Option<&[Draft<'a>]>, Vec<&'a BundleId>)> = Vec::new();
        let mut more = 0;
        for candidate in candidates {
            let news = self.news(candidate);
            match groups.iter().position(|(known, _)| *known == news) {
                Some(place) => groups[place].1.push(candidate),
                None if groups.len() < SHOWN => groups.push((news, vec![candidate])),
                None => more += 1,
            }
        }
        let mut trees = Vec::new();
        for (_, names) in groups {
            trees.push(Tree::new(together(&names), self.why_not(names[0], depth)));
        }
        if more > 0 {
            trees.push(Tree::leaf(format!(
                "{more} more, each excluded for its own reasons"
            )));
        }
        self.covered.extend(candidates);
        trees
    }

    /// Returns the reasons that rule a bundle out. `depth` is the number of bundles above it.
    fn why_not(&mut self, bundle: &'a BundleId, depth: usize) -> Vec<Tree> {
        let Some(news) = self.news(bundle) else {
            return vec![Tree::leaf(ABOVE)];
        };
        self.covered.insert(bundle);
        let mut trees = Vec::new();
        for draft in news {
            let mut tree = draft.tree(self.hints);
            if depth + 1 < MAX_DEPTH {
                tree.because.extend(self.candidates(draft.candidates, depth + 1));
            } else {
                tree.because.extend(self.root_cause(draft.candidates));
            }
            trees.push(tree);
        }
        trees
    }

    /// Returns the end of a chain of requirements below some candidates, however long it is.
    fn root_cause(&mut self, mut candidates: &'a [BundleId]) -> Option<Tree> {
        let mut end = (!candidates.is_empty()).then(|| Tree::leaf(ABOVE));
        while let Some(bundle) = candidates.iter().find(|bundle| !self.covered.contains(bundle)) {
            self.covered.insert(bundle);
            let news = self.against.get(bundle).map(Vec::as_slice).unwrap_or_default();
            let because = news.iter().map(|draft| draft.tree(self.hints)).collect();
            end = Some(Tree::new(format!("… which leads to {}", bundle.plain()), because));
            // The end has none.
            let fewest = news
                .iter()
                .map(|draft| draft.candidates)
                .min_by_key(|below| below.len());
            candidates = fewest.unwrap_or_default();
        }
        end
    }
}

#[cfg(test)]
mod tests;
