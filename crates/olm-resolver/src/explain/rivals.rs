//! Rival bundles, of which only one may be present, grouped by the requirers that want them.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::statement::{Draft, named};
use crate::bundle_id::BundleId;
use crate::enumeration::list;

/// Maximum comparisons with camps and their requirers in one tree. After them only the size of a group is
/// reported.
pub(super) const MAX_COMPARED: usize = 1_000_000;

/// Maximum camps shown one by one; the rest are counted.
const SHOWN_CAMPS: usize = 4;

/// Bundles with their requirers, and the groups of which only one member may be present.
#[derive(Default)]
pub(super) struct Rivals<'a> {
    /// Wanted bundles with their requirers.
    wanted_by: BTreeMap<&'a BundleId, BTreeSet<Rc<str>>>,
    groups: Vec<Rivalry<'a>>,
    /// Indexes of the groups, by member.
    groups_of: BTreeMap<&'a BundleId, Vec<usize>>,
    /// Number of camps and requirers compared so far.
    pub(super) compared: Cell<usize>,
}

impl<'a> Rivals<'a> {
    /// Records a requirer of bundles. All requirers must be recorded before the groups.
    pub(super) fn want(&mut self, candidates: &'a [BundleId], by: &str) {
        let by: Rc<str> = by.into();
        for candidate in candidates {
            self.wanted_by
                .entry(candidate)
                .or_default()
                .insert(Rc::clone(&by));
        }
    }

    /// Records bundles of which only one may be present, as all belong to `group`. The verbs say so of a member: of the bundle
    /// itself, and of the others.
    pub(super) fn add_group(&mut self, verbs: [&'static str; 2], group: String, members: &'a [BundleId]) {
        for member in members {
            self.groups_of.entry(member).or_default().push(self.groups.len());
        }
        let rivalry = Rivalry::new(verbs, group, members, &self.wanted_by);
        self.groups.push(rivalry);
    }

    /// Returns the rivals of a bundle in each of its groups.
    pub(super) fn of(&self, bundle: &'a BundleId) -> impl Iterator<Item = Draft<'a>> {
        let groups = self.groups_of.get(bundle).into_iter().flatten();
        groups.filter_map(move |&place| self.in_group(bundle, &self.groups[place]))
    }

    /// Returns the members of a group that other requirers want than those of the bundle. Alternatives of one
    /// choice are not rivals.
    fn in_group(&self, bundle: &'a BundleId, rivalry: &Rivalry<'a>) -> Option<Draft<'a>> {
        let Rivalry {
            verbs: [verb, as_well],
            group,
            size,
            camps,
            weight,
        } = rivalry;
        let compared = self.compared.get() + weight;
        if compared > MAX_COMPARED {
            let text = format!("{verb} {group}, of which only one may be installed; {size} are candidates");
            return Some(Draft::leaf(text));
        }
        self.compared.set(compared);
        let none = BTreeSet::new();
        let wanters = self.wanted_by.get(bundle);
        let own = wanters.unwrap_or(&none);
        let mut by_wanter: BTreeMap<Vec<&str>, Camp<'_>> = BTreeMap::new();
        for camp in camps {
            let theirs = camp.wanters.as_ref();
            let foreign: Vec<&str> = theirs.unwrap_or(&none).difference(own).map(|by| &**by).collect();
            // A bundle without requirers takes part because it is installed and must stay.
            if !foreign.is_empty() || theirs.is_none() {
                let without = Some(bundle).filter(|_| theirs.is_none() && wanters.is_none());
                by_wanter.entry(foreign).or_default().join(camp, without);
            }
        }
        by_wanter.retain(|_, camp| camp.count > 0);
        let mut rivals = Camp::default();
        for camp in by_wanter.values_mut() {
            camp.first.sort_by_key(|(place, _)| *place);
            rivals.join(camp, None);
        }
        let mut because: Vec<Draft<'a>> = by_wanter
            .iter()
            .filter(|(wanters, _)| !wanters.is_empty())
            .map(|(wanters, camp)| {
                let wanters = list(wanters.iter().copied());
                Draft::leaf(format!("required by {wanters}: {}", camp.together()))
            })
            .collect();
        let more = because.len().saturating_sub(SHOWN_CAMPS);
        if more > 0 {
            because.truncate(SHOWN_CAMPS);
            because.push(Draft::leaf(format!("{more} more are required by others")));
        }
        (rivals.count > 0).then(|| {
            let rivals = rivals.together();
            Draft::new(
                format!("{verb} {group}, as {as_well} {rivals}; only one may be installed"),
                because,
            )
        })
    }
}

/// A group of which only one member may be present.
struct Rivalry<'a> {
    verbs: [&'static str; 2],
    group: String,
    /// Number of members.
    size: usize,
    /// The members by requirers, so that a bundle is compared with few camps and not with every member.
    camps: Vec<Camp<'a>>,
    /// Number of camps, plus the requirers of each.
    weight: usize,
}

impl<'a> Rivalry<'a> {
    fn new(
        verbs: [&'static str; 2],
        group: String,
        members: &'a [BundleId],
        wanted_by: &BTreeMap<&'a BundleId, BTreeSet<Rc<str>>>,
    ) -> Self {
        let mut camps: BTreeMap<Option<&BTreeSet<Rc<str>>>, Camp<'a>> = BTreeMap::new();
        for (place, member) in members.iter().enumerate() {
            camps.entry(wanted_by.get(member)).or_default().add(place, member);
        }
        let weight = camps
            .keys()
            .map(|wanters| 1 + wanters.map_or(0, BTreeSet::len))
            .sum();
        let camps = camps.into_iter().map(|(wanters, camp)| Camp {
            wanters: wanters.cloned(),
            ..camp
        });
        Self {
            verbs,
            group,
            size: members.len(),
            camps: camps.collect(),
            weight,
        }
    }
}

/// Members of a group with the same requirers.
#[derive(Default)]
struct Camp<'a> {
    /// Their requirers; `None` for installed bundles that only must stay.
    wanters: Option<BTreeSet<Rc<str>>>,
    /// The first three members with their positions in the group: two for display, and a spare if the
    /// compared bundle is one of them.
    first: Vec<(usize, &'a BundleId)>,
    count: usize,
}

impl<'a> Camp<'a> {
    fn add(&mut self, place: usize, member: &'a BundleId) {
        self.count += 1;
        if self.first.len() < 3 {
            self.first.push((place, member));
        }
    }

    /// Adds the members of another camp, except for `without`.
    fn join(&mut self, other: &Camp<'a>, without: Option<&BundleId>) {
        self.count += other.count - usize::from(without.is_some());
        let first = other.first.iter().copied();
        self.first
            .extend(first.filter(|(_, member)| Some(*member) != without));
    }

    fn together(&self) -> String {
        let names: Vec<&BundleId> = self.first.iter().map(|(_, member)| *member).collect();
        named(&names, self.count)
    }
}
