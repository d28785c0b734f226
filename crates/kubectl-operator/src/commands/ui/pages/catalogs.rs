//! Pages of the catalogs' health, of all packages, and of one package.

use std::cmp::Reverse;

use maud::{Markup, html};

use super::super::request::href;
use super::markdown::markdown;
use super::{Frame, Live, MAX_ROWS, badge, counts, head, page, reason, search, shell, text_or_none, width};
use crate::commands::catalog::Row;
use crate::packages::{Channel, Package};
use crate::terminal::plain;

/// Returns the page of the catalogs, failing ones first.
pub(in super::super) fn catalogs(frame: &Frame<'_>, catalogs: &[Row]) -> String {
    let mut rows: Vec<&Row> = catalogs.iter().collect();
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

/// Returns the page of the packages that the namespace of the frame can use, or of all packages.
pub(in super::super) fn catalog(frame: &Frame<'_>, packages: &[Package], word: &str) -> String {
    let namespace = frame.namespace.unwrap_or_default();
    let lower = word.to_lowercase();
    let found: Vec<&Package> = packages
        .iter()
        .filter(|package| is_like(package, &lower))
        .collect();
    let body = html! {
        (search(frame, "catalog", word))
        p {
            (found.len()) " of " (packages.len()) " packages "
            @match frame.namespace {
                Some(namespace) => { "that namespace " (plain(namespace)) " can use" },
                None => "of all catalogs",
            }
        }
        @if !found.is_empty() {
            table.rows {
                (head(&["Package", "Name", "Catalog", "Channel", "Version"]))
                tbody {
                    @for package in found.iter().take(MAX_ROWS) {
                        @let version = package.head_channel().map(|head| head.head_version.as_str()).unwrap_or_default();
                        tr {
                            th class=(width(&package.name)) scope="row" data-label="Package" {
                                a href=(href("package", &[("namespace", namespace), ("catalog", &package.catalog_key()), ("name", &package.name)])) { (plain(&package.name)) }
                                @if package.deprecated.is_some() { " " span.badge.bad { "deprecated" } }
                            }
                            td.long data-label="Name" { (text_or_none(&package.display_name)) @if !package.provider.is_empty() { " by " (plain(&package.provider)) } }
                            td class=(width(&package.catalog_key())) data-label="Catalog" { (plain(&package.catalog_key())) }
                            td class=(width(&package.default_channel)) data-label="Channel" { (text_or_none(&package.default_channel)) }
                            td class=(width(version)) data-label="Version" { (text_or_none(version)) }
                        }
                    }
                }
            }
            @if found.len() > MAX_ROWS { p { "and " (found.len() - MAX_ROWS) " more; search for those" } }
        }
        (shell("The same in a terminal", frame.commands.offered("list-available", &[], frame.namespace)))
    };
    page(frame, Live::No, &body)
}

fn is_like(package: &Package, lower: &str) -> bool {
    let texts = [
        &package.name,
        &package.display_name,
        &package.provider,
        &package.catalog,
        &package.description,
    ];
    let of_channels = package
        .channels
        .iter()
        .flat_map(|channel| channel.provides.iter());
    let mut texts = texts.into_iter().chain(of_channels);
    lower.is_empty() || texts.any(|text| text.to_lowercase().contains(lower))
}

/// Returns the page of one package.
pub(in super::super) fn package(
    frame: &Frame<'_>,
    namespace: &str,
    package: &Package,
    needs_group: bool,
) -> String {
    let catalog = package.catalog_key();
    let graph = href(
        "graph",
        &[
            ("namespace", namespace),
            ("catalog", &catalog),
            ("name", &package.name),
        ],
    );
    let names = [package.name.as_str(), catalog.as_str()];
    let body = html! {
        p { (plain(&package.display_name)) @if !package.provider.is_empty() { " by " (plain(&package.provider)) } ", of catalog " (plain(&catalog)) }
        @if let Some(text) = &package.deprecated { p.doubts { "deprecated: " (plain(text)) } }
        p { a.button #graph href=(graph) { "Upgrade graph" } " asks the catalogs, which can take a while." }
        @for channel in &package.channels { (lane(frame, namespace, package, channel, needs_group)) }
        @if !package.description.trim().is_empty() {
            h2 { "Description" }
            (markdown(&package.description))
        }
        (shell("The same in a terminal", frame.commands.offered("describe {} --catalog {}", &names, Some(namespace))))
    };
    page(frame, Live::No, &body)
}

fn lane(
    frame: &Frame<'_>,
    namespace: &str,
    package: &Package,
    channel: &Channel,
    needs_group: bool,
) -> Markup {
    let install = package.install_command(&channel.name, frame.commands, namespace, needs_group);
    let is_default = channel.name == package.default_channel;
    html! {
        h2 { "Channel " (plain(&channel.name)) @if is_default { " (default)" } }
        @if let Some(text) = &channel.deprecated { p.doubts { "deprecated: " (plain(text)) } }
        dl {
            dt { "Head" } dd { (plain(&channel.head_version)) " (" (plain(&channel.head)) ")" }
            dt { "Install modes" } dd { (text_or_none(&channel.install_modes.join(", "))) }
            @if !channel.min_kube_version.is_empty() { dt { "Kubernetes" } dd { (plain(&channel.min_kube_version)) " or newer" } }
            dt { "Provides" } dd { (text_or_none(&channel.provides.join(", "))) }
            dt { "Requires" } dd { (text_or_none(&channel.requires.join(", "))) }
        }
        (shell("Install it", install))
        details {
            summary { "Versions (" (channel.versions.len()) ")" }
            ul {
                @for version in &channel.versions {
                    li {
                        (plain(&version.version)) " (" (plain(&version.name)) ")"
                        @if version.name == channel.head { ", head" }
                        @if let Some(text) = &version.deprecated { ", deprecated: " (plain(text)) }
                    }
                }
            }
        }
    }
}
