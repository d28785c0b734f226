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

/// The command without what its help hides, which completion would offer all the same.
fn visible(command: &Command) -> Command {
    // Names have to live as long as the program, which ends with this command.
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

/// What completes a word that is no value of a flag, at the end of each command's part of the script.
const ANY_WORD: &str =
    "            COMPREPLY=( $(compgen -W \"${opts}\" -- \"${cur}\") )\n            return 0\n            ;;";
const NO_FLAG: &str = "            COMPREPLY=( $(compgen -W \"$(_opm_words)\" -- \"${cur}\") )\n            return 0\n            ;;";

/// As long as a word is empty the script offers flags, and with them no files; it should offer flags to who begins one.
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
