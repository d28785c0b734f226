//! The problem as variables and constraints (`docs/reference/resolution.md`).

mod guards;
mod subscriptions;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

pub(crate) use self::subscriptions::is_upgrade;
use crate::cel::TooCostly;
use crate::hold::{Hold, Objection};
use crate::predicate::Predicate;
use crate::problem::{Problem, Subscription};
use crate::solver::{Constraint, ConstraintRef, Instance, SolverError, VariableId};
use crate::universe::{EntryRef, Universe};
use olm_fbc::property::Gvk;

/// Maximum candidates of all requirements of a namespace together, in eight bytes each. The largest known
/// catalog has a few thousand. A malicious one could have all bundles as candidates of each requirement of
/// each bundle.
pub const MAX_CANDIDATES: usize = 4_000_000;

/// The meaning of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Subject<'a> {
    Subscription(&'a Subscription),
    Bundle(EntryRef),
    /// Holder of the rule that an API has one provider.
    Api(Gvk),
    /// Holder of the rule that a package is present once.
    Package(Arc<str>),
}

/// The missing object of a Subscription that cannot be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lack {
    /// Its catalog cannot be read.
    ReadableCatalog,
    /// The catalog does not exist, or is empty.
    Catalog,
    /// The package is not in the catalog.
    Package,
    /// The channel is not in the package.
    Channel,
    /// The channel has no order.
    ChannelOrder,
    /// The channel has no entry named `startingCSV`.
    StartingCsv,
}

impl Lack {
    /// Returns whether it lies outside the Subscription and its catalog's offer, so that a retry may help.
    pub(crate) fn is_outside(self) -> bool {
        matches!(self, Lack::ReadableCatalog | Lack::ChannelOrder)
    }
}

/// A Subscription has no candidates at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Invalid {
    /// The whole text.
    pub(crate) reason: String,
    pub(crate) lack: Lack,
}

/// Origin of a constraint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    SubscriptionExists,
    SubscriptionRequires,
    SubscriptionInvalid(Invalid),
    NotReferenced,
    Deprecated,
    RuntimeConstraint(String),
    Excluded(String),
    /// A Subscription holds its package.
    Held(Objection),
    Requires(Arc<Predicate>),
    Replaces,
    Guard,
}

/// The constraints of a namespace and their meaning.
#[derive(Default)]
pub(crate) struct Variables<'a> {
    pub(crate) instance: Instance,
    pub(crate) subjects: Vec<Subject<'a>>,
    causes: Vec<Vec<Cause>>,
    /// For an upgrade candidate, the installed entry it would replace.
    pub(crate) upgrades: BTreeMap<EntryRef, EntryRef>,
    /// Channels without an order that would otherwise have been considered.
    pub(crate) broken_channels: BTreeSet<String>,
}

impl<'a> Variables<'a> {
    pub(crate) fn subject(&self, variable: VariableId) -> &Subject<'a> {
        &self.subjects[variable.0]
    }

    pub(crate) fn cause(&self, reference: ConstraintRef) -> &Cause {
        &self.causes[reference.variable.0][reference.constraint]
    }

    pub(crate) fn constraint(&self, reference: ConstraintRef) -> &Constraint {
        &self.instance.constraints(reference.variable)[reference.constraint]
    }

    /// Returns every constraint's cause with the subject that carries it.
    pub(crate) fn causes(&self) -> impl Iterator<Item = (&Subject<'a>, &Cause)> {
        self.subjects
            .iter()
            .zip(&self.causes)
            .flat_map(|(subject, causes)| causes.iter().map(move |c| (subject, c)))
    }

    /// Returns whether there are candidates for replacing the Subscription's installed operator.
    pub(crate) fn offers_upgrade(&self, subscription: VariableId) -> bool {
        let constraints = self.instance.constraints(subscription).iter();
        let mut candidates = constraints.flat_map(Constraint::named);
        candidates.any(|&candidate| {
            matches!(self.subject(candidate), Subject::Bundle(entry) if self.upgrades.contains_key(entry))
        })
    }

    /// Returns the weight of a constraint in an explanation; the lowest is dropped first.
    pub(crate) fn rank(&self, reference: ConstraintRef) -> u8 {
        match (self.cause(reference), self.subject(reference.variable)) {
            (Cause::Replaces, _) => 0,
            (Cause::Guard, Subject::Package(_)) => 1,
            (Cause::Deprecated | Cause::RuntimeConstraint(_) | Cause::Excluded(_) | Cause::Held(_), _) => 2,
            (Cause::Requires(_), _) => 3,
            (Cause::Guard, _) => 4,
            (
                Cause::SubscriptionExists
                | Cause::SubscriptionRequires
                | Cause::SubscriptionInvalid(_)
                | Cause::NotReferenced,
                _,
            ) => 5,
        }
    }
}

/// Builds the constraints reachable from Subscriptions and installed operators.
///
/// Variables have a fixed order, which decides ties: Subscriptions by name, then installed operators, then
/// bundles as they are found, then guards. Subscriptions come first, so that an installed operator's
/// requirement cannot prevent its provider's upgrade: such a requirement prefers an installed provider.
///
/// # Errors
/// There are more than [`MAX_CANDIDATES`], or the limit on work is exceeded.
pub(crate) fn build<'a>(problem: &'a Problem, universe: &Universe<'_>) -> Result<Variables<'a>, SolverError> {
    let mut subscriptions: Vec<&Subscription> = problem.subscriptions.iter().collect();
    subscriptions.sort_by(|a, b| a.name.cmp(&b.name));
    let mut builder = Builder {
        problem,
        universe,
        variables: Variables::default(),
        holds: holds(&problem.namespace, &subscriptions),
        bundles: BTreeMap::new(),
        unexplored: VecDeque::new(),
        candidates: BTreeMap::new(),
        left: MAX_CANDIDATES,
    };
    let holders: Vec<VariableId> = subscriptions
        .iter()
        .map(|s| builder.add(Subject::Subscription(s)))
        .collect();
    builder.add_installed();
    for (subscription, holder) in subscriptions.into_iter().zip(holders) {
        universe.work.check()?;
        builder.add_subscription(holder, subscription);
    }
    builder.explore()?;
    builder.add_replacements();
    builder.add_guards();
    Ok(builder.variables)
}

/// Returns the holds of the Subscriptions by package, in the order of the Subscriptions.
fn holds<'a>(namespace: &str, subscriptions: &[&'a Subscription]) -> BTreeMap<&'a str, Vec<Hold<'a>>> {
    let mut by_package: BTreeMap<&str, Vec<Hold<'_>>> = BTreeMap::new();
    let subscriptions = subscriptions.iter().copied();
    for hold in subscriptions.filter_map(|subscription| Hold::of(namespace, subscription)) {
        by_package.entry(hold.package).or_default().push(hold);
    }
    by_package
}

/// The catalog of a requirer (none for installed ones), and its requirement.
type Asked = (Option<usize>, Arc<Predicate>);

struct Builder<'a, 'u> {
    problem: &'a Problem,
    universe: &'u Universe<'u>,
    variables: Variables<'a>,
    /// Holds by package.
    holds: BTreeMap<&'a str, Vec<Hold<'a>>>,
    bundles: BTreeMap<EntryRef, VariableId>,
    /// Bundles whose requirements have not been followed yet.
    unexplored: VecDeque<EntryRef>,
    /// Cached candidates of requirements.
    candidates: BTreeMap<Asked, Result<Vec<EntryRef>, TooCostly>>,
    /// Number of candidates that requirements may still have.
    left: usize,
}

impl<'a> Builder<'a, '_> {
    fn add(&mut self, subject: Subject<'a>) -> VariableId {
        self.universe.work.add(1);
        self.variables.subjects.push(subject);
        self.variables.causes.push(Vec::new());
        self.variables.instance.add_variable()
    }

    fn constrain(&mut self, holder: VariableId, constraint: Constraint, cause: Cause) {
        self.universe.work.add(constraint.size());
        self.variables.instance.constrain(holder, constraint);
        self.variables.causes[holder.0].push(cause);
    }

    /// Returns the variable of a bundle, created on first use.
    fn bundle(&mut self, reference: EntryRef) -> VariableId {
        if let Some(&variable) = self.bundles.get(&reference) {
            return variable;
        }
        let variable = self.add(Subject::Bundle(reference));
        self.bundles.insert(reference, variable);
        self.unexplored.push_back(reference);
        variable
    }

    /// Adds the installed operators. Without a Subscription that owns it, an operator must stay.
    fn add_installed(&mut self) {
        let installed: Vec<(EntryRef, String)> = self
            .universe
            .installed()
            .map(|(reference, entry)| (reference, entry.name.to_string()))
            .collect();
        let owned: BTreeSet<&str> = self
            .problem
            .subscriptions
            .iter()
            .map(|s| s.installed_csv.as_str())
            .collect();
        for (reference, name) in installed {
            let variable = self.bundle(reference);
            if !owned.contains(name.as_str()) {
                self.constrain(variable, Constraint::Mandatory, Cause::NotReferenced);
            }
        }
    }

    fn explore(&mut self) -> Result<(), SolverError> {
        while let Some(reference) = self.unexplored.pop_front() {
            self.universe.work.check()?;
            let variable = self.bundles[&reference];
            let universe = self.universe;
            let entry = universe.entry(reference);
            if entry.is_deprecated() {
                self.constrain(variable, Constraint::Prohibited, Cause::Deprecated);
            }
            if matches!(reference, EntryRef::Catalog { .. }) {
                for constraint in self
                    .problem
                    .runtime_constraints
                    .iter()
                    .filter(|c| !entry.meets(&c.predicate))
                {
                    let cause = Cause::RuntimeConstraint(constraint.message.clone());
                    self.constrain(variable, Constraint::Prohibited, cause);
                }
                let mut holds = self.holds.get(&*entry.package).into_iter().flatten();
                // One objection is enough to rule the bundle out, with its reason.
                let objection = holds.find_map(|hold| hold.objection(entry));
                if let Some(objection) = objection {
                    self.constrain(variable, Constraint::Prohibited, Cause::Held(objection));
                }
            }
            match entry.requirements() {
                Ok(requirements) => {
                    for requirement in requirements {
                        self.require(reference, variable, requirement)?;
                    }
                }
                Err(error) => {
                    let cause = Cause::Excluded(error.to_string());
                    self.constrain(variable, Constraint::Prohibited, cause);
                }
            }
        }
        Ok(())
    }

    fn require(
        &mut self,
        holder: EntryRef,
        variable: VariableId,
        requirement: &Arc<Predicate>,
    ) -> Result<(), SolverError> {
        let catalog = match holder {
            EntryRef::Installed(_) => None,
            EntryRef::Catalog { catalog, .. } => Some(catalog),
        };
        let key = (catalog, Arc::clone(requirement));
        if !self.candidates.contains_key(&key) {
            let found = self.universe.candidates(holder, requirement);
            let broken = self
                .universe
                .broken_channels(requirement)
                .map(ToString::to_string);
            self.variables.broken_channels.extend(broken);
            self.candidates.insert(key.clone(), found);
        }
        let found = match self.candidates[&key].clone() {
            Ok(found) => found,
            Err(error) => {
                let cause = Cause::Excluded(error.to_string());
                self.constrain(variable, Constraint::Prohibited, cause);
                return Ok(());
            }
        };
        self.left = self.left.checked_sub(found.len()).ok_or_else(|| {
            SolverError(format!(
                "the reachable bundles have more than {MAX_CANDIDATES} candidates for their requirements, so the search did not start"
            ))
        })?;
        let candidates = found
            .into_iter()
            .map(|candidate| self.bundle(candidate))
            .collect();
        self.constrain(
            variable,
            Constraint::Dependency(candidates),
            Cause::Requires(Arc::clone(requirement)),
        );
        Ok(())
    }

    /// Adds a conflict between each upgrade and the operator it replaces.
    fn add_replacements(&mut self) {
        let upgrades: Vec<(EntryRef, EntryRef)> =
            self.variables.upgrades.iter().map(|(a, b)| (*a, *b)).collect();
        for (upgrade, installed) in upgrades {
            let (upgrade, installed) = (self.bundles[&upgrade], self.bundles[&installed]);
            self.constrain(upgrade, Constraint::Conflict(installed), Cause::Replaces);
        }
    }
}
