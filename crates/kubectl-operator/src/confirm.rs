//! Confirmation prompts.

use std::io::{self, BufRead, IsTerminal as _, Write};

use anyhow::Context as _;

use crate::printer;
use crate::terminal::escape;

/// Returns true if the action is confirmed: by `--yes`, or by an answer on the terminal.
///
/// # Errors
/// The answer cannot be read.
pub(crate) fn confirm(question: &str, yes: bool) -> anyhow::Result<bool> {
    let stdin = io::stdin();
    let mut terminal = has_terminal().then(|| stdin.lock());
    let terminal = terminal.as_mut().map(|lock| lock as &mut dyn BufRead);
    asked(question, yes, terminal, &mut io::stderr())
}

/// Returns true if stdin and stderr are terminals, so that a user can answer a question.
pub(crate) fn has_terminal() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Returns the same, but true without a terminal. It is for commands that scripts call in the way of upstream's plugin.
///
/// # Errors
/// The answer cannot be read.
pub(crate) fn unless_refused(question: &str, yes: bool) -> anyhow::Result<bool> {
    confirm(question, yes || !has_terminal())
}

/// Returns true if `yes` is set or the answer on `terminal` is positive. The question is written to `talk`.
fn asked(
    question: &str,
    yes: bool,
    terminal: Option<&mut dyn BufRead>,
    talk: &mut dyn Write,
) -> anyhow::Result<bool> {
    if yes {
        return Ok(true);
    }
    let Some(terminal) = terminal else {
        printer::warning("not a terminal, so nothing was changed; use --yes to proceed without a prompt");
        return Ok(false);
    };
    let _ = write!(talk, "{} [y/N] ", escape(question));
    let _ = talk.flush();
    let mut line = String::new();
    terminal.read_line(&mut line).context("cannot read the answer")?;
    Ok(is_yes(&line))
}

fn is_yes(answer: &str) -> bool {
    matches!(answer.trim(), "y" | "Y" | "yes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_yes_is_a_yes() {
        for (answer, expected) in [
            ("y\n", true),
            ("yes\n", true),
            ("\n", false),
            ("", false),
            ("no\n", false),
            ("yn", false),
        ] {
            assert_eq!(is_yes(answer), expected, "{answer:?}");
        }
    }

    #[test]
    fn a_user_on_a_terminal_is_asked() {
        let asked = |mut terminal: Option<&[u8]>| {
            let mut talk = Vec::new();
            let terminal = terminal.as_mut().map(|input| input as &mut dyn BufRead);
            let is_wanted = asked("Sure\u{1b}?", false, terminal, &mut talk).unwrap();
            (is_wanted, String::from_utf8(talk).unwrap())
        };
        let question = "Sure\\u{1b}? [y/N] ".to_owned();
        assert_eq!(asked(Some(b"y\n")), (true, question.clone()));
        for no in [&b"n\n"[..], b"", b"yesterday\n"] {
            assert_eq!(asked(Some(no)), (false, question.clone()));
        }
        assert_eq!(asked(None), (false, String::new()));
    }

    #[test]
    fn the_yes_flag_suppresses_the_prompt() {
        assert!(confirm("Sure?", true).unwrap());
    }
}
