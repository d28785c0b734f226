//! `catalog-operator`, `olm-operator`, `package-server`, `catalogd` and `operator-controller` in one program, selected by the name it
//! is called by. They share most of their code, so an image contains it once. Decision record 0043.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use tikv_jemallocator::Jemalloc;

/// Returns free memory to the system, which the system's allocator does only at the end of its heap: decision record 0024.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

const USAGE: &str = "The controllers of OLM in one program.

Usage: olm-controllers <PROGRAM> [FLAGS]

or, as in its image, by a link of the program's name: <PROGRAM> [FLAGS]

Programs:
  catalog-operator     CatalogSource, Subscription and InstallPlan
  olm-operator         ClusterServiceVersion and OperatorGroup
  package-server       the API of PackageManifests
  catalogd             ClusterCatalog, and the server of their contents
  operator-controller  ClusterExtension and ClusterObjectSet

`olm-controllers <PROGRAM> --help` lists the flags of each.";

/// The programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Program {
    CatalogOperator,
    OlmOperator,
    PackageServer,
    Catalogd,
    OperatorController,
}

impl Program {
    fn named(name: &OsStr) -> Option<Self> {
        match Path::new(name).file_name()?.to_str()? {
            "catalog-operator" => Some(Self::CatalogOperator),
            "olm-operator" => Some(Self::OlmOperator),
            "package-server" => Some(Self::PackageServer),
            "catalogd" => Some(Self::Catalogd),
            "operator-controller" => Some(Self::OperatorController),
            _ => None,
        }
    }

    fn run(self, arguments: Vec<OsString>) -> ExitCode {
        match self {
            Self::CatalogOperator => catalog_operator::program::main(arguments),
            Self::OlmOperator => olm_operator::program::main(arguments),
            Self::PackageServer => package_server::program::main(arguments),
            Self::Catalogd => catalogd::program::main(arguments),
            Self::OperatorController => operator_controller::program::main(arguments),
        }
    }
}

/// The request in the arguments.
#[derive(Debug, PartialEq, Eq)]
enum Call {
    /// Runs a program with its arguments; the first is its name.
    Run(Program, Vec<OsString>),
    /// Prints the help.
    Help,
    /// No program is named; the value is the unknown name.
    Unknown(Option<OsString>),
}

/// Selects the program by the name of the link it is called by, else by the first argument.
fn call(mut arguments: Vec<OsString>) -> Call {
    if let Some(program) = arguments.first().and_then(|name| Program::named(name)) {
        return Call::Run(program, arguments);
    }
    let first = arguments.get(1).cloned();
    match first.as_deref().and_then(Program::named) {
        Some(program) => {
            arguments.remove(0);
            Call::Run(program, arguments)
        }
        None if first
            .as_deref()
            .is_some_and(|first| first == "--help" || first == "-h" || first == "help") =>
        {
            Call::Help
        }
        None => Call::Unknown(first),
    }
}

fn main() -> ExitCode {
    match call(std::env::args_os().collect()) {
        Call::Run(program, arguments) => program.run(arguments),
        Call::Help => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        Call::Unknown(said) => {
            match said {
                Some(said) => eprintln!("error: {said:?} is not a program of OLM's controllers\n\n{USAGE}"),
                None => eprintln!("error: no program given\n\n{USAGE}"),
            }
            ExitCode::from(2)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn a_link_or_the_first_word_says_which_program() {
        let run = |program, text| Call::Run(program, words(text));
        for (said, expected) in [
            (
                "/bin/olm-operator --debug",
                run(Program::OlmOperator, "/bin/olm-operator --debug"),
            ),
            (
                "catalog-operator",
                run(Program::CatalogOperator, "catalog-operator"),
            ),
            // The name of a link takes precedence over the arguments.
            (
                "./package-server olm-operator",
                run(Program::PackageServer, "./package-server olm-operator"),
            ),
            (
                "olm-controllers package-server --secure-port 1",
                run(Program::PackageServer, "package-server --secure-port 1"),
            ),
            (
                "/bin/catalogd --leader-elect",
                run(Program::Catalogd, "/bin/catalogd --leader-elect"),
            ),
            (
                "operator-controller --debug",
                run(Program::OperatorController, "operator-controller --debug"),
            ),
            ("olm-controllers --help", Call::Help),
            ("olm-controllers", Call::Unknown(None)),
            ("olm-controllers opm", Call::Unknown(Some("opm".into()))),
            ("", Call::Unknown(None)),
        ] {
            assert_eq!(call(words(said)), expected, "{said}");
        }
    }
}
