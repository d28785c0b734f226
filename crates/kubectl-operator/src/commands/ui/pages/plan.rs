//! Page of a plan before approval: its changes, and the button.

use maud::{Markup, html};
use olm_api::plan_preview::{PlanPreview, Verb};

use super::super::request::href;
use super::{Frame, Live, page, shell};
use crate::commands::approve::Shown;
use crate::preview::{definition_text, image_text, kind_and_name, name, objects, replaced, rules};
use crate::terminal::escape;

pub(in super::super) fn plan(frame: &Frame<'_>, shown: &Shown, digest: &str) -> String {
    let namespace = shown.namespace.as_str();
    let command = frame
        .commands
        .offered("approve installplan/{}", &[&shown.plan], Some(namespace));
    let body = html! {
        @if shown.approved {
            p.message #outcome { "This plan is approved." }
        } @else if let Some(refusal) = &shown.refusal {
            p.message #outcome { (escape(refusal)) }
        } @else {
            p { "This plan is waiting for approval. The following was recorded when it was created." }
        }
        // An approved plan needs no warnings.
        @if !shown.approved && !shown.doubts.is_empty() {
            section.doubts aria-labelledby="doubts" {
                h2 #doubts { "Beware" }
                ul { @for doubt in &shown.doubts { li { (escape(doubt)) } } }
            }
        }
        dl {
            dt { "Namespace" } dd { (escape(namespace)) }
            dt { "InstallPlan" } dd { (escape(&name(&shown.plan))) }
            @if let Some(made) = &shown.made { dt { "Made" } dd { (escape(made)) } }
            @if !shown.subscriptions.is_empty() {
                dt { "For" }
                dd {
                    ul {
                        @for own in &shown.subscriptions {
                            li { a href=(href("operator", &[("namespace", namespace), ("name", own)])) { (escape(&name(own))) } }
                        }
                    }
                }
            }
            dt { "Installs" }
            dd {
                ul {
                    @for csv in &shown.operators {
                        li {
                            (escape(&name(csv)))
                            @if let Some(former) = replaced(shown.preview.as_ref(), csv) { ", replaces " (escape(&name(former))) }
                        }
                    }
                }
            }
        }
        @match &shown.preview {
            Some(preview) => (changes(preview)),
            None => (listed("Steps", shown.steps.iter().map(|step| kind_and_name(step)))),
        }
        @if !shown.approved && shown.refusal.is_none() {
            form.ask method="post" action="approve" {
                input type="hidden" name="namespace" value=(namespace);
                input type="hidden" name="name" value=(shown.plan);
                input type="hidden" name="shown" value=(digest);
                button #approve { "Approve this plan" }
                p { "OLM executes only these steps. If the plan changes, it needs a new approval." }
            }
            (shell("Or", command))
        }
    };
    let live = match shown.approved {
        true => Live::No,
        false => Live::Reported(digest),
    };
    page(frame, live, &body)
}

/// Returns the page after an approval that failed.
pub(in super::super) fn not_approved(frame: &Frame<'_>, plan: &str, text: &str) -> String {
    let place = [("namespace", frame.namespace.unwrap_or_default()), ("name", plan)];
    let body = html! {
        p.message #outcome { (escape(text)) }
        p { a.button #again href=(href("plan", &place)) { "Review it again" } }
    };
    page(frame, Live::No, &body)
}

fn changes(preview: &PlanPreview) -> Markup {
    html! {
        (listed("Permissions gained", rules(preview, true)))
        (listed("Permissions lost", rules(preview, false)))
        (listed("Changes of custom resource definitions", preview.definitions.iter().map(definition_text)))
        (listed("Images", preview.images.iter().map(image_text)))
        (listed("Objects it deletes", objects(preview, Verb::Delete)))
        (listed("Objects it creates", objects(preview, Verb::Create)))
        (listed("Objects it changes", objects(preview, Verb::Change)))
    }
}

/// Renders a list with a title and its length. It is complete, because it is what the user approves; the size of an object bounds
/// it. Empty lists are omitted.
fn listed(head: &str, texts: impl Iterator<Item = String>) -> Markup {
    let texts: Vec<String> = texts.map(|text| escape(&text)).collect();
    html! {
        @if !texts.is_empty() {
            h2 { (head) " (" (texts.len()) ")" }
            ul { @for text in &texts { li { (text) } } }
        }
    }
}
