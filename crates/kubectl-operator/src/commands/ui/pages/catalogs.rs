//! Page of the catalogs' health.

use std::cmp::Reverse;

use maud::html;

use super::super::health::Health;
use super::{Frame, Live, MAX_ROWS, badge, counts, head, page, reason, shell, text_or_none, width};
use crate::commands::catalog::Row;
use crate::terminal::plain;

/// Returns the page of the catalogs, failing ones first.
pub(in super::super) fn catalogs(frame: &Frame<'_>, health: &Health) -> String {
    let mut rows: Vec<&Row> = health.catalogs.iter().collect();
    rows.sort_by_key(|row| Reverse(row.mark()));
    let place = frame.namespace.map_or_else(
        || "in all namespaces".to_owned(),
        |name| format!("that namespace {name} can use"),
    );
    let command = frame
        .commands
        .offered("catalog list -o wide", &[], frame.namespace);
    let body = html! {
        p { (rows.len()) " catalogs " (plain(&place)) (counts(rows.iter().map(|row| row.mark()))) }
        @if !rows.is_empty() {
            table.rows {
                (head(&["Catalog", "State", "Name", "Source", "Priority", "Problem"]))
                tbody {
                    @for (at, row) in rows.iter().take(MAX_ROWS).enumerate() {
                        @let state = if row.state.is_empty() { "New" } else { row.state.as_str() };
                        @let name = format!("{}/{}", row.namespace, row.name);
                        tr {
                            th class=(width(&name)) scope="row" data-label="Catalog" { (plain(&name)) }
                            td class=(width(state)) data-label="State" { (badge(row.mark(), state)) }
                            td.long data-label="Name" {
                                (text_or_none(&row.display_name))
                                @if !row.publisher.is_empty() { " by " (plain(&row.publisher)) }
                            }
                            td.words data-label="Source" { (plain(&row.source_type)) @if !row.source.is_empty() { " " (plain(&row.source)) } }
                            td.short data-label="Priority" { (row.priority) }
                            td.words data-label="Problem" { (reason(&format!("problem-{at}"), &row.message)) }
                        }
                    }
                }
            }
            @if rows.len() > MAX_ROWS { p { "and " (rows.len() - MAX_ROWS) " more" } }
        }
        p { "A catalog that is not READY offers nothing new. Installed operators run on." }
        (shell("The same in a terminal", command))
    };
    page(frame, Live::Renewed, &body)
}
