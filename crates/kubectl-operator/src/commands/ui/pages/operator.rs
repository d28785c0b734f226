//! Page of one operator: its tree, from the Subscription to the pods.

use kube::ResourceExt as _;
use maud::{Markup, html};

use super::super::request::href;
use super::{Frame, Live, badge, head, is_told, page, reason, shell, text_or_none, width};
use crate::operators::{Gathered, Node};
use crate::terminal::{Mark, plain};

/// Returns the page of the operator of this name; `None` if there is none.
pub(in super::super) fn operator(frame: &Frame<'_>, gathered: &Gathered, name: &str) -> Option<String> {
    let operators = gathered.operators();
    let operator = operators.iter().find(|operator| operator.name() == name)?;
    let (row, namespace) = (operator.row(), operator.namespace());
    let place = [("namespace", namespace.as_str()), ("name", name)];
    let commands = frame.commands;
    let command = |form: &str| commands.offered(form, &[name], Some(&namespace));
    let plan = operator.pending_plan();
    // The button below approves the plan.
    let way_out = operator
        .way_out(&operator.verdict(), commands)
        .filter(|_| plan.is_none() && row.state.mark() != Mark::Fine);
    let conditions = operator.subscription.and_then(|found| found.status.as_ref());
    let conditions = conditions
        .map(|status| status.conditions.as_slice())
        .unwrap_or_default();
    let body = html! {
        div.state { (badge(row.state.mark(), row.state.as_str())) " " (reason("reason", &row.message)) }
        @if let Some(way_out) = way_out { p { "To resolve: " (plain(&way_out)) } }
        @if let Some(plan) = plan {
            p.ask {
                a.button #plan href=(href("plan", &[("namespace", &namespace), ("name", &plan.name_any())])) { "Review the pending plan" }
            }
            (shell("Or", command("approve {}")))
        }
        dl {
            dt { "Namespace" } dd { (plain(&namespace)) }
            dt { "Installed" } dd { (text_or_none(&row.installed_csv)) }
            dt { "Current" } dd { (text_or_none(&row.current_csv)) }
            @if row.subscribed {
                dt { "Package" }
                dd {
                    a #package href=(href("package", &[("namespace", &namespace), ("catalog", &row.catalog), ("name", &row.package)])) { (plain(&row.package)) }
                    " of catalog " (plain(&row.catalog))
                }
                dt { "Channel" } dd { @if row.channel.is_empty() { "the package's default" } @else { (plain(&row.channel)) } }
                dt { "Approval" } dd { (row.approval) }
            }
        }
        h2 { "Objects" }
        ul.tree { (node(&gathered.tree(operator, commands), &namespace, &row.message)) }
        (shell("The same in a terminal", command("status {}")))
        @if row.subscribed {
            h2 { "Why is it stuck?" }
            p { a #explain href=(href("explain", &place)) { "Explain" } " asks the catalogs, which can take a while." }
            (shell("Or", command("explain {}")))
        }
        @if !conditions.is_empty() {
            h2 { "Conditions" }
            table.rows {
                (head(&["Condition", "Status", "Reason", "Message"]))
                tbody {
                    @for (at, condition) in conditions.iter().enumerate() {
                        @let reason_word = condition.reason.as_deref().unwrap_or_default();
                        @let message = condition.message.as_deref().unwrap_or_default();
                        tr {
                            th class=(width(&condition.type_)) scope="row" data-label="Condition" { (plain(&condition.type_)) }
                            td class=(width(&condition.status)) data-label="Status" { (plain(&condition.status)) }
                            td class=(width(reason_word)) data-label="Reason" { (text_or_none(reason_word)) }
                            td.words data-label="Message" {
                                @if message.is_empty() { (text_or_none("")) }
                                @else if is_told(message, &row.message) { "see the reason above" }
                                @else { (reason(&format!("condition-{at}"), message)) }
                            }
                        }
                    }
                }
            }
        }
    };
    Some(page(frame, Live::Renewed, &body))
}

/// Renders an object of the tree. `above` is the reason at the top of the page, which is not repeated.
fn node(found: &Node, namespace: &str, above: &str) -> Markup {
    let is_plan = found.kind == "InstallPlan" && found.state != "Gone";
    html! {
        li {
            span.kind { (found.kind) } " "
            @if is_plan {
                a id=(format!("node-{}", found.name)) href=(href("plan", &[("namespace", namespace), ("name", &found.name)])) { (plain(&found.name)) }
            } @else {
                (plain(&found.name))
            }
            " " (badge(found.mark, &found.state)) " "
            @if !is_told(&found.message, above) { (reason(&format!("reason-{}-{}", found.kind, found.name), &found.message)) }
            @if !found.objects.is_empty() {
                ul { @for object in &found.objects { (node(object, namespace, above)) } }
            }
        }
    }
}
