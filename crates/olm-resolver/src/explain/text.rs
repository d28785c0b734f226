//! Explanations as text of bounded size.

use super::layout::{MAX_LINES, WIDTH, lines};
use super::{Explanation, Failure, Hints, Reason, Tree};
use crate::bundle_id::BundleId;
use crate::enumeration::list;

/// Largest message of a condition, in bytes (the limit of `metav1.Condition`).
pub const CONDITION_LIMIT: usize = 32_768;

/// Largest message of an event, in bytes.
pub const EVENT_LIMIT: usize = 1_024;

/// Exclusive maximum of characters of the first line for people.
pub const FIRST_LINE: usize = 300;

/// Upstream's line may take at most one part in this many of the whole.
const FIRST_LINE_SHARE: usize = 2;

const ELLIPSIS: &str = "…";

impl Explanation {
    /// Returns upstream's message as the first line, then the reasons with `hints` as an indented tree, then
    /// `advice`. The text has at most `limit` bytes. Each part is cut at its end, with a mark.
    pub fn text(&self, hints: &Hints, advice: &[String], limit: usize) -> String {
        let mut text = cut(&self.message(), limit / FIRST_LINE_SHARE);
        let advice: String = advice.iter().map(|line| format!("\n{line}")).collect();
        let advice = cut(&advice, limit / 4);
        let room = limit.saturating_sub(text.len() + advice.len());
        text.push_str(&whole_lines(&lines(&self.tree(hints), MAX_LINES, WIDTH), room));
        text.push_str(&advice);
        text
    }

    /// Returns one line of fewer than [`FIRST_LINE`] characters: upstream's message if it is short enough,
    /// else the root cause in our words.
    pub fn summary(&self) -> String {
        let message = self.message();
        if message.chars().count() < FIRST_LINE && !message.contains('\n') {
            return message;
        }
        let text = match &self.failure {
            Failure::Prevented { text, .. } => text.clone(),
            Failure::Unsatisfiable(reasons) => {
                let cause = reasons.iter().max_by_key(|reason| weight(reason));
                let cause = cause.map(root_cause).unwrap_or_default();
                let count = reasons.len();
                format!(
                    "constraints not satisfiable: {cause} ({count} constraints are involved; -o json has all)"
                )
            }
        };
        shorten(&text.split_whitespace().collect::<Vec<_>>().join(" "))
    }
}

/// Returns how likely a user can act on a reason.
fn weight(reason: &Reason) -> u8 {
    match reason {
        Reason::SubscriptionInvalid { .. } => 6,
        Reason::Requires { candidates, .. } if candidates.is_empty() => 5,
        Reason::RuntimeConstraint { .. }
        | Reason::Excluded { .. }
        | Reason::Held { .. }
        | Reason::Deprecated { .. } => 4,
        Reason::OneProvider { .. } => 3,
        Reason::OnePackage { .. } => 2,
        Reason::Replaces { .. } | Reason::NotReferenced { .. } => 1,
        _ => 0,
    }
}

fn root_cause(reason: &Reason) -> String {
    match reason {
        Reason::Requires {
            bundle, requirement, ..
        } => format!(
            "{} requires an operator {requirement}, and there is none",
            bundle.csv()
        ),
        Reason::OneProvider { api, members } => {
            format!("only one of {} may provide API {api}", names(members))
        }
        Reason::OnePackage { package, members } => {
            format!(
                "only one of {} may be installed, because all are of package {package}",
                names(members)
            )
        }
        other => other.to_string(),
    }
}

/// Returns the names of bundles with their origins: two catalogs may have the same bundle.
fn names(members: &[BundleId]) -> String {
    let names: Vec<String> = members.iter().map(BundleId::plain).collect();
    list(names.iter().map(String::as_str))
}

/// Shortens to at most one character less than [`FIRST_LINE`]. The end is kept, and the number of cut
/// characters is shown.
fn shorten(text: &str) -> String {
    let length = text.chars().count();
    if length < FIRST_LINE {
        return text.to_owned();
    }
    const TAIL: usize = 60;
    const HEAD: usize = FIRST_LINE - TAIL - 40;
    let head: String = text.chars().take(HEAD).collect();
    let tail: String = text.chars().skip(length - TAIL).collect();
    format!("{head}… {} characters …{tail}", length - HEAD - TAIL)
}

impl Tree {
    /// Returns the whole tree as indented lines.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        render(self, 0, &mut lines);
        lines
    }
}

fn render(tree: &Tree, depth: usize, lines: &mut Vec<String>) {
    lines.push(format!("{}- {}", "  ".repeat(depth), tree.text));
    for child in &tree.because {
        render(child, depth + 1, lines);
    }
}

/// Returns as many lines as fit, each after a line break.
fn whole_lines(lines: &[String], room: usize) -> String {
    let mut text = String::new();
    for (index, line) in lines.iter().enumerate() {
        let rest = lines.len() - index;
        let notice = format!("\n{ELLIPSIS} {rest} more lines");
        let needed = line.len() + 1 + if rest > 1 { notice.len() } else { 0 };
        if text.len() + needed > room {
            if text.len() + notice.len() <= room {
                text.push_str(&notice);
            }
            break;
        }
        text.push('\n');
        text.push_str(line);
    }
    text
}

/// Returns the text, or as much of it as fits with a mark after it.
pub fn cut(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let mut end = limit.saturating_sub(ELLIPSIS.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{ELLIPSIS}", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::CatalogKey;

    #[test]
    fn rivals_are_named_with_their_origins() {
        let catalog = CatalogKey {
            name: "cat".to_owned(),
            namespace: "olm".to_owned(),
        };
        let members = vec![
            BundleId::of_installed("ns", "etcd.v1"),
            BundleId::of_catalog(&catalog, "stable", "etcd.v1"),
        ];
        let reason = Reason::OneProvider {
            api: "Etcd (example.com/v1)".to_owned(),
            members,
        };
        assert_eq!(
            root_cause(&reason),
            "only one of etcd.v1 (installed), etcd.v1 (channel stable of catalog olm/cat) may provide API Etcd (example.com/v1)"
        );
    }
}
