//! Words of the command line, before clap parses them.

use std::ffi::OsString;

use clap::{Arg, Command, CommandFactory as _};

use super::Args;

/// Returns the words of a call with `-A` and `-o FORMAT` moved behind the command that has them. clap itself accepts only the flags of
/// all commands, such as `-n`, before the command.
pub(crate) fn behind_command(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut root = Args::command();
    root.build();
    let mut words = words.into_iter();
    let mut before: Vec<OsString> = words.next().into_iter().collect();
    let mut moved = Vec::new();
    let mut at = &root;
    while at.has_subcommands()
        && let Some(word) = words.next()
    {
        let text = word.to_str().unwrap_or_default().to_owned();
        match text.as_str() {
            "-A" | "--all-namespaces" => moved.push(word),
            "-o" | "--output" => {
                moved.push(word);
                moved.extend(words.next());
            }
            flag if flag.starts_with("--output=") || flag.starts_with("-o") => moved.push(word),
            flag if flag.starts_with('-') && flag != "--" => {
                before.push(word);
                if find_flag(at, flag).is_some_and(takes_value) {
                    before.extend(words.next());
                }
            }
            name => {
                before.push(word);
                match at.find_subcommand(name) {
                    Some(subcommand) => at = subcommand,
                    None => break,
                }
            }
        }
    }
    before.into_iter().chain(moved).chain(words).collect()
}

/// Returns the flag of a command that a word names; `None` also for `--flag=value`.
pub(crate) fn find_flag<'a>(command: &'a Command, word: &str) -> Option<&'a Arg> {
    command.get_arguments().find(|arg| match word.strip_prefix("--") {
        Some(long) => arg.get_long() == Some(long),
        None => arg
            .get_short()
            .is_some_and(|short| word.strip_prefix('-') == Some(short.to_string().as_str())),
    })
}

/// Returns true if the next word is the value of a flag. Boolean flags have theirs behind `=`.
pub(crate) fn takes_value(arg: &Arg) -> bool {
    arg.get_action().takes_values() && !arg.is_require_equals_set()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_a_command_may_stand_before_it() {
        for (line, expected) in [
            ("-A list", "list -A"),
            ("-o name list -n shop", "list -o name -n shop"),
            ("-ojson --all-namespaces status", "status -ojson --all-namespaces"),
            ("--output=yaml catalog list", "catalog list --output=yaml"),
            ("catalog -A list --x", "catalog list -A --x"),
            // The value of a flag is no command.
            ("-n list -A status", "-n list status -A"),
            ("--context=a -A ls", "--context=a ls -A"),
            ("list -o name -A", "list -o name -A"),
            ("plan -f -A", "plan -f -A"),
            ("-A nope list", "nope -A list"),
            ("-A", "-A"),
            ("-o", "-o"),
            ("-- -A", "-- -A"),
            ("", ""),
        ] {
            let words = std::iter::once("kubectl-operator").chain(line.split_whitespace());
            let found = behind_command(words.map(OsString::from));
            let found: Vec<&str> = found.iter().skip(1).filter_map(|word| word.to_str()).collect();
            assert_eq!(found.join(" "), expected, "{line}");
        }
    }
}
