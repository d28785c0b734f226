//! The walk over choices that turns preferences into a selection.
//!
//! A queue of choices starts with the mandatory variables. The front choice is settled if one of its
//! candidates has been taken before. Otherwise its first admissible candidate is taken, and that variable's
//! dependencies are appended to the queue. The meaning of "admissible" is the only difference between the two
//! passes:
//!
//! * counting: the candidate breaks no constraint *with the variables taken so far*. When the queue runs
//!   empty without a dead end, the taken variables are themselves a model. So every candidate taken was
//!   consistent with the whole, and every one passed over was not: the exact answer without a single SAT
//!   call;
//! * oracle: *some* model holds everything taken and the candidate. A complete oracle needs no backtracking.

use std::collections::{BTreeMap, HashSet, VecDeque};

use varisat::Lit;

use super::core::Encoding;
use super::sat::{Answer, Varisat};
use super::{Constraint, Instance, SolverError, VariableId};

/// The selection of a component, in the order it was taken, and the walk that led there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// Every settled choice, in order.
    pub steps: Vec<Step>,
}

impl Selection {
    /// Returns the selected variables in the order they were taken.
    pub fn selected(&self) -> impl Iterator<Item = VariableId> {
        self.steps
            .iter()
            .filter(|step| step.newly_taken)
            .map(|step| step.taken)
    }
}

/// One settled choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The settled dependency, as variable and index of the constraint; `None` for a mandatory variable.
    pub origin: Option<(VariableId, usize)>,
    /// The candidate that settles it.
    pub taken: VariableId,
    /// Its place among the candidates, 0 being the most preferred.
    pub place: usize,
    /// False if an earlier choice had taken it already.
    pub newly_taken: bool,
}

/// Runs the first pass. `None` if it meets a dead end, which does not mean that nothing fits.
pub(super) fn without_backtracking(instance: &Instance, component: &[VariableId]) -> Option<Selection> {
    let mut counters = Counters::new(instance, component);
    walk(instance, component, |candidate| Ok(counters.take(candidate)))
        .ok()
        .flatten()
}

/// Runs the second pass. `None` if nothing fits.
pub(super) fn with_oracle(
    instance: &Instance,
    component: &[VariableId],
    sat: Varisat,
) -> Result<Option<Selection>, SolverError> {
    let mut encoding = Encoding::new(sat, component);
    for (reference, constraint) in instance.refs(component) {
        encoding.add(reference.variable, constraint, &[]);
    }
    let Answer::Satisfiable(model) = encoding.sat.solve(&[])? else {
        return Ok(None);
    };
    let mut oracle = Oracle { encoding, model };
    walk(instance, component, |candidate| oracle.take(candidate))
}

struct Choice<'a> {
    origin: Option<(VariableId, usize)>,
    candidates: &'a [VariableId],
}

/// Walks over the choices. `take` commits to a candidate if it is admissible. `None` when a choice has no
/// admissible candidate.
fn walk(
    instance: &Instance,
    component: &[VariableId],
    mut take: impl FnMut(VariableId) -> Result<bool, SolverError>,
) -> Result<Option<Selection>, SolverError> {
    let mut taken = vec![false; instance.len()];
    let mut steps = Vec::new();
    let mut queue: VecDeque<Choice<'_>> = component
        .iter()
        .filter(|&&v| instance.is_anchor(v))
        .map(|v| Choice {
            origin: None,
            candidates: std::slice::from_ref(v),
        })
        .collect();
    while let Some(Choice { origin, candidates }) = queue.pop_front() {
        if let Some(place) = candidates.iter().position(|c| taken[c.0]) {
            steps.push(Step {
                origin,
                taken: candidates[place],
                place,
                newly_taken: false,
            });
            continue;
        }
        let mut settled = None;
        for (place, &candidate) in candidates.iter().enumerate() {
            if take(candidate)? {
                settled = Some((place, candidate));
                break;
            }
        }
        let Some((place, candidate)) = settled else {
            return Ok(None);
        };
        taken[candidate.0] = true;
        steps.push(Step {
            origin,
            taken: candidate,
            place,
            newly_taken: true,
        });
        for (index, constraint) in instance.constraints(candidate).iter().enumerate() {
            if let Constraint::Dependency(candidates) = constraint {
                queue.push_back(Choice {
                    origin: Some((candidate, index)),
                    candidates,
                });
            }
        }
    }
    Ok(Some(Selection { steps }))
}

/// State of the counting pass.
struct Counters {
    /// Variables that are false in every model, by prohibition or by a dependency that cannot be met.
    dead: Vec<bool>,
    /// Variables that conflict with one taken.
    blocked: Vec<bool>,
    conflicts: BTreeMap<VariableId, Vec<VariableId>>,
    /// For each variable, the groups it is a member of, once per listing.
    groups: BTreeMap<VariableId, Vec<usize>>,
    /// For each group, whether a member is taken.
    filled: Vec<bool>,
}

impl Counters {
    fn new(instance: &Instance, component: &[VariableId]) -> Self {
        let mut counters = Counters {
            dead: dead_variables(instance, component),
            blocked: vec![false; instance.len()],
            conflicts: BTreeMap::new(),
            groups: BTreeMap::new(),
            filled: Vec::new(),
        };
        for (reference, constraint) in instance.refs(component) {
            match constraint {
                Constraint::Conflict(other) => {
                    counters
                        .conflicts
                        .entry(reference.variable)
                        .or_default()
                        .push(*other);
                    counters
                        .conflicts
                        .entry(*other)
                        .or_default()
                        .push(reference.variable);
                }
                Constraint::AtMostOne(members) => {
                    for member in members {
                        counters
                            .groups
                            .entry(*member)
                            .or_default()
                            .push(counters.filled.len());
                    }
                    counters.filled.push(false);
                }
                Constraint::Mandatory | Constraint::Prohibited | Constraint::Dependency(_) => {}
            }
        }
        counters
    }

    fn take(&mut self, candidate: VariableId) -> bool {
        let conflicts = self.conflicts.get(&candidate).map_or(&[][..], Vec::as_slice);
        if self.dead[candidate.0] || self.blocked[candidate.0] || conflicts.contains(&candidate) {
            return false;
        }
        let groups = self.groups.get(&candidate).map_or(&[][..], Vec::as_slice);
        // A group may be listed more than once, so groups are filled one by one and emptied on failure.
        for (done, &group) in groups.iter().enumerate() {
            if std::mem::replace(&mut self.filled[group], true) {
                groups[..done].iter().for_each(|&g| self.filled[g] = false);
                return false;
            }
        }
        conflicts.iter().for_each(|other| self.blocked[other.0] = true);
        true
    }
}

/// Returns the variables that no model selects, by prohibitions and unmet dependencies alone.
fn dead_variables(instance: &Instance, component: &[VariableId]) -> Vec<bool> {
    let mut dead = vec![false; instance.len()];
    let mut alive_candidates: BTreeMap<(VariableId, usize), usize> = BTreeMap::new();
    let mut dependents: BTreeMap<VariableId, Vec<(VariableId, usize)>> = BTreeMap::new();
    let mut dying = Vec::new();
    for (reference, constraint) in instance.refs(component) {
        match constraint {
            Constraint::Prohibited => dying.push(reference.variable),
            Constraint::Dependency(candidates) if candidates.is_empty() => dying.push(reference.variable),
            Constraint::Dependency(candidates) => {
                let key = (reference.variable, reference.constraint);
                alive_candidates.insert(key, candidates.len());
                candidates
                    .iter()
                    .for_each(|c| dependents.entry(*c).or_default().push(key));
            }
            Constraint::Mandatory | Constraint::Conflict(_) | Constraint::AtMostOne(_) => {}
        }
    }
    while let Some(variable) = dying.pop() {
        if std::mem::replace(&mut dead[variable.0], true) {
            continue;
        }
        for key in dependents.remove(&variable).unwrap_or_default() {
            if let Some(alive) = alive_candidates.get_mut(&key) {
                *alive -= 1;
                if *alive == 0 {
                    dying.push(key.0);
                }
            }
        }
    }
    dead
}

/// State of the oracle pass: the model always holds everything taken.
struct Oracle {
    encoding: Encoding,
    /// The variables that are true in the model.
    model: HashSet<Lit>,
}

impl Oracle {
    fn take(&mut self, candidate: VariableId) -> Result<bool, SolverError> {
        let literal = self.encoding.literal(candidate);
        if !self.model.contains(&literal) {
            match self.encoding.sat.solve(&[literal])? {
                Answer::Satisfiable(model) => self.model = model,
                Answer::Unsatisfiable(_) => return Ok(false),
            }
        }
        self.encoding.sat.clause(&[literal]);
        Ok(true)
    }
}
