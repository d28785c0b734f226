//! Prints trees as few and short lines, with every cut marked.
//!
//! The displayed statements are chosen by leaves, as these are the root causes. The first leaf of every tree
//! is shown, then the second of every tree, and so on while there is room. If the path to a leaf is long,
//! only its two ends are shown.

use std::collections::BTreeMap;

use super::Tree;

/// Maximum lines of one explanation's trees. Fewer than 40, with nothing else counted.
pub const MAX_LINES: usize = 39;

/// Maximum characters of a line, indentation included. Two more are left for a caller's indentation, within
/// 120 columns.
pub const WIDTH: usize = 118;

/// Number of statements shown at each end of the path to a leaf.
const END: usize = 5;

/// Maximum lines of one statement.
const MAX_WRAPPED: usize = 3;

const INDENT: &str = "  ";

/// Returns the trees as at most `max_lines` indented lines of at most `width` characters. Cuts are marked.
pub fn lines(trees: &[Tree], max_lines: usize, width: usize) -> Vec<String> {
    let statements = Statements::of(trees);
    let mut best = Vec::new();
    // If not even one path fits, its statements get one line each.
    for wrapped in [MAX_WRAPPED, 1] {
        let paper = Paper { width, wrapped };
        let mut taken = Taken::new();
        for way in statements.ways() {
            let mut more = taken.clone();
            take(&way, &mut more);
            let lines = statements.render(&more, paper);
            if lines.len() <= max_lines || taken.is_empty() {
                taken = more;
                best = lines;
            } else if best.len() + 1 >= max_lines {
                break;
            }
        }
        if best.len() <= max_lines {
            break;
        }
    }
    best
}

/// Format of the output.
#[derive(Clone, Copy)]
struct Paper {
    /// Maximum characters of a line.
    width: usize,
    /// Maximum lines of a statement.
    wrapped: usize,
}

/// The statements of paths, each with whether it is shown. The others are omitted in between instead of being
/// cut off.
type Taken = BTreeMap<usize, bool>;

/// Takes a path. Both of its ends are shown, or the whole if it is hardly longer.
fn take(way: &[usize], taken: &mut Taken) {
    let is_short = way.len() <= 2 * END + 1;
    let last = way.len().saturating_sub(END);
    for (place, &statement) in way.iter().enumerate() {
        *taken.entry(statement).or_default() |= is_short || place < END || place >= last;
    }
}

struct Statement<'a> {
    text: &'a str,
    parent: Option<usize>,
    children: Vec<usize>,
}

/// All statements of some trees, parents before children.
#[derive(Default)]
struct Statements<'a> {
    all: Vec<Statement<'a>>,
    roots: Vec<usize>,
}

impl<'a> Statements<'a> {
    fn of(trees: &'a [Tree]) -> Self {
        let mut statements = Statements::default();
        let mut open: Vec<(&'a Tree, Option<usize>)> = trees.iter().rev().map(|tree| (tree, None)).collect();
        while let Some((tree, parent)) = open.pop() {
            let index = statements.all.len();
            statements.all.push(Statement {
                text: &tree.text,
                parent,
                children: Vec::new(),
            });
            match parent {
                Some(parent) => statements.all[parent].children.push(index),
                None => statements.roots.push(index),
            }
            open.extend(tree.because.iter().rev().map(|child| (child, Some(index))));
        }
        statements
    }

    /// Returns paths from a root to each leaf: the first leaf of every root, then the second, and so on.
    fn ways(&self) -> Vec<Vec<usize>> {
        let leaves = (0..self.all.len()).filter(|&index| self.all[index].children.is_empty());
        let mut ways: Vec<(usize, usize, Vec<usize>)> = Vec::new();
        let mut counts = vec![0; self.all.len()];
        for leaf in leaves {
            let mut way = vec![leaf];
            let mut current = leaf;
            while let Some(parent) = self.all[current].parent {
                way.push(parent);
                current = parent;
            }
            way.reverse();
            ways.push((counts[current], current, way));
            counts[current] += 1;
        }
        ways.sort();
        ways.into_iter().map(|(_, _, way)| way).collect()
    }

    fn render(&self, taken: &Taken, paper: Paper) -> Vec<String> {
        let view = View {
            statements: self,
            taken,
            paper,
        };
        let mut lines = Vec::new();
        view.siblings(&self.roots, 0, &mut lines);
        lines
    }
}

struct View<'a> {
    statements: &'a Statements<'a>,
    taken: &'a Taken,
    paper: Paper,
}

impl View<'_> {
    fn siblings(&self, siblings: &[usize], depth: usize, lines: &mut Vec<String>) {
        let mut cut = 0;
        for &index in siblings {
            match self.taken.get(&index) {
                Some(true) => {
                    let Statement { text, children, .. } = &self.statements.all[index];
                    push_wrapped(text, depth, self.paper, lines);
                    self.siblings(children, depth + 1, lines);
                }
                Some(false) => {
                    let (ends, passed) = self.skip(index);
                    lines.push(format!(
                        "{}… {passed} statements in between are omitted",
                        INDENT.repeat(depth)
                    ));
                    self.siblings(&ends, depth + 1, lines);
                }
                None => cut += 1,
            }
        }
        if cut > 0 {
            let (noun, verb) = if cut == 1 {
                ("statement", "is")
            } else {
                ("statements", "are")
            };
            let kind = if depth == 0 { "" } else { "more " };
            lines.push(format!(
                "{}… {cut} {kind}{noun} of this kind {verb} omitted",
                INDENT.repeat(depth)
            ));
        }
    }

    /// Returns the nearest shown statements below an omitted one, with the number of omitted statements.
    fn skip(&self, start: usize) -> (Vec<usize>, usize) {
        let (mut ends, mut passed) = (Vec::new(), 0);
        let mut open = vec![start];
        while let Some(index) = open.pop() {
            match self.taken.get(&index) {
                Some(true) => ends.push(index),
                Some(false) => {
                    passed += 1;
                    open.extend(&self.statements.all[index].children);
                }
                None => passed += 1,
            }
        }
        ends.sort_unstable();
        (ends, passed)
    }
}

/// Adds one statement as `- …`, further lines indented below it. Omitted characters are counted.
fn push_wrapped(text: &str, depth: usize, paper: Paper, lines: &mut Vec<String>) {
    let indent = INDENT.repeat(depth);
    let room = paper
        .width
        .saturating_sub(indent.chars().count() + INDENT.len())
        .max(20);
    let mut wrapped = wrap(text, room);
    if wrapped.len() > paper.wrapped {
        let rest = wrapped.split_off(paper.wrapped - 1).join(" ");
        let all = rest.chars().count();
        let mark = |shown: usize| format!("… ({} more characters)", all - shown);
        let kept = room.saturating_sub(mark(0).chars().count());
        let text: String = rest.chars().take(kept).collect();
        wrapped.push(format!("{text}{}", mark(kept.min(all))));
    }
    for (place, line) in wrapped.iter().enumerate() {
        let bullet = if place == 0 { "- " } else { INDENT };
        lines.push(format!("{indent}{bullet}{line}"));
    }
}

/// Breaks text into lines of at most `room` characters between words. A longer word is broken within.
fn wrap(text: &str, room: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut taken = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if taken > 0 && taken + 1 + length > room {
            lines.push(String::new());
            taken = 0;
        }
        if taken > 0 {
            push(&mut lines, ' ');
            taken += 1;
        }
        for character in word.chars() {
            if taken == room {
                lines.push(String::new());
                taken = 0;
            }
            push(&mut lines, character);
            taken += 1;
        }
    }
    lines
}

fn push(lines: &mut [String], character: char) {
    if let Some(line) = lines.last_mut() {
        line.push(character);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn leaf(text: &str) -> Tree {
        Tree {
            text: text.to_owned(),
            because: Vec::new(),
        }
    }

    fn chain(length: usize) -> Tree {
        let mut tree = leaf("the root cause");
        for index in (0..length).rev() {
            tree = Tree {
                text: format!("statement {index}"),
                because: vec![tree],
            };
        }
        tree
    }

    #[test]
    fn what_is_short_stays_whole() {
        let tree = Tree {
            text: "a".to_owned(),
            because: vec![leaf("b"), leaf("c")],
        };
        assert_eq!(
            lines(&[tree, leaf("d")], MAX_LINES, WIDTH),
            ["- a", "  - b", "  - c", "- d"]
        );
    }

    #[test]
    fn of_a_long_chain_both_ends_are_shown() {
        let found = lines(&[chain(20)], MAX_LINES, WIDTH);
        insta::assert_snapshot!(found.join("\n"), @r"
        - statement 0
          - statement 1
            - statement 2
              - statement 3
                - statement 4
                  … 11 statements in between are omitted
                    - statement 16
                      - statement 17
                        - statement 18
                          - statement 19
                            - the root cause
        ");
    }

    #[test]
    fn of_many_trees_each_has_its_turn_and_the_rest_is_counted() {
        let trees: Vec<Tree> = (0..100).map(|index| leaf(&format!("tree {index}"))).collect();
        let found = lines(&trees, 4, WIDTH);
        assert_eq!(
            found,
            [
                "- tree 0",
                "- tree 1",
                "- tree 2",
                "… 97 statements of this kind are omitted"
            ]
        );
    }

    #[test]
    fn long_statements_are_wrapped_and_cut_with_their_length() {
        let text = "word ".repeat(40);
        let found = lines(&[leaf(text.trim())], MAX_LINES, 42);
        assert_eq!(found.len(), 3);
        assert_eq!(found[0], format!("- {}", "word ".repeat(8).trim()));
        assert_eq!(found[1], format!("  {}", "word ".repeat(8).trim()));
        assert!(found[2].ends_with("more characters)"), "{found:?}");
        assert!(found.iter().all(|line| line.chars().count() <= 42), "{found:?}");
    }

    fn trees() -> impl Strategy<Value = Tree> {
        let text = || "[a-zä…]{1,9}( [a-z]{1,160}){0,6}";
        let leaf = text().prop_map(|text: String| leaf(&text));
        leaf.prop_recursive(24, 200, 5, move |inner| {
            (text(), prop::collection::vec(inner, 1..5)).prop_map(|(text, because)| Tree { text, because })
        })
    }

    proptest! {
        #![proptest_config(olm_testing::properties::config(300))]

        #[test]
        fn no_tree_is_too_long_or_too_wide_and_a_root_cause_is_kept(trees in prop::collection::vec(trees(), 1..8)) {
            let found = lines(&trees, MAX_LINES, WIDTH);
            prop_assert!(found.len() <= MAX_LINES, "{}", found.len());
            prop_assert!(found.iter().all(|line| line.chars().count() <= WIDTH), "{:?}", found);
            let mut first = &trees[0];
            while let Some(child) = first.because.first() {
                first = child;
            }
            let start: String = first.text.split_whitespace().next().unwrap().chars().take(20).collect();
            prop_assert!(found.iter().any(|line| line.trim_start().starts_with(&format!("- {start}"))), "{} in {:?}", start, found);
        }
    }
}
