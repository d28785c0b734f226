//! Upgrades that a channel offers and a Subscription does not get.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;

use crate::advice::anew_text;
use crate::enumeration::list;
use crate::explain::{Hints, MAX_LINES, Tree, WIDTH, lines};
use crate::problem::{Problem, Subscription};
use crate::resolve::{ByName, parts, resolve};

/// A Subscription that stays behind its channel. That is no failure: OLM keeps what is installed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeldBack {
    /// The Subscription.
    pub subscription: String,
    /// What it has.
    pub installed: String,
    /// That it stays, in one line.
    pub message: String,
    /// The reasons.
    pub tree: Vec<Tree>,
}

impl HeldBack {
    /// Returns the reasons as lines.
    pub fn lines(&self) -> Vec<String> {
        lines(&self.tree, MAX_LINES, WIDTH)
    }
}

/// Returns the Subscriptions that do not follow their channel, with the reasons. `failed` ones are reported
/// elsewhere.
pub fn held(problem: &Problem, failed: &BTreeSet<String>) -> Vec<HeldBack> {
    let mut held: Vec<HeldBack> = Vec::new();
    let (by_name, hints) = (ByName::new(problem), Hints::new(problem));
    let mut offered: BTreeSet<String> = BTreeSet::new();
    for part in parts(problem).unwrap_or_default() {
        offered.extend(part.offered.iter().cloned());
        if part.subscriptions.iter().any(|name| failed.contains(name)) {
            continue;
        }
        // Each Subscription needs a resolution, so each part is resolved by itself: a namespace may be large,
        // its parts are not.
        let alone = (!part.offered.is_empty()).then(|| part.limit(problem, &by_name));
        held.extend(alone.iter().flat_map(|alone| {
            part.offered
                .iter()
                .filter_map(|name| by_others(alone, name, &hints))
        }));
    }
    let stranded = problem.subscriptions.iter().filter(|s| !failed.contains(&s.name));
    held.extend(stranded.filter_map(|subscription| without_a_way(problem, &by_name, subscription, &offered)));
    held.sort_by(|a, b| a.subscription.cmp(&b.subscription));
    held.dedup_by(|a, b| a.subscription == b.subscription);
    held
}

/// Returns the reason why an offered upgrade is not installed; `None` if there is no conflict.
fn by_others(problem: &Problem, name: &str, hints: &Hints) -> Option<HeldBack> {
    let mut asked = problem.clone();
    let subscription = asked.subscriptions.iter_mut().find(|s| s.name == *name)?;
    subscription.must_move = true;
    let installed = subscription.installed_csv.clone();
    let resolution = resolve(&asked).ok()?;
    let mut failures = resolution.failures.iter();
    let failure = failures.find(|f| f.subscriptions.iter().any(|s| s == name))?;
    failure.offers_something(name).then(|| HeldBack {
        subscription: name.to_owned(),
        message: format!("subscription {name} stays at {installed}"),
        installed,
        tree: failure.tree(hints),
    })
}

/// Reports an installed version that is not a head and has no upgrade.
fn without_a_way(
    problem: &Problem,
    by_name: &ByName<'_>,
    subscription: &Subscription,
    offered: &BTreeSet<String>,
) -> Option<HeldBack> {
    let Subscription {
        name,
        package,
        channel,
        catalog,
        installed_csv: installed,
        ..
    } = subscription;
    let is_there = by_name
        .installed
        .get(installed.as_str())
        .is_some_and(|csv| !csv.copied);
    let snapshot = problem.snapshot(catalog)?;
    if !is_there || offered.contains(name) {
        return None;
    }
    let heads = snapshot.heads(package, channel);
    let heads: BTreeSet<&str> = heads.map(|(_, head)| head).collect();
    if heads.is_empty() || heads.contains(installed.as_str()) {
        return None;
    }
    let heads = list(heads.into_iter());
    let place = if channel.is_empty() {
        format!("the channels of package {package}")
    } else {
        format!("channel {channel}")
    };
    Some(HeldBack {
        subscription: name.clone(),
        installed: installed.clone(),
        message: format!(
            "subscription {name} stays at {installed}: no entry leads from {installed} to {heads}"
        ),
        tree: vec![
            Tree::leaf(format!(
                "no entry of {place} in catalog {} names {installed} in replaces or skips, or has its version in a skipRange",
                catalog
            )),
            Tree::leaf(format!(
                "another channel may have an upgrade path: see --target of `kubectl operator plan` and `opm plan`; else the publisher \
                 of the catalog has to add one, or {}",
                anew_text(name, installed)
            )),
        ],
    })
}
