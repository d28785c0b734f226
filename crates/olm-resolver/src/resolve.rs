//! From a problem to a resolution.

use crate::explain::{self, Explanation, Failure};
use crate::installed::InstalledError;
use crate::problem::Problem;
use crate::solution::{self, Solution};
use crate::solver::{self, Component, Outcome, Selection, SolverError};
use crate::universe::{UNAVAILABLE_HINT, Universe};
use crate::variables::{self, Cause, Subject, Variables};

/// The answer for one namespace: what can be done, and what cannot and why.
///
/// Parts of a namespace that have nothing to do with each other are answered apart, so both lists may have content.
#[derive(Clone, Debug, Default)]
pub struct Resolution {
    /// What to install.
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
    #[error("found {found} operatorGroups, expected 1")]
    OperatorGroups {
        /// How many there are.
        found: usize,
    },
    /// The installed ClusterServiceVersions cannot be read.
    #[error("error using catalogsource {namespace}/@existing: {cause}")]
    Installed {
        /// The namespace.
        namespace: String,
        /// What is wrong, printed with this error.
        cause: InstalledError,
    },
    /// The engine behind the solver failed.
    #[error("resolve namespace {namespace}")]
    Solver {
        /// The namespace.
        namespace: String,
        /// What the engine says.
        #[source]
        source: SolverError,
    },
}

/// Resolves a namespace: the same answer for the same problem, in whatever order its parts are given.
///
/// # Errors
/// When the namespace as a whole cannot be resolved; what concerns only some Subscriptions is in
/// [`Resolution::failures`].
pub fn resolve(problem: &Problem) -> Result<Resolution, ResolveError> {
    if problem.operator_group.count != 1 {
        return Err(ResolveError::OperatorGroups {
            found: problem.operator_group.count,
        });
    }
    let namespace = || problem.namespace.clone();
    let universe = Universe::new(problem).map_err(|cause| ResolveError::Installed {
        namespace: namespace(),
        cause,
    })?;
    let variables = variables::build(problem, &universe);
    let mut resolution = Resolution {
        excluded: excluded(&universe, &variables),
        ..Resolution::default()
    };
    for component in variables.instance.components() {
        let outcome =
            solver::solve(&variables.instance, &component, |r| variables.rank(r)).map_err(|source| {
                ResolveError::Solver {
                    namespace: namespace(),
                    source,
                }
            })?;
        match outcome {
            Outcome::Selected(selection) => {
                match needs_unavailable_catalog(&universe, &variables, &component, &selection) {
                    None => {
                        solution::collect(
                            problem,
                            &universe,
                            &variables,
                            &selection,
                            &mut resolution.solution,
                        );
                    }
                    Some(explanation) => resolution.failures.push(explanation),
                }
            }
            Outcome::Unsatisfiable(core) => {
                let explanation = explain::explain(&universe, &variables, component.variables(), &core);
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

/// A selection made while a catalog could not be read holds only if that catalog could not have changed it: every
/// choice fell on its first candidate, and nothing of the missing catalog would have stood before it. Choices met by
/// what was already taken, and Subscriptions, which look at one catalog only, are certain otherwise.
fn needs_unavailable_catalog(
    universe: &Universe<'_>,
    variables: &Variables<'_>,
    component: &Component,
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
            component.variables(),
            Failure::Prevented {
                text,
                hints: vec![UNAVAILABLE_HINT.to_owned()],
            },
        )
    })
}

fn excluded(universe: &Universe<'_>, variables: &Variables<'_>) -> Vec<String> {
    let mut found: Vec<String> = variables.broken_channels.iter().cloned().collect();
    for (subject, cause) in variables.causes() {
        if let (Subject::Bundle(reference), Cause::Excluded(cause)) = (subject, cause) {
            found.push(format!(
                "bundle {} is left out: {cause}",
                universe.identifier(*reference)
            ));
        }
    }
    found.sort();
    found
}
