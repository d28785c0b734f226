//! Page of all operators, and of the plans that wait for approval.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use kube::ResourceExt as _;
use maud::html;
use olm_api::labels;
use olm_api::plan_preview::PlanPreview;
use olm_api::v1alpha1::InstallPlan;

use super::super::request::href;
use super::{Frame, Live, MAX_ROWS, badge, counts, head, page, reason, shell, text_or_none, width};
use crate::operators::{Gathered, Key, Row};
use crate::preview;
use crate::terminal::plain;

pub(in super::super) fn operators(frame: &Frame<'_>, gathered: &Gathered, word: &str) -> String {
    let operators = gathered.operators();
    let mut waiting = BTreeMap::<Key, (String, Vec<String>)>::new();
    for operator in &operators {
        if let Some(plan) = operator.pending_plan() {
            let key = (operator.namespace(), plan.name_any());
            let (_, names) = waiting.entry(key).or_insert_with(|| (title(plan), Vec::new()));
            names.push(operator.name());
        }
    }
    let rows = operators.iter().map(|operator| operator.row());
    let mut rows: Vec<Row> = rows.filter(|row| is_like(row, word)).collect();
    rows.sort_by_key(|row| Reverse(row.state.mark()));
    let place = frame
        .namespace
        .map_or_else(|| "all namespaces".to_owned(), |name| format!("namespace {name}"));
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
        form.search method="get" action="operators" role="search" {
            input type="hidden" name="namespace" value=(frame.namespace.unwrap_or_default());
            label for="q" { "Search" }
            input #q type="search" name="q" value=(word);
            button { "Search" }
        }
        p { (rows.len()) " of " (operators.len()) " operators in " (place) (counts(rows.iter().map(|row| row.state.mark()))) }
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
    let preview = plan.annotations().get(labels::PLAN_PREVIEW);
    let preview = preview.and_then(|text| PlanPreview::from_annotation(text));
    let title = preview::title(&plan.spec.cluster_service_version_names, preview.as_ref());
    title.unwrap_or_else(|| plan.name_any())
}

fn is_like(row: &Row, word: &str) -> bool {
    let word = word.to_lowercase();
    let texts = [&row.namespace, &row.name, &row.package, &row.current_csv];
    let state = row.state.as_str().to_lowercase();
    texts.into_iter().any(|text| text.to_lowercase().contains(&word)) || state.contains(&word)
}
