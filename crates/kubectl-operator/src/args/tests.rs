//! Each invocation of upstream's plugin (its README, `--help` and demo) means here what it means there.

use std::time::Duration;

use clap::Parser as _;

use super::catalog::CatalogCommand;
use super::change::{OperandStrategy, WhoApproves};
use super::shared::UPSTREAM_TIMEOUT;
use super::{Args, Command};

fn parsed(line: &str) -> Args {
    let words = line.split_whitespace().map(|word| match word {
        "''" => "",
        word => word,
    });
    let words = std::iter::once("kubectl-operator").chain(words);
    Args::try_parse_from(words).unwrap_or_else(|error| panic!("{line}: {error}"))
}

/// Renders the parsed flags, with upstream's defaults for flags that are absent.
fn meaning(line: &str) -> String {
    let args = parsed(line);
    let timeout = args.timeout;
    let told = |timeout: Duration| format!("{}s", timeout.as_secs());
    let namespace = |connection: &super::ConnectionArgs| connection.namespace.clone().unwrap_or_default();
    match args.command {
        Command::Install(args) => format!(
            "install {} channel={} approval={} version={} watch={:?} group={} timeout={} ns={}",
            args.package,
            args.channel.clone().unwrap_or_default(),
            match args.approval {
                WhoApproves::Manual => "Manual",
                WhoApproves::Automatic => "Automatic",
            },
            args.version.clone().unwrap_or_default(),
            args.watched(),
            args.create_operator_group,
            told(args.wait.or(UPSTREAM_TIMEOUT).timeout()),
            namespace(&args.connection),
        ),
        Command::Upgrade(args) => format!(
            "upgrade {} channel={} timeout={} ns={}",
            args.approve.name,
            args.channel.unwrap_or_default(),
            told(args.wait.or(UPSTREAM_TIMEOUT).timeout()),
            namespace(&args.approve.connection),
        ),
        Command::Uninstall(args) => format!(
            "uninstall {} strategy={} operator={} groups={} names={:?} timeout={} ns={}",
            args.name,
            match args.strategy() {
                None | Some(OperandStrategy::Abort) => "abort",
                Some(OperandStrategy::Ignore) => "ignore",
                Some(OperandStrategy::Delete) => "delete",
            },
            args.deletes_operator(),
            args.deletes_groups(),
            super::shared::slice(&args.delete_operator_group_names),
            told(args.wait.or(UPSTREAM_TIMEOUT).timeout()),
            namespace(&args.connection),
        ),
        Command::List(args) => format!(
            "list all={} ns={}",
            args.all_namespaces,
            namespace(&args.connection)
        ),
        Command::ListAvailable(args) => format!(
            "list-available {} catalog={} timeout={:?} ns={}",
            args.package().unwrap_or_default(),
            args.catalog.clone().unwrap_or_default(),
            timeout,
            namespace(&args.connection),
        ),
        Command::ListOperands(args) => format!(
            "list-operands {} output={:?} ns={}",
            args.name,
            args.output,
            namespace(&args.connection)
        ),
        Command::Describe(args) => format!(
            "describe {} channel={} long={} catalog={} ns={}",
            args.package,
            args.channel.unwrap_or_default(),
            args.with_long_description,
            args.catalog.unwrap_or_default(),
            namespace(&args.connection),
        ),
        Command::Catalog(CatalogCommand::Add(args)) => format!(
            "add {} {} display={} publisher={} cleanup={} timeout={} keep={} confined={:?} ns={}",
            args.name,
            args.image,
            args.display_name.unwrap_or_default(),
            args.publisher.unwrap_or_default(),
            told(args.cleanup_timeout),
            told(args.wait.or(UPSTREAM_TIMEOUT).timeout()),
            args.keep,
            args.security_context,
            namespace(&args.connection),
        ),
        Command::Catalog(CatalogCommand::List(args)) => {
            format!(
                "catalogs all={} ns={}",
                args.all_namespaces,
                namespace(&args.connection)
            )
        }
        Command::Catalog(CatalogCommand::Remove(args)) => format!(
            "remove {} timeout={} ns={}",
            args.name,
            told(args.wait.or(UPSTREAM_TIMEOUT).timeout()),
            namespace(&args.connection)
        ),
        Command::Version { .. } => "version".to_owned(),
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn each_invocation_of_upstreams_plugin_means_the_same() {
    let install = |rest: &str| format!("install etcd {rest}");
    let plain = "version= watch=[] group=false timeout=60s ns=";
    let uninstall = "uninstall etcd strategy=";
    for (line, expected) in [
        ("install etcd", install(&format!("channel= approval=Manual {plain}"))),
        ("install etcd -c beta -a Automatic", install(&format!("channel=beta approval=Automatic {plain}"))),
        ("install etcd --channel=beta --approval=Manual", install(&format!("channel=beta approval=Manual {plain}"))),
        ("install prometheus --create-operator-group -v 0.32.0 -c beta",
            "install prometheus channel=beta approval=Manual version=0.32.0 watch=[] group=true timeout=60s ns=".to_owned()),
        ("install etcd -C -w a,b -w c -n shop", install("channel= approval=Manual version= watch=[\"a\", \"b\", \"c\"] group=true timeout=60s ns=shop")),
        ("install etcd -C=false --watch '' --cleanup-timeout 30s", install(&format!("channel= approval=Manual {plain}"))),
        ("install etcd --create-operator-group=true --version 1.0.0",
            install("channel= approval=Manual version=1.0.0 watch=[] group=true timeout=60s ns=")),
        ("--timeout 5m -n shop install etcd", install("channel= approval=Manual version= watch=[] group=false timeout=300s ns=shop")),
        ("install etcd --timeout 90s", install("channel= approval=Manual version= watch=[] group=false timeout=90s ns=")),
        ("upgrade etcd", "upgrade etcd channel= timeout=60s ns=".to_owned()),
        ("--namespace shop upgrade etcd -c beta --timeout=2m", "upgrade etcd channel=beta timeout=120s ns=shop".to_owned()),
        ("uninstall etcd", format!("{uninstall}abort operator=false groups=false names=[] timeout=60s ns=")),
        ("uninstall etcd -s ignore", format!("{uninstall}ignore operator=false groups=false names=[] timeout=60s ns=")),
        ("uninstall etcd --operand-strategy delete -n shop", format!("{uninstall}delete operator=false groups=false names=[] timeout=60s ns=shop")),
        ("uninstall etcd --operand-strategy=abort", format!("{uninstall}abort operator=false groups=false names=[] timeout=60s ns=")),
        ("uninstall etcd --delete-operator", format!("{uninstall}delete operator=true groups=false names=[] timeout=60s ns=")),
        ("uninstall etcd --delete-operator=true --delete-operator-groups=true",
            format!("{uninstall}delete operator=true groups=true names=[] timeout=60s ns=")),
        ("uninstall etcd --delete-operator-groups --delete-operator-group-names a,b",
            format!("{uninstall}abort operator=false groups=true names=[\"a\", \"b\"] timeout=60s ns=")),
        ("uninstall etcd -X", format!("{uninstall}delete operator=true groups=true names=[] timeout=60s ns=")),
        ("uninstall etcd --delete-all -s abort", format!("{uninstall}delete operator=true groups=true names=[] timeout=60s ns=")),
        ("list", "list all=false ns=".to_owned()),
        ("list -A", "list all=true ns=".to_owned()),
        ("list --all-namespaces -n shop", "list all=true ns=shop".to_owned()),
        ("list-available", "list-available  catalog= timeout=None ns=".to_owned()),
        ("list-available prometheus", "list-available prometheus catalog= timeout=None ns=".to_owned()),
        ("list-available -c olm/cat --timeout 1s", "list-available  catalog=olm/cat timeout=Some(1s) ns=".to_owned()),
        ("--timeout 1s list-available --catalog cat", "list-available  catalog=cat timeout=Some(1s) ns=".to_owned()),
        ("list-operands etcd", "list-operands etcd output=None ns=".to_owned()),
        ("list-operands etcd -o yaml -n shop", "list-operands etcd output=Some(Yaml) ns=shop".to_owned()),
        ("list-operands etcd --output=json", "list-operands etcd output=Some(Json) ns=".to_owned()),
        ("describe etcd", "describe etcd channel= long=false catalog= ns=".to_owned()),
        ("describe etcd -C beta -L -c olm/cat", "describe etcd channel=beta long=true catalog=olm/cat ns=".to_owned()),
        ("describe etcd --channel beta --with-long-description --catalog cat",
            "describe etcd channel=beta long=true catalog=cat ns=".to_owned()),
        ("catalog add cat image", "add cat image display= publisher= cleanup=60s timeout=60s keep=false confined=None ns=".to_owned()),
        ("catalog add cat image -d Cat -p Me --cleanup-timeout 5s -n olm",
            "add cat image display=Cat publisher=Me cleanup=5s timeout=60s keep=false confined=None ns=olm".to_owned()),
        ("-n olm catalog add cat image --display-name=Cat --publisher=Me",
            "add cat image display=Cat publisher=Me cleanup=60s timeout=60s keep=false confined=None ns=olm".to_owned()),
        ("catalog list -A", "catalogs all=true ns=".to_owned()),
        ("catalog list --all-namespaces", "catalogs all=true ns=".to_owned()),
        ("catalog -n olm list", "catalogs all=false ns=olm".to_owned()),
        ("catalog remove cat -n olm", "remove cat timeout=60s ns=olm".to_owned()),
        ("version", "version".to_owned()),
    ] {
        assert_eq!(meaning(line), expected, "{line}");
    }
}

/// Upstream's plugin rejects these invocations, too.
#[test]
fn what_upstreams_plugin_refuses_is_refused() {
    for line in [
        "install",
        "install a b",
        "install etcd -a Sometimes",
        "uninstall",
        "uninstall etcd -s keep",
        "uninstall etcd -X=maybe",
        "list -A=maybe",
        "upgrade",
        "list etcd",
        "list-available a b",
        "list-operands",
        "list-operands etcd -o wide",
        "describe",
        "catalog add cat",
        "catalog remove",
        "list --timeout soon",
    ] {
        let words = std::iter::once("kubectl-operator").chain(line.split_whitespace());
        assert!(Args::try_parse_from(words).is_err(), "{line}");
    }
}

/// As in upstream's plugin, switches take values, and the last of a repeated flag counts.
#[test]
fn switches_take_values_and_the_last_of_two_flags_counts() {
    let all = |line: &str| {
        let words = std::iter::once("kubectl-operator").chain(line.split_whitespace());
        let Command::List(args) = Args::try_parse_from(words).unwrap().command else {
            panic!("{line}");
        };
        args.all_namespaces
    };
    for (line, expected) in [
        ("list", false),
        ("list -A", true),
        ("list -A=true", true),
        ("list --all-namespaces=false", false),
        ("list -A -A", true),
        ("list -A=false --all-namespaces", true),
        ("list -Aojson", true),
    ] {
        assert_eq!(all(line), expected, "{line}");
    }
    let words = "kubectl-operator install etcd -c a -n one -n two --channel b".split(' ');
    let Command::Install(args) = Args::try_parse_from(words).unwrap().command else {
        panic!("install");
    };
    assert_eq!(args.channel.as_deref(), Some("b"));
    assert_eq!(args.connection.namespace.as_deref(), Some("two"));
}

#[test]
fn a_wrong_value_is_refused_with_its_flag_and_what_is_expected() {
    for (line, flag, expected) in [
        (
            "catalog add cat image --priority abc",
            "'--priority <NUMBER>'",
            "expected a whole number, such as -100 or 10",
        ),
        (
            "catalog add cat image --poll-interval 5",
            "'--poll-interval <DURATION>'",
            "expected for example 90s, 5m or 1h30m",
        ),
        (
            "plan --steps 0",
            "'--steps <NUMBER>'",
            "expected a number from 1 to 65535",
        ),
        (
            "ui --port 65536",
            "'--port <PORT>'",
            "expected a port from 0 to 65535",
        ),
    ] {
        let words = std::iter::once("kubectl-operator").chain(line.split_whitespace());
        let text = Args::try_parse_from(words).unwrap_err().to_string();
        assert!(text.contains(flag) && text.contains(expected), "{line}: {text}");
    }
}

/// Commands share the flag but wait for different events.
#[test]
fn help_names_the_default_timeout_of_each_command() {
    for (line, expected) in [
        ("install", "[default: 1m for the plan, 10m with --wait]"),
        ("upgrade", "[default: 1m for the plan, 10m with --wait]"),
        ("uninstall", "[default: 1m]"),
        ("status", "[default: 10m]"),
        ("catalog add", "[default: 1m]"),
        ("catalog remove", "[default: 1m]"),
        ("doctor", "[default: 5m]"),
        ("list", "[default: no limit]"),
        ("olmv1 install extension", "[default: 1m]"),
        ("olmv1 search catalog", "[default: 5m]"),
        ("olmv1 get catalog", "[default: no limit]"),
    ] {
        let words = std::iter::once("kubectl-operator").chain(line.split_whitespace());
        let help = Args::try_parse_from(words.chain(["--help"]))
            .unwrap_err()
            .to_string();
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        let (_, flag) = help.split_once("--timeout <DURATION>").unwrap();
        let end = flag.find(']').unwrap();
        assert!(flag[..=end].ends_with(expected), "{line}: {flag}");
    }
}
