//! Asking before something is lost.

use std::io::{self, BufRead, IsTerminal as _, Write};

use anyhow::Context as _;

use crate::printer;
use crate::terminal::escape;

/// Whether it may be done: with --yes always, else if somebody on a terminal says so.
///
/// # Errors
/// The answer cannot be read.
pub(crate) fn confirm(question: &str, yes: bool) -> anyhow::Result<bool> {
    let stdin = io::stdin();
    let mut terminal = has_terminal().then(|| stdin.lock());
    let terminal = terminal.as_mut().map(|lock| lock as &mut dyn BufRead);
    asked(question, yes, terminal, &mut io::stderr())
}

/// Whether somebody can be asked: sees the question, and can answer it.
pub(crate) fn has_terminal() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// The same for commands that scripts call as they call upstream's plugin: where nobody can be asked it is done.
///
/// # Errors
/// The answer cannot be read.
pub(crate) fn unless_refused(question: &str, yes: bool) -> anyhow::Result<bool> {
    confirm(question, yes || !has_terminal())
}

/// The same of the answer on `terminal`, if there is one. What is talked about goes to `talk`.
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
        printer::warning("nothing is changed: stdin is no terminal to ask on; say --yes");
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
    fn somebody_on_a_terminal_is_asked() {
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
    fn who_says_yes_beforehand_is_not_asked() {
        assert!(confirm("Sure?", true).unwrap());
    }
}
