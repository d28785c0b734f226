//! Syntax that upstream's flag parser accepts and clap does not: values for switches, repeated flags, `-x=`.

use std::ffi::OsString;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Command, CommandFactory as _, Error, FromArgMatches as _};

use super::Args;

/// Reads the command line, program name included.
///
/// # Errors
/// Clap's errors, preceded by upstream's text if there is one.
pub(crate) fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Args, Error> {
    let command = repeatable(Args::command());
    let arguments = rewrite(arguments, &command);
    command
        .try_get_matches_from(arguments)
        .and_then(|matches| Args::from_arg_matches(&matches))
        .map(Args::with_short_flags)
}

/// Makes the last value of a repeated flag win.
fn repeatable(command: Command) -> Command {
    command.args_override_self(true).mut_subcommands(repeatable)
}

/// Names of flags that clap reads differently from upstream, with their dashes.
#[derive(Default)]
struct Flags {
    /// Flags without a value.
    switches: Vec<String>,
    /// Flags that may be missing: an empty value means their default.
    optional: Vec<String>,
}

fn is_optional(argument: &Arg) -> bool {
    let has_default = !argument.get_default_values().is_empty();
    // An empty word is not among the choices, as in upstream.
    let is_choice = !argument.get_possible_values().is_empty();
    !argument.is_required_set() && !argument.is_require_equals_set() && !has_default && !is_choice
}

impl Flags {
    /// Adds the flags of a command, without those of its subcommands: a letter may mean something else in another command.
    fn add(&mut self, command: &Command) {
        for argument in command.get_arguments() {
            let long = argument.get_long().map(|name| format!("--{name}"));
            let short = argument.get_short().map(|letter| format!("-{letter}"));
            match argument.get_action() {
                ArgAction::SetTrue => self.switches.extend(long),
                ArgAction::Set if is_optional(argument) => {
                    self.optional.extend(long.into_iter().chain(short));
                }
                _ => {}
            }
        }
    }
}

/// Rewrites arguments: `--switch=true` sets the switch, `--switch=false` clears it, the value of `-x=` is `=`, and a flag with an empty
/// value is dropped. `command` is the program; its flags and those of the commands that are named so far count.
fn rewrite(arguments: impl Iterator<Item = OsString>, command: &Command) -> Vec<OsString> {
    let mut out: Vec<OsString> = Vec::new();
    let mut flags_end = false;
    let mut command = command;
    let mut flags = Flags::default();
    flags.add(command);
    let mut arguments = arguments.peekable();
    while let Some(argument) = arguments.next() {
        let text = argument.to_str().filter(|_| !flags_end);
        if let Some(named) = text.and_then(|text| command.find_subcommand(text)) {
            command = named;
            flags.add(command);
        }
        let is_optional = |name: &str| flags.optional.iter().any(|flag| flag == name);
        if text.is_some_and(is_optional) && arguments.next_if(|value| value.is_empty()).is_some() {
            continue;
        }
        match text.and_then(|text| text.split_once('=')) {
            Some((name, value)) if flags.switches.iter().any(|switch| switch == name) => {
                match go_compat::boolean::parse(value) {
                    Ok(true) => out.push(name.into()),
                    Ok(false) => out.retain(|known| known != name),
                    Err(_) => out.push(argument),
                }
            }
            Some((name, "")) if name.starts_with("--") && is_optional(name) => {}
            Some((name, "")) if name.len() == 2 && name.starts_with('-') && name != "--" => {
                out.extend([name.into(), "=".into()]);
            }
            _ => {
                flags_end |= argument == "--";
                out.push(argument);
            }
        }
    }
    out
}

/// Returns the message for an invalid command line: one error, with upstream's text if there is one, then tips and usage.
pub(crate) fn usage_error(error: &Error) -> String {
    let rendered = error.render().to_string();
    let (own, rest) = rendered.split_once("\n\n").unwrap_or((&rendered, ""));
    let text = upstream_text(error).unwrap_or_else(|| own.trim_start_matches("error: ").to_owned());
    let Some(tip) = other_command(error) else {
        return format!("Error: {text}\n\n{rest}");
    };
    // It replaces clap's tip about a similar command.
    let rest = match rest.split_once("\n\n") {
        Some((alike, rest)) if alike.starts_with("  tip:") => rest,
        _ => rest,
    };
    format!("Error: {text}\n\n  tip: {tip}\n\n{rest}")
}

/// Returns a tip for a command that another program of the project has.
fn other_command(error: &Error) -> Option<&'static str> {
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    (name == "explain" && command_path(error)? == "opm")
        .then_some("'opm plan' shows what OLM would do, and why it would not")
}

/// Returns upstream's text for an invalid command line, where scripts could look for it.
fn upstream_text(error: &Error) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    match error.kind() {
        ErrorKind::UnknownArgument => {
            let argument = text(ContextKind::InvalidArg)?;
            match argument.strip_prefix("--") {
                Some(name) => Some(format!("unknown flag: --{}", name.split('=').next()?)),
                None => {
                    let short = argument.strip_prefix('-')?.chars().next()?;
                    Some(format!("unknown shorthand flag: '{short}' in {argument}"))
                }
            }
        }
        ErrorKind::InvalidSubcommand => {
            let name = text(ContextKind::InvalidSubcommand)?;
            Some(format!("unknown command {name:?} for {:?}", command_path(error)?))
        }
        ErrorKind::InvalidValue => {
            let flag = text(ContextKind::InvalidArg)?
                .strip_prefix("--")?
                .split(' ')
                .next()?;
            let Some(ContextValue::Strings(valid)) = error.get(ContextKind::ValidValue) else {
                return None;
            };
            let value = text(ContextKind::InvalidValue).unwrap_or_default();
            Some(format!(
                "invalid --{flag} value {value:?}, expected ({})",
                valid.join("|")
            ))
        }
        _ => None,
    }
}

/// Returns `opm alpha list` for the usage line `Usage: opm alpha list [OPTIONS] <COMMAND>`.
fn command_path(error: &Error) -> Option<String> {
    let Some(ContextValue::StyledStr(usage)) = error.get(ContextKind::Usage) else {
        return None;
    };
    let usage = StyledStr::to_string(usage);
    let words = usage.strip_prefix("Usage: ")?.split(' ');
    let path: Vec<&str> = words.take_while(|word| !word.starts_with(['[', '<'])).collect();
    Some(path.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(text: &str) -> impl Iterator<Item = OsString> + '_ {
        text.split(' ').map(|word| word.replace('_', " ").into())
    }

    #[test]
    fn switches_take_values() {
        let command = Args::command();
        for (given, expected) in [
            ("opm render --migrate=true c", "opm render --migrate c"),
            ("opm render --migrate=F c --use-http=1", "opm render c --use-http"),
            ("opm render --migrate c --migrate=false", "opm render c"),
            ("opm render --migrate=x", "opm render --migrate=x"),
            ("opm --output=true -c=x", "opm --output=true -c=x"),
            ("opm -- --migrate=true -c=", "opm -- --migrate=true -c="),
        ] {
            let expected: Vec<OsString> = arguments(expected).collect();
            assert_eq!(rewrite(arguments(given), &command), expected, "{given}");
        }
        assert_eq!(rewrite(arguments("opm -c="), &command), ["opm", "-c", "="]);
    }

    /// D17: the error for `-o xml` was printed twice, in upstream's words and in clap's.
    #[test]
    fn a_wrong_command_line_is_one_error_with_tips_and_usage() {
        for (given, expected) in [
            (
                "opm render c -o xml",
                "Error: invalid --output value \"xml\", expected (json|yaml)\n\n  tip: a similar value exists: 'yaml'\n\n\
                 For more information, try '--help'.\n",
            ),
            (
                "opm rendr",
                "Error: unknown command \"rendr\" for \"opm\"\n\n  tip: a similar subcommand exists: 'render'\n\n\
                 Usage: opm [OPTIONS] <COMMAND>\n\nFor more information, try '--help'.\n",
            ),
            (
                "opm explain db",
                "Error: unknown command \"explain\" for \"opm\"\n\n  tip: 'opm plan' shows what OLM would do, and why it would \
                 not\n\nUsage: opm [OPTIONS] <COMMAND>\n\nFor more information, try '--help'.\n",
            ),
            (
                "opm plan c f --steps -1",
                "Error: invalid value '-1' for '--steps <NUMBER>': -1 is not in 1..=65535\n\n\
                 For more information, try '--help'.\n",
            ),
            (
                "opm validate",
                "Error: the following required arguments were not provided:\n  <DIRECTORY>\n\n\
                 Usage: opm validate <DIRECTORY>\n\nFor more information, try '--help'.\n",
            ),
        ] {
            let error = parse(arguments(given)).expect_err(given);
            assert_eq!(usage_error(&error), expected, "{given}");
        }
    }

    #[test]
    fn wrong_command_lines_are_reported_in_upstreams_words() {
        for (given, expected) in [
            ("opm render c --bogus=1", "unknown flag: --bogus"),
            ("opm init x -z", "unknown shorthand flag: 'z' in -z"),
            ("opm bogus", r#"unknown command "bogus" for "opm""#),
            ("opm alpha list x", r#"unknown command "x" for "opm alpha list""#),
            (
                "opm render c -o xml",
                r#"invalid --output value "xml", expected (json|yaml)"#,
            ),
            (
                "opm init x --output=",
                r#"invalid --output value "", expected (json|yaml)"#,
            ),
            (
                "opm alpha render-template basic f -o x",
                r#"invalid --output value "x", expected (json|yaml|mermaid)"#,
            ),
        ] {
            let error = parse(arguments(given)).expect_err(given);
            assert_eq!(upstream_text(&error).as_deref(), Some(expected), "{given}");
        }
    }
}
