//! Checks of links in Markdown.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::workspace;

/// Beginning and end of a code block.
const FENCE: &str = "```";

/// Returns broken relative links in the workspace's Markdown as `file:line: link`.
///
/// # Errors
/// git fails, or a file cannot be read.
pub(super) fn dead_links() -> anyhow::Result<Vec<String>> {
    let root = workspace::root();
    let listed = Command::new("git")
        .current_dir(&root)
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "*.md"])
        .output()
        .context("cannot run git")?;
    if !listed.status.success() {
        bail!("git ls-files failed: {}", String::from_utf8_lossy(&listed.stderr));
    }
    let mut found = Vec::new();
    for name in String::from_utf8_lossy(&listed.stdout).lines() {
        // git lists a deleted file until the deletion is committed.
        if root.join(name).is_file() {
            let dead = dead_in(&root.join(name)).with_context(|| format!("links of {name}"))?;
            found.extend(dead.iter().map(|fault| format!("{name}:{fault}")));
        }
    }
    Ok(found)
}

fn dead_in(file: &Path) -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    for (line, link) in links(&fs::read_to_string(file)?) {
        let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
        let target = match path {
            "" => file.to_owned(),
            path => file.with_file_name(path),
        };
        let is_page = target.extension().is_some_and(|extension| extension == "md");
        if !target.exists() {
            found.push(format!("{line}: {link}: no such file"));
        } else if is_page && !anchor.is_empty() && !anchors(&fs::read_to_string(&target)?).contains(anchor) {
            found.push(format!("{line}: {link}: no such heading"));
        }
    }
    Ok(found)
}

/// Returns the lines outside of code blocks with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with(FENCE);
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// Returns relative links with their lines: `[text](link)` and `[name]: link`.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        // Every other piece is code.
        let line: String = line.split('`').step_by(2).collect();
        let inline = line
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split([')', ' ']).next());
        let named = line
            .strip_prefix('[')
            .and_then(|rest| rest.split_once("]: "))
            .map(|(_, link)| link.trim());
        found.extend(
            inline
                .chain(named)
                .filter(|link| !link.contains("://") && !link.starts_with("mailto:"))
                .map(|link| (number, link.to_owned())),
        );
    }
    found
}

/// Returns the anchors of a document's headings, as GitHub generates them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (_, line) in prose(text) {
        let Some(heading) = line.trim_start_matches('#').strip_prefix(' ') else {
            continue;
        };
        if !line.starts_with('#') {
            continue;
        }
        // A link in a heading contributes only its text.
        let visible: String = heading
            .split("](")
            .enumerate()
            .map(|(at, part)| {
                if at == 0 {
                    part
                } else {
                    part.split_once(')').map_or("", |(_, rest)| rest)
                }
            })
            .collect();
        let slug: String = visible
            .trim()
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | ' '))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        let mut name = slug.clone();
        for number in 1.. {
            if found.insert(name) {
                break;
            }
            name = format!("{slug}-{number}");
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("docs")).unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write(
            "docs/b.md",
            "# Two words, and `code`\n\n## Same\n\n## Same\n\n## The [plan](x.md): `a_b`\n",
        );
        write("LICENSE", "");
        write(
            "README.md",
            "[a](docs/b.md), [b](docs/b.md#two-words-and-code) [c](docs/b.md#same-1)\n[d](docs) [e](#here)\n\
             [f](https://x/#y) `[g](nowhere.md)`\n# Here\n```\n[h](nowhere.md)\n```\n[i]: LICENSE\n[j](docs/b.md#the-plan-a_b)\n",
        );
        assert_eq!(dead_in(&folder.path().join("README.md")).unwrap(), [""; 0]);
        write(
            "README.md",
            "text\n[a](docs/c.md) [b](docs/b.md#three)\n[i]: LICENCE\n[n](#none)\n",
        );
        assert_eq!(
            dead_in(&folder.path().join("README.md")).unwrap(),
            [
                "2: docs/c.md: no such file",
                "2: docs/b.md#three: no such heading",
                "3: LICENCE: no such file",
                "4: #none: no such heading",
            ]
        );
    }
}
