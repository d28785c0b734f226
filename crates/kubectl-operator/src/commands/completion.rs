//! `kubectl operator completion`: prints a completion script, and answers kubectl's requests for choices. kubectl completes a
//! plugin by calling `kubectl_complete-NAME` with the words so far.

mod names;

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::builder::PossibleValue;
use clap::{Arg, Command, CommandFactory as _, ValueHint};
use clap_complete::Shell;

use self::names::Named;
use crate::args::words::{find_flag, takes_value};
use crate::args::{Args, ConnectionArgs};
use crate::{Verdict, printer};

/// Name of the program.
const PROGRAM: &str = "kubectl-operator";
/// Name under which kubectl calls the program for completion.
const ASKED: &str = "kubectl_complete-operator";
/// Hidden commands by which Cobra's scripts ask for choices, with and without descriptions.
const COMMANDS: [&str; 2] = ["__complete", "__completeNoDesc"];

/// Instruction to the shell in the last line of an answer, with the numbers of Cobra, kubectl's library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Directive {
    /// Offer files if there are no choices.
    Default = 0,
    /// Offer nothing else.
    NoFiles = 4,
    /// Offer directories.
    Directories = 16,
}

/// Prints a completion script for a shell.
///
/// # Errors
/// The script cannot be written to stdout.
pub(crate) fn run(shell: Shell) -> anyhow::Result<Verdict> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), PROGRAM, &mut script);
    printer::script(&String::from_utf8_lossy(&script))?;
    Ok(Verdict::Fine)
}

/// Returns the words to complete if the program is called for completion: under kubectl's name for it, or with the hidden commands of
/// Cobra, which scripts of upstream's plugin use.
pub(crate) fn asked_for(mut call: impl Iterator<Item = OsString>) -> Option<Vec<String>> {
    let program = call.next()?;
    let mut words: Vec<String> = call.map(|word| word.to_string_lossy().into_owned()).collect();
    if Path::new(&program).file_stem() == Some(OsStr::new(ASKED)) {
        return Some(words);
    }
    let is_command = words
        .first()
        .is_some_and(|word| COMMANDS.contains(&word.as_str()));
    is_command.then(|| words.split_off(1))
}

/// Returns the choices for the last of the words after `kubectl operator`, in kubectl's format. Each line is a choice and its
/// description; the last line is the directive. Names come from the cluster that the words select.
pub(crate) fn choices(words: &[String]) -> String {
    choices_with(words, &names::of_cluster)
}

/// Reads names for a connection. The text is the first argument of the command.
type ReadNames<'a> = &'a dyn Fn(Named, &ConnectionArgs, &str) -> Vec<String>;

fn choices_with(words: &[String], read_names: ReadNames<'_>) -> String {
    let mut command = Args::command();
    command.build();
    let (word, before) = words
        .split_last()
        .map_or(("", words), |(word, before)| (word, before));
    let (choices, directive) = choices_at(&command, before, word, read_names);
    let mut text = String::new();
    for (choice, meaning) in choices {
        text.push_str(&choice);
        if !meaning.is_empty() {
            text.push('\t');
            text.push_str(&meaning);
        }
        text.push('\n');
    }
    text.push_str(&format!(":{}\n", directive as u8));
    text
}

type Choices = Vec<(String, String)>;

fn choices_at(
    command: &Command,
    before: &[String],
    word: &str,
    read_names: ReadNames<'_>,
) -> (Choices, Directive) {
    let mut at = command;
    let mut path = Vec::new();
    let mut connection = ConnectionArgs::default();
    let mut of_flag: Option<&Arg> = None;
    let mut positionals = Vec::new();
    let mut only_positionals = false;
    for word in before {
        if let Some(flag) = of_flag.take() {
            note(&mut connection, flag, word);
            continue;
        }
        match word.as_str() {
            "--" => only_positionals = true,
            flag if flag.starts_with('-') && !only_positionals => match flag.split_once('=') {
                Some((flag, value)) => {
                    if let Some(flag) = find_flag(at, flag) {
                        note(&mut connection, flag, value);
                    }
                }
                None => of_flag = find_flag(at, flag).filter(|arg| takes_value(arg)),
            },
            name => match at.find_subcommand(name) {
                Some(subcommand) => {
                    at = subcommand;
                    path.push(at.get_name());
                }
                None => positionals.push(name),
            },
        }
    }
    let values = |arg: &Arg, word: &str| match names::named_by(&path, arg.get_id().as_str()) {
        Some(named) => {
            let first = positionals.first().copied().unwrap_or_default();
            let names = read_names(named, &connection, first).into_iter();
            let names = names.filter(|name| name.starts_with(word));
            (
                names.map(|name| (name, String::new())).collect(),
                Directive::NoFiles,
            )
        }
        None => values(arg, word),
    };
    if let Some(flag) = of_flag {
        return values(flag, word);
    }
    if word.starts_with('-') && !only_positionals {
        return match word.split_once('=') {
            Some((flag, value)) => {
                find_flag(at, flag).map_or((Vec::new(), Directive::NoFiles), |flag| values(flag, value))
            }
            None => (flags(at, word), Directive::NoFiles),
        };
    }
    let subcommands = at.get_subcommands().filter(|command| !command.is_hide_set());
    let names = subcommands.map(|command| (command.get_name().to_owned(), first_line(command.get_about())));
    let names: Choices = names.filter(|(name, _)| name.starts_with(word)).collect();
    match at.get_positionals().nth(positionals.len()) {
        Some(positional) if !at.has_subcommands() => values(positional, word),
        _ => (names, Directive::NoFiles),
    }
}

/// Notes the value of a flag that selects the cluster or the namespace.
fn note(connection: &mut ConnectionArgs, flag: &Arg, value: &str) {
    match flag.get_id().as_str() {
        "namespace" => connection.namespace = Some(value.to_owned()),
        "context" => connection.context = Some(value.to_owned()),
        "kubeconfig" => connection.kubeconfig = Some(value.into()),
        "as_user" => connection.as_user = Some(value.to_owned()),
        "as_group" => connection.as_group.push(value.to_owned()),
        _ => {}
    }
}

fn flags(command: &Command, word: &str) -> Choices {
    let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
    let named = shown.filter_map(|arg| Some((format!("--{}", arg.get_long()?), first_line(arg.get_help()))));
    named.filter(|(flag, _)| flag.starts_with(word)).collect()
}

fn values(arg: &Arg, word: &str) -> (Choices, Directive) {
    let possible = arg.get_possible_values();
    let shown = possible.iter().filter(|value| !value.is_hide_set());
    let named = shown.map(|value| {
        (
            value.get_name().to_owned(),
            first_line(PossibleValue::get_help(value)),
        )
    });
    let directive = match arg.get_value_hint() {
        ValueHint::AnyPath | ValueHint::FilePath => Directive::Default,
        ValueHint::DirPath => Directive::Directories,
        _ => Directive::NoFiles,
    };
    (
        named.filter(|(value, _)| value.starts_with(word)).collect(),
        directive,
    )
}

fn first_line(text: Option<&clap::builder::StyledStr>) -> String {
    let text = text.map(ToString::to_string).unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(words: &[&str]) -> Vec<String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let text = choices_with(&words, &|_, _, _| Vec::new());
        text.lines()
            .map(|line| line.split('\t').next().unwrap_or_default().to_owned())
            .collect()
    }

    #[test]
    fn every_command_and_flag_is_offered() {
        let command = Args::command();
        let names = command
            .get_subcommands()
            .map(|command| command.get_name().to_owned());
        let expected: Vec<String> = names.chain(["help", ":4"].map(str::to_owned)).collect();
        assert_eq!(told(&[""]), expected);
        assert!(expected.iter().any(|name| name == "explain"), "{expected:?}");
        assert_eq!(told(&["catalog", "l"]), ["list", ":4"]);
        assert_eq!(told(&[]), told(&[""]));
        assert_eq!(told(&["pl"]), ["plan", ":4"]);
        assert_eq!(told(&["approve", "--ye"]), ["--yes", ":4"]);
        assert_eq!(told(&["approve", "-n", "shop", "db", "--o"]), ["--output", ":4"]);
        let all = told(&["explain", "--"]);
        for flag in [
            "--namespace",
            "--context",
            "--kubeconfig",
            "--output",
            "--runtime-constraints",
            "--help",
        ] {
            assert!(all.iter().any(|line| line == flag), "{flag}: {all:?}");
        }
        // Each choice includes its description.
        let text = choices_with(&["appro".to_owned()], &|_, _, _| Vec::new());
        assert!(text.starts_with("approve\tApprove an install plan"));
    }

    #[test]
    fn values_of_a_flag_are_offered() {
        for words in [
            &["plan", "-o", ""][..],
            &["plan", "--output", ""],
            &["plan", "--output="],
        ] {
            assert_eq!(told(words), ["text", "json", "yaml", ":4"], "{words:?}");
        }
        assert_eq!(told(&["plan", "-o", "j"]), ["json", ":4"]);
        // The value of a flag is not taken for a command.
        assert_eq!(told(&["plan", "-n", "approve", "--st"]), ["--steps", ":4"]);
        assert_eq!(told(&["completion", "z"]), ["zsh", ":4"]);
        // The shell completes files and directories.
        assert_eq!(told(&["plan", "-f", ""]), [":0"]);
        assert_eq!(told(&["plan", "--kubeconfig="]), [":0"]);
        assert_eq!(told(&["plan", "--catalog", ""]), [":16"]);
        assert_eq!(told(&["approve", ""]), [":4"]);
        assert_eq!(told(&["approve", "--", "--"]), [":4"]);
        assert_eq!(told(&["plan", "--none="]), [":4"]);
    }

    #[test]
    fn names_of_the_cluster_are_offered() {
        let names = |named: Named, connection: &ConnectionArgs, first: &str| {
            let namespace = connection.namespace.as_deref().unwrap_or("default");
            let context = connection.context.as_deref().unwrap_or_default();
            let package = match named {
                Named::Channels | Named::Versions => format!("-of-{first}"),
                _ => String::new(),
            };
            let name = format!("{named:?}{context}-{namespace}{package}");
            vec![name, "other".to_owned()]
        };
        for (words, expected) in [
            ("status S", "Subscriptions-default"),
            ("-n shop approve S", "Subscriptions-shop"),
            ("uninstall -X S", "Subscriptions-default"),
            ("plan --subscription=S", "Subscriptions-default"),
            (
                "explain --namespace=shop --context one S",
                "Subscriptionsone-shop",
            ),
            ("install -C P", "Packages-default"),
            ("install etcd --catalog C", "Catalogs-default"),
            ("install etcd -w N", "Namespaces-default"),
            ("install etcd -c C", "Channels-default-of-etcd"),
            ("rights etcd --version=V", "Versions-default-of-etcd"),
            ("uninstall db --delete-crd D", "Definitions-default"),
            ("catalogs remove O", "OwnCatalogs-default"),
            ("describe etcd -n N", "Namespaces-default"),
            ("olmv1 get extensions E", "Extensions-default"),
            ("olmv1 adopt S", "Subscriptions-default"),
            ("olmv1 delete catalog C", "ClusterCatalogs-default"),
        ] {
            let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
            assert_eq!(
                choices_with(&words, &names),
                format!("{expected}\n:4\n"),
                "{words:?}"
            );
        }
    }

    /// Returns the arguments of a command and its subcommands that take a name but are not completed.
    fn left_out(command: &Command, path: &mut Vec<String>, found: &mut Vec<String>) {
        for arg in command.get_positionals() {
            let id = arg.get_id().as_str();
            let words: Vec<&str> = path.iter().map(String::as_str).collect();
            if arg.get_possible_values().is_empty() && names::named_by(&words, id).is_none() {
                found.push(format!("{} {id}", words.join(" ")));
            }
        }
        for subcommand in command.get_subcommands().filter(|it| it.get_name() != "help") {
            path.push(subcommand.get_name().to_owned());
            left_out(subcommand, path, found);
            path.pop();
        }
    }

    #[test]
    fn arguments_without_names_of_the_cluster_are_names_of_new_objects_and_images() {
        let mut command = Args::command();
        command.build();
        let mut found = Vec::new();
        left_out(&command, &mut Vec::new(), &mut found);
        assert_eq!(
            found,
            [
                "catalog add name",
                "catalog add image",
                "olmv1 create catalog name",
                "olmv1 create catalog source",
                "olmv1 install extension name",
            ]
        );
    }

    #[test]
    fn only_the_name_that_kubectl_asks_by_asks() {
        for (program, expected) in [
            ("kubectl_complete-operator", true),
            ("/usr/local/bin/kubectl_complete-operator", true),
            ("kubectl_complete-operator.exe", true),
            ("kubectl-operator", false),
            ("", false),
        ] {
            let call = [program, "pl"].map(OsString::from);
            let words = asked_for(call.into_iter());
            assert_eq!(words, expected.then(|| vec!["pl".to_owned()]), "{program}");
        }
        let asked = |words: &[&str]| {
            let words = ["kubectl-operator"].iter().chain(words).map(OsString::from);
            asked_for(words)
        };
        for command in ["__complete", "__completeNoDesc"] {
            assert_eq!(asked(&[command, "pl"]), Some(vec!["pl".to_owned()]));
        }
        assert_eq!(asked(&["plan", "__complete"]), None);
        assert_eq!(asked(&[]), None);
    }
}
