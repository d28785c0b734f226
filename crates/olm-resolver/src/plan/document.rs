//! Plans and explanations as JSON. `docs/reference/plan.schema.json` and `explain.schema.json` are generated
//! from these types.

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::{Explained, HeldBack, Install, NotSucceeded, Plan, Standing, Step, Unsatisfiable};
use crate::advice::{Change, Harm};

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
    unsatisfiable: Vec<Unsatisfiable>,
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
    unsatisfiable: Vec<Unsatisfiable>,
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
    #[serde(flatten)]
    change: Change,
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
            unsatisfiable: self.unsatisfiable.clone(),
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
            unsatisfiable: self.unsatisfiable.clone(),
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
        let fixes = part.advice.fixes.iter().map(|fix| FixRow {
            subscriptions: part.subscriptions.clone(),
            harm: fix.harm,
            destroys: fix.change.destroys().map(str::to_owned),
            text: fix.text(namespace),
            change: ChangeRow {
                change: fix.change.clone(),
                text: fix.change.text(namespace),
            },
        });
        fixes.collect()
    };
    parts.iter().flat_map(of_part).collect()
}
