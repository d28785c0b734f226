//! Page of all operators, and of the plans that wait for approval.

use std::collections::BTreeMap;

use kube::ResourceExt as _;
use maud::html;

use super::super::request::href;
use super::{Frame, Live, MAX_ROWS, badge, page, shell, text_or_none};
use crate::operators::{Gathered, Key, Row};
use crate::terminal::plain;

pub(in super::super) fn operators(frame: &Frame<'_>, gathered: &Gathered, word: &str) -> String {
    let operators = gathered.operators();
    let mut waiting = BTreeMap::<Key, Vec<String>>::new();
    for operator in &operators {
        if let Some(plan) = operator.pending_plan() {
            let key = (operator.namespace(), plan.name_any());
            waiting.entry(key).or_default().push(operator.name());
        }
    }
    let rows = operators.iter().map(|operator| operator.row());
    let rows: Vec<Row> = rows.filter(|row| is_like(row, word)).collect();
    let place = frame
        .namespace
        .map_or_else(|| "all namespaces".to_owned(), |name| format!("namespace {name}"));
    let body = html! {
        @if !waiting.is_empty() {
            section.ask aria-labelledby="waiting" {
                h2 #waiting { "Plans waiting for approval" }
                ul {
                    @for ((namespace, plan), names) in waiting.iter().take(MAX_ROWS) {
                        li {
                            a id=(format!("plan-{namespace}-{plan}")) href=(href("plan", &[("namespace", namespace), ("name", plan)])) { (plain(plan)) }
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
        p { (rows.len()) " of " (operators.len()) " operators in " (place) }
        @if !rows.is_empty() {
            table {
                thead {
                    tr {
                        @for head in ["Operator", "State", "Installed", "Current", "Package", "Waiting for"] {
                            th scope="col" { (head) }
                        }
                    }
                }
                tbody {
                    @for row in rows.iter().take(MAX_ROWS) {
                        tr {
                            th scope="row" data-label="Operator" {
                                a id=(format!("operator-{}-{}", row.namespace, row.name)) href=(href("operator", &[("namespace", &row.namespace), ("name", &row.name)])) {
                                    @if frame.namespace.is_none() { (plain(&row.namespace)) "/" }
                                    (plain(&row.name))
                                }
                            }
                            td data-label="State" { (badge(row.state.mark(), row.state.as_str())) }
                            td data-label="Installed" { (text_or_none(&row.installed_version)) }
                            td data-label="Current" { (text_or_none(&row.current_version)) }
                            td data-label="Package" {
                                (text_or_none(&row.package))
                                @if !row.channel.is_empty() { ", " (plain(&row.channel)) }
                            }
                            td data-label="Waiting for" { (plain(&row.message)) }
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

fn is_like(row: &Row, word: &str) -> bool {
    let word = word.to_lowercase();
    let texts = [&row.namespace, &row.name, &row.package, &row.current_csv];
    let state = row.state.as_str().to_lowercase();
    texts.into_iter().any(|text| text.to_lowercase().contains(&word)) || state.contains(&word)
}
