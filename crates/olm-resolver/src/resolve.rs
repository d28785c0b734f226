//! Resolves a problem.

use std::collections::{BTreeMap, BTreeSet};

use crate::explain::{self, Explanation, Failure};
use crate::installed::{InstalledError, Readings};
use crate::problem::{InstalledCsv, Problem, Subscription};
use crate::solution::{self, Lookup, Solution};
use crate::solver::{self, Outcome, Selection, SolverError, VariableId};
use crate::universe::{EntryRef, UNAVAILABLE_HINT, Universe};
use crate::variables::{self, Cause, Subject, Variables};
use crate::work::Work;

/// The result for one namespace: its changes, and its failures with reasons.
///
/// Independent parts of a namespace are resolved separately, so both lists may have content.
#[derive(Clone, Debug, Default)]
pub struct Resolution {
    /// The bundles to install.
    pub solution: Solution,
    /// One explanation for each part that fails, by the first Subscription or installed operator concerned.
    pub failures: Vec<Explanation>,
    /// Malformed bundles and channels that were left out of the choice, each with the reason.
    pub excluded: Vec<String>,
}

/// Nothing in the namespace can be resolved at all.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// Resolution needs exactly one OperatorGroup.
    #[error("found {found} operatorGroups, expected 1: {way_out}")]
    OperatorGroups {
        /// Number of OperatorGroups.
        found: usize,
        /// The way out, with their names if known.
        way_out: String,
    },
    /// The installed ClusterServiceVersions cannot be read.
    #[error(
        "error using catalogsource {namespace}/@existing: {cause}\n{}",
        .cause.way_out
    )]
    Installed {
        /// The namespace.
        namespace: String,
        /// The fault, printed with this error.
        cause: InstalledError,
    },
    /// The engine behind the solver failed.
    #[error("resolve namespace {namespace}")]
    Solver {
        /// The namespace.
        namespace: String,
        /// The engine's error.
        #[source]
        source: SolverError,
    },
}

/// Connected Subscriptions and installed operators, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) subscriptions: BTreeSet<String>,
    pub(crate) installed: BTreeSet<String>,
    /// Subscriptions with an installed operator for which there is an upgrade.
    pub(crate) offered: BTreeSet<String>,
}

impl Part {
    /// Returns the part with these variables.
    pub(crate) fn of(universe: &Universe<'_>, variables: &Variables<'_>, members: &[VariableId]) -> Self {
        let mut part = Part::default();
        for &member in members {
            match variables.subject(member) {
                Subject::Subscription(subscription) => {
                    part.subscriptions.insert(subscription.name.clone());
                    if variables.offers_upgrade(member) {
                        part.offered.insert(subscription.name.clone());
                    }
                }
                Subject::Bundle(reference @ EntryRef::Installed(_)) => {
                    part.installed.insert(universe.entry(*reference).name.to_string());
                }
                _ => {}
            }
        }
        part
    }

    /// Returns the problem of this part alone.
    pub(crate) fn limit(&self, problem: &Problem, by_name: &ByName<'_>) -> Problem {
        let subscriptions = self.subscriptions.iter();
        let installed = self.installed.iter();
        problem.limited(
            subscriptions.filter_map(|name| by_name.subscriptions.get(name.as_str()).copied()),
            installed.filter_map(|name| by_name.installed.get(name.as_str()).copied()),
        )
    }
}

/// Subscriptions and installed operators by name.
pub(crate) struct ByName<'a> {
    pub(crate) subscriptions: BTreeMap<&'a str, &'a Subscription>,
    pub(crate) installed: BTreeMap<&'a str, &'a InstalledCsv>,
}

impl<'a> ByName<'a> {
    pub(crate) fn new(problem: &'a Problem) -> Self {
        let Problem {
            subscriptions,
            installed,
            ..
        } = problem;
        Self {
            subscriptions: subscriptions.iter().map(|s| (s.name.as_str(), s)).collect(),
            installed: installed.iter().map(|csv| (csv.name.as_str(), csv)).collect(),
        }
    }
}

/// Returns the parts of a namespace, without resolving them. `None` if the namespace cannot be read as a
/// whole.
pub(crate) fn parts(problem: &Problem) -> Option<Vec<Part>> {
    let (readings, work) = (Readings::default(), Work::default());
    let universe = Universe::new(problem, &readings, &work).ok()?;
    let variables = variables::build(problem, &universe).ok()?;
    let components = variables.instance.components();
    Some(
        components
            .iter()
            .map(|component| Part::of(&universe, &variables, component))
            .collect(),
    )
}

/// Returns the names of the Subscriptions and installed operators that cannot be resolved, without the
/// reasons.
///
/// # Errors
/// See [`resolve()`].
pub(crate) fn failing(
    problem: &Problem,
    readings: &Readings,
    work: &Work,
) -> Result<BTreeSet<String>, ResolveError> {
    let universe = readable(problem, readings, work)?;
    let variables = variables::build(problem, &universe).map_err(|source| solver_error(problem, source))?;
    let mut failing = BTreeSet::new();
    for component in variables.instance.components() {
        let selection = solver::select(&variables.instance, &component, work);
        let selection = selection.map_err(|source| solver_error(problem, source))?;
        let fails = selection.is_none_or(|selection| {
            needs_unavailable_catalog(&universe, &variables, &component, &selection).is_some()
        });
        if fails {
            let part = Part::of(&universe, &variables, &component);
            failing.extend(part.subscriptions);
            failing.extend(part.installed);
        }
    }
    Ok(failing)
}

fn solver_error(problem: &Problem, source: SolverError) -> ResolveError {
    ResolveError::Solver {
        namespace: problem.namespace.clone(),
        source,
    }
}

fn readable<'p>(
    problem: &'p Problem,
    readings: &Readings,
    work: &'p Work,
) -> Result<Universe<'p>, ResolveError> {
    let group = &problem.operator_group;
    if group.count != 1 {
        return Err(ResolveError::OperatorGroups {
            found: group.count,
            way_out: match group.names.as_slice() {
                [] if group.count == 0 => {
                    format!("create an OperatorGroup in namespace {}", problem.namespace)
                }
                [] => format!("keep one of them in namespace {}", problem.namespace),
                names => format!(
                    "keep one of {} in namespace {}",
                    names.join(", "),
                    problem.namespace
                ),
            },
        });
    }
    Universe::new(problem, readings, work).map_err(|cause| ResolveError::Installed {
        namespace: problem.namespace.clone(),
        cause,
    })
}

/// Resolves a namespace. The result does not depend on the order of the problem's parts.
///
/// # Errors
/// The namespace as a whole cannot be resolved. Failures of single Subscriptions are in
/// [`Resolution::failures`].
pub fn resolve(problem: &Problem) -> Result<Resolution, ResolveError> {
    resolve_within(problem, &Readings::default(), &Work::default())
}

/// Same as [`resolve()`], with annotations that are parsed already and a limit on work.
pub(crate) fn resolve_within(
    problem: &Problem,
    readings: &Readings,
    work: &Work,
) -> Result<Resolution, ResolveError> {
    let universe = &readable(problem, readings, work)?;
    let variables = variables::build(problem, universe).map_err(|source| solver_error(problem, source))?;
    let lookup = Lookup::new(problem);
    let mut resolution = Resolution {
        excluded: excluded(universe, &variables),
        ..Resolution::default()
    };
    for component in variables.instance.components() {
        let outcome = solver::solve(&variables.instance, &component, work, |r| variables.rank(r))
            .map_err(|source| solver_error(problem, source))?;
        match outcome {
            Outcome::Selected(selection) => {
                match needs_unavailable_catalog(universe, &variables, &component, &selection) {
                    None => {
                        solution::collect(
                            &lookup,
                            universe,
                            &variables,
                            &selection,
                            &mut resolution.solution,
                        );
                    }
                    Some(explanation) => resolution.failures.push(explanation),
                }
            }
            Outcome::Unsatisfiable(core) => {
                let explanation = explain::explain(universe, &variables, &component, &core);
                resolution.failures.push(explanation);
            }
        }
    }
    resolution.solution.sort();
    resolution
        .failures
        .sort_by(|a, b| (&a.subscriptions, &a.installed).cmp(&(&b.subscriptions, &b.installed)));
    Ok(resolution)
}

/// Returns a failure if an unavailable catalog could have changed the selection. A choice is certain if it
/// was met by a bundle already taken, or if it took its first candidate and no bundle of that catalog would
/// precede it. A Subscription reads one catalog only, so its first candidate is certain.
fn needs_unavailable_catalog(
    universe: &Universe<'_>,
    variables: &Variables<'_>,
    component: &[VariableId],
    selection: &Selection,
) -> Option<Explanation> {
    let text = universe.all_unavailable()?;
    let is_uncertain = selection
        .steps
        .iter()
        .filter(|step| step.newly_taken)
        .any(|step| {
            let Some((holder, _)) = step.origin else {
                return false;
            };
            match (variables.subject(holder), variables.subject(step.taken)) {
                (Subject::Bundle(holder), Subject::Bundle(taken)) => {
                    step.place > 0 || universe.may_be_outdone(*holder, *taken)
                }
                _ => step.place > 0,
            }
        });
    is_uncertain.then(|| {
        explain::concerning(
            universe,
            variables,
            component,
            Failure::Prevented {
                text,
                hint: UNAVAILABLE_HINT,
            },
        )
    })
}

fn excluded(universe: &Universe<'_>, variables: &Variables<'_>) -> Vec<String> {
    let mut found: Vec<String> = variables.broken_channels.iter().cloned().collect();
    for (subject, cause) in variables.causes() {
        if let (Subject::Bundle(reference), Cause::Excluded(cause)) = (subject, cause) {
            found.push(format!(
                "bundle {} is excluded: {cause}",
                universe.identifier(*reference)
            ));
        }
    }
    found.sort();
    found
}
