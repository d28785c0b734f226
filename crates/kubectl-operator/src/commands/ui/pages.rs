//! HTML pages. Pure: values in, text out. Templates escape every text of a cluster or a catalog. `plain` removes letters that
//! hide or reorder text first.

mod catalogs;
mod explain;
mod graph;
mod markdown;
mod operators;
mod plan;

use maud::{DOCTYPE, Markup, html};

pub(super) use self::catalogs::{catalog, catalogs, package};
pub(super) use self::explain::explain;
pub(super) use self::graph::graph;
pub(super) use self::operators::{operator, operators};
pub(super) use self::plan::{not_approved, plan};
use super::request::href;
use crate::command_line::CommandLine;
use crate::terminal::{Mark, escape, line, plain};

/// Maximum rows per table.
const MAX_ROWS: usize = 300;
/// Maximum number of notes.
const MAX_NOTES: usize = 20;
/// Maximum letters of a table cell that does not wrap.
const MAX_SHORT: usize = 26;
/// Letters of a reason that are shown at once.
const MAX_BEGINNING: usize = 160;
/// Maximum letters of a reason.
const MAX_REASON: usize = 8_000;
/// Minimum letters of a text that is not repeated. Shorter ones are part of others by chance.
const MIN_ABOVE: usize = 20;

/// Common parts of a page.
pub(super) struct Frame<'a> {
    pub title: &'a str,
    /// The selected namespace; `None` for all.
    pub namespace: Option<&'a str>,
    pub commands: &'a CommandLine,
    /// Value by which pages recognize this server.
    pub seal: &'a str,
    /// Notes on data that is unknown or omitted.
    pub notes: Vec<String>,
}

impl Frame<'_> {
    /// Returns a link to a page in the selected namespace.
    fn href(&self, page: &str) -> String {
        href(page, &[("namespace", self.namespace.unwrap_or_default())])
    }
}

/// Update mode of an open page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Live<'a> {
    /// The page is static.
    No,
    /// The page refreshes its content.
    Renewed,
    /// The page reports that its content is outdated, and does not change it while the user decides.
    Reported(&'a str),
}

fn page(frame: &Frame<'_>, live: Live<'_>, body: &Markup) -> String {
    let title = plain(frame.title);
    let (renewed, digest) = match live {
        Live::No => (false, None),
        Live::Renewed => (true, None),
        Live::Reported(digest) => (false, Some(digest)),
    };
    html! {
        (DOCTYPE)
        html lang="en" data-seal=(frame.seal) {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " – operators" }
                link rel="stylesheet" href="style.css";
                script src="script.js" defer {}
            }
            body {
                a.skip href="#main" { "To the content" }
                header {
                    nav aria-label="Pages" {
                        a href=(frame.href("operators")) { "Operators" }
                        a href=(frame.href("catalog")) { "Packages" }
                        a href=(frame.href("catalogs")) { "Catalogs" }
                    }
                    form.place method="get" action="operators" role="search" {
                        label for="namespace" { "Namespace" }
                        input #namespace name="namespace" value=[frame.namespace] placeholder="all" autocomplete="off" spellcheck="false" maxlength="63";
                        button { "Show" }
                    }
                }
                p #notice role="status" aria-live="polite" hidden {}
                main #main tabindex="-1" data-renewed[renewed] data-digest=[digest] {
                    h1 { (title) }
                    @for note in frame.notes.iter().take(MAX_NOTES) { p.doubts { (plain(note)) } }
                    @if frame.notes.len() > MAX_NOTES { p.doubts { "and " (frame.notes.len() - MAX_NOTES) " more" } }
                    (body)
                }
            }
        }
    }
    .into_string()
}

/// Returns a page without any data, for requests that are not allowed.
pub(super) fn bare(text: &str) -> String {
    skeleton(&html! {}, &html! { (text) })
}

/// Returns a page that redirects to the first page.
pub(super) fn welcome(target: &str) -> String {
    let renewal = html! { meta http-equiv="refresh" content=(format!("0;url={target}")); };
    skeleton(&renewal, &html! { a href=(target) { "Continue" } })
}

fn skeleton(head: &Markup, text: &Markup) -> String {
    html! {
        (DOCTYPE)
        html lang="en" {
            head { meta charset="utf-8"; title { "kubectl operator ui" } (head) }
            body { p { (text) } }
        }
    }
    .into_string()
}

/// Returns a page with a message.
pub(super) fn message(frame: &Frame<'_>, text: &str) -> String {
    page(frame, Live::No, &html! { p.message { (plain(text)) } })
}

/// Renders the field by which a page is searched.
fn search(frame: &Frame<'_>, page: &str, word: &str) -> Markup {
    html! {
        form.search method="get" action=(page) role="search" {
            input type="hidden" name="namespace" value=(frame.namespace.unwrap_or_default());
            label for="q" { "Search" }
            input #q type="search" name="q" value=(word);
            button { "Search" }
        }
    }
}

/// Renders a command to copy; nothing if no safe command exists.
fn shell(label: &str, command: Option<String>) -> Markup {
    html! {
        @if let Some(command) = command {
            p.shell { span { (label) } " " code { (command) } }
        }
    }
}

fn badge(mark: Mark, text: &str) -> Markup {
    let class = match mark {
        Mark::Fine => "fine",
        Mark::Waits => "waits",
        Mark::Bad => "bad",
    };
    html! { span.badge.(class) { (plain(text)) } }
}

/// Renders the names of a table's columns.
fn head(columns: &[&str]) -> Markup {
    html! {
        thead { tr { @for column in columns { th scope="col" { (column) } } } }
    }
}

/// Returns the class of a table cell with this text: one that does not wrap, or one that does.
fn width(text: &str) -> &'static str {
    match text.chars().count() <= MAX_SHORT {
        true => "short",
        false => "long",
    }
}

/// Renders a reason in full. Of a long one only the beginning is shown, until the reader wants more. `id` is unique on the page, so
/// that an open reason stays open when the page refreshes.
fn reason(id: &str, text: &str) -> Markup {
    let text = text.trim();
    let is_long = text.chars().count() > MAX_BEGINNING || text.contains('\n');
    let first = text.lines().next().unwrap_or_default();
    let full: String = text.chars().take(MAX_REASON).collect();
    html! {
        @if is_long {
            details.reason id=(plain(id)) {
                summary {
                    span.beginning { (line(first, MAX_BEGINNING)) " " }
                    span.more { "more" } span.less { "less" }
                }
                p.full { (escape(&full)) }
            }
        } @else {
            (plain(text))
        }
    }
}

/// Returns true if a text is part of one above it on the page.
fn is_above(text: &str, above: &str) -> bool {
    let text = text.trim();
    !text.is_empty() && (text == above.trim() || text.len() >= MIN_ABOVE && above.contains(text))
}

/// Renders the numbers of objects that fail, wait and are ready, without those that are zero.
fn counts(marks: impl Iterator<Item = Mark>) -> Markup {
    let marks: Vec<Mark> = marks.collect();
    let words = [
        (Mark::Bad, "failing"),
        (Mark::Waits, "waiting"),
        (Mark::Fine, "ready"),
    ];
    let counts = words.map(|(mark, word)| {
        let count = marks.iter().filter(|found| **found == mark).count();
        (mark, count, word)
    });
    html! {
        @for (mark, count, word) in counts {
            @if count > 0 { " " (badge(mark, &format!("{count} {word}"))) }
        }
    }
}

/// Renders a text, or a visible "none" if it is empty.
fn text_or_none(text: &str) -> Markup {
    html! {
        @if text.is_empty() { span.none { "none" } } @else { (plain(text)) }
    }
}
