//! `catalog-operator`, `olm-operator`, `package-server`, `catalogd` and `operator-controller` in one program, selected by the name it
//! is called by. They share most of their code, so an image contains it once. Decision record 0043.

use std::ffi::OsString;
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

/// Runs a program with its arguments, of which the first is its name.
type Main = fn(Vec<OsString>) -> ExitCode;

/// The programs by name.
const PROGRAMS: [(&str, Main); 5] = [
    ("catalog-operator", catalog_operator::run::main),
    ("olm-operator", olm_operator::run::main),
    ("package-server", package_server::run::main),
    ("catalogd", catalogd::run::main),
    ("operator-controller", operator_controller::run::main),
];

/// Selects the program by the name of the link it is called by, else by the first argument. Returns it with its arguments; `None` if
/// no program is named.
fn call(mut arguments: Vec<OsString>) -> Option<(&'static str, Main, Vec<OsString>)> {
    let named = |argument: &OsString| {
        let name = Path::new(argument).file_name()?;
        PROGRAMS.into_iter().find(|(known, _)| name == *known)
    };
    if let Some((name, main)) = arguments.first().and_then(named) {
        return Some((name, main, arguments));
    }
    let (name, main) = arguments.get(1).and_then(named)?;
    arguments.remove(0);
    Some((name, main, arguments))
}

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let first = arguments.get(1).cloned();
    if let Some((_, main, arguments)) = call(arguments) {
        return main(arguments);
    }
    match first {
        Some(first) if first == "--help" || first == "-h" || first == "help" => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Some(first) => eprintln!("error: {first:?} is not a program of OLM's controllers\n\n{USAGE}"),
        None => eprintln!("error: no program given\n\n{USAGE}"),
    }
    ExitCode::from(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn a_link_or_the_first_word_says_which_program() {
        for (said, expected) in [
            (
                "/bin/olm-operator --debug",
                Some(("olm-operator", "/bin/olm-operator --debug")),
            ),
            ("catalog-operator", Some(("catalog-operator", "catalog-operator"))),
            // The name of a link takes precedence over the arguments.
            (
                "./package-server olm-operator",
                Some(("package-server", "./package-server olm-operator")),
            ),
            (
                "olm-controllers package-server --secure-port 1",
                Some(("package-server", "package-server --secure-port 1")),
            ),
            (
                "/bin/catalogd --leader-elect",
                Some(("catalogd", "/bin/catalogd --leader-elect")),
            ),
            (
                "operator-controller --debug",
                Some(("operator-controller", "operator-controller --debug")),
            ),
            ("olm-controllers --help", None),
            ("olm-controllers", None),
            ("olm-controllers opm", None),
            ("", None),
        ] {
            let called = call(words(said)).map(|(name, _, arguments)| (name, arguments));
            let expected = expected.map(|(name, arguments)| (name, words(arguments)));
            assert_eq!(called, expected, "{said}");
        }
    }
}
