//! `opm completion`

use clap::{Command, CommandFactory as _};
use clap_complete::Shell;

use crate::args::Args;
use crate::printer;

pub(crate) fn run(shell: Shell) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut visible(&Args::command()), "opm", &mut script);
    let script = String::from_utf8_lossy(&script);
    printer::data(&match shell {
        Shell::Bash => with_files(&script),
        _ => script.into_owned(),
    })
}

/// Returns the command without hidden parts, which completion would offer otherwise.
fn visible(command: &Command) -> Command {
    // Names must live as long as the program, which exits after this command.
    let name: &'static str = Box::leak(command.get_name().to_owned().into_boxed_str());
    let arguments = command.get_arguments().filter(|argument| !argument.is_hide_set());
    let subcommands = command.get_subcommands().filter(|command| !command.is_hide_set());
    let mut shown = Command::new(name)
        .args(arguments.cloned())
        .subcommands(subcommands.map(visible));
    if let Some(about) = command.get_about() {
        shown = shown.about(about.clone());
    }
    if command.get_version().is_some() {
        shown = shown.version(env!("CARGO_PKG_VERSION"));
    }
    shown
}

/// Generated code that completes a word other than a flag's value, at the end of each command's part of the script.
const ANY_WORD: &str =
    "            COMPREPLY=( $(compgen -W \"${opts}\" -- \"${cur}\") )\n            return 0\n            ;;";
const NO_FLAG: &str = "            COMPREPLY=( $(compgen -W \"$(_opm_words)\" -- \"${cur}\") )\n            return 0\n            ;;";

/// Changes the script to offer files for an empty word, and flags only for a word that begins like one.
fn with_files(script: &str) -> String {
    let words = "# What is offered besides flags; where nothing is, bash offers files.
_opm_words() {
    local word
    for word in ${opts}; do
        [[ ${word} == -* ]] || echo \"${word}\"
    done
}

";
    let mut text = words.to_owned();
    for line in script.lines() {
        match line.split_once(" || ${COMP_CWORD} -eq ") {
            Some((condition, _)) => text.push_str(&format!("{condition} ]] ; then")),
            None => text.push_str(line),
        }
        text.push('\n');
    }
    text.replace(ANY_WORD, NO_FLAG)
}
