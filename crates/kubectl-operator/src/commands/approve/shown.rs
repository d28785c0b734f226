//! What is told of a plan before it is approved. Pure.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};

use kube::ResourceExt;
use olm_api::plan_preview::{DefinitionChange, ObjectChange, PlanPreview, Rule, Verb};
use olm_api::v1alpha1::InstallPlan;
use olm_api::{approval, labels};
use serde::Serialize;

/// Objects that are named, of each kind of change; permissions are told whole.
const MAX_NAMED: usize = 50;

/// A plan, and what approving it changes.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Shown {
    /// Name of the InstallPlan.
    pub plan: String,
    /// Its namespace.
    pub namespace: String,
    /// Subscriptions that it serves: approving it is for all of them.
    pub subscriptions: Vec<String>,
    /// ClusterServiceVersions that it installs.
    pub operators: Vec<String>,
    /// When the plan was made, and its preview with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub made: Option<String>,
    /// What it changes; none where nobody has said.
    pub preview: Option<PlanPreview>,
    /// Why the preview does not tell all of it.
    pub doubts: Vec<String>,
    /// What its steps are about, where there is no preview.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<String>,
    /// Hash of the steps that are approved.
    pub hash: String,
    /// Whether it is approved.
    pub approved: bool,
    /// Whether it was approved just now.
    #[serde(skip)]
    pub is_new: bool,
}

impl Shown {
    /// What is known of a plan in a namespace with these ClusterServiceVersions.
    pub(super) fn of(plan: &InstallPlan, installed: &[String]) -> Self {
        let annotation = plan.annotations().get(labels::PLAN_PREVIEW);
        let preview = annotation.and_then(|text| PlanPreview::from_annotation(text));
        let owners = plan.owner_references().iter();
        let subscriptions = owners
            .filter(|owner| owner.kind == "Subscription")
            .map(|owner| owner.name.clone());
        let operators = plan.spec.cluster_service_version_names.clone();
        let steps = plan.status.iter().flat_map(|status| status.plan.iter());
        let steps: Vec<String> = steps
            .map(|step| format!("{} {}", step.resource.kind, step.resource.name))
            .collect();
        Self {
            plan: plan.name_any(),
            namespace: plan.namespace().unwrap_or_default(),
            subscriptions: subscriptions.collect(),
            made: plan.creation_timestamp().map(|time| time.0.to_string()),
            doubts: match (&preview, annotation) {
                (Some(preview), _) => doubts(preview, &operators, installed),
                (None, Some(_)) => vec![
                    "its preview is of another version of OLM and cannot be read: which objects and permissions it changes is not known"
                        .to_owned(),
                ],
                (None, None) => vec![
                    "it has no preview, as plans of upstream's OLM and those that need no approval: which objects and permissions it changes is not known"
                        .to_owned(),
                ],
            },
            steps: if preview.is_some() { Vec::new() } else { steps },
            operators,
            preview,
            hash: approval::plan_hash(plan),
            approved: false,
            is_new: false,
        }
    }

    /// What came of it.
    pub(super) fn outcome_text(&self) -> String {
        let plan = plain(&self.plan);
        match (self.approved, self.is_new) {
            (true, true) => format!("InstallPlan {plan} approved\n"),
            (true, false) => format!("InstallPlan {plan} was approved before\n"),
            (false, _) => format!("InstallPlan {plan} not approved\n"),
        }
    }
}

/// Why a preview does not say what will happen now.
fn doubts(preview: &PlanPreview, operators: &[String], installed: &[String]) -> Vec<String> {
    let mut doubts = Vec::new();
    let told: BTreeSet<&String> = preview.operators.iter().map(|operator| &operator.name).collect();
    if preview.omitted.operators == 0 && told != operators.iter().collect() {
        doubts.push("its preview is outdated: it is of other operators than the plan".to_owned());
    }
    for operator in &preview.operators {
        if installed.contains(&operator.name) {
            doubts.push(format!(
                "its preview is outdated: {} is there already",
                operator.name
            ));
        } else if !operator.replaces.is_empty() && !installed.contains(&operator.replaces) {
            let gone = &operator.replaces;
            doubts.push(format!(
                "its preview is outdated: {gone}, which it compares with, is not installed any more"
            ));
        }
    }
    doubts.extend(preview.unknown.iter().map(|text| format!("not known: {text}")));
    let omitted = preview.omitted;
    let counts = [
        (omitted.operators, "operators"),
        (omitted.objects, "objects"),
        (omitted.fields, "fields"),
        (omitted.definitions, "definitions"),
        (omitted.gained, "rules that are gained"),
        (omitted.lost, "rules that are lost"),
        (omitted.unknown, "things that are not known"),
    ];
    let left_out = counts.into_iter().filter(|(count, _)| *count > 0);
    doubts.extend(left_out.map(|(count, what)| format!("left out of its preview: {count} {what}")));
    doubts
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = format!("InstallPlan {} in namespace {}", self.plan, self.namespace);
        if let Some(made) = &self.made {
            write!(text, ", as of {made}")?;
        }
        line(f, &text)?;
        if !self.subscriptions.is_empty() {
            line(f, &format!("for        {}", self.subscriptions.join(", ")))?;
        }
        let replaces = |name: &String| {
            let preview = self.preview.as_ref()?;
            let found = preview.operators.iter().find(|operator| operator.name == *name)?;
            (!found.replaces.is_empty()).then(|| format!(", replaces {}", found.replaces))
        };
        for name in &self.operators {
            let replaced = replaces(name).unwrap_or_default();
            line(f, &format!("installs   {name}{replaced}"))?;
        }
        match &self.preview {
            Some(preview) => changes(f, preview)?,
            None => named(f, "step       ", self.steps.iter().cloned())?,
        }
        for doubt in &self.doubts {
            line(f, &format!("note: {doubt}"))?;
        }
        Ok(())
    }
}

fn changes(f: &mut fmt::Formatter<'_>, preview: &PlanPreview) -> fmt::Result {
    for (verb, word) in [(Verb::Create, "creates    "), (Verb::Change, "changes    ")] {
        let objects = preview.objects.iter().filter(|object| object.verb == verb);
        named(f, word, objects.map(object_text))?;
    }
    for definition in &preview.definitions {
        line(f, &format!("definition {}", definition_text(definition)))?;
    }
    for change in &preview.permissions {
        let place = match change.namespace.as_str() {
            "" => "in the whole cluster".to_owned(),
            namespace => format!("in namespace {namespace}"),
        };
        for (word, rules) in [("gains      ", &change.gained), ("loses      ", &change.lost)] {
            for rule in rules {
                line(
                    f,
                    &format!("{word}{} {place}: {}", change.subject, rule_text(rule)),
                )?;
            }
        }
    }
    Ok(())
}

fn named(f: &mut fmt::Formatter<'_>, word: &str, texts: impl Iterator<Item = String>) -> fmt::Result {
    let mut left_out = 0_usize;
    for (at, text) in texts.enumerate() {
        if at < MAX_NAMED {
            line(f, &format!("{word}{text}"))?;
        } else {
            left_out += 1;
        }
    }
    match left_out {
        0 => Ok(()),
        count => line(f, &format!("{word}and {count} more; -o json names them")),
    }
}

fn object_text(object: &ObjectChange) -> String {
    let mut text = format!("{} {}", object.kind, object.name);
    if !object.namespace.is_empty() {
        text = format!("{} {}/{}", object.kind, object.namespace, object.name);
    }
    if !object.fields.is_empty() {
        text = format!("{text}: {}", object.fields.join(", "));
    }
    if object.keys_removed > 0 {
        text = format!("{text}; {} other keys go", object.keys_removed);
    }
    if object.not_compared {
        text += " (whatever is there now)";
    }
    if object.foreign {
        text += " (stood before OLM)";
    }
    text
}

fn definition_text(definition: &DefinitionChange) -> String {
    let parts = [
        ("serves", &definition.versions_added),
        ("serves no more", &definition.versions_removed),
        ("loses", &definition.fields_removed),
        ("changes", &definition.fields),
    ];
    let parts = parts.into_iter().filter(|(_, names)| !names.is_empty());
    let texts: Vec<String> = parts
        .map(|(word, names)| format!("{word} {}", names.join(", ")))
        .collect();
    format!("{}: {}", definition.name, texts.join("; "))
}

fn rule_text(rule: &Rule) -> String {
    if !rule.role.is_empty() {
        return format!("whatever {} allows", rule.role);
    }
    let verbs = rule.verbs.join(", ");
    if !rule.url.is_empty() {
        return format!("{verbs} {}", rule.url);
    }
    let resource = match rule.group.as_str() {
        "" => rule.resource.clone(),
        group => format!("{}.{group}", rule.resource),
    };
    match rule.resource_name.as_str() {
        "" => format!("{verbs} {resource}"),
        name => format!("{verbs} {resource} {name}"),
    }
}

fn line(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    writeln!(f, "{}", plain(text))
}

/// Names in a plan are whoever's who may write plans; a terminal is not to obey them.
fn plain(text: &str) -> String {
    let letter = |letter: char| match letter.is_control() {
        true => letter.escape_default().to_string(),
        false => letter.to_string(),
    };
    text.chars().map(letter).collect()
}
