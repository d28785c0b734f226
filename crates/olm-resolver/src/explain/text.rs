//! Explanations as text of bounded size.

use super::{Explanation, Tree};

/// Largest message of a condition, in bytes (the limit of `metav1.Condition`).
pub const CONDITION_LIMIT: usize = 32_768;

/// Largest message of an event, in bytes.
pub const EVENT_LIMIT: usize = 1_024;

/// Upstream's line may take no more than this share of the whole.
const FIRST_LINE_SHARE: usize = 2;

const ELLIPSIS: &str = "…";

impl Explanation {
    /// Upstream's message as the first line, then the reasons as an indented tree, then what `remedies` say; never more
    /// than `limit` bytes. What does not fit is left out from the end of each part, and marked.
    pub fn text(&self, remedies: &[String], limit: usize) -> String {
        let mut text = cut(&self.message(), limit / FIRST_LINE_SHARE);
        let advice: String = remedies
            .iter()
            .map(|remedy| format!("\nto resolve: {remedy}"))
            .collect();
        let advice = cut(&advice, limit / 4);
        let room = limit.saturating_sub(text.len() + advice.len());
        let mut lines = Vec::new();
        self.tree().iter().for_each(|tree| render(tree, 0, &mut lines));
        text.push_str(&whole_lines(&lines, room));
        text.push_str(&advice);
        text
    }
}

impl Tree {
    /// The tree as indented lines.
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

/// As many lines as fit, each after a line break.
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

/// The text, or as much of it as fits with a mark behind it.
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
