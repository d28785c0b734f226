//! Plans and explanations as JSON. `docs/reference/plan.schema.json` and `explain.schema.json` are generated
//! from these types.

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::{Explained, HeldBack, Install, NotSucceeded, Plan, Standing, Step, Unsatisfiable};
use crate::advice::{Change, ChangeKind, Fix, Harm};
use crate::explain::Tree;

/// What OLM will do in a namespace, step by step, as `opm plan -o json` and `kubectl operator plan -o json` print it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(title = "Plan")]
pub struct Document {
    /// The namespace.
    namespace: String,
    /// Everything that is installed, in order over all steps.
    install: Vec<Install>,
    /// What cannot be resolved, one entry for each part of the namespace.
    unsatisfiable: Vec<UnsatisfiableRow>,
    /// What is done round by round.
    steps: Vec<Step>,
    /// Whether more steps follow than were asked for.
    more_steps: bool,
    /// Subscriptions that keep what they have although their channel goes on. That is no failure.
    held_back: Vec<HeldBack>,
    /// Ways to resolve what cannot be resolved, those of one part together, the gentlest first.
    fixes: Vec<FixRow>,
    /// Malformed bundles and channels that were left out of the choice, with the reason.
    excluded: Vec<String>,
    /// What else is to be known: deprecations, InstallPlans that wait, what OLM will not install and what the
    /// cluster will not run.
    notes: Vec<String>,
}

/// Why Subscriptions are not served or not upgraded, as `kubectl operator explain -o json` prints it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(title = "Explanation")]
pub struct ExplainedDocument {
    /// The namespace.
    namespace: String,
    /// What cannot be resolved, one entry for each part of the namespace.
    unsatisfiable: Vec<UnsatisfiableRow>,
    /// Ways to resolve what cannot be resolved, those of one part together, the gentlest first.
    fixes: Vec<FixRow>,
    /// The Subscriptions that can be resolved.
    subscriptions: Vec<Standing>,
    /// Those that keep what they have although their channel goes on. That is no failure.
    held_back: Vec<HeldBack>,
    /// What does not run of what is installed, and what its status says of that.
    not_succeeded: Vec<NotSucceeded>,
    /// Malformed bundles and channels that were left out of the choice, with the reason.
    excluded: Vec<String>,
}

/// A part of the namespace that cannot be resolved.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct UnsatisfiableRow {
    /// Subscriptions of the part.
    subscriptions: Vec<String>,
    /// Installed ClusterServiceVersions of the part.
    installed: Vec<String>,
    /// Upstream's message, whole.
    message: String,
    /// The same in fewer than 300 characters.
    summary: String,
    /// The reasons.
    tree: Vec<Tree>,
    /// How many fixes were found beyond those listed.
    more_fixes: usize,
    /// How many possible changes were tried.
    tried_changes: usize,
    /// How many were not, as that would have been too much work: what is not listed may help all the same.
    untried_changes: usize,
}

/// One way to resolve a part, tried by the resolver.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct FixRow {
    /// Subscriptions of the part, as in `unsatisfiable`.
    subscriptions: Vec<String>,
    /// What it does to what runs: `none`, `running` (something running is treated otherwise) or `destroys`.
    harm: Harm,
    /// The running ClusterServiceVersion that it removes, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    destroys: Option<String>,
    /// What to do, in words.
    text: String,
    /// The change to make.
    change: ChangeRow,
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

impl Serialize for Plan {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let install = self.install().map(|install| Install {
            required_by: Vec::new(),
            ..install.clone()
        });
        let document = Document {
            namespace: self.namespace.clone(),
            install: install.collect(),
            unsatisfiable: self.unsatisfiable.iter().map(UnsatisfiableRow::from).collect(),
            steps: self.steps.clone(),
            more_steps: self.more_steps,
            held_back: self.held_back.clone(),
            fixes: fixes(&self.namespace, &self.unsatisfiable),
            excluded: self.excluded.clone(),
            notes: self.notes.clone(),
        };
        document.serialize(serializer)
    }
}

impl Serialize for Explained {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let held = self.standings.iter().filter_map(|s| s.held_back.as_ref());
        let document = ExplainedDocument {
            namespace: self.namespace.clone(),
            unsatisfiable: self.unsatisfiable.iter().map(UnsatisfiableRow::from).collect(),
            fixes: fixes(&self.namespace, &self.unsatisfiable),
            subscriptions: self.standings.clone(),
            held_back: held.cloned().collect(),
            not_succeeded: self.not_succeeded.clone(),
            excluded: self.excluded.clone(),
        };
        document.serialize(serializer)
    }
}

fn fixes(namespace: &str, parts: &[Unsatisfiable]) -> Vec<FixRow> {
    let of_part = |part: &Unsatisfiable| -> Vec<FixRow> {
        let fixes = part.advice.fixes.iter();
        fixes.map(|fix| FixRow::new(namespace, part, fix)).collect()
    };
    parts.iter().flat_map(of_part).collect()
}

impl From<&Unsatisfiable> for UnsatisfiableRow {
    fn from(part: &Unsatisfiable) -> Self {
        let part = part.clone();
        UnsatisfiableRow {
            subscriptions: part.subscriptions,
            installed: part.installed,
            message: part.message,
            summary: part.summary,
            tree: part.tree,
            more_fixes: part.advice.more,
            tried_changes: part.advice.tried,
            untried_changes: part.advice.untried,
        }
    }
}

impl FixRow {
    fn new(namespace: &str, part: &Unsatisfiable, fix: &Fix) -> Self {
        FixRow {
            subscriptions: part.subscriptions.clone(),
            harm: fix.harm,
            destroys: fix.change.destroys().map(str::to_owned),
            text: fix.text(namespace),
            change: ChangeRow::new(namespace, &fix.change),
        }
    }
}

impl ChangeRow {
    fn new(namespace: &str, change: &Change) -> Self {
        let text = change.text(namespace);
        let Change {
            kind,
            subscription,
            csv,
            from,
            to,
        } = change.clone();
        ChangeRow {
            kind,
            subscription,
            csv,
            from,
            to,
            text,
        }
    }
}
