//! Page that explains why Subscriptions are not resolved or upgraded, as trees, and shows the next steps of OLM.

use maud::{Markup, html};
use olm_resolver::Tree;
use olm_resolver::plan::{Explained, Plan};

use super::{Frame, Live, page, shell};
use crate::terminal::plain;

/// Returns the explanation of one Subscription, or of all, and the plan of the namespace.
pub(in super::super) fn explain(
    frame: &Frame<'_>,
    explained: &Explained,
    plan: &Result<Plan, String>,
    name: Option<&str>,
) -> String {
    let namespace = &explained.namespace;
    let command = match name {
        Some(name) => frame.commands.offered("explain {}", &[name], Some(namespace)),
        None => frame.commands.offered("explain", &[], Some(namespace)),
    };
    let body = html! {
        p { "As of the last two minutes." }
        @for failure in &explained.unsatisfiable {
            section.doubts {
                h2 { (plain(&failure.concerned().join(", "))) ": " (plain(&failure.kind())) }
                @for line in failure.failed_upgrade_lines(namespace) { p { (plain(&line)) } }
                (tree(&failure.tree))
                ul { @for line in failure.advice.lines(namespace) { li { (plain(&line)) } } }
                // The same in the words of the Subscription's condition.
                details { summary { "As in the condition" } p { (plain(&failure.summary)) } }
            }
        }
        @for standing in &explained.standings {
            h2 { (plain(&standing.subscription)) }
            p { (plain(&standing.state)) }
            @if let Some(way_out) = &standing.way_out { p { "To resolve: " (plain(way_out)) } }
            @if let Some(held) = &standing.held_back {
                p { "Its channel offers more, but" }
                (tree(&held.tree))
            }
        }
        @if !explained.not_succeeded.is_empty() || !explained.excluded.is_empty() {
            h2 { "Beside that" }
            ul {
                @for found in &explained.not_succeeded { li { (plain(&found.to_string())) } }
                @for excluded in &explained.excluded { li { "excluded: " (plain(excluded)) } }
            }
        }
        (shell("The same in a terminal", command))
        h2 { "What OLM is going to do in this namespace" }
        @match plan {
            Ok(plan) => (steps(plan)),
            Err(text) => p.message { (plain(text)) },
        }
        (shell("The same in a terminal", frame.commands.offered("plan", &[], Some(namespace))))
    };
    page(frame, Live::No, &body)
}

fn steps(plan: &Plan) -> Markup {
    html! {
        @if plan.steps.is_empty() { p { "Nothing." } } @else {
            ol {
                @for step in &plan.steps {
                    li {
                        @for (at, install) in step.install.iter().enumerate() {
                            @if at > 0 { "; " }
                            "install " (plain(&install.name))
                            @if !install.replaces.is_empty() { " in place of " (plain(&install.replaces)) }
                            " from channel " (plain(&install.channel)) " of " (plain(&install.catalog.to_string()))
                        }
                        @if !step.approvals.is_empty() { ", once it is approved" }
                    }
                }
            }
            @if plan.more_steps { p { "and more after that" } }
        }
        @if !plan.notes.is_empty() { ul { @for note in &plan.notes { li { (plain(note)) } } } }
    }
}

fn tree(statements: &[Tree]) -> Markup {
    html! {
        @if !statements.is_empty() {
            ul.tree {
                @for statement in statements {
                    li { (plain(&statement.text)) (tree(&statement.because)) }
                }
            }
        }
    }
}
