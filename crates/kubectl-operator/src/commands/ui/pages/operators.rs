//! Pages of all operators with the plans that wait for approval, and of one operator: its tree, from the Subscription to the pods.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use kube::ResourceExt as _;
use maud::{Markup, html};
use olm_api::v1alpha1::InstallPlan;

use super::super::request::href;
use super::{
    Frame, Live, MAX_ROWS, badge, counts, head, is_above, page, reason, search, shell, text_or_none, width,
};
use crate::operators::{Gathered, Key, Node, Row};
use crate::preview;
use crate::reader::place;
use crate::terminal::{Mark, plain};

pub(in super::super) fn operators(frame: &Frame<'_>, gathered: &Gathered, word: &str) -> String {
    let operators = gathered.operators();
    let (mut waiting, mut rows) = (BTreeMap::<Key, (String, Vec<String>)>::new(), Vec::new());
    for operator in &operators {
        let row = operator.row();
        if !is_like(&row, word) {
            continue;
        }
        if let Some(plan) = operator.approvable() {
            let key = (operator.namespace(), plan.name_any());
            let (_, names) = waiting.entry(key).or_insert_with(|| (title(plan), Vec::new()));
            names.push(operator.name());
        }
        rows.push(row);
    }
    rows.sort_by_key(|row| Reverse(row.state.mark()));
    let body = html! {
        @if !waiting.is_empty() {
            section.ask aria-labelledby="waiting" {
                h2 #waiting { "Plans waiting for approval" }
                ul {
                    @for ((namespace, plan), (title, names)) in waiting.iter().take(MAX_ROWS) {
                        li {
                            a id=(format!("plan-{namespace}-{plan}")) href=(href("plan", &[("namespace", namespace), ("name", plan)])) { (plain(title)) }
                            " of " (names.iter().map(|name| plain(name)).collect::<Vec<_>>().join(", ")) " in namespace " (plain(namespace))
                        }
                    }
                }
            }
        }
        (search(frame, "operators", word))
        p { (rows.len()) " of " (operators.len()) " operators in " (place(frame.namespace)) (counts(rows.iter().map(|row| row.state.mark()))) }
        @if !rows.is_empty() {
            table.rows {
                (head(&["Operator", "State", "Installed", "Current", "Package", "Waiting for"]))
                tbody {
                    @for row in rows.iter().take(MAX_ROWS) {
                        @let name = match frame.namespace {
                            Some(_) => row.name.clone(),
                            None => format!("{}/{}", row.namespace, row.name),
                        };
                        tr {
                            th class=(width(&name)) scope="row" data-label="Operator" {
                                a id=(format!("operator-{}-{}", row.namespace, row.name)) href=(href("operator", &[("namespace", &row.namespace), ("name", &row.name)])) {
                                    (plain(&name))
                                }
                            }
                            td class=(width(row.state.as_str())) data-label="State" { (badge(row.state.mark(), row.state.as_str())) }
                            td class=(width(&row.installed_version)) data-label="Installed" { (text_or_none(&row.installed_version)) }
                            td class=(width(&row.current_version)) data-label="Current" { (text_or_none(&row.current_version)) }
                            td.long data-label="Package" {
                                (text_or_none(&row.package))
                                @if !row.channel.is_empty() { ", " (plain(&row.channel)) }
                            }
                            td.words data-label="Waiting for" { (reason(&format!("reason-{}-{}", row.namespace, row.name), &row.message)) }
                        }
                    }
                }
            }
            @if rows.len() > MAX_ROWS { p { "and " (rows.len() - MAX_ROWS) " more; search for those" } }
        }
        (shell("The same in a terminal", frame.commands.offered("list", &[], frame.namespace)))
    };
    page(frame, Live::Renewed, &body)
}

/// Returns what a plan does, or its name.
fn title(plan: &InstallPlan) -> String {
    let preview = preview::of_plan(plan);
    let title = preview::title(&plan.spec.cluster_service_version_names, preview.as_ref());
    title.unwrap_or_else(|| plan.name_any())
}

fn is_like(row: &Row, word: &str) -> bool {
    let word = word.to_lowercase();
    let texts = [&row.namespace, &row.name, &row.package, &row.current_csv];
    let state = row.state.as_str().to_lowercase();
    texts.into_iter().any(|text| text.to_lowercase().contains(&word)) || state.contains(&word)
}

/// Returns the page of the operator of this name; `None` if there is none.
pub(in super::super) fn operator(frame: &Frame<'_>, gathered: &Gathered, name: &str) -> Option<String> {
    let operators = gathered.operators();
    let operator = operators.iter().find(|operator| operator.name() == name)?;
    let (row, namespace) = (operator.row(), operator.namespace());
    let place = [("namespace", namespace.as_str()), ("name", name)];
    let commands = frame.commands;
    let command = |form: &str| commands.offered(form, &[name], Some(&namespace));
    let plan = operator.approvable();
    // The button below approves the plan.
    let verdict = operator.verdict();
    let way_out = operator
        .way_out(&verdict, commands)
        .filter(|_| !(plan.is_some() && verdict.is_approval()) && row.state.mark() != Mark::Fine);
    let conditions = operator
        .status()
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
                                @else if is_above(message, &row.message) { "see the reason above" }
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
            @if !is_above(&found.message, above) { (reason(&format!("reason-{}-{}", found.kind, found.name), &found.message)) }
            @if !found.objects.is_empty() {
                ul { @for object in &found.objects { (node(object, namespace, above)) } }
            }
        }
    }
}
