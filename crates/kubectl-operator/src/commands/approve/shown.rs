//! The summary of a plan that is shown before approval. Pure.

use std::fmt::{self, Write as _};

use kube::ResourceExt;
use olm_api::plan_preview::{PlanPreview, Verb};
use olm_api::v1alpha1::InstallPlan;
use olm_api::{approval, labels};
use serde::Serialize;

use crate::preview::{
    definition_text, image_text, kind_and_name, name, names, objects, of_plan, replaced, rule_texts,
};
use crate::terminal::line as one_line;

/// Maximum number of objects named per kind of change. Permissions are always complete.
const MAX_NAMED: usize = 50;

/// A plan, and the changes that its approval causes.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::commands) struct Shown {
    /// Name of the InstallPlan.
    pub plan: String,
    /// Namespace of the InstallPlan.
    pub namespace: String,
    /// Subscriptions that refer to it. One approval is for all of them.
    pub subscriptions: Vec<String>,
    /// ClusterServiceVersions that it installs.
    pub operators: Vec<String>,
    /// Time of its preview; time of the plan if there is no preview, or one without a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub made: Option<String>,
    /// Preview of its changes; `None` if the plan has none.
    pub preview: Option<PlanPreview>,
    /// Reasons why the preview is incomplete.
    pub doubts: Vec<String>,
    /// Those of `doubts` about definitions that are newer than the preview.
    #[serde(skip)]
    pub newer: Vec<String>,
    /// What its steps are about, where there is no preview.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<String>,
    /// Hash of the steps that are approved.
    pub hash: String,
    /// Reason why it cannot be approved, with the way out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
    /// Why an operator will fail, because the OperatorGroup does not suit it.
    #[serde(skip)]
    pub misfit: Option<String>,
    /// True if the plan is approved.
    pub approved: bool,
    /// True if this command approved the plan.
    #[serde(skip)]
    pub is_new: bool,
}

impl Shown {
    /// Summarises a plan for these Subscriptions. `doubts` are the reasons why there may be others.
    pub(super) fn of(plan: &InstallPlan, subscriptions: Vec<String>, mut doubts: Vec<String>) -> Self {
        let (preview, annotation) = (of_plan(plan), plan.annotations().get(labels::PLAN_PREVIEW));
        let made = preview.as_ref().map(|preview| preview.made_at.clone());
        let made = made.filter(|made| !made.is_empty());
        let operators = plan.spec.cluster_service_version_names.clone();
        let steps = plan.status.iter().flat_map(|status| status.plan.iter());
        let steps: Vec<String> = steps
            .map(|step| format!("{} {}", step.resource.kind, step.resource.name))
            .collect();
        match (&preview, annotation) {
            (Some(preview), _) => doubts.extend(of_preview(preview)),
            (None, Some(_)) => doubts.push(
                "cannot read its preview, which another version of OLM wrote; its changes to objects and permissions are unknown"
                    .to_owned(),
            ),
            (None, None) => doubts.push(
                "it has no preview, because upstream's OLM created it or it needs no approval; its changes to objects and permissions are unknown"
                    .to_owned(),
            ),
        }
        Self {
            plan: plan.name_any(),
            namespace: plan.namespace().unwrap_or_default(),
            doubts,
            subscriptions,
            made: made.or_else(|| plan.creation_timestamp().map(|time| time.0.to_string())),
            steps: if preview.is_some() { Vec::new() } else { steps },
            operators,
            preview,
            hash: approval::plan_hash(plan),
            ..Self::default()
        }
    }

    /// Returns the part that the user approves; equal as long as nothing changes.
    pub(in crate::commands) fn seen(&self) -> Self {
        Self {
            approved: false,
            is_new: false,
            ..self.clone()
        }
    }

    /// Returns the outcome as one line.
    pub(super) fn outcome_text(&self) -> String {
        let plan = name(&self.plan);
        match (self.approved, self.is_new) {
            (true, true) => format!("InstallPlan {plan} approved\n"),
            (true, false) => format!("InstallPlan {plan} was already approved\n"),
            (false, _) => format!("InstallPlan {plan} not approved\n"),
        }
    }
}

/// Returns the reasons why a preview is incomplete.
fn of_preview(preview: &PlanPreview) -> impl Iterator<Item = String> {
    let unknown = preview.unknown.iter().map(|text| format!("unknown: {text}"));
    let omitted = preview.omitted;
    let counts = [
        (omitted.operators, "operators"),
        (omitted.objects, "objects"),
        (omitted.images, "images"),
        (omitted.fields, "fields"),
        (omitted.definitions, "definitions"),
        (omitted.gained, "gained rules"),
        (omitted.lost, "lost rules"),
        (omitted.unknown, "unknown items"),
    ];
    let left_out = counts.into_iter().filter(|(count, _)| *count > 0);
    let left_out = left_out.map(|(count, what)| format!("omitted from its preview: {count} {what}"));
    unknown.chain(left_out)
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (plan, namespace) = (name(&self.plan), name(&self.namespace));
        let mut text = format!("InstallPlan {plan} in namespace {namespace}");
        if let Some(made) = &self.made {
            write!(text, ", as of {}", name(made))?;
        }
        line(f, &text)?;
        if !self.subscriptions.is_empty() {
            line(f, &format!("for        {}", names(&self.subscriptions)))?;
        }
        for csv in &self.operators {
            let replaced = replaced(self.preview.as_ref(), csv);
            let replaced = replaced.map(|former| format!(", replaces {}", name(former)));
            let replaced = replaced.unwrap_or_default();
            line(f, &format!("installs   {}{replaced}", name(csv)))?;
        }
        match &self.preview {
            Some(preview) => changes(f, preview)?,
            None => named(
                f,
                "step       ",
                self.steps.iter().map(|step| kind_and_name(step)),
            )?,
        }
        for doubt in &self.doubts {
            line(f, &format!("note: {doubt}"))?;
        }
        Ok(())
    }
}

fn changes(f: &mut fmt::Formatter<'_>, preview: &PlanPreview) -> fmt::Result {
    for (verb, word) in [
        (Verb::Delete, "deletes    "),
        (Verb::Create, "creates    "),
        (Verb::Change, "changes    "),
    ] {
        named(f, word, objects(preview, verb))?;
    }
    named(f, "image      ", preview.images.iter().map(image_text))?;
    for definition in &preview.definitions {
        line(f, &format!("definition {}", definition_text(definition)))?;
    }
    for change in &preview.permissions {
        for (word, rules) in [("gains      ", &change.gained), ("loses      ", &change.lost)] {
            for text in rule_texts(change, rules) {
                line(f, &format!("{word}{text}"))?;
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
        count => line(f, &format!("{word}and {count} more; list all with -o json")),
    }
}

fn line(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    writeln!(f, "{}", one_line(text, usize::MAX))
}
