//! The reasons of a contradiction as a tree: who asks for what, who could provide it, and what rules that out.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Explanation, Failure, Reason};
use crate::bundle_id::BundleId;
use crate::enumeration::list;

/// A statement and what it rests on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tree {
    /// The statement, in one line.
    pub text: String,
    /// Why it holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub because: Vec<Tree>,
}

impl Tree {
    /// A statement that rests on nothing.
    pub(crate) fn leaf(text: impl Into<String>) -> Self {
        Tree {
            text: text.into(),
            because: Vec::new(),
        }
    }
}

/// Candidates told one by one; the rest are counted.
const SHOWN_CANDIDATES: usize = 4;

/// How far a chain of requirements is followed step by step. What is further on is told by its root causes, so that the tree
/// as JSON nests less than readers of JSON follow (128).
const MAX_DEPTH: usize = 12;

/// Bundles followed step by step in one tree; those after them are told by their root causes. Without it, twelve layers of
/// eight bundles would be followed on 8¹² ways.
const MAX_FOLLOWED: usize = 400;

/// Bundles visited in search of root causes for one tree; those after them are only said to be left out.
const MAX_VISITED: usize = 100_000;

/// Different reasons told apart among the candidates of one choice.
const MAX_TOLD_APART: usize = 32;

impl Explanation {
    /// The reasons, one tree for each Subscription or installed operator that wants something.
    pub fn tree(&self) -> Vec<Tree> {
        match &self.failure {
            Failure::Prevented { text, hints } => vec![Tree {
                text: text.clone(),
                because: hints.iter().map(Tree::leaf).collect(),
            }],
            Failure::Unsatisfiable(reasons) => {
                let mut roots = TreeBuilder::new(reasons).roots(reasons);
                roots.extend(TreeBuilder::new(&self.beside).roots(&self.beside));
                roots.extend(self.bystanders.iter().map(|bystanders| {
                    let names = &bystanders.subscriptions;
                    let noun = if names.len() == 1 {
                        "subscription"
                    } else {
                        "subscriptions"
                    };
                    let verb = if names.len() == 1 { "waits" } else { "wait" };
                    Tree::leaf(format!(
                        "{noun} {} {verb} with them: {} has to be settled first",
                        list(names.iter().map(String::as_str)),
                        bystanders.link
                    ))
                }));
                roots
            }
        }
    }
}

/// The reasons by what they are about.
struct TreeBuilder<'a> {
    /// Reasons that a bundle carries.
    of_bundle: BTreeMap<&'a BundleId, Vec<&'a Reason>>,
    /// What each Subscription asks for, in words, and its candidates; by name.
    wanted: BTreeMap<&'a str, (&'a str, &'a [BundleId])>,
    /// Bundles that are wanted, with who wants them.
    wanted_by: BTreeMap<&'a BundleId, BTreeSet<String>>,
    /// Groups of which one member only may be there, by member.
    groups: BTreeMap<&'a BundleId, Vec<(Group<'a>, &'a [BundleId])>>,
    /// How many bundles were followed so far.
    followed: Cell<usize>,
    /// How many were visited in search of root causes.
    visited: Cell<usize>,
    /// Root causes that were looked for.
    root_causes: RefCell<BTreeMap<&'a BundleId, Vec<Tree>>>,
}

/// What several bundles have in common of which one only may be there.
#[derive(Clone, Copy)]
enum Group<'a> {
    /// They provide this API, printed as `Kind (group/version)`.
    Api(&'a str),
    /// They are of this package.
    Package(&'a str),
}

impl Group<'_> {
    /// How membership is told: of the bundle itself, and of the others.
    fn verbs(self) -> (&'static str, &'static str) {
        match self {
            Group::Api(_) => ("provides", "does"),
            Group::Package(_) => ("is of", "is"),
        }
    }
}

impl fmt::Display for Group<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Group::Api(api) => write!(f, "API {api}"),
            Group::Package(package) => write!(f, "package {package}"),
        }
    }
}

impl<'a> TreeBuilder<'a> {
    fn new(reasons: &'a [Reason]) -> Self {
        let mut builder = TreeBuilder {
            of_bundle: BTreeMap::new(),
            wanted: BTreeMap::new(),
            wanted_by: BTreeMap::new(),
            groups: BTreeMap::new(),
            followed: Cell::new(0),
            visited: Cell::new(0),
            root_causes: RefCell::new(BTreeMap::new()),
        };
        for reason in reasons {
            builder.add(reason);
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
                self.want(candidates, &format!("subscription {subscription}"));
            }
            Reason::Requires {
                bundle, candidates, ..
            } => {
                self.of_bundle.entry(bundle).or_default().push(reason);
                self.want(candidates, bundle.csv());
            }
            Reason::Deprecated { bundle }
            | Reason::RuntimeConstraint { bundle, .. }
            | Reason::Excluded { bundle, .. } => self.of_bundle.entry(bundle).or_default().push(reason),
            Reason::Replaces { upgrade, installed } => {
                self.of_bundle.entry(upgrade).or_default().push(reason);
                self.of_bundle.entry(installed).or_default().push(reason);
            }
            Reason::OneProvider { api, members } => self.group(Group::Api(api), members),
            Reason::OnePackage { package, members } => self.group(Group::Package(package), members),
            Reason::SubscriptionInvalid { .. } | Reason::NotReferenced { .. } => {}
        }
    }

    fn group(&mut self, group: Group<'a>, members: &'a [BundleId]) {
        for member in members {
            self.groups.entry(member).or_default().push((group, members));
        }
    }

    fn want(&mut self, candidates: &'a [BundleId], by: &str) {
        for candidate in candidates {
            self.wanted_by.entry(candidate).or_default().insert(by.to_owned());
        }
    }

    fn roots(&self, reasons: &'a [Reason]) -> Vec<Tree> {
        let mut roots = Vec::new();
        for reason in reasons {
            match reason {
                Reason::SubscriptionInvalid {
                    subscription,
                    text,
                    hints,
                } => {
                    let because = hints.iter().map(Tree::leaf).collect();
                    let text = format!("subscription {subscription}: {text}");
                    roots.push(Tree { text, because });
                }
                Reason::NotReferenced { bundle } => roots.push(self.installed_root(bundle)),
                _ => {}
            }
        }
        for (subscription, (asks, candidates)) in &self.wanted {
            // One whose candidates take no part only stands beside the one that tells the reason.
            if !asks.is_empty() && !candidates.is_empty() {
                roots.push(Tree {
                    text: format!("subscription {subscription} asks for {asks}"),
                    because: self.candidates(candidates, &BTreeSet::new()),
                });
            }
        }
        if roots.is_empty() {
            let no_candidates = self.wanted.iter().filter(|(_, (asks, _))| !asks.is_empty());
            roots.extend(no_candidates.map(|(name, (asks, _))| Tree {
                text: format!("subscription {name} asks for {asks}"),
                because: vec![Tree::leaf("nothing in the channel can be chosen")],
            }));
        }
        roots
    }

    fn installed_root(&self, installed: &'a BundleId) -> Tree {
        Tree {
            text: format!(
                "{} is installed and must stay, as no subscription answers for it",
                installed.csv()
            ),
            because: self.why_not(installed, &BTreeSet::new()),
        }
    }

    /// Each candidate with what rules it out; those ruled out alike are told together.
    fn candidates(&self, candidates: &'a [BundleId], path: &BTreeSet<&'a BundleId>) -> Vec<Tree> {
        let mut told: Vec<(Vec<Tree>, Vec<&BundleId>)> = Vec::new();
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
        let mut trees: Vec<Tree> = told
            .into_iter()
            .take(SHOWN_CANDIDATES)
            .map(|(because, names)| Tree {
                text: together(&names),
                because,
            })
            .collect();
        if more > 0 {
            trees.push(Tree::leaf(format!(
                "{more} more, each ruled out for reasons of its own"
            )));
        }
        trees
    }

    /// What rules a bundle out, as far as it takes part in the contradiction.
    fn why_not(&self, bundle: &'a BundleId, path: &BTreeSet<&'a BundleId>) -> Vec<Tree> {
        if path.contains(bundle) {
            return Vec::new();
        }
        if path.len() >= MAX_DEPTH || self.followed.get() >= MAX_FOLLOWED {
            return self.root_causes(bundle);
        }
        self.followed.set(self.followed.get() + 1);
        let mut path = path.clone();
        path.insert(bundle);
        let mut trees: Vec<Tree> = Vec::new();
        for reason in self.of_bundle.get(bundle).into_iter().flatten() {
            trees.extend(self.of_reason(bundle, reason, &path));
        }
        trees.extend(self.all_rivals(bundle));
        trees
    }

    /// What the requirements of a bundle lead to in the end, however long the way.
    fn root_causes(&self, start: &'a BundleId) -> Vec<Tree> {
        if let Some(known) = self.root_causes.borrow().get(start) {
            return known.clone();
        }
        if self.visited.get() >= MAX_VISITED {
            return vec![Tree::leaf(
                "… is not followed further, as there is too much of it",
            )];
        }
        let causes = self.find_root_causes(start);
        self.root_causes.borrow_mut().insert(start, causes.clone());
        causes
    }

    fn find_root_causes(&self, start: &'a BundleId) -> Vec<Tree> {
        let mut seen: BTreeSet<&BundleId> = BTreeSet::from([start]);
        let mut open: VecDeque<&BundleId> = VecDeque::from([start]);
        let mut causes: Vec<Tree> = Vec::new();
        let mut hidden = 0;
        while let Some(bundle) = open.pop_front() {
            self.visited.set(self.visited.get() + 1);
            let mut because: Vec<Tree> = Vec::new();
            for reason in self.of_bundle.get(bundle).into_iter().flatten() {
                match reason {
                    Reason::Requires { candidates, .. } if !candidates.is_empty() => {
                        open.extend(candidates.iter().filter(|candidate| seen.insert(candidate)));
                    }
                    reason => because.extend(self.of_reason(bundle, reason, &BTreeSet::new())),
                }
            }
            because.extend(self.all_rivals(bundle));
            if because.is_empty() {
                continue;
            }
            if bundle == start {
                causes.extend(because);
            } else if causes.len() < SHOWN_CANDIDATES {
                let text = format!("which leads to {}", bundle.plain());
                causes.push(Tree { text, because });
            } else {
                hidden += 1;
            }
        }
        if hidden > 0 {
            causes.push(Tree::leaf(format!("{hidden} more root causes")));
        }
        let passed = seen.len().saturating_sub(1);
        if passed > 1 && !causes.is_empty() {
            let text = format!("… {} more bundles on the way are left out", passed - 1);
            return vec![Tree {
                text,
                because: causes,
            }];
        }
        causes
    }

    fn of_reason(
        &self,
        bundle: &BundleId,
        reason: &'a Reason,
        path: &BTreeSet<&'a BundleId>,
    ) -> Option<Tree> {
        Some(match reason {
            Reason::Deprecated { .. } => Tree::leaf("is deprecated by its catalog"),
            Reason::RuntimeConstraint { message, .. } => {
                Tree::leaf(format!("does not meet a constraint of the cluster: {message}"))
            }
            Reason::Excluded { cause, .. } => Tree::leaf(format!("cannot be used: {cause}")),
            Reason::Replaces { upgrade, installed } => {
                let text = if bundle == upgrade {
                    format!("would replace {}, which is needed", installed.plain())
                } else {
                    format!("would be replaced by {}, which is needed", upgrade.plain())
                };
                Tree::leaf(text)
            }
            Reason::Requires {
                requirement,
                messages,
                candidates,
                hints,
                ..
            } => {
                let told = messages
                    .iter()
                    .filter(|message| !requirement.contains(message.as_str()))
                    .map(|message| format!(" ({message})"))
                    .collect::<String>();
                let because = if candidates.is_empty() {
                    let instead = match hints.as_slice() {
                        [] => "add a catalog that does".to_owned(),
                        hints => hints.join("; "),
                    };
                    vec![Tree::leaf(format!(
                        "nothing installed and no catalog in reach offers that: {instead}"
                    ))]
                } else {
                    self.candidates(candidates, path)
                };
                Tree {
                    text: format!("requires an operator {requirement}{told}"),
                    because,
                }
            }
            _ => return None,
        })
    }

    fn all_rivals(&self, bundle: &BundleId) -> impl Iterator<Item = Tree> {
        let groups = self.groups.get(bundle).into_iter().flatten();
        groups.filter_map(move |(group, members)| {
            let others: Vec<&BundleId> = members.iter().filter(|member| *member != bundle).collect();
            self.rivals(bundle, *group, &others)
        })
    }

    /// Members of a group that something else wants than what wants the bundle: alternatives of one choice are no rivals.
    fn rivals(&self, bundle: &BundleId, group: Group<'_>, others: &[&BundleId]) -> Option<Tree> {
        let none = BTreeSet::new();
        let own = self.wanted_by.get(bundle).unwrap_or(&none);
        let mut by_wanter: BTreeMap<Vec<&str>, Vec<&BundleId>> = BTreeMap::new();
        for other in others {
            let wanters = self.wanted_by.get(other);
            let foreign: Vec<&str> = wanters
                .unwrap_or(&none)
                .difference(own)
                .map(String::as_str)
                .collect();
            // What nobody wants takes part because it is installed and must stay.
            if !foreign.is_empty() || wanters.is_none() {
                by_wanter.entry(foreign).or_default().push(other);
            }
        }
        let (verb, as_well) = group.verbs();
        let rivals: Vec<&BundleId> = by_wanter.values().flatten().copied().collect();
        let mut because: Vec<Tree> = by_wanter
            .iter()
            .filter(|(wanters, _)| !wanters.is_empty())
            .map(|(wanters, names)| {
                let wanters = list(wanters.iter().copied());
                Tree::leaf(format!("wanted by {wanters}: {}", together(names)))
            })
            .collect();
        let more = because.len().saturating_sub(SHOWN_CANDIDATES);
        if more > 0 {
            because.truncate(SHOWN_CANDIDATES);
            because.push(Tree::leaf(format!("{more} more are wanted by others")));
        }
        (!rivals.is_empty()).then(|| Tree {
            text: format!(
                "{verb} {group}, as {as_well} {}; only one may be there",
                together(&rivals)
            ),
            because,
        })
    }
}

/// The first of the names, and how many there are besides.
fn together(bundles: &[&BundleId]) -> String {
    match bundles {
        [] => String::new(),
        [only] => only.plain(),
        [first, second] => format!("{} and {}", first.plain(), second.plain()),
        [first, rest @ ..] => format!("{} and {} more", first.plain(), rest.len()),
    }
}

#[cfg(test)]
mod tests;
