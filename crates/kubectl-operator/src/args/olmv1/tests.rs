use clap::{CommandFactory as _, Parser as _};

use super::*;
use crate::args::shared::slice;
use crate::args::{Args, Command};

fn parsed(words: &[&str]) -> Result<Olmv1Command, clap::Error> {
    let words = ["kubectl-operator", "olmv1"].iter().chain(words);
    match Args::try_parse_from(words)?.command {
        Command::Olmv1(command) => Ok(command),
        other => panic!("{other:?}"),
    }
}

/// The flags of `olmv1` in upstream's plugin, by its source, with their short forms.
#[test]
fn each_command_has_upstreams_names_and_flags() {
    let mut root = Args::command();
    root.build();
    let write = ["dry-run", "output/o"];
    let catalog = [
        "priority",
        "available",
        "source-poll-interval-minutes",
        "labels",
        "image",
    ];
    let extension = [
        "channels/c",
        "version/v",
        "labels",
        "crd-upgrade-safety-enforcement",
        "upgrade-constraint-policy",
        "catalog-selector/l",
    ];
    let install = [
        "namespace/n",
        "package-name/p",
        "service-account/s",
        "cleanup-timeout",
    ];
    let search = [
        "catalog",
        "list-versions",
        "package",
        "catalogd-namespace",
        "timeout",
    ];
    for (command, flags) in [
        ("create catalog", [&write[..], &catalog, &["cleanup-timeout"]]),
        ("update catalog", [&write, &catalog, &["ignore-unset"]]),
        ("update extension", [&write, &extension, &["ignore-unset"]]),
        ("install extension", [&write, &extension, &install]),
        ("delete catalog", [&write, &["all/a"], &[]]),
        ("delete extension", [&write, &["all/a"], &[]]),
        ("get catalog", [&["output/o", "selector/l"], &[], &[]]),
        ("get extension", [&["output/o", "selector/l"], &[], &[]]),
        ("search catalog", [&["output/o", "selector/l"], &search, &[]]),
    ] {
        for plural in ["", "s"] {
            let mut at = &root;
            for name in format!("olmv1 {command}{plural}").split(' ') {
                at = at.find_subcommand(name).unwrap();
            }
            for flag in flags.iter().copied().flatten().copied() {
                let (long, short) = flag.split_once('/').unwrap_or((flag, ""));
                let is_so = |arg: &&clap::Arg| arg.get_long() == Some(long);
                let arg = at.get_arguments().find(is_so);
                let arg = arg.unwrap_or_else(|| panic!("{command}: {flag}"));
                assert_eq!(arg.get_short(), short.chars().next(), "{command}: {flag}");
            }
        }
    }
}

#[test]
fn values_are_those_of_upstreams_plugin() {
    let words = [
        "install",
        "extension",
        "etcd",
        "-p",
        "etcd",
        "-c",
        "stable,beta",
        "--channels",
        "dev",
        "--labels",
        "a=b,c=",
        "--labels",
        "d=e=f",
        "--upgrade-constraint-policy=SelfCertified",
        "--crd-upgrade-safety-enforcement=None",
        "--dry-run=All",
        "-v",
        ">=1.2, <2.0",
    ];
    let Ok(Olmv1Command::Install(InstallCommand::Extension(args))) = parsed(&words) else {
        panic!("install");
    };
    assert_eq!(slice(&args.fields.channels), ["stable", "beta", "dev"]);
    let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    assert_eq!(
        args.fields.labels,
        [label("a", "b"), label("c", ""), label("d", "e=f")]
    );
    assert_eq!(
        args.fields.upgrade_constraint_policy,
        Some(UpgradeConstraintPolicy::SelfCertified)
    );
    assert_eq!(
        args.fields.crd_upgrade_safety_enforcement,
        Some(CrdUpgradeSafetyEnforcement::None)
    );
    assert!(args.write.is_dry_run());
    assert_eq!(args.service_account, None);
    assert_eq!(args.cleanup_timeout, Duration::from_secs(60));

    let words = [
        "update",
        "catalog",
        "cat",
        "--priority",
        "-5",
        "--source-poll-interval-minutes",
        "-1",
        "--available",
        "false",
        "--ignore-unset=false",
    ];
    let Ok(Olmv1Command::Update(UpdateCommand::Catalog(args))) = parsed(&words) else {
        panic!("update");
    };
    assert_eq!(
        (args.fields.priority, args.fields.source_poll_interval_minutes),
        (Some(-5), Some(-1))
    );
    assert_eq!(args.fields.available, Some(false));
    assert!(!args.unset.ignore_unset);
}

#[test]
fn a_wrong_value_is_refused_with_what_is_expected() {
    for (words, expected) in [
        (&["create", "catalog", "cat"][..], "<IMAGE>"),
        (&["install", "extension", "etcd"], "--package-name <PACKAGE>"),
        (
            &["update", "extension", "etcd", "--version", "a b"],
            "expected for example 1.2.x",
        ),
        (
            &["update", "extension", "etcd", "--labels", "a"],
            "expected KEY=VALUE",
        ),
        (
            &["update", "catalog", "cat", "--source-poll-interval-minutes", "-2"],
            "0 or -1 means never",
        ),
        (
            &["update", "catalog", "cat", "--available", "maybe"],
            "--available",
        ),
        (
            &["delete", "catalog", "cat", "--dry-run", "none"],
            "[possible values: All]",
        ),
        (&["get", "catalog", "a", "b"], "unexpected argument"),
        (&["get", "catalog", "-o", "wide"], "[possible values: json, yaml]"),
        (&["search", "catalog", "cat"], "unexpected argument"),
    ] {
        let text = parsed(words).unwrap_err().to_string();
        assert!(text.contains(expected), "{words:?}: {text}");
    }
}

#[test]
fn every_command_teaches_with_examples_and_exit_codes() {
    for command in [
        "adopt",
        "create catalog",
        "delete catalog",
        "delete extension",
        "get catalog",
        "get extension",
        "install extension",
        "plan",
        "search catalog",
        "status",
        "update catalog",
        "update extension",
    ] {
        let words: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        let help = parsed(&words).unwrap_err().to_string();
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        let example = format!(
            "Examples: kubectl operator olmv1 {}",
            command.split(' ').next().unwrap()
        );
        for part in ["Exit codes: 0 if", example.as_str()] {
            assert!(help.contains(part), "{command}: {part}: {help}");
        }
    }
}

/// Upstream's plugin has no flag for it either.
#[test]
fn the_help_says_how_to_set_the_namespace_to_watch() {
    let patch = r#"-p \ '{"spec":{"config":{"configType":"Inline","inline":{"watchNamespace":"shop"}}}}'"#;
    for command in ["install", "update"] {
        let help = parsed(&[command, "extension", "--help"]).unwrap_err().to_string();
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in ["spec.config.inline.watchNamespace", patch] {
            assert!(help.contains(part), "{command}: {part}: {help}");
        }
    }
}
