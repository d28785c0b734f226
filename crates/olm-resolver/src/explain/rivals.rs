//! Rival bundles, of which only one may be present, grouped by the requirers that want them.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::statement::{SHOWN, Tree, together};
use crate::bundle_id::BundleId;
use crate::enumeration::list;

/// Maximum camps of a group that are compared with each other. Of a group with more, only the size is
/// reported.
pub(super) const MAX_CAMPS: usize = 50;

/// A requirer's name, with the position of the reason. One bundle may have several requirements.
pub(super) type Requirer = (Rc<str>, usize);

/// Bundles that a contradiction needs, with their requirers. A bundle without requirers is installed and must
/// stay.
pub(super) type Wanted<'a> = BTreeMap<&'a BundleId, BTreeSet<Requirer>>;

/// The requirers that members of a group share; for a bundle without requirers, also the bundle itself.
type Camp<'c> = (&'c BTreeSet<Requirer>, Option<&'c BundleId>);

/// Returns members of a group of which only one may be present, each with the statement against it. The verbs
/// say of a member that it belongs to the group: of the bundle itself, and of the others.
pub(super) fn of_group<'a>(
    [verb, as_well]: [&str; 2],
    group: &str,
    members: &'a [BundleId],
    wanted: &Wanted<'a>,
) -> Vec<(&'a BundleId, Tree)> {
    let mut camps: BTreeMap<Camp<'_>, Vec<&'a BundleId>> = BTreeMap::new();
    for member in members {
        if let Some(wanters) = wanted.get(member) {
            let alone = wanters.is_empty().then_some(member);
            camps.entry((wanters, alone)).or_default().push(member);
        }
    }
    let size: usize = camps.values().map(Vec::len).sum();
    let mut found = Vec::new();
    for (camp, bundles) in &camps {
        let tree = if camps.len() > MAX_CAMPS {
            let text = format!("{verb} {group}, of which only one may be installed; {size} are candidates");
            Tree::leaf(text)
        } else {
            let by_wanters = rivals(camp, &camps);
            let all: Vec<&BundleId> = by_wanters.values().flatten().copied().collect();
            if all.is_empty() {
                continue;
            }
            let rivals = together(&all);
            Tree::new(
                format!("{verb} {group}, as {as_well} {rivals}; only one may be installed"),
                required_by(&by_wanters),
            )
        };
        found.extend(bundles.iter().map(|&bundle| (bundle, tree.clone())));
    }
    found
}

/// Returns the members of other camps by the names of the requirers that `camp` does not have. Alternatives of
/// one choice are not rivals.
fn rivals<'c, 'a>(
    camp: &Camp<'c>,
    camps: &BTreeMap<Camp<'c>, Vec<&'a BundleId>>,
) -> BTreeMap<Vec<&'c str>, Vec<&'a BundleId>> {
    let mut by_wanters: BTreeMap<Vec<&'c str>, Vec<&'a BundleId>> = BTreeMap::new();
    for (other, bundles) in camps {
        let mut foreign: Vec<&'c str> = other.0.difference(camp.0).map(|(by, _)| &**by).collect();
        foreign.dedup();
        let stays = other.0.is_empty() && other != camp;
        if stays || !foreign.is_empty() {
            by_wanters.entry(foreign).or_default().extend(bundles);
        }
    }
    by_wanters.values_mut().for_each(|bundles| bundles.sort());
    by_wanters
}

fn required_by(by_wanters: &BTreeMap<Vec<&str>, Vec<&BundleId>>) -> Vec<Tree> {
    let required = by_wanters.iter().filter(|(wanters, _)| !wanters.is_empty());
    let mut because: Vec<Tree> = required
        .map(|(wanters, bundles)| {
            let wanters = list(wanters.iter().copied());
            Tree::leaf(format!("required by {wanters}: {}", together(bundles)))
        })
        .collect();
    let more = because.len().saturating_sub(SHOWN);
    if more > 0 {
        because.truncate(SHOWN);
        because.push(Tree::leaf(format!("{more} more are required by others")));
    }
    because
}
