//! Asking before something is lost.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use anyhow::Context as _;

use crate::printer;

/// Whether it may be done: with --yes always, else if somebody on a terminal says so.
///
/// # Errors
/// The answer cannot be read.
pub(crate) fn confirm(question: &str, yes: bool) -> anyhow::Result<bool> {
    if yes {
        return Ok(true);
    }
    if !io::stdin().is_terminal() {
        printer::warning("nothing is changed: stdin is no terminal to ask on; say --yes");
        return Ok(false);
    }
    let _ = write!(io::stderr(), "{question} [y/N] ");
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    read.context("cannot read the answer")?;
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
    fn who_says_yes_beforehand_is_not_asked() {
        assert!(confirm("Sure?", true).unwrap());
    }
}
