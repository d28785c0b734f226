//! `.indexignore`: gitignore patterns that are tested against files only, so a later pattern can include a file below an excluded
//! folder again. Decision 0026 explains why this is not a library.

use std::path::Path;

/// Patterns of all ignore files, in the order they were read.
#[derive(Default)]
pub(super) struct Ignore {
    patterns: Vec<Pattern>,
}

struct Pattern {
    /// Folder of the ignore file, as path components.
    domain: Vec<String>,
    /// The pattern, split at slashes.
    parts: Vec<String>,
    negated: bool,
    /// True if the pattern ends with a slash and matches only folders.
    only_folders: bool,
    /// True if the pattern has a slash before its end: it matches from the domain on, not at any depth.
    anchored: bool,
}

impl Ignore {
    /// Adds the patterns of an ignore file in `folder`.
    pub(super) fn add(&mut self, folder: &Path, text: &str) {
        let domain = components(folder);
        self.patterns.extend(
            text.lines()
                .map(str::trim)
                .filter(|line| !line.is_empty() && !line.starts_with('#'))
                .map(|line| Pattern::new(domain.clone(), line)),
        );
    }

    /// Returns true if a file is excluded: the last matching pattern decides.
    pub(super) fn matches(&self, file: &Path) -> bool {
        let path = components(file);
        self.patterns
            .iter()
            .rev()
            .find(|pattern| pattern.matches(&path))
            .is_some_and(|pattern| !pattern.negated)
    }
}

impl Pattern {
    fn new(domain: Vec<String>, line: &str) -> Self {
        let (negated, line) = line.strip_prefix('!').map_or((false, line), |rest| (true, rest));
        let (only_folders, line) = line.strip_suffix('/').map_or((false, line), |rest| (true, rest));
        let anchored = line.contains('/');
        let parts = line
            .trim_start_matches('/')
            .split('/')
            .map(str::to_owned)
            .collect();
        Self {
            domain,
            parts,
            negated,
            only_folders,
            anchored,
        }
    }

    fn matches(&self, path: &[String]) -> bool {
        let Some(inside) = path
            .strip_prefix(self.domain.as_slice())
            .filter(|inside| !inside.is_empty())
        else {
            return false;
        };
        // A folder pattern matches a file through its parents.
        let candidates = if self.only_folders {
            &inside[..inside.len() - 1]
        } else {
            inside
        };
        if !self.anchored {
            let Some(part) = self.parts.first() else {
                return false;
            };
            return candidates.iter().any(|name| glob(part, name));
        }
        (1..=candidates.len()).any(|length| glob_path(&self.parts, &candidates[..length]))
    }
}

/// Matches path components; `**` matches any number of them. For each part the loop tracks which prefixes of the path the parts
/// so far match, so many `**` are not slow.
fn glob_path(parts: &[String], path: &[String]) -> bool {
    let mut matched = vec![false; path.len() + 1];
    matched[0] = true;
    for part in parts {
        if part == "**" {
            if let Some(first) = matched.iter().position(|matched| *matched) {
                matched[first..].fill(true);
            }
            continue;
        }
        for length in (0..path.len()).rev() {
            matched[length + 1] = matched[length] && glob(part, &path[length]);
        }
        matched[0] = false;
    }
    matched[path.len()]
}

/// Matches one path component: `*`, `?`, `[a-z]`, `[!a]`, `\x`. Only the last `*` backtracks, so no pattern is slow.
fn glob(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        if pattern.get(p) == Some(&'*') {
            star = Some((p, n));
            p += 1;
            continue;
        }
        if let Some(width) = match_one(&pattern[p.min(pattern.len())..], name[n]) {
            p += width;
            n += 1;
            continue;
        }
        let Some((at, taken)) = star else { return false };
        star = Some((at, taken + 1));
        p = at + 1;
        n = taken + 1;
    }
    pattern[p..].iter().all(|char| *char == '*')
}

/// Returns the number of pattern characters that match `char`; `None` if they do not match.
fn match_one(pattern: &[char], char: char) -> Option<usize> {
    match pattern {
        ['?', ..] => Some(1),
        ['\\', escaped, ..] => (*escaped == char).then_some(2),
        ['[', rest @ ..] => {
            let negated = matches!(rest.first(), Some('!' | '^'));
            let body = &rest[usize::from(negated)..];
            let end = body.iter().position(|char| *char == ']')?;
            let class = &body[..end];
            let mut hit = false;
            let mut at = 0;
            while let Some(&low) = class.get(at) {
                let high = match class.get(at + 1..at + 3) {
                    Some(['-', high]) => *high,
                    _ => low,
                };
                at += if high == low { 1 } else { 3 };
                hit |= (low..=high).contains(&char);
            }
            (hit != negated).then_some(end + 2 + usize::from(negated))
        }
        [literal, ..] => (*literal == char).then_some(1),
        [] => None,
    }
}

fn components(path: &Path) -> Vec<String> {
    path.components()
        .map(|component| component.as_os_str().to_string_lossy().into_owned())
        .collect()
}
