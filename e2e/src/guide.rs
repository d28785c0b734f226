//! A guide of `docs/guides` as commands and their output.
//!
//! Every block ```` ```console ```` shows a terminal. A line that begins with `$ ` is a command; the lines up to the next command
//! are its output. A command continues while its lines end with a backslash, and up to the end of its here-documents. In the
//! output `...` matches any text within a line, or any lines if it is a line of its own. `<name>` matches one word that differs
//! between runs. The number of spaces is ignored, because it depends on the longest name of a table.
//!
//! A comment on the line before a block defines how it is run:
//!
//! - `<!-- test: fails with 2 -->`: the exit code of its only command. All others exit with 0.
//! - `<!-- test: not run: REASON -->`: it needs something that is missing here. A block ```` ```sh ```` must have this comment
//!   and no other.
//!
//! Blocks of other languages are ignored.
//!
//! A `kubectl wait` for the existence of an object, directly followed by another one for its state, is rejected. The second may
//! read from an API server cache that is behind, and fail because the object is missing. One loop of `kubectl get` does both.

use olm_testing::guides::blocks;

/// A command of a guide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// Its first line in the guide, from 1.
    pub line: usize,
    /// Input for a shell.
    pub script: String,
    /// Output that the guide shows.
    pub output: String,
    /// Exit code that the guide shows.
    pub code: i32,
}

/// Commands, in order, and the reasons why other blocks are not run, by line.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Guide {
    /// Commands that are run.
    pub commands: Vec<Command>,
    /// Blocks that are not run.
    pub not_run: Vec<(usize, String)>,
}

/// Mode of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Mode {
    FailsWith(i32),
    NotRun(String),
}

/// Reads a guide.
///
/// # Errors
/// An invalid test comment, or one without a block. A block without end, a shell block without comment, output without a command,
/// or a here-document without end.
pub fn read(text: &str) -> Result<Guide, String> {
    let mut guide = Guide::default();
    for block in blocks(text, parse_mode)? {
        let number = block.line;
        match (block.language, block.mode) {
            ("console" | "sh", Some(Mode::NotRun(reason))) => guide.not_run.push((number, reason)),
            ("console", mode) => {
                let mut commands = commands(&block.lines)?;
                refuse_two_waits(&commands)?;
                if let Some(Mode::FailsWith(code)) = mode {
                    let [command] = commands.as_mut_slice() else {
                        return Err(format!(
                            "line {number}: one command is to fail, in a block of its own"
                        ));
                    };
                    command.code = code;
                }
                guide.commands.extend(commands);
            }
            ("sh", _) => return Err(format!("line {number}: a block of shell that is not tried")),
            (_, Some(_)) => return Err(format!("line {number}: a comment for tests before no commands")),
            _ => {}
        }
    }
    Ok(guide)
}

/// Rejects two consecutive `kubectl wait`, as described for the module.
fn refuse_two_waits(commands: &[Command]) -> Result<(), String> {
    let waits = |command: &Command| command.script.starts_with("kubectl wait ");
    for pair in commands.windows(2) {
        let [first, second] = pair else { continue };
        if waits(first) && first.script.contains("--for=create") && waits(second) {
            return Err(format!(
                "line {}: waits for what was only just created: ask with `until kubectl get … | grep -q …` for both",
                second.line
            ));
        }
    }
    Ok(())
}

fn parse_mode(comment: &str) -> Option<Mode> {
    match comment.split_once(": ") {
        Some(("not run", reason)) if !reason.is_empty() => Some(Mode::NotRun(reason.to_owned())),
        _ => Some(Mode::FailsWith(
            comment.strip_prefix("fails with ")?.parse().ok()?,
        )),
    }
}

fn commands(block: &[(usize, &str)]) -> Result<Vec<Command>, String> {
    let mut commands: Vec<Command> = Vec::new();
    let mut lines = block.iter();
    while let Some((number, line)) = lines.next() {
        let Some(first) = line.strip_prefix("$ ") else {
            let Some(command) = commands.last_mut() else {
                return Err(format!("line {number}: output of no command"));
            };
            command.output.push_str(line);
            command.output.push('\n');
            continue;
        };
        let mut script = format!("{first}\n");
        let mut last = first;
        let mut open: Vec<&str> = here_documents(first);
        while last.ends_with('\\') || !open.is_empty() {
            let Some((_, line)) = lines.next() else {
                return Err(format!("line {number}: a command without end"));
            };
            script.push_str(line);
            script.push('\n');
            if open.first() == Some(line) {
                open.remove(0);
                last = "";
            } else if open.is_empty() {
                open = here_documents(line);
                last = line;
            }
        }
        commands.push(Command {
            line: *number,
            script,
            output: String::new(),
            code: 0,
        });
    }
    Ok(commands)
}

/// Returns the words that end the here-documents of a line.
fn here_documents(line: &str) -> Vec<&str> {
    line.split("<<")
        .skip(1)
        .filter_map(|rest| rest.split([' ', ')', '|', ';']).next())
        .map(|word| word.trim_matches(['\'', '"']))
        .filter(|word| !word.is_empty())
        .collect()
}

/// Returns true if the output equals the one that the guide shows.
pub fn is_as_shown(shown: &str, printed: &str) -> bool {
    let shown: Vec<&str> = shown.lines().map(str::trim_end).collect();
    let printed: Vec<&str> = printed.lines().map(str::trim_end).collect();
    lines_match(trimmed(&shown), trimmed(&printed))
}

/// Removes empty lines at the end.
fn trimmed<'a, 'b>(mut lines: &'a [&'b str]) -> &'a [&'b str] {
    while let [before @ .., ""] = lines {
        lines = before;
    }
    lines
}

fn lines_match(shown: &[&str], printed: &[&str]) -> bool {
    match (shown, printed) {
        ([], []) => true,
        (["...", rest @ ..], _) => {
            rest.is_empty() || (0..=printed.len()).any(|at| lines_match(rest, &printed[at..]))
        }
        ([first, shown @ ..], [line, printed @ ..]) => {
            line_matches(first, line) && lines_match(shown, printed)
        }
        _ => false,
    }
}

fn line_matches(shown: &str, printed: &str) -> bool {
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    matches(&words(shown), &words(printed))
}

/// Returns true if a line matches; `...` in `shown` is any text, `<name>` a word.
fn matches(shown: &str, printed: &str) -> bool {
    if let Some(rest) = shown.strip_prefix("...") {
        let ends = printed.char_indices().map(|(at, _)| at).chain([printed.len()]);
        return ends.into_iter().any(|at| matches(rest, &printed[at..]));
    }
    if let Some((_, rest)) = placeholder(shown) {
        // A placeholder's word ends at a blank, or where the rest of the guide's line matches.
        let longest = printed.find(char::is_whitespace).unwrap_or(printed.len());
        let ends = printed[..longest]
            .char_indices()
            .map(|(at, letter)| at + letter.len_utf8());
        return ends.into_iter().any(|at| matches(rest, &printed[at..]));
    }
    let (mut left, mut right) = (shown.chars(), printed.chars());
    match (left.next(), right.next()) {
        (None, None) => true,
        (Some(a), Some(b)) if a == b => matches(left.as_str(), right.as_str()),
        _ => false,
    }
}

/// Returns the placeholder at the beginning of a text, and the rest.
fn placeholder(text: &str) -> Option<(&str, &str)> {
    let (name, rest) = text.strip_prefix('<')?.split_once('>')?;
    let is_name = !name.is_empty()
        && name
            .chars()
            .all(|letter| letter.is_ascii_lowercase() || letter == '-');
    is_name.then_some((name, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(line: usize, script: &str, output: &str, code: i32) -> Command {
        Command {
            line,
            script: script.to_owned(),
            output: output.to_owned(),
            code,
        }
    }

    #[test]
    fn a_guide_is_read_as_commands_with_what_they_print() {
        let text = "# A\n\n```console\n$ a \\\n  b\nx\n\ny\n$ c\n```\n\n```yaml\nk: v\n```\n<!-- test: fails with 2 -->\n```console\n\
                    $ kubectl apply -f - <<'YAML' | cat\nkind: A\nYAML\nz\n```\n<!-- test: not run: needs Docker -->\n```sh\nd\n```\n";
        let guide = read(text).unwrap();
        assert_eq!(
            guide.commands,
            [
                command(4, "a \\\n  b\n", "x\n\ny\n", 0),
                command(9, "c\n", "", 0),
                command(17, "kubectl apply -f - <<'YAML' | cat\nkind: A\nYAML\n", "z\n", 2),
            ]
        );
        assert_eq!(guide.not_run, [(23, "needs Docker".to_owned())]);
    }

    #[test]
    fn what_no_test_can_understand_is_refused() {
        for (text, expected) in [
            ("<!-- test: skipped -->\n```console\n```\n", "unknown comment"),
            ("<!-- test: not run:  -->\n```sh\n```\n", "unknown comment"),
            (
                "<!-- test: not run: x -->\n\n```sh\n```\n",
                "right before a block",
            ),
            (
                "<!-- test: fails with 1 -->\n```yaml\n```\n",
                "before no commands",
            ),
            (
                "<!-- test: fails with 1 -->\n```console\n$ a\n$ b\n```\n",
                "one command is to fail",
            ),
            ("```sh\na\n```\n", "not tried"),
            (
                "```console\n$ kubectl wait --for=create a/b\n$ kubectl wait a/b --for=condition=Ready\n```\n",
                "only just created",
            ),
            ("```console\nx\n```\n", "output of no command"),
            ("```console\n$ a\n", "without end"),
            ("```console\n$ cat <<X\nY\n```\n", "a command without end"),
            ("```console\n$ a \\\n```\n", "a command without end"),
        ] {
            let error = read(text).expect_err(expected);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn output_is_compared_with_what_is_shown() {
        for (shown, printed, expected) in [
            ("a\nb\n", "a\nb\n", true),
            ("a\n", "a\nb\n", false),
            ("a\nb\n", "a\n", false),
            ("", "\n", true),
            ("", "a\n", false),
            ("a   b\n", "a b\n", true),
            ("...\nb\n", "a\na\nb\n", true),
            ("a\n...\nb\n", "a\nb\n", true),
            ("a\n...\n", "a\nb\nc\n", true),
            ("a\n...\n", "b\n", false),
            ("x ... z\n", "x y y z\n", true),
            ("x ... z\n", "x y\n", false),
            (
                "InstallPlan <plan>: Complete\n",
                "InstallPlan install-7xk: Complete\n",
                true,
            ),
            (
                "InstallPlan <plan>: Complete\n",
                "InstallPlan a b: Complete\n",
                false,
            ),
            (
                "InstallPlan <plan>: Complete\n",
                "InstallPlan : Complete\n",
                false,
            ),
            ("<none> x\n", "<none> x\n", true),
        ] {
            assert_eq!(is_as_shown(shown, printed), expected, "{shown:?} {printed:?}");
        }
    }
}
