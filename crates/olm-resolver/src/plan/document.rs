//! A plan as JSON. `docs/reference/plan.schema.json` is made of these types.

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::{CHANNEL, Edit, HeldBack, Install, Plan, STARTING_CSV, Step, Unsatisfiable};
use crate::advice::{Change, Fix, Harm};
use crate::explain::Tree;

/// What OLM will do in a namespace, step by step, as `opm plan -o json` and `kubectl operator plan -o json` print it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(title = "Plan")]
pub struct Document {
    /// The namespace.
    namespace: String,
    /// Everything that is installed, in order over all steps.
    install: Vec<InstallRow>,
    /// What cannot be resolved, one entry for each part of the namespace.
    unsatisfiable: Vec<UnsatisfiableRow>,
    /// What is done round by round.
    steps: Vec<StepRow>,
    /// Whether more steps follow than were asked for.
    more_steps: bool,
    /// Subscriptions that keep what they have although their channel goes on. That is no failure.
    held_back: Vec<HeldBackRow>,
    /// Ways to resolve what cannot be resolved, those of one part together, the gentlest first.
    fixes: Vec<FixRow>,
    /// Malformed bundles and channels that were left out of the choice, with the reason.
    excluded: Vec<String>,
    /// What else is to be known: deprecations, InstallPlans that wait, what OLM will not install and what the
    /// cluster will not run.
    notes: Vec<String>,
}

/// One bundle that will be installed.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct InstallRow {
    /// Name of the ClusterServiceVersion.
    name: String,
    /// Its package.
    package: String,
    /// Channel it is taken from.
    channel: String,
    /// Catalog it is taken from, as `namespace/name`.
    catalog: String,
    /// Its version; empty if it states none.
    version: String,
    /// The ClusterServiceVersion it takes the place of; empty if nothing like it is installed.
    replaces: String,
    /// Subscriptions it is for, separated by commas; the generated one for a dependency.
    for_subscription: String,
    /// Operators whose requirements brought it in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    required_by: Vec<String>,
}

/// One round of resolution.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct StepRow {
    /// Its number, from 1.
    step: usize,
    /// Changes of Subscriptions that a person has to make before it.
    change: Vec<EditRow>,
    /// What is installed in it.
    install: Vec<InstallRow>,
    /// Subscriptions because of which its InstallPlan has to be approved; empty if nobody has to.
    approvals: Vec<String>,
}

/// A change of a Subscription.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct EditRow {
    /// The Subscription.
    subscription: String,
    /// Whether it has to be created anew.
    recreate: bool,
    /// The new channel, if that changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    channel: Option<String>,
    /// The first version to install, if that changes.
    #[serde(rename = "startingCSV", default, skip_serializing_if = "Option::is_none")]
    starting_csv: Option<String>,
    /// What to do, in words.
    text: String,
}

/// A part of the namespace that cannot be resolved.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct UnsatisfiableRow {
    /// Subscriptions of the part.
    subscriptions: Vec<String>,
    /// Upstream's message, whole.
    message: String,
    /// The same in fewer than 300 characters.
    summary: String,
    /// The reasons.
    tree: Vec<Tree>,
    /// Whether some single change resolves it; `fixes` has pairs otherwise, or nothing.
    single_change_helps: bool,
    /// How many fixes were found beyond those listed.
    more_fixes: usize,
    /// How many possible changes were not tried, as that would have taken too long.
    untried_changes: usize,
}

/// A Subscription that keeps what it has.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct HeldBackRow {
    /// The Subscription.
    subscription: String,
    /// What it has.
    installed: String,
    /// That it stays, in one line.
    message: String,
    /// The reasons.
    tree: Vec<Tree>,
}

/// One way to resolve a part, tried by the resolver.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct FixRow {
    /// Subscriptions of the part, as in `unsatisfiable`.
    subscriptions: Vec<String>,
    /// What it does to what runs: `none`, `running` (something running is treated otherwise) or `destroys`.
    harm: Harm,
    /// ClusterServiceVersions that it removes.
    destroys: Vec<String>,
    /// What to do, in words.
    text: String,
    /// The changes to make, all of them.
    changes: Vec<ChangeRow>,
}

/// One change of the objects.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ChangeRow {
    /// What kind of change it is.
    kind: ChangeKind,
    /// The Subscription it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    subscription: Option<String>,
    /// The ClusterServiceVersion it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    csv: Option<String>,
    /// What is there now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    /// What works; a catalog as `namespace/name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    /// What to do, in words.
    text: String,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
enum ChangeKind {
    /// Approve the waiting InstallPlan.
    Approve,
    /// Set `spec.name` of the Subscription.
    Package,
    /// Set `spec.channel` of the Subscription.
    Channel,
    /// Set `spec.source` and `spec.sourceNamespace` of the Subscription.
    Catalog,
    /// Create the Subscription anew without `spec.startingCSV`.
    AnyStart,
    /// Let the OperatorGroup fail forward.
    FailForward,
    /// Delete the Subscription and keep what it installed.
    Unsubscribe,
    /// Delete the Subscription, and what it installed if there is any.
    RemoveSubscription,
    /// Delete the ClusterServiceVersion.
    RemoveCsv,
}

impl Serialize for Plan {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Document::from(self).serialize(serializer)
    }
}

impl From<&Plan> for Document {
    fn from(plan: &Plan) -> Self {
        let steps = plan.steps.iter().enumerate();
        Document {
            namespace: plan.namespace.clone(),
            install: plan
                .install()
                .map(|install| InstallRow::new(install, false))
                .collect(),
            unsatisfiable: plan.unsatisfiable.iter().map(UnsatisfiableRow::from).collect(),
            steps: steps.map(|(place, step)| StepRow::new(place + 1, step)).collect(),
            more_steps: plan.more_steps,
            held_back: plan.held_back.iter().map(HeldBackRow::from).collect(),
            fixes: plan
                .unsatisfiable
                .iter()
                .flat_map(|part| fixes(plan, part))
                .collect(),
            excluded: plan.excluded.clone(),
            notes: plan.notes.clone(),
        }
    }
}

fn fixes<'p>(plan: &'p Plan, part: &'p Unsatisfiable) -> impl Iterator<Item = FixRow> + use<'p> {
    part.advice.fixes.iter().map(|fix| FixRow::new(plan, part, fix))
}

impl InstallRow {
    fn new(install: &Install, with_reasons: bool) -> Self {
        let install = install.clone();
        InstallRow {
            name: install.name,
            package: install.package,
            channel: install.channel,
            catalog: install.catalog.to_string(),
            version: install.version,
            replaces: install.replaces,
            for_subscription: install.for_subscription,
            required_by: if with_reasons {
                install.required_by
            } else {
                Vec::new()
            },
        }
    }
}

impl StepRow {
    fn new(number: usize, step: &Step) -> Self {
        StepRow {
            step: number,
            change: step.changes.iter().map(EditRow::from).collect(),
            install: step
                .install
                .iter()
                .map(|install| InstallRow::new(install, true))
                .collect(),
            approvals: step.approvals.clone(),
        }
    }
}

impl From<&Edit> for EditRow {
    fn from(edit: &Edit) -> Self {
        let becomes = |wanted: &str| {
            let mut fields = edit.fields.iter();
            let field = fields.find(|(field, ..)| *field == wanted);
            field.map(|(_, _, to)| to.clone())
        };
        EditRow {
            subscription: edit.subscription.clone(),
            recreate: edit.recreate,
            channel: becomes(CHANNEL),
            starting_csv: becomes(STARTING_CSV),
            text: edit.text(),
        }
    }
}

impl From<&Unsatisfiable> for UnsatisfiableRow {
    fn from(part: &Unsatisfiable) -> Self {
        let Unsatisfiable {
            subscriptions,
            message,
            summary,
            tree,
            advice,
        } = part.clone();
        UnsatisfiableRow {
            subscriptions,
            message,
            summary,
            tree,
            single_change_helps: advice.fixes.first().is_some_and(|fix| fix.changes.len() == 1),
            more_fixes: advice.more,
            untried_changes: advice.untried,
        }
    }
}

impl From<&HeldBack> for HeldBackRow {
    fn from(held: &HeldBack) -> Self {
        let HeldBack {
            subscription,
            installed,
            message,
            tree,
        } = held.clone();
        HeldBackRow {
            subscription,
            installed,
            message,
            tree,
        }
    }
}

impl FixRow {
    fn new(plan: &Plan, part: &Unsatisfiable, fix: &Fix) -> Self {
        let destroyed = fix.changes.iter().filter_map(Change::destroys);
        FixRow {
            subscriptions: part.subscriptions.clone(),
            harm: fix.harm,
            destroys: destroyed.map(str::to_owned).collect(),
            text: fix.text(&plan.namespace),
            changes: fix
                .changes
                .iter()
                .map(|change| ChangeRow::new(&plan.namespace, change))
                .collect(),
        }
    }
}

impl ChangeRow {
    fn new(namespace: &str, change: &Change) -> Self {
        let (kind, csv, from, to) = match change {
            Change::Approve { csv, .. } => (ChangeKind::Approve, Some(csv.clone()), None, None),
            Change::Package { from, to, .. } => {
                (ChangeKind::Package, None, Some(from.clone()), Some(to.clone()))
            }
            Change::Channel { from, to, .. } => {
                (ChangeKind::Channel, None, Some(from.clone()), Some(to.clone()))
            }
            Change::Catalog { from, to, .. } => (
                ChangeKind::Catalog,
                None,
                Some(from.to_string()),
                Some(to.to_string()),
            ),
            Change::AnyStart { starting_csv, .. } => {
                (ChangeKind::AnyStart, None, Some(starting_csv.clone()), None)
            }
            Change::FailForward => (ChangeKind::FailForward, None, None, None),
            Change::Unsubscribe { csv, .. } => (ChangeKind::Unsubscribe, Some(csv.clone()), None, None),
            Change::RemoveSubscription { csv, .. } => {
                (ChangeKind::RemoveSubscription, csv.clone(), None, None)
            }
            Change::RemoveCsv { csv } => (ChangeKind::RemoveCsv, Some(csv.clone()), None, None),
        };
        ChangeRow {
            kind,
            subscription: change.subscription().map(str::to_owned),
            csv,
            from,
            to,
            text: change.text(namespace),
        }
    }
}
