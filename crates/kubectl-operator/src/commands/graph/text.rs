//! Upgrade graph as text. Pure.

use super::lanes::{Lane, PackageLanes, Stop};
use crate::terminal::{Colours, Mark, cut, plain};

/// Maximum number of versions shown per channel.
const MAX_STOPS: usize = 1000;
/// Maximum number of skipped names shown per version.
const MAX_SKIPS: usize = 5;
/// Maximum width of a column.
const MAX_WIDTH: usize = 60;

/// Returns the lines, cut at the width of the terminal.
pub(super) fn text(lanes: &PackageLanes, colours: Colours, columns: Option<usize>) -> String {
    let mut lines = vec![head(
        "package",
        &lanes.package,
        &format!(" of catalog {}", plain(&lanes.catalog)),
        lanes.deprecated.as_deref(),
        colours,
    )];
    for lane in &lanes.channels {
        lines.push(String::new());
        lines.extend(of_lane(lane, colours));
    }
    let mut text = String::new();
    for line in lines {
        text.push_str(&columns.map_or_else(|| line.clone(), |columns| cut(&line, columns)));
        text.push('\n');
    }
    text
}

fn head(what: &str, name: &str, more: &str, deprecated: Option<&str>, colours: Colours) -> String {
    let line = format!("{what} {}{more}", plain(name));
    match deprecated {
        None => line,
        Some(why) => format!(
            "{line}, {}: {}",
            colours.paint(Mark::Waits, "deprecated"),
            plain(why)
        ),
    }
}

fn of_lane(lane: &Lane, colours: Colours) -> Vec<String> {
    let default = if lane.is_default { " (default)" } else { "" };
    let mut lines = vec![head(
        "channel",
        &lane.name,
        default,
        lane.deprecated.as_deref(),
        colours,
    )];
    if let Some(broken) = &lane.broken {
        lines.push(format!(
            "  {}: {}",
            colours.paint(Mark::Bad, "broken"),
            plain(broken)
        ));
    }
    let shown = lane.entries.get(..MAX_STOPS).unwrap_or(&lane.entries);
    let width = |text: &dyn Fn(&Stop) -> String| {
        shown
            .iter()
            .map(|stop| text(stop).chars().count())
            .max()
            .unwrap_or(0)
            .min(MAX_WIDTH)
    };
    let version = |stop: &Stop| plain(&stop.version);
    let name = |stop: &Stop| plain(&stop.name);
    let (versions, names) = (width(&version), width(&name));
    for stop in shown {
        let line = format!(
            "  {} {:<versions$}  {:<names$}  {}",
            sign(stop),
            version(stop),
            name(stop),
            notes(stop, colours)
        );
        lines.push(line.trim_end().to_owned());
    }
    let more = lane.entries.len().saturating_sub(MAX_STOPS);
    if more > 0 {
        lines.push(format!("  … and {more} older ones; list all with -o json"));
    }
    lines
}

/// Returns the sign at the beginning of a line; it marks special versions.
fn sign(stop: &Stop) -> char {
    match stop {
        stop if !stop.installed_by.is_empty() => '@',
        stop if stop.is_head => '*',
        stop if stop.is_skipped => '-',
        _ => '|',
    }
}

fn notes(stop: &Stop, colours: Colours) -> String {
    let mut notes = Vec::new();
    if !stop.installed_by.is_empty() {
        let by = plain(&stop.installed_by.join(", "));
        notes.push(format!("{} by {by}", colours.paint(Mark::Fine, "installed")));
    }
    if stop.is_head {
        notes.push("head".to_owned());
    }
    if stop.is_skipped {
        notes.push("skipped".to_owned());
    }
    if let Some(why) = &stop.deprecated {
        notes.push(format!(
            "{}: {}",
            colours.paint(Mark::Waits, "deprecated"),
            plain(why)
        ));
    }
    if !stop.replaces.is_empty() {
        notes.push(format!("replaces {}", plain(&stop.replaces)));
    }
    if !stop.skips.is_empty() {
        let named: Vec<String> = stop
            .skips
            .iter()
            .take(MAX_SKIPS)
            .map(|name| plain(name))
            .collect();
        let more = stop.skips.len().saturating_sub(MAX_SKIPS);
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        notes.push(format!("skips {}{more}", named.join(", ")));
    }
    if !stop.skip_range.is_empty() {
        notes.push(format!("skipRange {}", plain(&stop.skip_range)));
    }
    notes.join("; ")
}
