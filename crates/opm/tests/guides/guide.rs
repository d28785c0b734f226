//! A guide as steps: its shell code blocks and their output.
//!
//! Every block ```` ```sh ```` is a step. A block ```` ```text ```` is the output of the previous step; in it `…` matches any
//! text of a line. A comment on the line before a block defines how it is run:
//!
//! - `<!-- test: not run: REASON -->`: it needs something that is missing here. Its output is not compared, either.
//! - `<!-- test: fails with 1 -->`: the exit code that the guide wants to show.
//! - `<!-- test: keeps running -->`: a server, until the end of the guide.
//! - `<!-- test: needs a static opm -->`: runs with a stand-in for the image that a static program makes of itself.
//!
//! Blocks of other languages are ignored.

use olm_testing::guides::blocks;

/// A block of shell.
#[derive(Debug, PartialEq, Eq)]
pub struct Step {
    /// Line of its fence, from 1.
    pub line: usize,
    /// Mode of the step.
    pub mode: Mode,
    /// The commands.
    pub script: String,
    /// Output that the guide shows.
    pub output: Option<String>,
}

/// Mode of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    /// Runs until it ends, with this exit code.
    Ends(i32),
    /// Runs beside the following steps.
    KeepsRunning,
    /// Runs like [`Mode::Ends`] with 0, with a program that can make an image of itself.
    NeedsStatic,
    /// Is not run, for this reason.
    NotRun(String),
}

/// Returns the steps of a guide.
///
/// # Errors
/// A test comment that is invalid or has no block, output without a step, or a block without end.
pub fn steps(text: &str) -> Result<Vec<Step>, String> {
    let mut steps: Vec<Step> = Vec::new();
    for block in blocks(text, parse_mode)? {
        let number = block.line;
        let content: String = block.lines.iter().map(|(_, line)| format!("{line}\n")).collect();
        match (block.language, block.mode) {
            ("sh", mode) => steps.push(Step {
                line: number,
                mode: mode.unwrap_or(Mode::Ends(0)),
                script: content,
                output: None,
            }),
            (_, Some(_)) => return Err(format!("line {number}: a comment for tests before no shell")),
            ("text", None) => match steps.last_mut() {
                Some(step) if step.output.is_none() => step.output = Some(content),
                _ => return Err(format!("line {number}: output of no step")),
            },
            _ => {}
        }
    }
    Ok(steps)
}

fn parse_mode(comment: &str) -> Option<Mode> {
    match comment {
        "keeps running" => Some(Mode::KeepsRunning),
        "needs a static opm" => Some(Mode::NeedsStatic),
        _ => match comment.split_once(": ") {
            Some(("not run", reason)) if !reason.is_empty() => Some(Mode::NotRun(reason.to_owned())),
            _ => Some(Mode::Ends(comment.strip_prefix("fails with ")?.parse().ok()?)),
        },
    }
}

/// Returns true if the output equals that of the guide: line by line, with `…` matching any text of a line.
pub fn is_as_shown(shown: &str, printed: &str) -> bool {
    let (mut shown, mut printed) = (shown.lines(), printed.lines());
    loop {
        match (shown.next(), printed.next()) {
            (None, None) => return true,
            (Some(shown), Some(printed)) if line_matches(shown, printed) => {}
            _ => return false,
        }
    }
}

fn line_matches(shown: &str, printed: &str) -> bool {
    let mut parts = shown.split('…');
    let Some(mut rest) = parts.next().and_then(|first| printed.strip_prefix(first)) else {
        return false;
    };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    true
}

#[test]
fn guides_are_read_as_steps() {
    let text = "# A\n\n```sh\na\nb\n```\n\nprints\n\n```text\nx…\n```\n\n```yaml\nk: v\n```\n\n<!-- test: not run: needs a cluster -->\n```sh\nc\n```\n\n\
                <!-- test: fails with 2 -->\n```sh\nd\n```\n<!-- test: keeps running -->\n```sh\ne\n```\n<!-- test: needs a static opm -->\n```sh\nf\n```\n";
    let step = |line, mode, script: &str, output: Option<&str>| Step {
        line,
        mode,
        script: script.to_owned(),
        output: output.map(str::to_owned),
    };
    assert_eq!(
        steps(text).expect("steps"),
        [
            step(3, Mode::Ends(0), "a\nb\n", Some("x…\n")),
            step(19, Mode::NotRun("needs a cluster".to_owned()), "c\n", None),
            step(24, Mode::Ends(2), "d\n", None),
            step(28, Mode::KeepsRunning, "e\n", None),
            step(32, Mode::NeedsStatic, "f\n", None),
        ]
    );
}

#[test]
fn what_no_test_can_understand_is_refused() {
    for (text, expected) in [
        ("<!-- test: skipped -->\n```sh\n```\n", "unknown comment"),
        ("<!-- test: not run:  -->\n```sh\n```\n", "unknown comment"),
        (
            "<!-- test: keeps running -->\n\n```sh\n```\n",
            "right before a block",
        ),
        ("<!-- test: keeps running -->\n```yaml\n```\n", "before no shell"),
        ("```text\nx\n```\n", "output of no step"),
        (
            "```sh\na\n```\n```text\nx\n```\n```text\ny\n```\n",
            "output of no step",
        ),
        ("```sh\na\n", "without end"),
    ] {
        let error = steps(text).expect_err(expected);
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn output_is_compared_line_by_line() {
    for (shown, printed, expected) in [
        ("a\nb\n", "a\nb\n", true),
        ("a\n", "a\nb\n", false),
        ("a\nb\n", "a\n", false),
        ("a\n", "ab\n", false),
        ("x@…\n", "x@sha\n", true),
        ("x…z\n", "xyz\n", true),
        ("x…z\n", "xy\n", false),
        ("…b…\n", "abc\n", true),
        ("…b…\n", "ac\n", false),
        ("…\n", "a\nb\n", false),
    ] {
        assert_eq!(is_as_shown(shown, printed), expected, "{shown:?} {printed:?}");
    }
}
